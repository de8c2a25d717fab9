// SPDX-License-Identifier: BSD-2-Clause
#include "export/samples.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "read/pftrace.h"
#include "read/profile.h"
#include "schema/profile_keys.h"
#include "util/fmt.h"
#include "util/list.h"
#include "util/map.h"
#include "util/program.h"
#include "util/text.h"

struct pool_item {
	UT_hash_handle hh;
	uint32_t number;
	size_t len;
	_Alignas(8) char data[];
};

uint32_t pool_add(struct pool *p, const void *data, size_t len)
{
	struct pool_item *item;

	HASH_FIND(hh, p->by_data, data, len, item);
	if (item)
		return item->number;
	item = xmalloc(sizeof(*item) + len);
	item->number = p->n;
	item->len = len;
	memcpy(item->data, data, len);
	HASH_ADD_KEYPTR(hh, p->by_data, item->data, len, item);
	*list_push(p->items, p->n, p->size) = item;
	p->bytes += sizeof(*item) + len + sizeof(struct pool_item *);
	return item->number;
}

int64_t pool_find(const struct pool *p, const void *data, size_t len)
{
	struct pool_item *item;

	HASH_FIND(hh, p->by_data, data, len, item);
	return item ? (int64_t)item->number : -ENOENT;
}

const void *pool_get(const struct pool *p, uint32_t number)
{
	return p->items[number]->data;
}

size_t pool_len(const struct pool *p, uint32_t number)
{
	return p->items[number]->len;
}

void pool_clear(struct pool *p)
{
	HASH_CLEAR(hh, p->by_data);
	for (uint32_t i = 0; i < p->n; i++)
		free(p->items[i]);
	free(p->items);
	*p = (struct pool){ 0 };
}

struct samples_loader {
	struct samples *s;
	samples_problem problem;
	void *arg;
	/* of a profile */
	const struct samples_filter *filter;
	struct pool ids;   /* the file's ids of stacks whose frames were read */
	uint32_t *numbers; /* number of each stack */
	uint32_t numbers_size;
};

static size_t samples_bytes(const struct samples *s)
{
	return s->texts.bytes + s->frames.bytes + s->stacks.bytes + s->threads.bytes + s->keys.bytes + s->named.bytes +
	       s->n_events * sizeof(*s->events);
}

static uint32_t samples_add_text_len(struct samples *s, const char *text, size_t len)
{
	char buf[SAMPLES_LABEL_MAX];

	len = len < sizeof(buf) ? len : sizeof(buf) - 1;
	memcpy(buf, text, len);
	buf[len] = 0;
	return pool_add(&s->texts, buf, strlen(buf) + 1);
}

static uint32_t samples_add_text(struct samples *s, const char *text)
{
	return samples_add_text_len(s, text, strnlen(text, SAMPLES_LABEL_MAX));
}

const char *samples_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* Where " (FILE:LINE)" begins at the end of a name, if FILE is the last part of what is mapped. NULL: it does not. */
static const char *name_find_line(const char *name, const char *mapping, uint32_t *ret_line)
{
	const char *base = samples_base(mapping), *open = NULL, *next = name;
	size_t len = strlen(base);
	unsigned long line;
	char *end;

	while ((next = strstr(next, " (")))
		open = next++;
	if (!open || !len || strncmp(open + 2, base, len) || open[2 + len] != ':')
		return NULL;
	if (open[3 + len] < '0' || open[3 + len] > '9')
		return NULL;
	errno = 0;
	line = strtoul(open + 3 + len, &end, 10);
	if (errno || line > UINT32_MAX || strcmp(end, ")"))
		return NULL;
	*ret_line = (uint32_t)line;
	return open;
}

/* A frame as it was read. */
struct samples_source {
	const char *name;
	size_t name_len;
	const char *mapping, *build_id, *file; /* "": unknown */
	uint32_t line;
	uint64_t pc;
};

