// SPDX-License-Identifier: BSD-2-Clause
/* A run without a kernel: incoming records, windows, the flight recorder. */
#include "sinks.h"

#include "fake_session.h"
#include "fake_sink.h"
#include "record/flight.h"
#include "record/options.h"
#include "record/windows.h"
#include "stderr.h"

static struct fake_sink fake;
static struct record_options opt;
static struct capture capture;
static struct intake intake;
static struct windows w;
static char order[FAKE_LOG];

static int fresh(void **state)
{
	if (setup(state))
		return -1;
	memset(&fake_session, 0, sizeof(fake_session));
	memset(order, 0, sizeof(order));
	fake = (struct fake_sink){ .sink.ops = &fake_ops, .log = order };
	opt = (struct record_options){ .events = EVENTS_DEFAULT };
	capture = (struct capture){ .session = FAKE_SESSION, .tasks = rec.tasks };
	intake = (struct intake){ .c = &capture };
	w = (struct windows){ .o = &opt, .c = &capture, .in = &intake, .recorder = &fake.sink };
	fake_session.session.cb = intake_record;
	fake_session.session.cb_arg = &intake;
	return 0;
}

static void hand_over(enum rec_kind kind, uint32_t id)
{
	static struct rec_step s;

	s = (struct rec_step){ .h = hdr(kind, id) };
	intake_record(&s.h, sizeof(s), &intake);
}

static uint64_t seen(enum rec_kind kind)
{
	struct window_totals t;

	windows_totals(&w, &t);
	return t.records[kind];
}

/* ---- records ---- */

/* Without a window records are not counted, but their news of tasks is learned. */
TEST_WITH(test_closed, fresh, teardown)
{
	tell_task(TASK_EXIT, PID, TID, "worker");
	hand_over(REC_FAULT, 0);
	assert_int_equal(fake.records, 0);
	assert_int_equal(fake_session.controls, 1); /* the thread is unknown: it may just have been born */
}

TEST_WITH(test_what_is_shown, fresh, teardown)
{
	assert_int_equal(windows_begin(&w), 0);
	hand_over(REC_FAULT, 0);
	assert_int_equal(fake.records, 1);
	assert_int_equal(fake.size, sizeof(struct rec_step));
	hand_over(REC_MAPPED, 0);
	hand_over(REC_TASK, TASK_STRANGER);
	hand_over(REC_FUNCTION, 0); /* no such probe */
	hand_over(REC_KIND_MAX, 0);
	assert_int_equal(fake.records, 1);
	intake.keep_names = true;
	hand_over(REC_TASK, TASK_STRANGER);
	assert_int_equal(fake.records, 2);
	assert_int_equal(seen(REC_FAULT), 1);
	assert_int_equal(seen(REC_TASK), 0); /* strangers are not part of the recording */
	assert_int_equal(windows_end(&w), 0);
}

/* Losses of the session and of a slow file both count, reported once. */
TEST_WITH(test_loss, fresh, teardown)
{
	struct window_totals t;

	fake_session.lost = 100; /* before the window, but it counts */
	assert_int_equal(windows_begin(&w), 0);
	fake.dropped = 3;
	intake_check_loss(&intake, clock_boot_ns());
	assert_int_equal(fake.losses, 1);
	assert_int_equal(fake.lost, 103);
	intake_check_loss(&intake, clock_boot_ns());
	assert_int_equal(fake.losses, 1);
	fake_session.lost = 110;
	intake_check_loss(&intake, clock_boot_ns());
	assert_int_equal(fake.lost, 113);
	assert_int_equal(intake.dropped, 3);
	assert_int_equal(windows_end(&w), 0);
	windows_totals(&w, &t);
	assert_int_equal(t.lost[REC_FAULT], 113);
	assert_int_equal(fake.totals.lost[REC_FAULT], 113);
}

/* ---- windows ---- */

TEST_WITH(test_whole, fresh, teardown)
{
	struct rec_fault f = { .h = hdr(REC_FAULT, 0) };

	assert_int_equal(windows_begin(&w), 0);
	assert_true(w.open);
	fake_session.next = &f.h;
	fake_session.next_size = sizeof(f);
	w.last_flush_ns = 0; /* long ago */
	assert_int_equal(windows_drain(&w), 0);
	assert_string_equal(order, "rsf");
	assert_int_equal(windows_turn(&w, clock_boot_ns()), 0);
	fake_session.next = &f.h; /* arrives while the window is being closed */
	assert_int_equal(windows_end(&w), 0);
	assert_string_equal(order, "rsfrc");
	assert_true(fake.with_totals);
	assert_int_equal(fake.totals.records[REC_FAULT], 2);
	assert_int_equal(fake_session.stops, 1);
	assert_int_equal(windows_end(&w), 0);
	assert_int_equal(fake.closed, 1);
}

