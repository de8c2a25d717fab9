// SPDX-License-Identifier: BSD-2-Clause
/* Reads lines of request_prof, and sorts the requests by time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/model.h"
#include "report/read.h"
#include "sink/profile_keys.h"

static const char *const part_names[SEQ_PARTS] = {
	[SEQ_QUEUED] = "queued",
	[SEQ_OWN_PREFILL] = "own_prefill",
	[SEQ_OWN_DECODE] = "own_decode",
	[SEQ_OTHERS] = "others",
	[SEQ_BETWEEN] = "between",
};

const char *seq_part_name(enum seq_part part)
{
	return part_names[part];
}

void seqs_free(struct seqs *s)
{
	free(s->requests);
	free(s->states);
	free(s->waits);
	free(s->exchanges);
	idmap_free(&s->by_number);
	memset(s, 0, sizeof(*s));
}

/* How to read a key. */
enum key_type {
	KEY_U32,
	KEY_U64,
	KEY_US,
	KEY_FLAG,
};

struct key {
	const char *name;
	enum key_type type;
	size_t at; /* offset of the member, or the flag */
};

#define MEMBER(key, type, member)                                     \
	{                                                             \
		key, KEY_##type, offsetof(struct seq_request, member) \
	}

static const struct key shape_keys[] = {
	MEMBER("number", U32, number),
	MEMBER("context", U64, context),
	MEMBER("sequence", U32, sequence),
	MEMBER("ts_us", US, ts),
	MEMBER("prompt_tokens", U32, prompt_tokens),
	MEMBER("cached_tokens", U32, cached_tokens),
	MEMBER("output_tokens", U32, output_tokens),
	MEMBER("steps", U32, steps),
	MEMBER("steps_shared", U32, steps_shared),
	MEMBER("chunks", U32, chunks),
	{ "mixed", KEY_FLAG, SEQ_MIXED },
	{ "began_before", KEY_FLAG, SEQ_BEGAN_BEFORE },
	{ "unfinished", KEY_FLAG, SEQ_UNFINISHED },
	{ "end_not_seen", KEY_FLAG, SEQ_END_NOT_SEEN },
	{ "lost_steps", KEY_FLAG, SEQ_LOST },
	{ "cancelled", KEY_FLAG, SEQ_CANCELLED },
	{ "joined", KEY_FLAG, SEQ_JOINED },
	MEMBER("waited_others_us", US, waited_others),
	MEMBER("write_blocked_us", US, write_blocked),
};

static const struct key stage_keys[] = {
	MEMBER("total", US, total),
	MEMBER("queued", US, parts[SEQ_QUEUED]),
	MEMBER("own_prefill", US, parts[SEQ_OWN_PREFILL]),
	MEMBER("own_decode", US, parts[SEQ_OWN_DECODE]),
	MEMBER("others", US, parts[SEQ_OTHERS]),
	MEMBER("between", US, parts[SEQ_BETWEEN]),
	MEMBER("ttft", US, ttft),
	MEMBER("ttft_others", US, first_others),
	MEMBER("ttft_between", US, first_between),
	MEMBER("ttft_client", US, ttft_client),
	MEMBER("answered", US, answered),
	MEMBER("tpot_mean", US, tpot),
	MEMBER("tpot_max", US, tpot_max),
};

/* Of a trace, where they stand beside those of the shape. */
static const struct key trace_keys[] = {
	MEMBER("ttft_us", US, ttft),
	MEMBER("own_prefill_us", US, parts[SEQ_OWN_PREFILL]),
	MEMBER("own_decode_us", US, parts[SEQ_OWN_DECODE]),
	MEMBER("others_us", US, parts[SEQ_OTHERS]),
	MEMBER("between_us", US, parts[SEQ_BETWEEN]),
	MEMBER("queued_us", US, parts[SEQ_QUEUED]),
	MEMBER("ttft_others_us", US, first_others),
	MEMBER("ttft_between_us", US, first_between),
};

static const struct key wait_keys[] = {
	{ "_for", KEY_U32, offsetof(struct seq_wait, number) },
	{ "_sequence", KEY_U32, offsetof(struct seq_wait, sequence) },
	{ "_us", KEY_US, offsetof(struct seq_wait, ns) },
	{ "_ttft_us", KEY_US, offsetof(struct seq_wait, first) },
};

