// SPDX-License-Identifier: BSD-2-Clause
/* The loop of a run, without a kernel: what ends it, and what it then returns. */
#include "sinks.h"

#include <signal.h>

#include "capture/calibrate.h"
#include "capture/features.h"
#include "fake_session.h"
#include "fake_sink.h"
#include "io/control.h"
#include "record/options.h"
#include "stderr.h"
#include "util/program.h"

static struct fake_sink fake;
static struct record_options opt;
static unsigned int rounds, last_round;
static int round_err;                     /* of the last one */
static int signalled;                     /* raised in the first */
static int missing;                       /* what the kernel lacks, as an errno */
static bool controlled, controlled_first; /* has a control socket, and already had it when the programs were loaded */

FAKE_VALUE(int, -EPERM, calibration_start, bool uprobe_multi, struct calibration **ret_calibration)

FAKE(int, features_probe, struct features *f, bool fast_only)
{
	memset(f, 0, sizeof(*f));
	return 0;
}

FAKE(int, features_require, const struct features *f, char *why, size_t size)
{
	snprintf(why, size, "it is missing");
	return missing;
}

FAKE(int, session_open, const struct session_config *c, struct session **ret_session)
{
	controlled_first = controlled;
	fake_session.session.cb = c->cb;
	fake_session.session.cb_arg = c->cb_arg;
	*ret_session = FAKE_SESSION;
	return 0;
}

FAKE_VALUE(void, , session_free, struct session *s)
FAKE_VALUE(int, 0, session_attach, struct session *s)
FAKE_VALUE(int, -1, session_control_fd, const struct session *s)
FAKE_VALUE(int, 0, attach_named_files, struct attach *a)
FAKE_VALUE(struct follow *, NULL, follow_new, struct session *s, struct tasks *ts, bool sweeps)
FAKE_VALUE(void, , follow_free, struct follow *f)
FAKE_VALUE(int, 0, confine_capabilities, uint64_t keep)
FAKE_VALUE(int, 0, confine_recorder, void)
FAKE_VALUE(int, 0, process_each, int (*cb)(pid_t pid, void *arg), void *arg)

FAKE(int, control_new, control_run_fn run, void *arg, const char *directory, struct control **ret_control)
{
	*ret_control = NULL;
	controlled = true;
	return -EADDRINUSE;
}

static int view_open(struct view *v, const struct recording *r, struct sink **ret_sink)
{
	*ret_sink = &fake.sink;
	return 0;
}

static int view_round(struct view *v, uint64_t now_ns)
{
	if (!rounds++ && signalled)
		raise(signalled);
	return rounds == last_round ? round_err : 0;
}

static void view_signal(struct view *v, int signo)
{
}

static const struct view_ops view_ops = { .open = view_open, .round = view_round, .signal = view_signal };
static struct view view = { .ops = &view_ops, .fd = -1 };

static const char *no_engines[] = { "none" };

static int fresh(void **state)
{
	memset(&fake_session, 0, sizeof(fake_session));
	fake = (struct fake_sink){ .sink.ops = &fake_ops };
	opt = (struct record_options){
		.all = true, .events = EVENT_SYSCALLS, .engines = no_engines, .n_engines = 1, .view = &view, .min_free = WRITER_FLOOR
	};
	rounds = last_round = 0;
	round_err = signalled = missing = 0;
	controlled = controlled_first = false;
	sigemptyset(&view.signals);
	return 0;
}

/* What it returns once begun; window and sink are closed, whatever ended it. */
static void run_to(int code)
{
	assert_int_equal(record_run(&opt), code);
	assert_int_equal(fake_session.starts, 1);
	assert_int_equal(fake_session.stops, 1);
	assert_int_equal(fake.closed, 1);
	assert_true(fake.with_totals);
	assert_true(controlled_first); /* start, right after record, waits for it */
}

TEST_WITH(test_view_ends, fresh, NULL)
{
	last_round = 3;
	round_err = 1;
	run_to(EXIT_OK);
	assert_int_equal(rounds, 3);
	assert_int_equal(fake.settled, 3);
}

TEST_WITH(test_view_fails, fresh, NULL)
{
	last_round = 2;
	round_err = -EIO;
	run_to(EXIT_RUN);
}

TEST_WITH(test_duration, fresh, NULL)
{
	opt.duration_ns = 1000000;
	run_to(EXIT_OK);
}

TEST_WITH(test_signal, fresh, NULL)
{
	signalled = SIGTERM;
	run_to(EXIT_OK);
}

TEST_WITH(test_drain_fails, fresh, NULL)
{
	static struct stderr_grab g;
	int code;

	fake_session.drained = -EIO;
	stderr_grab_begin(&g);
	code = record_run(&opt);
	assert_non_null(strstr(stderr_grab_end(&g), "cannot read the ring buffers"));
	assert_int_equal(code, EXIT_RUN);
	assert_int_equal(fake.closed, 1);
}

TEST_WITH(test_sink_fails, fresh, NULL)
{
	opt.duration_ns = 1000000;
	fake.close_err = -ENOSPC;
	run_to(EXIT_RUN);
}

TEST_WITH(test_strict, fresh, NULL)
{
	opt.duration_ns = 1000000;
	fake_session.lost = 1;
	run_to(EXIT_OK);
	fresh(state);
	opt.duration_ns = 1000000;
	opt.strict = true;
	fake_session.lost = 1;
	run_to(EXIT_LOSS);
	assert_int_equal(fake.totals.lost[REC_FAULT], 1);
}

TEST_WITH(test_not_allowed, fresh, NULL)
{
	static struct stderr_grab g;
	int code[2];

	stderr_grab_begin(&g);
	missing = -EPERM;
	code[0] = record_run(&opt);
	missing = -ENOSYS;
	code[1] = record_run(&opt);
	assert_non_null(strstr(stderr_grab_end(&g), "it is missing"));
	assert_int_equal(code[0], EXIT_ALLOWED);
	assert_int_equal(code[1], EXIT_ALLOWED);
	assert_int_equal(fake_session.starts, 0);
}

RUN_TESTS(NULL, NULL)
