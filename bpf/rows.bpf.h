/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The rows of a step, see struct row_fetch: how many sequences they belong to, how many have an output, and which part
 * of them belongs to each sequence. Part of functions.bpf.c. The arrays are the engine's, and may hold anything: reading
 * ends at the first row that cannot be read, and ROW_READ tells how many were.
 */
#ifndef INFTRACE_ROWS_BPF_H
#define INFTRACE_ROWS_BPF_H

#define ROW_TRIES 16 /* slots of the table in which an id may be */
#define ROW_BLOCK 8  /* rows that are checked together */
#define ROW_STRUCT_IDS 65536 /* more than any engine has: from here on an id is no sequence */

/* Returns 8 bytes of what was read ahead. (As a word: from an array of bytes the compiler would read byte by byte.) */
static __always_inline u64 ahead_at(const u8 *ahead, u64 offset, u64 size)
{
	barrier_var(offset);
	return *(const u64 *)(ahead + (offset & (size - 1)));
}

_Static_assert(sizeof(((struct python_objects *)0)->lines) >= ROW_CHUNK * ROW_STRUCT_MAX + 8, "structures are read into them");

#define AHEAD(r, column, row, stride) ahead_at((r)->ahead[column], (row) * (stride), ROW_CHUNK * 8)

/* Copies a column of `rows` structures to where an array would be read. */
__noinline int structs_column(struct rows *r, const struct probe *p, u32 column, u64 rows)
{
	u64 at, bytes, to = 0, stride;

	if (!r || !p || column >= ROW_COLUMNS)
		return 0;
	at = p->row[column].off[0];
	bytes = p->row_struct;
	stride = r->stride[column];
	for (u32 i = 0; i < ROW_CHUNK && i < rows; i++) {
		barrier_var(to);
		*(u64 *)(r->ahead[column] + (to & (ROW_CHUNK * 8 - 1))) = ahead_at((u8 *)r->objects.lines, at, ROW_CHUNK * ROW_STRUCT_MAX);
		at += bytes;
		to += stride;
	}
	r->have |= 1 << column;
	return 0;
}

/* Does rows_ahead() for rows that are structures. */
static __always_inline int structs_ahead(struct rows *r, const struct probe *p, u64 rows)
{
	u64 len = rows * p->row_struct;

	barrier_var(len);
	if (len > ROW_CHUNK * ROW_STRUCT_MAX ||
		bpf_probe_read_user(r->objects.lines, len, (void *)(r->array[ROW_SEQUENCE] + r->read * p->row_struct)))
		return 0;
	for (u32 i = 0; i < ROW_COLUMNS; i++) {
		if (r->array[i])
			structs_column(r, p, i, rows);
	}
	return 0;
}

/* Reads the elements of the next rows at once: a read costs the same whatever its length. */
__noinline int rows_ahead(struct rows *r, const struct probe *p)
{
	u64 left;
	u32 rows;

	if (!r || !p)
		return 0;
	left = r->n - r->read;
	rows = left < ROW_CHUNK ? left : ROW_CHUNK;
	r->have = 0;
	if (p->row_struct)
		return structs_ahead(r, p, rows);
	for (u32 i = 0; i < ROW_COLUMNS; i++) {
		const struct row_fetch *f = &p->row[i];
		u32 stride = f->stride, size = f->loads > 1 ? 8 : f->size;
		u64 len = (u64)rows * stride; /* the verifier of 6.1 loses the bounds of 32-bit values */

		if (!r->array[i] || stride > 8 || size > stride)
			continue;
		barrier_var(len);
		if (len > ROW_CHUNK * 8)
			continue;
		if (!bpf_probe_read_user(r->ahead[i], len, (void *)(r->array[i] + f->off[0] + r->read * stride)))
			r->have |= 1 << i;
	}
	return 0;
}

/* Finds the address range of the next rows' first ids, which are behind pointers, from the first and the last of these:
 * engines mostly store the ids side by side, in this order or the reverse. Returns whether the range is small enough. */
