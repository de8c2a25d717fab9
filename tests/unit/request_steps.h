/* SPDX-License-Identifier: BSD-2-Clause */
/* Steps with rows of sequences, as from a preset with "rows" and the BPF programs. */
#ifndef INFTRACE_TEST_REQUEST_STEPS_H
#define INFTRACE_TEST_REQUEST_STEPS_H

#include "sinks.h"

#include "engine/rows.h"

static inline void add_rows_probe(void)
{
	struct probe_spec *s = add_probe("llama_decode", ROLE_STEP, PROBE_F_SPAN, NULL, "s32 *(sp+8),ptr arg1");
	const char *why;

	free(s->args[0].name);
	free(s->args[1].name);
	s->args[0].name = strdup("n_tokens");
	s->args[1].name = strdup("context");
	assert_int_equal(rows_begin(s, "n_tokens", &why), 0);
	assert_int_equal(spec_set_name(s, "n_sequences > 1 ? mixed : n_tokens == 1 ? decode : prefill", &why), 0);
}

struct rows_step {
	uint32_t number;
	uint64_t start, end; /* since the start of the recording */
	uint64_t context;
	uint8_t flags;
	uint32_t n;
	struct row_part parts[STEP_PARTS_MAX]; /* sequence, position, rows, outputs */
};

static inline void emit_rows(struct sink *sink, const struct rows_step *step)
{
	struct rec_step_parts r = { .s = { .h = hdr(REC_STEP, 0), .number = step->number, .n_parts = step->n } };
	uint64_t rows = 0, outputs = 0, mask = 0;

	for (uint32_t i = 0; i < step->n; i++) {
		rows += step->parts[i].rows;
		outputs += step->parts[i].outputs;
		mask |= step->parts[i].sequence < 64 ? UINT64_C(1) << step->parts[i].sequence : 0;
		r.parts[i] = step->parts[i];
	}
	r.s.vals[0] = rows;
	r.s.vals[1] = step->context;
	r.s.vals[2 + ROW_N_OUTPUTS] = outputs;
	r.s.vals[2 + ROW_N_SEQUENCES] = step->n;
	r.s.vals[2 + ROW_ONE_SEQUENCE] = step->n == 1 ? step->parts[0].sequence : ROW_UNKNOWN;
	r.s.vals[2 + ROW_MASK] = step->n == 1 ? 0 : mask;
	r.s.vals[2 + ROW_FIRST_POSITION] = (uint64_t)step->parts[0].position;
	r.s.vals[2 + ROW_READ] = rows;
	r.s.h.start_ns = START + step->start;
	r.s.h.flags = step->flags;
	share_out(&r.s, step->end - step->start);
	sink_record(sink, &r.s.h, sizeof(r.s) + step->n * sizeof(struct row_part));
}

/* Two requests in two slots, in turns, then another one in the first slot. */
static const struct rows_step turns[] = {
	{ .number = 0, .start = 1000, .end = 5000, .n = 1, .parts = { { 0, 0, 16, 1 } } },
	{ .number = 1, .start = 6000, .end = 9000, .n = 1, .parts = { { 3, 0, 8, 0 } } },
	{ .number = 2, .start = 9000, .end = 10000, .n = 1, .parts = { { 0, 16, 1, 1 } } },
	{ .number = 3, .start = 11000, .end = 14001, .n = 1, .parts = { { 3, 8, 4, 1 } } },
	{ .number = 4, .start = 15000, .end = 16000, .n = 1, .parts = { { 0, 17, 1, 1 } } },
	{ .number = 5, .start = 16000, .end = 17000, .n = 1, .parts = { { 3, 12, 1, 1 } } },
	{ .number = 6, .start = 17000, .end = 20000, .n = 1, .parts = { { 0, 0, 5, 1 } } },
};

/* Three requests in one batch: the prompt of the second delays the first one's decodes. */
static const struct rows_step together[] = {
	{ .number = 0, .start = 1000, .end = 5000, .context = 8, .n = 1, .parts = { { 0, 0, 16, 1 } } },
	{ .number = 1, .start = 6000, .end = 16000, .context = 8, .n = 2, .parts = { { 0, 16, 1, 1 }, { 5, 0, 7, 0 } } },
	{ .number = 2, .start = 16000, .end = 26000, .context = 8, .n = 2, .parts = { { 0, 17, 1, 1 }, { 5, 7, 4, 1 } } },
	{ .number = 3, .start = 27000, .end = 29000, .context = 8, .n = 1, .parts = { { 5, 11, 1, 1 } } },
	{ .number = 4, .start = 30000, .end = 32000, .context = 8, .n = 2, .parts = { { 5, 12, 1, 1 }, { 0, 0, 1, 1 } } },
};

/* Parts of any sequences, mostly of a few. */
static inline void draw_parts(struct rows_step *s)
{
	for (uint32_t k = 0; k < s->n; k++) {
		s->parts[k] = (struct row_part){
			.sequence = draw() % 4 ? draw() % 4 : draw(),
			.position = draw() % 3 ? (int64_t)(draw() % 8) : (int64_t)draw(),
			.rows = (uint32_t)(draw() % 2 ? 1 : draw() % 64),
			.outputs = (uint32_t)(draw() % 16 ? draw() % 3 : draw()),
		};
	}
}

#endif
