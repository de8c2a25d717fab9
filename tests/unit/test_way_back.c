// SPDX-License-Identifier: BSD-2-Clause
/* Logs of CPUs, and the ways back through them. Times are in microseconds. */
#include "unit.h"

#include <sys/syscall.h>

#include "util/names.h"
#include "waits/gaps.h"
#include "waits/way_back.h"

#define CPUS 3
#define SHIFT 8
#define US 1000ull

static struct ran rans[CPUS << SHIFT];
static struct wake wakes[CPUS << SHIFT];
static struct wait_log_heads heads[CPUS];
static struct collection collections[COLLECTIONS_MAX];
static uint64_t n_collections;
static struct handed handed_log[HANDED_MAX];
static uint64_t n_handed;
static const struct wait_log logs = { rans, wakes, heads, CPUS, SHIFT, collections, &n_collections, handed_log, &n_handed };

static int set_up(void **state)
{
	memset(rans, 0, sizeof(rans));
	memset(wakes, 0, sizeof(wakes));
	memset(heads, 0, sizeof(heads));
	n_collections = n_handed = 0;
	return 0;
}

static struct ran *ran_slot(unsigned int cpu)
{
	return &rans[cpu << SHIFT | (heads[cpu].ran & ((1 << SHIFT) - 1))];
}

/* The thread leaves the CPU. */
static struct ran *ran(unsigned int cpu, uint32_t tid, uint64_t end_us, enum time_state state)
{
	struct ran *r = ran_slot(cpu);

	*r = (struct ran){ .end_ns = end_us * US, .tid = tid, .tgid = tid / 10 * 10, .state = state, .call = CALL_NONE };
	if (tid)
		snprintf(r->comm, sizeof(r->comm), "t%u", tid);
	heads[cpu].ran++;
	return r;
}

static void runs(unsigned int cpu, uint32_t tid)
{
	ran(cpu, tid, 0, ST_CPU);
	heads[cpu].ran--;
}

static struct wake *woke(unsigned int cpu, uint64_t us, uint32_t waker, uint32_t tid)
{
	struct wake *w = &wakes[cpu << SHIFT | (heads[cpu].wakes++ & ((1 << SHIFT) - 1))];

	*w = (struct wake){ .ns = us * US, .tid = tid, .waker_tid = waker, .call = CALL_NONE };
	return w;
}

static void add_segment(char *text, size_t size, const struct gap_segment *s)
{
	size_t n = strlen(text);

	n += (size_t)snprintf(text + n, size - n, "%s%u%s %s", n ? ", " : "", s->tid, s->flags & GAP_SEGMENT_F_WAKES ? "*" : "",
		s->state < ST_MAX ? time_state_name(s->state) : "?");
	if (s->state == ST_RUNNABLE || s->by_tid)
		n += (size_t)snprintf(text + n, size - n, s->flags & GAP_SEGMENT_F_LIMITED ? " limit" : " <%u", s->by_tid);
	snprintf(text + n, size - n, " %llu", (unsigned long long)s->dur_ns / US);
}

/* The way as text: the latest segment first, each with its length, * if it wakes the thread of the one after it. */
static void way_found_is(const struct way *way, uint64_t from_us, uint64_t to_us, const char *want)
{
	char text[1024] = "";
	uint64_t at = to_us * US;

	for (size_t i = 0; i < way->n; i++) {
		assert_int_equal(way->seg[i].start_ns + way->seg[i].dur_ns, at);
		assert_true(way->seg[i].dur_ns > 0);
		at = way->seg[i].start_ns;
		add_segment(text, sizeof(text), &way->seg[i]);
	}
	assert_int_equal(at, from_us * US);
	assert_string_equal(text, want);
}

static void way_is(uint32_t tid, uint64_t since_us, uint64_t from_us, uint64_t to_us, const char *want)
{
	struct wait_walker *w = wait_walker_new(&logs);
	static struct way way;

	way_back(w, tid, since_us * US, from_us * US, to_us * US, &way);
	wait_walker_free(w);
	way_found_is(&way, from_us, to_us, want);
}

