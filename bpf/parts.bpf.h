/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The parts of a step by sequence, from the call that begins it to its record. rows.bpf.h makes them. */
#ifndef INFTRACE_PARTS_BPF_H
#define INFTRACE_PARTS_BPF_H

#include "inftrace.bpf.h"

#define ROW_CHUNK 64	/* rows whose elements are read at once; a power of two */
#define ROW_IDS_SPAN 4096 /* range of addresses of their ids, if these are behind pointers; a power of two */

struct row_parts {
	u32 n, left; /* as in struct rec_step */
	u64 same, rows, ids; /* of a batch that is a list of Python objects: PYTHON_SAME, and how many tokens and requests it has ... */
	u32 scheduler[SCHEDULER_VALUES]; /* ... and what the scheduler said as it was begun */
	struct row_part part[STEP_PARTS_MAX];
};

/* A thread has parts of its step, of the next step while the previous one is still to be sent, and of the call just read,
 * which may be neither. */
enum parts_of {
	PARTS_FRESH,
	PARTS_STEP,
	PARTS_NEXT,
	PARTS_QUEUED, /* those of a batch without results; of the one after it: PARTS_FRESH */
	PARTS_SETS = 4, /* a power of two */
};

#define PYTHON_ITEMS 512 /* of a list that are read */
/* Memory around what is read of objects: they lie close together, and a read costs the same whatever its length. Powers of two; a line
 * is within a page. */
#define PYTHON_LINE 512
#define PYTHON_LINES 16

/* Where an attribute was found the last time. */
struct python_place {
	u64 keys;      /* the names of the object's attributes ... */
	u64 at, name;  /* ... the address of the one that fits, in them, and what is there: the name */
	u64 index;
	u64 option; /* of a hop: whose name it is */
};

/* What a type is. */
struct python_kind_of {
	u64 type, kind;
};

struct python_id {
	u32 tgid, pad;
	u64 hash; /* of the id, as the interpreter has computed it: equal for equal ids of a process, else different */
};

/* A request of a batch. */
struct python_request {
	u64 id; /* address of the object */
	u64 hash, number;
	bool over; /* of the batch whose results are there */
};

/* A walk through Python objects: python_batch.bpf.h. */
struct python_objects {
	u64 entries, n, at; /* of a dict or a set */
	u64 bytes, key;	    /* of an entry: its size, and where the key is */
	u64 values;	    /* the values, if these are not in the entries; else 0 */
	u64 items, items_at, left; /* of a list: how many, at most PYTHON_ITEMS, their address, and how many are to come */
	u64 found_key, found; /* an attribute that was looked for, and its value */
	u64 number_at, number; /* an int that was read: objects of the same value are often one, and never change */
	/* the dict of requests that are not over: its table, the mask of this, bytes of each of its slots, what is in those without an
	 * entry, and the entries. 0: unknown */
	u64 table, mask, width, none, alive;
	u64 alive_bytes, alive_key; /* of the entries, as above */
	u64 alive_at; /* the entry after the one that was found last: requests are in about the same order everywhere */
	u64 next;     /* likewise, the request of the batch, or of the one before it */
	u64 variables;	    /* address of those of the function with the batch */
	u64 first_new;	    /* requests with this number, or a higher one, are first seen in this batch */
	s64 total;	    /* of the batch's tokens, as the engine says */
	u64 gave;	    /* which tokens the step gave is known */
	/* the stack has no room for these: words just read; of a request, the hash of its id, its number, and when it arrived */
	u64 words[2], hash, sequence, arrived;
	u64 lengths, positions; /* items of these lists, next to those of requests; 0: none */
	u64 list;	    /* of the requests of the step in flight */
	u64 unbroken;	    /* when the results of a batch were missed the last time, and when that was as the batch before was read */
	u64 unbroken_before;
	u64 request;	    /* the id of the step's one request; 0: none */
	/* of struct python_values: the call's frame, the value that is read, the object that its hops have led to, a type on the way
	 * to know it by, enum python_kind, and 1 + a variable's number */
	u64 frame, nr, object, type, kind, variable;
	struct python_text text;
	struct python_place places[PYTHON_MEMBERS];
	u64 last, last_keys, last_values; /* the object whose attributes were looked at last, and where they are */
	struct python_kind_of kinds[PYTHON_VALUES_MAX]; /* of values, as they were the last time */
	u64 cell, no_cell; /* a type that is a cell, and the latest one of a variable that is none */
	/* the scheduler whose settings are kept, and for how many steps more */
	u64 kept_of, kept;
	u32 settings[SCHEDULER_VALUES];
	u64 option; /* plus 1: the one whose values are read; several may be of one thread */
	struct python_place hops[PYTHON_VALUES_MAX * PYTHON_HOPS_MAX]; /* likewise, of the attributes that lead to values */
	u64 line[PYTHON_LINES]; /* 1 + its address / PYTHON_LINE; 0: there is none. They are read again for each call of the engine */
	u64 later; /* 1 << place: the one of the two that was filled later is the higher one */
	u64 lines[PYTHON_LINES * PYTHON_LINE / 8 + 1];
};

