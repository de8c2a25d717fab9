// SPDX-License-Identifier: BSD-2-Clause
#include "link/match.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link/host_clock.h"
#include "schema/trace_names.h"
#include "util/list.h"

#define STREAM_NAME_MAX (2 * MESSAGE_ADDRESS_MAX + 2)
/* The kernel's counts of a connection may differ by this: some include the sequence numbers of its SYN and FIN. */
#define BASE_SLACK 2

/* ---- events ---- */

static const char *const number_keys[] = { "bytes", "position", "sequence", "call_ns" };
#define NUMBERS (sizeof(number_keys) / sizeof(number_keys[0]))

void message_event_number(struct message_event *e, const char *key, uint64_t value)
{
	uint64_t *const members[NUMBERS] = { &e->bytes, &e->position, &e->sequence, &e->call_ns };

	for (size_t i = 0; key && i < NUMBERS; i++) {
		if (strcmp(key, number_keys[i]))
			continue;
		*members[i] = value;
		e->found |= 1u << i;
	}
}

void message_event_text(struct message_event *e, const char *key, const char *text)
{
	if (key && !strcmp(key, "local"))
		e->local = text;
	else if (key && !strcmp(key, "peer"))
		e->peer = text;
}

static bool message_is_complete(const struct message_event *e)
{
	return e->name && (!strcmp(e->name, MESSAGE_SENT) || !strcmp(e->name, MESSAGE_RECEIVED)) && e->local && e->peer &&
	       strlen(e->local) < MESSAGE_ADDRESS_MAX && strlen(e->peer) < MESSAGE_ADDRESS_MAX && e->found == (1u << NUMBERS) - 1 &&
	       e->bytes && e->bytes <= UINT32_MAX && e->sequence <= UINT32_MAX && e->call_ns < LINK_NS_MAX && link_time_fits(e->ns) &&
	       e->position <= INT64_MAX && e->position + BASE_SLACK >= e->bytes;
}

/* Returns the name with this text, added if it is new. NULL: over max names. */
static struct match_name *name_get(struct match_names *l, const char *text, size_t len, size_t max)
{
	struct match_name *n;

	HASH_FIND(hh, l->by_text, text, len, n);
	if (n || l->n == max)
		return n;
	n = xcalloc(1, sizeof(*n) + len + 1);
	memcpy(n->text, text, len);
	n->id = (uint32_t)l->n;
	HASH_ADD_KEYPTR(hh, l->by_text, n->text, len, n);
	*list_push(l->list, l->n, l->size) = n;
	return n;
}

static void names_clear(struct match_names *l)
{
	HASH_CLEAR(hh, l->by_text);
	for (size_t i = 0; i < l->n; i++)
		free(l->list[i]);
	free(l->list);
}

void messages_add(struct messages *m, const struct message_event *e)
{
	char name[STREAM_NAME_MAX];
	struct match_name *s;
	bool sent;

	if (!message_is_complete(e))
		return;
	sent = !strcmp(e->name, MESSAGE_SENT);
	snprintf(name, sizeof(name), "%s>%s", sent ? e->local : e->peer, sent ? e->peer : e->local);
	s = m->n < MESSAGES_MAX ? name_get(&m->streams, name, strlen(name), MESSAGE_STREAMS_MAX) : NULL;
	if (!s) {
		m->left_out++;
		return;
	}
	*list_push(m->list, m->n, m->size) = (struct message){ .from_ns = e->ns - (int64_t)e->call_ns,
		.to_ns = e->ns,
		.position = e->position,
		.base = (uint32_t)(e->sequence - e->position),
		.bytes = (uint32_t)e->bytes,
		.stream = s->id,
		.sent = sent };
}

static int compare_messages(const void *x, const void *y)
{
	const struct message *a = x, *b = y;

	return cmp_int(a->stream, b->stream) ?: cmp_int(b->sent, a->sent) ?
					: cmp_int(a->base, b->base)       ?
									  : cmp_int(a->position, b->position);
}

