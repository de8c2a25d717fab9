// SPDX-License-Identifier: BSD-2-Clause
/* Where probes go: functions written by hand, and all of the C library. */
#include <dlfcn.h>
#include <elf.h>

#include "probe.h"
#include "target/elf.h"
#include "target/site.h"
#include "unit.h"

#ifdef __x86_64__

/*
 * CODE(name, body): a function that is never run, with the cheapest instruction at the label
 * NAME_site. The rule is the kernel's: it emulates push, nop, call, jmp and jcc.
 */
#define CODE(name, body)                                                                         \
	extern const char name[], name##_site[];                                                 \
	asm(".pushsection .text." #name ", \"ax\", @progbits\n.intel_syntax noprefix\n"          \
	    ".type " #name ", @function\n" #name ":\n" body "\n.size " #name ", . - " #name "\n" \
	    "ret\n.att_syntax prefix\n.popsection\n")
/* The same with a size of its own. */
#define CODE_SIZED(name, size, body)                                                    \
	extern const char name[], name##_site[];                                        \
	asm(".pushsection .text." #name ", \"ax\", @progbits\n.intel_syntax noprefix\n" \
	    ".type " #name ", @function\n.size " #name ", " #size "\n" #name ":\n" body \
	    "\n.att_syntax prefix\n.popsection\n")
#define SITE(name) #name "_site:\n"

/* at the entry, and after endbr64 */
CODE(push_first, SITE(push_first) "push rbx\n pop rbx\n ret");
CODE(push_high, SITE(push_high) "push r12\n pop r12\n ret");
CODE(push_endbr, "endbr64\n" SITE(push_endbr) "push rbp\n mov rbp, rsp\n pop rbp\n ret");
CODE(push_high_endbr, "endbr64\n" SITE(push_high_endbr) "push r15\n pop r15\n ret");
CODE(call_endbr, "endbr64\n" SITE(call_endbr) "call push_first\n ret");
CODE(stub, SITE(stub) "jmp push_first");
CODE(stub_endbr, "endbr64\n" SITE(stub_endbr) "jmp push_first");
CODE(stub_indirect, SITE(stub_indirect) "endbr64\n jmp [rip + 64]\n push rbx");
CODE(only_ret, SITE(only_ret) "ret");
CODE(only_nop, SITE(only_nop) "nop");
CODE(early_ret, SITE(early_ret) "endbr64\n ret\n push rbx\n ret");
/* nops of more bytes are emulated by new kernels only */
CODE(long_nop, ".byte 0x66, 0x90\n" SITE(long_nop) "push rbx\n ret");

/* a branch on the way in, the stack untouched */
CODE(load_je,
	"endbr64\n mov eax, [rdi]\n test eax, eax\n" SITE(load_je) "je 1f\n inc eax\n 1: ret");
CODE(far_je, "test edi, edi\n" SITE(far_je) ".byte 0x0f, 0x84, 0, 0, 0, 0\n ret");
CODE(compare_je, "endbr64\n cmp dword ptr [rsi + 8], 0\n" SITE(compare_je) "jne 1f\n ret\n 1: ret");
CODE(test_js, "test byte ptr [rsi], 1\n" SITE(test_js) "jnz 1f\n 1: ret");
CODE(add_je, "mov eax, 1\n add eax, [rsi]\n" SITE(add_je) "je 1f\n 1: ret");

/* frames */
CODE(sub_frame, "sub rsp, 24\n mov [rsp + 8], rdi\n" SITE(sub_frame) "call push_first\n ret");
CODE(realigned, "lea r10, [rsp + 8]\n and rsp, -32\n push [r10 - 8]\n" SITE(
			realigned) "push rbp\n mov rbp, rsp\n ret");
CODE(push_memory, "push [rdi]\n" SITE(push_memory) "push rbx\n ret");
CODE(push_number, "push 5\n" SITE(push_number) "push rbx\n ret");
CODE(enter_frame, "enter 16, 0\n" SITE(enter_frame) "push rbx\n ret");
CODE(popped, "pop rax\n" SITE(popped) "push rax\n ret");

/* stores that may hit an argument in memory */
CODE(store, "mov [rsi], eax\n" SITE(store) "push rbx\n ret");
CODE(store_sse, "movups [rsi], xmm0\n" SITE(store_sse) "push rbx\n ret");
CODE(store_add, "add dword ptr [rsi], 1\n" SITE(store_add) "push rbx\n ret");
CODE(store_inc, "inc dword ptr [rax]\n" SITE(store_inc) "push rbx\n ret");
CODE(store_xchg, "xchg eax, [rsi]\n" SITE(store_xchg) "push rbx\n ret");
CODE(store_xadd, "lock xadd [rsi], eax\n" SITE(store_xadd) "push rbx\n ret");
CODE(store_cmpxchg, "lock cmpxchg [rsi], ecx\n" SITE(store_cmpxchg) "push rbx\n ret");
CODE(store_string, "stosd\n" SITE(store_string) "push rbx\n ret");
CODE(store_setcc, "sete [rsi]\n" SITE(store_setcc) "push rbx\n ret");
CODE(store_global, "mov [rip + 64], eax\n" SITE(store_global) "push rbx\n ret");
/* r10 and rbp point where the caller let them point */
CODE(store_r10, "mov r10, rsi\n mov [r10 + 80], eax\n" SITE(store_r10) "push rbx\n ret");
CODE(store_rbp, "mov [rbp - 8], eax\n" SITE(store_rbp) "push rbx\n ret");
CODE(store_index, "mov [rsp + rsi], eax\n" SITE(store_index) "push rbx\n ret");