static uint32_t samples_add_frame(struct samples *s, const struct samples_source *from)
{
	struct samples_frame f = { .name = samples_add_text_len(s, from->name, from->name_len), .pc = from->pc, .line = from->line };

	f.mapping = samples_add_text(s, from->mapping);
	f.build_id = samples_add_text(s, from->build_id);
	f.file = samples_add_text(s, from->line ? from->file : "");
	return pool_add(&s->frames, &f, sizeof(f));
}

static uint32_t pftrace_frame_add(struct samples *s, const struct pftrace_frame *from)
{
	struct samples_source f = { from->name, strlen(from->name), from->mapping, from->build_id, "", 0, from->rel_pc };
	const char *line = name_find_line(from->name, from->mapping, &f.line);

	if (line) {
		f.name_len = (size_t)(line - from->name);
		f.file = from->mapping;
	}
	return samples_add_frame(s, &f);
}

/* Adds a stack; returns its number. frames: the outermost first. */
static uint32_t samples_add_stack(struct samples *s, const uint32_t *frames, size_t n)
{
	static const struct samples_source none = { "[no stack]", 10, "", "", "", 0, 0 };
	uint32_t only;

	if (n)
		return pool_add(&s->stacks, frames, n * sizeof(frames[0]));
	only = samples_add_frame(s, &none);
	return pool_add(&s->stacks, &only, sizeof(only));
}

static uint32_t pftrace_stack_add(struct samples *s, struct pftrace_stack *from)
{
	uint32_t frames[PFTRACE_FRAMES_MAX], number;
	size_t n = from ? from->n : 0;

	if (from && from->user)
		return from->user - 1;
	for (size_t i = 0; i < n; i++)
		frames[i] = pftrace_frame_add(s, from->frames[i]);
	number = samples_add_stack(s, n ? frames : NULL, n);
	if (from)
		from->user = number + 1;
	return number;
}

/* Room for `n` elements of a list that grows with a pool: new ones are zero. */
static void list_reserve(void *list, uint32_t *size, size_t element, uint32_t n)
{
	if (n <= *size)
		return;
	n = n < 256 ? 256 : 2 * n;
	*(void **)list = xreallocarray(*(void **)list, n, element);
	memset(*(char **)list + *size * element, 0, (n - *size) * element);
	*size = n;
}

static int samples_add(struct samples *s, const struct samples_thread *t, bool off_cpu, uint32_t stack, uint64_t at_ns,
	const struct samples_sum *sum)
{
	struct samples_key key = { .stack = stack, .off_cpu = off_cpu };
	uint32_t number;

	key.thread = pool_add(&s->threads, t, sizeof(*t));
	if (samples_bytes(s) > SAMPLES_BYTES_MAX)
		return -E2BIG;
	number = pool_add(&s->keys, &key, sizeof(key));
	list_reserve(&s->sums, &s->sums_size, sizeof(*s->sums), s->keys.n);
	s->sums[number].n += sum->n;
	s->sums[number].ns += sum->ns;
	s->n[off_cpu] += sum->n;
	s->ns[off_cpu] += sum->ns;
	if (s->each)
		*list_push(s->events, s->n_events, s->events_size) = (struct samples_event){ .at_ns = at_ns, .ns = sum->ns, .key = number };
	return 0;
}

static int loader_add_sample(void *ctx, const struct pftrace_sample *from)
{
	struct samples_loader *l = ctx;

	return samples_add(l->s, &(struct samples_thread){ from->pid, from->tid }, from->off_cpu, pftrace_stack_add(l->s, from->stack), from->ns,
		&(struct samples_sum){ 1, from->weight_ns });
}

/* -E2BIG: more than SAMPLES_BYTES_MAX. */
static int samples_add_name(struct samples *s, const struct samples_thread *t, const char *text, size_t len)
{
	uint32_t number = pool_add(&s->named, t, sizeof(*t)), name = samples_add_text_len(s, text, len);

	if (samples_bytes(s) > SAMPLES_BYTES_MAX)
		return -E2BIG;
	list_reserve(&s->names, &s->names_size, sizeof(*s->names), s->named.n);
	s->names[number] = name + 1;
	return 0;
}