static __always_inline bool ids_find(struct rows *r)
{
	u64 at = r->read & (ROW_CHUNK - 1), rows = r->n - r->read, first, last;

	if (rows > r->ids_rows)
		rows = r->ids_rows;
	first = AHEAD(r, ROW_SEQUENCE, at, 8);
	last = AHEAD(r, ROW_SEQUENCE, at + rows - 1, 8);
	r->ids_base = first < last ? first : last;
	r->ids_span = first < last ? last - first : first - last;
	return r->ids_span < ROW_IDS_SPAN;
}

/* Reads the ids of the next rows. Those outside of the range are read with their row. */
__noinline int ids_ahead(struct rows *r, const struct probe *p)
{
	const struct row_fetch *f;
	u64 len;

	if (!r || !p)
		return 0;
	f = &p->row[ROW_SEQUENCE];
	r->have &= ~ROW_HAVE_IDS;
	if (!(r->have & 1 << ROW_SEQUENCE) || f->loads <= 1 || r->stride[ROW_SEQUENCE] != 8)
		return 0;
	if (!ids_find(r)) {
		r->ids_rows = ROW_CHUNK / 4;
		if (!ids_find(r))
			return 0;
	}
	len = r->ids_span + f->size;
	barrier_var(len);
	if (len > ROW_IDS_SPAN + 8)
		return 0;
	if (!bpf_probe_read_user(r->id_ahead, len, (void *)(r->ids_base + f->off[1])))
		r->have |= ROW_HAVE_IDS;
	return 0;
}

/* Reads the current row's value in a column, number `nth` of adjacent ones. Returns 0 or an error. */
__noinline long row_read(struct rows *r, const struct probe *p, u32 column, u64 nth, u64 *ret)
{
	const struct row_fetch *f;
	u64 at, v = 0;
	u32 size;

	if (!r || !p || !ret || column >= ROW_COLUMNS)
		return -1;
	f = &p->row[column];
	size = f->size;
	at = r->array[column] + f->off[0] + r->read * f->stride;
	if (f->list && nth)
		at = r->node;
	if (f->loads > 1) {
		if (bpf_probe_read_user(&v, sizeof(v), (void *)at))
			return -1;
		at = v + f->off[1];
	}
	if (f->list) {
		r->node = v;
		nth = 0;
	}
	if (size > sizeof(v))
		size = sizeof(v);
	v = 0;
	if (bpf_probe_read_user(&v, size, (void *)(at + nth * size))) /* little endian */
		return -1;
	*ret = extend(v, size, f->flags & FETCH_F_SIGNED);
	return 0;
}

static __always_inline u64 row_extend(const struct rows *r, const struct probe *p, u32 column, u64 v)
{
	u64 shift = r->shift[column];

	v <<= shift;
	return p->row[column].flags & FETCH_F_SIGNED ? (u64)((s64)v >> shift) : v >> shift;
}

/* The same, from what was read ahead. column: a constant. Inline, since each return costs 10 ns where the kernel guards
 * returns. */
static __always_inline long row_value(struct rows *r, const struct probe *p, u32 column, u64 nth, u64 *ret)
{
	const struct row_fetch *f = &p->row[column];
	u64 v;

	if (nth || !(r->have & 1 << column))
		return row_read(r, p, column, nth, ret);
	v = AHEAD(r, column, r->read & (ROW_CHUNK - 1), r->stride[column]);
	if (f->loads > 1) {
		r->node = v;
		v -= r->ids_base;
		if (column != ROW_SEQUENCE || !(r->have & ROW_HAVE_IDS) || v > r->ids_span)
			return row_read(r, p, column, nth, ret);
		v = ahead_at(r->id_ahead, v, ROW_IDS_SPAN);
	}
	*ret = row_extend(r, p, column, v);
	return 0;
}