/* jumps back */
CODE(loop_start, "test rdi, rdi\n" SITE(loop_start) "je 1f\n dec rdi\n jmp loop_start\n 1: ret");
CODE(loop_way,
	"endbr64\n 1: test rdi, rdi\n" SITE(loop_way) "je 2f\n mov rdi, [rdi]\n jmp 1b\n 2: ret");
CODE(loop_site, "xor eax, eax\n" SITE(loop_site) "1: je 2f\n dec edi\n jmp 1b\n 2: ret");
CODE(loop_far, "xor eax, eax\n" SITE(loop_far) "1: je 2f\n .skip 300, 0x90\n jmp 1b\n 2: ret");
CODE(loop_rcx, "xor eax, eax\n" SITE(loop_rcx) "1: je 2f\n 2: loop 1b\n ret");
CODE(loop_over, "xor eax, eax\n loop 1f\n" SITE(loop_over) "push rbx\n 1: ret");
/* each recursion is a call of its own */
CODE(recursion, "xor eax, eax\n" SITE(recursion) "je 1f\n call recursion\n 1: ret");
CODE(loop_behind, "xor eax, eax\n" SITE(loop_behind) "je 2f\n 1: dec edi\n jnz 1b\n 2: ret");
CODE(loop_endbr, "endbr64\n" SITE(loop_endbr) "1: nop\n dec edi\n jnz 1b\n ret");
CODE(loop_endbr_behind, "endbr64\n" SITE(loop_endbr_behind) "nop\n 1: dec edi\n jnz 1b\n ret");
/* the entry itself is where a probe would sit in any case */
CODE(loop_entry, SITE(loop_entry) "1: nop\n dec edi\n jnz 1b\n ret");

/* a test for calls that have nothing to do, at first the barrier of llama.cpp */
CODE(early_barrier, "endbr64\n mov eax, [rdi + 104]\n cmp ax, 1\n je 1f\n mov r8d, 1\n"
		    "lock xadd [rdi + 128], r8d\n cmp r8d, eax\n" SITE(
			    early_barrier) "jne 2f\n jmp 3f\n"
					   "2: pause\n cmp edx, [rdi]\n je 2b\n 1: ret\n 3: ret");
CODE(early_seen,
	"test edi, edi\n" SITE(early_seen) "je 1f\n mov eax, 1\n push rbx\n pop rbx\n 1: ret");
CODE(early_twice, "test edi, edi\n je 1f\n test esi, esi\n je 1f\n mov eax, 1\n" SITE(
			  early_twice) "call push_first\n 1: ret");
CODE(early_sp, "test edi, edi\n" SITE(
		       early_sp) "je 1f\n sub rsp, 8\n call push_first\n add rsp, 8\n 1: ret");
CODE(early_none, "test edi, edi\n" SITE(early_none) "je 1f\n mov eax, 1\n 1: ret");
/* the other way has work to do */
CODE(early_work,
	"test edi, edi\n" SITE(early_work) "je 1f\n push rbx\n pop rbx\n 1: mov eax, 1\n ret");
CODE(early_loop, "test edi, edi\n" SITE(early_loop) "je 1f\n dec edi\n 2: jnz 2b\n 1: ret");
CODE(early_stub, "test edi, edi\n" SITE(early_stub) "je push_first\n push rbx\n pop rbx\n ret");

/* what cannot be searched */
CODE(undecodable, "xor eax, eax\n" SITE(undecodable) "push rbx\n ret\n .byte 0x06, 0x06");
CODE(undecodable_endbr, "endbr64\n" SITE(undecodable_endbr) "push rbx\n ret\n .byte 0x06, 0x06");
CODE(large, "xor eax, eax\n" SITE(
		    large) "push rbx\n .skip 4091, 0x90\n .skip 100, 0x90\n jmp large_site");
CODE(large_endbr, "endbr64\n" SITE(large_endbr) "push rbx\n .skip 5000, 0x90\n ret");
CODE(far_site, ".rept 13\n mov eax, 0x12345678\n .endr\n" SITE(far_site) "push rbx\n ret");
CODE_SIZED(
	unsized, 0, "xor eax, eax\n" SITE(unsized) "push rbx\n dec edi\n jnz unsized_site\n ret");