void messages_finish(struct messages *m, int64_t later_ns)
{
	for (size_t i = 0; i < m->n; i++) {
		m->list[i].from_ns += later_ns;
		m->list[i].to_ns += later_ns;
	}
	list_sort(m->list, m->n, compare_messages);
}

void messages_clear(struct messages *m)
{
	names_clear(&m->streams);
	free(m->list);
	memset(m, 0, sizeof(*m));
}

/* ---- pairs ---- */

/* Returns the call that sent the byte before the receiver's position `behind`; NULL: it is not in the recording. */
static const struct message *messages_find_sender(const struct messages *m, uint32_t stream, const struct message *received, uint64_t behind)
{
	for (int slack = -BASE_SLACK; slack <= BASE_SLACK; slack++) {
		/* with a base higher by slack, the same byte's position is lower by slack */
		uint32_t base = received->base + (uint32_t)slack;
		uint64_t position = behind - (uint64_t)(int64_t)slack;
		const struct message key = { .stream = stream, .sent = true, .base = base, .position = position };
		size_t i = bisect(m->n, k, compare_messages(&m->list[k], &key) < 0);
		const struct message *s = &m->list[i];

		if (i < m->n && s->stream == stream && s->sent && s->base == base && s->position - s->bytes + 1 <= position)
			return s;
	}
	return NULL;
}

void messages_match(const struct messages *from, const struct messages *to, void (*pair)(void *arg, const struct message_pair *p), void *arg)
{
	for (size_t i = 0; i < to->n; i++) {
		struct message_pair p = { .received = &to->list[i] };
		const char *name = to->streams.list[p.received->stream]->text;
		struct match_name *s;

		if (p.received->sent)
			continue;
		HASH_FIND_STR(from->streams.by_text, name, s);
		p.sent = s ? messages_find_sender(from, s->id, p.received, p.received->position) : NULL;
		if (s && !p.sent) /* a FIN takes a sequence number like a byte */
			p.sent = messages_find_sender(from, s->id, p.received, p.received->position - 1);
		if (p.sent)
			pair(arg, &p);
	}
}

/* Length of the prefix that all variants of a CUDA function share: LaunchKernel, LaunchKernelExC. */
#define CUDA_KEY_CHARS 12

/* Returns the name without "cuda" or "cu"; NULL: it is not CUDA's. */
static const char *cuda_part(const char *name)
{
	if (!strncmp(name, "cuda", 4) && isupper((unsigned char)name[4]))
		return name + 4;
	if (!strncmp(name, "cu", 2) && isupper((unsigned char)name[2]))
		return name + 2;
	return NULL;
}

static const char *aten_part(const char *name)
{
	return strncmp(name, "aten::", 6) ? name : name + 6;
}

/* Returns the length without the suffixes of the driver's versions of a function. */
static size_t cuda_len(const char *part)
{
	size_t len = strlen(part);

	if (len > 5 && !strcmp(part + len - 5, "_ptsz"))
		len -= 5;
	if (len > 3 && part[len - 3] == '_' && part[len - 2] == 'v' && isdigit((unsigned char)part[len - 1]))
		len -= 3;
	return len;
}

uint64_t span_key(const char *name)
{
	const char *part = cuda_part(name);
	size_t lead, len;

	if (part) {
		len = cuda_len(part);
		return name_hash(part, len < CUDA_KEY_CHARS ? len : CUDA_KEY_CHARS) ^ 1;
	}
	/* cut at an underscore, before an overload (mul_Tensor) or at the end (mul_) */
	part = aten_part(name);
	lead = strspn(part, "_");
	return name_hash(part, lead + strcspn(part + lead, "_"));
}

int span_compare_keys(const void *x, const void *y)
{
	uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

	return cmp_int(a, b);
}

/* The runtime's function for C, cudaLaunchKernelExC, calls the driver's cuLaunchKernelEx. */
static size_t runtime_len(const char *part)
{
	size_t len = cuda_len(part);

	return len > 3 && !strncmp(part + len - 3, "ExC", 3) ? len - 1 : len;
}

