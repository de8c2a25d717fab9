/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The arguments of a call of a probed function. Part of functions.bpf.c. */
#ifndef INFTRACE_FETCH_BPF_H
#define INFTRACE_FETCH_BPF_H

#include "inftrace.bpf.h"

struct call_vals {
	u64 vals[FUNC_VALS_MAX];
	u64 now, tgid_tid;
	u32 id, slot; /* of its strings */
};

/* Reads all registers into an array: the verifier refuses a context that is read at a computed offset. */
static __always_inline void regs_read(struct pt_regs *ctx, u64 regs[REG_MAX])
{
	regs[REG_ARG1] = PT_REGS_PARM1(ctx);
	regs[REG_ARG2] = PT_REGS_PARM2(ctx);
	regs[REG_ARG3] = PT_REGS_PARM3(ctx);
	regs[REG_ARG4] = PT_REGS_PARM4(ctx);
	regs[REG_ARG5] = PT_REGS_PARM5(ctx);
#ifdef __TARGET_ARCH_x86
	regs[REG_ARG6] = ctx->r9;
	regs[REG_ARG7] = regs[REG_ARG8] = 0;
#else
	regs[REG_ARG6] = ((struct user_pt_regs *)ctx)->regs[5];
	regs[REG_ARG7] = ((struct user_pt_regs *)ctx)->regs[6];
	regs[REG_ARG8] = ((struct user_pt_regs *)ctx)->regs[7];
#endif
	regs[REG_SP] = PT_REGS_SP(ctx);
}

static __always_inline u64 extend(u64 v, u32 size, bool sign)
{
	switch (size) {
	case 1:
		return sign ? (u64)(s64)(s8)v : (u8)v;
	case 2:
		return sign ? (u64)(s64)(s16)v : (u16)v;
	case 4:
		return sign ? (u64)(s64)(s32)v : (u32)v;
	default:
		return v;
	}
}

/* Returns the number of elements of a vector: struct fetch, `element`. */
static __always_inline u64 fetch_elements(u64 addr, u32 bytes)
{
	u64 of[2] = { 1, 0 };

	bpf_probe_read_user(of, sizeof(of), (void *)addr);
	of[1] -= of[0];
	return of[1] > 0x7fffffff || of[1] % bytes ? ~0ull : of[1] / bytes;
}

static __always_inline u64 shape_size(u64 n, u32 bits)
{
	return n < 1ull << bits ? n : (1ull << bits) - 1;
}

/* Returns a tensor's shape as FETCH_F_SHAPE says. PyTorch also passes an empty tensor where there is none. */
static __always_inline u64 fetch_shape(u64 addr, const struct fetch *f)
{
	u64 n[1 + SHAPE_SIZES], at[2] = {}, tensor;
	u16 type = ~0;

	bpf_probe_read_user(at, f->index ? sizeof(at) : sizeof(at[0]), (void *)addr);
	tensor = at[f->index == SHAPE_FLAG_FIRST];
	if (bpf_probe_read_user(n, sizeof(n), (void *)(tensor + f->off[1])) || n[0] > SHAPE_SIZES ||
		(f->index && ((u8)at[f->index != SHAPE_FLAG_FIRST] != 1 || (n[0] == 1 && !n[1]))))
		return ~0ull;
	if (f->element == 2) {
		if (f->off[2] && bpf_probe_read_user(&type, sizeof(type), (void *)(tensor + f->off[2])))
			type = ~0;
		return shape_size(n[3], SHAPE_REST_BITS) | shape_size(n[4], SHAPE_REST_BITS) << SHAPE_REST_BITS |
		       shape_size(n[5], SHAPE_LAST_BITS) << 2 * SHAPE_REST_BITS |
		       shape_size(type, SHAPE_TYPE_BITS) << (2 * SHAPE_REST_BITS + SHAPE_LAST_BITS);
	}
	return n[0] | shape_size(n[1], SHAPE_BITS) << SHAPE_COUNT_BITS | shape_size(n[2], SHAPE_BITS) << (SHAPE_COUNT_BITS + SHAPE_BITS);
}