CODE_SIZED(unsized_endbr, 0, "endbr64\n" SITE(unsized_endbr) "push rbx\n pop rbx\n ret");
/* what follows the end of a function belongs to another one */
CODE_SIZED(short_endbr, 4, "endbr64\n" SITE(short_endbr) "push rbx\n pop rbx\n ret\n nop\n nop");
CODE_SIZED(short_xor, 2,
	"xor eax, eax\n" SITE(short_xor) "push rbx\n pop rbx\n ret\n nop\n nop\n nop");

#define ARG(n) (1u << (REG_ARG1 + (n)-1))
#define ALL_ARGS (ARG(1) | ARG(2) | ARG(3) | ARG(4) | ARG(5) | ARG(6))
#define SP (1u << REG_SP)

#define RETURNS SITE_RETURNS
#define NO_RETURN 0
#define MEMORY SITE_READS_MEMORY
#define PAST_TEST SITE_PAST_EARLY_RETURN
#define CHEAP true
#define DEAR false

#define CASE(name, regs, flags, cheap)                       \
	{                                                    \
#name, name, name##_site, regs, flags, cheap \
	}

static const struct site_case {
	const char *name, *entry, *site;
	uint32_t regs;
	unsigned int flags;
	bool cheap;
} site_cases[] = {
	CASE(push_first, ALL_ARGS | SP, RETURNS, CHEAP),
	CASE(push_high, ALL_ARGS | SP, RETURNS, CHEAP),
	CASE(push_endbr, ALL_ARGS | SP, RETURNS, CHEAP),
	CASE(push_high_endbr, ALL_ARGS | SP, RETURNS, CHEAP),
	CASE(call_endbr, ALL_ARGS | SP, RETURNS, CHEAP),
	CASE(stub, ALL_ARGS | SP, RETURNS, CHEAP),
	CASE(stub_endbr, ALL_ARGS | SP, RETURNS, CHEAP),
	CASE(stub_indirect, 0, NO_RETURN, DEAR),
	CASE(only_ret, 0, NO_RETURN, DEAR),
	CASE(only_nop, ALL_ARGS | SP, RETURNS, CHEAP),
	CASE(early_ret, 0, NO_RETURN, DEAR),
	CASE(long_nop, ALL_ARGS | SP, RETURNS, CHEAP),

	CASE(load_je, ALL_ARGS | SP, RETURNS, CHEAP),
	CASE(far_je, ALL_ARGS | SP, RETURNS, CHEAP),
	CASE(compare_je, ALL_ARGS | SP, RETURNS, CHEAP),
	CASE(test_js, ALL_ARGS | SP, RETURNS, CHEAP),
	CASE(add_je, ALL_ARGS | SP, RETURNS, CHEAP),

	CASE(sub_frame, ALL_ARGS, NO_RETURN, CHEAP),
	CASE(sub_frame, ALL_ARGS, RETURNS, DEAR),
	CASE(sub_frame, ALL_ARGS | SP, NO_RETURN, DEAR),
	CASE(realigned, ALL_ARGS, NO_RETURN, CHEAP),
	CASE(realigned, 0, RETURNS, DEAR),
	CASE(realigned, SP, NO_RETURN, DEAR),
	CASE(push_number, ALL_ARGS, NO_RETURN, CHEAP),
	CASE(push_number, 0, RETURNS, DEAR),
	CASE(push_memory, 0, RETURNS, DEAR),
	CASE(enter_frame, 0, RETURNS, DEAR),
	CASE(popped, 0, RETURNS, DEAR),
	CASE(popped, SP, NO_RETURN, DEAR),

	CASE(store, ARG(2), MEMORY, DEAR),
	CASE(store, 0, RETURNS, CHEAP),
	CASE(store, ARG(2), RETURNS, CHEAP),
	CASE(store_sse, ARG(2), MEMORY, DEAR),
	CASE(store_add, ARG(2), MEMORY, DEAR),
	CASE(store_inc, ARG(2), MEMORY, DEAR),
	CASE(store_xchg, ARG(2), MEMORY, DEAR),
	CASE(store_xadd, ARG(2), MEMORY, DEAR),
	CASE(store_cmpxchg, ARG(2), MEMORY, DEAR),
	CASE(store_string, ARG(2), MEMORY, DEAR),
	CASE(store_setcc, ARG(2), MEMORY, DEAR),
	CASE(store_global, ARG(2), MEMORY, DEAR),
	CASE(store_r10, ARG(2), MEMORY, DEAR),
	CASE(store_rbp, ARG(2), MEMORY, DEAR),
	CASE(store_index, ARG(2), MEMORY, DEAR),

	CASE(loop_start, 0, NO_RETURN, DEAR),
	CASE(loop_way, 0, NO_RETURN, DEAR),
	CASE(loop_site, 0, NO_RETURN, DEAR),
	CASE(loop_far, 0, NO_RETURN, DEAR),
	CASE(loop_rcx, 0, NO_RETURN, DEAR),
	CASE(loop_over, 0, NO_RETURN, DEAR),
	CASE(recursion, 0, RETURNS, CHEAP),
	CASE(loop_behind, 0, RETURNS, CHEAP),
	CASE(loop_endbr, 0, RETURNS, DEAR),
	CASE(loop_endbr_behind, 0, RETURNS, CHEAP),
	CASE(loop_entry, 0, RETURNS, CHEAP),

	CASE(early_barrier, ARG(1), RETURNS | PAST_TEST, CHEAP),
	CASE(early_seen, 0, RETURNS, CHEAP),
	CASE(early_twice, ALL_ARGS, RETURNS | PAST_TEST, CHEAP),
	CASE(early_sp, ALL_ARGS, RETURNS | PAST_TEST, CHEAP),
	CASE(early_none, ALL_ARGS, RETURNS | PAST_TEST, CHEAP),
	CASE(early_work, ALL_ARGS, RETURNS | PAST_TEST, CHEAP),
	CASE(early_loop, ALL_ARGS, RETURNS | PAST_TEST, CHEAP),
	CASE(early_stub, ALL_ARGS, RETURNS | PAST_TEST, CHEAP),

	CASE(undecodable, 0, NO_RETURN, DEAR),
	CASE(undecodable_endbr, ALL_ARGS, RETURNS, CHEAP),
	CASE(large, 0, NO_RETURN, DEAR),
	CASE(large_endbr, ALL_ARGS, RETURNS, CHEAP),
	CASE(far_site, 0, NO_RETURN, DEAR),
	CASE(unsized, 0, NO_RETURN, DEAR),
	CASE(unsized_endbr, ALL_ARGS, RETURNS, CHEAP),
	CASE(short_endbr, 0, RETURNS, DEAR),
	CASE(short_xor, 0, NO_RETURN, DEAR),
};

