// SPDX-License-Identifier: BSD-2-Clause
/* Tracks shared by short-lived threads: which thread is on which, whatever arrives late or is reused. */
#include "sinks.h"

#include <sys/syscall.h>

#include "format/workers.h"

#define LANES 4194500u /* the tid of the first lane */
#define MS UINT64_C(1000000)

static struct workers ws;

static int begin(void **state)
{
	ws = (struct workers){ 0 };
	return 0;
}

static int end(void **state)
{
	workers_free(&ws);
	return 0;
}

static struct rec_task task(enum task_event event, uint32_t tid, uint64_t ns)
{
	return (struct rec_task){
		.h = { .kind = REC_TASK,
			.id = event,
			.tgid = PID,
			.tid = tid,
			.start_ns = START + ns },
		.comm = "anew",
	};
}

static void fork_at(uint32_t tid, uint64_t ns)
{
	struct rec_task r = task(TASK_FORK, tid, ns);

	workers_task(&ws, &r);
}

static void exit_at(uint32_t tid, uint64_t ns)
{
	struct rec_task r = task(TASK_EXIT, tid, ns);

	workers_task(&ws, &r);
}

static unsigned int lane(uint32_t tid, uint64_t from, uint64_t to)
{
	struct rec_hdr h = {
		.tgid = PID, .tid = tid, .start_ns = START + from, .dur_ns = to - from
	};
	bool first;

	return workers_lane(&ws, &h, &first);
}

/* Short-lived threads before time 0, until there are enough of them. */
static void eight(void)
{
	for (uint32_t i = 0; i < WORKERS_SHORT_LIVED; i++) {
		struct rec_task born = task(TASK_FORK, PID + 1000 + i, 0),
				died = task(TASK_EXIT, PID + 1000 + i, 0);

		born.h.start_ns = START - 1000 * MS + i * MS;
		died.h.start_ns = born.h.start_ns + 10 * MS;
		assert_false(ws.share);
		workers_task(&ws, &born);
		workers_task(&ws, &died);
	}
	assert_true(ws.share);
}

TEST_WITH(test_few, begin, end)
{
	/* long-lived threads do not count, nor do processes */
	for (uint32_t i = 0; i < 100; i++) {
		fork_at(TID + i, i * MS);
		exit_at(TID + i,
			i * MS + (i < 50 || i >= 57 ? WORKERS_SHORT_NS : WORKERS_SHORT_NS - 1));
	}
	for (uint32_t i = 0; i < 20; i++) {
		struct rec_task born = task(TASK_FORK, TID + 200 + i, i * MS),
				died = task(TASK_EXIT, TID + 200 + i, i * MS);

		born.h.tgid = died.h.tgid = TID + 200 + i;
		workers_task(&ws, &born);
		workers_task(&ws, &died);
	}
	assert_false(ws.share);
	fork_at(TID, 0);
	assert_int_equal(lane(TID, 0, 10), 0);
}

TEST_WITH(test_two_owners, begin, end)
{
	eight();
	/* none of the eight is on one, nor is a thread that was there before */
	assert_int_equal(lane(PID + 1000, 0, 0), 0);
	assert_int_equal(lane(PID, 0, 5), 0);
	fork_at(TID, 10 * MS);
	/* a span that begins just before its birth is reported */
	assert_int_equal(lane(TID, 10 * MS - 500, 11 * MS), 1);
	/* another thread with the same time */
	fork_at(TID + 1, 12 * MS);
	assert_int_equal(lane(TID + 1, 12 * MS, 13 * MS), 2);
	exit_at(TID, 20 * MS);
	assert_int_equal(lane(TID, 14 * MS, 20 * MS + 100), 1);
	exit_at(TID + 1, 30 * MS);
	fork_at(TID + 2, 220 * MS);
	assert_int_equal(lane(TID + 2, 220 * MS, 221 * MS), 1);
	/* late spans of the first one: even one that ends after the reported exit */
	assert_int_equal(lane(TID, 15 * MS, 16 * MS), 1);
	assert_int_equal(lane(TID, 19 * MS, 21 * MS), 1);
	/* but not where it would overlap the begin of the next one, or lie after it */
	assert_int_equal(lane(TID, 19 * MS, 219 * MS + MS / 2), 0);
	assert_int_equal(lane(TID, 221 * MS, 222 * MS), 0);
	/* nor the next one's spans before it */
	assert_int_equal(lane(TID + 2, 21 * MS, 230 * MS), 0);
	/* the lane that is free longest */
	exit_at(TID + 2, 240 * MS);
	fork_at(TID + 3, 500 * MS);
	assert_int_equal(lane(TID + 3, 500 * MS, 501 * MS), 2);
	/* it lives long: its own track from then on */
	assert_int_equal(lane(TID + 3, 502 * MS, 500 * MS + WORKERS_STAY_NS), 2);
	assert_int_equal(lane(TID + 3, 503 * MS, 501 * MS + WORKERS_STAY_NS), 0);
}

