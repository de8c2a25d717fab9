// SPDX-License-Identifier: BSD-2-Clause
/*
 * The Perfetto sink as a reader sees it: packets in the order of time, those of one time in the
 * order of the file. Random calls of random threads come from rings that are drained in random
 * order, and every slice must be read with its own begin and end.
 */
#include "cases.h"
#include "sinks.h"

#define NAMES_MAX 256
#define ARGS_MAX 8

struct bytes {
	const uint8_t *p, *end;
};

/* What is read of a packet. */
struct seen {
	uint64_t ns, track, type, name, category, arg, flow_begin, flow_end;
	size_t place;
	char text[64], category_text[64], arg_text[64];
};

struct reader {
	struct seen *events;
	size_t n, size, packets, cleared, dropped;
	uint64_t deltas_ns, clock; /* of the events' sequence: where it is, and the one that packets have */
	char names[32][NAMES_MAX][64]; /* by field of InternedData and number */
	struct {
		uint64_t uuid;
		uint32_t tid;
		char name[32];
	} tracks[512];
	size_t n_tracks;
};

static uint64_t varint(struct bytes *b)
{
	uint64_t v = 0;

	for (int shift = 0;; shift += 7) {
		assert_true(b->p < b->end && shift < 64);
		v |= (uint64_t)(*b->p & 0x7f) << shift;
		if (!(*b->p++ & 0x80))
			return v;
	}
}

/* The next field: its number, and its value or its bytes. 0 at the end. */
static uint32_t field_next(struct bytes *b, uint64_t *ret_v, struct bytes *ret_in)
{
	uint64_t key, len = 8;

	*ret_v = 0;
	*ret_in = (struct bytes){ b->p, b->p };
	if (b->p == b->end)
		return 0;
	key = varint(b);
	switch (key & 7) {
	case 0:
		*ret_v = varint(b);
		return (uint32_t)(key >> 3);
	case 2:
		len = varint(b);
		break;
	default:
		assert_int_equal(key & 7, 1);
	}
	assert_true(len <= (size_t)(b->end - b->p));
	*ret_in = (struct bytes){ b->p, b->p + len };
	b->p += len;
	if ((key & 7) == 1)
		memcpy(ret_v, ret_in->p, sizeof(*ret_v));
	return (uint32_t)(key >> 3);
}

static void copy_text(char *to, size_t size, struct bytes in)
{
	snprintf(to, size, "%.*s", (int)(in.end - in.p), (const char *)in.p);
}

static void read_names(struct reader *r, struct bytes data)
{
	struct bytes entry, in;
	uint64_t v, iid = 0;
	uint32_t kind, f;

	while ((kind = field_next(&data, &v, &entry))) {
		assert_true(kind < 32);
		while ((f = field_next(&entry, &v, &in))) {
			iid = f == 1 ? v : iid;
			assert_in_range(iid, 1, NAMES_MAX - 1);
			if (f == 2)
				copy_text(r->names[kind][iid], 64, in);
		}
	}
}

static void read_track(struct reader *r, struct bytes data)
{
	uint64_t v, uuid = 0, tid = 0;
	struct bytes in, sub;
	char name[32] = "";
	uint32_t f;
	size_t i;

	while ((f = field_next(&data, &v, &in))) {
		uuid = f == 1 ? v : uuid;
		if (f == 2)
			copy_text(name, sizeof(name), in);
		while (f == 4 && (f = field_next(&in, &v, &sub)))
			tid = f == 2 ? v : tid, f = 4;
	}
	for (i = 0; i < r->n_tracks && r->tracks[i].uuid != uuid; i++)
		;
	assert_true(i < ARRAY_SIZE(r->tracks));
	r->n_tracks += i == r->n_tracks;
	r->tracks[i].uuid = uuid;
	r->tracks[i].tid = (uint32_t)tid;
	memcpy(r->tracks[i].name, name, sizeof(name));
}

static void read_annotation(const struct reader *r, struct seen *e, struct bytes data)
{
	struct bytes in;
	uint64_t v;
	uint32_t f;

	while ((f = field_next(&data, &v, &in))) {
		if (f == 1)
			assert_true(*r->names[3][v]);
		else if (f == 17)
			strcpy(e->arg_text, r->names[29][v]);
		else if (f == 6)
			copy_text(e->arg_text, sizeof(e->arg_text), in);
		else
			e->arg = v;
	}
}

