// SPDX-License-Identifier: BSD-2-Clause
/* The requests of a recording: determined once, and the same for all of its sinks. */
#include "fake_sink.h"
#include "profile_lines.h"
#include "request_steps.h"

#include <sys/socket.h>

#include "sink/tee.h"
#include "util/clock.h"

#define SECOND UINT64_C(1000000000)
#define WAIT (10 * SECOND)              /* how long after its end a request may still be joined */
#define BEFORE (UINT64_C(30) * 1000000) /* how long before that the last step ends */

/* A sink that holds up the others: a request that waited before it need not wait after it. */
struct slow {
	struct fake_sink fake;
	uint64_t until;
};

static void slow_settled(struct sink *s)
{
	struct slow *slow = (struct slow *)s;

	while (clock_boot_ns() < slow->until) {
	}
}

static const struct sink_ops slow_ops = {
	.record = fake_record, .loss = fake_loss, .settled = slow_settled, .close = fake_close
};

static void emit_socket(struct sink *s, uint32_t fd)
{
	struct rec_request r = { .h = hdr(REC_REQUEST, fd), .family = AF_INET, .bytes_read = 100, .bytes_written = 400, .reads = 1, .writes = 3, .chunks = 2 };

	r.read_ns = r.h.start_ns = START + 400;
	r.h.dur_ns = 3700;
	r.first_byte_ns = r.first_chunk_ns = START + 2100;
	r.last_chunk_ns = START + 4100;
	sink_record(s, &r.h, sizeof(r));
}

/* A second request that could be the one in the steps comes just when the first stops waiting for others. */
TEST_WITH(test_same, setup, teardown)
{
	static const struct rows_step steps[] = {
		{ .number = 0, .start = 1000, .end = 2000, .n = 1, .parts = { { 3, 0, 9, 1 } } },
		{ .number = 1, .start = 3000, .end = 4000, .n = 1, .parts = { { 3, 9, 1, 1 } } },
		{ .number = 2, .start = WAIT - BEFORE, .end = WAIT - BEFORE + 1000, .n = 1, .parts = { { 3, 0, 2, 1 } } },
	};
	struct slow slow = { .fake.sink.ops = &slow_ops };
	struct out profile, trace;
	struct sink *all;
	bool joined, queued;

	add_rows_probe();
	profile = (struct out){ .fd = memfd_create("profile", MFD_CLOEXEC) };
	trace = (struct out){ .fd = memfd_create("trace", MFD_CLOEXEC) };
	profile.w = writer_new(dup(profile.fd), "profile", WRITER_LINES);
	trace.w = writer_new(dup(trace.fd), "trace", WRITER_PLAIN);
	rec.sockets = true;
	requests_begin();
	rec.meta = &plain;
	profile.s = profile_sink_new(profile.w, &rec);
	trace.s = chrome_sink_new(trace.w, &rec);
	all = tee_new((struct sink *[]){ profile.s, &slow.fake.sink, trace.s }, 3);
	all = request_feed_sink(rec.requests, all);
	rec.requests = NULL;
	rec.sockets = false;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		emit_rows(all, &steps[i]);
	sink_settled(all);
	emit_socket(all, 7);
	slow.until = clock_boot_ns() + BEFORE + 10000;
	sink_settled(all);
	emit_socket(all, 8);
	assert_int_equal(sink_close(all, &totals), 0);

	profile_read(&profile);
	read_text(&trace);
	joined = !strcmp(shape(&profile, 0, "source_kind"), "sequence") && !strcmp(shape(&profile, 0, "joined"), "true");
	queued = strstr(trace.text, "\"name\":\"queued\"");
	assert_int_equal(joined, queued);
	profile_done(&profile);
	chrome_done(&trace);
}

/* ---- readers ---- */

struct reader {
	unsigned int done, told, sockets;
};

static void *reader_done(struct step_request *r, void *arg)
{
	struct reader **mine = malloc(sizeof(*mine));

	assert_non_null(mine);
	*mine = arg;
	(*mine)->done++;
	return mine;
}

static void reader_sequence(void *request, const struct rec_request *socket, enum join_result why, void *arg)
{
	assert_ptr_equal(*(struct reader **)request, arg);
	((struct reader *)arg)->told++;
}

static void reader_socket(const struct rec_request *r, bool alone, enum join_result why, void *arg)
{
	((struct reader *)arg)->sockets++;
}

/* Each reader gets its own back, or nothing if it wants nothing or is gone; nothing leaks when it ends without the totals. */
TEST_WITH(test_readers, setup, teardown)
{
	static const struct request_reader_ops all = { .done = reader_done, .sequence = reader_sequence, .socket = reader_socket };
	static const struct request_reader_ops none = { .done = NULL };
	static const struct rows_step step = { .start = 1000, .end = 2000, .n = 1, .parts = { { 3, 0, 9, 1 } } },
				      next = { .number = 1, .start = 3000, .end = 4000, .n = 1, .parts = { { 3, 0, 9, 1 } } };

	add_rows_probe();
	for (int i = 0; i < 3; i++) {
		struct reader a = { 0 }, b = { 0 }, gone = { 0 };
		struct fake_sink fake = { .sink.ops = &fake_ops };
		struct request_feed *f;
		struct sink *s;

		rec.sockets = i != 1;
		f = request_feed_new(&rec);
		rec.sockets = false;
		assert_int_equal(request_feed_joins(f), i != 1);
		request_feed_add(f, &all, &a);
		request_feed_add(f, &none, &fake);
		request_feed_add(f, &all, &gone);
		request_feed_add(f, &all, &b);
		request_feed_remove(f, &gone);
		s = request_feed_sink(f, &fake.sink);
		assert_ptr_equal(request_feed_inner(s), &fake.sink);
		assert_ptr_equal(request_feed_inner(&fake.sink), &fake.sink);
		emit_rows(s, &step);
		emit_socket(s, 7);
		emit_rows(s, &next);
		sink_settled(s);
		sink_settled(s);
		assert_int_equal(sink_close(s, i == 2 ? NULL : &totals), 0);
		assert_int_equal(a.done, i == 2 ? 1 : 2);
		assert_int_equal(a.told, i == 2 ? 0 : 2);
		assert_int_equal(a.sockets, i == 1); /* else it is one of the others */
		assert_memory_equal(&a.done, &b.done, 3 * sizeof(a.done));
		assert_int_equal(gone.done + gone.told + gone.sockets, 0);
		assert_int_equal(fake.records, 3);
		assert_int_equal(fake.settled, 2);
		assert_int_equal(fake.closed, 1);
	}
	/* without a feed there is nothing to do */
	request_feed_add(NULL, &all, NULL);
	request_feed_remove(NULL, NULL);
	assert_false(request_feed_joins(NULL));
}

RUN_TESTS(NULL, NULL)