/* A lane is in use up to the end of the last span that arrived, whenever the exit was reported. */
TEST_WITH(test_late_end, begin, end)
{
	eight();
	fork_at(TID, 10 * MS);
	exit_at(TID, 20 * MS);
	assert_int_equal(lane(TID, 15 * MS, 400 * MS), 1);
	fork_at(TID + 1, 300 * MS);
	assert_int_equal(lane(TID + 1, 300 * MS, 301 * MS), 2);
	fork_at(TID + 2, 401 * MS);
	assert_int_equal(lane(TID + 2, 401 * MS, 402 * MS), 1);
	assert_int_equal(lane(TID, 390 * MS, 400 * MS), 1);
	assert_int_equal(lane(TID, 390 * MS, 400 * MS + 1), 0);
}

TEST_WITH(test_reused_tid, begin, end)
{
	eight();
	fork_at(TID, 10 * MS);
	assert_int_equal(lane(TID, 10 * MS, 11 * MS), 1);
	exit_at(TID, 20 * MS);
	/* at once: the lane still rests */
	fork_at(TID, 21 * MS);
	assert_int_equal(lane(TID, 22 * MS, 23 * MS), 2);
	exit_at(TID, 30 * MS);
	/* and on its former lane: nothing of the previous owner lies after the border, or across it */
	fork_at(TID, 190 * MS);
	assert_int_equal(lane(TID, 190 * MS, 191 * MS), 1);
	assert_int_equal(lane(TID, 15 * MS, 16 * MS), 0);
	assert_int_equal(lane(TID, 15 * MS, 195 * MS), 0);
	exit_at(TID, 200 * MS);
	/* a process takes the number, and its threads are not the former process's */
	struct rec_task r = task(TASK_FORK, TID, 210 * MS);

	r.h.tgid = TID;
	workers_task(&ws, &r);
	assert_int_equal(lane(TID, 211 * MS, 212 * MS), 0);
}

/* The process itself is new: lanes start again, and old spans are on none. */
TEST_WITH(test_reused_pid, begin, end)
{
	eight();
	fork_at(TID, 10 * MS);
	assert_int_equal(lane(TID, 10 * MS, 11 * MS), 1);
	fork_at(PID, 20 * MS);
	assert_int_equal(lane(TID, 12 * MS, 13 * MS), 0);
	exit_at(TID, 30 * MS);
	fork_at(TID + 1, 40 * MS);
	assert_int_equal(lane(TID + 1, 40 * MS, 41 * MS), 0);
}

TEST_WITH(test_many, begin, end)
{
	eight();
	for (uint32_t i = 0; i < WORKERS_LANES + 10; i++) {
		fork_at(TID + i, 10 * MS + i);
		assert_int_equal(
			lane(TID + i, 10 * MS + i, 11 * MS), i < WORKERS_LANES ? i + 1 : 0);
	}
	/* when all have an owner, none needs to rest */
	exit_at(TID + 5, 20 * MS);
	fork_at(TID + 200, 20 * MS + 10);
	assert_int_equal(lane(TID + 200, 20 * MS + 10, 21 * MS), 6);
	assert_int_equal(lane(TID + 5, 19 * MS, 20 * MS + 5), 6);
	assert_int_equal(lane(TID + 5, 19 * MS, 20 * MS + 6), 0);
}