/* hint: where the key is likely to be. */
static const struct key *key_find(const struct key *keys, size_t n, const char *name, size_t *hint)
{
	for (size_t i = 0; i < n; i++) {
		size_t k = (*hint + i) % n;

		if (!strcmp(name, keys[k].name)) {
			*hint = k + 1;
			return &keys[k];
		}
	}
	return NULL;
}

#define KEY_FIND(keys, name, hint) key_find(keys, sizeof(keys) / sizeof(keys[0]), name, hint)

static bool key_read(const struct key *key, const struct json_node *value, void *object)
{
	void *member = (char *)object + key->at;

	switch (key->type) {
	case KEY_U32:
		return read_u32(value, member);
	case KEY_U64:
		*(uint64_t *)member = node_u64(value);
		return true;
	case KEY_US:
		return read_us(value, member);
	case KEY_FLAG:
		if (node_is(value, JSON_TRUE))
			((struct seq_request *)object)->flags |= (uint16_t)key->at;
		return true;
	}
	return false;
}

/* Looks up "waited1_for" and the like. */
static const struct key *wait_find(const char *name, struct seq_wait *waits, struct seq_wait **ret_wait, size_t *hint)
{
	unsigned int n;

	if (strncmp(name, "waited", 6))
		return NULL;
	n = (unsigned int)(unsigned char)name[6] - '1';
	if (n >= SEQ_WAITS_MAX)
		return NULL;
	*ret_wait = &waits[n];
	return KEY_FIND(wait_keys, name + 7, hint);
}

static bool read_shape(const struct json_node *shape, struct seq_request *r, struct seq_wait *waits,
	const char **ret_bad)
{
	size_t hint = 0, wait_hint = 0;
	struct seq_wait *wait;
	const struct key *key;

	json_for_each (value, shape) {
		void *object = r;

		key = wait_find(value->key, waits, &wait, &wait_hint);
		if (key)
			object = wait;
		else
			key = KEY_FIND(shape_keys, value->key, &hint);
		if (key && !key_read(key, value, object)) {
			*ret_bad = value->key;
			return false;
		}
	}
	return true;
}

/* "own_prefill_cpu": a part, by the state of the calling thread. */
static bool state_find(const char *name, unsigned int *hint, struct seq_state *ret_state)
{
	for (unsigned int part = 0; part < SEQ_PARTS; part++) {
		size_t len = strlen(part_names[part]);
		int state;

		if (strncmp(name, part_names[part], len) || name[len] != '_')
			continue;
		state = read_state(name + len + 1, hint);
		ret_state->part = (uint8_t)part;
		ret_state->state = state < 0 ? STATE_OTHER : (uint8_t)state;
		return true;
	}
	return false;
}

static int add_state(struct seqs *s, struct seq_request *r, const struct seq_state *state)
{
	if (r->n_states >= SEQ_PARTS * STATES)
		return 0;
	if (list_add(s->states, s->n_states, s->states_size, *state))
		return -ENOMEM;
	r->n_states++;
	return 0;
}

static int read_stages(struct seqs *s, const struct json_node *stages, struct seq_request *r, const char **ret_bad)
{
	unsigned int state_hint = 0;
	struct seq_state state;
	const struct key *key;
	size_t hint = 0;
	int err = 0;

	json_for_each (value, stages) {
		if (err)
			break;
		if (state_find(value->key, &state_hint, &state)) {
			if (!read_us(value, &state.ns))
				*ret_bad = value->key;
			else if (state.ns)
				err = add_state(s, r, &state);
		} else {
			key = KEY_FIND(stage_keys, value->key, &hint);
			if (key && !key_read(key, value, r))
				*ret_bad = value->key;
		}
		if (*ret_bad)
			return 0;
	}
	if (!err && r->total < 0)
		*ret_bad = "total";
	return err;
}

/* A wait of which the profile says nothing else was not before the first token. */
static void find_first_waits(const struct seq_request *r, struct seq_wait *waits)
{
	for (size_t i = 0; i < SEQ_WAITS_MAX && r->first_others >= 0; i++) {
		if (waits[i].first < 0)
			waits[i].first = 0;
	}
}

