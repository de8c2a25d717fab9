// SPDX-License-Identifier: BSD-2-Clause
#include "report/seq_late.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/cause.h"
#include "report/stats.h"
#include "report/typical.h"
#include "util/bisect.h"

/* Below this number nothing is typical. */
#define COMPARED_MIN 5
/* At most this many are used for the medians; of more, a selection spread evenly over them. */
#define SAMPLE_MAX 1024
/* A quarter of an octave. */
#define MARGIN 1.19
/* Smaller differences do not matter. */
#define LEAST_SHARE 0.1
#define LEAST_NS 100000
/* A part, or a state of a part, must explain this share of the excess to be named. */
#define PART_SHARE 0.1
#define STATE_SHARE 0.5

const char *seq_kind_name(enum seq_kind kind)
{
	static const char *const names[SEQ_KINDS] = {
		[SEQ_LATE_FIRST] = "ttft",
		[SEQ_LATE_TOKENS] = "tpot",
		[SEQ_LATE_NONE] = "no_token",
		[SEQ_LATE_ANSWER] = "answer",
	};

	return names[kind];
}

void seq_typicals_free(struct seq_typicals *t)
{
	free(t->rows);
	*t = (struct seq_typicals){ 0 };
}

static double tokens_behind(const struct seq_request *r)
{
	return r->output_tokens > 1 ? r->output_tokens - 1 : 1;
}

/* A time is divided by this before it is compared: the parts of decoding are longer with more tokens. */
static double part_size(const struct seq_request *r, unsigned int part)
{
	return part == SEQ_OWN_DECODE || part == SEQ_BETWEEN ? tokens_behind(r) : 1;
}

/* The parts of the time to the first token; -1 if unknown. */
static void first_parts(const struct seq_request *r, int64_t parts[SEQ_PARTS])
{
	parts[SEQ_QUEUED] = r->parts[SEQ_QUEUED];
	parts[SEQ_OWN_PREFILL] = r->parts[SEQ_OWN_PREFILL];
	parts[SEQ_OWN_DECODE] = 0;
	parts[SEQ_OTHERS] = r->first_others;
	parts[SEQ_BETWEEN] = r->first_between;
}

/* The parts of the time after it. */
static void token_parts(const struct seq_request *r, int64_t parts[SEQ_PARTS])
{
	parts[SEQ_QUEUED] = parts[SEQ_OWN_PREFILL] = 0;
	parts[SEQ_OWN_DECODE] = r->parts[SEQ_OWN_DECODE];
	parts[SEQ_OTHERS] = r->first_others < 0 ? -1 : r->parts[SEQ_OTHERS] - r->first_others;
	parts[SEQ_BETWEEN] = r->first_between < 0 ? -1 : r->parts[SEQ_BETWEEN] - r->first_between;
}

/* Whether others are compared with its times. */
static bool is_compared(const struct seq_request *r)
{
	return !(r->flags & (SEQ_OF_STEPS | SEQ_MIXED | SEQ_LOST | SEQ_BEGAN_BEFORE)) && (r->flags & SEQ_PARTED) &&
	       r->ttft >= 0;
}

struct sample {
	const struct process *p;
	const struct seq_request **requests;
	size_t n;
	double *values;
	double *states; /* n times SEQ_PARTS times STATES */
};

static double sample_median(struct sample *s, size_t n)
{
	return n ? median_of(s->values, n) : 0;
}

static void find_times(struct sample *s, struct seq_typical *t)
{
	int64_t parts[SEQ_PARTS];
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		s->values[i] = (double)seq_first_token(s->requests[i]);
	t->first = sample_median(s, s->n);
	for (size_t i = 0; i < s->n; i++) {
		if (s->requests[i]->tpot >= 0)
			s->values[n++] = (double)s->requests[i]->tpot;
	}
	t->token = sample_median(s, n);
	for (size_t i = n = 0; i < s->n; i++) {
		if (s->requests[i]->answered >= 0)
			s->values[n++] = (double)s->requests[i]->answered;
	}
	t->answered = sample_median(s, n);
	for (unsigned int k = 0; k < SEQ_PARTS; k++) {
		for (size_t i = n = 0; i < s->n; i++) {
			first_parts(s->requests[i], parts);
			if (parts[k] >= 0)
				s->values[n++] = (double)parts[k];
		}
		t->first_parts[k] = sample_median(s, n);
		for (size_t i = n = 0; i < s->n; i++) {
			token_parts(s->requests[i], parts);
			if (parts[k] >= 0 && s->requests[i]->tpot >= 0)
				s->values[n++] = (double)parts[k] / tokens_behind(s->requests[i]);
		}
		t->token_parts[k] = sample_median(s, n);
	}
}