/* Silent threads are forgotten, and a lane whose owner's exit was lost is reused nevertheless. */
TEST_WITH(test_bounded, begin, end)
{
	eight();
	for (uint32_t i = 0; i < 100000; i++) {
		fork_at(TID + i, i * MS);
		assert_in_range(lane(TID + i, i * MS, i * MS + 10), 1, WORKERS_LANES);
		exit_at(TID + i, i * MS + MS / 2);
	}
	assert_true(ws.cap <= 1 << 17);
	for (uint32_t i = 0; i < WORKERS_LANES; i++)
		fork_at(TID + i, 200000 * MS + i);
	fork_at(TID + 100, 200000 * MS + WORKERS_STAY_NS);
	assert_int_not_equal(
		lane(TID + 100, 200000 * MS + WORKERS_STAY_NS, 200001 * MS + WORKERS_STAY_NS), 0);
}

/* Any threads, with spans in any order: those on one lane never overlap, except those of one thread. */
TEST_WITH(test_drawn, begin, end)
{
	enum { THREADS = 3000, SPANS = 8 };
	struct {
		uint64_t birth, from[SPANS], to[SPANS];
	} *all = calloc(THREADS, sizeof(*all));
	struct {
		uint64_t from, to;
	}(*used)[WORKERS_LANES] = calloc(THREADS, sizeof(*used));
	unsigned int shared = 0;

	assert_non_null(all);
	assert_non_null(used);
	eight();
	for (uint32_t t = 0; t < THREADS + 20; t++) {
		/* a thread is born, and some spans of earlier threads arrive */
		if (t < THREADS) {
			all[t].birth = (t ? all[t - 1].birth : MS) + draw() % (8 * MS);
			for (int s = 0; s < SPANS; s++) {
				all[t].from[s] = all[t].birth + draw() % (40 * MS);
				all[t].to[s] =
					all[t].from[s] + draw() % (draw() % 16 ? 8 * MS : 300 * MS);
			}
			fork_at(TID + t, all[t].birth);
			if (t >= 5)
				exit_at(TID + t - 5, all[t].birth);
		}
		for (uint32_t i = t < 20 ? 0 : t - 20; i <= t && i < THREADS; i++) {
			int s = (int)((t - i) % SPANS);
			unsigned int l = lane(TID + i, all[i].from[s], all[i].to[s]);

			if (!l)
				continue;
			shared++;
			if (!used[i][l - 1].to || all[i].from[s] < used[i][l - 1].from)
				used[i][l - 1].from = all[i].from[s];
			if (all[i].to[s] > used[i][l - 1].to)
				used[i][l - 1].to = all[i].to[s];
		}
	}
	assert_true(shared > THREADS);
	for (unsigned int l = 0; l < WORKERS_LANES; l++) {
		uint64_t until = 0;

		for (uint32_t i = 0; i < THREADS; i++) {
			if (!used[i][l].to)
				continue;
			assert_true(used[i][l].from >= until);
			until = used[i][l].to;
		}
	}
	free(all);
	free(used);
}

/* ---- in the trace ---- */

static void tell(struct out *o, enum task_event event, uint32_t tid, uint64_t ns)
{
	struct rec_task r = task(event, tid, ns);

	tasks_update(rec.tasks, &r);
	EMIT(o, &r);
}

static void futex(struct out *o, uint32_t tid, uint64_t from, uint64_t to)
{
	struct rec_syscall r = { .h = hdr(REC_SYSCALL, SYS_futex) };

	r.h.tid = tid;
	r.h.start_ns = START + from;
	r.h.dur_ns = to - from;
	r.h.flags = REC_F_WOKE;
	EMIT(o, &r);
}

static void woken(
	struct out *o, uint32_t tid, uint64_t from, uint64_t to, uint32_t waker, uint64_t slice)
{
	struct rec_off_cpu r = { .h = hdr(REC_OFF_CPU, ST_BLOCKED_FUTEX) };

	r.h.tid = tid;
	r.h.start_ns = START + from;
	r.h.dur_ns = to - from;
	r.wake_ns = START + slice + 10;
	r.waker_tid = waker;
	r.waker_slice = START + slice;
	EMIT(o, &r);
}