static void test_cases(void **state)
{
	struct elf_file *elf;

	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	for (size_t i = 0; i < ARRAY_SIZE(site_cases); i++) {
		const struct site_case *c = &site_cases[i];
		struct elf_symbol sym;
		struct site site;
		uint64_t at;

		assert_int_equal(elf_find_symbol(elf, c->name, &sym), 0);
		site_choose(elf, &sym, c->regs, c->flags, &site);
		at = site.offset - sym.offset;
		if (site.cheap != c->cheap || at != (c->cheap ? (uint64_t)(c->site - c->entry) : 0))
			fail_msg("%s, regs 0x%x%s: +%d %s", c->name, c->regs,
				c->flags & RETURNS ? ", returns" : "", (int)at,
				site.cheap ? "cheap" : "dear");
	}
	elf_close(elf);
}

/* A probe on a nop of 5 bytes would damage the stack: it goes to the instruction after it, where that is as good. */
CODE(nop5, ".byte 0x0f, 0x1f, 0x44, 0, 0\n" SITE(nop5) "lea rax, [rdi + rsi]\n ret");
CODE(nop5_prefix, ".byte 0x66, 0x66, 0x66, 0x66, 0x90\n" SITE(nop5_prefix) "lea rax, [rdi + rsi]\n ret");
CODE(nop5_loop, SITE(nop5_loop) ".byte 0x0f, 0x1f, 0x44, 0, 0\n 1: dec edi\n jnz 1b\n ret");
CODE(nop6, SITE(nop6) ".byte 0x66, 0x0f, 0x1f, 0x44, 0, 0\n dec edi\n ret");

static const struct nop_case {
	const char *name, *entry, *site;
	bool nop5;
} nop_cases[] = {
	{ "nop5", nop5, nop5_site, false },
	{ "nop5_prefix", nop5_prefix, nop5_prefix_site, false },
	{ "nop5_loop", nop5_loop, nop5_loop_site, true },
	{ "nop6", nop6, nop6_site, false },
};

static void test_nops(void **state)
{
	struct elf_file *elf;

	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	for (size_t i = 0; i < ARRAY_SIZE(nop_cases); i++) {
		const struct nop_case *c = &nop_cases[i];
		struct elf_symbol sym;
		struct site site;

		assert_int_equal(elf_find_symbol(elf, c->name, &sym), 0);
		site_choose(elf, &sym, ALL_ARGS | SP, RETURNS, &site);
		if (site.offset - sym.offset != (uint64_t)(c->site - c->entry) || site_is_nop5(elf, site.offset) != c->nop5)
			fail_msg("%s: +%d", c->name, (int)(site.offset - sym.offset));
	}
	elf_close(elf);
}