static int loader_add_name(void *ctx, uint32_t pid, uint32_t tid, const char *text, size_t len)
{
	struct samples_loader *l = ctx;

	return samples_add_name(l->s, &(struct samples_thread){ pid, tid }, text, len);
}

static void loader_pass_problem(void *ctx, uint64_t offset, const char *why)
{
	struct samples_loader *l = ctx;

	l->problem(l->arg, offset, why);
}

int samples_read(struct samples *s, struct json_source *source, samples_problem problem, void *arg, bool *ret_torn)
{
	static const struct pftrace_ops ops = { .sample = loader_add_sample, .name = loader_add_name, .bad = loader_pass_problem };
	struct samples_loader l = { .s = s, .problem = problem, .arg = arg };

	return pftrace_read(source, &ops, &l, ret_torn);
}

void samples_clear(struct samples *s)
{
	pool_clear(&s->texts);
	pool_clear(&s->frames);
	pool_clear(&s->stacks);
	pool_clear(&s->threads);
	pool_clear(&s->keys);
	pool_clear(&s->named);
	free(s->names);
	free(s->sums);
	free(s->events);
	*s = (struct samples){ 0 };
}

const char *samples_text(const struct samples *s, uint32_t text)
{
	return pool_get(&s->texts, text);
}

const uint32_t *samples_stack(const struct samples *s, uint32_t stack, size_t *ret_n)
{
	*ret_n = pool_len(&s->stacks, stack) / sizeof(uint32_t);
	return pool_get(&s->stacks, stack);
}

const char *samples_name(const struct samples *s, uint32_t pid, uint32_t tid)
{
	struct samples_thread t = { pid, tid };
	int64_t number = pool_find(&s->named, &t, sizeof(t));

	if (number < 0 && tid) {
		t.tid = 0;
		number = pool_find(&s->named, &t, sizeof(t));
	}
	return number < 0 ? "" : samples_text(s, s->names[number] - 1);
}

const char *samples_label(const struct samples *s, const struct samples_frame *f, char buf[SAMPLES_LABEL_MAX])
{
	const char *name = samples_text(s, f->name), *base = samples_base(samples_text(s, f->mapping));

	if (f->line)
		snprintf(buf, SAMPLES_LABEL_MAX, "%s (%s:%u)", name, samples_base(samples_text(s, f->file)), f->line);
	else if (name[0] && (strcmp(name, "[unknown]") || !base[0]))
		snprintf(buf, SAMPLES_LABEL_MAX, "%s", name);
	else if (base[0] == '[')
		snprintf(buf, SAMPLES_LABEL_MAX, "%s", base);
	else
		snprintf(buf, SAMPLES_LABEL_MAX, "[%s]", base[0] ? base : "unknown");
	return buf;
}

/* The samples of a profile. */

#define FRAMES_MAX 4096 /* of one stack; further ones are left out */

/* Adds NAME [WHERE], NAME (FILE:LINE), or a name alone. Cuts buf into its parts. */
static uint32_t line_add_frame(struct samples *s, char *buf)
{
	struct samples_source f = { .name = buf, .mapping = "", .build_id = "", .file = "" };
	size_t len = strlen(buf);
	char *open = NULL, *colon = NULL;

	for (char *p = buf; len && (p = strpbrk(p, " :")); p++) {
		if (p[0] == ':')
			colon = p;
		else if (p[1] == (buf[len - 1] == ')' ? '(' : '['))
			open = p;
	}
	if (open && buf[len - 1] == ')' && colon > open) {
		f.line = (uint32_t)strtoul(colon + 1, NULL, 10);
		*colon = 0;
		f.file = f.mapping = open + 2;
		*open = 0;
	} else if (open && buf[len - 1] == ']') {
		f.mapping = open + 1;
		*open = 0;
		if (strcmp(f.mapping, "[kernel]") && strcmp(f.mapping, "[jit]")) {
			buf[len - 1] = 0;
			f.mapping++;
		}
	}
	f.name_len = strlen(buf);
	return samples_add_frame(s, &f);
}