/* Adds a part for a sequence. Returns its index; STEP_PARTS_MAX: there is no room. */
static __always_inline u32 part_begin(struct rows *r, u64 id)
{
	struct row_parts *parts = parts_of(r, PARTS_FRESH);
	u64 i = parts->n;

	if (i >= STEP_PARTS_MAX) {
		parts->left++;
		return STEP_PARTS_MAX;
	}
	barrier_var(i);
	i &= STEP_PARTS_MAX - 1;
	parts->part[i] = (struct row_part){ .sequence = id, .position = -1 };
	parts->n++;
	return i;
}

static __always_inline void part_position(struct rows *r, const struct probe *p, u64 part)
{
	struct row_parts *parts = parts_of(r, PARTS_FRESH);
	u64 position = 0;

	if (part >= STEP_PARTS_MAX || !r->array[ROW_POSITION])
		return;
	barrier_var(part);
	part &= STEP_PARTS_MAX - 1;
	if (parts->part[part].rows)
		return;
	if (!row_value(r, p, ROW_POSITION, 0, &position))
		parts->part[part].position = position;
}

/* Returns the part that belongs to a sequence, or an error if the table has no room: then the number of different
 * sequences is unknown. make: a sequence without one gets it; otherwise that is an error. tries: slots of the table in which it may be. */
static __always_inline int row_id(struct rows *r, u64 id, bool make, u32 tries)
{
	u32 place = (u32)(id * 0x9e3779b97f4a7c15ull >> 32);

	for (u32 i = 0; i < tries; i++) {
		u32 at = place + i;
		int part;

		barrier_var(at);
		at &= ROW_IDS - 1;
		if (r->id_mark[at] >> 16 == r->round) {
			if (r->id[at] == id)
				return r->id_mark[at] & 0xffff;
			continue;
		}
		if (!make)
			return -1;
		part = part_begin(r, id);
		r->id_mark[at] = r->round << 16 | (u16)part;
		r->id[at] = id;
		if (!r->ids++)
			r->first = id;
		if (id > 63)
			r->mask = 0;
		else if (r->mask || r->ids == 1)
			r->mask |= 1ull << id;
		return part;
	}
	return -1;
}

static __always_inline void part_add(struct rows *r, u64 part, u64 rows, u64 outputs)
{
	struct row_parts *parts = parts_of(r, PARTS_FRESH);

	if (part >= STEP_PARTS_MAX)
		return;
	r->in |= (u64)(part < 64) << (part & 63);
	barrier_var(part);
	part &= STEP_PARTS_MAX - 1;
	parts->part[part].rows += rows;
	parts->part[part].outputs += outputs;
}

/* Returns not 0 if any of the ROW_BLOCK rows from row `at` of those read ahead belongs to another sequence than the previous
 * row. */
static __always_inline u64 block_ids(struct rows *r, const struct probe *p, u64 at)
{
	u64 shift = r->shift[ROW_SEQUENCE], last = r->last << shift, base = r->ids_base, span = r->ids_span;
	u64 stride = r->stride[ROW_SEQUENCE], begin = at * stride & (ROW_CHUNK * 8 - 1), differ = 0, far = 0;
	const u8 *ahead;

	barrier_var(begin);
	ahead = &r->ahead[ROW_SEQUENCE][begin & (ROW_CHUNK * 8 - 1)];
	if (p->row[ROW_SEQUENCE].loads <= 1) {
		for (u32 i = 0; i < ROW_BLOCK; i++)
			differ |= AHEAD(r, ROW_SEQUENCE, at + i, stride) << shift ^ last;
		return differ;
	}
	for (u32 i = 0; i < ROW_BLOCK; i++) {
		u64 offset = *(const u64 *)(ahead + 8 * i) - base;

		far |= offset | (span - offset); /* its highest bit is set if the id was not read */
		differ |= ahead_at(r->id_ahead, offset, ROW_IDS_SPAN) << shift ^ last;
	}
	return differ | far >> 63;
}

/* All bits set if i < n, else none. Without a branch, as below: the verifier of 6.1 would follow each of them both ways. */
#define WORD_OF(i, n) ((u64)((s64)((i) - (n)) >> 63))

