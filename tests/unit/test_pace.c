// SPDX-License-Identifier: BSD-2-Clause
/* When a recording's threads yield to others, and what makes them run normally again. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "record/limits.h"
#include "unit.h"
#include "util/clock.h"
#include "util/thread.h"

#define WAIT_NS (60 * NSEC_PER_SEC)

static atomic_uint fill;
static int pipe_fds[2];
static struct pollfd fds[2];
static struct pace *pace;

/* A yielding thread may not run before it is late, and then yields no longer: another thread has to notice. */
static struct {
	pthread_t thread;
	pid_t watched;
	atomic_bool idle, ends;
} observer;

static unsigned int get_fill(void *arg)
{
	return fill;
}

static int class_of(pid_t tid)
{
	return sched_getscheduler(tid) & ~SCHED_RESET_ON_FORK;
}

static int class_now(void)
{
	return class_of(0);
}

static void *observe(void *arg)
{
	while (!observer.ends) {
		if (class_of(observer.watched) == SCHED_IDLE)
			observer.idle = true;
		usleep(500);
	}
	return arg;
}

static int observer_begin(void)
{
	const struct sched_param first = { .sched_priority = 1 };

	observer.watched = gettid();
	observer.ends = false;
	return pthread_create(&observer.thread, NULL, observe, NULL) ||
	       pthread_setschedparam(observer.thread, SCHED_FIFO, &first);
}

static bool becomes(int class)
{
	uint64_t end = clock_mono_ns() + WAIT_NS;

	while (class_now() != class && clock_mono_ns() < end)
		usleep(1000);
	return class_now() == class;
}

/* A turn of the loop without events. */
static void rest(bool calm)
{
	assert_int_equal(pace_poll(pace, fds, 2, 1, calm, UINT64_MAX), 0);
}

/* Whether the loop yields when nothing happens. */
static bool yields(void)
{
	uint64_t end = clock_mono_ns() + WAIT_NS;

	observer.idle = false;
	while (!observer.idle && clock_mono_ns() < end) {
		rest(true);
		usleep(1000);
	}
	return observer.idle;
}

static int begin(void **state)
{
	fill = 0;
	if (pipe(pipe_fds))
		return -1;
	fds[0] = (struct pollfd){ .fd = -1 };
	fds[1] = (struct pollfd){ .fd = pipe_fds[0], .events = POLLIN };
	return yield_allow() != YIELD_NEVER ? pace_new(fds, 2, get_fill, NULL, &pace) || observer_begin() : 0;
}

static int end(void **state)
{
	if (pace) {
		observer.ends = true;
		pthread_join(observer.thread, NULL);
	}
	pace_free(pace);
	pace = NULL;
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return class_now() == SCHED_OTHER ? 0 : -1;
}

static void need_pace(void)
{
	if (!pace)
		skip();
}

TEST_WITH(test_calm, begin, end)
{
	need_pace();
	assert_int_equal(class_now(), SCHED_OTHER);
	rest(false);
	assert_int_equal(class_now(), SCHED_OTHER);
	fill = 49;
	assert_true(yields());
	rest(false);
	assert_int_equal(class_now(), SCHED_OTHER);
	assert_false(yield_is_set());
}

TEST_WITH(test_full, begin, end)
{
	need_pace();
	for (int i = 0; i < 3; i++) {
		fill = 0;
		assert_true(yields());
		fill = 50;
		assert_true(becomes(SCHED_OTHER));
	}
}

TEST_WITH(test_input, begin, end)
{
	char c = 0;

	need_pace();
	for (int i = 0; i < 3; i++) {
		assert_true(yields());
		assert_int_equal(write(pipe_fds[1], &c, 1), 1);
		assert_true(becomes(SCHED_OTHER));
		/* the event is still there: the loop itself finds it, too */
		assert_int_equal(pace_poll(pace, fds, 2, 1000, true, UINT64_MAX), 1);
		assert_int_equal(class_now(), SCHED_OTHER);
		assert_int_equal(read(pipe_fds[0], &c, 1), 1);
	}
}

/* The loop does not return, because others have the CPU. */
TEST_WITH(test_late, begin, end)
{
	need_pace();
	assert_true(yields());
	assert_true(becomes(SCHED_OTHER));
}

TEST_WITH(test_due, begin, end)
{
	need_pace();
	assert_int_equal(pace_poll(pace, fds, 2, 1, true, clock_boot_ns()), 0);
	assert_int_equal(class_now(), SCHED_OTHER);
}

/* Ended by the loop itself, unnoticed by the watching thread: it yields the next time as well. */
TEST_WITH(test_again, begin, end)
{
	need_pace();
	for (int i = 0; i < 3; i++) {
		assert_true(yields());
		rest(false);
		assert_int_equal(class_now(), SCHED_OTHER);
	}
}

TEST_WITH(test_none, begin, end)
{
	assert_int_equal(pace_poll(NULL, fds, 2, 0, true, 0), 0);
	assert_int_equal(class_now(), SCHED_OTHER);
}

RUN_TESTS(NULL, NULL)