/* While more records wait in the rings, nothing is settled. */
TEST_WITH(test_more_waits, fresh, teardown)
{
	assert_int_equal(windows_begin(&w), 0);
	fake_session.drained = 1;
	assert_int_equal(windows_drain(&w), 1);
	assert_int_equal(fake.settled, 0);
	fake_session.drained = 0;
	assert_int_equal(windows_drain(&w), 0);
	assert_int_equal(fake.settled, 1);
	assert_int_equal(windows_end(&w), 0);
}

/* A file error ends the drain, and the window is closed nevertheless. */
TEST_WITH(test_flush_fails, fresh, teardown)
{
	assert_int_equal(windows_begin(&w), 0);
	fake.flush_err = -ENOSPC;
	fake.close_err = -ENOSPC;
	w.last_flush_ns = 0;
	assert_int_equal(windows_drain(&w), -ENOSPC);
	w.last_flush_ns = 0;
	assert_int_equal(windows_keep_up(&w), -ENOSPC);
	assert_int_equal(windows_end(&w), -ENOSPC);
	assert_int_equal(fake.closed, 1);
}

TEST_WITH(test_manual, fresh, teardown)
{
	opt.window_spec = "manual";
	assert_int_equal(windows_begin(&w), 0);
	assert_int_equal(fake_session.watches, 1);
	assert_false(w.open);
	assert_int_equal(windows_stop(&w), 1);
	assert_int_equal(windows_start(&w), 0);
	assert_true(w.open);
	assert_int_equal(windows_start(&w), 1);
	assert_int_equal(windows_stop(&w), 0);
	assert_int_equal(windows_start(&w), 0);
	assert_int_equal(w.rec.window, 1);
	assert_int_equal(windows_end(&w), 0);
	assert_int_equal(w.number, 2);
	assert_string_equal(fake.marked, "window_open window_close window_open window_close ");
	assert_int_equal(fake_session.starts, 2);
	assert_int_equal(fake.closed, 2);
}

/* The table of probes is the test's own. */
static int drop_probes(void **state)
{
	capture.probes = (struct probe_table){ 0 };
	return teardown(state);
}

TEST_WITH(test_max_steps, fresh, drop_probes)
{
	static struct probe_spec spec = { .handle_arg = -1, .handle_name = -1 };

	capture.probes = (struct probe_table){ .specs = &spec, .n = 1 };
	opt.max_steps = 2;
	assert_int_equal(windows_begin(&w), 0);
	hand_over(REC_STEP, 0);
	assert_int_equal(windows_turn(&w, clock_boot_ns()), 0);
	assert_true(w.open);
	hand_over(REC_STEP, 0);
	assert_int_equal(windows_turn(&w, clock_boot_ns()), 0);
	assert_false(w.open);
	assert_true(w.schedule.state.over);
	assert_int_equal(fake.totals.steps, 2);
}

/* A step that claims more parts than its record has is dropped. */
TEST_WITH(test_parts, fresh, drop_probes)
{
	static struct probe_spec spec = { .handle_arg = -1, .handle_name = -1 };
	struct rec_step_parts r = { .s.h = hdr(REC_STEP, 0), .s.n_parts = 2 };
	size_t whole = sizeof(r.s) + 2 * sizeof(struct row_part);

	capture.probes = (struct probe_table){ .specs = &spec, .n = 1 };
	assert_int_equal(windows_begin(&w), 0);
	intake_record(&r.s.h, sizeof(r.s) - 8, &intake);
	intake_record(&r.s.h, sizeof(r.s), &intake);
	intake_record(&r.s.h, whole - 8, &intake);
	r.s.n_parts = STEP_PARTS_MAX + 1;
	intake_record(&r.s.h, sizeof(r), &intake);
	assert_int_equal(fake.records, 0);
	r.s.n_parts = 2;
	intake_record(&r.s.h, whole, &intake);
	assert_int_equal(fake.records, 1);
	assert_int_equal(fake.size, whole);
}

/* The session cannot start, or files cannot be made: nothing is open, and no sink is fed. */
TEST_WITH(test_cannot_open, fresh, teardown)
{
	fake_session.start_err = -EBUSY;
	assert_int_equal(windows_begin(&w), -EBUSY);
	assert_false(w.open);
	assert_int_equal(fake.closed, 0);
	hand_over(REC_FAULT, 0);
	assert_int_equal(fake.records, 0);
}