static void find_states(struct sample *s, struct seq_typical *t)
{
	bool any[SEQ_PARTS * STATES] = { false };

	memset(s->states, 0, s->n * SEQ_PARTS * STATES * sizeof(*s->states));
	for (size_t i = 0; i < s->n; i++) {
		const struct seq_request *r = s->requests[i];

		for (unsigned int k = 0; k < r->n_states; k++) {
			const struct seq_state *state = &s->p->seqs.states[r->first_state + k];
			size_t at = (size_t)state->part * STATES + state->state;

			s->states[i * SEQ_PARTS * STATES + at] += (double)state->ns / part_size(r, state->part);
			any[at] = true;
		}
	}
	for (size_t at = 0; at < SEQ_PARTS * STATES; at++) {
		for (size_t i = 0; i < s->n && any[at]; i++)
			s->values[i] = s->states[i * SEQ_PARTS * STATES + at];
		t->states[at / STATES][at % STATES] = any[at] ? sample_median(s, s->n) : 0;
	}
}

struct member {
	uint32_t tokens, request;
};

static int compare_members(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->tokens != y->tokens)
		return x->tokens < y->tokens ? -1 : 1;
	return x->request < y->request ? -1 : x->request > y->request;
}

/* The members from `first` to before `end` belong to one class. They are also compared with similar prompts on both
 * sides, since those most similar to one at the edge of a class may be in the next class. */
static int add_class(struct seq_typicals *t, struct sample *s, const struct member *members, size_t n, size_t first,
	size_t end)
{
	double lo = members[first].tokens / MARGIN, hi = members[end - 1].tokens * MARGIN;
	struct seq_typical *row;

	if (array_reserve(&t->rows, t->len + 1, &t->size, sizeof(*t->rows)))
		return -ENOMEM;
	row = &t->rows[t->len++];
	*row = (struct seq_typical){ .class = tokens_class(members[first].tokens) };
	while (first && members[first - 1].tokens >= lo)
		first--;
	while (end < n && members[end].tokens <= hi)
		end++;
	n = end - first;
	if (n < COMPARED_MIN)
		return 0;
	s->n = n < SAMPLE_MAX ? n : SAMPLE_MAX;
	for (size_t i = 0; i < s->n; i++)
		s->requests[i] = &s->p->seqs.requests[members[first + i * n / s->n].request];
	row->compared = (uint32_t)n;
	find_times(s, row);
	find_states(s, row);
	return 0;
}

int seq_typicals_find(const struct process *p, struct seq_typicals *ret)
{
	struct sample s = { .p = p };
	struct member *members = malloc((p->seqs.len + 1) * sizeof(*members));
	size_t n = 0, end;
	int err = 0;

	*ret = (struct seq_typicals){ 0 };
	s.requests = malloc(SAMPLE_MAX * sizeof(*s.requests));
	s.values = malloc(SAMPLE_MAX * sizeof(*s.values));
	s.states = malloc(SAMPLE_MAX * SEQ_PARTS * STATES * sizeof(*s.states));
	if (!members || !s.requests || !s.values || !s.states) {
		err = -ENOMEM;
		goto out;
	}
	for (size_t i = 0; i < p->seqs.len; i++) {
		if (is_compared(&p->seqs.requests[i]))
			members[n++] = (struct member){ p->seqs.requests[i].prompt_tokens, (uint32_t)i };
	}
	qsort(members, n, sizeof(*members), compare_members);
	for (size_t i = 0; i < n && !err; i = end) {
		uint32_t class = tokens_class(members[i].tokens);

		for (end = i + 1; end < n && tokens_class(members[end].tokens) == class;)
			end++;
		err = add_class(ret, &s, members, n, i, end);
	}
out:
	free(members);
	free(s.requests);
	free(s.values);
	free(s.states);
	return err;
}

