// SPDX-License-Identifier: BSD-2-Clause
#include "engine/sequences.h"

#include <string.h>

#include "engine/check.h"
#include "util/clock.h"

static const char *const names[SEQUENCE_WHATS] = {
	[SEQUENCE_REMOVE] = "remove",
	[SEQUENCE_COPY] = "copy",
	[SEQUENCE_KEEP] = "keep",
	[SEQUENCE_SHIFT] = "shift",
	[SEQUENCE_CLEAR] = "clear",
	[SEQUENCE_PLACE] = "place",
	[SEQUENCE_BEGIN] = "begin",
	[SEQUENCE_TOKEN] = "token",
	[SEQUENCE_END] = "end",
	[SEQUENCE_FIRST] = "request",
};

static size_t shown_find_context(const struct shown_contexts *m, uint32_t tgid, uint64_t key)
{
	size_t i = 0;

	while (i < m->n && (m->list[i].tgid != tgid || m->list[i].key != key))
		i++;
	return i;
}

static void shown_learn_context(struct shown_contexts *m, uint32_t tgid, uint64_t key, uint64_t context)
{
	size_t i = shown_find_context(m, tgid, key);

	if (i == m->n && m->n < SHOWN_CONTEXTS_MAX)
		m->n++;
	else if (i == m->n)
		i = m->next++ % SHOWN_CONTEXTS_MAX;
	m->list[i].tgid = tgid;
	m->list[i].key = key;
	m->list[i].context = context;
}

static bool probe_find_value(const struct probe_spec *s, const struct rec_function *r, const char *name, uint64_t *ret_value)
{
	int i = check_find(s, r->vals, name);

	if (i < 0 || s->args[i].is_string || s->args[i].is_float || (s->fetch[i].flags & FETCH_F_LATE && r->h.flags & REC_F_OPEN_END))
		return false;
	*ret_value = r->vals[i];
	return true;
}

static bool what_from_name(const char *name, enum sequence_what *ret)
{
	for (int i = 0; i < SEQUENCE_WHATS; i++) {
		if (strcmp(name, names[i]))
			continue;
		*ret = (enum sequence_what)i;
		return true;
	}
	return false;
}

/* A bound below 0 stands for no bound. */
static int64_t find_bound(const struct probe_spec *s, const struct rec_function *r, const char *name, int64_t none)
{
	uint64_t v;

	return probe_find_value(s, r, name, &v) && (int64_t)v >= 0 ? (int64_t)v : none;
}

/* Finds the engine's number of a request, plus 1. */
static bool find_number(const struct probe_spec *s, const struct rec_function *r, uint64_t *ret)
{
	uint64_t v;

	if (!probe_find_value(s, r, "request", &v) || (int64_t)v < 0)
		return false;
	*ret = v + 1;
	return true;
}

/* Converts the engine's own reading of CLOCK_MONOTONIC, in microseconds, to CLOCK_BOOTTIME. 0: none. */
static uint64_t find_engine_time(const struct probe_spec *s, const struct rec_function *r)
{
	uint64_t us;

	if (!probe_find_value(s, r, "at_us", &us) || !us || us > INT64_MAX / 1000)
		return 0;
	return us * 1000 + (uint64_t)clock_boot_offset_ns(&(struct clock_shift){ 0 });
}

bool sequence_received(const struct probe_table *probes, const struct rec_function *r, uint64_t *ret_request)
{
	const struct probe_spec *s = &probes->specs[r->h.id];

	return s->role == ROLE_SEQUENCE && !strcmp(probe_spec_name(s, r->vals), "receive") && find_number(s, r, ret_request);
}

bool sequence_sent(const struct probe_table *probes, const struct rec_function *r, uint64_t *ret_id)
{
	const struct probe_spec *s = &probes->specs[r->h.id];

	if (s->role != ROLE_SEQUENCE || strcmp(probe_spec_name(s, r->vals), "sent"))
		return false;
	*ret_id = sequence_id_hash(probe_arg_string(s, s->handle_name, probe_record_strings(s, r)));
	return true;
}

/* FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/ */
uint64_t sequence_id_hash(const char *id)
{
	uint64_t hash = 0xcbf29ce484222325;

	while (*id)
		hash = (hash ^ (uint8_t)*id++) * 0x100000001b3;
	return hash;
}

bool sequence_change_of(struct shown_contexts *m, const struct probe_table *probes, const struct rec_function *r,
	struct sequence_change *ret)
{
	const struct probe_spec *s = &probes->specs[r->h.id];
	struct sequence_change c = {
		.at_ns = r->h.start_ns,
		.tgid = r->h.tgid,
		.tid = r->h.tid,
		.off_known = r->h.flags & FUNCTION_F_OFF_CPU,
		.off_cpu_ns = r->off_cpu_ns,
	};
	const char *name;
	uint64_t by = 0;

	if (s->role != ROLE_SEQUENCE)
		return false;
	name = probe_spec_name(s, r->vals);
	probe_find_value(s, r, "context", &c.context);
	probe_find_value(s, r, "memory", &c.memory);
	if (!strcmp(name, "memory") && c.memory && c.context)
		shown_learn_context(m, c.tgid, c.memory, c.context);
	if (!what_from_name(name, &c.what))
		return false;
	if (c.what != SEQUENCE_CLEAR && !probe_find_value(s, r, "sequence", &c.sequence))
		return false;
	if (c.what == SEQUENCE_COPY && !probe_find_value(s, r, "source", &c.source))
		return false;
	if (c.what == SEQUENCE_PLACE && !find_number(s, r, &c.request))
		return false;
	probe_find_value(s, r, "draft", &c.draft);
	c.said_ns = find_engine_time(s, r);
	if (c.what == SEQUENCE_FIRST) {
		if (!probe_find_value(s, r, "queued_ns", &by) || by > c.at_ns)
			return false;
		c.said_ns = c.at_ns - by;
	}
	if (c.what == SEQUENCE_SHIFT && !probe_find_value(s, r, "by", &by))
		return false;
	c.every = c.what == SEQUENCE_CLEAR || (int64_t)c.sequence < 0;
	c.from = find_bound(s, r, "from", 0);
	c.to = find_bound(s, r, "to", INT64_MAX);
	c.by = (int64_t)by;
	*ret = c;
	return true;
}

uint64_t sequence_context(const struct shown_contexts *m, const struct sequence_change *c)
{
	size_t i = c->context ? m->n : shown_find_context(m, c->tgid, c->memory);

	return i < m->n ? m->list[i].context : c->context;
}

/* ---- draft models ---- */

bool drafts_have(const struct shown_contexts *d, uint32_t tgid, uint64_t context)
{
	return shown_find_context(d, tgid, context) < d->n;
}

void drafts_add(struct shown_contexts *d, uint32_t tgid, uint64_t context)
{
	shown_learn_context(d, tgid, context, context);
}

void drafts_learn(struct shown_contexts *d, const struct probe_spec *s, const struct rec_function *r)
{
	uint64_t context;

	if (probe_find_value(s, r, "draft", &context) && context)
		drafts_add(d, r->h.tgid, context);
}

const struct rec_step *drafts_mark(const struct shown_contexts *d, const struct probe_spec *s, const struct rec_step *r, size_t size)
{
	static struct rec_step_parts copy;
	int kind = -1;
	bool is = false;
	uint64_t v = 0;

	for (unsigned int i = 0; d->n && i < s->nargs; i++) {
		const struct enum_table *t = s->args[i].names;

		is |= !strcmp(s->args[i].name, "context") && drafts_have(d, r->h.tgid, r->vals[i]);
		for (size_t k = 0; t && kind < 0 && k < t->n; k++) {
			if (t->names[k] && !strcmp(t->names[k], "draft")) {
				kind = (int)i;
				v = k;
			}
		}
	}
	if (!is || kind < 0 || size > sizeof(copy))
		return r;
	memcpy(&copy, r, size);
	copy.s.vals[kind] = v;
	return &copy.s;
}
