// SPDX-License-Identifier: BSD-2-Clause
/* Where probes go: functions written by hand, and all of the C library. */
#include <dlfcn.h>

#include "probe.h"
#include "target/elf.h"
#include "target/site.h"
#include "unit.h"

#ifdef __x86_64__

/*
 * CODE(name, body): a function that is never run, with the cheapest instruction at the label NAME_site. The rule is the
 * kernel's: it emulates push, nop, call, jmp and jcc.
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

struct site_case {
	const char *name, *entry, *site;
	uint32_t regs;
	unsigned int flags;
	bool found; /* a cheap place, an arrival, a nop of 5 bytes */
	int n;      /* exits, and what is known of the stack there */
	bool bp;
	unsigned int units;
};

/* Puts a case into a list for EACH(). */
#define ENTRY_NAME(line) case_of_line_##line
#define ENTRY_AT(line, list, function, ...)                                                                              \
	static const struct site_case *const ENTRY_NAME(line) __attribute__((section(#list), used)) =                    \
		&(const struct site_case){ .name = #function, .entry = function, .site = function##_site, __VA_ARGS__ }; \
	extern const struct site_case *const __start_##list[], *const __stop_##list[]
#define ENTRY_LINE(line, ...) ENTRY_AT(line, __VA_ARGS__)
#define ENTRY(...) ENTRY_LINE(__LINE__, __VA_ARGS__)
#define EACH(list, check) each_case(__start_##list, __stop_##list, check)

static void each_case(const struct site_case *const *from, const struct site_case *const *to,
	void (*check)(struct elf_file *elf, const struct site_case *c, const struct elf_symbol *sym))
{
	struct elf_file *elf;

	assert_true(from < to);
	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	for (; from < to; from++) {
		struct elf_symbol sym;

		assert_int_equal(elf_find_symbol(elf, (*from)->name, &sym), 0);
		check(elf, *from, &sym);
	}
	elf_close(elf);
}

#define ARG(n) (1u << (REG_ARG1 + (n)-1))
#define ALL_ARGS (ARG(1) | ARG(2) | ARG(3) | ARG(4) | ARG(5) | ARG(6))
#define SP (1u << REG_SP)

#define RETURNS SITE_RETURNS
#define NO_RETURN 0
#define MEMORY SITE_READS_MEMORY
#define PAST_TEST SITE_PAST_EARLY_RETURN
#define CHEAP true
#define DEAR false

#define CASE(function, regs_, flags_, cheap, body) \
	CODE(function, body);                      \
	ALSO_CASE(function, regs_, flags_, cheap)
#define ALSO_CASE(function, regs_, flags_, cheap) ENTRY(choices, function, .regs = regs_, .flags = flags_, .found = cheap)

/* at the entry, and after endbr64 */
CASE(push_first, ALL_ARGS | SP, RETURNS, CHEAP, SITE(push_first) "push rbx\n pop rbx\n ret");
CASE(push_high, ALL_ARGS | SP, RETURNS, CHEAP, SITE(push_high) "push r12\n pop r12\n ret");
CASE(push_endbr, ALL_ARGS | SP, RETURNS, CHEAP, "endbr64\n" SITE(push_endbr) "push rbp\n mov rbp, rsp\n pop rbp\n ret");
CASE(push_high_endbr, ALL_ARGS | SP, RETURNS, CHEAP, "endbr64\n" SITE(push_high_endbr) "push r15\n pop r15\n ret");
CASE(call_endbr, ALL_ARGS | SP, RETURNS, CHEAP, "endbr64\n" SITE(call_endbr) "call push_first\n ret");
CASE(stub, ALL_ARGS | SP, RETURNS, CHEAP, SITE(stub) "jmp push_first");
CASE(stub_endbr, ALL_ARGS | SP, RETURNS, CHEAP, "endbr64\n" SITE(stub_endbr) "jmp push_first");
CASE(stub_indirect, 0, NO_RETURN, DEAR, SITE(stub_indirect) "endbr64\n jmp [rip + 64]\n push rbx");
CASE(only_ret, 0, NO_RETURN, DEAR, SITE(only_ret) "ret");
CASE(only_nop, ALL_ARGS | SP, RETURNS, CHEAP, SITE(only_nop) "nop");
CASE(early_ret, 0, NO_RETURN, DEAR, SITE(early_ret) "endbr64\n ret\n push rbx\n ret");
/* only new kernels emulate longer nops */
CASE(long_nop, ALL_ARGS | SP, RETURNS, CHEAP, ".byte 0x66, 0x90\n" SITE(long_nop) "push rbx\n ret");

/* a branch on the way in, the stack untouched */
CASE(load_je, ALL_ARGS | SP, RETURNS, CHEAP,
	"endbr64\n mov eax, [rdi]\n test eax, eax\n" SITE(load_je) "je 1f\n inc eax\n 1: ret");
CASE(far_je, ALL_ARGS | SP, RETURNS, CHEAP, "test edi, edi\n" SITE(far_je) ".byte 0x0f, 0x84, 0, 0, 0, 0\n ret");
CASE(compare_je, ALL_ARGS | SP, RETURNS, CHEAP,
	"endbr64\n cmp dword ptr [rsi + 8], 0\n" SITE(compare_je) "jne 1f\n ret\n 1: ret");
CASE(test_js, ALL_ARGS | SP, RETURNS, CHEAP, "test byte ptr [rsi], 1\n" SITE(test_js) "jnz 1f\n 1: ret");
CASE(add_je, ALL_ARGS | SP, RETURNS, CHEAP, "mov eax, 1\n add eax, [rsi]\n" SITE(add_je) "je 1f\n 1: ret");

/* frames */
CASE(sub_frame, ALL_ARGS, NO_RETURN, CHEAP, "sub rsp, 24\n mov [rsp + 8], rdi\n" SITE(sub_frame) "call push_first\n ret");
ALSO_CASE(sub_frame, ALL_ARGS, RETURNS, DEAR);
ALSO_CASE(sub_frame, ALL_ARGS | SP, NO_RETURN, DEAR);
CASE(realigned, ALL_ARGS, NO_RETURN, CHEAP,
	"lea r10, [rsp + 8]\n and rsp, -32\n push [r10 - 8]\n" SITE(realigned) "push rbp\n mov rbp, rsp\n ret");
ALSO_CASE(realigned, 0, RETURNS, DEAR);
ALSO_CASE(realigned, SP, NO_RETURN, DEAR);
CASE(push_memory, 0, RETURNS, DEAR, "push [rdi]\n" SITE(push_memory) "push rbx\n ret");
CASE(push_number, ALL_ARGS, NO_RETURN, CHEAP, "push 5\n" SITE(push_number) "push rbx\n ret");
ALSO_CASE(push_number, 0, RETURNS, DEAR);
CASE(enter_frame, 0, RETURNS, DEAR, "enter 16, 0\n" SITE(enter_frame) "push rbx\n ret");
CASE(popped, 0, RETURNS, DEAR, "pop rax\n" SITE(popped) "push rax\n ret");
ALSO_CASE(popped, SP, NO_RETURN, DEAR);

/* stores that may hit an argument in memory */
CASE(store, ARG(2), MEMORY, DEAR, "mov [rsi], eax\n" SITE(store) "push rbx\n ret");
ALSO_CASE(store, 0, RETURNS, CHEAP);
ALSO_CASE(store, ARG(2), RETURNS, CHEAP);
CASE(store_sse, ARG(2), MEMORY, DEAR, "movups [rsi], xmm0\n" SITE(store_sse) "push rbx\n ret");
CASE(store_add, ARG(2), MEMORY, DEAR, "add dword ptr [rsi], 1\n" SITE(store_add) "push rbx\n ret");
CASE(store_inc, ARG(2), MEMORY, DEAR, "inc dword ptr [rax]\n" SITE(store_inc) "push rbx\n ret");
CASE(store_xchg, ARG(2), MEMORY, DEAR, "xchg eax, [rsi]\n" SITE(store_xchg) "push rbx\n ret");
CASE(store_xadd, ARG(2), MEMORY, DEAR, "lock xadd [rsi], eax\n" SITE(store_xadd) "push rbx\n ret");
CASE(store_cmpxchg, ARG(2), MEMORY, DEAR, "lock cmpxchg [rsi], ecx\n" SITE(store_cmpxchg) "push rbx\n ret");
CASE(store_string, ARG(2), MEMORY, DEAR, "stosd\n" SITE(store_string) "push rbx\n ret");
CASE(store_setcc, ARG(2), MEMORY, DEAR, "sete [rsi]\n" SITE(store_setcc) "push rbx\n ret");
CASE(store_global, ARG(2), MEMORY, DEAR, "mov [rip + 64], eax\n" SITE(store_global) "push rbx\n ret");
/* r10 and rbp point wherever the caller left them */
CASE(store_r10, ARG(2), MEMORY, DEAR, "mov r10, rsi\n mov [r10 + 80], eax\n" SITE(store_r10) "push rbx\n ret");
CASE(store_rbp, ARG(2), MEMORY, DEAR, "mov [rbp - 8], eax\n" SITE(store_rbp) "push rbx\n ret");
CASE(store_index, ARG(2), MEMORY, DEAR, "mov [rsp + rsi], eax\n" SITE(store_index) "push rbx\n ret");

/* jumps back */
CASE(loop_start, 0, NO_RETURN, DEAR, "test rdi, rdi\n" SITE(loop_start) "je 1f\n dec rdi\n jmp loop_start\n 1: ret");
CASE(loop_way, 0, NO_RETURN, DEAR, "endbr64\n 1: test rdi, rdi\n" SITE(loop_way) "je 2f\n mov rdi, [rdi]\n jmp 1b\n 2: ret");
CASE(loop_site, 0, NO_RETURN, DEAR, "xor eax, eax\n" SITE(loop_site) "1: je 2f\n dec edi\n jmp 1b\n 2: ret");
CASE(loop_far, 0, NO_RETURN, DEAR, "xor eax, eax\n" SITE(loop_far) "1: je 2f\n .skip 300, 0x90\n jmp 1b\n 2: ret");
CASE(loop_rcx, 0, NO_RETURN, DEAR, "xor eax, eax\n" SITE(loop_rcx) "1: je 2f\n 2: loop 1b\n ret");
CASE(loop_over, 0, NO_RETURN, DEAR, "xor eax, eax\n loop 1f\n" SITE(loop_over) "push rbx\n 1: ret");
/* each recursion is a call of its own */
CASE(recursion, 0, RETURNS, CHEAP, "xor eax, eax\n" SITE(recursion) "je 1f\n call recursion\n 1: ret");
CASE(loop_behind, 0, RETURNS, CHEAP, "xor eax, eax\n" SITE(loop_behind) "je 2f\n 1: dec edi\n jnz 1b\n 2: ret");
CASE(loop_endbr, 0, RETURNS, DEAR, "endbr64\n" SITE(loop_endbr) "1: nop\n dec edi\n jnz 1b\n ret");
CASE(loop_endbr_behind, 0, RETURNS, CHEAP, "endbr64\n" SITE(loop_endbr_behind) "nop\n 1: dec edi\n jnz 1b\n ret");
/* the entry itself is where a probe would sit in any case */
CASE(loop_entry, 0, RETURNS, CHEAP, SITE(loop_entry) "1: nop\n dec edi\n jnz 1b\n ret");

/* a test for calls with nothing to do, first the barrier of llama.cpp */
CASE(early_barrier, ARG(1), RETURNS | PAST_TEST, CHEAP,
	"endbr64\n mov eax, [rdi + 104]\n cmp ax, 1\n je 1f\n mov r8d, 1\n"
	"lock xadd [rdi + 128], r8d\n cmp r8d, eax\n" SITE(early_barrier) "jne 2f\n jmp 3f\n"
									  "2: pause\n cmp edx, [rdi]\n je 2b\n 1: ret\n 3: ret");
CASE(early_seen, 0, RETURNS, CHEAP, "test edi, edi\n" SITE(early_seen) "je 1f\n mov eax, 1\n push rbx\n pop rbx\n 1: ret");
CASE(early_twice, ALL_ARGS, RETURNS | PAST_TEST, CHEAP,
	"test edi, edi\n je 1f\n test esi, esi\n je 1f\n mov eax, 1\n" SITE(early_twice) "call push_first\n 1: ret");
CASE(early_sp, ALL_ARGS, RETURNS | PAST_TEST, CHEAP,
	"test edi, edi\n" SITE(early_sp) "je 1f\n sub rsp, 8\n call push_first\n add rsp, 8\n 1: ret");
CASE(early_none, ALL_ARGS, RETURNS | PAST_TEST, CHEAP, "test edi, edi\n" SITE(early_none) "je 1f\n mov eax, 1\n 1: ret");
/* the other way has work to do */
CASE(early_work, ALL_ARGS, RETURNS | PAST_TEST, CHEAP,
	"test edi, edi\n" SITE(early_work) "je 1f\n push rbx\n pop rbx\n 1: mov eax, 1\n ret");
CASE(early_loop, ALL_ARGS, RETURNS | PAST_TEST, CHEAP, "test edi, edi\n" SITE(early_loop) "je 1f\n dec edi\n 2: jnz 2b\n 1: ret");
CASE(early_stub, ALL_ARGS, RETURNS | PAST_TEST, CHEAP,
	"test edi, edi\n" SITE(early_stub) "je push_first\n push rbx\n pop rbx\n ret");

/* code that cannot be searched */
CASE(undecodable, 0, NO_RETURN, DEAR, "xor eax, eax\n" SITE(undecodable) "push rbx\n ret\n .byte 0x06, 0x06");
CASE(undecodable_endbr, ALL_ARGS, RETURNS, CHEAP, "endbr64\n" SITE(undecodable_endbr) "push rbx\n ret\n .byte 0x06, 0x06");
CASE(large, 0, NO_RETURN, DEAR, "xor eax, eax\n" SITE(large) "push rbx\n .skip 4091, 0x90\n .skip 100, 0x90\n jmp large_site");
CASE(large_endbr, ALL_ARGS, RETURNS, CHEAP, "endbr64\n" SITE(large_endbr) "push rbx\n .skip 5000, 0x90\n ret");
CASE(far_site, 0, NO_RETURN, DEAR, ".rept 13\n mov eax, 0x12345678\n .endr\n" SITE(far_site) "push rbx\n ret");
CODE_SIZED(unsized, 0, "xor eax, eax\n" SITE(unsized) "push rbx\n dec edi\n jnz unsized_site\n ret");
ALSO_CASE(unsized, 0, NO_RETURN, DEAR);
CODE_SIZED(unsized_endbr, 0, "endbr64\n" SITE(unsized_endbr) "push rbx\n pop rbx\n ret");
ALSO_CASE(unsized_endbr, ALL_ARGS, RETURNS, CHEAP);
/* what follows the end of a function belongs to another one */
CODE_SIZED(short_endbr, 4, "endbr64\n" SITE(short_endbr) "push rbx\n pop rbx\n ret\n nop\n nop");
ALSO_CASE(short_endbr, 0, RETURNS, DEAR);
CODE_SIZED(short_xor, 2, "xor eax, eax\n" SITE(short_xor) "push rbx\n pop rbx\n ret\n nop\n nop\n nop");
ALSO_CASE(short_xor, 0, NO_RETURN, DEAR);

static void check_choice(struct elf_file *elf, const struct site_case *c, const struct elf_symbol *sym)
{
	struct site site;
	uint64_t at;

	site_choose(elf, sym, c->regs, c->flags, &site);
	at = site.offset - sym->offset;
	if (site.cheap != c->found || at != (c->found ? (uint64_t)(c->site - c->entry) : 0))
		fail_msg("%s, regs 0x%x%s: +%d %s", c->name, c->regs, c->flags & RETURNS ? ", returns" : "", (int)at,
			site.cheap ? "cheap" : "dear");
}

TEST(test_cases)
{
	EACH(choices, check_choice);
}

/* A probe on a 5-byte nop would damage the stack: it goes to the next instruction, where that is as good. */
#define NOP(name, nop5, body) \
	CODE(name, body);     \
	ENTRY(nops, name, .found = nop5)
NOP(nop5, false, ".byte 0x0f, 0x1f, 0x44, 0, 0\n" SITE(nop5) "lea rax, [rdi + rsi]\n ret");
NOP(nop5_prefix, false, ".byte 0x66, 0x66, 0x66, 0x66, 0x90\n" SITE(nop5_prefix) "lea rax, [rdi + rsi]\n ret");
NOP(nop5_loop, true, SITE(nop5_loop) ".byte 0x0f, 0x1f, 0x44, 0, 0\n 1: dec edi\n jnz 1b\n ret");
NOP(nop6, false, SITE(nop6) ".byte 0x66, 0x0f, 0x1f, 0x44, 0, 0\n dec edi\n ret");

static void check_nop(struct elf_file *elf, const struct site_case *c, const struct elf_symbol *sym)
{
	struct site site;

	site_choose(elf, sym, ALL_ARGS | SP, RETURNS, &site);
	if (site.offset - sym->offset != (uint64_t)(c->site - c->entry) || site_is_nop5(elf, site.offset) != c->found)
		fail_msg("%s: +%d", c->name, (int)(site.offset - sym->offset));
}

TEST(test_nops)
{
	EACH(nops, check_nop);
}

/* Barriers: places where a thread knows whether it is the last to arrive. */
#define ARRIVAL(function, flags_, arrival, body) \
	CODE(function, body);                    \
	ALSO_ARRIVAL(function, flags_, arrival)
#define ALSO_ARRIVAL(function, flags_, arrival) ENTRY(arrivals, function, .flags = flags_, .found = arrival)
#define COUNT "mov r8d, 1\n lock xadd [rdi + 128], r8d\n"
ARRIVAL(arrive_jne, 0, true,
	"endbr64\n cmp dword ptr [rdi], 1\n je 2f\n mov edx, [rdi + 192]\n" COUNT "cmp esi, r8d\n" SITE(arrive_jne) "jne 1f\n jmp 3f\n 1: pause\n cmp edx, [rdi + 192]\n je 1b\n"
														    "2: ret\n 3: lock add dword ptr [rdi + 192], 1\n ret");
ALSO_ARRIVAL(arrive_jne, SITE_READS_MEMORY, false); /* the count is in memory, too */
ARRIVAL(arrive_je, 0, true,
	COUNT "inc r8d\n cmp r8d, [rdi + 8]\n" SITE(arrive_je) "je 2f\n 1: pause\n cmp edx, [rdi + 192]\n"
							       "je 1b\n 2: ret");
ARRIVAL(arrive_far, 0, true, COUNT "cmp esi, r8d\n" SITE(arrive_far) ".byte 0x0f, 0x85, 1, 0, 0, 0\n ret\n ret");
/* and places where it does not know */
ARRIVAL(arrive_unlocked, 0, false, SITE(arrive_unlocked) "mov r8d, 1\n xadd [rdi], r8d\n cmp esi, r8d\n jne 1f\n 1: ret");
ARRIVAL(arrive_uncounted, 0, false, "mov r8d, [rdi]\n cmp esi, r8d\n" SITE(arrive_uncounted) "jne 1f\n inc eax\n 1: ret");
ARRIVAL(arrive_less, 0, false, COUNT "cmp esi, r8d\n" SITE(arrive_less) "jg 1f\n 1: ret");
ARRIVAL(arrive_later, 0, false, COUNT "cmp esi, r8d\n mov eax, 1\n" SITE(arrive_later) "jne 1f\n 1: ret");
ARRIVAL(arrive_moved, 0, false, COUNT "mov rdi, rsi\n cmp esi, r8d\n" SITE(arrive_moved) "jne 1f\n 1: ret");
ARRIVAL(arrive_again, 0, false, COUNT "cmp esi, r8d\n" SITE(arrive_again) "jne 1f\n ret\n 1: pause\n jmp arrive_again");

static void check_arrival(struct elf_file *elf, const struct site_case *c, const struct elf_symbol *sym)
{
	unsigned int flags = RETURNS | PAST_TEST | c->flags;
	struct site site, without;

	site_choose(elf, sym, ARG(1), flags | SITE_ARRIVAL, &site);
	site_choose(elf, sym, ARG(1), flags, &without);
	assert_false(without.arrival);
	if (site.arrival != c->found)
		fail_msg("%s: %s", c->name, c->found ? "not found" : "found");
	if (c->found)
		assert_true(site.cheap && site.offset - sym->offset == (uint64_t)(c->site - c->entry));
	else /* as if it had not been asked for */
		assert_true(site.offset == without.offset && site.cheap == without.cheap);
}

TEST(test_arrivals)
{
	EACH(arrivals, check_arrival);
}

/* The exit: where a stack protector compares. The call stands for __stack_chk_fail(). */
#define EXIT(name, n_, bp_, units_, body) \
	CODE(name, body);                 \
	ENTRY(exits, name, .n = n_, .bp = bp_, .units = units_)
#define CHECK "mov rax, [rsp + 8]\n sub rax, fs:0x28\n"
#define FAIL "9: call push_first\n"
EXIT(exit_pops, 1, false, 4,
	"push rbx\n sub rsp, 24\n" CHECK SITE(exit_pops) "jne 9f\n add rsp, 24\n mov eax, 1\n pop rbx\n ret\n" FAIL);
EXIT(exit_lea, 1, true, 1,
	"push rbp\n mov rbp, rsp\n push rbx\n sub rsp, 24\n" CHECK SITE(exit_lea) "jne 9f\n lea rsp, [rbp - 8]\n pop rbx\n"
										  "pop rbp\n ret\n" FAIL);
EXIT(exit_leave, 1, true, 1, "push rbp\n mov rbp, rsp\n" CHECK SITE(exit_leave) "jne 9f\n leave\n ret\n" FAIL);
EXIT(exit_twice, 2, false, 1,
	"push rbx\n test edi, edi\n je 1f\n" CHECK SITE(exit_twice) "jne 9f\n pop rbx\n ret\n 1:" CHECK
								    "jne 9f\n pop rbx\n ret\n" FAIL);
/* and exits that a call may bypass, or with an unknown stack */
EXIT(exit_none, -ENOENT, false, 0, SITE(exit_none) "push rbx\n pop rbx\n ret");
EXIT(exit_second, -ENOENT, false, 0,
	"push rbx\n test edi, edi\n je 1f\n" CHECK SITE(exit_second) "jne 9f\n pop rbx\n ret\n 1: pop rbx\n ret\n" FAIL);
EXIT(exit_other_test, -ENOENT, false, 0, "push rbx\n test edi, edi\n" SITE(exit_other_test) "jne 9f\n pop rbx\n ret\n" FAIL);
EXIT(exit_passed_by, -ENOENT, false, 0,
	"push rbx\n test edi, edi\n je 1f\n" CHECK SITE(exit_passed_by) "jne 9f\n 1: pop rbx\n ret\n" FAIL);
EXIT(exit_tail, -ENOENT, false, 0,
	"push rbx\n test edi, edi\n je 1f\n" CHECK SITE(exit_tail) "jne 9f\n pop rbx\n ret\n 1: pop rbx\n jmp push_first\n" FAIL);
EXIT(exit_tail_rax, -ENOENT, false, 0,
	"push rbx\n test edi, edi\n je 1f\n" CHECK SITE(exit_tail_rax) "jne 9f\n pop rbx\n ret\n 1: pop rbx\n jmp rax\n" FAIL);
EXIT(exit_call, -ENOENT, false, 0, "push rbx\n" CHECK SITE(exit_call) "jne 9f\n call push_first\n pop rbx\n ret\n" FAIL);
EXIT(exit_moved, -ENOENT, false, 0, "push rbx\n" CHECK SITE(exit_moved) "jne 9f\n mov rsp, rcx\n pop rbx\n ret\n" FAIL);
EXIT(exit_bp_lost, -ENOENT, false, 0,
	"push rbp\n mov rbp, rsp\n" CHECK SITE(exit_bp_lost) "jne 9f\n mov rbp, rcx\n leave\n ret\n" FAIL);
EXIT(exit_odd, -ENOENT, false, 0, "push rbx\n" CHECK SITE(exit_odd) "jne 9f\n add rsp, 3\n pop rbx\n ret\n" FAIL);
EXIT(exit_ret_n, -ENOENT, false, 0, "push rbx\n" CHECK SITE(exit_ret_n) "jne 9f\n pop rbx\n ret 8\n" FAIL);
EXIT(exit_undecodable, -ENOENT, false, 0, "push rbx\n" CHECK SITE(exit_undecodable) "jne 9f\n pop rbx\n ret\n" FAIL ".byte 0x06");

static void check_ways(const struct site_case *c, const struct elf_symbol *sym, int n, const struct site *sites, bool cheap)
{
	if (n != c->n)
		fail_msg("%s: %d", c->name, n);
	if (n > 0 && (sites[0].offset - sym->offset != (uint64_t)(c->site - c->entry) || sites[0].exit_bp != c->bp ||
			     sites[0].exit_units != c->units || sites[0].cheap != cheap || !sites[0].exit))
		fail_msg("%s: +%d, %u", c->name, (int)(sites[0].offset - sym->offset), sites[0].exit_units);
}

static void check_exits(struct elf_file *elf, const struct site_case *c, const struct elf_symbol *sym)
{
	struct site sites[SITE_EXITS_MAX];

	check_ways(c, sym, site_exits(elf, sym, sites), sites, true);
}

TEST(test_exits)
{
	EACH(exits, check_exits);
}

/* Without a stack protector: the returns. */
#define RETURN(name, n_, bp_, units_, body) \
	CODE(name, body);                   \
	ENTRY(returns, name, .n = n_, .bp = bp_, .units = units_)
RETURN(return_one, 1, false, 0, "push rbx\n pop rbx\n" SITE(return_one) "ret");
RETURN(return_two, 2, false, 0, "test edi, edi\n je 1f\n" SITE(return_two) "ret\n 1: push rbx\n pop rbx\n ret");
RETURN(return_rep, 1, false, 0, "push rbx\n pop rbx\n" SITE(return_rep) "rep ret");
RETURN(return_loop, 1, false, 0, "1: dec edi\n jmp 2f\n 2: jne 1b\n" SITE(return_loop) "ret");
RETURN(return_cold, 1, false, 0, "test edi, edi\n jne push_first\n" SITE(return_cold) "ret");
RETURN(return_tail, -ENOENT, false, 0, "test edi, edi\n je 1f\n" SITE(return_tail) "ret\n 1: jmp push_first");
RETURN(return_tail_rax, -ENOENT, false, 0, "test edi, edi\n je 1f\n" SITE(return_tail_rax) "ret\n 1: jmp rax");
RETURN(return_tail_memory, -ENOENT, false, 0, "test edi, edi\n je 1f\n" SITE(return_tail_memory) "ret\n 1: jmp [rax + 16]");
RETURN(return_n, -ENOENT, false, 0, SITE(return_n) "ret 8");
RETURN(return_never, -ENOENT, false, 0, SITE(return_never) "1: jmp 1b");
RETURN(return_undecodable, -ENOENT, false, 0, SITE(return_undecodable) "ret\n .byte 0x06");
RETURN(return_many, -ENOENT, false, 0, SITE(return_many) ".rept 9\n test edi, edi\n je 1f\n ret\n 1:\n .endr\n ret");

static void check_returns(struct elf_file *elf, const struct site_case *c, const struct elf_symbol *sym)
{
	struct site sites[SITE_EXITS_MAX];

	check_ways(c, sym, site_returns(elf, sym, sites), sites, false);
}

TEST(test_returns)
{
	EACH(returns, check_returns);
}

/* Instructions that change one argument register, before a push: a good site for all others. */
#define CHANGE(name, arg, instruction)                            \
	CODE(name, instruction "\n" SITE(name) "push rbx\n ret"); \
	ENTRY(changes, name, .regs = ARG(arg))

CHANGE(change_rdi, 1, "mov rdi, [rsi]");
CHANGE(change_edi, 1, "xor edi, edi");
CHANGE(change_di, 1, "mov di, 1");
CHANGE(change_dil, 1, "sete dil");
CHANGE(change_esi, 2, "movzx esi, al");
CHANGE(change_esi_cond, 2, "cmove esi, eax");
CHANGE(change_esi_swap, 2, "bswap esi");
CHANGE(change_esi_lods, 2, "lodsd");
CHANGE(change_edx, 3, "cdq");
CHANGE(change_rdx_mul, 3, "mul rdi");
CHANGE(change_rdx_div, 3, "div rdi");
CHANGE(change_dl, 3, "mov dl, 1");
CHANGE(change_dh, 3, "mov dh, 1");
CHANGE(change_rcx, 4, "lea rcx, [rdi + 8]");
CHANGE(change_ecx_cpuid, 4, "cpuid");
CHANGE(change_cl, 4, "inc cl");
CHANGE(change_ch, 4, "dec ch");
CHANGE(change_ecx_lzcnt, 4, "lzcnt ecx, eax");
CHANGE(change_r8, 5, "xchg r8, rax");
CHANGE(change_r8_second, 5, "xchg rax, r8");
CHANGE(change_r8d, 5, "movd r8d, xmm0");
CHANGE(change_r8b, 5, "not r8b");
CHANGE(change_r9, 6, "imul r9, rdi, 3");
CHANGE(change_r9w, 6, "neg r9w");
CHANGE(change_r9_pop, 6, "pop r9");
CHANGE(change_r9_xadd, 6, "xadd rax, r9");

static void check_change(struct elf_file *elf, const struct site_case *c, const struct elf_symbol *sym)
{
	struct site site;

	site_choose(elf, sym, c->regs, false, &site);
	if (site.cheap || site.offset != sym->offset)
		fail_msg("%s: the argument is not what it was", c->name);
	/* cpuid, for example, changes others, too */
	site_choose(elf, sym, ARG(1) & ~c->regs, false, &site);
	if (!site.cheap || site.offset == sym->offset)
		fail_msg("%s: nobody asked for the argument", c->name);
}

TEST(test_changed_arguments)
{
	EACH(changes, check_change);
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

TEST(test_libc)
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
TEST(test_forged_symbol)
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
#ifndef __x86_64__
	puts("skip test_site - sites behind the entry are chosen on x86_64 only");
#endif
	return unit_tests_run(NULL, NULL);
}
