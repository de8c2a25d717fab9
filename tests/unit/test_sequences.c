// SPDX-License-Identifier: BSD-2-Clause
/* Calls that change the life of sequences, as llama.cpp's preset describes them. */
#include "engine/engine.h"
#include "engine/sequences.h"
#include "unit.h"
#include "util/clock.h"

#define PID 100
#define ALL ((uint64_t)-1)

static struct probe_table probes;
static struct shown_contexts memories;

static int setup(void **state)
{
	probes = (struct probe_table){};
	memories = (struct shown_contexts){};
	return engine_load_file(&probes, "engines/llama.cpp.json");
}

static int teardown(void **state)
{
	probe_table_free(&probes);
	return 0;
}

/* A call with these arguments. */
static bool call(const char *symbol, const uint64_t *vals, struct sequence_change *ret)
{
	struct rec_function r = { .h = { .tgid = PID, .tid = PID + 1, .kind = REC_FUNCTION, .start_ns = 7 } };

	for (size_t i = 0; i < probes.n; i++) {
		if (!strcmp(probes.specs[i].symbol, symbol))
			r.h.id = (uint32_t)i;
	}
	assert_string_equal(probes.specs[r.h.id].symbol, symbol);
	memcpy(r.vals, vals, probes.specs[r.h.id].nargs * sizeof(*vals));
	return sequence_change_of(&memories, &probes, &r, ret);
}

TEST_WITH(test_changes, setup, teardown)
{
	static const struct {
		const char *symbol;
		uint64_t vals[5];
		struct sequence_change want;
	} cases[] = {
		{ "llama_memory_seq_rm", { 0xa, 3, 5, 9 },
			{ SEQUENCE_REMOVE, .memory = 0xa, .sequence = 3, .from = 5, .to = 9 } },
		{ "llama_memory_seq_rm", { 0xa, 3, ALL, ALL },
			{ SEQUENCE_REMOVE, .memory = 0xa, .sequence = 3, .from = 0, .to = INT64_MAX } },
		{ "llama_memory_seq_rm", { 0xa, ALL, 5, ALL },
			{ SEQUENCE_REMOVE, .memory = 0xa, .every = true, .sequence = ALL, .from = 5, .to = INT64_MAX } },
		{ "llama_kv_self_seq_rm", { 0xc, 0, 0, 1 },
			{ SEQUENCE_REMOVE, .context = 0xc, .sequence = 0, .from = 0, .to = 1 } },
		{ "llama_kv_cache_seq_rm", { 0xc, 0, 0, 1 },
			{ SEQUENCE_REMOVE, .context = 0xc, .sequence = 0, .from = 0, .to = 1 } },
		{ "llama_memory_seq_cp", { 0xa, 1, 2, ALL, ALL },
			{ SEQUENCE_COPY, .memory = 0xa, .source = 1, .sequence = 2, .from = 0, .to = INT64_MAX } },
		{ "llama_memory_seq_keep", { 0xa, 4 },
			{ SEQUENCE_KEEP, .memory = 0xa, .sequence = 4, .from = 0, .to = INT64_MAX } },
		{ "llama_memory_seq_add", { 0xa, 4, 16, 32, (uint64_t)-16 },
			{ SEQUENCE_SHIFT, .memory = 0xa, .sequence = 4, .from = 16, .to = 32, .by = -16 } },
		{ "_ZN19server_context_impl21launch_slot_with_taskER11server_slotO11server_task", { 0xc, 0xd, 2, 17 },
			{ SEQUENCE_PLACE, .context = 0xc, .draft = 0xd, .sequence = 2, .request = 18, .to = INT64_MAX } },
		{ "_ZNK11server_slot9can_splitEv", { 0xc, 2, 9 },
			{ SEQUENCE_BEGIN, .context = 0xc, .sequence = 2, .to = INT64_MAX, .said_ns = 9000 } },
		{ "_ZN19server_context_impl13process_tokenER23completion_token_outputR11server_slot", { 0xc, 2, INT64_MAX },
			{ SEQUENCE_TOKEN, .context = 0xc, .sequence = 2, .to = INT64_MAX } },
		{ "_ZN11server_slot7releaseEv", { 0xc, 2 }, { SEQUENCE_END, .context = 0xc, .sequence = 2, .to = INT64_MAX } },
		{ "llama_memory_clear", { 0xa },
			{ SEQUENCE_CLEAR, .memory = 0xa, .every = true, .from = 0, .to = INT64_MAX } },
		{ "llama_kv_cache_clear", { 0xc },
			{ SEQUENCE_CLEAR, .context = 0xc, .every = true, .from = 0, .to = INT64_MAX } },
	};

	uint64_t suspended = (uint64_t)clock_boot_offset_ns(&(struct clock_shift){ 0 });

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sequence_change got = {}, want = cases[i].want;

		want.at_ns = 7;
		want.tgid = PID;
		want.tid = PID + 1;
		assert_true(call(cases[i].symbol, cases[i].vals, &got));
		if (got.what != want.what || got.at_ns != want.at_ns || got.tgid != want.tgid || got.tid != want.tid ||
			got.context != want.context || got.memory != want.memory || got.every != want.every ||
			got.sequence != want.sequence || got.source != want.source || got.from != want.from ||
			got.to != want.to || got.by != want.by || got.request != want.request || got.draft != want.draft ||
			(got.said_ns != want.said_ns && got.said_ns - want.said_ns != suspended))
			fail_msg("case %zu, %s", i, cases[i].symbol);
	}
}