#define ENGINE 30

static bool is_engine(uint32_t tgid, void *arg)
{
	(void)arg;
	return tgid == ENGINE;
}

/* Likewise of a request that the thread passes on. */
static void request_way_is(uint32_t tid, uint64_t from_us, uint64_t to_us, const char *want)
{
	struct wait_walker *w = wait_walker_new(&logs);
	static struct way way;

	way_back_of_request(w, tid, 0, from_us * US, to_us * US, is_engine, NULL, &way);
	wait_walker_free(w);
	way_found_is(&way, from_us, to_us, want);
}

/* The thread reads what `by` has written. */
static void reads(uint32_t tid, uint64_t us, uint32_t by, uint64_t written_us)
{
	handed_log[n_handed++ % HANDED_MAX] =
		(struct handed){ .ns = us * US, .sent_ns = written_us * US, .tid = tid, .by = by, .by_tgid = by / 10 * 10 };
}

/* Likewise of what the thread waited, with the end of the way, and the sum of the causes. */
static void waits_are(uint32_t tid, uint64_t from_us, uint64_t to_us, const struct held *held, const char *want, uint64_t sum_us)
{
	struct wait_walker *w = wait_walker_new(&logs);
	static struct way way;
	char text[1024] = "";
	uint64_t at = to_us * US, sum = 0;

	waits_back(w, tid, 0, from_us * US, to_us * US, held, &way);
	wait_walker_free(w);
	for (size_t i = 0; i < way.n; i++) {
		assert_true(way.seg[i].start_ns + way.seg[i].dur_ns <= at);
		at = way.seg[i].start_ns;
		add_segment(text, sizeof(text), &way.seg[i]);
	}
	assert_true(at >= from_us * US);
	for (size_t i = 0; i < way.causes.n; i++)
		sum += way.causes.list[i].dur_ns;
	assert_string_equal(text, want);
	assert_int_equal(sum, sum_us * US);
	assert_int_equal(way.end, GAP_COMPLETE);
}

/* Likewise behind whom it waited for a CPU: threads with their times. */
static void behind_are(uint32_t tid, uint64_t from_us, uint64_t to_us, const char *want)
{
	struct wait_walker *w = wait_walker_new(&logs);
	static struct way way;
	char text[1024] = "";

	behind_back(w, tid, 0, from_us * US, to_us * US, &way);
	wait_walker_free(w);
	for (size_t i = 0; i < way.causes.n; i++)
		add_segment(text, sizeof(text), &way.causes.list[i]);
	assert_string_equal(text, want);
}

static const struct held no_barrier;

/* 20 works all the time, but only what it did while 10 waited for it counts; and 10's own waits. */
TEST_WITH(waits_within, set_up, NULL)
{
	ran(0, 10, 200, ST_RUNNABLE);
	ran(0, 99, 250, ST_RUNNABLE);
	ran(0, 10, 400, ST_BLOCKED_FUTEX);
	woke(1, 700, 20, 10);
	ran(0, 0, 720, ST_RUNNABLE);
	ran(0, 10, 900, ST_BLOCKED_SLEEP);
	woke(0, 950, 0, 10)->flags = WAKE_F_IRQ;
	ran(0, 0, 950, ST_RUNNABLE);
	runs(0, 10);
	ran(1, 20, 500, ST_RUNNABLE);
	ran(1, 98, 540, ST_RUNNABLE);
	runs(1, 20);
	waits_are(10, 100, 1000, &no_barrier,
		"10 blocked_sleep 50, 10 runnable <0 20, 20* cpu 160, 20 runnable <98 40, 20 cpu 100, 10 runnable <99 50", 420);
	/* waits that its begin and end cut */
	waits_are(10, 600, 930, &no_barrier, "10 blocked_sleep 30, 10 runnable <0 20, 20* cpu 100", 150);
	waits_are(10, 730, 890, &no_barrier, "", 0);
}