/* Barriers: places where a thread knows whether it is the last to arrive. */
#define COUNT "mov r8d, 1\n lock xadd [rdi + 128], r8d\n"
CODE(arrive_jne, "endbr64\n cmp dword ptr [rdi], 1\n je 2f\n mov edx, [rdi + 192]\n" COUNT
		 "cmp esi, r8d\n" SITE(arrive_jne) "jne 1f\n jmp 3f\n 1: pause\n cmp edx, [rdi + 192]\n je 1b\n"
		 "2: ret\n 3: lock add dword ptr [rdi + 192], 1\n ret");
CODE(arrive_je, COUNT "inc r8d\n cmp r8d, [rdi + 8]\n" SITE(arrive_je) "je 2f\n 1: pause\n cmp edx, [rdi + 192]\n"
	"je 1b\n 2: ret");
CODE(arrive_far, COUNT "cmp esi, r8d\n" SITE(arrive_far) ".byte 0x0f, 0x85, 1, 0, 0, 0\n ret\n ret");
/* and places where it does not */
CODE(arrive_unlocked, SITE(arrive_unlocked) "mov r8d, 1\n xadd [rdi], r8d\n cmp esi, r8d\n jne 1f\n 1: ret");
CODE(arrive_uncounted, "mov r8d, [rdi]\n cmp esi, r8d\n" SITE(arrive_uncounted) "jne 1f\n inc eax\n 1: ret");
CODE(arrive_less, COUNT "cmp esi, r8d\n" SITE(arrive_less) "jg 1f\n 1: ret");
CODE(arrive_later, COUNT "cmp esi, r8d\n mov eax, 1\n" SITE(arrive_later) "jne 1f\n 1: ret");
CODE(arrive_moved, COUNT "mov rdi, rsi\n cmp esi, r8d\n" SITE(arrive_moved) "jne 1f\n 1: ret");
CODE(arrive_again, COUNT "cmp esi, r8d\n" SITE(arrive_again) "jne 1f\n ret\n 1: pause\n jmp arrive_again");

static const struct arrival_case {
	const char *name, *entry, *site;
	unsigned int flags;
	bool arrival;
} arrival_cases[] = {
#define ARRIVAL(name, flags, arrival)             \
	{                                         \
#name, name, name##_site, flags, arrival \
	}
	ARRIVAL(arrive_jne, 0, true),
	ARRIVAL(arrive_je, 0, true),
	ARRIVAL(arrive_far, 0, true),
	ARRIVAL(arrive_jne, SITE_READS_MEMORY, false), /* the count is in memory, too */
	ARRIVAL(arrive_unlocked, 0, false),
	ARRIVAL(arrive_uncounted, 0, false),
	ARRIVAL(arrive_less, 0, false),
	ARRIVAL(arrive_later, 0, false),
	ARRIVAL(arrive_moved, 0, false),
	ARRIVAL(arrive_again, 0, false),
};

static void test_arrivals(void **state)
{
	struct elf_file *elf;

	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	for (size_t i = 0; i < ARRAY_SIZE(arrival_cases); i++) {
		const struct arrival_case *c = &arrival_cases[i];
		unsigned int flags = RETURNS | PAST_TEST | c->flags;
		struct site site, without;
		struct elf_symbol sym;

		assert_int_equal(elf_find_symbol(elf, c->name, &sym), 0);
		site_choose(elf, &sym, ARG(1), flags | SITE_ARRIVAL, &site);
		site_choose(elf, &sym, ARG(1), flags, &without);
		assert_false(without.arrival);
		if (site.arrival != c->arrival)
			fail_msg("%s: %s", c->name, c->arrival ? "not found" : "found");
		if (c->arrival)
			assert_true(site.cheap && site.offset - sym.offset == (uint64_t)(c->site - c->entry));
		else /* as if it had not been asked for */
			assert_true(site.offset == without.offset && site.cheap == without.cheap);
	}
	elf_close(elf);
}

/* The way out: where a stack protector compares. The call stands for that of __stack_chk_fail(). */
#define CHECK "mov rax, [rsp + 8]\n sub rax, fs:0x28\n"
#define FAIL "9: call push_first\n"
CODE(exit_pops, "push rbx\n sub rsp, 24\n" CHECK SITE(exit_pops) "jne 9f\n add rsp, 24\n mov eax, 1\n pop rbx\n ret\n" FAIL);
CODE(exit_lea, "push rbp\n mov rbp, rsp\n push rbx\n sub rsp, 24\n" CHECK SITE(exit_lea) "jne 9f\n lea rsp, [rbp - 8]\n pop rbx\n"
	"pop rbp\n ret\n" FAIL);
CODE(exit_leave, "push rbp\n mov rbp, rsp\n" CHECK SITE(exit_leave) "jne 9f\n leave\n ret\n" FAIL);
CODE(exit_twice, "push rbx\n test edi, edi\n je 1f\n" CHECK SITE(exit_twice) "jne 9f\n pop rbx\n ret\n 1:" CHECK
	"jne 9f\n pop rbx\n ret\n" FAIL);
