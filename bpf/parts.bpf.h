/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a step has of each sequence, from the call that begins it to the record that tells of it. rows.bpf.h makes it.
 */
#ifndef INFTRACE_PARTS_BPF_H
#define INFTRACE_PARTS_BPF_H

#include "inftrace.bpf.h"

#define ROW_CHUNK 64	/* rows whose elements are read at once; a power of two, and so is ... */
#define ROW_IDS_SPAN 4096 /* ... this: where their ids lie, if those are behind pointers */

/* What a step has of each sequence. */
struct row_parts {
	u32 n, left; /* as in struct rec_step */
	struct row_part part[STEP_PARTS_MAX];
};

/* A thread has those of its step, of the step behind that while the one before is still to be sent, and of the call that
 * has just been looked at, which may be neither. */
enum parts_of {
	PARTS_FRESH,
	PARTS_STEP,
	PARTS_NEXT,
	PARTS_SETS = 4, /* a power of two */
};

/* Of a thread whose steps have rows: what is too large for the stack while they are looked at, and for struct thread
 * until the step has ended. */
struct rows {
	u64 array[ROW_COLUMNS];
	u64 is[ROW_COLUMNS];	/* all bits where there is such an array, else none */
	u64 shift[ROW_COLUMNS]; /* moves an element up to the highest bits */
	u64 n;		  /* rows that there are */
	u64 read;	  /* of them; all before this one */
	u64 nth, of;	  /* sequence of this row that is next, of how many */
	u64 output;	  /* this row has one */
	u64 outputs, ids; /* so far */
	u64 first;	  /* sequence */
	u64 mask;
	u64 in;	      /* 1 << part that this row, or the one before it, belongs to */
	u64 last;     /* sequence of the row before, if it has but one */
	u64 last_part; /* which has this part, or STEP_PARTS_MAX; ROW_PART_NONE: it has none or several */
	u64 run;      /* and so has the row before that: those that follow may, too */
	u64 have; /* 1 << column: its elements of this chunk of rows are in ahead; ROW_HAVE_IDS */
	u64 need; /* those that there are at all */
	u64 ids_rows; /* so many rows have their ids read at once */
	u64 ids_base, ids_span; /* where those lie */
	u64 one;      /* word of counts of sequences that are all 1 */
	u8 ahead[ROW_COLUMNS][ROW_CHUNK * 8 + 64]; /* 64 bytes may be taken from any of the first */
	u8 id_ahead[ROW_IDS_SPAN + 8]; /* 8 likewise */
	u64 round; /* of this step: what is older in the table is as if it were not there */
	u64 id[ROW_IDS];
	u64 id_mark[ROW_IDS]; /* round << 8 | part, or STEP_PARTS_MAX */
	u8 set[PARTS_SETS]; /* which of the parts is whose: set[i] ^ i, so that all zero is a permutation, too */
	struct row_parts parts[PARTS_SETS];
	struct rec_step_parts out; /* a step as it is sent */
};
#define ROW_PART_NONE 0xff
#define ROW_HAVE_IDS (1u << ROW_COLUMNS)

/* Full (no memory): the rows of the step are not known. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rows);
} rows __weak SEC(".maps");

static __always_inline struct row_parts *parts_of(struct rows *r, u32 whose)
{
	u32 i = r->set[whose & (PARTS_SETS - 1)] ^ whose;

	barrier_var(i);
	return &r->parts[i & (PARTS_SETS - 1)];
}

/* What was `from`'s is `to`'s now, and the other way round. */
static __always_inline void parts_move(struct rows *r, u32 from, u32 to)
{
	u8 i = r->set[from] ^ from;

	r->set[from] = r->set[to] ^ to ^ from;
	r->set[to] = i ^ to;
}

/* The call that has just been looked at is a step. r: NULL where its preset describes no rows, or without memory. */
static __always_inline void parts_take(struct thread *t, struct rows *r)
{
	t->step.n_parts = t->step.parts_left = 0;
	if (!r || !parts_of(r, PARTS_FRESH)->n)
		return;
	parts_move(r, PARTS_FRESH, PARTS_STEP);
	t->step.n_parts = parts_of(r, PARTS_STEP)->n;
	t->step.parts_left = parts_of(r, PARTS_STEP)->left;
}

/* It is one that comes behind a step which is still to be sent ... */
static __always_inline void parts_take_next(struct rows *r)
{
	if (r)
		parts_move(r, PARTS_FRESH, PARTS_NEXT);
}

/* ... and was. */
static __always_inline void parts_next(struct thread *t, struct rows *r)
{
	t->step.n_parts = t->step.parts_left = 0;
	if (!r)
		return;
	parts_move(r, PARTS_NEXT, PARTS_STEP);
	t->step.n_parts = parts_of(r, PARTS_STEP)->n;
	t->step.parts_left = parts_of(r, PARTS_STEP)->left;
}

/* Those of the steps that a thread has in flight. NULL where there are none, or they are out of reach. */
static __always_inline struct rows *parts_kept(struct thread *t, struct task_struct *task)
{
	return t->step.n_parts || t->step_entered ? bpf_task_storage_get(&rows, task, 0, 0) : NULL;
}

/* The thread's step with what it has of each sequence; without, where that is out of reach. */
__weak __noinline int step_emit(struct thread *t, struct rows *r)
{
	struct row_parts *parts;
	u64 n;

	if (!t)
		return 0;
	n = r ? t->step.n_parts : 0;
	if (!n || n > STEP_PARTS_MAX)
		goto bare;
	parts = parts_of(r, PARTS_STEP);
	barrier_var(n); /* see rows_ahead() */
	if (n > STEP_PARTS_MAX)
		goto bare;
	if (bpf_probe_read_kernel(&r->out.s, sizeof(r->out.s), &t->step) ||
		bpf_probe_read_kernel(r->out.parts, n * sizeof(struct row_part), parts->part))
		goto bare;
	emit_step(&r->out, sizeof(r->out.s) + n * sizeof(struct row_part));
	return 0;
bare:
	t->step.n_parts = t->step.parts_left = 0;
	emit_step(&t->step, sizeof(t->step));
	return 0;
}

#endif