/* It looks every 5 ms whether it gets a Python interpreter's lock, which 20 has all the time. */
TEST_WITH(waits_for_gil, set_up, NULL)
{
	ran(0, 10, 100, ST_BLOCKED_GIL);
	woke(0, 5100, 0, 10)->flags = WAKE_F_IRQ;
	ran(0, 0, 5100, ST_RUNNABLE);
	ran(0, 10, 5110, ST_BLOCKED_GIL);
	woke(1, 8000, 20, 10);
	ran(0, 0, 8010, ST_RUNNABLE);
	runs(0, 10);
	runs(1, 20);
	waits_are(10, 50, 9000, &no_barrier, "10 runnable <0 10, 20* cpu 2890, 20 cpu 5000", 7900);
	/* it had the lock meanwhile: whoever had it before is not known */
	set_up(NULL);
	ran(0, 10, 100, ST_BLOCKED_GIL);
	woke(0, 5100, 0, 10)->flags = WAKE_F_IRQ;
	ran(0, 0, 5100, ST_RUNNABLE);
	ran(0, 10, 7000, ST_BLOCKED_GIL);
	woke(1, 8000, 20, 10);
	ran(0, 0, 8010, ST_RUNNABLE);
	runs(0, 10);
	runs(1, 20);
	waits_are(10, 50, 9000, &no_barrier, "10 runnable <0 10, 20* cpu 1000, 10 blocked_gil 5000", 6010);
	/* when it asked for the last time nobody had it any more; but 20 took it when it was let go */
	set_up(NULL);
	ran(0, 10, 100, ST_BLOCKED_GIL);
	woke(1, 130, 20, 10);
	ran(0, 0, 130, ST_RUNNABLE);
	ran(0, 10, 140, ST_BLOCKED_GIL);
	woke(0, 5140, 0, 10)->flags = WAKE_F_IRQ;
	ran(0, 0, 5140, ST_RUNNABLE);
	ran(0, 10, 5150, ST_BLOCKED_GIL);
	woke(0, 9000, 0, 10)->flags = WAKE_F_IRQ;
	ran(0, 0, 9000, ST_RUNNABLE);
	runs(0, 10);
	runs(1, 20);
	waits_are(10, 50, 9500, &no_barrier, "20 cpu 3850, 20 cpu 5000, 20* cpu 30", 8880);
	/* 20 let it go while 10 had no CPU, and waits until 10, when that has one, has taken it */
	set_up(NULL);
	ran(0, 10, 100, ST_BLOCKED_GIL);
	ran(1, 20, 6000, ST_BLOCKED_GIL);
	woke(0, 5100, 0, 10)->flags = WAKE_F_IRQ;
	ran(0, 99, 8000, ST_RUNNABLE);
	woke(0, 8005, 10, 77);
	woke(0, 8010, 10, 20);
	ran(1, 0, 8020, ST_RUNNABLE);
	runs(0, 10);
	runs(1, 20);
	waits_are(10, 50, 9000, &no_barrier, "10 runnable <99 2900, 20 cpu 5000", 7900);
	/* 20 waited for something else */
	rans[1 << SHIFT].state = ST_BLOCKED_FUTEX;
	waits_are(10, 50, 9000, &no_barrier, "10 runnable <99 2900, 10 blocked_gil 5000", 7900);
}

static void collected(uint32_t tid, uint64_t start_ns, uint64_t end_ns)
{
	collections[n_collections++ % COLLECTIONS_MAX] = (struct collection){ .start_ns = start_ns, .end_ns = end_ns, .tid = tid };
}