/* The class of a name that Kineto writes: names of one class may belong to the same calls of ours. */
static uint64_t span_class(const char *theirs)
{
	const char *part = cuda_part(theirs);

	if (!part)
		return name_hash(theirs, strlen(theirs));
	return name_hash(part, part - theirs == 4 ? runtime_len(part) : cuda_len(part)) ^ 1;
}

static enum span_relation relate_cuda(const char *ours, const char *theirs)
{
	const char *a = cuda_part(ours), *b = cuda_part(theirs);
	bool runtime_ours = a - ours == 4, runtime_theirs = b - theirs == 4;
	size_t len = runtime_ours ? runtime_len(a) : cuda_len(a), len_b = runtime_theirs ? runtime_len(b) : cuda_len(b);

	if ((runtime_ours && !runtime_theirs) || len != len_b || strncmp(a, b, len))
		return SPAN_UNRELATED;
	return runtime_ours == runtime_theirs ? SPAN_AROUND : SPAN_WITHIN;
}

enum span_relation span_relate(const char *ours, const char *theirs)
{
	const char *name = aten_part(theirs);
	size_t len = strlen(name);

	if (cuda_part(ours) && cuda_part(theirs))
		return relate_cuda(ours, theirs);
	if (name == theirs)
		return SPAN_UNRELATED;
	ours = aten_part(ours);
	return !strncmp(ours, name, len) && (!ours[len] || ours[len] == '_') ? SPAN_AROUND : SPAN_UNRELATED;
}

void spans_add(struct spans *s, const char *name, uint32_t tid, int64_t start_ns, int64_t end_ns)
{
	struct match_name *n = s->n < SPANS_MAX ? name_get(&s->names, name, strnlen(name, 4096), SPAN_NAMES_MAX) : NULL;

	if (!n) {
		s->left_out++;
		return;
	}
	if (!n->key)
		n->key = span_key(n->text);
	*list_push(s->list, s->n, s->size) = (struct span){ start_ns, end_ns, n->id, tid };
}

void spans_clear(struct spans *s)
{
	names_clear(&s->names);
	free(s->list);
	memset(s, 0, sizeof(*s));
}

#define BIN_NS INT64_C(20000)
#define BINS (2 * MATCH_WINDOW_NS / BIN_NS + 2)
#define SAMPLES 256     /* calls per part that vote */
#define SAMPLES_MIN 8   /* fewer prove nothing */
#define VOTERS_MIN 0.25 /* share of the samples that must agree */
#define REFINED 3
#define PART_CALLS_MIN 64
/* Tolerated share of wrong pairs per part: after a lost call its neighbour may be paired instead. */
#define WRONG_MAX 0.02

struct match_call {
	uint64_t key; /* span_class(); with the thread if both recordings number threads alike */
	int64_t start_ns, end_ns;
	uint32_t name;
};

struct calls {
	struct match_call *list;
	size_t n;
};

struct matcher {
	const struct spans *ours, *theirs;
	uint64_t *ours_classes, *theirs_classes; /* by name */
	struct calls a, b;                       /* ours and theirs, by key and time */
	uint32_t *votes;
	struct bound *bounds;
};

struct bound {
	int64_t low_ns, high_ns;
	uint32_t name;
};

static int compare_call_keys(const void *x, const void *y)
{
	const struct match_call *a = x, *b = y;

	return cmp_int(a->key, b->key) ?: cmp_int(a->start_ns, b->start_ns);
}

static int compare_span_starts(const void *x, const void *y)
{
	const struct span *a = x, *b = y;

	return cmp_int(a->start_ns, b->start_ns);
}

static int compare_thread_ids(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

	return cmp_int(a, b);
}

