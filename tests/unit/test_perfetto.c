// SPDX-License-Identifier: BSD-2-Clause
/*
 * The Perfetto sink as a reader sees it: packets sorted by time, and by place in the file at equal times. Random calls of
 * random threads arrive from rings drained in random order, and every slice must be read with its own begin and end.
 */
#include "cases.h"
#include "pftrace.h"

#include <pthread.h>
#include <sys/syscall.h>

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
	struct send sends[SENDS_MAX]; /* in the order they were sent, from all threads */
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

/* What one of the threads does next, as the BPF programs would report it. Different changes have different times, one change
 * has one time. */
static void work(struct machine *m, struct worker *w)
{
	uint64_t now = ++m->now;

	if (draw() % 16 == 0)
		w->ring = (unsigned int)(draw() % RINGS);
	switch (draw() % 6) {
	case 0: /* an operator and its barrier; the operator's record comes with the next */
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

		/* drains the rings in turn, while the threads continue */
		for (unsigned int i = 0; i < RINGS; i++) {
			work_a_while(m, draw() % 40);
			give(m, o, (first + i) % RINGS);
		}
		if (draw() % 8)
			sink_settled(o->s);
		if (draw() % 4 == 0)
			assert_int_equal(sink_flush(o->s), 0);
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

TEST(test_order)
{
	struct machine *m = malloc(sizeof(*m));
	struct reader *r;
	struct out o;

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

/* Far more than can wait arrive at once, and nothing ever settles: all are there, and in order. */
TEST(test_flood)
{
	struct rec_fault f = { .h = hdr(REC_FAULT, 0) };
	struct reader *r;
	struct out o;
	size_t n = 0;

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

/* Names are sent again after a loss, and waiting slices keep theirs. */
TEST(test_loss)
{
	struct rec_fault f = { .h = hdr(REC_FAULT, 0) };
	struct loss l = { .from_ns = START + 100, .to_ns = START + 200 };
	struct reader *r;
	struct out o;

	l.count[REC_FAULT] = 7;
	perfetto_open(&o);
	EMIT(&o, &f);
	sink_loss(o.s, &l);
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

TEST(test_mark)
{
	struct mark m = { .name = "window_open", .ns = START + 5, .number = 3, .reason = "flag" };
	const struct seen *e;
	struct reader *r;
	struct out o;

	perfetto_open(&o);
	sink_mark(o.s, &m);
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

/* A flow leads from an instant on the waker's track to one in the last nanosecond of the woken thread's off-CPU slice. */
TEST(test_wake_up)
{
	struct rec_off_cpu off = { .h = hdr(REC_OFF_CPU, ST_BLOCKED_FUTEX) };
	const struct seen *from, *to;
	struct reader *r;
	struct out o;

	off.wake_ns = off.h.start_ns + 1000;
	off.waker_tid = PID;
	off.waker_slice = off.h.start_ns - 50;
	perfetto_open(&o);
	EMIT(&o, &off);
	off.waker_slice = 0; /* the waker was in no recorded slice */
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

TEST(test_ipc)
{
	struct rec_syscall call = { .h = hdr(REC_SYSCALL, 1) };
	const struct seen *e;
	struct reader *r;
	struct out o;

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

#define CALLS 400
#define CALLERS 5

/* Times, results and descriptors of each thread's calls, in any order. */
TEST(test_calls)
{
	static const struct {
		uint32_t nr;
		int64_t ret;
		const char *name, *text; /* of the result; NULL: the number */
	} calls[] = {
		{ SYS_getppid, 0, "getppid", NULL },
		{ SYS_getppid, 4194303, "getppid", NULL },
		{ SYS_openat, -ENOENT, "openat", "ENOENT" },
		{ SYS_futex, -512, "futex", "ERESTARTSYS" },
		{ SYS_openat, -4000, "openat", NULL },
		{ SYS_mmap, 0x7f0012345000, "mmap", NULL },
		{ 511, 3, "syscall_511", NULL },
		{ UINT32_MAX, 3, "syscall_4294967295", NULL },
	};
	static struct rec_syscall sent[CALLS];
	struct reader *r;
	struct out o;
	size_t n = 0;

	perfetto_open(&o);
	for (size_t i = 0; i < CALLS; i++) {
		size_t k = draw() % ARRAY_SIZE(calls);
		bool swap;

		sent[i] = (struct rec_syscall){ .h = hdr(REC_SYSCALL, calls[k].nr), .ret = calls[k].ret };
		sent[i].h.tid = TID + (uint32_t)(draw() % CALLERS);
		sent[i].h.start_ns = START + 1000 * i + 1;
		sent[i].h.dur_ns = draw() % 900;
		swap = draw() % 8 == 0; /* they come from two rings */
		if (i % 2) {
			EMIT(&o, &sent[i - !swap]);
			EMIT(&o, &sent[i - swap]);
		}
	}
	r = perfetto_read(&o);
	for (size_t i = 0; i + 1 < r->n; i++) {
		const struct seen *b = &r->events[i];

		if (b->type != 1)
			continue;
		for (n = 0; n < CALLS && (sent[n].h.start_ns != b->ns || sent[n].h.tid != tid_of(r, b->track, "system calls") ||
						 sent[n].h.dur_ns == UINT64_MAX);)
			n++;
		assert_true(n < CALLS);
		for (size_t k = 0; k < ARRAY_SIZE(calls); k++) {
			if (calls[k].nr != sent[n].h.id || calls[k].ret != sent[n].ret)
				continue;
			assert_string_equal(b->text, calls[k].name);
			assert_string_equal(b->arg_text, calls[k].text ? calls[k].text : "");
			assert_int_equal(b->arg, calls[k].text ? 0 : calls[k].ret);
		}
		assert_int_equal(b[1].type, 2);
		assert_int_equal(b[1].track, b->track);
		assert_int_equal(b[1].ns, b->ns + sent[n].h.dur_ns);
		sent[n].h.dur_ns = UINT64_MAX; /* found */
	}
	for (n = 0; n < CALLS; n++)
		assert_int_equal(sent[n].h.dur_ns, UINT64_MAX);
	reader_free(r);
}

/* The longest of everything, in bytes that are not UTF-8: each slice is still two readable packets. */
TEST(test_longest)
{
	struct rec_function f = { .h = hdr(REC_FUNCTION, 0) };
	struct rec_step step = { .h = hdr(REC_STEP, 1) };
	char name[256], args[512] = "";
	struct reader *r;
	struct out o;

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
	/* the function, and the step on its thread's track and on the steps track */
	assert_int_equal(r->n, 6);
	reader_free(r);
}

struct pipe_reader {
	int from, to;
};

static void *read_all(void *arg)
{
	const struct pipe_reader *p = arg;
	static char buf[1 << 16];
	ssize_t n;

	while ((n = read(p->from, buf, sizeof(buf))) > 0)
		assert_int_equal(write(p->to, buf, (size_t)n), n);
	return NULL;
}

static void feed_numbered(struct out *o, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		struct rec_function f = { .h = hdr(REC_FUNCTION, 0), .vals = { 0, 0, i } };
		struct rec_syscall call = { .h = hdr(REC_SYSCALL, SYS_getppid), .ret = (int64_t)i };

		memset(&f.vals[3], 0xff, 2 * (size_t)FUNC_STR_LEN);
		f.h.start_ns = call.h.start_ns = START + 1000 * i;
		f.h.dur_ns = call.h.dur_ns = 500;
		EMIT(o, &f);
		EMIT(o, &call);
		if (i % 1000 == 999)
			sink_settled(o->s);
	}
}

/* The file's reader is stuck, so events in its middle are left out: later ones still have the right times. */
TEST(test_dropped)
{
	const uint64_t many = 45000, all = many + 3000;
	struct pipe_reader p;
	struct reader *r;
	uint64_t kept = 0;
	pthread_t thread;
	int ends[2];
	struct out o;

	probe_table_free(&probes);
	probes = (struct probe_table){ 0 };
	add_probe("f", ROLE_OP, PROBE_F_SPAN, NULL, "str arg1,str arg2,u64 arg3");
	o = (struct out){ .fd = memfd_create("trace", MFD_CLOEXEC) };
	assert_int_equal(pipe(ends), 0);
	o.w = writer_new(ends[1], "pipe", WRITER_PACKETS);
	o.s = perfetto_sink_new(o.w, &rec);
	feed_numbered(&o, 0, many);
	assert_true(writer_dropped(o.w) > 0);
	p = (struct pipe_reader){ ends[0], o.fd };
	assert_int_equal(pthread_create(&thread, NULL, read_all, &p), 0);
	assert_int_equal(writer_sync(o.w), 0);
	feed_numbered(&o, many, all);
	assert_int_equal(o.s->ops->close(o.s, NULL), 0);
	pthread_join(thread, NULL);
	close(ends[0]);
	r = read_file(&o);
	for (size_t i = 0; i < r->n; i++) {
		const struct seen *e = &r->events[i];

		if (e->type == 1)
			assert_int_equal(e->ns, START + 1000 * e->arg);
		else
			assert_int_equal((e->ns - START) % 1000, 500);
		kept += e->type == 1;
	}
	assert_in_range(kept, 2 * (all - many), 2 * all - 1);
	reader_free(r);
}

/* Each of many files has all of its names and tracks, and its slices in order; together they have everything. */
TEST(test_rotate)
{
	struct machine *m = malloc(sizeof(*m));
	size_t begins = 0, files = 0;
	struct reader *r;
	struct out o;

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
				sink_settled(o.s);
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

RUN_TESTS(setup, teardown)
