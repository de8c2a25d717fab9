// SPDX-License-Identifier: BSD-2-Clause
#include "read/pftrace_events.h"

#include <stdlib.h>
#include <string.h>

#include "schema/perfetto_fields.h"
#include "util/map.h"

#define FULL "names and tracks take more memory than there is for them"
#define KEPT_MAX (UINT64_C(256) << 20)
#define OWN_TRACK "inftrace"
#define EVENT_ARG 4
#define EVENT_TYPE 9
#define EVENT_NAME_IID 10
#define EVENT_TRACK 11
#define EVENT_NAME 23
#define SLICE_BEGIN 1
#define SLICE_END 2
#define INSTANT 3
#define ARG_NAME_IID 1
#define ARG_UINT 3
#define ARG_INT 4
#define ARG_TEXT 6
#define ARG_POINTER 7
#define ARG_TEXT_IID 17

/* Kinds of interned names, and their fields in InternedData. */
enum names {
	NAMES_EVENT,
	NAMES_ARG,
	NAMES_TEXT,
	NAMES,
};
static const uint64_t names_fields[NAMES] = { 2, 3, 29 };

struct text {
	UT_hash_handle hh;
	char text[];
};

struct interned {
	UT_hash_handle hh;
	uint64_t iid;
	const struct text *text;
};

struct sequence {
	UT_hash_handle hh;
	uint64_t id;
	uint64_t clock, track; /* defaults of its packets; 0: BOOTTIME, unknown track */
	bool deltas;           /* CLOCK_DELTAS has its base, deltas_ns */
	int64_t deltas_ns;     /* CLOCK_BOOTTIME of its last packet or snapshot */
	struct interned *names[NAMES];
};

struct open_args {
	size_t n;
	struct pftrace_arg list[PFTRACE_ARGS_MAX];
};

struct track {
	UT_hash_handle hh;
	uint64_t uuid;
	uint32_t pid, tid;
	uint32_t depth;
	struct {
		const struct text *name;
		int64_t ns;
		struct open_args *args; /* NULL: none are wanted */
	} open[PFTRACE_SLICES_NEST];
};

struct event_reader {
	struct packets in;
	const struct pftrace_event_ops *ops;
	void *ctx;
	struct text *texts;
	struct sequence *sequences;
	struct track *tracks;
};

static struct sequence *events_get_sequence(struct event_reader *r, uint64_t id)
{
	struct sequence *q;

	HASH_FIND(hh, r->sequences, &id, sizeof(id), q);
	if (q)
		return q;
	q = packets_keep(&r->in, sizeof(*q));
	if (!q)
		return NULL;
	q->id = id;
	HASH_ADD(hh, r->sequences, id, sizeof(q->id), q);
	return q;
}

static void sequence_clear_names(struct event_reader *r, struct sequence *q)
{
	struct interned *e, *next;

	for (size_t i = 0; i < NAMES; i++) {
		HASH_ITER(hh, q->names[i], e, next)
		{
			HASH_DEL(q->names[i], e);
			r->in.kept -= sizeof(*e);
			free(e);
		}
	}
	q->clock = q->track = 0;
	q->deltas = false;
}

static const struct text *text_get(struct event_reader *r, struct proto_bytes b)
{
	size_t len = strnlen((const char *)b.p, proto_len(b));
	struct text *t;

	HASH_FIND(hh, r->texts, b.p, len, t);
	if (t)
		return t;
	t = packets_keep(&r->in, sizeof(*t) + len + 1);
	if (!t)
		return NULL;
	memcpy(t->text, b.p, len);
	HASH_ADD_KEYPTR(hh, r->texts, t->text, len, t);
	return t;
}

/* ---- what packets refer to ---- */

static int read_interned_name(struct event_reader *r, struct interned **names, struct proto_bytes in)
{
	struct proto_bytes text = { in.p, in.p };
	struct proto_field f;
	struct interned *e;
	uint64_t iid = 0;

	while (proto_next(&in, &f) == 1) {
		if (f.number == 1)
			iid = f.value;
		else if (f.number == 2)
			text = f.bytes;
	}
	HASH_FIND(hh, *names, &iid, sizeof(iid), e);
	if (e)
		return 0;
	e = packets_keep(&r->in, sizeof(*e));
	if (!e)
		return packets_full(&r->in, FULL);
	e->iid = iid;
	e->text = text_get(r, text);
	if (!e->text) {
		free(e);
		return packets_full(&r->in, FULL);
	}
	HASH_ADD(hh, *names, iid, sizeof(e->iid), e);
	return 0;
}