/* and those where a call could leave in another way, or the stack is not known */
CODE(exit_none, SITE(exit_none) "push rbx\n pop rbx\n ret");
CODE(exit_second, "push rbx\n test edi, edi\n je 1f\n" CHECK SITE(exit_second) "jne 9f\n pop rbx\n ret\n 1: pop rbx\n ret\n" FAIL);
CODE(exit_other_test, "push rbx\n test edi, edi\n" SITE(exit_other_test) "jne 9f\n pop rbx\n ret\n" FAIL);
CODE(exit_passed_by, "push rbx\n test edi, edi\n je 1f\n" CHECK SITE(exit_passed_by) "jne 9f\n 1: pop rbx\n ret\n" FAIL);
CODE(exit_tail, "push rbx\n test edi, edi\n je 1f\n" CHECK SITE(exit_tail) "jne 9f\n pop rbx\n ret\n 1: pop rbx\n jmp push_first\n" FAIL);
CODE(exit_tail_rax, "push rbx\n test edi, edi\n je 1f\n" CHECK SITE(exit_tail_rax) "jne 9f\n pop rbx\n ret\n 1: pop rbx\n jmp rax\n" FAIL);
CODE(exit_call, "push rbx\n" CHECK SITE(exit_call) "jne 9f\n call push_first\n pop rbx\n ret\n" FAIL);
CODE(exit_moved, "push rbx\n" CHECK SITE(exit_moved) "jne 9f\n mov rsp, rcx\n pop rbx\n ret\n" FAIL);
CODE(exit_bp_lost, "push rbp\n mov rbp, rsp\n" CHECK SITE(exit_bp_lost) "jne 9f\n mov rbp, rcx\n leave\n ret\n" FAIL);
CODE(exit_odd, "push rbx\n" CHECK SITE(exit_odd) "jne 9f\n add rsp, 3\n pop rbx\n ret\n" FAIL);
CODE(exit_ret_n, "push rbx\n" CHECK SITE(exit_ret_n) "jne 9f\n pop rbx\n ret 8\n" FAIL);
CODE(exit_undecodable, "push rbx\n" CHECK SITE(exit_undecodable) "jne 9f\n pop rbx\n ret\n" FAIL ".byte 0x06");

static const struct exit_case {
	const char *name, *entry, *site;
	int n;
	bool bp;
	unsigned int units;
} exit_cases[] = {
#define EXIT(name, n, bp, units)             \
	{                                    \
#name, name, name##_site, n, bp, units \
	}
	EXIT(exit_pops, 1, false, 4),
	EXIT(exit_lea, 1, true, 1),
	EXIT(exit_leave, 1, true, 1),
	EXIT(exit_twice, 2, false, 1),
	EXIT(exit_none, -ENOENT, false, 0),
	EXIT(exit_second, -ENOENT, false, 0),
	EXIT(exit_other_test, -ENOENT, false, 0),
	EXIT(exit_passed_by, -ENOENT, false, 0),
	EXIT(exit_tail, -ENOENT, false, 0),
	EXIT(exit_tail_rax, -ENOENT, false, 0),
	EXIT(exit_call, -ENOENT, false, 0),
	EXIT(exit_moved, -ENOENT, false, 0),
	EXIT(exit_bp_lost, -ENOENT, false, 0),
	EXIT(exit_odd, -ENOENT, false, 0),
	EXIT(exit_ret_n, -ENOENT, false, 0),
	EXIT(exit_undecodable, -ENOENT, false, 0),
};

/* Without a stack protector: the returns. */
CODE(return_one, "push rbx\n pop rbx\n" SITE(return_one) "ret");
CODE(return_two, "test edi, edi\n je 1f\n" SITE(return_two) "ret\n 1: push rbx\n pop rbx\n ret");
CODE(return_rep, "push rbx\n pop rbx\n" SITE(return_rep) "rep ret");
CODE(return_loop, "1: dec edi\n jmp 2f\n 2: jne 1b\n" SITE(return_loop) "ret");
CODE(return_cold, "test edi, edi\n jne push_first\n" SITE(return_cold) "ret");
CODE(return_tail, "test edi, edi\n je 1f\n" SITE(return_tail) "ret\n 1: jmp push_first");
CODE(return_tail_rax, "test edi, edi\n je 1f\n" SITE(return_tail_rax) "ret\n 1: jmp rax");
CODE(return_tail_memory, "test edi, edi\n je 1f\n" SITE(return_tail_memory) "ret\n 1: jmp [rax + 16]");
CODE(return_n, SITE(return_n) "ret 8");
CODE(return_never, SITE(return_never) "1: jmp 1b");
CODE(return_undecodable, SITE(return_undecodable) "ret\n .byte 0x06");
CODE(return_many, SITE(return_many) ".rept 9\n test edi, edi\n je 1f\n ret\n 1:\n .endr\n ret");