/* 20 collects garbage while 10 waits for it, and before and after that; what another thread collected is not its. */
TEST_WITH(collects_garbage, set_up, NULL)
{
	struct wait_walker *w = wait_walker_new(&logs);
	static struct way way;
	char text[256] = "";

	ran(0, 10, 100, ST_BLOCKED_GIL);
	woke(1, 800, 20, 10);
	ran(0, 0, 800, ST_RUNNABLE);
	runs(0, 10);
	ran(1, 20, 400, ST_RUNNABLE);
	ran(1, 98, 450, ST_RUNNABLE);
	runs(1, 20);
	for (unsigned int i = 0; i < COLLECTIONS_MAX + 1000; i++) /* more than are kept */
		collected(20, i, i + 1);
	collected(20, 50 * US, 150 * US);
	collected(20, 300 * US, 600 * US);
	collected(21, 600 * US, 700 * US);
	collected(20, 790 * US, 900 * US);
	waits_back(w, 10, 0, 100 * US, 1000 * US, &no_barrier, &way);
	for (size_t i = 0; i < way.n; i++)
		add_segment(text, sizeof(text), &way.seg[i]);
	assert_string_equal(text, "20 gc 10, 20 cpu 190, 20 gc 150, 20 runnable <98 50, 20 gc 100, 20 cpu 150, 20 gc 50");
	wait_walker_free(w);
}

/* It came onto the CPU when the logs had begun, and what it did before is not there. */
TEST_WITH(waits_since_before, set_up, NULL)
{
	struct wait_walker *w = wait_walker_new(&logs);
	static struct way way;

	ran(0, 99, 500, ST_RUNNABLE);
	runs(0, 10);
	waits_back(w, 10, 0, 100 * US, 1000 * US, &no_barrier, &way);
	wait_walker_free(w);
	assert_int_equal(way.end, GAP_TOO_OLD);
	assert_int_equal(way.causes.n, 0);
}

/* It spins at a barrier for 20, which sleeps. Its own waits meanwhile do not count twice. */
TEST_WITH(waits_at_barrier, set_up, NULL)
{
	ran(0, 10, 300, ST_RUNNABLE);
	ran(0, 99, 350, ST_RUNNABLE);
	ran(0, 10, 800, ST_RUNNABLE);
	ran(0, 99, 810, ST_RUNNABLE);
	runs(0, 10);
	ran(1, 20, 150, ST_BLOCKED_SLEEP);
	woke(1, 600, 0, 20)->flags = WAKE_F_IRQ;
	ran(1, 0, 600, ST_RUNNABLE);
	runs(1, 20);
	waits_are(10, 100, 1000, &(struct held){ 20, 200 * US, 700 * US }, "10 runnable <99 10, 20 cpu 100, 20 blocked_sleep 400", 510);
	/* unknown for whom: as ever */
	waits_are(10, 100, 1000, &no_barrier, "10 runnable <99 10, 10 runnable <99 50", 60);
}

TEST_WITH(own_time, set_up, NULL)
{
	ran(0, 10, 1000, ST_RUNNABLE);
	ran(0, 20, 1300, ST_RUNNABLE);
	ran(0, 21, 1400, ST_BLOCKED_SLEEP);
	runs(0, 10);
	way_is(10, 0, 500, 2000, "10 cpu 600, 10 runnable <21 100, 10 runnable <20 300, 10 cpu 500");
	way_is(10, 0, 1100, 1900, "10 cpu 500, 10 runnable <21 100, 10 runnable <20 200");
	way_is(10, 0, 1500, 1900, "10 cpu 400");
}

/* They are known of whole runs. */
TEST_WITH(faults, set_up, NULL)
{
	ran(0, 10, 1000, ST_RUNNABLE)->fault_ns = 400 * US;
	ran(0, 20, 1300, ST_RUNNABLE);
	runs(0, 10);
	way_is(10, 0, 0, 1500, "10 cpu 200, 10 runnable <20 300, 10 cpu 600, 10 fault 400");
	way_is(10, 0, 100, 1500, "10 cpu 200, 10 runnable <20 300, 10 cpu 900");
}