static int events_read_interned(struct event_reader *r, struct sequence *q, struct proto_bytes in)
{
	struct proto_field f;
	int err = 0;

	while (!err && proto_next(&in, &f) == 1) {
		for (size_t i = 0; i < (r->ops->wants_instant || r->ops->wants_args ? NAMES : 1) && !err; i++) {
			if (f.number == names_fields[i])
				err = read_interned_name(r, &q->names[i], f.bytes);
		}
	}
	return err;
}

static void events_read_defaults(struct sequence *q, struct proto_bytes in)
{
	struct proto_field f, inner;

	q->clock = q->track = 0;
	while (proto_next(&in, &f) == 1) {
		if (f.number == PACKET_CLOCK)
			q->clock = f.value;
		if (f.number != PACKET_EVENT)
			continue;
		while (proto_next(&f.bytes, &inner) == 1) {
			if (inner.number == EVENT_TRACK)
				q->track = inner.value;
		}
	}
}

static int read_track(struct event_reader *r, struct proto_bytes in)
{
	struct proto_field f, inner;
	uint64_t uuid = 0, pid = 0, tid = 0;
	struct track *t;
	bool own = false;

	while (proto_next(&in, &f) == 1) {
		if (f.number == TRACK_UUID)
			uuid = f.value;
		if (f.number == TRACK_NAME)
			own = proto_is(f.bytes, OWN_TRACK);
		if (f.number != TRACK_THREAD_FIELD)
			continue;
		while (proto_next(&f.bytes, &inner) == 1) {
			if (inner.number == 1)
				pid = inner.value;
			else if (inner.number == 2)
				tid = inner.value;
		}
	}
	if (!tid && !(own && (r->ops->wants_args || r->ops->wants_instant)))
		return 0;
	HASH_FIND(hh, r->tracks, &uuid, sizeof(uuid), t);
	if (!t) {
		t = packets_keep(&r->in, sizeof(*t));
		if (!t)
			return packets_full(&r->in, FULL);
		t->uuid = uuid;
		HASH_ADD(hh, r->tracks, uuid, sizeof(t->uuid), t);
	}
	t->pid = (uint32_t)pid;
	t->tid = (uint32_t)tid;
	return 0;
}

/* ---- time ---- */

static int read_clocks(struct event_reader *r, struct sequence *q, struct proto_bytes in)
{
	bool has_boot = false, has_real = false, has_deltas = false;
	uint64_t boot = 0, real = 0, id, ns;
	struct proto_field f, inner;

	while (proto_next(&in, &f) == 1) {
		if (f.number != 1 /* clocks */)
			continue;
		id = ns = 0;
		while (proto_next(&f.bytes, &inner) == 1) {
			if (inner.number == 1)
				id = inner.value;
			else if (inner.number == 2)
				ns = inner.value;
		}
		if (id == CLOCK_OF_BOOTTIME)
			boot = ns, has_boot = true;
		else if (id == CLOCK_OF_REALTIME)
			real = ns, has_real = true;
		else if (id == CLOCK_DELTAS)
			has_deltas = true;
	}
	if (boot > INT64_MAX || real > INT64_MAX || !has_boot)
		return 0;
	if (has_deltas) {
		q->deltas = true;
		q->deltas_ns = (int64_t)boot;
	}
	return has_real && r->ops->clocks ? r->ops->clocks(r->ctx, (int64_t)boot, (int64_t)real) : 0;
}

/* Converts the packet's time to CLOCK_BOOTTIME. false: it is unknown; *ret_ns is undefined then. */
static bool packet_time(struct sequence *q, const struct packet *p, int64_t *ret_ns)
{
	uint64_t clock = p->clock ? p->clock : q->clock ? q->clock
							: CLOCK_OF_BOOTTIME;

	if (!p->timed || p->ts > INT64_MAX)
		return false;
	if (clock == CLOCK_DELTAS && q->deltas && !__builtin_add_overflow(q->deltas_ns, (int64_t)p->ts, ret_ns)) {
		q->deltas_ns = *ret_ns;
		return true;
	}
	*ret_ns = (int64_t)p->ts;
	return clock == CLOCK_OF_BOOTTIME;
}

