// SPDX-License-Identifier: BSD-2-Clause
#include "engine/sequences.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/check.h"

#define MEMORIES_MAX 256 /* beyond that the one reported longest ago is forgotten */

struct sequence_memories {
	struct {
		uint32_t tgid;
		uint64_t memory, context;
	} list[MEMORIES_MAX];
	size_t n, next;
};

static const char *const names[SEQUENCE_WHATS] = {
	[SEQUENCE_REMOVE] = "remove",
	[SEQUENCE_COPY] = "copy",
	[SEQUENCE_KEEP] = "keep",
	[SEQUENCE_SHIFT] = "shift",
	[SEQUENCE_CLEAR] = "clear",
};

int sequence_memories_new(struct sequence_memories **ret_memories)
{
	struct sequence_memories *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	*ret_memories = m;
	return 0;
}

void sequence_memories_free(struct sequence_memories *m)
{
	free(m);
}

static size_t find(const struct sequence_memories *m, uint32_t tgid, uint64_t memory)
{
	size_t i = 0;

	while (i < m->n && (m->list[i].tgid != tgid || m->list[i].memory != memory))
		i++;
	return i;
}

static void learn(struct sequence_memories *m, uint32_t tgid, uint64_t memory, uint64_t context)
{
	size_t i = find(m, tgid, memory);

	if (i == m->n && m->n < MEMORIES_MAX)
		m->n++;
	else if (i == m->n)
		i = m->next++ % MEMORIES_MAX;
	m->list[i].tgid = tgid;
	m->list[i].memory = memory;
	m->list[i].context = context;
}

static bool find_value(const struct probe_spec *s, const struct rec_function *r, const char *name, uint64_t *ret)
{
	for (unsigned int i = 0; i < s->nargs; i++) {
		const struct probe_arg *a = &s->args[i];

		if (strcmp(a->name, name))
			continue;
		if (a->is_string || a->is_float || !check_shown(s, i, r->vals) ||
			(s->fetch[i].flags & FETCH_F_LATE && r->h.flags & REC_F_OPEN_END))
			return false;
		*ret = r->vals[i];
		return true;
	}
	return false;
}

static bool find_what(const char *name, enum sequence_what *ret)
{
	for (int i = 0; i < SEQUENCE_WHATS; i++) {
		if (strcmp(name, names[i]))
			continue;
		*ret = (enum sequence_what)i;
		return true;
	}
	return false;
}

/* A bound below 0 is none. */
static int64_t find_bound(const struct probe_spec *s, const struct rec_function *r, const char *name, int64_t none)
{
	uint64_t v;

	return find_value(s, r, name, &v) && (int64_t)v >= 0 ? (int64_t)v : none;
}

bool sequence_change_of(struct sequence_memories *m, const struct probe_table *probes, const struct rec_function *r,
	struct sequence_change *ret)
{
	const struct probe_spec *s = &probes->specs[r->h.id];
	struct sequence_change c = { .at_ns = r->h.start_ns, .tgid = r->h.tgid, .tid = r->h.tid };
	const char *name;
	uint64_t by = 0;

	if (s->role != ROLE_SEQUENCE)
		return false;
	name = probe_spec_name(s, r->vals);
	find_value(s, r, "context", &c.context);
	find_value(s, r, "memory", &c.memory);
	if (!strcmp(name, "memory") && c.memory && c.context)
		learn(m, c.tgid, c.memory, c.context);
	if (!find_what(name, &c.what))
		return false;
	if (c.what != SEQUENCE_CLEAR && !find_value(s, r, "sequence", &c.sequence))
		return false;
	if (c.what == SEQUENCE_COPY && !find_value(s, r, "source", &c.source))
		return false;
	if (c.what == SEQUENCE_SHIFT && !find_value(s, r, "by", &by))
		return false;
	c.every = c.what == SEQUENCE_CLEAR || (int64_t)c.sequence < 0;
	c.from = find_bound(s, r, "from", 0);
	c.to = find_bound(s, r, "to", INT64_MAX);
	c.by = (int64_t)by;
	*ret = c;
	return true;
}

uint64_t sequence_context(const struct sequence_memories *m, const struct sequence_change *c)
{
	size_t i = c->context ? m->n : find(m, c->tgid, c->memory);

	return i < m->n ? m->list[i].context : c->context;
}
