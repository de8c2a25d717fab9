// SPDX-License-Identifier: BSD-2-Clause
/* The requests of a recording: determined once, and the same for all of its sinks. */
#include "fake_sink.h"
#include "profile_lines.h"
#include "request_steps.h"

#include <sys/socket.h>

#include "sink/tee.h"
#include "util/alloc.h"
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

/* ---- ids ---- */

#define API_PID (PID + 7)

TEST(test_answer_id)
{
	static const struct {
		const char *answer, *id;
	} cases[] = {
		{ "{\"id\":\"cmpl-1\",\"object\":", "cmpl-1" },
		{ "{ \"id\":  \"a\"", "a" },
		{ "15a\r\ndata: {\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.comp", "chatcmpl-0123456789abcdef0123456789abcdef" },
		{ "", "" },
		{ "{\"text\":\"x\",\"meta_info\":{\"id\":\"m\"", "m" },
		{ "6a\r\ndata: {\"text\":\" The\",\"output_ids\":[576],\"meta_info\":{\"id\":\"0123456789abcdef0123456789abcdef\",\"finish_reason\":null",
			"0123456789abcdef0123456789abcdef" },
		{ "{\"id\":7}", "" },
		{ "{\"id\":\"\"}", "" },
		{ "{\"id\":\"not ended", "" },
		{ "{\"id\":\"a b\"}", "" },
		{ "{\"id\":\"a\\u0041\"}", "" },
		{ "{\"id\":\"\n\"}", "" },
		{ "{\"id\":\"0123456789012345678901234567890123456789012345678901234567890123\"}", "" }, /* longer than any that is kept */
		{ "{\"id\":", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rec_request r = { .http = 1 };
		char id[FUNC_STR_LEN] = "before";

		memcpy(r.answer, cases[i].answer, strlen(cases[i].answer));
		assert_int_equal(request_answer_id(&r, id), *cases[i].id != 0);
		assert_text(id, cases[i].id);
	}
	for (size_t n = 0; n < REQUEST_ANSWER_LEN; n++) { /* up to the last byte */
		struct rec_request r = { .http = 1 };
		char id[FUNC_STR_LEN];

		memset(r.answer, ' ', sizeof(r.answer));
		memcpy(r.answer + n, "\"id\":\"x\"", n + 8 > sizeof(r.answer) ? sizeof(r.answer) - n : 8);
		assert_int_equal(request_answer_id(&r, id), n + 8 <= sizeof(r.answer));
	}
}

struct paired {
	uint64_t sequence;
	uint32_t fd; /* 0: none */
	enum join_result why;
};

struct pairing {
	struct paired sequences[4];
	size_t n, n_sockets;
};

struct held_pair {
	struct pairing *to;
	uint64_t sequence;
};

static void *pairing_done(struct step_request *r, void *arg)
{
	struct held_pair *h = malloc(sizeof(*h));

	assert_non_null(h);
	*h = (struct held_pair){ arg, r->sequence };
	return h;
}

static void pairing_sequence(void *request, const struct rec_request *socket, enum join_result why, void *arg)
{
	struct held_pair *h = request;

	assert_in_range(h->to->n, 0, 3);
	h->to->sequences[h->to->n++] = (struct paired){ h->sequence, socket ? socket->h.id : 0, why };
}

static void pairing_socket(const struct rec_request *r, bool alone, enum join_result why, void *arg)
{
	((struct pairing *)arg)->n_sockets++;
}

static void emit_answer(struct sink *s, uint32_t tgid, uint32_t fd, const char *id)
{
	struct rec_request r = { .h = hdr(REC_REQUEST, fd), .http = *id != 0, .family = AF_INET, .writes = 3, .chunks = 2 };

	r.h.tgid = tgid;
	r.read_ns = r.h.start_ns = START + 400;
	r.h.dur_ns = 9700;
	r.first_byte_ns = r.first_chunk_ns = START + 5100;
	r.last_chunk_ns = START + 10100;
	if (*id)
		snprintf(r.answer, sizeof(r.answer), "data: {\"id\":\"%s\",\"object\":\"x\"", id);
	sink_record(s, &r.h, sizeof(r));
}

/* A feed of requests that have these ids, and what becomes of them. */
static struct sink *feed_by_ids(struct handles *names, struct pairing *all, struct fake_sink *fake)
{
	static const struct request_reader_ops reader = { .done = pairing_done, .sequence = pairing_sequence, .socket = pairing_socket };
	struct request_feed *f;

	rec.sockets = true;
	rec.handles = names;
	f = request_feed_new(&rec);
	rec.sockets = false;
	request_feed_add(f, &reader, all);
	return request_feed_sink(f, &fake->sink);
}

/* Two that only their ids tell apart, answered by another process. */
TEST_WITH(test_ids, setup, teardown)
{
	static const struct {
		const char *engine[2], *answers[3];
		int fds[2];   /* of each sequence; 0: none */
		uint32_t api; /* the process that answers */
	} cases[] = {
		{ { "cmpl-a", "cmpl-b" }, { "cmpl-b", "cmpl-a" }, { 8, 7 }, API_PID },
		{ { "cmpl-a-0", "cmpl-b-0-1b2c3d4e" }, { "cmpl-b", "cmpl-a" }, { 8, 7 }, API_PID },
		{ { "0_cmpl-a", "cmpl-b" }, { "cmpl-b", "cmpl-a" }, { 8, 7 }, PID },
		{ { "cmpl-a-0", "cmpl-a-1-0" }, { "cmpl-a-1", "cmpl-a" }, { 8, 7 }, API_PID }, /* the longer one is meant */
		{ { "cmpl-a", "cmpl-ab" }, { "cmpl-a", "mpl-ab" }, { 7, 0 }, API_PID },       /* not a part of another word */
		{ { "0_cmpl-a", "1_cmpl-a" }, { "cmpl-a" }, { 0, 7 }, API_PID },             /* two choices in one answer: the first one */
		{ { "cmpl-a", "cmpl-b" }, { "cmpl-a", "cmpl-a", "cmpl-b" }, { 0, 9 }, API_PID },
		{ { "cmpl-a", "cmpl-b" }, { "cmpl-c", "cmpl-a" }, { 8, 0 }, PID }, /* not by time */
		{ { "cmpl-a", "cmpl-b" }, { "", "cmpl-a" }, { 8, 0 }, PID },       /* nor with a message of another process */
	};
	static const struct rows_step steps[] = {
		{ .number = 0, .start = 1000, .end = 2000, .n = 1, .parts = { { 1002, 0, 9, 1 } } },
		{ .number = 1, .start = 2000, .end = 4000, .n = 2, .parts = { { 1001, 0, 9, 1 }, { 1002, 9, 1, 1 } } },
		{ .number = 2, .start = 5000, .end = 9000, .n = 2, .parts = { { 1001, 9, 1, 1 }, { 1002, 10, 1, 1 } } },
	};

	add_rows_probe();
	probes.specs[0].batch = xcalloc(1, sizeof(struct python_batch));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct handles *names = handles_new(NULL);
		struct fake_sink fake = { .sink.ops = &fake_ops };
		struct pairing all = { .n = 0 };
		struct sink *s;
		size_t n = 0;

		handles_set_recent(names, PID, 1001, cases[i].engine[0]);
		handles_set_recent(names, PID, 1002, cases[i].engine[1]);
		s = feed_by_ids(names, &all, &fake);
		for (size_t k = 0; k < ARRAY_SIZE(steps); k++)
			emit_rows(s, &steps[k]);
		sink_settled(s);
		while (n < 3 && cases[i].answers[n]) {
			emit_answer(s, cases[i].api, 7 + (uint32_t)n, cases[i].answers[n]);
			n++;
		}
		assert_int_equal(sink_close(s, &totals), 0);
		assert_int_equal(all.n, 2);
		for (size_t k = 0; k < 2; k++) {
			const struct paired *p = &all.sequences[k];

			assert_int_equal(p->fd, cases[i].fds[p->sequence - 1001]);
			assert_true((p->why == JOIN_DONE) == (p->fd != 0));
			n -= p->fd != 0;
		}
		assert_int_equal(all.n_sockets, n);
		rec.handles = NULL;
		handles_free(names);
	}
}

