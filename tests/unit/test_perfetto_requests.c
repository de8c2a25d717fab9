// SPDX-License-Identifier: BSD-2-Clause
/* The Perfetto trace: the process `requests`, from steps with rows. */
#include "pftrace.h"
#include "request_steps.h"

#include "format/request_track.h"

static const char *track_name(const struct reader *r, uint64_t uuid)
{
	for (size_t i = 0; i < r->n_tracks; i++) {
		if (r->tracks[i].uuid == uuid)
			return r->tracks[i].name;
	}
	return "";
}

/* Writes the events of a track or counter as text, sorted by time: "1000 +request 1", "5000 -", "5000 =3". */
static void put_track(const struct reader *r, const char *name, char *text, size_t size)
{
	size_t len = 0;

	*text = 0;
	for (size_t i = 0; i < r->n; i++) {
		const struct seen *e = &r->events[i];

		if (strcmp(track_name(r, e->track), name) || (e->type != 4 && e->type != 2 && strcmp(e->category_text, "batch")))
			continue;
		len += (size_t)snprintf(text + len, size - len, "%s%llu %s%s", len ? ", " : "",
			(unsigned long long)(e->ns - START),
			e->type == 1 ? "+" : e->type == 2 ? "-"
				     : e->type == 3       ? "!"
							  : "=",
			e->type == 4 ? "" : e->text);
		assert_true(len < size);
	}
}

static void assert_track_is(const struct reader *r, const char *name, const char *want)
{
	char text[4096];

	put_track(r, name, text, sizeof(text));
	assert_string_equal(text, want);
}

TEST_WITH(test_slices, setup, teardown)
{
	struct reader *r;
	struct out o;

	add_rows_probe();
	perfetto_open(&o);
	for (size_t i = 0; i < ARRAY_SIZE(turns); i++) {
		emit_rows(o.s, &turns[i]);
		sink_settled(o.s);
	}
	r = perfetto_read(&o);
	assert_track_is(r, "slot 0",
		"1000 +request 1, 1000 +prefill, 1000 !first step, 5000 -, 5000 +decode, 5000 !first token, "
		"15999 !last step, 16000 -, 16000 -, "
		"17000 +request 3, 17000 +prefill, 17000 !first step, 19999 !first token, 20000 -, 20000 -");
	assert_track_is(r, "slot 3",
		"6000 +request 2, 6000 +prefill, 6000 !first step, 14001 -, 14001 +decode, 14001 !first token, "
		"16999 !last step, 17000 -, 17000 -");
	assert_track_is(r, "active requests", "1000 =, 6000 =, 16000 =, 20000 =");
	reader_free(r);
}

TEST_WITH(test_together, setup, teardown)
{
	struct reader *r;
	struct out o;

	add_rows_probe();
	perfetto_open(&o);
	for (size_t i = 0; i < ARRAY_SIZE(together); i++)
		emit_rows(o.s, &together[i]);
	r = perfetto_read(&o);
	assert_track_is(r, "slot 0",
		"1000 +request 1, 1000 +prefill, 1000 !first step, 5000 -, 5000 +decode, 5000 !first token, "
		"25999 !last step, 26000 -, 26000 -, "
		"30000 +request 3, 30000 +prefill, 30000 !first step, 31999 !first token, 32000 -, 32000 -");
	assert_track_is(r, "slot 5",
		"6000 +request 2, 6000 +prefill, 6000 !first step, 26000 -, 26000 +decode, 26000 !first token, "
		"31999 !last step, 32000 -, 32000 -");
	assert_track_is(r, "active requests", "1000 =, 6000 =, 26000 =, 30000 =, 32000 =");
	reader_free(r);
}

/* Each flow begins within a step's slice on the track `steps`, and ends on the track of its slot. */
TEST_WITH(test_flows, setup, teardown)
{
	size_t begins = 0, ends = 0;
	struct reader *r;
	struct out o;

	add_rows_probe();
	perfetto_open(&o);
	for (size_t i = 0; i < ARRAY_SIZE(turns); i++)
		emit_rows(o.s, &turns[i]);
	r = perfetto_read(&o);
	for (size_t i = 0; i < r->n; i++) {
		const struct seen *e = &r->events[i];

		if (e->flow_begin) {
			begins++;
			assert_string_equal(track_name(r, e->track), "steps");
			for (size_t k = 0; k < r->n; k++) {
				if (r->events[k].flow_end != e->flow_begin)
					continue;
				ends++;
				assert_memory_equal(track_name(r, r->events[k].track), "slot ", 5);
				assert_in_range(r->events[k].ns, e->ns, e->ns + 1);
				assert_string_equal(r->events[k].text, e->text);
			}
		}
	}
	assert_int_equal(begins, 8);
	assert_int_equal(ends, 8);
	reader_free(r);
}

/* Slices of a track nest or follow each other, also where those of one file end in the next. */
TEST_WITH(test_rotated, setup, teardown)
{
	struct reader *r;
	struct out o;

	add_rows_probe();
	perfetto_open(&o);
	for (size_t i = 0; i < 4; i++)
		emit_rows(o.s, &turns[i]);
	for (int i = 0; i < 3; i++)
		sink_settled(o.s);
	r = perfetto_rotate(&o);
	assert_track_is(r, "slot 0", "");
	assert_track_is(r, "batch size",
		"1000 =, 5000 =, 6000 =, 9000 =, 9000 =, 10000 =, 11000 =, 14001 =");
	reader_free(r);
	for (size_t i = 4; i < ARRAY_SIZE(turns); i++)
		emit_rows(o.s, &turns[i]);
	r = perfetto_read(&o);
	assert_track_is(r, "slot 3", "6000 +request 2, 6000 +prefill, 14001 -, 14001 +decode, 16999 !last step, 17000 -, 17000 -");
	reader_free(r);
}

/* Any sequences and contexts: no event without a track, slices have ends, and the number of names is bounded by the program. */
TEST_WITH(test_hostile, setup, teardown)
{
	static int64_t depth[2 * REQUEST_ROWS];
	uint64_t now = 0, slices = 0;
	struct reader *r;
	struct out o;

	add_rows_probe();
	perfetto_open(&o);
	for (uint32_t i = 0; i < 2000; i++) {
		struct rows_step s = { .number = i, .start = now, .n = 1 + (uint32_t)(draw() % 6), .context = draw() % 3 ? 1 : draw() % 7 };

		now += draw() % 10 ? draw() % 1000 : 0;
		s.end = now;
		draw_parts(&s);
		emit_rows(o.s, &s);
		if (draw() % 16 == 0)
			sink_settled(o.s);
	}
	r = perfetto_read(&o);
	for (size_t i = 0; i < r->n; i++) {
		const struct seen *e = &r->events[i];

		assert_in_range(e->track, 1, ARRAY_SIZE(depth) - 1);
		if (e->type == 1 && !strcmp(e->category_text, "batch"))
			slices++;
		depth[e->track] += e->type == 1 ? 1 : e->type == 2 ? -1
								   : 0;
		assert_true(depth[e->track] >= 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(depth); i++)
		assert_int_equal(depth[i], 0);
	assert_true(slices > 1000);
	reader_free(r);
}

RUN_TESTS(NULL, NULL)