/* Likewise if any row belongs to more or fewer than one sequence. */
static __always_inline u64 block_counts(struct rows *r, const struct probe *p, u64 at)
{
	u64 stride = r->stride[ROW_SEQUENCES], begin = at * stride, differ = p->row[ROW_SEQUENCES].size ^ stride;
	const u8 *ahead;

	barrier_var(begin);
	ahead = &r->ahead[ROW_SEQUENCES][begin & (ROW_CHUNK * 8 - 1)];
	for (u64 i = 0; i < 8; i++)
		differ |= (*(const u64 *)(ahead + 8 * i) ^ r->one) & WORD_OF(i, stride);
	return differ;
}

/* How many rows of the block have an output. */
static __always_inline u64 block_outputs(struct rows *r, const struct probe *p, u64 at)
{
	u64 stride = r->stride[ROW_OUTPUT], shift = r->shift[ROW_OUTPUT], n = 0;

	for (u64 i = 0; i < ROW_BLOCK; i++) {
		u64 output = AHEAD(r, ROW_OUTPUT, at + i, stride) << shift;

		n += (output | -output) >> 63;
	}
	return n;
}

static __always_inline bool block_has_outputs(struct rows *r, const struct probe *p, u64 at)
{
	u64 stride = r->stride[ROW_OUTPUT], begin = at * stride, any = 0;
	const u8 *ahead;

	barrier_var(begin);
	ahead = &r->ahead[ROW_OUTPUT][begin & (ROW_CHUNK * 8 - 1)];
	for (u64 i = 0; i < 8; i++)
		any |= *(const u64 *)(ahead + 8 * i) & WORD_OF(i, stride);
	return any;
}

/*
 * If all of the next ROW_BLOCK rows belong to the previous row's sequence alone, returns how many of them have an output,
 * else -1. Global, like most functions here: otherwise the verifier would follow each path through it after each path
 * through the one before.
 */
__noinline int block_take(struct rows *r, const struct probe *p)
{
	u64 at;

	if (!r || !p)
		return -1;
	at = r->read & (ROW_CHUNK - 1);
	if (r->is[ROW_SEQUENCE] && block_ids(r, p, at))
		return -1;
	if (r->is[ROW_SEQUENCES] && block_counts(r, p, at))
		return -1;
	return r->is[ROW_OUTPUT] && block_has_outputs(r, p, at) ? block_outputs(r, p, at) : 0;
}

/* Takes the next rows as long as they belong to that sequence, as most of a prompt's do. Returns whether any did. */
__noinline bool rows_same(struct rows *r, const struct probe *p)
{
	u64 from, outputs = 0;

	if (!r || !p)
		return 0;
	from = r->read;
	if ((r->have & r->need) != r->need)
		return 0;
	for (u32 i = 0; i < ROW_CHUNK / ROW_BLOCK; i++) {
		u64 at = r->read & (ROW_CHUNK - 1);
		int n;

		if (at + ROW_BLOCK > ROW_CHUNK || r->n - r->read < ROW_BLOCK || (i && !(at & (r->ids_rows - 1))))
			break;
		n = block_take(r, p);
		if (n < 0)
			break;
		outputs += n;
		r->read += ROW_BLOCK;
	}
	part_add(r, r->last_part, r->read - from, outputs);
	r->outputs += outputs;
	return r->read != from;
}

struct row_walk {
	struct rows *r;
	const struct probe *p;
};

/* Begins the next row. Returns whether it can be read. */
static __always_inline bool row_begin(struct rows *r, const struct probe *p)
{
	u64 output = 0;

	r->in = 0;
	r->of = !!r->array[ROW_SEQUENCE];
	if (r->array[ROW_SEQUENCES] && r->array[ROW_SEQUENCE] && row_value(r, p, ROW_SEQUENCES, 0, &r->of))
		return 0;
	if (r->of > ROW_IDS)
		return 0;
	if (r->array[ROW_OUTPUT] && row_value(r, p, ROW_OUTPUT, 0, &output))
		return 0;
	if (p->row_struct && (!r->of || output > 1)) /* another build of the engine: not this structure */
		return 0;
	r->output = !!output;
	return 1;
}