/* ---- slices ---- */

static void end_slice(struct event_reader *r, struct track *t, int64_t ns)
{
	struct pftrace_slice s = { .pid = t->pid, .tid = t->tid, .end_ns = ns };

	if (!t->depth)
		return; /* it began before the recording */
	t->depth--;
	if (t->depth >= PFTRACE_SLICES_NEST || !t->open[t->depth].name)
		return;
	s.name = t->open[t->depth].name->text;
	s.start_ns = t->open[t->depth].ns;
	if (t->open[t->depth].args && r->ops->wants_args(s.name)) {
		s.n = t->open[t->depth].args->n;
		s.args = t->open[t->depth].args->list;
	}
	r->ops->slice(r->ctx, &s);
}

/* NULL: unknown. */
static const char *interned_name(const struct sequence *q, enum names which, uint64_t iid)
{
	struct interned *e;

	HASH_FIND(hh, q->names[which], &iid, sizeof(iid), e);
	return e ? e->text->text : NULL;
}

/* An unknown name is NULL, and so is a text over KEPT_MAX. */
static void event_read_arg(struct event_reader *r, const struct sequence *q, struct proto_bytes in, struct pftrace_arg *ret)
{
	const struct text *text;
	struct proto_field f;

	*ret = (struct pftrace_arg){ 0 };
	while (proto_next(&in, &f) == 1) {
		if (f.number == ARG_NAME_IID)
			ret->name = interned_name(q, NAMES_ARG, f.value);
		else if (f.number == ARG_UINT || f.number == ARG_INT || f.number == ARG_POINTER)
			ret->value = f.value;
		else if (f.number == ARG_TEXT_IID)
			ret->text = interned_name(q, NAMES_TEXT, f.value);
		else if (f.number == ARG_TEXT) {
			text = text_get(r, f.bytes);
			ret->text = text ? text->text : NULL;
		}
	}
}

static size_t event_read_args(struct event_reader *r, const struct sequence *q, struct proto_bytes in, struct pftrace_arg ret[PFTRACE_ARGS_MAX])
{
	struct proto_field f;
	size_t n = 0;

	while (proto_next(&in, &f) == 1) {
		if (f.number == EVENT_ARG && n < PFTRACE_ARGS_MAX)
			event_read_arg(r, q, f.bytes, &ret[n++]);
	}
	return n;
}

/* in: the event, for its arguments. */
static int begin_slice(struct event_reader *r, const struct sequence *q, struct track *t, struct proto_bytes in, const struct text *name, int64_t ns)
{
	bool args = name && r->ops->wants_args && r->ops->wants_args(name->text);

	if (t->depth < PFTRACE_SLICES_NEST) {
		t->open[t->depth].name = name;
		t->open[t->depth].ns = ns;
		if (args && !t->open[t->depth].args)
			t->open[t->depth].args = packets_keep(&r->in, sizeof(*t->open[t->depth].args));
		if (args && !t->open[t->depth].args)
			return packets_full(&r->in, FULL);
		if (args)
			t->open[t->depth].args->n = event_read_args(r, q, in, t->open[t->depth].args->list);
	}
	if (t->depth < UINT32_MAX)
		t->depth++;
	return 0;
}