TEST_WITH(test_chrome, setup, teardown)
{
	struct json_object *e;
	struct out o;

	chrome_open(&o);
	for (uint32_t i = 0; i < WORKERS_SHORT_LIVED; i++) {
		tell(&o, TASK_FORK, TID + 10 + i, i * MS);
		tell(&o, TASK_EXIT, TID + 10 + i, i * MS + 10);
	}
	tell(&o, TASK_FORK, TID + 100, 100 * MS);
	/* wakes the main thread, whose wait is written first, and is woken by it */
	woken(&o, PID, 100 * MS, 102 * MS, TID + 100, 101 * MS);
	futex(&o, TID + 100, 101 * MS, 103 * MS);
	futex(&o, PID, 104 * MS, 105 * MS);
	woken(&o, TID + 100, 104 * MS - 10, 105 * MS, PID, 104 * MS);
	tell(&o, TASK_EXIT, TID + 100, 110 * MS);
	tell(&o, TASK_FORK, TID + 101, 300 * MS);
	futex(&o, TID + 101, 301 * MS, 302 * MS);
	futex(&o, TID + 100, 106 * MS, 107 * MS); /* late */
	futex(&o, TID + 100, 108 * MS, 301 * MS); /* across: on its own track */
	chrome_read(&o);
	for (unsigned int i = 0; i < 5; i++) {
		static const uint32_t threads[] = { TID + 100, PID, TID + 101, TID + 100,
			TID + 100 };
		static const uint32_t tracks[] = { LANES, PID, LANES, LANES, TID + 100 };
		char text[16] = "";

		e = find(&o, "X", "futex", i);
		assert_track(e, PID, tracks[i]);
		snprintf(text, sizeof(text), "%u", threads[i]);
		assert_text(arg(e, "tid"), tracks[i] == LANES ? text : NULL);
	}
	assert_track(find(&o, "s", "wake-up", 0), PID, LANES);
	assert_track(find(&o, "f", "wake-up", 0), PID, PID);
	assert_track(find(&o, "s", "wake-up", 1), PID, PID);
	assert_track(find(&o, "f", "wake-up", 1), PID, LANES);
	e = find(&o, "i", "fork", WORKERS_SHORT_LIVED);
	assert_track(e, PID, LANES);
	assert_text(arg(e, "tid"), "5000101");
	for (unsigned int i = 0, lanes = 0; (e = find(&o, "M", "thread_name", i)) || !lanes; i++) {
		assert_non_null(e);
		if (strcmp(arg(e, "name"), "worker 1") != 0)
			continue;
		assert_track(e, PID, LANES);
		assert_int_equal(lanes++, 0);
	}
	chrome_done(&o);
}

/* Another file names a lane again. */
TEST_WITH(test_rotated, setup, teardown)
{
	struct out o, first;
	bool fresh;

	begin(NULL);
	eight();
	fork_at(TID, 10 * MS);
	for (int i = 0; i < 4; i++) {
		struct rec_hdr h = { .tgid = PID, .tid = TID, .start_ns = START + 10 * MS };

		if (i == 2)
			workers_forget_names(&ws);
		assert_int_equal(workers_lane(&ws, &h, &fresh), 1);
		assert_int_equal(fresh, i == 0 || i == 2);
	}
	workers_free(&ws);

	chrome_open(&o);
	for (uint32_t i = 0; i < WORKERS_SHORT_LIVED; i++) {
		tell(&o, TASK_FORK, TID + 10 + i, i * MS);
		tell(&o, TASK_EXIT, TID + 10 + i, i * MS + 10);
	}
	tell(&o, TASK_FORK, TID + 100, 100 * MS);
	first = out_rotate(&o, WRITER_PLAIN);
	chrome_done(&first);
	futex(&o, TID + 100, 101 * MS, 103 * MS);
	chrome_read(&o);
	assert_track(get(&o, "X", "futex"), PID, LANES);
	assert_text(arg(get(&o, "M", "thread_sort_index"), "sort_index"), "1");
	chrome_done(&o);
}

RUN_TESTS(NULL, NULL)
