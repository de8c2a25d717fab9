// SPDX-License-Identifier: BSD-2-Clause
/* Sinks that pass records on to others: a tee, and one for each process. */
#include "sinks.h"

#include "fake_sink.h"
#include "sink/tee.h"
#include "stderr.h"

#define FAKES 300

static struct fake_sink fakes[FAKES];
static size_t n_fakes;
static int open_err; /* of the next sink that is opened */
static size_t open_err_at;

static int fresh(void **state)
{
	memset(fakes, 0, sizeof(fakes));
	n_fakes = 0;
	open_err = 0;
	open_err_at = FAKES;
	return setup(state);
}

static int open_fake(const struct recording *r, void *arg, struct sink **ret_sink)
{
	struct fake_sink *f = &fakes[n_fakes];

	if (n_fakes == open_err_at)
		return open_err;
	assert_true(n_fakes < FAKES);
	f->sink.ops = &fake_ops;
	f->tgid = r->tgid;
	n_fakes++;
	*ret_sink = &f->sink;
	return 0;
}

/* ---- a tee ---- */

static struct sink *make_tee(struct fake_sink *list, size_t n)
{
	struct sink *sinks[8], *s;

	for (size_t i = 0; i < n; i++) {
		list[i].sink.ops = list[i].sink.ops ? list[i].sink.ops : &fake_ops;
		sinks[i] = &list[i].sink;
	}
	s = tee_new(sinks, n);
	return s;
}

TEST_WITH(test_tee_hands_over, fresh, teardown)
{
	struct rec_fault r = { .h = hdr(REC_FAULT, 0) };
	struct loss l = { .count[REC_FAULT] = 7 };
	struct mark m = { .name = "here" };
	struct window_totals t = { .steps = 3 };
	char log[FAKE_LOG] = "";
	uint64_t dropped[REC_KIND_MAX] = { 0 };
	struct sink *s;

	fakes[1].sink.ops = &fake_least_ops;
	for (size_t i = 0; i < 3; i++)
		fakes[i] = (struct fake_sink){
			.sink.ops = fakes[i].sink.ops, .log = log, .bytes = 10 + i, .pending = 20 + i, .dropped = i
		};
	s = make_tee(fakes, 3);
	sink_record(s, &r.h, sizeof(r));
	sink_loss(s, &l);
	sink_mark(s, &m);
	sink_settled(s);
	assert_int_equal(sink_flush(s), 0);
	assert_int_equal(sink_bytes(s), 10 + 12);
	assert_int_equal(sink_pending(s), 20 + 22);
	sink_dropped(s, dropped);
	assert_int_equal(dropped[REC_FAULT], 2);
	assert_true(sink_wants(s, &r.h));
	assert_ptr_equal(tee_nth(s, 2), &fakes[2].sink);
	assert_null(tee_nth(s, 3));
	assert_int_equal(sink_close(s, &t), 0);
	assert_string_equal(log, "rrrlllmmssffccc");
	assert_int_equal(fakes[2].size, sizeof(r));
	assert_int_equal(fakes[0].lost, 7);
	assert_int_equal(fakes[1].totals.steps, 3);
}

TEST_WITH(test_tee_of_one_is_itself, fresh, teardown)
{
	struct sink *s;

	s = make_tee(fakes, 1);
	assert_ptr_equal(s, &fakes[0].sink);
	assert_ptr_equal(tee_nth(s, 0), s);
	assert_null(tee_nth(s, 1));
}

/* The first error is reported, and the others are called nevertheless. */
TEST_WITH(test_tee_errors, fresh, teardown)
{
	struct sink *s;

	fakes[1] = (struct fake_sink){ .flush_err = -ENOSPC, .close_err = -EIO };
	fakes[2] = (struct fake_sink){ .flush_err = -EPIPE, .close_err = -EPIPE };
	s = make_tee(fakes, 3);
	assert_int_equal(sink_flush(s), -ENOSPC);
	assert_int_equal(sink_close(s, NULL), -EIO);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(fakes[i].flushes, 1);
		assert_int_equal(fakes[i].closed, 1);
		assert_false(fakes[i].with_totals);
	}
}

/* ---- one for each process ---- */

static struct sink *make(const struct by_process_config *c)
{
	struct by_process_config with = *c;
	struct sink *s;

	with.open = open_fake;
	assert_int_equal(by_process_new(&with, &rec, &s), 0);
	return s;
}

static void emit(struct sink *s, uint32_t tgid, enum rec_kind kind)
{
	struct rec_fault r = { .h = { .kind = (uint8_t)kind, .tgid = tgid, .tid = tgid } };

	sink_record(s, &r.h, sizeof(r));
}

TEST_WITH(test_by_process_late_ones, fresh, teardown)
{
	struct loss l[] = {
		{ .from_ns = 10, .to_ns = 20, .count[REC_FAULT] = 1 },
		{ .from_ns = 30, .to_ns = 40, .count[REC_STEP] = 2 },
	};
	struct mark m = { .name = "window_open" };
	struct sink *s;

	s = make(&(struct by_process_config){ 0 });
	assert_int_equal(n_fakes, 1); /* of the live target */
	assert_int_equal(fakes[0].tgid, PID);
	sink_mark(s, &m);
	sink_loss(s, &l[0]);
	sink_loss(s, &l[1]);
	emit(s, PID, REC_FAULT);
	emit(s, PID + 9, REC_FAULT);
	emit(s, PID + 9, REC_STEP);
	assert_int_equal(n_fakes, 2);
	assert_int_equal(fakes[1].tgid, PID + 9);
	assert_int_equal(fakes[1].records, 2);
	assert_int_equal(fakes[0].records, 1);
	/* what it has missed, with the losses as one */
	assert_string_equal(fakes[1].marked, "window_open ");
	assert_int_equal(fakes[1].losses, 1);
	assert_int_equal(fakes[1].lost, 3);
	assert_int_equal(fakes[0].losses, 2);
	sink_close(s, NULL);
	assert_int_equal(fakes[0].closed + fakes[1].closed, 2);
}