/* Its processes exchange many messages while an answer waits for the end of its request in the steps. */
TEST_WITH(test_messages, setup, teardown)
{
	static const struct rows_step steps[] = {
		{ .number = 0, .start = 1000, .end = 4000, .n = 1, .parts = { { 1001, 0, 9, 1 } } },
		{ .number = 1, .start = 5000, .end = 9000, .n = 1, .parts = { { 1001, 9, 1, 1 } } },
	};
	struct handles *names = handles_new(NULL);
	struct fake_sink fake = { .sink.ops = &fake_ops };
	struct pairing all = { .n = 0 };
	struct sink *s;

	add_rows_probe();
	probes.specs[0].batch = xcalloc(1, sizeof(struct python_batch));
	handles_set_recent(names, PID, 1001, "cmpl-a");
	s = feed_by_ids(names, &all, &fake);
	emit_rows(s, &steps[0]);
	sink_settled(s);
	sink_settled(s);
	emit_answer(s, API_PID, 7, "cmpl-a");
	for (int i = 0; i < 2000; i++)
		emit_answer(s, i % 2 ? PID : API_PID, 9, "");
	emit_rows(s, &steps[1]);
	sink_settled(s);
	assert_int_equal(sink_close(s, &totals), 0);
	assert_int_equal(all.n, 1);
	assert_int_equal(all.sequences[0].fd, 7);
	assert_int_equal(all.n_sockets, 2000);
	rec.handles = NULL;
	handles_free(names);
}