static const struct exit_case return_cases[] = {
	EXIT(return_one, 1, false, 0),
	EXIT(return_two, 2, false, 0),
	EXIT(return_rep, 1, false, 0),
	EXIT(return_loop, 1, false, 0),
	EXIT(return_cold, 1, false, 0),
	EXIT(return_tail, -ENOENT, false, 0),
	EXIT(return_tail_rax, -ENOENT, false, 0),
	EXIT(return_tail_memory, -ENOENT, false, 0),
	EXIT(return_n, -ENOENT, false, 0),
	EXIT(return_never, -ENOENT, false, 0),
	EXIT(return_undecodable, -ENOENT, false, 0),
	EXIT(return_many, -ENOENT, false, 0),
};

static void test_returns(void **state)
{
	struct elf_file *elf;

	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	for (size_t i = 0; i < ARRAY_SIZE(return_cases); i++) {
		const struct exit_case *c = &return_cases[i];
		struct site sites[SITE_EXITS_MAX];
		struct elf_symbol sym;
		int n;

		assert_int_equal(elf_find_symbol(elf, c->name, &sym), 0);
		n = site_returns(elf, &sym, sites);
		if (n != c->n)
			fail_msg("%s: %d", c->name, n);
		if (n > 0 && (sites[0].offset - sym.offset != (uint64_t)(c->site - c->entry) || sites[0].exit_bp || sites[0].exit_units ||
				     sites[0].cheap || !sites[0].exit))
			fail_msg("%s: +%d", c->name, (int)(sites[0].offset - sym.offset));
	}
	elf_close(elf);
}

static void test_exits(void **state)
{
	struct elf_file *elf;

	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	for (size_t i = 0; i < ARRAY_SIZE(exit_cases); i++) {
		const struct exit_case *c = &exit_cases[i];
		struct site sites[SITE_EXITS_MAX];
		struct elf_symbol sym;
		int n;

		assert_int_equal(elf_find_symbol(elf, c->name, &sym), 0);
		n = site_exits(elf, &sym, sites);
		if (n != c->n)
			fail_msg("%s: %d", c->name, n);
		if (n < 0)
			continue;
		if (sites[0].offset - sym.offset != (uint64_t)(c->site - c->entry) || sites[0].exit_bp != c->bp ||
			sites[0].exit_units != c->units || !sites[0].cheap || !sites[0].exit)
			fail_msg("%s: +%d, %u", c->name, (int)(sites[0].offset - sym.offset), sites[0].exit_units);
	}
	elf_close(elf);
}

/* Instructions that change one argument register, before a push: a good site for all others. */
#define CHANGE(name, instruction) CODE(name, instruction "\n" SITE(name) "push rbx\n ret")

CHANGE(change_rdi, "mov rdi, [rsi]");
CHANGE(change_edi, "xor edi, edi");
CHANGE(change_di, "mov di, 1");
CHANGE(change_dil, "sete dil");
CHANGE(change_esi, "movzx esi, al");
CHANGE(change_esi_cond, "cmove esi, eax");
CHANGE(change_esi_swap, "bswap esi");
CHANGE(change_esi_lods, "lodsd");
CHANGE(change_edx, "cdq");
CHANGE(change_rdx_mul, "mul rdi");
CHANGE(change_rdx_div, "div rdi");
CHANGE(change_dl, "mov dl, 1");
CHANGE(change_dh, "mov dh, 1");
CHANGE(change_rcx, "lea rcx, [rdi + 8]");
CHANGE(change_ecx_cpuid, "cpuid");
CHANGE(change_cl, "inc cl");
CHANGE(change_ch, "dec ch");
CHANGE(change_ecx_lzcnt, "lzcnt ecx, eax");
CHANGE(change_r8, "xchg r8, rax");
CHANGE(change_r8_second, "xchg rax, r8");
CHANGE(change_r8d, "movd r8d, xmm0");
CHANGE(change_r8b, "not r8b");
CHANGE(change_r9, "imul r9, rdi, 3");
CHANGE(change_r9w, "neg r9w");
CHANGE(change_r9_pop, "pop r9");
CHANGE(change_r9_xadd, "xadd rax, r9");

static const struct change {
	const char *name;
	int arg;
} changes[] = {
	{ "change_rdi", 1 },
	{ "change_edi", 1 },
	{ "change_di", 1 },
	{ "change_dil", 1 },
	{ "change_esi", 2 },
	{ "change_esi_cond", 2 },
	{ "change_esi_swap", 2 },
	{ "change_esi_lods", 2 },
	{ "change_edx", 3 },
	{ "change_rdx_mul", 3 },
	{ "change_rdx_div", 3 },
	{ "change_dl", 3 },
	{ "change_dh", 3 },
	{ "change_rcx", 4 },
	{ "change_ecx_cpuid", 4 },
	{ "change_cl", 4 },
	{ "change_ch", 4 },
	{ "change_ecx_lzcnt", 4 },
	{ "change_r8", 5 },
	{ "change_r8_second", 5 },
	{ "change_r8d", 5 },
	{ "change_r8b", 5 },
	{ "change_r9", 6 },
	{ "change_r9w", 6 },
	{ "change_r9_pop", 6 },
	{ "change_r9_xadd", 6 },
};

