/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that unwinds samples, with fakes for its callees. */
#include "fake.h"
#include "record/unwinder.h"
#include "stack/stack.h"
#include "unit.h"

#define PERIOD 10000000
#define EVENTS_MAX 4096
#define INTERRUPTED 77 /* a thread that an interrupt has hit */

enum called {
	TAKEN,
	KNOWN,
	REMAPPED,
	FORGOTTEN,
};

/* What the thread called, in order. */
static struct {
	int what;
	uint32_t id; /* of a process; for a sample its tid */
} events[EVENTS_MAX];
static unsigned int n_events;
static int gate[2] = { -1, -1 }; /* each sample waits for a byte */

static void note(int what, uint32_t id)
{
	unsigned int i = __atomic_fetch_add(&n_events, 1, __ATOMIC_SEQ_CST);

	if (i < EVENTS_MAX) {
		events[i].what = what;
		events[i].id = id;
	}
}

FAKE(uint32_t, stacks_take, struct stacks *s, const struct rec_sample *r, size_t size)
{
	char byte;

	if (gate[0] >= 0 && read(gate[0], &byte, 1) != 1)
		abort();
	note(TAKEN, r->h.tid);
	return r->h.tid + 1000;
}

FAKE(unsigned int, stacks_get, const struct stacks *s, uint32_t stack, const uint32_t **ret_frames)
{
	static const uint32_t frames[] = { 0, 1 };

	*ret_frames = frames;
	return stack == 1000 + INTERRUPTED ? 2 : 1;
}

FAKE(const struct frame *, stacks_frame, const struct stacks *s, uint32_t frame)
{
	static const struct frame list[] = {
		{ .name = "try_to_wake_up", .kind = FRAME_KERNEL },
		{ .name = "asm_sysvec_apic_timer_interrupt", .kind = FRAME_KERNEL },
	};

	return &list[frame];
}

FAKE(void, stacks_know_process, struct stacks *s, uint32_t tgid)
{
	note(KNOWN, tgid);
}

FAKE(void, stacks_remap_process, struct stacks *s, uint32_t tgid)
{
	note(REMAPPED, tgid);
}

FAKE(void, stacks_forget_process, struct stacks *s, uint32_t tgid)
{
	note(FORGOTTEN, tgid);
}

static struct unwinder *u;
static struct rec_stack got[EVENTS_MAX];
static size_t n_got;

static void take(const struct rec_hdr *h, size_t size, void *arg)
{
	assert_int_equal(size, sizeof(got[0]));
	assert_true(n_got < EVENTS_MAX);
	memcpy(&got[n_got++], h, size);
}

/* Finishes, and expects n samples. */
static void finish(size_t n)
{
	unwinder_finish(u, take, NULL);
	assert_int_equal(n_got, n);
}

static void open_gate(unsigned int samples)
{
	while (samples--)
		assert_int_equal(write(gate[1], "", 1), 1);
}

static int setup(void **state)
{
	n_events = 0;
	n_got = 0;
	return unwinder_new(NULL, PERIOD, &u);
}

static int setup_gated(void **state)
{
	return pipe(gate) || setup(state);
}

static int teardown(void **state)
{
	if (gate[1] >= 0)
		close(gate[1]);
	unwinder_free(u);
	if (gate[0] >= 0)
		close(gate[0]);
	gate[0] = gate[1] = -1;
	return 0;
}

static void sample(uint32_t tgid, uint32_t tid, uint64_t at_ns, size_t stack_bytes)
{
	struct rec_sample *r = calloc(1, sizeof(*r) + stack_bytes);

	*r = (struct rec_sample){
		.h = { .kind = REC_SAMPLE, .id = SAMPLE_CPU, .tgid = tgid, .tid = tid, .start_ns = at_ns },
		.stack_bytes = (uint32_t)stack_bytes,
		.kept_of = 3,
		.step = 7,
		.state = ST_BARRIER,
	};
	unwinder_sample(u, r, sizeof(*r) + stack_bytes);
	free(r);
}