static const struct seq_typical nothing_typical;

static const struct seq_typical *typical_of(const struct seq_typicals *t, const struct seq_request *r)
{
	uint32_t class = tokens_class(r->prompt_tokens);
	size_t i = bisect(t->len, k, t->rows[k].class < class);

	return i < t->len && t->rows[i].class == class && t->rows[i].compared ? &t->rows[i] : &nothing_typical;
}

int64_t seq_late_wait(const struct seq_request *r, const struct seq_wait *wait, enum seq_kind kind)
{
	int64_t behind = r->parts[SEQ_OTHERS] - r->first_others;

	if (kind == SEQ_LATE_NONE)
		return wait->ns;
	/* all of its waits were before the first token, or all were after it */
	if (r->first_others >= 0 && !behind)
		return kind == SEQ_LATE_FIRST ? wait->ns : 0;
	if (!r->first_others)
		return kind == SEQ_LATE_FIRST ? 0 : wait->ns;
	if (wait->first < 0)
		return -1;
	return kind == SEQ_LATE_FIRST ? wait->first : wait->ns - wait->first;
}

/* Whether a part of the time in question is all of that part of the request: the states are known only for all of
 * it. */
static bool is_whole(const struct seq_request *r, unsigned int part, int64_t ns)
{
	return (double)ns >= (1 - LEAST_SHARE) * (double)r->parts[part];
}

static void part_states(
	const struct process *p, const struct seq_request *r, unsigned int part, int64_t ret_states[STATES])
{
	memset(ret_states, 0, STATES * sizeof(*ret_states));
	for (unsigned int k = 0; k < r->n_states; k++) {
		const struct seq_state *state = &p->seqs.states[r->first_state + k];

		if (state->part == part)
			ret_states[state->state] = ns_add(ret_states[state->state], state->ns);
	}
}

/* Finds the state of the part that took longer. */
static void explain_part(const struct process *p, const struct seq_typical *t, const struct seq_request *r,
	struct seq_late_part *part)
{
	int64_t states[STATES];

	part->state = STATE_NONE;
	if (part->part == SEQ_OTHERS || part->part == SEQ_QUEUED || !is_whole(r, part->part, part->ns))
		return;
	part_states(p, r, part->part, states);
	for (unsigned int s = 0; s < STATES; s++) {
		int64_t usual = (int64_t)(t->states[part->part][s] * part_size(r, part->part));
		int64_t more = states[s] - usual;

		/* without anything to compare with, computing is no wait */
		if (!t->compared && !(CAUSE_KEPT_OFF & 1u << s))
			continue;
		if (more > part->state_ns && (double)more >= STATE_SHARE * (double)part->more) {
			part->state = (uint8_t)s;
			part->state_ns = more;
		}
	}
	if (part->state_ns > part->more)
		part->state_ns = part->more;
}

static void add_part(struct seq_late *late, const struct seq_late_part *part)
{
	uint32_t k = late->n_parts++;

	for (; k && late->parts[k - 1].more < part->more; k--)
		late->parts[k] = late->parts[k - 1];
	late->parts[k] = *part;
}

/* How much of a part was clearly waiting, if there is nothing to compare with. */
static int64_t part_waited(const struct process *p, const struct seq_request *r, unsigned int part, int64_t ns)
{
	int64_t states[STATES], waited = 0;

	if (part == SEQ_QUEUED || part == SEQ_OTHERS || ns <= 0)
		return ns < 0 ? 0 : ns;
	if (!is_whole(r, part, ns))
		return 0;
	part_states(p, r, part, states);
	for (unsigned int s = 0; s < STATES; s++)
		waited = ns_add(waited, CAUSE_KEPT_OFF & 1u << s ? states[s] : 0);
	return waited < ns ? waited : ns;
}