/* For a thread whose steps have rows: data too large for the stack while rows are read, and for struct thread until
 * the step has ended. */
struct rows {
	u64 array[ROW_COLUMNS];
	u64 is[ROW_COLUMNS];	/* all bits set if there is such an array, else none */
	u64 shift[ROW_COLUMNS]; /* moves an element up to the highest bits */
	u64 n;		  /* the number of rows */
	u64 read;	  /* rows read so far: the number of this one */
	u64 nth, of;	  /* the next sequence of this row, of so many */
	u64 output;	  /* this row has an output */
	u64 outputs, ids; /* so far */
	u64 first;	  /* the first sequence */
	u64 mask;
	u64 in;	      /* 1 << part, for the first 64 parts, of this or the previous row */
	u64 last;     /* sequence of the previous row, if it has only one */
	u64 last_part; /* that sequence's part, or STEP_PARTS_MAX; ROW_PART_NONE: the row has no sequence, or several */
	u64 run;      /* the last two rows have the same sequence, so the next ones may, too */
	u64 have; /* 1 << column: its elements for this chunk of rows are in `ahead`; ROW_HAVE_IDS */
	u64 need; /* likewise: all columns that exist */
	u64 ids_rows; /* rows whose ids are read at once */
	u64 ids_base, ids_span; /* the addresses of those */
	u64 one;      /* a word of counts of sequences that are all 1 */
	u64 node;     /* address of the row's sequence, if further ones are in a list */
	u64 stride[ROW_COLUMNS]; /* of the elements in `ahead` */
	u8 ahead[ROW_COLUMNS][ROW_CHUNK * 8 + 64]; /* + 64: so many bytes may be read from any element */
	union {
		u8 id_ahead[ROW_IDS_SPAN + 8]; /* + 8 likewise */
		struct python_request requests[STEP_PARTS_MAX]; /* of parts that are Python's */
	};
	struct python_objects objects; /* its lines are also where rows are read that are structures */
	u64 round; /* number of this step: older entries of the table do not count */
	u64 id[ROW_IDS];
	u64 id_mark[ROW_IDS]; /* round << 16 | part, or STEP_PARTS_MAX */
	u64 queued; /* batches without results: the last 2 at most */
	u8 set[PARTS_SETS]; /* set[i] ^ i is the index in `parts` of enum parts_of i: so all zero is a permutation, too */
	struct row_parts parts[PARTS_SETS];
	struct rec_step_parts out; /* a step as it is sent */
};
#define ROW_PART_NONE 0xffff
#define ROW_HAVE_IDS (1u << ROW_COLUMNS)

/* Full (no memory): the rows of the step are unknown. */
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

/* Exchanges the sets of `from` and `to`. */
static __always_inline void parts_move(struct rows *r, u32 from, u32 to)
{
	u8 i = r->set[from] ^ from;

	r->set[from] = r->set[to] ^ to ^ from;
	r->set[to] = i ^ to;
}

/* Nothing is known of the step's batch. */
static __always_inline void step_forget(struct thread *t)
{
	t->step.n_parts = t->step.parts_left = 0;
	__builtin_memset(t->step.scheduler, 0, sizeof(t->step.scheduler));
}

/* Makes the parts of the call just read those of the step. r: NULL if the preset describes no rows, or without memory. */
static __always_inline void parts_take(struct thread *t, struct rows *r)
{
	step_forget(t);
	if (!r || !parts_of(r, PARTS_FRESH)->n)
		return;
	parts_move(r, PARTS_FRESH, PARTS_STEP);
	t->step.n_parts = parts_of(r, PARTS_STEP)->n;
	t->step.parts_left = parts_of(r, PARTS_STEP)->left;
}

/* Keeps the parts of the call just read for the next step, since the previous one is still to be sent. */
static __always_inline void parts_take_next(struct rows *r)
{
	if (r)
		parts_move(r, PARTS_FRESH, PARTS_NEXT);
}

/* The previous step has been sent: takes the parts of the next one. */
static __always_inline void parts_next(struct thread *t, struct rows *r)
{
	step_forget(t);
	if (!r)
		return;
	parts_move(r, PARTS_NEXT, PARTS_STEP);
	t->step.n_parts = parts_of(r, PARTS_STEP)->n;
	t->step.parts_left = parts_of(r, PARTS_STEP)->left;
}

/* The parts of a thread's steps in flight. NULL if there are none, or they cannot be reached. */
static __always_inline struct rows *parts_kept(struct thread *t, struct task_struct *task)
{
	return t->step.n_parts || t->step_entered ? bpf_task_storage_get(&rows, task, 0, 0) : NULL;
}

/* Sends the thread's step with its parts by sequence, or without them if they cannot be reached. */
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