TEST_WITH(test_record, setup, teardown)
{
	struct rec_sample wait = { .h = { .kind = REC_SAMPLE, .id = SAMPLE_OFF_CPU, .tid = 9, .start_ns = 5, .dur_ns = 4000 },
		.waker_tid = 8,
		.flags = SAMPLE_F_TRUNCATED,
		.kept_of = 1,
		.state = ST_BLOCKED_FUTEX };

	sample(1, 2, 100, 64);
	unwinder_sample(u, &wait, sizeof(wait));
	finish(2);
	assert_int_equal(got[0].h.kind, REC_STACK);
	assert_int_equal(got[0].h.tid, 2);
	assert_int_equal(got[0].stack, 1002);
	assert_int_equal(got[0].step, 7);
	assert_int_equal(got[0].state, ST_BARRIER);
	/* it also stands for two that were left out */
	assert_int_equal(got[0].weight_ns, 3 * PERIOD);
	assert_int_equal(got[1].weight_ns, 4000);
	assert_int_equal(got[1].waker_tid, 8);
	assert_int_equal(got[1].flags, SAMPLE_F_TRUNCATED);
	assert_int_equal(unwinder_dropped(u), 0);
}

static void waker(uint32_t tid, uint64_t at_ns)
{
	struct rec_sample r = { .h = { .kind = REC_SAMPLE, .id = SAMPLE_WAKER, .tid = tid, .start_ns = at_ns } };

	unwinder_sample(u, &r, sizeof(r));
}

static void wait_for(uint32_t tid, uint32_t waker_tid, uint64_t ref)
{
	struct rec_sample r = { .h = { .kind = REC_SAMPLE, .id = SAMPLE_OFF_CPU, .tid = tid, .dur_ns = 4000 },
		.waker_tid = waker_tid,
		.ref = ref };

	unwinder_sample(u, &r, sizeof(r));
}

static void collect_upto(size_t n)
{
	for (int i = 0; n_got < n; i++) {
		assert_in_range(i, 0, 60000);
		unwinder_collect(u, take, NULL);
		usleep(1000);
	}
}

static const struct rec_stack *got_of(uint32_t tid)
{
	for (size_t i = 0; i < n_got; i++) {
		if (got[i].h.tid == tid)
			return &got[i];
	}
	fail_msg("no stack of thread %u", tid);
	return NULL;
}

/* A wait has the stack of whoever ended it, whichever was read first. */
TEST_WITH(test_wakers, setup, teardown)
{
	waker(8, 100);
	wait_for(9, 8, 100);  /* after it */
	wait_for(10, 8, 200); /* before it */
	wait_for(11, 8, 100); /* one call wakes several */
	waker(8, 200);
	wait_for(12, INTERRUPTED, 300);
	waker(INTERRUPTED, 300); /* by an interrupt that hit this thread */
	collect_upto(6);
	assert_int_equal(got_of(9)->waker_stack, 1008);
	assert_int_equal(got_of(10)->waker_stack, 1008);
	assert_int_equal(got_of(11)->waker_stack, 1008);
	assert_int_equal(got_of(12)->waker_stack, STACK_NONE);
	assert_int_equal(got_of(12)->waker_tid, 0);
	assert_true(got_of(12)->flags & SAMPLE_F_WOKEN_IRQ);
	for (size_t i = 0; i < n_got; i++)
		assert_int_not_equal(got[i].h.tid, INTERRUPTED); /* it woke nobody */
	assert_true(unwinder_settled(u));
}

/* A missing waker is only waited for until all rings have been read once more. */
TEST_WITH(test_waker_lost, setup, teardown)
{
	wait_for(9, 8, 100);
	collect_upto(1);
	assert_int_equal(got_of(9)->waker_stack, STACK_NONE);
	assert_int_equal(got_of(9)->waker_tid, 8);
	wait_for(10, 8, 100);
	finish(2);
	assert_true(unwinder_settled(u));
}

