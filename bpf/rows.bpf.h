/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The rows of a step, see struct row_fetch: how many sequences they belong to, and how many have an
 * output. Part of functions.bpf.c. Arrays are the engine's, and may be anything: what cannot be read ends
 * the reading, and ROW_READ says where.
 */
#ifndef INFTRACE_ROWS_BPF_H
#define INFTRACE_ROWS_BPF_H

#define ROW_TRIES 16 /* places of the table that an id may be in */

/* Reads the elements of the rows that come next, since one read costs as much as another. */
static __noinline int rows_ahead(struct rows *r, const struct probe *p)
{
	u64 left = r->n - r->read;
	u32 rows = left < ROW_CHUNK ? left : ROW_CHUNK;

	r->have = 0;
	for (u32 i = 0; i < ROW_COLUMNS; i++) {
		const struct row_fetch *f = &p->row[i];
		u32 stride = f->stride, size = f->loads > 1 ? 8 : f->size;
		u64 len = (u64)rows * stride; /* the verifier of 6.1 loses the bounds of 32 bits */

		if (!r->array[i] || i == ROW_POSITION || stride > 8 || size > stride)
			continue;
		barrier_var(len);
		if (len > ROW_CHUNK * 8)
			continue;
		if (!bpf_probe_read_user(r->ahead[i], len, (void *)(r->array[i] + f->off[0] + r->read * stride)))
			r->have |= 1 << i;
	}
	return 0;
}

/* The value of the present row in a column, number `nth` of those that lie side by side there. Returns 0 or
 * an error. */
static __noinline long row_value(struct rows *r, const struct probe *p, u32 column, u64 nth, u64 *ret)
{
	const struct row_fetch *f;
	u64 at, v = 0;
	u32 size, ahead;

	if (column >= ROW_COLUMNS)
		return -1;
	f = &p->row[column];
	size = f->size;
	at = r->array[column] + f->off[0] + r->read * f->stride;
	if (r->have & 1 << column) {
		ahead = (r->read & (ROW_CHUNK - 1)) * f->stride;
		barrier_var(ahead);
		ahead &= ROW_CHUNK * 8 - 1;
		__builtin_memcpy(&v, &r->ahead[column][ahead], sizeof(v));
		if (f->loads <= 1 && !nth) {
			*ret = extend(v, size, f->flags & FETCH_F_SIGNED);
			return 0;
		}
	}
	if (f->loads > 1) {
		if (!(r->have & 1 << column) && bpf_probe_read_user(&v, sizeof(v), (void *)at))
			return -1;
		at = v + f->off[1];
	}
	if (size > sizeof(v))
		size = sizeof(v);
	v = 0;
	if (bpf_probe_read_user(&v, size, (void *)(at + nth * size))) /* little endian */
		return -1;
	*ret = extend(v, size, f->flags & FETCH_F_SIGNED);
	return 0;
}

/* Returns whether there was room for it: only then is the number of different ones known. */
static __always_inline bool row_id(struct rows *r, u64 id)
{
	u32 place = (u32)(id * 0x9e3779b97f4a7c15ull >> 32);

	for (u32 i = 0; i < ROW_TRIES; i++) {
		u32 at = place + i;

		barrier_var(at);
		at &= ROW_IDS - 1;
		if (r->id_round[at] == r->round) {
			if (r->id[at] == id)
				return 1;
			continue;
		}
		r->id_round[at] = r->round;
		r->id[at] = id;
		if (!r->ids++)
			r->first = id;
		if (id > 63)
			r->mask = 0;
		else if (r->mask || r->ids == 1)
			r->mask |= 1ull << id;
		return 1;
	}
	return 0;
}

struct row_walk {
	struct rows *r;
	const struct probe *p;
};