static int refuse(struct view *v, const struct recording *r, struct sink **ret_sink)
{
	return -EIO;
}

TEST_WITH(test_no_output, fresh, teardown)
{
	static const struct view_ops view_ops = { .open = refuse };
	struct view v = { .ops = &view_ops };

	opt.view = &v;
	w.recorder = NULL;
	assert_int_equal(windows_begin(&w), -EIO);
	assert_false(w.open);
	assert_int_equal(fake_session.stops, 1);
	assert_null(intake.sink);
}

/* ---- the flight recorder ---- */

static struct {
	unsigned int n;
	int err;
	uint64_t id;
	size_t files;
} answered;

static void on_done(uint64_t id, int err, struct json_object *reply, const char *msg, void *arg)
{
	struct json_object *files = NULL;

	answered.n++;
	answered.err = err;
	answered.id = id;
	if (reply && json_object_object_get_ex(reply, "files", &files))
		answered.files = json_object_array_length(files);
	json_object_put(reply);
}

static char directory[] = "/tmp/test_run.XXXXXX";

static int enter(void **state)
{
	strcpy(directory + sizeof(directory) - 7, "XXXXXX");
	memset(&answered, 0, sizeof(answered));
	return fresh(state) || !mkdtemp(directory) ? -1 : chdir(directory);
}

static int leave(void **state)
{
	return leave_directory(directory) || teardown(state);
}

static struct recorder *open_recorder(void)
{
	struct recorder *r;

	opt.flight_bytes = 1 << 20;
	opt.output_dir = ".";
	opt.formats[0] = "json";
	opt.n_formats = 1;
	assert_int_equal(recorder_new(&w, on_done, NULL, &r), 0);
	intake.keep_names = true;
	assert_int_equal(windows_begin(&w), 0);
	assert_true(w.open);
	return r;
}

/* Runs until the request is answered. */
static void dump(struct recorder *r, unsigned int until)
{
	for (unsigned int i = 0; answered.n < until; i++) {
		assert_true(i < 100000);
		recorder_round(r, clock_boot_ns());
		if (!recorder_busy(r))
			usleep(100);
	}
}

TEST_WITH(test_dump, enter, leave)
{
	struct recorder *r = open_recorder();
	struct rec_fault f = { .h = hdr(REC_FAULT, 0) };

	w.meta = (struct profile_meta){ .model = "m", .concurrency = 1, .runtime_flags = "{}" };
	f.h.start_ns = clock_boot_ns();
	intake_record(&f.h, sizeof(f), &intake);
	assert_false(recorder_busy(r));
	assert_int_equal(recorder_request(r, "asked for", (struct last){ 0 }, 7), 0);
	assert_true(recorder_busy(r));
	dump(r, 1);
	assert_int_equal(answered.id, 7);
	assert_int_equal(answered.err, 0);
	assert_int_equal(answered.files, 2); /* a trace and a profile */
	assert_false(recorder_waits(r));
	assert_int_equal(recorder_finish(r), 0);
	assert_int_equal(windows_end(&w), 0);
	recorder_free(r);
}

/* A dump that cannot be written is answered, and the recording continues. */
TEST_WITH(test_dump_fails, enter, leave)
{
	struct recorder *r = open_recorder();
	struct stderr_grab g;

	opt.output_dir = "/proc/no such directory";
	assert_int_equal(recorder_request(r, "asked for", (struct last){ 0 }, 8), 0);
	stderr_grab_begin(&g);
	dump(r, 1);
	stderr_grab_end(&g);
	assert_true(answered.err < 0);
	assert_int_equal(answered.id, 8);
	assert_false(recorder_busy(r));
	assert_int_equal(recorder_finish(r), 1);
	assert_int_equal(windows_end(&w), 0);
	recorder_free(r);
}

/* Dumps requested by the end are written, without anyone waiting. */
TEST_WITH(test_dump_at_the_end, enter, leave)
{
	struct recorder *r = open_recorder();

	w.meta = (struct profile_meta){ .model = "m", .concurrency = 1, .runtime_flags = "{}" };
	for (unsigned int i = 0; i < 16; i++)
		assert_int_equal(recorder_request(r, "many", (struct last){ 0 }, i == 15 ? 9 : 0), 0);
	assert_int_equal(recorder_request(r, "one more", (struct last){ 0 }, 0), -EBUSY);
	assert_int_equal(recorder_finish(r), 0);
	assert_int_equal(answered.n, 1);
	assert_int_equal(answered.id, 9);
	assert_int_equal(windows_end(&w), 0);
	recorder_free(r);
}

RUN_TESTS(NULL, NULL)
