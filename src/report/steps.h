/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steps of a process, kept by column: each number takes as many bytes as the largest value of its
 * column needs, and none if all are equal. A step takes some 60 bytes, where struct step has 550.
 */
#ifndef INFTRACE_REPORT_STEPS_H
#define INFTRACE_REPORT_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe.h"

/* The states of record.h, then one for names that this version does not know. */
#define STATE_OTHER ST_MAX
#define STATES (ST_MAX + 1)
#define STATE_NONE STATES

/* An interval in which a thread did not run. */
struct stall_info {
	int64_t ns, late;    /* late: from the wake-up to running */
	uint32_t by, by_tid; /* who ran instead, or who woke it */
	uint8_t state;       /* STATE_NONE: none */
};

struct step {
	int64_t ts; /* from the start of the recording */
	int64_t at; /* on the process' time axis, which joins its recordings. Set by model_finish */
	int64_t total;
	int64_t gap; /* since the previous step in its lane; -1: none. Set by model_finish */
	int64_t own[STATES], workers[STATES], workers_total;
	struct stall_info stall;     /* the longest one of the calling thread */
	struct stall_info straggler; /* of the thread that it waited for */
	int64_t held;                /* its longest wait at a barrier, for straggler_tid */
	uint32_t straggler_tid, straggler_comm;
	uint32_t number, tid, n_tokens, phase;
	uint32_t recording; /* counted from 0 over all files */
	uint32_t lane;      /* steps of one lane are consecutive. Set by model_finish */
	uint64_t context;   /* of the engine; 0: unknown */
	uint32_t syscalls, faults_minor, faults_major, lost;
	uint32_t n_workers, cpus_allowed; /* 0: unknown */
	int64_t cpu_limit;                /* in thousandths of a CPU; 0: none, or unknown */
	uint32_t behind; /* index into the process' behind: own rows, then the workers'; longest first */
	uint8_t n_behind, n_workers_behind;
	uint32_t ops, n_ops;       /* index into the process' step_ops */
	uint32_t typical;          /* index into the process' typicals. Set by typical_find */
	uint64_t rows[ROW_VALUES]; /* 1 + what is known of its rows (docs/engines.md); 0: unknown */
	uint32_t left_out; /* 1 << enum shed_part: by --budget; without barriers their time is in that of the CPU */
	bool unfinished, began_before;
	uint32_t stand_in; /* the function, if it stands in for the engine's step; 0: it does not. Kept only as a count of the process */
	int64_t tracer; /* its cost according to the recorder; -1: unknown. Kept only as a sum of the process */
};

/* The columns: F(name, member) for each number of struct step, A(name, member, n) for n of them in
 * an array. */
#define STEP_FIELDS(F, A)                     \
	F(TS, ts)                             \
	F(AT, at)                             \
	F(TOTAL, total)                       \
	F(GAP, gap)                           \
	A(OWN, own, STATES)                   \
	A(WORKERS, workers, STATES)           \
	F(WORKERS_TOTAL, workers_total)       \
	F(STALL_NS, stall.ns)                 \
	F(STALL_LATE, stall.late)             \
	F(STALL_BY, stall.by)                 \
	F(STALL_BY_TID, stall.by_tid)         \
	F(STALL_STATE, stall.state)           \
	F(STRAGGLER_NS, straggler.ns)         \
	F(STRAGGLER_LATE, straggler.late)     \
	F(STRAGGLER_BY, straggler.by)         \
	F(STRAGGLER_BY_TID, straggler.by_tid) \
	F(STRAGGLER_STATE, straggler.state)   \
	F(HELD, held)                         \
	F(STRAGGLER_TID, straggler_tid)       \
	F(STRAGGLER_COMM, straggler_comm)     \
	F(NUMBER, number)                     \
	F(TID, tid)                           \
	F(N_TOKENS, n_tokens)                 \
	F(PHASE, phase)                       \
	F(RECORDING, recording)               \
	F(LANE, lane)                         \
	F(CONTEXT, context)                   \
	F(SYSCALLS, syscalls)                 \
	F(FAULTS_MINOR, faults_minor)         \
	F(FAULTS_MAJOR, faults_major)         \
	F(LOST, lost)                         \
	F(N_WORKERS, n_workers)               \
	F(CPUS_ALLOWED, cpus_allowed)         \
	F(CPU_LIMIT, cpu_limit)               \
	F(BEHIND, behind)                     \
	F(N_BEHIND, n_behind)                 \
	F(N_WORKERS_BEHIND, n_workers_behind) \
	F(OPS, ops)                           \
	F(N_OPS, n_ops)                       \
	F(TYPICAL, typical)                   \
	A(ROWS, rows, ROW_VALUES)             \
	F(LEFT_OUT, left_out)                 \
	F(UNFINISHED, unfinished)             \
	F(BEGAN_BEFORE, began_before)

#define STEP_COLUMN(name, member) STEP_##name,
#define STEP_COLUMN_ARRAY(name, member, n) STEP_##name, STEP_##name##_LAST = STEP_##name + (n)-1,
enum step_column { STEP_FIELDS(STEP_COLUMN, STEP_COLUMN_ARRAY) STEP_COLUMNS };

struct column {
	void *values;
	int64_t same;  /* width 0: the value of all steps */
	uint8_t width; /* bytes of each value, which is signed */
};

struct steps {
	struct column columns[STEP_COLUMNS];
	size_t len, size;
	struct step first;          /* holds the values that all steps share */
	uint8_t wide[STEP_COLUMNS]; /* the columns that have values */
	size_t n_wide;
};

void steps_free(struct steps *s);

/* These return 0 or -ENOMEM, after which only steps_free may follow. */
int steps_add(struct steps *s, const struct step *step);
int steps_set(struct steps *s, size_t i, enum step_column column, int64_t value);
/* Sorts the steps according to `order`. */
int steps_reorder(struct steps *s, const uint32_t *order);

static inline int64_t steps_get(const struct steps *s, size_t i, enum step_column column)
{
	const struct column *c = &s->columns[column];

	switch (c->width) {
	case 0:
		return c->same;
	case 1:
		return ((const int8_t *)c->values)[i];
	case 2:
		return ((const int16_t *)c->values)[i];
	case 4:
		return ((const int32_t *)c->values)[i];
	default:
		return ((const int64_t *)c->values)[i];
	}
}

static inline bool steps_all_zero(const struct steps *s, enum step_column column)
{
	return !s->columns[column].width && !s->columns[column].same;
}

/* A whole step. */
struct step steps_load(const struct steps *s, size_t i);

#endif