/* One sequence of one row, and with the last of them the row's output. */
static long row_next(u32 nr, struct row_walk *w)
{
	const struct probe *p = w->p;
	struct rows *r = w->r;
	u64 v = 0;

	if (r->read >= r->n)
		return 1;
	if (!r->nth) {
		if (!(r->read & (ROW_CHUNK - 1)))
			rows_ahead(r, p);
		r->of = !!r->array[ROW_SEQUENCE];
		if (r->array[ROW_SEQUENCES] && r->array[ROW_SEQUENCE] &&
			row_value(r, p, ROW_SEQUENCES, 0, &r->of))
			return 1;
		if (r->of > ROW_IDS)
			return 1;
	}
	if (r->nth < r->of) {
		if (row_value(r, p, ROW_SEQUENCE, r->nth, &v) || !row_id(r, v))
			return 1;
		if (++r->nth < r->of)
			return 0;
	}
	v = 0;
	if (r->array[ROW_OUTPUT] && row_value(r, p, ROW_OUTPUT, 0, &v))
		return 1;
	r->outputs += !!v;
	r->nth = 0;
	r->read++;
	return 0;
}

/* n: rows as the engine says, which may be any number. r: NULL without memory. */
__noinline int rows_count(struct rows *r, const struct probe *p, struct call_vals *c, s64 n)
{
	struct row_walk w = { r, p };
	u64 outputs = ROW_UNKNOWN, ids = ROW_UNKNOWN, one = ROW_UNKNOWN, mask = 0, position = ROW_UNKNOWN;
	u64 read = 0;
	bool all;
	u32 at;

	if (!p || !c)
		return 0;
	if (!r || n < 0 || (u64)n > 0x7fffffff)
		goto out;
	r->n = n;
	r->read = r->nth = r->of = r->outputs = r->ids = r->first = r->mask = 0;
	r->round++;
	r->have = 0;
	if (n > 0 && r->array[ROW_POSITION] && row_value(r, p, ROW_POSITION, 0, &position))
		position = ROW_UNKNOWN;
	if (r->array[ROW_SEQUENCE] || r->array[ROW_OUTPUT])
		bpf_loop(STEP_ROWS_MAX, row_next, &w, 0);
	else
		r->read = n;
	read = r->read;
	all = read == r->n;
	if (p->row[ROW_SEQUENCE].loads && !r->array[ROW_SEQUENCE] && n > 0) {
		r->ids = 1; /* the engine's default */
		r->first = 0;
	}
	if (p->row[ROW_SEQUENCE].loads && (all || r->ids > 1))
		ids = r->ids;
	if (all && ids == 1)
		one = r->first;
	else if (all && ids != ROW_UNKNOWN)
		mask = r->mask;
	if (p->row[ROW_OUTPUT].loads && !r->array[ROW_OUTPUT])
		outputs = p->row_else == ROW_ELSE_LAST ? n > 0 : p->row_else == ROW_ELSE_ALL ? n : 0;
	else if (p->row[ROW_OUTPUT].loads && (read || !n))
		outputs = r->outputs;
out:
	at = p->rows_at;
	if (at > FUNC_VALS_MAX - ROW_VALUES)
		return 0;
	barrier_var(at);
	c->vals[at + ROW_N_OUTPUTS] = outputs;
	c->vals[at + ROW_N_SEQUENCES] = ids;
	c->vals[at + ROW_ONE_SEQUENCE] = one;
	c->vals[at + ROW_MASK] = mask;
	c->vals[at + ROW_FIRST_POSITION] = position;
	c->vals[at + ROW_READ] = read;
	return 0;
}

static __always_inline void rows_fetch(
	const u64 regs[REG_MAX], struct task_struct *task, const struct probe *p, struct call_vals *c)
{
	struct rows *r = bpf_task_storage_get(&rows, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	u32 count = p->rows - 1;

	if (count >= FUNC_VALS_MAX)
		return;
	for (int i = 0; r && i < ROW_COLUMNS; i++) {
		u32 reg = p->row[i].array.reg;

		r->array[i] = 0;
		if (p->row[i].loads && reg < REG_MAX)
			r->array[i] = fetch_value(regs[reg], &p->row[i].array);
	}
	barrier_var(count);
	rows_count(r, p, c, count < FUNC_VALS_MAX ? c->vals[count] : 0);
}

#endif