static size_t list_threads(const struct spans *s, uint32_t *tids)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		tids[i] = s->list[i].tid;
	qsort(tids, s->n, sizeof(*tids), compare_thread_ids);
	for (size_t i = 0; i < s->n; i++) {
		if (!n || tids[n - 1] != tids[i])
			tids[n++] = tids[i];
	}
	return n;
}

/* Whether both number threads alike. In a container Kineto sees other tids than a tracer outside: then names have to do. */
static bool share_threads(const struct spans *a, const struct spans *b)
{
	uint32_t *x = xreallocarray(NULL, a->n + 1, sizeof(*x)), *y = xreallocarray(NULL, b->n + 1, sizeof(*y));
	size_t n = list_threads(a, x), m = list_threads(b, y), i = 0, j = 0;
	bool shared;

	while (i < n && j < m && x[i] != y[j]) {
		if (x[i] < y[j])
			i++;
		else
			j++;
	}
	shared = i < n && j < m;
	free(x);
	free(y);
	return shared;
}

/* classes: by name; 0: calls of that name are left out. */
static struct calls calls_make(const struct spans *s, size_t from, size_t to, const uint64_t *classes, bool threads)
{
	struct match_call *c = xreallocarray(NULL, to - from + 1, sizeof(*c));
	size_t n = 0;

	for (size_t i = from; i < to; i++) {
		const struct span *span = &s->list[i];
		uint64_t key = classes[span->name];

		if (!key)
			continue;
		if (threads)
			key ^= span->tid * UINT64_C(0x9e3779b97f4a7c15);
		c[n++] = (struct match_call){ key, span->start_ns, span->end_ns, span->name };
	}
	qsort(c, n, sizeof(*c), compare_call_keys);
	return (struct calls){ c, n };
}

/* Returns the class of their longest name related to ours, so that mul__Tensor is mul_ and not mul; 0: none. */
static uint64_t class_of_ours(const struct spans *theirs, const struct match_name *name)
{
	const char *best = NULL;

	for (size_t i = 0; i < theirs->names.n; i++) {
		const struct match_name *other = theirs->names.list[i];

		if (other->key == name->key && span_relate(name->text, other->text) != SPAN_UNRELATED &&
			(!best || strlen(other->text) > strlen(best)))
			best = other->text;
	}
	return best ? span_class(best) : 0;
}

/* Returns the index of the first call at or after (key, ns). */
static size_t calls_from(const struct calls *c, uint64_t key, int64_t ns)
{
	const struct match_call wanted = { .key = key, .start_ns = ns };

	return bisect(c->n, k, compare_call_keys(&c->list[k], &wanted) < 0);
}

/* ---- roughly: some calls vote for the distances to all their candidates ---- */

static void matcher_vote(struct matcher *m, const struct match_call *sample, bool of_theirs)
{
	const struct calls *others = of_theirs ? &m->a : &m->b;
	size_t i = calls_from(others, sample->key, sample->start_ns - MATCH_WINDOW_NS);
	int64_t distance, last = -1, bin;

	for (; i < others->n && others->list[i].key == sample->key; i++) {
		distance = others->list[i].start_ns - sample->start_ns;
		if (distance > MATCH_WINDOW_NS)
			break;
		bin = ((of_theirs ? -distance : distance) + MATCH_WINDOW_NS) / BIN_NS;
		if (bin != last) /* one vote per bin */
			m->votes[bin]++;
		last = bin;
	}
}

/* Two neighbouring bins count together, since equal distances may lie on both sides of a bin's edge. Among the best, within
 * 10%, the distance closest to 0 wins, as the clocks have it: engines repeat themselves. */
static bool best_distance(const struct matcher *m, uint32_t samples, int64_t *ret_ns)
{
	const int64_t middle = MATCH_WINDOW_NS / BIN_NS;
	uint32_t best = 0, score;
	int64_t at = -1;

	for (int64_t i = 0; i + 1 < BINS; i++) {
		score = m->votes[i] + m->votes[i + 1];
		if (score > best)
			best = score;
	}
	if (best < SAMPLES_MIN || best < (uint32_t)(samples * VOTERS_MIN))
		return false;
	for (int64_t i = 0; i + 1 < BINS; i++) {
		score = m->votes[i] + m->votes[i + 1];
		if (score * 10 >= best * 9 && (at < 0 || llabs(i - middle) < llabs(at - middle)))
			at = i;
	}
	*ret_ns = (at + 1) * BIN_NS - MATCH_WINDOW_NS;
	return true;
}