TEST_WITH(through_wakers, set_up, NULL)
{
	/* 10 waits for 20, which waits for 30, which sleeps */
	ran(0, 10, 100, ST_BLOCKED_FUTEX);
	ran(1, 20, 110, ST_BLOCKED_IPC);
	ran(2, 30, 90, ST_BLOCKED_SLEEP)->call = SYS_clock_nanosleep;
	ran(2, 0, 500, ST_RUNNABLE);
	woke(2, 490, 7, 30)->flags = WAKE_F_IRQ;
	woke(2, 600, 30, 20);
	runs(2, 30);
	ran(1, 0, 620, ST_RUNNABLE);
	woke(1, 800, 20, 10);
	runs(1, 20);
	ran(0, 99, 850, ST_RUNNABLE);
	runs(0, 10);
	way_is(10, 0, 100, 1000,
		"10 cpu 150, 10 runnable <99 50, 20* cpu 180, 20 runnable <0 20, 30* cpu 100, 30 runnable <0 10, 30 blocked_sleep 390");
}

TEST_WITH(last_wake_up_counts, set_up, NULL)
{
	ran(0, 10, 100, ST_BLOCKED_FUTEX);
	woke(1, 50, 20, 10); /* before it waited */
	woke(1, 300, 20, 10);
	ran(0, 0, 310, ST_RUNNABLE);
	ran(0, 10, 320, ST_BLOCKED_FUTEX); /* looked, and waited again */
	woke(1, 700, 21, 10);
	ran(0, 0, 700, ST_RUNNABLE);
	runs(0, 10);
	ran(1, 20, 400, ST_BLOCKED_POLL);
	runs(1, 21);
	way_is(10, 0, 200, 800, "10 cpu 100, 21* cpu 300, 21 blocked_other 200");
}

TEST_WITH(interrupts_end_own_waits, set_up, NULL)
{
	struct wake *w;

	ran(0, 10, 100, ST_BLOCKED_NET)->call = SYS_recvfrom;
	w = woke(1, 500, 20, 10);
	runs(1, 20);
	ran(0, 0, 500, ST_RUNNABLE);
	runs(0, 10);
	w->flags = WAKE_F_IRQ;
	way_is(10, 0, 0, 600, "10 cpu 100, 10 blocked_net 400, 10 cpu 100");
	w->flags = WAKE_F_IRQ | WAKE_F_SOFT; /* it hit user code */
	way_is(10, 0, 0, 600, "10 cpu 100, 10 blocked_net 400, 10 cpu 100");
	w->call = SYS_sendto; /* sent by the thread of this machine */
	way_is(10, 0, 0, 600, "10 cpu 100, 20* cpu 500");
	w->flags = WAKE_F_KERNEL;
	way_is(10, 0, 0, 600, "10 cpu 100, 10 blocked_net 400, 10 cpu 100");
}

TEST_WITH(stopped_and_limited, set_up, NULL)
{
	ran(0, 10, 100, ST_STOPPED);
	woke(1, 500, 20, 10);
	ran(0, 0, 510, ST_RUNNABLE);
	ran(0, 10, 600, ST_RUNNABLE)->flags = RAN_F_THROTTLED;
	ran(0, 0, 900, ST_RUNNABLE);
	runs(0, 10);
	runs(1, 20);
	way_is(10, 0, 50, 1000, "10 cpu 100, 10 runnable limit 300, 10 cpu 90, 10 runnable <0 10, 10 stopped <20 400, 10 cpu 50");
}

