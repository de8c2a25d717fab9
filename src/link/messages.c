// SPDX-License-Identifier: BSD-2-Clause
#include "link/messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link/file.h"
#include "sink/derive.h"
#include "util/bisect.h"
#include "util/list_room.h"

#define STREAM_NAME_MAX (2 * MESSAGE_ADDRESS_MAX + 2)
/* What the kernel's counts of a connection include differs by that: the numbers of its opening and its end. */
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

static bool is_complete(const struct message_event *e)
{
	return e->name && (!strcmp(e->name, MESSAGE_SENT) || !strcmp(e->name, MESSAGE_RECEIVED)) && e->local && e->peer &&
	       strlen(e->local) < MESSAGE_ADDRESS_MAX && strlen(e->peer) < MESSAGE_ADDRESS_MAX && e->found == (1u << NUMBERS) - 1 &&
	       e->bytes && e->bytes <= UINT32_MAX && e->sequence <= UINT32_MAX && e->call_ns < LINK_NS_MAX && link_time_fits(e->ns) &&
	       e->position <= INT64_MAX && e->position + BASE_SLACK >= e->bytes;
}

/* Returns NULL without memory, or if there are too many. */
static struct message_stream *stream_get(struct messages *m, const char *name)
{
	size_t len = strlen(name);
	struct message_stream *s;

	HASH_FIND(hh, m->by_name, name, len, s);
	if (s || m->n_streams == MESSAGE_STREAMS_MAX)
		return s;
	if (list_room((void **)&m->streams, m->n_streams, &m->streams_size, sizeof(struct message_stream *)))
		return NULL;
	s = calloc(1, sizeof(*s) + len + 1);
	if (!s)
		return NULL;
	memcpy(s->name, name, len);
	s->id = m->n_streams;
	HASH_ADD_KEYPTR(hh, m->by_name, s->name, len, s);
	if (!s->hh.tbl) {
		free(s);
		return NULL;
	}
	m->streams[m->n_streams++] = s;
	return s;
}

int messages_add(struct messages *m, const struct message_event *e)
{
	char name[STREAM_NAME_MAX];
	struct message_stream *s;
	bool sent;

	if (!is_complete(e))
		return 0;
	sent = !strcmp(e->name, MESSAGE_SENT);
	snprintf(name, sizeof(name), "%s>%s", sent ? e->local : e->peer, sent ? e->peer : e->local);
	s = m->n < MESSAGES_MAX ? stream_get(m, name) : NULL;
	if (!s && m->n < MESSAGES_MAX && m->n_streams < MESSAGE_STREAMS_MAX)
		return -ENOMEM;
	if (!s) {
		m->left_out++;
		return 0;
	}
	if (list_room((void **)&m->list, m->n, &m->size, sizeof(*m->list)))
		return -ENOMEM;
	m->list[m->n++] = (struct message){ .from_ns = e->ns - (int64_t)e->call_ns,
		.to_ns = e->ns,
		.position = e->position,
		.base = (uint32_t)(e->sequence - e->position),
		.bytes = (uint32_t)e->bytes,
		.stream = s->id,
		.sent = sent };
	return 0;
}

static int compare(const void *x, const void *y)
{
	const struct message *a = x, *b = y;

	if (a->stream != b->stream)
		return a->stream < b->stream ? -1 : 1;
	if (a->sent != b->sent)
		return a->sent ? -1 : 1;
	if (a->base != b->base)
		return a->base < b->base ? -1 : 1;
	return a->position < b->position ? -1 : a->position > b->position;
}

void messages_finish(struct messages *m, int64_t later_ns)
{
	for (size_t i = 0; i < m->n; i++) {
		m->list[i].from_ns += later_ns;
		m->list[i].to_ns += later_ns;
	}
	if (m->n)
		qsort(m->list, m->n, sizeof(*m->list), compare);
}

void messages_clear(struct messages *m)
{
	HASH_CLEAR(hh, m->by_name);
	for (uint32_t i = 0; i < m->n_streams; i++)
		free(m->streams[i]);
	free(m->streams);
	free(m->list);
	memset(m, 0, sizeof(*m));
}

/* ---- pairs ---- */

/* The first message that is not before one with these. */
static size_t first_from(const struct messages *m, uint32_t stream, bool sent, uint32_t base, uint64_t position)
{
	const struct message key = { .stream = stream, .sent = sent, .base = base, .position = position };

	return bisect(m->n, k, compare(&m->list[k], &key) < 0);
}

/* The call that has sent the byte before this position of the receiver; NULL: it is not in the recording. */
static const struct message *sender_of(const struct messages *m, uint32_t stream, const struct message *received, uint64_t behind)
{
	for (int slack = -BASE_SLACK; slack <= BASE_SLACK; slack++) {
		/* the same byte has a position that is as much lower as the base is higher */
		uint32_t base = received->base + (uint32_t)slack;
		uint64_t position = behind - (uint64_t)(int64_t)slack;
		size_t i = first_from(m, stream, true, base, position);
		const struct message *s = &m->list[i];

		if (i < m->n && s->stream == stream && s->sent && s->base == base && s->position - s->bytes + 1 <= position)
			return s;
	}
	return NULL;
}

int messages_match(const struct messages *from, const struct messages *to, int (*pair)(void *arg, const struct message_pair *p), void *arg)
{
	for (size_t i = 0; i < to->n; i++) {
		struct message_pair p = { .received = &to->list[i] };
		const char *name = to->streams[p.received->stream]->name;
		struct message_stream *s;
		int err;

		if (p.received->sent)
			continue;
		HASH_FIND_STR(from->by_name, name, s);
		p.sent = s ? sender_of(from, s->id, p.received, p.received->position) : NULL;
		if (s && !p.sent) /* the end of a connection has a number like a byte */
			p.sent = sender_of(from, s->id, p.received, p.received->position - 1);
		err = p.sent ? pair(arg, &p) : 0;
		if (err)
			return err;
	}
	return 0;
}