static void test_changed_arguments(void **state)
{
	struct elf_file *elf;

	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		const struct change *c = &changes[i];
		struct elf_symbol sym;
		struct site site;

		assert_int_equal(elf_find_symbol(elf, c->name, &sym), 0);
		site_choose(elf, &sym, ARG(c->arg), false, &site);
		if (site.cheap || site.offset != sym.offset)
			fail_msg("%s: arg%d is not what it was", c->name, c->arg);
		/* cpuid, for example, changes others, too */
		site_choose(elf, &sym, ARG(1) & ~ARG(c->arg), false, &site);
		if (!site.cheap || site.offset == sym.offset)
			fail_msg("%s: nobody asked for arg%d", c->name, c->arg);
	}
	elf_close(elf);
}

/* ---- any function of the C library ---- */

struct walk {
	struct elf_file *elf;
	unsigned int n, cheap, late;
};

/* An independent reading of arch/x86/kernel/uprobes.c. */
static bool is_emulated(const uint8_t *b)
{
	if (b[0] == 0x41)
		return b[1] >= 0x50 && b[1] <= 0x57;
	if (b[0] == 0x0f)
		return b[1] >= 0x80 && b[1] <= 0x8f;
	return (b[0] >= 0x50 && b[0] <= 0x57) || (b[0] >= 0x70 && b[0] <= 0x7f) || b[0] == 0x90 ||
	       b[0] == 0xe8 || b[0] == 0xe9 || b[0] == 0xeb;
}

static int check_function(const struct elf_symbol *sym, void *arg)
{
	struct walk *w = arg;
	uint8_t code[8] = {};
	struct site with, without;

	if (w->n++ % 5)
		return 0;
	site_choose(w->elf, sym, ALL_ARGS, true, &with);
	site_choose(w->elf, sym, 0, false, &without);
	/* asking for less never makes it dearer */
	assert_true(without.cheap >= with.cheap);
	if (with.cheap)
		assert_int_equal(without.offset, with.offset);
	else
		assert_int_equal(with.offset, sym->offset);
	if (!without.cheap) {
		assert_int_equal(without.offset, sym->offset);
		return 0;
	}
	w->cheap++;
	w->late += without.offset > sym->offset + 4;
	assert_true(without.offset >= sym->offset && without.offset < sym->offset + 64);
	assert_true(!sym->size || without.offset < sym->offset + sym->size);
	assert_int_equal(elf_read_at_offset(w->elf, without.offset, code, sizeof(code)), 0);
	assert_true(is_emulated(code));
	return 0;
}

static void test_libc(void **state)
{
	struct walk w = {};
	void *handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	Dl_info info;

	assert_non_null(handle);
	assert_int_not_equal(dladdr(dlsym(handle, "getppid"), &info), 0);
	assert_int_equal(elf_open(info.dli_fname, &w.elf), 0);
	assert_true(elf_match_symbols(w.elf, "*", check_function, &w) > 1000);
	/* most functions begin with a push, and some only branch */
	assert_true(w.cheap > 20 && w.late > 5);
	elf_close(w.elf);
	dlclose(handle);
}

#endif

/* A symbol that lies about itself: the entry, whatever it is. */
static void test_forged_symbol(void **state)
{
	static const struct elf_symbol forged[] = {
		{ .name = "behind the end", .offset = UINT64_MAX / 2, .size = 64 },
		{ .name = "wraps", .offset = UINT64_MAX - 3, .size = 64 },
		{ .name = "large", .offset = 0, .vaddr = UINT64_MAX - 2, .size = UINT64_MAX },
		{ .name = "empty", .offset = UINT64_MAX - 3, .size = 0 },
	};
	struct elf_file *elf;

	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	for (size_t i = 0; i < ARRAY_SIZE(forged); i++) {
		struct site site;

		site_choose(elf, &forged[i], 0, false, &site);
		assert_int_equal(site.offset, forged[i].offset);
	}
	elf_close(elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef __x86_64__
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_nops),
		cmocka_unit_test(test_arrivals),
		cmocka_unit_test(test_exits),
		cmocka_unit_test(test_returns),
		cmocka_unit_test(test_changed_arguments),
		cmocka_unit_test(test_libc),
#endif
		cmocka_unit_test(test_forged_symbol),
	};

#ifndef __x86_64__
	puts("skip test_site - sites behind the entry are chosen on x86_64 only");
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