/* Takes one sequence of a row, and finishes the row with its last one; or takes several rows that are alike. */
static long row_next(u32 nr, struct row_walk *w)
{
	const struct probe *p = w->p;
	struct rows *r = w->r;
	u64 id = 0;
	int part;

	if (r->read >= r->n || r->read >= STEP_ROWS_MAX)
		return 1;
	if (!r->nth) {
		if (r->read && !(r->read & (ROW_CHUNK - 1)))
			rows_ahead(r, p);
		if (!(r->read & (r->ids_rows - 1)))
			ids_ahead(r, p);
		if (r->run && rows_same(r, p))
			return 0;
		if (!row_begin(r, p))
			return 1;
	}
	if (r->nth < r->of) {
		if (row_value(r, p, ROW_SEQUENCE, r->nth, &id) || (p->row_struct && id >= ROW_STRUCT_IDS))
			return 1;
		r->run = r->of == 1 && r->last_part <= STEP_PARTS_MAX && r->last == id;
		part = r->run ? r->last_part : row_id(r, id, 1, ROW_TRIES);
		if (part < 0)
			return 1;
		part_position(r, p, part);
		part_add(r, part, 1, r->output);
		r->last = id;
		r->last_part = r->of == 1 ? part : ROW_PART_NONE;
		if (++r->nth < r->of)
			return 0;
	} else {
		r->run = !r->array[ROW_SEQUENCE];
		r->last_part = ROW_PART_NONE;
	}
	r->outputs += r->output;
	r->nth = 0;
	r->read++;
	return 0;
}

/* All bits set, or none. */
static __always_inline u64 all_if(bool b)
{
	return -(u64)b;
}

__noinline int rows_begin(struct rows *r, const struct probe *p, u64 n)
{
	if (!r || !p)
		return 0;
	r->n = n;
	r->read = r->nth = r->of = r->outputs = r->ids = r->first = r->mask = 0;
	r->round++;
	r->have = r->need = r->in = r->last = 0;
	r->last_part = ROW_PART_NONE;
	r->run = !r->array[ROW_SEQUENCE];
	r->ids_rows = ROW_CHUNK;
	r->one = ~0ull >> ((64 - 8 * p->row[ROW_SEQUENCES].size) & 63);
	r->one = r->one ? ~0ull / r->one : 0; /* 1, 0x100000001, ... */
	for (u32 i = 0; i < ROW_COLUMNS; i++) {
		r->stride[i] = !p->row_struct ? p->row[i].stride : p->row[i].loads > 1 ? 8 : p->row[i].size;
		r->is[i] = all_if(r->array[i]);
		r->shift[i] = (64 - 8 * p->row[i].size) & 63;
		if (i != ROW_POSITION && r->array[i])
			r->need |= 1 << i;
	}
	if (!r->array[ROW_SEQUENCE]) {
		r->is[ROW_SEQUENCES] = 0;
		r->need &= ~(1ull << ROW_SEQUENCES);
	} else if (p->row[ROW_SEQUENCE].loads > 1) {
		r->need |= ROW_HAVE_IDS;
	}
	return 0;
}

/* Sets the outputs of one part where the step has no array of them. */
static long part_outputs(u32 i, struct row_walk *w)
{
	const struct probe *p = w->p;
	struct row_part *part;

	barrier_var(i);
	if (i >= STEP_PARTS_MAX)
		return 1;
	part = &parts_of(w->r, PARTS_FRESH)->part[i];
	if (!p->row[ROW_OUTPUT].loads)
		part->outputs = ROW_PART_UNKNOWN;
	else if (p->row_else == ROW_ELSE_ALL)
		part->outputs = part->rows;
	else if (p->row_else == ROW_ELSE_LAST)
		part->outputs = i < 64 ? w->r->in >> i & 1 : ROW_PART_UNKNOWN;
	return 0;
}