/* By the last result of llama_get_memory(). */
TEST_WITH(test_context, setup, teardown)
{
	struct sequence_change a, b, c;

	assert_true(call("llama_memory_seq_rm", (uint64_t[]){ 0x10, 1, 0, 0 }, &a));
	assert_true(call("llama_memory_seq_rm", (uint64_t[]){ 0x20, 1, 0, 0 }, &b));
	assert_true(call("llama_kv_self_seq_rm", (uint64_t[]){ 0xc3, 1, 0, 0 }, &c));
	assert_int_equal(sequence_context(&memories, &a), 0);
	assert_int_equal(sequence_context(&memories, &c), 0xc3);
	assert_false(call("llama_get_memory", (uint64_t[]){ 0xc1, 0x10 }, &c));
	assert_false(call("llama_get_memory", (uint64_t[]){ 0xc2, 0x20 }, &c));
	assert_int_equal(sequence_context(&memories, &a), 0xc1);
	assert_int_equal(sequence_context(&memories, &b), 0xc2);
	a.tgid++;
	assert_int_equal(sequence_context(&memories, &a), 0);
	call("llama_get_memory", (uint64_t[]){ 0xc4, 0x20 }, &c);
	assert_int_equal(sequence_context(&memories, &b), 0xc4);
	/* more than are kept */
	for (uint64_t i = 1; i < 1000; i++)
		call("llama_get_memory", (uint64_t[]){ 0xc5, 0x1000 * i }, &c);
	assert_int_equal(sequence_context(&memories, &b), 0);
	b.memory = 0x1000 * 999;
	assert_int_equal(sequence_context(&memories, &b), 0xc5);
}

/* The steps of a draft model's context get its name as soon as it is known. */
TEST_WITH(test_drafts, setup, teardown)
{
	struct rec_step r = { .h = { .tgid = PID } }, copy;
	struct shown_contexts d = {};
	struct rec_function place = { .h = { .tgid = PID } };
	const struct rec_step *marked;

	for (size_t i = 0; i < probes.n; i++) {
		if (!strcmp(probes.specs[i].symbol, "llama_process"))
			r.h.id = (uint32_t)i;
		if (strstr(probes.specs[i].symbol, "launch_slot_with_task"))
			place.h.id = (uint32_t)i;
	}
	r.vals[0] = 1;
	r.vals[1] = 0xd;
	r.vals[2] = 1;
	copy = r;
	assert_ptr_equal(drafts_mark(&d, &probes.specs[r.h.id], &r, sizeof(r)), &r);
	memcpy(place.vals, (uint64_t[]){ 0xc, 0, 2, 17 }, 32);
	drafts_learn(&d, &probes.specs[place.h.id], &place); /* a server without one */
	assert_ptr_equal(drafts_mark(&d, &probes.specs[r.h.id], &r, sizeof(r)), &r);
	memcpy(place.vals, (uint64_t[]){ 0xc, 0xd, 2, 17 }, 32);
	drafts_learn(&d, &probes.specs[place.h.id], &place);
	drafts_learn(&d, &probes.specs[place.h.id], &place);
	assert_int_equal(d.n, 1);
	marked = drafts_mark(&d, &probes.specs[r.h.id], &r, sizeof(r));
	assert_string_equal(probe_spec_name(&probes.specs[r.h.id], marked->vals), "draft");
	assert_memory_equal(&r, &copy, sizeof(r));
	r.h.tgid++;
	assert_ptr_equal(drafts_mark(&d, &probes.specs[r.h.id], &r, sizeof(r)), &r);
	r.h.tgid--;
	r.vals[1] = 0xc;
	assert_ptr_equal(drafts_mark(&d, &probes.specs[r.h.id], &r, sizeof(r)), &r);
	for (uint64_t i = 0; i < 1000; i++)
		drafts_add(&d, PID, 0x1000 + i);
	assert_int_equal(d.n, SHOWN_CONTEXTS_MAX);
	assert_true(drafts_have(&d, PID, 0x1000 + 999) && !drafts_have(&d, PID, 0xd));
}

/* What threads have read and pass on. */
TEST_WITH(test_received, setup, teardown)
{
	struct rec_function r = { .h = { .tgid = PID } };
	uint64_t request = 0;

	while (strcmp(probes.specs[r.h.id].symbol, "_ZN12server_queue4postEOSt6vectorI11server_taskSaIS1_EEb"))
		r.h.id++;
	r.vals[0] = 5;
	assert_true(sequence_received(&probes, &r, &request));
	assert_int_equal(request, 6);
	r.vals[0] = (uint64_t)-1;
	assert_false(sequence_received(&probes, &r, &request));
	r.h.id = 0;
	assert_false(sequence_received(&probes, &r, &request));
}

/* A call that is no change, and one without a sequence. */
TEST_WITH(test_none, setup, teardown)
{
	struct rec_function r = {};
	struct sequence_change c;
	size_t i = 0;

	while (strcmp(probes.specs[i].symbol, "llama_sampler_sample"))
		i++;
	r.h.id = (uint32_t)i;
	assert_false(sequence_change_of(&memories, &probes, &r, &c));
	for (i = 0; strcmp(probes.specs[i].symbol, "llama_memory_seq_rm"); i++)
		;
	r.h.id = (uint32_t)i;
	assert_true(sequence_change_of(&memories, &probes, &r, &c));
	probes.specs[i].misfits = 1 << 1;
	assert_false(sequence_change_of(&memories, &probes, &r, &c));
	probes.specs[i].misfits = 0;
}

RUN_TESTS(NULL, NULL)