static void read_event(struct reader *r, uint64_t ns, struct bytes data)
{
	struct seen e = { .ns = ns, .place = r->n };
	struct bytes in;
	uint64_t v;
	uint32_t f;

	while ((f = field_next(&data, &v, &in))) {
		e.type = f == 9 ? v : e.type;
		e.track = f == 11 ? v : e.track;
		e.flow_begin = f == 47 ? v : e.flow_begin;
		e.flow_end = f == 48 ? v : e.flow_end;
		if (f == 10)
			strcpy(e.text, r->names[2][v]);
		else if (f == 3)
			strcpy(e.category_text, r->names[1][v]);
		else if (f == 4)
			read_annotation(r, &e, in);
	}
	assert_true(e.type == 2 || e.type == 4 || (e.text[0] && e.category_text[0]));
	if (r->n == r->size) {
		r->size = r->size ? 2 * r->size : 1024;
		r->events = realloc(r->events, r->size * sizeof(e));
		assert_non_null(r->events);
	}
	r->events[r->n++] = e;
}

/* The only clocks are CLOCK_BOOTTIME and that of deltas, which begins where a snapshot says. */
static void read_clocks(struct reader *r, struct bytes data)
{
	struct bytes clock, in;
	uint64_t v;
	uint32_t f;

	while (field_next(&data, &v, &clock) == 1) {
		uint64_t values[4] = { 0 }; /* clock_id, timestamp, is_incremental */

		while ((f = field_next(&clock, &v, &in)))
			values[f % 4] = v;
		assert_int_equal(values[3], values[1] == 64);
		if (values[3])
			r->deltas_ns = values[2];
	}
}

static uint64_t time_of(struct reader *r, uint64_t clock, uint64_t ns)
{
	clock = clock ? clock : r->clock;
	assert_true(clock == 6 || clock == 64);
	return clock == 64 ? r->deltas_ns += ns : ns;
}

static void read_packet(struct reader *r, struct bytes packet)
{
	struct bytes in, none, event = { 0 };
	uint64_t v, ns = 0, clock = 0;
	uint32_t f;

	while ((f = field_next(&packet, &v, &in))) {
		if (f == 8)
			ns = v;
		else if (f == 58)
			clock = v;
		else if (f == 6)
			read_clocks(r, in);
		else if (f == 59)
			assert_int_equal(field_next(&in, &r->clock, &none), 58);
		else if (f == 11)
			event = in;
		else if (f == 12)
			read_names(r, in);
		else if (f == 60)
			read_track(r, in);
		else if (f == 42)
			r->dropped++;
		else if (f == 13 && v & 1) {
			memset(r->names, 0, sizeof(r->names));
			r->cleared++;
		}
	}
	if (event.p)
		read_event(r, time_of(r, clock, ns), event);
}