static bool find_distance(struct matcher *m, int64_t *ret_ns)
{
	bool of_theirs = m->b.n <= m->a.n;
	const struct calls *c = of_theirs ? &m->b : &m->a;
	size_t step = c->n / SAMPLES + 1;
	uint32_t samples = 0;

	memset(m->votes, 0, BINS * sizeof(*m->votes));
	for (size_t i = step / 2; i < c->n; i += step) {
		matcher_vote(m, &c->list[i], of_theirs);
		samples++;
	}
	return best_distance(m, samples, ret_ns);
}

/* ---- exactly: what each pair allows ---- */

/* Returns the call of `others` with this key that begins closest to ns; NULL: none. */
static const struct match_call *calls_find_closest(const struct calls *others, uint64_t key, int64_t ns)
{
	size_t i = calls_from(others, key, ns);
	const struct match_call *after = i < others->n && others->list[i].key == key ? &others->list[i] : NULL;
	const struct match_call *before = i && others->list[i - 1].key == key ? &others->list[i - 1] : NULL;

	if (!after || !before)
		return after ? after : before;
	return after->start_ns - ns < ns - before->start_ns ? after : before;
}

static bool bound_of(const struct matcher *m, const struct match_call *ours, const struct match_call *theirs, struct bound *ret)
{
	int64_t starts = theirs->start_ns - ours->start_ns, ends = theirs->end_ns - ours->end_ns;

	switch (span_relate(m->ours->names.list[ours->name]->text, m->theirs->names.list[theirs->name]->text)) {
	case SPAN_AROUND:
		*ret = (struct bound){ ends, starts, theirs->name };
		break;
	case SPAN_WITHIN:
		*ret = (struct bound){ starts, ends, theirs->name };
		break;
	default:
		return false;
	}
	return ret->low_ns <= ret->high_ns;
}

/* Pairs the calls that are each other's closest at this distance. Returns the number of bounds. */
static size_t find_pairs(struct matcher *m, int64_t distance)
{
	size_t n = 0;

	for (size_t i = 0; i < m->b.n; i++) {
		const struct match_call *theirs = &m->b.list[i];
		const struct match_call *ours = calls_find_closest(&m->a, theirs->key, theirs->start_ns - distance);

		if (!ours || llabs(theirs->start_ns - ours->start_ns - distance) > 4 * BIN_NS ||
			calls_find_closest(&m->b, ours->key, ours->start_ns + distance) != theirs)
			continue;
		n += bound_of(m, ours, theirs, &m->bounds[n]);
	}
	return n;
}

static int compare_low(const void *x, const void *y)
{
	const struct bound *a = x, *b = y;

	return cmp_int(a->low_ns, b->low_ns);
}

static int compare_high(const void *x, const void *y)
{
	const struct bound *a = x, *b = y;

	return cmp_int(a->high_ns, b->high_ns);
}

/* Returns the middle of the median bounds. Reorders bounds. */
static int64_t bounds_median(struct bound *bounds, size_t n)
{
	int64_t high;

	qsort(bounds, n, sizeof(*bounds), compare_high);
	high = bounds[n / 2].high_ns;
	qsort(bounds, n, sizeof(*bounds), compare_low);
	return bounds[n / 2].low_ns + (high - bounds[n / 2].low_ns) / 2;
}

/*
 * Intersects the bounds of the pairs. Wrong pairs would leave nothing, so those that exclude the middle are left out.
 * false: more than WRONG_MAX are wrong on either side, or none is right.
 */