/* Of what it waits for, only CPUs; the load balancer took it to a third one. */
TEST_WITH(behind, set_up, NULL)
{
	struct ran *asleep, *preempted;

	preempted = ran(0, 10, 100, ST_RUNNABLE);
	ran(0, 20, 250, ST_RUNNABLE);
	ran(0, 21, 400, ST_RUNNABLE);
	ran(1, 22, 200, ST_RUNNABLE);
	ran(1, 23, 500, ST_RUNNABLE);
	ran(2, 24, 450, ST_RUNNABLE);
	woke(2, 300, 24, 10)->flags = WAKE_F_MOVED;
	woke(2, 420, 24, 10)->flags = WAKE_F_MOVED;
	wakes[(2 << SHIFT) + 0].call = 0;
	wakes[(2 << SHIFT) + 1].call = 1;
	asleep = ran(2, 10, 600, ST_BLOCKED_FUTEX);
	woke(1, 700, 23, 10);
	ran(2, 25, 750, ST_RUNNABLE);
	runs(2, 10);
	behind_are(10, 0, 1000, "10 runnable <25 50, 10 runnable <24 30, 10 runnable <23 120, 10 runnable <21 50, 10 runnable <20 150");
	behind_are(10, 150, 290, "10 runnable <21 40, 10 runnable <20 100");
	behind_are(10, 150, 430, ""); /* where it is then is not known */
	way_is(10, 0, 50, 500, "10 cpu 50, 10 runnable <24 30, 10 runnable <23 120, 10 runnable <21 50, 10 runnable <20 150, 10 cpu 50");
	preempted->flags = RAN_F_THROTTLED;
	behind_are(10, 0, 1000, "10 runnable <25 50, 10 runnable limit 350");
	asleep->flags = RAN_F_GPU_WAIT;
	behind_are(10, 0, 1000, "10 runnable limit 350");
	behind_are(10, 460, 590, "");
}

TEST_WITH(behind_at_first, set_up, NULL)
{
	woke(1, 50, 20, 30)->flags = WAKE_F_FORK;
	ran(0, 21, 80, ST_RUNNABLE);
	ran(0, 30, 90, ST_CPU); /* it exits */
	ran(0, 21, 400, ST_RUNNABLE);
	woke(1, 300, 20, 30)->flags = WAKE_F_FORK;
	runs(0, 30);
	behind_are(30, 200, 600, "30 runnable <21 100");
	behind_are(30, 350, 600, "30 runnable <21 50");
	behind_are(40, 0, 600, "");
}

TEST_WITH(created, set_up, NULL)
{
	ran(0, 20, 300, ST_BLOCKED_SLEEP);
	ran(1, 0, 320, ST_RUNNABLE);
	runs(1, 20);
	woke(1, 500, 20, 30)->flags = WAKE_F_FORK;
	ran(0, 0, 520, ST_RUNNABLE);
	runs(0, 30);
	way_is(30, 0, 400, 600, "30 cpu 80, 30 runnable <0 20, 20* cpu 100");
}

TEST_WITH(asleep_before, set_up, NULL)
{
	/* neither was seen before the log's begin */
	woke(1, 500, 20, 10);
	ran(0, 0, 520, ST_RUNNABLE);
	runs(0, 10);
	ran(1, 0, 450, ST_RUNNABLE);
	runs(1, 20);
	way_is(10, 100, 200, 600, "10 cpu 80, 10 runnable <0 20, 20* cpu 50, 20 blocked_other 250");
	way_is(10, 550, 560, 600, "10 cpu 40");
}

TEST_WITH(never_switched, set_up, NULL)
{
	runs(0, 10); /* CPU 1 has not switched: its task has no name yet */
	woke(1, 500, 20, 10);
	ran(0, 10, 100, ST_BLOCKED_FUTEX);
	ran(0, 0, 520, ST_RUNNABLE);
	runs(0, 10);
	way_is(10, 0, 50, 600, "10 cpu 80, 10 runnable <0 20, 20* cpu 450");
}

TEST_WITH(overwritten, set_up, NULL)
{
	uint64_t us = 0;

	for (int i = 0; i < 1000; i++)
		ran(0, i % 2 ? 10 : 20, us += 10, ST_RUNNABLE);
	runs(0, 20);
	way_is(20, 0, us - 25, us + 5, "20 cpu 5, 20 runnable <10 10, 20 cpu 10, 20 runnable <10 5");
	/* of 256 entries 32 may be overwritten at any time, and count as lost */
	way_is(20, 0, 7000, us - 2210, "20 cpu 10, 20 runnable <10 10, 20 cpu 10, 0 ? 760");
}

/* A thread that has not run since the logs begin has not run for that long, and no longer is known. */
TEST_WITH(overwritten_last, set_up, NULL)
{
	struct wait_walker *w = wait_walker_new(&logs);
	uint64_t us = 0;
	bool before;

	for (int i = 0; i < 1000; i++)
		ran(0, i % 2 ? 10 : 20, us += 10, ST_RUNNABLE);
	runs(0, 20);
	assert_int_equal(last_run_end(w, 30, 0, us * US, &before), (us - 2240) * US);
	assert_true(before);
	wait_walker_free(w);
}