static int by_time(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

static void perfetto_open(struct out *o)
{
	*o = (struct out){ .fd = memfd_create("trace", MFD_CLOEXEC) };
	assert_int_equal(writer_new(dup(o->fd), "trace", WRITER_PACKETS, &o->w), 0);
	assert_int_equal(perfetto_sink_new(o->w, &rec, &o->s), 0);
}

/* What is in the file, in the order of time. */
static struct reader *read_file(struct out *o)
{
	struct reader *r = calloc(1, sizeof(*r));
	struct bytes file, packet;
	uint64_t v;

	assert_non_null(r);
	read_text(o);
	file = (struct bytes){ (uint8_t *)o->text, (uint8_t *)o->text + o->len };
	for (; file.p < file.end; r->packets++) {
		assert_int_equal(field_next(&file, &v, &packet), 1);
		read_packet(r, packet);
	}
	if (r->n)
		qsort(r->events, r->n, sizeof(*r->events), by_time);
	free(o->text);
	close(o->fd);
	return r;
}

/* Closes the sink and reads what it wrote. */
static struct reader *perfetto_read(struct out *o)
{
	assert_int_equal(o->s->ops->close(o->s, NULL), 0);
	return read_file(o);
}

/* The sink goes on in another file; returns what is in the one before. */
static struct reader *perfetto_rotate(struct out *o)
{
	struct out next = { .fd = memfd_create("trace", MFD_CLOEXEC), .s = o->s };
	struct reader *r;

	assert_int_equal(writer_new(dup(next.fd), "trace", WRITER_PACKETS, &next.w), 0);
	o->s->ops->rotate(o->s, next.w);
	assert_int_equal(o->s->ops->held(o->s), 0);
	assert_int_equal(writer_close(o->w), 0);
	r = read_file(o);
	*o = next;
	return r;
}

static void reader_free(struct reader *r)
{
	free(r->events);
	free(r);
}

static uint32_t tid_of(const struct reader *r, uint64_t track, const char *name)
{
	for (size_t i = 0; i < r->n_tracks; i++) {
		if (r->tracks[i].uuid == track) {
			assert_string_equal(r->tracks[i].name, name);
			return r->tracks[i].tid;
		}
	}
	fail_msg("a track that is not described");
	return 0;
}

/* ---- random calls ---- */

#define THREADS 5
#define RINGS 3
#define SENDS_MAX 20000

enum {
	SPEC_OP, /* begins a pair */
	SPEC_BARRIER,
	SPEC_CALL,
};

struct send {
	struct rec_function r;
	unsigned int ring;
};

struct machine {
	struct send sends[SENDS_MAX]; /* as they were sent, by all */
	size_t n, given;
	bool taken[SENDS_MAX];
	uint64_t now;
	struct worker {
		uint32_t tid;
		unsigned int ring, depth;
		uint64_t starts[8];
		struct rec_function op; /* in flight, begun when start_ns is not 0 */
		uint64_t op_end;
	} workers[THREADS];
};

static void send_call(
	struct machine *m, struct worker *w, uint32_t id, uint64_t start, uint64_t end)
{
	struct send *s = &m->sends[m->n++];

	s->r = (struct rec_function){ .h = { .kind = REC_FUNCTION,
					      .id = id,
					      .tgid = PID,
					      .tid = w->tid,
					      .cpu = (uint16_t)w->ring,
					      .start_ns = start,
					      .dur_ns = end - start },
		.vals = { m->n } };
	s->ring = w->ring;
}

static void send_op(struct machine *m, struct worker *w)
{
	if (w->op.h.start_ns)
		send_call(m, w, SPEC_OP, w->op.h.start_ns, w->op_end);
	w->op.h.start_ns = 0;
}

/* What one of the threads does next, as the BPF programs would tell it. Times of different changes
 * differ, one change has one time. */
static void work(struct machine *m, struct worker *w)
{
	uint64_t now = ++m->now;

	if (draw() % 16 == 0)
		w->ring = (unsigned int)(draw() % RINGS);
	switch (draw() % 6) {
	case 0: /* an operator and its barrier; the record of the former comes with the next */
		if (w->depth)
			break;
		send_op(m, w);
		w->op.h.start_ns = now;
		if (draw() % 3 == 0) { /* a barrier within it */
			send_call(m, w, SPEC_BARRIER, now + 1, now + 2);
			now += 3;
		}
		w->op_end = now + 4;
		m->now = now + 4 + draw() % 3;
		send_call(m, w, SPEC_BARRIER, w->op_end, m->now);
		break;
	case 1:
	case 2:
		if (w->depth < ARRAY_SIZE(w->starts))
			w->starts[w->depth++] = now;
		break;
	case 3: /* the same call seen by two probes, one that begins with it, and one that touches
		   that */
		send_call(m, w, SPEC_CALL, now, now + 2);
		send_call(m, w, SPEC_CALL, now, now + 2);
		send_call(m, w, SPEC_CALL, now, now + 3);
		send_call(m, w, SPEC_CALL, now + 3, now + 3 + draw() % 2);
		m->now = now + 4;
		break;
	default:
		while (w->depth) { /* several at once: the inner ones are tail calls */
			send_call(m, w, SPEC_CALL, w->starts[--w->depth], now);
			if (draw() % 2)
				break;
		}
	}
}

static void give(struct machine *m, struct out *o, unsigned int ring)
{
	for (size_t i = m->given; i < m->n; i++) {
		if (m->taken[i] || m->sends[i].ring != ring)
			continue;
		EMIT(o, &m->sends[i].r);
		m->taken[i] = true;
	}
	while (m->given < m->n && m->taken[m->given])
		m->given++;
}

static void work_a_while(struct machine *m, size_t n)
{
	while (n-- && m->n + 64 < SENDS_MAX)
		work(m, &m->workers[draw() % THREADS]);
}

static void run_machine(struct machine *m, struct out *o)
{
	struct rec_task bye = { .h = { .kind = REC_TASK, .id = TASK_EXIT, .tgid = PID } };

	while (m->n + 64 < SENDS_MAX) {
		unsigned int first = (unsigned int)(draw() % RINGS);

		/* the rings in turn, and the threads go on meanwhile */
		for (unsigned int i = 0; i < RINGS; i++) {
			work_a_while(m, draw() % 40);
			give(m, o, (first + i) % RINGS);
		}
		if (draw() % 8)
			o->s->ops->settled(o->s);
		if (draw() % 4 == 0)
			assert_int_equal(o->s->ops->flush(o->s), 0);
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		struct worker *w = &m->workers[i];

		while (w->depth)
			send_call(m, w, SPEC_CALL, w->starts[--w->depth], m->now + 1);
		send_op(m, w);
		if (i % 2) {
			bye.h.tid = w->tid;
			bye.h.start_ns = m->now + 1;
			EMIT(o, &bye);
		}
	}
	for (unsigned int i = 0; i < RINGS; i++)
		give(m, o, i);
}

static void compare_slices(const struct reader *r, const struct machine *m)
{
	static const char *const names[] = { "op", "barrier", "call" };
	static struct seen stacks[512][64];
	size_t depth[512] = { 0 }, n = 0;

	for (size_t i = 0; i < r->n; i++) {
		const struct seen *e = &r->events[i], *b;
		const struct rec_function *f;
		size_t track = e->track % 512;

		if (e->type == 1) {
			assert_true(depth[track] < 64);
			stacks[track][depth[track]++] = *e;
		}
		if (e->type != 2)
			continue;
		assert_true(depth[track] > 0);
		b = &stacks[track][--depth[track]];
		assert_in_range(b->arg, 1, m->n);
		f = &m->sends[b->arg - 1].r;
		assert_string_equal(b->text, names[f->h.id]);
		assert_int_equal(tid_of(r, b->track, "calls"), f->h.tid);
		if (b->ns != f->h.start_ns || e->ns != f->h.start_ns + f->h.dur_ns)
			fail_msg("%s of thread %u is %llu to %llu, not %llu to %llu", b->text,
				f->h.tid, (unsigned long long)b->ns, (unsigned long long)e->ns,
				(unsigned long long)f->h.start_ns,
				(unsigned long long)(f->h.start_ns + f->h.dur_ns));
		n++;
	}
	assert_int_equal(n, m->n);
}

static void add_probes(void)
{
	probe_table_free(&probes);
	probes = (struct probe_table){ 0 };
	add_probe("op", ROLE_OP, PROBE_F_BEGIN, NULL, "u64 arg1");
	add_probe("barrier", ROLE_BARRIER, PROBE_F_SPAN | PROBE_F_END, NULL, "u64 arg1");
	add_probe("call", ROLE_OTHER, PROBE_F_SPAN, NULL, "u64 arg1");
}

static void test_order(void **state)
{
	struct machine *m = malloc(sizeof(*m));
	struct reader *r;
	struct out o;

	(void)state;
	assert_non_null(m);
	add_probes();
	for (unsigned int round = cases(20, 4); round > 0; round--) {
		memset(m, 0, sizeof(*m));
		m->now = START + 1000;
		for (uint32_t i = 0; i < THREADS; i++)
			m->workers[i].tid = PID + i;
		perfetto_open(&o);
		run_machine(m, &o);
		r = perfetto_read(&o);
		compare_slices(r, m);
		assert_int_equal(r->cleared, 1);
		reader_free(r);
	}
	free(m);
}

/* Many more than can wait come at once, nothing ever settles: all are there, and still in order. */
static void test_flood(void **state)
{
	struct rec_fault f = { .h = hdr(REC_FAULT, 0) };
	struct reader *r;
	struct out o;
	size_t n = 0;

	(void)state;
	perfetto_open(&o);
	for (uint32_t i = 0; i < 150000; i++) {
		f.h.start_ns = START + 10 * i;
		f.h.dur_ns = 10;
		f.h.tid = PID + i % 2;
		EMIT(&o, &f);
	}
	r = perfetto_read(&o);
	for (size_t i = 0; i < r->n; i++) {
		n += r->events[i].type == 1;
		if (i && r->events[i].type == 1)
			assert_int_equal(r->events[i - 1].type, i > 1 ? 2 : 1);
	}
	assert_int_equal(n, 150000);
	reader_free(r);
}

/* ---- the rest ---- */

static const struct seen *nth(const struct reader *r, const char *name, size_t n)
{
	for (size_t i = 0; i < r->n; i++) {
		if (!strcmp(r->events[i].text, name) && !n--)
			return &r->events[i];
	}
	return NULL;
}

/* Names are sent anew behind a loss, and slices that wait then keep theirs. */
static void test_loss(void **state)
{
	struct rec_fault f = { .h = hdr(REC_FAULT, 0) };
	struct loss l = { .from_ns = START + 100, .to_ns = START + 200 };
	struct reader *r;
	struct out o;

	(void)state;
	l.count[REC_FAULT] = 7;
	perfetto_open(&o);
	EMIT(&o, &f);
	o.s->ops->loss(o.s, &l);
	f.h.flags = FAULT_F_MAJOR;
	f.h.start_ns += 10000;
	EMIT(&o, &f);
	r = perfetto_read(&o);
	assert_int_equal(r->cleared, 2);
	assert_int_equal(r->dropped, 1);
	assert_non_null(nth(r, "page_fault_minor", 0));
	assert_non_null(nth(r, "page_fault_major", 0));
	assert_string_equal(nth(r, "lost records", 0)->category_text, "loss");
	assert_int_equal(nth(r, "lost records", 0)->arg, 7);
	reader_free(r);
}

static void test_mark(void **state)
{
	struct mark m = { .name = "window_open", .ns = START + 5, .number = 3, .reason = "flag" };
	const struct seen *e;
	struct reader *r;
	struct out o;

	(void)state;
	perfetto_open(&o);
	o.s->ops->mark(o.s, &m);
	r = perfetto_read(&o);
	e = nth(r, "window_open", 0);
	assert_non_null(e);
	assert_int_equal(e->type, 3);
	assert_int_equal(e->ns, START + 5);
	assert_int_equal(e->arg, 3);
	assert_string_equal(e->arg_text, "flag");
	assert_string_equal(e->category_text, "inftrace");
	tid_of(r, e->track, "inftrace");
	reader_free(r);
}

/* An arrow leads from an instant of the waker to one in the last nanosecond that the woken is off.
 */
static void test_wake_up(void **state)
{
	struct rec_off_cpu off = { .h = hdr(REC_OFF_CPU, ST_BLOCKED_FUTEX) };
	const struct seen *from, *to;
	struct reader *r;
	struct out o;

	(void)state;
	off.wake_ns = off.h.start_ns + 1000;
	off.waker_tid = PID;
	off.waker_slice = off.h.start_ns - 50;
	perfetto_open(&o);
	EMIT(&o, &off);
	off.waker_slice = 0; /* the waker was in nothing that is recorded */
	EMIT(&o, &off);
	r = perfetto_read(&o);
	from = nth(r, "wake-up", 0);
	to = nth(r, "wake-up", 1);
	assert_true(from && to && !nth(r, "wake-up", 2));
	assert_true(from->flow_begin && from->flow_begin == to->flow_end);
	assert_int_equal(from->ns, off.wake_ns);
	assert_int_equal(to->ns, off.h.start_ns + off.h.dur_ns - 1);
	assert_int_equal(tid_of(r, from->track, "calls"), PID);
	assert_int_equal(tid_of(r, to->track, "off CPU"), TID);
	reader_free(r);
}

static void test_ipc(void **state)
{
	struct rec_syscall call = { .h = hdr(REC_SYSCALL, 1) };
	const struct seen *e;
	struct reader *r;
	struct out o;

	(void)state;
	perfetto_open(&o);
	EMIT(&o, &call);
	call.h.flags = IPC_PIPE << SYSCALL_IPC_SHIFT | SYSCALL_F_BLOCKED;
	EMIT(&o, &call);
	r = perfetto_read(&o);
	e = nth(r, "ipc_slow", 0);
	assert_true(e && !nth(r, "ipc_slow", 1));
	assert_string_equal(e->category_text, "ipc");
	assert_string_equal(e->arg_text, "pipe");
	assert_int_equal(tid_of(r, e->track, "ipc"), TID);
	reader_free(r);
}

/* The longest of everything, in bytes that are no UTF-8: each slice still is two packets that can
 * be read. */
static void test_longest(void **state)
{
	struct rec_function f = { .h = hdr(REC_FUNCTION, 0) };
	struct rec_step step = { .h = hdr(REC_STEP, 1) };
	char name[256], args[512] = "";
	struct reader *r;
	struct out o;

	(void)state;
	probe_table_free(&probes);
	probes = (struct probe_table){ 0 };
	memset(name, 0xff, sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	for (int i = 0; i < FUNC_VALS_MAX; i++)
		strcat(args, i < FUNC_STRS_MAX ? "str arg1," : "u64 arg2,");
	args[strlen(args) - 1] = 0;
	add_probe(name, ROLE_OP, PROBE_F_SPAN, NULL, args);
	add_probe(name, ROLE_STEP, PROBE_F_SPAN, NULL, args);
	memset(f.vals, 0xff, sizeof(f.vals));
	memset(f.strs, 0xff, sizeof(f.strs));
	memset(step.vals, 0xff, sizeof(step.vals));
	memset(step.strs, 0xff, sizeof(step.strs));
	memset(step.ns, 0xff, sizeof(step.ns));
	step.number = step.lost = UINT32_MAX;
	step.h.flags = f.h.flags = REC_F_OPEN_START | REC_F_OPEN_END;
	perfetto_open(&o);
	EMIT(&o, &f);
	EMIT(&o, &step);
	r = perfetto_read(&o);
	/* the function, the step on its thread's track and on that of steps */
	assert_int_equal(r->n, 6);
	reader_free(r);
}

/* Each of many files has all of its names and tracks, and its slices in order; together they have all. */
static void test_rotate(void **state)
{
	struct machine *m = malloc(sizeof(*m));
	size_t begins = 0, files = 0;
	struct reader *r;
	struct out o;

	(void)state;
	assert_non_null(m);
	add_probes();
	memset(m, 0, sizeof(*m));
	m->now = START + 1000;
	for (uint32_t i = 0; i < THREADS; i++)
		m->workers[i].tid = PID + i;
	perfetto_open(&o);
	for (bool more = true; more; files++) {
		size_t before = begins;

		for (unsigned int k = 0; k < 30; k++) {
			work_a_while(m, draw() % 60);
			for (unsigned int i = 0; i < RINGS; i++)
				give(m, &o, i);
			if (draw() % 4)
				o.s->ops->settled(o.s);
		}
		more = files < 9;
		r = more ? perfetto_rotate(&o) : perfetto_read(&o);
		assert_int_equal(r->cleared, 1);
		for (size_t i = 0; i < r->n; i++) {
			const struct seen *e = &r->events[i];

			assert_in_range(tid_of(r, e->track, "calls"), PID, PID + THREADS - 1);
			begins += e->type == 1;
		}
		assert_true(begins > before);
		reader_free(r);
	}
	assert_int_equal(m->given, m->n);
	assert_int_equal(begins, m->n);
	free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_flood),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_mark),
		cmocka_unit_test(test_wake_up),
		cmocka_unit_test(test_ipc),
		cmocka_unit_test(test_longest),
		cmocka_unit_test(test_rotate),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