static int events_read_event(struct event_reader *r, struct sequence *q, struct proto_bytes in, int64_t ns)
{
	const struct proto_bytes whole = in;
	uint64_t type = 0, iid = 0, uuid = q->track;
	struct proto_bytes text = { NULL, NULL };
	struct pftrace_instant instant;
	struct interned *e = NULL;
	const struct text *name;
	struct proto_field f;
	struct track *t;

	while (proto_next(&in, &f) == 1) {
		switch (f.number) {
		case EVENT_TYPE:
			type = f.value;
			break;
		case EVENT_NAME_IID:
			iid = f.value;
			break;
		case EVENT_TRACK:
			uuid = f.value;
			break;
		case EVENT_NAME:
			text = f.bytes;
			break;
		}
	}
	HASH_FIND(hh, r->tracks, &uuid, sizeof(uuid), t);
	if (!t)
		return 0;
	if (type == SLICE_END)
		end_slice(r, t, ns);
	if (type != SLICE_BEGIN && (type != INSTANT || !r->ops->wants_instant))
		return 0;
	if (iid)
		HASH_FIND(hh, q->names[NAMES_EVENT], &iid, sizeof(iid), e);
	name = text.p ? text_get(r, text) : e ? e->text
					      : NULL;
	if (text.p && !name)
		return packets_full(&r->in, FULL);
	if (type == INSTANT && name && r->ops->wants_instant(name->text)) {
		instant = (struct pftrace_instant){ .name = name->text, .ns = ns };
		instant.n = event_read_args(r, q, whole, instant.args);
		r->ops->instant(r->ctx, &instant);
	}
	if (type == INSTANT)
		return 0;
	return begin_slice(r, q, t, whole, name, ns);
}

/* ---- packets ---- */

static int events_read_packet(void *arg, struct proto_bytes in)
{
	struct event_reader *r = arg;
	struct sequence *q;
	struct packet p;
	int64_t ns;
	int err = 0;

	if (packet_parse(&r->in, in, &p))
		return 0;
	q = events_get_sequence(r, p.sequence);
	if (!q)
		return packets_full(&r->in, FULL);
	if (p.flags & SEQUENCE_F_CLEARED)
		sequence_clear_names(r, q);
	if (p.defaults.p)
		events_read_defaults(q, p.defaults);
	if (p.interned.p)
		err = events_read_interned(r, q, p.interned);
	if (!err && p.track.p)
		err = read_track(r, p.track);
	if (!err && p.clocks.p)
		err = read_clocks(r, q, p.clocks);
	if (err || !packet_time(q, &p, &ns))
		return err;
	if (r->ops->time)
		r->ops->time(r->ctx, ns);
	return p.event.p ? events_read_event(r, q, p.event, ns) : 0;
}

static void reader_clear(struct event_reader *r)
{
	struct sequence *q, *next_q;
	struct track *t, *next_t;
	struct text *x, *next_x;

	HASH_ITER(hh, r->sequences, q, next_q)
	{
		sequence_clear_names(r, q);
		HASH_DEL(r->sequences, q);
		free(q);
	}
	HASH_ITER(hh, r->tracks, t, next_t)
	{
		HASH_DEL(r->tracks, t);
		for (size_t i = 0; i < PFTRACE_SLICES_NEST; i++)
			free(t->open[i].args);
		free(t);
	}
	HASH_ITER(hh, r->texts, x, next_x)
	{
		HASH_DEL(r->texts, x);
		free(x);
	}
}

bool pftrace_instant_is_host(const char *name)
{
	return !strcmp(name, "inftrace_clock");
}

static const char *arg_text(const struct pftrace_instant *instant, const char *name)
{
	for (size_t i = 0; i < instant->n; i++) {
		if (instant->args[i].name && !strcmp(instant->args[i].name, name))
			return instant->args[i].text;
	}
	return NULL;
}

void pftrace_instant_host(const struct pftrace_instant *instant, struct host_id *ret)
{
	host_id_parse(ret, arg_text(instant, "boot_id"), arg_text(instant, "hostname"), arg_text(instant, "boottime_shift_ns"));
}

bool pftrace_is(const struct json_source *source)
{
	return source->pos < source->end && *source->pos == '\n' && source->pos + 1 < source->end && source->pos[1] != '{' &&
	       source->pos[1] != '[' && source->pos[1] != '\n' && source->pos[1] != ' ';
}

int pftrace_events_read(struct json_source *source, const struct pftrace_event_ops *ops, void *ctx, bool *ret_torn)
{
	struct event_reader r = { .in = { .source = source, .bad = ops->bad, .ctx = ctx, .kept_max = KEPT_MAX }, .ops = ops, .ctx = ctx };
	int ret = packets_each(&r.in, events_read_packet, &r);

	reader_clear(&r);
	*ret_torn = r.in.torn;
	return ret;
}