static int add_waits(struct seqs *s, struct seq_request *r, const struct seq_wait *waits)
{
	size_t n = 0;

	while (n < SEQ_WAITS_MAX && waits[n].ns > 0)
		n++;
	if (array_reserve(&s->waits, s->n_waits + n, &s->waits_size, sizeof(*s->waits)))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct seq_wait *wait = &s->waits[s->n_waits + i];

		*wait = waits[i];
		if (wait->first > wait->ns)
			wait->first = -1;
	}
	r->first_wait = (uint32_t)s->n_waits;
	r->n_waits = (uint8_t)n;
	s->n_waits += n;
	return 0;
}

/* Determines what can be relied on in the line. */
static void check_request(struct seq_request *r, const struct seq_wait *waits)
{
	int64_t sum = 0, waited = r->waited_others, first;

	for (unsigned int i = 0; i < SEQ_PARTS; i++)
		sum = ns_add(sum, r->parts[i]);
	for (unsigned int i = 0; i < SEQ_WAITS_MAX && waits[i].ns > 0; i++)
		waited = ns_add(waited, waits[i].ns);
	if (sum == r->total && waited <= r->parts[SEQ_OTHERS] && !(r->flags & SEQ_OF_STEPS))
		r->flags |= SEQ_PARTED;
	else
		memset(r->parts, 0, sizeof(r->parts));
	if (r->ttft > r->total)
		r->ttft = -1;
	/* nothing came after its first token */
	if (r->first_others < 0 && r->ttft >= 0 && r->ttft + r->parts[SEQ_QUEUED] == r->total) {
		r->first_others = r->parts[SEQ_OTHERS];
		r->first_between = r->parts[SEQ_BETWEEN];
	}
	if (r->first_others > r->parts[SEQ_OTHERS] || r->first_between > r->parts[SEQ_BETWEEN])
		r->first_others = -1;
	first = ns_add(r->parts[SEQ_OWN_PREFILL], ns_add(r->first_others, r->first_between));
	if (r->first_others < 0 || r->first_between < 0 || first != r->ttft || !(r->flags & SEQ_PARTED))
		r->first_others = r->first_between = -1;
	if (r->flags & (SEQ_LOST | SEQ_MIXED))
		r->ttft = r->tpot = -1;
	if (r->flags & SEQ_BEGAN_BEFORE)
		r->ttft = -1;
	/* its last step gave its last token */
	if (r->tpot < 0 && r->ttft >= 0 && r->output_tokens > 1 && !(r->flags & SEQ_UNFINISHED))
		r->tpot = (r->total - r->ttft - r->parts[SEQ_QUEUED]) / (r->output_tokens - 1);
}

static struct seq_request new_request(uint32_t recording, struct seq_wait *waits)
{
	for (unsigned int i = 0; i < SEQ_WAITS_MAX; i++)
		waits[i] = (struct seq_wait){ .first = -1, .sequence = SEQ_UNKNOWN };
	return (struct seq_request){
		.total = -1,
		.ttft = -1,
		.ttft_client = -1,
		.answered = -1,
		.tpot = -1,
		.first_others = -1,
		.first_between = -1,
		.recording = recording,
	};
}

static int add_request(struct seqs *s, struct seq_request *r, const struct seq_wait *waits)
{
	check_request(r, waits);
	if (add_waits(s, r, waits) || array_reserve(&s->requests, s->len + 1, &s->size, sizeof(*s->requests)))
		return -ENOMEM;
	s->requests[s->len++] = *r;
	s->in_batches += !(r->flags & SEQ_OF_STEPS);
	return 0;
}

/* socket: the line is about nothing else. */
static int add_exchange(struct seqs *s, const struct seq_request *r, const struct json_node *shape, bool socket)
{
	const char *why = socket ? node_string(node_get(shape, "joined_why")) : NULL;

	if (why && !strcmp(why, PROFILE_JOINED_NONE)) {
		s->unrelated++;
		return 0;
	}
	if (array_reserve(&s->exchanges, s->n_exchanges + 1, &s->exchanges_size, sizeof(*s->exchanges)))
		return -ENOMEM;
	s->joined += !socket;
	s->exchanges[s->n_exchanges++] = (struct seq_exchange){
		.ts = r->ts,
		.total = socket || r->answered < 0 ? r->total : ns_add(r->total, r->answered),
		.first = socket ? r->ttft : r->ttft_client,
		.tpot = r->tpot,
		.recording = r->recording,
		.outputs = socket ? r->chunks : r->output_tokens,
		.cut = r->flags & (SEQ_UNFINISHED | SEQ_END_NOT_SEEN),
	};
	return 0;
}