/* The totals of each are its own: records, steps, bytes and the process's sums. */
TEST_WITH(test_by_process_totals, fresh, teardown)
{
	struct process_totals sums[] = { { .tgid = PID }, { .tgid = PID + 1 }, { .tgid = PID + 2 } };
	struct window_totals t = {
		.records[REC_FAULT] = 3, .steps = 1, .bytes = 99, .processes = sums, .n_processes = 3, .open_ns = 5
	};
	struct sink *s;

	s = make(&(struct by_process_config){ 0 });
	emit(s, PID, REC_FAULT);
	emit(s, PID + 2, REC_FAULT);
	emit(s, PID + 2, REC_FAULT);
	emit(s, PID + 2, REC_STEP);
	fakes[1].bytes = 7;
	sink_close(s, &t);
	assert_int_equal(fakes[0].totals.records[REC_FAULT], 1);
	assert_int_equal(fakes[0].totals.steps, 0);
	assert_int_equal(fakes[1].totals.records[REC_FAULT], 2);
	assert_int_equal(fakes[1].totals.steps, 1);
	assert_int_equal(fakes[1].totals.bytes, 7);
	assert_int_equal(fakes[1].totals.n_processes, 1);
	assert_int_equal(fakes[1].totals.processes->tgid, PID + 2);
	assert_int_equal(fakes[1].totals.open_ns, 5);
}

TEST_WITH(test_by_process_only_these, fresh, teardown)
{
	const uint32_t only[] = { 70, 80 };
	struct rec_hdr h = { .kind = REC_FAULT, .tgid = 90 };
	struct sink *s;

	s = make(&(struct by_process_config){ .tgids = only, .n_tgids = 2 });
	assert_int_equal(n_fakes, 2);
	emit(s, 80, REC_FAULT);
	emit(s, 90, REC_FAULT);
	assert_int_equal(n_fakes, 2);
	assert_int_equal(fakes[0].records, 0);
	assert_int_equal(fakes[1].records, 1);
	assert_false(sink_wants(s, &h));
	h.tgid = 70;
	assert_true(sink_wants(s, &h));
	sink_close(s, NULL);
}

TEST_WITH(test_by_process_cpus_for_all, fresh, teardown)
{
	const uint32_t only[] = { 70, 80 };
	struct sink *s;

	s = make(&(struct by_process_config){ .tgids = only, .n_tgids = 2, .all_cpus = true });
	emit(s, 90, REC_ON_CPU);
	emit(s, 90, REC_OFF_CPU);
	assert_int_equal(fakes[0].records, 1);
	assert_int_equal(fakes[1].records, 1);
	sink_close(s, NULL);
}

/* Excess processes share one sink, with the sums of all that have no sink of their own. */
TEST_WITH(test_by_process_too_many, fresh, teardown)
{
	enum { OWN = 256,
		MORE = 3 };
	struct process_totals sums[OWN + MORE + 1];
	struct window_totals t = { .processes = sums, .n_processes = OWN + MORE };
	const struct fake_sink *others = &fakes[OWN];
	static struct stderr_grab g;
	struct sink *s;

	memset(sums, 0, sizeof(sums));
	s = make(&(struct by_process_config){ 0 });
	stderr_grab_begin(&g);
	for (uint32_t i = 0; i < OWN + MORE; i++) {
		sums[i].tgid = PID + i;
		emit(s, PID + i, REC_FAULT);
	}
	assert_non_null(strstr(stderr_grab_end(&g), "more than 256 processes in one window"));
	assert_int_equal(n_fakes, OWN + 1);
	assert_int_equal(others->tgid, 0);
	assert_int_equal(others->records, MORE);
	sink_close(s, &t);
	assert_int_equal(others->totals.n_processes, MORE);
	assert_int_equal(others->totals.records[REC_FAULT], MORE);
}

/* A sink that cannot be opened: its records are left out, and the next flush fails. */
TEST_WITH(test_by_process_open_fails, fresh, teardown)
{
	struct by_process_config c = { .open = open_fake };
	struct sink *s = NULL;

	open_err = -EMFILE;
	open_err_at = 0;
	assert_int_equal(by_process_new(&c, &rec, &s), -EMFILE);
	assert_null(s);
	open_err_at = 1;
	s = make(&c);
	emit(s, PID + 9, REC_FAULT);
	emit(s, PID, REC_FAULT);
	assert_int_equal(fakes[0].records, 1);
	assert_int_equal(sink_flush(s), -EMFILE);
	assert_int_equal(fakes[0].flushes, 1);
	assert_int_equal(sink_close(s, NULL), -EMFILE);
	assert_int_equal(fakes[0].closed, 1);
}

RUN_TESTS(NULL, NULL)