TEST_WITH(circles, set_up, NULL)
{
	/* two threads woke each other at one instant, as it seems */
	ran(0, 10, 400, ST_BLOCKED_FUTEX);
	ran(1, 20, 400, ST_BLOCKED_FUTEX);
	woke(0, 500, 10, 20);
	woke(1, 500, 20, 10);
	ran(0, 0, 600, ST_RUNNABLE);
	ran(1, 0, 600, ST_RUNNABLE);
	runs(0, 10);
	runs(1, 20);
	way_is(10, 0, 100, 700, "10 cpu 100, 10 runnable <0 100, 0 ? 400");
}

/* A timer ended the sleep, which was not reported: the wake-up that ended the wait before is not that of this one. */
TEST_WITH(unreported, set_up, NULL)
{
	woke(0, 95, 20, 10);
	ran(0, 20, 100, ST_RUNNABLE);
	ran(0, 10, 120, ST_BLOCKED_SLEEP);
	ran(0, 0, 500, ST_RUNNABLE);
	runs(0, 10);
	way_is(10, 0, 90, 600, "10 cpu 100, 10 blocked_sleep 380, 10 cpu 20, 10 runnable <20 5, 20* cpu 5");
}

/* What threads do now, and who wakes them. */
TEST_WITH(now, set_up, NULL)
{
	struct wait_walker *w = wait_walker_new(&logs);
	struct frequent_waker often;
	bool before;

	ran(0, 11, 100, ST_BLOCKED_FUTEX)->call = SYS_futex;
	runs(0, 12);
	woke(0, 110, 12, 11);
	ran(1, 0, 115, ST_RUNNABLE);
	ran(1, 11, 200, ST_BLOCKED_POLL)->call = SYS_poll;
	runs(1, 0);
	for (unsigned int i = 0; i < 5; i++)
		woke(1, 120 + i, i % 2 ? 12 : 13, 11);
	woke(1, 130, 13, 21);
	woke(1, 131, 12, 11)->flags = WAKE_F_IRQ;
	woke(1, 132, 11, 11);
	assert_int_equal(last_run_end(w, 11, 10 * US, 300 * US, &before), 200 * US);
	assert_false(before);
	assert_true(last_run_end(w, 12, 10 * US, 300 * US, &before) == UINT64_MAX);
	assert_int_equal(last_run_end(w, 14, 10 * US, 300 * US, &before), 10 * US);
	assert_true(before);
	frequent_waker_find(w, 11, 10 * US, &often);
	assert_int_equal(often.wakes, 3);
	assert_int_equal(often.of, 6);
	frequent_waker_find(w, 11, 123 * US, &often);
	assert_int_equal(often.of, 2);
	frequent_waker_find(w, 14, 10 * US, &often);
	assert_int_equal(often.tid, 0);
	wait_walker_free(w);
}

/* A client's packet wakes the event loop 10, which waits for a CPU. Meanwhile its tokenizer 20 answers, which had waited for one since 10
 * wrote to it; and so do others. */
static void hand_over(void)
{
	ran(0, 10, 45, ST_BLOCKED_POLL);
	woke(0, 100, 0, 10)->flags = WAKE_F_IRQ;
	ran(0, 97, 120, ST_RUNNABLE);
	ran(0, 98, 180, ST_RUNNABLE);
	ran(0, 99, 200, ST_RUNNABLE);
	runs(0, 10);
	ran(1, 20, 10, ST_BLOCKED_NET);
	woke(0, 40, 10, 20);
	ran(1, 96, 130, ST_RUNNABLE);
	ran(1, 20, 170, ST_BLOCKED_NET);
	runs(1, 0);
	reads(20, 135, 10, 40);
}