int seq_read(struct seqs *s, const struct json_node *shape, const struct json_node *stages, uint32_t recording,
	const char **ret_bad)
{
	const char *kind = node_string(node_get(shape, "source_kind"));
	bool socket = kind && !strcmp(kind, "socket");
	struct seq_wait waits[SEQ_WAITS_MAX];
	struct seq_request r = new_request(recording, waits);
	int err;

	*ret_bad = NULL;
	r.first_state = (uint32_t)s->n_states;
	if (!kind || strcmp(kind, "sequence"))
		r.flags = SEQ_OF_STEPS;
	if (!read_shape(shape, &r, waits, ret_bad))
		return 0;
	err = read_stages(s, stages, &r, ret_bad);
	if (err || *ret_bad) {
		s->n_states = r.first_state;
		return err;
	}
	if (socket) {
		s->n_states = r.first_state;
		return add_exchange(s, &r, shape, true);
	}
	find_first_waits(&r, waits);
	err = add_request(s, &r, waits);
	return err || !(r.flags & SEQ_JOINED) ? err : add_exchange(s, &r, shape, false);
}

int seq_read_slice(struct seqs *s, const struct json_node *args, int64_t ts, int64_t dur, uint32_t recording)
{
	struct seq_wait waits[SEQ_WAITS_MAX];
	struct seq_request r = new_request(recording, waits);
	const char *bad = NULL;
	const struct key *key;
	size_t hint = 0;

	if (!read_shape(args, &r, waits, &bad))
		return 0;
	json_for_each (value, args) {
		key = KEY_FIND(trace_keys, value->key, &hint);
		if (key && !key_read(key, value, &r))
			return 0;
	}
	if (!r.number)
		return 0;
	/* the slice begins where the queue ends */
	r.ts = ts > r.parts[SEQ_QUEUED] ? ts - r.parts[SEQ_QUEUED] : 0;
	r.total = ns_add(dur, r.parts[SEQ_QUEUED]);
	return add_request(s, &r, waits);
}

static int compare_requests(const void *a, const void *b)
{
	const struct seq_request *x = a, *y = b;

	return cmp_int(x->at, y->at) ?: cmp_int(x->recording, y->recording) ?: cmp_int(x->number, y->number);
}

static uint64_t number_key(uint32_t recording, uint32_t number)
{
	return (uint64_t)recording << 32 | number;
}

/* The lines of a recording are adjacent. */
static void place_requests(struct seqs *s, const struct recording_place *places, size_t n_places, int64_t end)
{
	int64_t offset = 0;

	for (size_t i = 0; i < s->len; i++) {
		struct seq_request *r = &s->requests[i];

		if (!i || r->recording != s->requests[i - 1].recording) {
			size_t k = 0;

			while (k < n_places && places[k].recording != r->recording)
				k++;
			offset = k < n_places ? places[k].offset : end;
		}
		r->at = ns_add(r->ts, offset);
		if (ns_add(r->at, r->total) > end)
			end = ns_add(r->at, r->total);
	}
}

/* A trace does not say in which sequences the requests were that others waited for. */
static void find_sequences(struct seqs *s)
{
	for (size_t i = 0; i < s->len; i++) {
		const struct seq_request *r = &s->requests[i], *other;

		for (unsigned int k = 0; k < r->n_waits; k++) {
			struct seq_wait *wait = &s->waits[r->first_wait + k];

			other = wait->sequence == SEQ_UNKNOWN ? seq_find(s, r->recording, wait->number) : NULL;
			if (other)
				wait->sequence = other->sequence;
		}
	}
}

int seq_finish(struct seqs *s, const struct recording_place *places, size_t n_places, int64_t end)
{
	place_requests(s, places, n_places, end);
	list_sort(s->requests, s->len, compare_requests);
	for (size_t i = 0; i < s->len; i++) {
		const struct seq_request *r = &s->requests[i];

		if (r->number && idmap_set(&s->by_number, number_key(r->recording, r->number), (uint32_t)i))
			return -ENOMEM;
	}
	find_sequences(s);
	return 0;
}

const struct seq_request *seq_find(const struct seqs *s, uint32_t recording, uint32_t number)
{
	uint32_t i;

	return idmap_get(&s->by_number, number_key(recording, number), &i) ? &s->requests[i] : NULL;
}
