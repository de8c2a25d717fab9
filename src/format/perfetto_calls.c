// SPDX-License-Identifier: BSD-2-Clause
/*
 * Perfetto trace: system calls, the most frequent of all records.
 *
 * A thread's system calls do not nest, so on a track of their own they need not be held back for sorting. Each thread has its
 * own sequence of packets, with its track as the default, a clock of deltas and names: both packets of a call take 24 bytes
 * plus its result.
 */
#include "format/perfetto.h"
#include "util/alloc.h"
#include "util/bytes.h"

#define ERRNO_MAX 1024
#define BITS(n) (((n) + 63) / 64)

/* Ids of the names of arguments, the same in all sequences. */
#define ARG_RET 1
#define ARG_FD 2

struct perfetto_calls {
	uint32_t sequence;
	bool begun;
	uint64_t deltas_ns;
	uint64_t names[BITS(SYSCALL_MAX)], errors[BITS(ERRNO_MAX)]; /* a bit for each that was written */
};

static char *put_short_clock(char *p, uint32_t id, uint64_t ns, bool deltas)
{
	char *clock;

	p = proto_open_short(p, 1 /* clocks */, &clock);
	p = proto_u64(p, 1 /* clock_id */, id);
	p = proto_u64(p, 2 /* timestamp */, ns);
	if (deltas)
		p = proto_u64(p, 3 /* is_incremental */, 1);
	return proto_close_short(clock, p);
}

/* Returns false if there is no room for it now. */
static bool calls_begin_sequence(struct perfetto_sink *s, struct perfetto_calls *c, uint32_t row, uint64_t ns)
{
	char *packet, *part, *event, *p = packet_begin(s, &packet);

	p = proto_u64(p, PACKET_SEQUENCE, c->sequence);
	p = proto_u64(p, PACKET_SEQUENCE_FLAGS, SEQUENCE_F_CLEARED);
	p = proto_u64(p, PACKET_FIRST, 1);
	p = proto_open_short(p, PACKET_DEFAULTS, &part);
	p = proto_u64(p, PACKET_CLOCK, CLOCK_DELTAS);
	p = proto_open_short(p, PACKET_EVENT, &event);
	p = proto_u64(p, 11 /* track_uuid */, row);
	p = proto_close_short(part, proto_close_short(event, p));
	p = proto_open(p, PACKET_INTERNED, &part);
	p = put_interned(p, INTERN_ANNOTATION, ARG_RET, "ret", 3);
	p = put_interned(p, INTERN_ANNOTATION, ARG_FD, "fd", 2);
	p = proto_close(packet, proto_close(part, p));

	p = proto_open(p, 1 /* Trace.packet */, &packet);
	p = proto_u64(p, PACKET_SEQUENCE, c->sequence);
	p = proto_open(p, PACKET_CLOCKS, &part);
	p = put_short_clock(p, CLOCK_DELTAS, ns, true);
	p = put_short_clock(p, CLOCK_OF_BOOTTIME, ns, false);
	p = proto_close(packet, proto_close(part, p));
	c->deltas_ns = ns;
	c->begun = writer_commit(s->sink.w, p);
	return c->begun;
}

/* Writes a name, once. */
static void calls_write_name(struct perfetto_sink *s, const struct perfetto_calls *c, enum intern_kind kind, uint32_t iid,
	const char *name, uint64_t *bits, uint32_t i)
{
	char *packet, *data, *p = proto_open(packet_of(s, c->sequence, 0, &packet), PACKET_INTERNED, &data);

	p = put_interned(p, kind, iid, name, strlen(name));
	if (writer_commit(s->sink.w, proto_close(packet, proto_close(data, p))))
		bit_set(bits, i);
}

static inline char *put_call_time(struct perfetto_calls *c, char *p, uint64_t ns)
{
	if (ns < c->deltas_ns) {
		p = proto_u64(p, PACKET_TIMESTAMP, ns);
		return proto_u64(p, PACKET_CLOCK, CLOCK_OF_BOOTTIME);
	}
	p = proto_u64(p, PACKET_TIMESTAMP, ns - c->deltas_ns);
	c->deltas_ns = ns;
	return p;
}

static inline char *put_call_arg(char *p, uint32_t name, enum value_type type, uint64_t v)
{
	char *mark;

	p = proto_open_short(p, 4 /* debug_annotations */, &mark);
	p = proto_u64(p, 1 /* name_iid */, name);
	return proto_close_short(mark, proto_u64(p, type, v));
}

