/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of libplaced.so: X(name, what it does). */
#ifndef PLACED_H
#define PLACED_H

enum kind {
	SUMS,    /* returns a + b */
	NOTHING, /* returns nothing */
	LOOPS,   /* returns a + b, and comes back to its first instruction c times */
};

/* placed.S */
#define PLACED_FUNCTIONS(X)          \
	X(push_rbx, SUMS)            \
	X(push_r12, SUMS)            \
	X(endbr_push, SUMS)          \
	X(endbr_push_r15, SUMS)      \
	X(endbr_mov, SUMS)           \
	X(lea_ret, SUMS)             \
	X(rip_relative, SUMS)        \
	X(endbr_rip_relative, SUMS)  \
	X(ret_only, NOTHING)         \
	X(rep_ret, NOTHING)          \
	X(endbr_ret, NOTHING)        \
	X(nop_ret, NOTHING)          \
	X(nop1, SUMS)                \
	X(nop2, SUMS)                \
	X(nop5, SUMS)                \
	X(endbr_nop5, SUMS)          \
	X(five_nops, SUMS)           \
	X(stub_near, SUMS)           \
	X(stub_short, SUMS)          \
	X(endbr_stub, SUMS)          \
	X(stub_indirect, SUMS)       \
	X(endbr_stub_indirect, SUMS) \
	X(call_first, SUMS)          \
	X(endbr_call, SUMS)          \
	X(test_je, SUMS)             \
	X(compare_jne, SUMS)         \
	X(far_jne, SUMS)             \
	X(frame_sub, SUMS)           \
	X(endbr_frame_sub, SUMS)     \
	X(frame_enter, SUMS)         \
	X(realigned, SUMS)           \
	X(endbr_realigned, SUMS)     \
	X(pop_push, SUMS)            \
	X(changed_rdi, SUMS)         \
	X(changed_edx, SUMS)         \
	X(changed_cell, SUMS)        \
	X(changed_stack, SUMS)       \
	X(loop_entry, LOOPS)         \
	X(loop_entry_nop, LOOPS)     \
	X(loop_behind_endbr, SUMS)   \
	X(loop_way, SUMS)            \
	X(loop_body, SUMS)           \
	X(endbr_passed, SUMS)        \
	X(enters_passed, SUMS)       \
	X(syscall_first, SUMS)

/* compiled.c, once for each set of compiler options in the Makefile */
#define COMPILED_FUNCTIONS(X)       \
	X(compiled_O0, SUMS)        \
	X(compiled_O2, SUMS)        \
	X(compiled_O3, SUMS)        \
	X(compiled_Os, SUMS)        \
	X(compiled_cet, SUMS)       \
	X(compiled_cet_O0, SUMS)    \
	X(compiled_frame, SUMS)     \
	X(compiled_protected, SUMS) \
	X(compiled_realigned, SUMS) \
	X(compiled_patchable, SUMS)

#endif