/* Adds the stack of a line with frames, the innermost first. */
static uint32_t line_add_stack(struct samples_loader *l, const struct json_node *list)
{
	uint32_t frames[FRAMES_MAX];
	size_t n = FRAMES_MAX;

	json_for_each (frame, list) {
		const char *text = node_string(frame);
		char *copy;

		if (!text || !n)
			break;
		copy = xstrndup(text, SAMPLES_LABEL_MAX);
		frames[--n] = line_add_frame(l->s, copy);
		free(copy);
	}
	return samples_add_stack(l->s, frames + n, FRAMES_MAX - n);
}

/* Returns the number of a line's stack; a line without one has an empty one. */
static uint32_t line_get_stack(struct samples_loader *l, const struct profile_line *line, const struct json_node *shape)
{
	const struct json_node *id = node_get(shape, KEY(stack)), *frames = node_get(line->object, "frames");
	uint64_t key = node_u64(id);
	uint32_t stack, number;
	int64_t known;

	if (id && !frames) {
		known = pool_find(&l->ids, &key, sizeof(key));
		if (known >= 0)
			return l->numbers[known];
		l->problem(l->arg, line->number, "the frames of its stack were in no line before");
	}
	if (!id || !frames)
		return samples_add_stack(l->s, NULL, 0);
	stack = line_add_stack(l, frames);
	number = pool_add(&l->ids, &key, sizeof(key));
	list_reserve(&l->numbers, &l->numbers_size, sizeof(*l->numbers), l->ids.n);
	l->numbers[number] = stack;
	return stack;
}

static bool line_is_wanted(const struct samples_filter *f, const struct json_node *shape)
{
	const struct json_node *step = node_get(shape, KEY(step));

	return (!f->phase || node_is_text(node_get(shape, KEY(phase)), f->phase)) && (!f->state || node_is_text(node_get(shape, KEY(state)), f->state)) &&
	       (f->step < 0 || (step && node_s64(step) == f->step));
}

static int loader_take_line(void *ctx, const struct profile_line *line)
{
	const struct json_node *shape = line->values[PROFILE_KEY_shape];
	struct samples_thread t = { (uint32_t)node_u64(node_get(shape, KEY(pid))), 0 };
	const char *comm = node_string(node_get(shape, KEY(comm)));
	struct samples_loader *l = ctx;
	struct samples_sum sum;
	uint32_t stack;
	int64_t ns;

	if (!node_is_text(line->values[PROFILE_KEY_event], "stack_prof"))
		return comm && t.pid && comm[0] ? samples_add_name(l->s, &t, comm, strlen(comm)) : 0;
	t.tid = (uint32_t)node_u64(node_get(shape, KEY(tid)));
	sum.n = node_u64(node_get(shape, KEY(samples)));
	if (node_us_to_ns(node_get(line->values[PROFILE_KEY_stage_us], "total"), &ns) || ns < 0 || sum.n - 1 >= UINT32_MAX) {
		l->problem(l->arg, line->number, "stack_prof without samples or total");
		return 0;
	}
	sum.ns = (uint64_t)ns;
	stack = line_get_stack(l, line, shape); /* its frames may be needed even if the line is not */
	if (!line_is_wanted(l->filter, shape))
		return 0;
	return samples_add(l->s, &t, node_is_text(node_get(shape, KEY(kind)), "wait"), stack, line->number, &sum);
}

int samples_read_profile(struct samples *s, struct json_source *source, const struct samples_filter *filter,
	samples_problem problem, void *arg)
{
	static const struct profile_reader_ops ops = { .line = loader_take_line, .bad = loader_pass_problem };
	struct samples_loader l = { .s = s, .filter = filter, .problem = problem, .arg = arg };
	int err = profile_read(source, &ops, &l);

	pool_clear(&l.ids);
	free(l.numbers);
	return err;
}