/* An answer that its process writes long after the engine has given the last token. */
TEST_WITH(test_late_answer, setup, teardown)
{
	static const struct rows_step steps[] = {
		{ .number = 0, .start = 1000, .end = 4000, .n = 2, .parts = { { 1001, 0, 9, 1 }, { 1002, 0, 9, 1 } } },
		{ .number = 1, .start = 5000, .end = 9000, .n = 2, .parts = { { 1001, 9, 1, 1 }, { 1002, 9, 1, 1 } } },
		{ .number = 2, .start = WAIT + SECOND, .end = WAIT + SECOND + 1000, .n = 1, .parts = { { 1003, 0, 9, 1 } } },
		{ .number = 3, .start = WAIT + 4 * SECOND, .end = WAIT + 4 * SECOND + 1000, .n = 1, .parts = { { 1003, 9, 1, 1 } } },
	};
	struct handles *names = handles_new(NULL);
	struct fake_sink fake = { .sink.ops = &fake_ops };
	struct pairing all = { .n = 0 };
	struct sink *s;

	add_rows_probe();
	probes.specs[0].batch = xcalloc(1, sizeof(struct python_batch));
	handles_set_recent(names, PID, 1001, "cmpl-a");
	handles_set_recent(names, PID, 1002, "cmpl-b");
	s = feed_by_ids(names, &all, &fake);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		emit_rows(s, &steps[i]);
		sink_settled(s);
		if (i == 2)
			emit_answer(s, API_PID, 7, "cmpl-b");
	}
	assert_int_equal(all.n, 1);
	assert_int_equal(all.sequences[0].fd, 7);
	emit_answer(s, API_PID, 8, "cmpl-a");
	assert_int_equal(sink_close(s, &totals), 0);
	assert_int_equal(all.n, 3);
	for (size_t i = 1; i < 3; i++)
		assert_int_equal(all.sequences[i].fd, all.sequences[i].sequence == 1001 ? 8 : 0);
	rec.handles = NULL;
	handles_free(names);
}

RUN_TESTS(NULL, NULL)