static bool bounds_intersect(struct bound *bounds, size_t n, struct match_part *part)
{
	size_t wrong = (size_t)((double)n * WRONG_MAX), i, j;
	int64_t middle = bounds_median(bounds, n);

	qsort(bounds, n, sizeof(*bounds), compare_low);
	for (i = n; i && bounds[i - 1].low_ns > middle; i--)
		;
	if (n - i > wrong || !i)
		return false;
	part->low_ns = bounds[i - 1].low_ns;
	part->low_name = bounds[i - 1].name;
	n = i;
	qsort(bounds, n, sizeof(*bounds), compare_high);
	for (j = 0; j < n && bounds[j].high_ns < middle; j++)
		;
	if (j > wrong || j == n)
		return false;
	part->high_ns = bounds[j].high_ns;
	part->high_name = bounds[j].name;
	part->pairs = n - j;
	return true;
}

static void match_find_part(struct matcher *m, size_t from, size_t to, bool threads, struct match *ret)
{
	struct match_part *part = &ret->parts[ret->n_parts];
	int64_t distance;
	size_t n;

	m->b = calls_make(m->theirs, from, to, m->theirs_classes, threads);
	n = find_distance(m, &distance) ? find_pairs(m, distance) : 0;
	/* at the rough distance a neighbour may have been closer, but for few pairs */
	for (unsigned int i = 0; n >= SAMPLES_MIN && i < REFINED; i++) {
		distance = bounds_median(m->bounds, n);
		n = find_pairs(m, distance);
	}
	if (n >= SAMPLES_MIN && bounds_intersect(m->bounds, n, part)) {
		part->at_ns = m->theirs->list[from + (to - from) / 2].start_ns;
		ret->pairs += part->pairs;
		ret->n_parts++;
	}
	free(m->b.list);
}

void match_find(struct spans *ours, struct spans *theirs, struct match *ret)
{
	struct matcher m = { .ours = ours, .theirs = theirs };
	size_t parts = theirs->n / PART_CALLS_MIN;
	bool threads;

	memset(ret, 0, sizeof(*ret));
	ret->calls = theirs->n;
	if (!ours->n || !theirs->n)
		return;
	parts = parts > MATCH_PARTS ? MATCH_PARTS : parts ? parts
							  : 1;
	qsort(theirs->list, theirs->n, sizeof(*theirs->list), compare_span_starts);
	m.votes = xreallocarray(NULL, BINS, sizeof(*m.votes));
	m.bounds = xreallocarray(NULL, theirs->n / parts + parts, sizeof(*m.bounds));
	m.ours_classes = xcalloc(ours->names.n + 1, sizeof(*m.ours_classes));
	m.theirs_classes = xcalloc(theirs->names.n + 1, sizeof(*m.theirs_classes));
	for (size_t i = 0; i < ours->names.n; i++)
		m.ours_classes[i] = class_of_ours(theirs, ours->names.list[i]);
	for (size_t i = 0; i < theirs->names.n; i++)
		m.theirs_classes[i] = span_class(theirs->names.list[i]->text);
	threads = share_threads(ours, theirs);
	m.a = calls_make(ours, 0, ours->n, m.ours_classes, threads);
	for (size_t i = 0; i < parts; i++)
		match_find_part(&m, theirs->n * i / parts, theirs->n * (i + 1) / parts, threads, ret);
	for (size_t i = 0; i < ret->n_parts; i++) {
		if (ret->parts[i].low_ns > ret->parts[ret->low_part].low_ns)
			ret->low_part = i;
		if (ret->parts[i].high_ns < ret->parts[ret->high_part].high_ns)
			ret->high_part = i;
	}
	if (ret->n_parts) {
		ret->low_ns = ret->parts[ret->low_part].low_ns;
		ret->high_ns = ret->parts[ret->high_part].high_ns;
	}
	free(m.a.list);
	free(m.ours_classes);
	free(m.theirs_classes);
	free(m.votes);
	free(m.bounds);
}