/* Collapsed stacks: one line for each stack of threads of one name, COMM;OUTERMOST;...;INNERMOST and a number. */

#define PART_MAX (4 * SAMPLES_LABEL_MAX)

/*
 * Equal lines are one: threads can have the same name, and so can different functions of the kernel, such as the programs of
 * two recorders.
 */
struct lines {
	struct pool texts;
	uint64_t *values;
};

/* A part of a line: no semicolon, no control character, no line break. */
static void put_folded_part(const char *text, FILE *out)
{
	char buf[PART_MAX];

	text_printable(buf, sizeof(buf), text);
	for (char *p = buf; (p = strchr(p, ';')); p++)
		*p = ':';
	fputs(buf, out);
}

static void put_folded_frame(const struct samples *s, uint32_t frame, FILE *out)
{
	const struct samples_frame *f = pool_get(&s->frames, frame);
	char label[SAMPLES_LABEL_MAX];

	fputc(';', out);
	put_folded_part(samples_label(s, f, label), out);
	if (!strncmp(samples_text(s, f->mapping), "[kernel", 7))
		fputs("_[k]", out);
}

/* Returns the name that a line begins with. */
static const char *samples_thread_name(const struct samples *s, uint32_t thread, char buf[32])
{
	const struct samples_thread *t = pool_get(&s->threads, thread);
	const char *name = samples_name(s, t->pid, t->tid);

	snprintf(buf, 32, "pid %u", t->pid);
	return name[0] ? name : buf;
}

/* A line without its number. The caller frees it. */
static char *folded_line(const struct samples *s, const struct samples_key *k)
{
	const uint32_t *frames;
	size_t n, size;
	char *text, buf[32];
	FILE *out = open_memstream(&text, &size);

	if (!out)
		out_of_memory();
	put_folded_part(samples_thread_name(s, k->thread, buf), out);
	frames = samples_stack(s, k->stack, &n);
	for (size_t i = 0; i < n; i++)
		put_folded_frame(s, frames[i], out);
	if (fclose(out))
		out_of_memory();
	return text;
}

int collapsed_write(const struct samples *s, bool off_cpu, FILE *out)
{
	struct lines l = { .values = xcalloc(s->keys.n + 1, sizeof(*l.values)) };
	int err;

	for (uint32_t i = 0; i < s->keys.n; i++) {
		const struct samples_key *k = pool_get(&s->keys, i);
		char *text;

		if (k->off_cpu != off_cpu)
			continue;
		text = folded_line(s, k);
		l.values[pool_add(&l.texts, text, strlen(text) + 1)] += off_cpu ? s->sums[i].ns : s->sums[i].n;
		free(text);
	}
	for (uint32_t i = 0; i < l.texts.n; i++) {
		/* of waits in microseconds, rounded up so that none is lost */
		fprintf(out, "%s %" PRIu64 "\n", (const char *)pool_get(&l.texts, i),
			off_cpu ? (l.values[i] + 999) / 1000 : l.values[i]);
	}
	err = fflush(out) || ferror(out) ? -EIO : 0;
	pool_clear(&l.texts);
	free(l.values);
	return err;
}

/* speedscope's format: https://www.speedscope.app/file-format-schema.json. A profile for each thread, and another one for
 * its waits, both in the order of time. */

static void put_json_string(const char *key, const char *text, FILE *out)
{
	char buf[FMT_JSON_STR_MAX(SAMPLES_LABEL_MAX)];

	fputs(key, out);
	fwrite(buf, 1, (size_t)(fmt_json_str(buf, text, strnlen(text, SAMPLES_LABEL_MAX)) - buf), out);
}