TEST_WITH(reads_what_came_later, set_up, NULL)
{
	hand_over();
	request_way_is(10, 0, 300, "10 cpu 100, 10 runnable <98 100, 10 blocked_poll 55, 10 cpu 45"); /* nothing was read */
	reads(10, 210, 20, 150);
	request_way_is(10, 0, 300, "10 cpu 100, 10 runnable <98 50, 20* cpu 20, 20 runnable <96 90, 10* cpu 40");
	way_is(10, 0, 0, 300, "10 cpu 100, 10 runnable <99 20, 10 runnable <98 60, 10 runnable <97 20, 10 blocked_poll 55, 10 cpu 45");
}

/* What the engine sends is about other requests, and what had been written before the thread slept was no reason to wait. */
TEST_WITH(reads_of_no_account, set_up, NULL)
{
	hand_over();
	reads(10, 205, 20, 90);
	reads(10, 210, ENGINE + 1, 160);
	reads(11, 211, 20, 160);
	reads(10, 301, 20, 160);
	request_way_is(10, 0, 300, "10 cpu 100, 10 runnable <98 100, 10 blocked_poll 55, 10 cpu 45");
	for (unsigned int i = 0; i < HANDED_MAX; i++)
		reads(11, 212, 20, 160);
	request_way_is(10, 0, 300, "10 cpu 100, 10 runnable <98 100, 10 blocked_poll 55, 10 cpu 45");
}

/* ---- gaps and waits of steps ---- */

static struct gaps *gaps;

static void gap_passed(const struct rec_hdr *h, size_t size, void *arg)
{
	struct rec_gap *to = arg;

	assert_true(size <= sizeof(*to));
	memcpy(to, h, size);
}

/* A step without a context; what it waited for, if anything, is in the answer. */
static const struct rec_gap *step(uint32_t tid, uint32_t number, uint64_t from_us, uint64_t to_us, uint64_t off_us)
{
	static struct rec_gap answer;
	static struct rec_step r;

	r = (struct rec_step){ .h = { .start_ns = from_us * US, .dur_ns = (to_us - from_us) * US, .tid = tid }, .number = number };
	r.ns[ST_BLOCKED_SLEEP] = off_us * US;
	memset(&answer, 0, sizeof(answer));
	gaps_step(gaps, &r);
	gaps_waits(gaps, &r, gap_passed, &answer);
	return &answer;
}

/* Two threads have steps at the same time: what would overlap on the track is only among the causes. */
TEST_WITH(steps_overlap, set_up, NULL)
{
	static struct probe_spec spec;
	static struct probe_table probes = { .specs = &spec, .n = 1 };
	static struct rec_gap gap;
	const struct rec_gap *late;

	gaps = gaps_new(&logs, &probes);
	gaps_open(gaps, 0);
	ran(1, 20, 250, ST_BLOCKED_SLEEP);
	ran(1, 0, 290, ST_RUNNABLE);
	ran(1, 20, 450, ST_BLOCKED_SLEEP);
	ran(1, 0, 480, ST_RUNNABLE);
	runs(1, 20);
	ran(0, 10, 210, ST_BLOCKED_SLEEP);
	ran(0, 0, 240, ST_RUNNABLE);
	runs(0, 10);
	assert_int_equal(step(10, 0, 10, 100, 0)->n, 0);
	assert_int_equal(step(10, 2, 300, 400, 0)->n, 0);
	gaps_settled(gaps, false, gap_passed, &gap);
	gaps_settled(gaps, false, gap_passed, &gap);
	assert_int_equal(gap.h.start_ns, 100 * US);
	assert_int_equal(gap.n, 3);
	late = step(20, 1, 200, 350, 40); /* recorded when that gap had been passed on */
	assert_int_equal(late->n, 0);
	assert_int_equal(late->n_causes, 1);
	assert_int_equal(step(20, 3, 410, 500, 30)->n, 1);
	assert_int_equal(step(20, 4, 430, 510, 30)->n, 0);
	gaps_free(gaps);
}

RUN_TESTS(NULL, NULL)