static void find_times_of(const struct seq_request *r, enum seq_kind kind, int64_t parts[SEQ_PARTS])
{
	if (kind == SEQ_LATE_NONE)
		memcpy(parts, r->parts, sizeof(r->parts));
	else if (kind == SEQ_LATE_FIRST)
		first_parts(r, parts);
	else
		token_parts(r, parts);
}

static void find_parts(const struct process *p, const struct seq_typical *t, const struct seq_request *r,
	struct seq_late *late)
{
	const double *typical = late->kind == SEQ_LATE_TOKENS ? t->token_parts : t->first_parts;
	double scale = late->kind == SEQ_LATE_TOKENS ? tokens_behind(r) : 1;
	int64_t parts[SEQ_PARTS];

	find_times_of(r, late->kind, parts);
	for (unsigned int k = 0; k < SEQ_PARTS; k++) {
		struct seq_late_part part = { .part = (enum seq_part)k, .ns = parts[k] };

		part.typical = (int64_t)(typical[k] * scale);
		part.more = late->compared ? parts[k] - part.typical : part_waited(p, r, k, parts[k]);
		if (part.more <= 0 || (double)part.more < PART_SHARE * (double)late->excess)
			continue;
		explain_part(p, t, r, &part);
		add_part(late, &part);
	}
}

/* Everything that was clearly waiting. */
static int64_t waited(const struct process *p, const struct seq_request *r, enum seq_kind kind)
{
	int64_t parts[SEQ_PARTS], sum = 0;

	find_times_of(r, kind, parts);
	for (unsigned int k = 0; k < SEQ_PARTS; k++)
		sum = ns_add(sum, part_waited(p, r, k, parts[k]));
	return sum;
}

/* Matters by its share of the whole time that its client waited. */
static bool find_answer(const struct seq_typical *t, const struct seq_request *r, struct seq_late *ret)
{
	int64_t more = r->answered - (int64_t)t->answered;

	if (r->answered < 0 || more < LEAST_NS || (double)more < LEAST_SHARE * (double)ns_add(r->total, r->answered))
		return false;
	*ret = (struct seq_late){ .kind = SEQ_LATE_ANSWER, .value = r->answered, .excess = more, .compared = t->compared };
	ret->typical = (int64_t)t->answered;
	ret->held = r->write_blocked < more ? r->write_blocked : more;
	return true;
}

bool seq_late_find(const struct process *p, const struct seq_typicals *typicals, const struct seq_request *r,
	enum seq_kind kind, struct seq_late *ret)
{
	/* the length of its prompt was not seen */
	const struct seq_typical *t = kind == SEQ_LATE_NONE ? &nothing_typical : typical_of(typicals, r);
	bool tokens = kind == SEQ_LATE_TOKENS;
	double typical = tokens ? t->token : t->first, each;

	if (!(r->flags & SEQ_PARTED) || (r->flags & SEQ_LOST))
		return false;
	if (kind == SEQ_LATE_ANSWER)
		return find_answer(t, r, ret);
	*ret = (struct seq_late){ .kind = kind, .compared = typical > 0 ? t->compared : 0 };
	if (kind == SEQ_LATE_NONE && (r->output_tokens || r->ttft >= 0 || (r->flags & SEQ_BEGAN_BEFORE)))
		return false;
	ret->value = tokens ? r->tpot : seq_first_token(r);
	if (kind == SEQ_LATE_NONE)
		ret->value = r->total;
	if (ret->value < 0)
		return false;
	ret->typical = (int64_t)typical;
	each = (double)(ret->value - ret->typical);
	if (!ret->compared)
		each = (double)waited(p, r, kind) / (tokens ? tokens_behind(r) : 1);
	if (each < LEAST_SHARE * (ret->compared ? typical : (double)ret->value))
		return false;
	ret->excess = (int64_t)(each * (tokens ? tokens_behind(r) : 1));
	if (ret->excess < LEAST_NS)
		return false;
	find_parts(p, t, r, ret);
	return true;
}