static void put_frames(const struct samples *s, FILE *out)
{
	char label[SAMPLES_LABEL_MAX];

	for (uint32_t i = 0; i < s->frames.n; i++) {
		const struct samples_frame *f = pool_get(&s->frames, i);
		const char *file = samples_text(s, f->line ? f->file : f->mapping);

		put_json_string(i ? ",\n{\"name\":" : "\n{\"name\":", samples_label(s, f, label), out);
		if (file[0])
			put_json_string(",\"file\":", file, out);
		if (f->line)
			fprintf(out, ",\"line\":%u", f->line);
		fputc('}', out);
	}
}

/* Sorts samples by thread and kind, then by time. */
static const struct samples *sorted; /* qsort() passes no context */

static int events_by_thread(const void *a, const void *b)
{
	const struct samples_event *x = a, *y = b;
	const struct samples_key *k = pool_get(&sorted->keys, x->key), *l = pool_get(&sorted->keys, y->key);

	return cmp_int(k->thread, l->thread) ?: cmp_int(k->off_cpu, l->off_cpu) ?
										: cmp_int(x->at_ns, y->at_ns);
}

static bool events_have_same_thread(const struct samples *s, const struct samples_event *a, const struct samples_event *b)
{
	const struct samples_key *k = pool_get(&s->keys, a->key), *l = pool_get(&s->keys, b->key);

	return k->thread == l->thread && k->off_cpu == l->off_cpu;
}

/* Writes the samples, or their weights: 1 each where the time is unknown. */
static void put_list(const struct samples *s, const struct samples_event *e, size_t n, bool weights, bool timed, FILE *out)
{
	const uint32_t *frames;
	size_t n_frames;

	for (size_t i = 0; i < n; i++) {
		const struct samples_key *key = pool_get(&s->keys, e[i].key);

		fputs(i ? "," : "", out);
		if (weights) {
			fprintf(out, "%llu", timed ? (unsigned long long)e[i].ns : 1);
			continue;
		}
		frames = samples_stack(s, key->stack, &n_frames);
		for (size_t k = 0; k < n_frames; k++)
			fprintf(out, k ? ",%u" : "[%u", frames[k]);
		fputc(']', out);
	}
}

static void put_profile(const struct samples *s, const struct samples_event *e, size_t n, FILE *out)
{
	const struct samples_key *k = pool_get(&s->keys, e->key);
	const struct samples_thread *t = pool_get(&s->threads, k->thread);
	const char *comm = samples_name(s, t->pid, t->tid);
	char name[SAMPLES_LABEL_MAX + 64];
	uint64_t total = 0;
	bool timed;

	for (size_t i = 0; i < n; i++)
		total += e[i].ns;
	timed = total;
	snprintf(name, sizeof(name), "%s (%u)%s", comm[0] ? comm : "thread", t->tid, k->off_cpu ? " off CPU" : "");
	put_json_string("\n{\"type\":\"sampled\",\"name\":", name, out);
	fprintf(out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%llu,\"samples\":[", timed ? "nanoseconds" : "none",
		(unsigned long long)(timed ? total : n));
	put_list(s, e, n, false, timed, out);
	fputs("],\"weights\":[", out);
	put_list(s, e, n, true, timed, out);
	fputs("]}", out);
}

int speedscope_write(const struct samples *s, const char *name, FILE *out)
{
	size_t n;

	sorted = s;
	list_sort(s->events, s->n_events, events_by_thread);
	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"inftrace " INFTRACE_VERSION
	      "\"",
		out);
	put_json_string(",\"name\":", name, out);
	fputs(",\"activeProfileIndex\":0,\"shared\":{\"frames\":[", out);
	put_frames(s, out);
	fputs("]},\"profiles\":[", out);
	for (size_t i = 0; i < s->n_events; i += n) {
		for (n = 1; i + n < s->n_events && events_have_same_thread(s, &s->events[i], &s->events[i + n]); n++)
			;
		fputs(i ? "," : "", out);
		put_profile(s, &s->events[i], n, out);
	}
	fputs("]}\n", out);
	return fflush(out) || ferror(out) ? -EIO : 0;
}