/* Samples from before an exec, and of an exited process, come after that news. */
TEST_WITH(test_news, setup, teardown)
{
	unwinder_process(u, 1, NEWS_EXEC, 1000);
	unwinder_process(u, 2, NEWS_GONE, 1000);
	unwinder_process(u, 3, NEWS_MAPPED, 1000);
	sample(1, 11, 999, 8);
	sample(2, 21, 999, 8);
	sample(1, 12, 1001, 8);
	sample(4, 41, 1000000000 + 2000, 8);
	finish(4);
	const struct {
		int what;
		uint32_t id;
	} wanted[] = { { REMAPPED, 3 }, { TAKEN, 11 }, { TAKEN, 21 }, { FORGOTTEN, 1 }, { KNOWN, 1 }, { TAKEN, 12 },
		{ FORGOTTEN, 2 }, { TAKEN, 41 } };
	assert_int_equal(n_events, sizeof(wanted) / sizeof(wanted[0]));
	for (size_t i = 0; i < n_events; i++) {
		assert_int_equal(events[i].what, wanted[i].what);
		assert_int_equal(events[i].id, wanted[i].id);
	}
}

/* More than it may keep: the excess is dropped and counted, and what was taken comes out in order. */
TEST_WITH(test_full, setup_gated, teardown)
{
	unsigned int n = 300, kept;

	for (unsigned int i = 0; i < n; i++)
		sample(1, i, i, SAMPLE_STACK_MAX);
	kept = n - (unsigned int)unwinder_dropped(u);
	assert_in_range(unwinder_waiting(u), (kept - 1) * SAMPLE_STACK_MAX, 12 << 20);
	assert_in_range(kept, 2, n - 1);
	open_gate(kept);
	finish(kept);
	assert_int_equal(unwinder_waiting(u), 0);
	for (size_t i = 0; i < n_got; i++)
		assert_int_equal(got[i].h.tid, i);
	/* there is room again */
	sample(1, 1000, 1000, SAMPLE_STACK_MAX);
	open_gate(1);
	finish(kept + 1);
}

/* Sinks rely on it: all that was taken before the previous time has been passed on. */
TEST_WITH(test_settled, setup_gated, teardown)
{
	assert_true(unwinder_settled(u));
	sample(1, 1, 1, 8);
	assert_true(unwinder_settled(u)); /* it came after the previous time */
	sample(1, 2, 2, 8);
	assert_false(unwinder_settled(u));
	open_gate(1);
	for (int i = 0; i < 20000 && !n_got; i++) {
		unwinder_collect(u, take, NULL);
		usleep(500);
	}
	assert_int_equal(n_got, 1);
	assert_true(unwinder_settled(u));
	assert_false(unwinder_settled(u));
	open_gate(1);
	finish(2);
	assert_true(unwinder_settled(u));
}

/* A process keeps mapping files while a sample takes long. */
TEST_WITH(test_storm, setup_gated, teardown)
{
	sample(1, 1, 1, 8);
	sample(1, 2, 2, 8);
	for (int i = 0; i < 1000; i++)
		unwinder_process(u, 1, NEWS_MAPPED, 3);
	unwinder_process(u, 2, NEWS_MAPPED, 3);
	sample(1, 3, 4, 8);
	unwinder_process(u, 1, NEWS_MAPPED, 5);
	open_gate(3);
	sample(1, 4, 6, 8);
	open_gate(1);
	finish(4);
	assert_int_equal(n_events, 4 + 3);
	assert_int_equal(events[2].what, REMAPPED);
	assert_int_equal(events[3].id, 2);
	assert_int_equal(events[4].what, TAKEN);
	assert_int_equal(events[5].what, REMAPPED);
}

/* It ends although samples are waiting. */
TEST_WITH(test_end, setup_gated, teardown)
{
	for (uint32_t i = 0; i < 10; i++)
		sample(1, i, i, 8);
	open_gate(10); /* the one in progress cannot be abandoned */
}

RUN_TESTS(NULL, NULL)