/* A value that cannot be read (not resident, bad pointer) is 0. */
__weak __noinline u64 fetch_value(u64 v, const struct fetch *f)
{
	if (!f)
		return 0;
	if (cfg.shapes && f->flags & FETCH_F_SHAPE)
		return fetch_shape(v, f);
	if (!f->derefs)
		v >>= f->off[0] & 63;
	for (int i = 0; i < FETCH_DEREFS_MAX; i++) {
		u64 addr = v + f->off[i];
		u32 size = i + 1 < f->derefs ? 8 : f->size;

		if (i >= f->derefs)
			break;
		if (f->flags & (FETCH_F_STRING | FETCH_F_LATE) && i + 1 == f->derefs)
			return addr;
		if (f->element && i + 1 == f->derefs)
			return fetch_elements(addr, f->element);
		v = 0;
		if (size > 8)
			size = 8;
		bpf_probe_read_user(&v, size, (void *)addr); /* little endian */
	}
	return extend(v, f->size, f->flags & FETCH_F_SIGNED);
}

/* Apart from the loops that fill the values, which end at the last one in use: the verifier follows each path through those. */
static __always_inline void vals_clear(u64 *vals)
{
	for (int i = 0; i < FUNC_VALS_MAX; i++)
		vals[i] = 0;
}

static __always_inline void fetch_all(const u64 regs[REG_MAX], const struct probe *p, u64 *vals)
{
	vals_clear(vals);
	for (int i = 0; i < FUNC_VALS_MAX && i < p->nvals; i++) {
		u32 reg = p->fetch[i].reg;

		if (reg < REG_MAX)
			vals[i] = fetch_value(regs[reg], &p->fetch[i]);
	}
}

/* Reads any register. Only a helper may read the context at an offset that is not known in advance. */
static __always_inline u64 reg_at(struct pt_regs *ctx, u32 place)
{
	u64 v = 0;

	if (place < REG_PLACES_MAX)
		bpf_probe_read_kernel(&v, sizeof(v), (void *)ctx + place * sizeof(v));
	return v;
}

struct places {
	struct pt_regs *ctx;
	const struct probe *p;
	u64 *vals;
};

static long fetch_place(u32 i, struct places *pl)
{
	struct pt_regs *ctx = pl->ctx;
	const struct fetch *f;
	u64 v;

	barrier_var(i);
	if (i >= FUNC_VALS_MAX)
		return 1;
	f = &pl->p->fetch[i];
	if (f->flags & FETCH_F_CONST) {
		pl->vals[i] = (u32)f->off[0] | (u64)f->off[1] << 32;
		return 0;
	}
	v = reg_at(ctx, f->reg);
	if (f->index)
		v += reg_at(ctx, f->index - 1) << (f->shift & 63);
	pl->vals[i] = fetch_value(v, f);
	return 0;
}

/* Does fetch_all() for PROBE_F_REGS: the arguments of a USDT probe are where the compiler put them. */
static __noinline int fetch_places(struct pt_regs *ctx, const struct probe *p, u64 *vals)
{
	struct places pl = { .ctx = ctx, .p = p, .vals = vals };

	vals_clear(vals);
	bpf_loop(p->nvals, fetch_place, &pl, 0);
	return 0;
}

/* Reads the string arguments of a call into its slot. */
__weak __noinline int fetch_strings(struct strings *s, const struct probe *p, const struct call_vals *c, u32 slot)
{
	u32 n = 0;

	if (!s || !p || !c || slot >= STRINGS_SLOTS)
		return 0;
	for (int i = 0; i < FUNC_VALS_MAX && n < FUNC_STRS_MAX; i++) {
		if (!(p->fetch[i].flags & FETCH_F_STRING))
			continue;
		if (bpf_probe_read_user_str(s->slots[slot].s[n], FUNC_STR_LEN, (void *)c->vals[i]) < 0)
			s->slots[slot].s[n][0] = 0;
		n++;
	}
	return 0;
}

static __always_inline struct strings *strings_take(
	struct task_struct *task, const struct probe *p, const struct call_vals *c, u32 slot)
{
	struct strings *s =
		bpf_task_storage_get(&strings, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (s)
		fetch_strings(s, p, c, slot);
	return s;
}

#endif