/* Takes all rows as sequence 0, as the engine does without an array of sequences. */
static __always_inline void rows_of_one(struct rows *r, u64 position)
{
	struct row_parts *parts = parts_of(r, PARTS_FRESH);

	r->ids = r->in = 1;
	r->first = 0;
	parts->n = 1;
	parts->part[0] = (struct row_part){
		.position = position == ROW_UNKNOWN ? -1 : position, .rows = r->n, .outputs = r->outputs
	};
}

/* n: the number of rows according to the engine, which may be anything. r: NULL without memory. */
__noinline int rows_count(struct rows *r, const struct probe *p, struct call_vals *c, s64 n)
{
	struct row_walk w = { r, p };
	u64 outputs = ROW_UNKNOWN, ids = ROW_UNKNOWN, one = ROW_UNKNOWN, mask = 0, position = ROW_UNKNOWN;
	u64 read = 0;
	bool all;
	u32 at;

	if (!p || !c)
		return 0;
	if (r)
		parts_of(r, PARTS_FRESH)->n = parts_of(r, PARTS_FRESH)->left = 0;
	if (!r || n < 0 || (u64)n > 0x7fffffff || (n && p->row_struct && !r->array[ROW_SEQUENCE]))
		goto out;
	rows_begin(r, p, n);
	rows_ahead(r, p);
	if (n > 0 && r->array[ROW_POSITION] && row_value(r, p, ROW_POSITION, 0, &position))
		position = ROW_UNKNOWN;
	if (r->array[ROW_SEQUENCE] || r->array[ROW_OUTPUT])
		bpf_loop(STEP_ROWS_MAX, row_next, &w, 0);
	else
		r->read = n;
	read = r->read;
	all = read == r->n;
	if (p->row[ROW_SEQUENCE].loads && !r->array[ROW_SEQUENCE] && n > 0)
		rows_of_one(r, position);
	if (!all)
		parts_of(r, PARTS_FRESH)->n = 0;
	else if (!r->array[ROW_OUTPUT])
		bpf_loop(parts_of(r, PARTS_FRESH)->n, part_outputs, &w, 0);
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

/* Reads the addresses of the arrays, if these are adjacent, as in most engines. Returns whether they are. */
static __noinline int arrays_fetch(struct rows *r, const struct probe *p, const u64 *regs)
{
	const struct fetch *first = &p->row[ROW_SEQUENCE].array;
	s32 low = first->off[0], high = low;
	bool together = p->row[ROW_SEQUENCE].loads;

	for (int i = 0; i < ROW_COLUMNS; i++) {
		const struct fetch *f = &p->row[i].array;

		r->array[i] = 0;
		if (!p->row[i].loads)
			continue;
		together &= f->reg == first->reg && f->derefs == 1 && f->size == 8 && !f->flags;
		low = f->off[0] < low ? f->off[0] : low;
		high = f->off[0] > high ? f->off[0] : high;
	}
	if (first->reg >= REG_MAX || !together || high - low > 56 ||
		bpf_probe_read_user(r->ahead[0], 64, (void *)(regs[first->reg] + low)))
		return 0;
	for (int i = 0; i < ROW_COLUMNS; i++) {
		if (p->row[i].loads)
			r->array[i] = ahead_at(r->ahead[0], p->row[i].array.off[0] - low, 64);
	}
	return 1;
}

/* NULL without memory. */
static __always_inline struct rows *rows_fetch(
	const u64 regs[REG_MAX], struct task_struct *task, const struct probe *p, struct call_vals *c)
{
	struct rows *r = bpf_task_storage_get(&rows, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	u32 count = p->rows - 1;
	bool together = r && arrays_fetch(r, p, regs);

	if (count >= FUNC_VALS_MAX)
		return NULL;
	for (int i = 0; r && !together && i < ROW_COLUMNS; i++) {
		u32 reg = p->row[i].array.reg;

		if (p->row[i].loads && reg < REG_MAX)
			r->array[i] = fetch_value(regs[reg], &p->row[i].array);
	}
	barrier_var(count);
	rows_count(r, p, c, count < FUNC_VALS_MAX ? c->vals[count] : 0);
	return r;
}

#endif