/* Errors by name, addresses as such, as in the JSON. */
static char *put_ret(char *p, const struct perfetto_calls *c, int64_t ret)
{
	if (ret >= 0)
		return put_call_arg(p, ARG_RET, ret > 0xffffffffll ? VALUE_POINTER : VALUE_INT, (uint64_t)ret);
	if (ret > -ERRNO_MAX && bit_is_set(c->errors, (uint32_t)-ret))
		return put_call_arg(p, ARG_RET, VALUE_WORD, (uint64_t)-ret + 1);
	return put_call_arg(p, ARG_RET, VALUE_INT, (uint64_t)ret);
}

static char *put_args(char *p, const struct perfetto_calls *c, const struct rec_syscall *r)
{
	if (!(r->h.flags & REC_F_OPEN_END))
		p = put_ret(p, c, r->ret);
	if (syscall_has_fd(r->h.id))
		p = put_call_arg(p, ARG_FD, VALUE_INT, (uint64_t)(int32_t)r->arg0);
	if (r->h.flags & REC_F_OPEN_START)
		p = put_annotation(p, "began_before", VALUE_BOOL, 1, NULL);
	if (r->h.flags & REC_F_OPEN_END)
		p = put_annotation(p, "unfinished", VALUE_BOOL, 1, NULL);
	return p;
}

static char *put_call_name(const struct perfetto_sink *s, char *p, const struct perfetto_calls *c, uint32_t nr)
{
	char name[32], *end;

	if (nr < SYSCALL_MAX && bit_is_set(c->names, nr))
		return proto_u64(p, 10 /* name_iid */, s->call_iids[nr]);
	end = fmt_u32(fmt_lit(name, "syscall_"), nr);
	return proto_text(p, 23 /* name */, name, (size_t)(end - name));
}

/* r NULL: the end of a call. With lengths of one byte: the content has less than 128. */
static inline char *put_call_event(
	const struct perfetto_sink *s, char *p, struct perfetto_calls *c, const struct rec_syscall *r, uint64_t ns)
{
	char *packet, *event;

	p = proto_open_short(p, 1 /* Trace.packet */, &packet);
	p = proto_u64(p, PACKET_SEQUENCE, c->sequence);
	p = put_call_time(c, p, ns);
	p = proto_open_short(p, PACKET_EVENT, &event);
	p = proto_u64(p, 9 /* type */, r ? EVENT_BEGIN : EVENT_END);
	if (r)
		p = put_args(put_call_name(s, p, c, r->h.id), c, r);
	return proto_close_short(packet, proto_close_short(event, p));
}

static void calls_write_names(struct perfetto_sink *s, struct perfetto_calls *c, const struct rec_syscall *r)
{
	uint32_t nr = r->h.id, error = r->ret < 0 && r->ret > -ERRNO_MAX ? (uint32_t)-r->ret : 0;
	const char *name;

	if (nr < SYSCALL_MAX && !bit_is_set(c->names, nr) && (name = syscall_name(nr))) {
		if (!s->call_iids[nr])
			s->call_iids[nr] = ++s->n_call_iids;
		calls_write_name(s, c, INTERN_NAME, s->call_iids[nr], name, c->names, nr);
	}
	if (error && !bit_is_set(c->errors, error) && (name = errno_name((int)error)))
		calls_write_name(s, c, INTERN_WORD, error + 1, name, c->errors, error);
}

void perfetto_syscall(struct perfetto_sink *s, const struct rec_syscall *r)
{
	uint64_t start = perfetto_ts(s, r->h.start_ns), end = r->h.start_ns + r->h.dur_ns, before;
	struct perfetto_thread *t = perfetto_thread(s, r->h.tgid, r->h.tid);
	struct perfetto_calls *c;
	uint32_t row;
	char *p;

	if (!t)
		return;
	row = perfetto_thread_row(s, t, TRACK_SYSCALLS);
	if (!t->calls) {
		t->calls = xcalloc(1, sizeof(*t->calls));
		t->calls->sequence = SEQUENCE_CALLS + s->n_calls++;
	}
	c = t->calls;
	if (!c->begun && !calls_begin_sequence(s, c, row, start))
		return;
	calls_write_names(s, c, r);
	before = c->deltas_ns;
	p = put_call_event(s, writer_reserve(s->sink.w), c, r, start);
	p = put_call_event(s, p, c, NULL, end > start ? end : start);
	/* the next delta is relative to a packet that was written */
	if (!writer_commit(s->sink.w, p))
		c->deltas_ns = before;
}
