// SPDX-License-Identifier: BSD-2-Clause
/*
 * USDT probes: argument strings of both architectures, the table for BPF made of them, and notes, both this program's and
 * forged ones.
 */
#include "elf_image.h"
#include "engine/spec.h"
#include "target/usdt.h"

#define NONE REG_NONE

/* Places in struct pt_regs, from the kernel's include/uapi/asm/ptrace.h. */
enum {
	R15,
	R14,
	R13,
	R12,
	RBP,
	RBX,
	R11,
	R10,
	R9,
	R8,
	RAX,
	RCX,
	RDX,
	RSI,
	RDI,
	ORIG_RAX,
	RIP,
	CS,
	FLAGS,
	RSP,
};
#define ARM64_SP 31

#define FORM "it is not written in a known form"
#define FLOAT "it is in a floating-point register, which no probe can read"
#define SYMBOL "it is in a variable that the file does not name, or names twice"
#define LARGE "it is larger than 8 bytes"

/* ---- argument strings ---- */

struct arg_case {
	const char *text;
	struct usdt_arg arg;
};

#define REG_ARG(s, sign, r)                                                              \
	{                                                                                \
		.place = USDT_REG, .size = s, .is_signed = sign, .reg = r, .index = NONE \
	}
#define MEM_ARG(s, sign, r, off)                                                          \
	{                                                                                 \
		.place = USDT_MEM, .size = s, .is_signed = sign, .reg = r, .index = NONE, \
		.value = off                                                              \
	}
#define INDEX_ARG(s, r, i, sh, off)                                                           \
	{                                                                                     \
		.place = USDT_MEM, .size = s, .reg = r, .index = i, .shift = sh, .value = off \
	}
#define CONST_ARG(s, sign, v)                                                                  \
	{                                                                                      \
		.place = USDT_CONST, .size = s, .is_signed = sign, .reg = NONE, .index = NONE, \
		.value = v                                                                     \
	}
static const struct arg_case x86_cases[] = {
	{ "8@%rax", REG_ARG(8, false, RAX) },
	{ "-8@%rbx", REG_ARG(8, true, RBX) },
	{ "-4@%ecx", REG_ARG(4, true, RCX) },
	{ "2@%dx", REG_ARG(2, false, RDX) },
	{ "-1@%sil", REG_ARG(1, true, RSI) },
	{ "1@%dil", REG_ARG(1, false, RDI) },
	{ "8@%rbp", REG_ARG(8, false, RBP) },
	{ "8@%rsp", REG_ARG(8, false, RSP) },
	{ "4@%r8d", REG_ARG(4, false, R8) },
	{ "2@%r9w", REG_ARG(2, false, R9) },
	{ "1@%r10b", REG_ARG(1, false, R10) },
	{ "8@%r11", REG_ARG(8, false, R11) },
	{ "8@%r12", REG_ARG(8, false, R12) },
	{ "8@%r13", REG_ARG(8, false, R13) },
	{ "8@%r14", REG_ARG(8, false, R14) },
	{ "8@%r15", REG_ARG(8, false, R15) },
	{ "8f@%rax", REG_ARG(8, false, RAX) },
	{ "-4f@%eax", REG_ARG(4, true, RAX) },
	/* bits 8 to 15 */
	{ "1@%ah", { .place = USDT_REG, .size = 1, .reg = RAX, .index = NONE, .value = 8 } },
	{ "1@%bh", { .place = USDT_REG, .size = 1, .reg = RBX, .index = NONE, .value = 8 } },
	{ "8@(%rax)", MEM_ARG(8, false, RAX, 0) },
	{ "-4@-20(%rbp)", MEM_ARG(4, true, RBP, -20) },
	{ "8@0x10(%rsp)", MEM_ARG(8, false, RSP, 16) },
	{ "8@8+16(%rsp)", MEM_ARG(8, false, RSP, 24) },
	{ "8@-8+4(%rsp)", MEM_ARG(8, false, RSP, -4) },
	{ "4@4202532", MEM_ARG(4, false, NONE, 4202532) },
	{ "8@(%rax,%rbx)", INDEX_ARG(8, RAX, RBX, 0, 0) },
	{ "8@(%rax,%rbx,8)", INDEX_ARG(8, RAX, RBX, 3, 0) },
	{ "2@-6(%rsp,%rcx,2)", INDEX_ARG(2, RSP, RCX, 1, -6) },
	{ "8@16(,%r12,4)", INDEX_ARG(8, NONE, R12, 2, 16) },
	{ "-4@$5", CONST_ARG(4, true, 5) },
	{ "-4@$-6", CONST_ARG(4, true, -6) },
	{ "8@$0xffffffffffffffff", CONST_ARG(8, false, -1) },
	{ "8@$-9223372036854775808", CONST_ARG(8, false, INT64_MIN) },
	{ "8@8 (%rax)", MEM_ARG(8, false, NONE, 8) }, /* ends at the blank */
};

static const struct arg_case arm64_cases[] = {
	{ "8@x0", REG_ARG(8, false, 0) },
	{ "-4@x7", REG_ARG(4, true, 7) },
	{ "-4@w8", REG_ARG(4, true, 8) },
	{ "8@x30", REG_ARG(8, false, 30) },
	{ "8@sp", REG_ARG(8, false, ARM64_SP) },
	{ "8@xzr", CONST_ARG(8, false, 0) },
	{ "4@wzr", CONST_ARG(4, false, 0) },
	{ "8@5", CONST_ARG(8, false, 5) },
	{ "-4@-5", CONST_ARG(4, true, -5) },
	{ "-4@#-5", CONST_ARG(4, true, -5) },
	{ "8@[sp]", MEM_ARG(8, false, ARM64_SP, 0) },
	{ "-4@[sp, 12]", MEM_ARG(4, true, ARM64_SP, 12) },
	{ "-4@[x29, -12]", MEM_ARG(4, true, 29, -12) },
	{ "-4@[x29, #-12]", MEM_ARG(4, true, 29, -12) },
	{ "-4@[x29,20]", MEM_ARG(4, true, 29, 20) },
	{ "8@[x0, x1]", INDEX_ARG(8, 0, 1, 0, 0) },
	{ "8@[x0, x1, lsl 3]", INDEX_ARG(8, 0, 1, 3, 0) },
	{ "8@[x0, x1, lsl #3]", INDEX_ARG(8, 0, 1, 3, 0) },
};

/* Arguments that no probe can read, or that are malformed. */
static const struct {
	int machine;
	const char *why;
	const char *texts[40];
} bad_args[] = {
	{ EM_X86_64, FLOAT, { "8f@%xmm0", "8@%xmm15", "8@%ymm1", "8@%st(0)" } },
	{ EM_X86_64, LARGE, { "10@%st(0)", "16@(%rax)", "3@(%rax)", "0@(%rax)" } },
	{ EM_X86_64, SYMBOL, { "8@sym(%rip)", "8@sym", "8@.LC0+4(%rip)", "8@sym@GOTPCREL(%rip)", "8@rax" } },
	{ EM_X86_64, FORM,
		{ "8@$sym", "%rax", "8@", "8", "@%rax", "8g@%rax", "8@%", "8@%rip", "8@%raxx", "8@%rax,",
			"8@%fs:16", "8@8(%rip)", "8@(%rip)", "8@()", "8@(%rax", "8@(%rax)8", "8@(%ah)",
			"8@(%rax,%rbx,3)", "8@(%rax,%rbx,16)", "8@(%rax,%rbx,)", "8@(%rax,8)", "8@(%rax,%rip)",
			"8@8-(%rax)", "8@8x(%rax)", "8@--8(%rax)", "4@$", "4@$5x", "4@$99999999999999999999" } },
	{ EM_AARCH64, FLOAT, { "8f@d0", "4f@s15", "8@v1" } },
	{ EM_AARCH64, FORM,
		{ "8@x31", "8@x", "8@x1y", "8@[xzr]", "8@[x0", "8@[x0, 8", "8@[x0, ]", "8@[x0, #:lo12:sym]",
			"8@[x0, w1, sxtw 3]", "8@[x0, x1, lsl 4]", "8@[x0, 8]x", "8@[]", "8@" } },
	{ EM_AARCH64, LARGE, { "16@[x0]" } },
};

static const struct usdt_arg *parse_one(int machine, const char *text)
{
	static struct usdt_arg args[USDT_ARGS_MAX];

	if (!usdt_parse_args(NULL, machine, 0x1000, text, args))
		fail_msg("'%s': no argument", text);
	return &args[0];
}

static void check_args(int machine, const struct arg_case *cases, size_t n)
{
	for (const struct arg_case *c = cases; c < cases + n; c++) {
		const struct usdt_arg *want = &c->arg, *a = parse_one(machine, c->text);

		if (a->place != want->place)
			fail_msg("'%s': place %d, not %d", c->text, a->place, want->place);
		if (a->size != want->size || a->is_signed != want->is_signed || a->value != want->value)
			fail_msg("'%s': size %d, signed %d, value %ld", c->text, a->size, a->is_signed,
				(long)a->value);
		if (a->place != USDT_CONST &&
			(a->reg != want->reg || a->index != want->index || a->shift != want->shift))
			fail_msg("'%s': register %d, index %d << %d", c->text, a->reg, a->index, a->shift);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad_args); i++) {
		for (const char *const *text = bad_args[i].texts; bad_args[i].machine == machine && *text; text++) {
			const struct usdt_arg *a = parse_one(machine, *text);

			if (a->place != USDT_NOWHERE || !a->why || strcmp(a->why, bad_args[i].why))
				fail_msg("'%s': place %d, %s", *text, a->place, a->why ? a->why : "(no reason)");
		}
	}
}

TEST(test_args_x86)
{
	check_args(EM_X86_64, x86_cases, ARRAY_SIZE(x86_cases));
}

TEST(test_args_arm64)
{
	check_args(EM_AARCH64, arm64_cases, ARRAY_SIZE(arm64_cases));
}

TEST(test_several_args)
{
	struct usdt_arg args[USDT_ARGS_MAX];

	assert_int_equal(usdt_parse_args(NULL, EM_X86_64, 0, "", args), 0);
	assert_int_equal(usdt_parse_args(NULL, EM_X86_64, 0, "  ", args), 0);
	assert_int_equal(usdt_parse_args(NULL, EM_X86_64, 0, " -4@%edi  8@junk( 4@$5 ", args), 3);
	assert_int_equal(args[0].place, USDT_REG);
	assert_int_equal(args[1].place, USDT_NOWHERE);
	assert_int_equal(args[2].place, USDT_CONST);
	assert_int_equal(usdt_parse_args(NULL, EM_AARCH64, 0,
				 "-4@[sp, 12] 8@x1 4@[x2, x3, lsl 2] 1@3", args),
		4);
	assert_int_equal(args[0].value, 12);
	assert_int_equal(args[1].reg, 1);
	assert_int_equal(args[2].shift, 2);
	assert_int_equal(args[3].value, 3);
	/* as many as there is room for */
	assert_int_equal(
		usdt_parse_args(NULL, EM_X86_64, 0,
			"1@$1 1@$2 1@$3 1@$4 1@$5 1@$6 1@$7 1@$8 1@$9 1@$10 1@$11 1@$12 1@$13",
			args),
		12);
	assert_int_equal(args[11].value, 12);
}

/* ---- what becomes of them ---- */

struct place_case {
	const char *expr, *args;
	struct fetch fetch;
	const char *why; /* NULL: not refused */
};

#define F_CONST FETCH_F_CONST
#define F_SIGNED FETCH_F_SIGNED
#define F_STRING FETCH_F_STRING

static const struct place_case place_cases[] = {
	{ "s32 arg1", "-4@%edi", .fetch = { .reg = RDI, .size = 4, .flags = F_SIGNED } },
	/* the narrower of both, with its sign */
	{ "s64 arg1", "-4@%edi", .fetch = { .reg = RDI, .size = 4, .flags = F_SIGNED } },
	{ "s64 arg1", "4@%edi", .fetch = { .reg = RDI, .size = 4 } },
	{ "u64 arg1", "-4@%edi", .fetch = { .reg = RDI, .size = 4, .flags = F_SIGNED } },
	{ "u8 arg1", "-4@%edi", .fetch = { .reg = RDI, .size = 1 } },
	{ "u32 arg1", "-4@%edi", .fetch = { .reg = RDI, .size = 4 } },
	{ "u8 arg1", "1@%ah", .fetch = { .reg = RAX, .size = 1, .off = { 8 } } },
	{ "f64 arg1", "8f@%rax", .fetch = { .reg = RAX, .size = 8 } },
	{ "f32 arg1", "4f@-4(%rbp)", .fetch = { .reg = RBP, .derefs = 1, .size = 4, .off = { -4 } } },
	{ "u64 arg2", "1@$1 8@8(%rsp)", .fetch = { .reg = RSP, .derefs = 1, .size = 8, .off = { 8 } } },
	{ "u16 arg1", "8@(%rax,%rcx,8)", .fetch = { .reg = RAX, .derefs = 1, .size = 2, .index = RCX + 1, .shift = 3 } },
	{ "u8 arg1", "1@(,%r15,2)", .fetch = { .reg = NONE, .derefs = 1, .size = 1, .index = R15 + 1, .shift = 1 } },
	{ "u32 *(arg1+8)", "8@%rdi", .fetch = { .reg = RDI, .derefs = 1, .size = 4, .off = { 8 } } },
	{ "u32 *(arg1+8)", "8@-16(%rbp)", .fetch = { .reg = RBP, .derefs = 2, .size = 4, .off = { -16, 8 } } },
	{ "s16 *(*(*(arg1+1)+2)+3)", "8@4(%rbp)",
		.fetch = { .reg = RBP, .derefs = 4, .size = 2, .flags = F_SIGNED, .off = { 4, 1, 2, 3 } } },
	/* strings: the last slots are theirs */
	{ "str arg1", "8@%rsi", .fetch = { .reg = RSI, .size = 8, .flags = F_STRING } },
	{ "str arg1", "8@-8(%rbp)", .fetch = { .reg = RBP, .derefs = 2, .size = 8, .flags = F_STRING, .off = { -8, 0 } } },
	{ "str *(arg1+256)", "8@-8(%rbp)",
		.fetch = { .reg = RBP, .derefs = 2, .size = 8, .flags = F_STRING, .off = { -8, 256 } } },
	{ "str arg1", "8@$4198400", .fetch = { .reg = NONE, .size = 8, .flags = F_STRING | F_CONST, .off = { 4198400 } } },
	/* constants are made here */
	{ "s32 arg1", "-4@$-6", .fetch = { .reg = NONE, .size = 4, .flags = F_SIGNED | F_CONST, .off = { -6, -1 } } },
	{ "u8 arg1", "1@$-6", .fetch = { .reg = NONE, .size = 1, .flags = F_CONST, .off = { 250 } } },
	{ "u64 arg1", "1@$-6", .fetch = { .reg = NONE, .size = 1, .flags = F_CONST, .off = { 250 } } },
	{ "s64 arg1", "-8@$0x123456789abcdef0",
		.fetch = { .reg = NONE, .size = 8, .flags = F_SIGNED | F_CONST, .off = { (int32_t)0x9abcdef0, 0x12345678 } } },
	{ "u32 *(arg1+4)", "8@$4198400", .fetch = { .reg = NONE, .derefs = 1, .size = 4, .off = { 4198404 } } },
	/* refused */
	{ "u8 arg2", "1@$1", .why = "the probe has no such argument here" },
	{ "u8 arg1", "", .why = "the probe has no such argument here" },
	{ "f64 arg1", "8f@%xmm0", .why = FLOAT },
	{ "u64 arg1", "8@sym(%rip)", .why = SYMBOL },
	{ "u8 *(arg1)", "4@%edi", .why = "it is not a pointer" },
	{ "str arg1", "-4@%edi", .why = "it is not a pointer" },
	{ "f32 arg1", "8f@%rax", .why = "it has a different size" },
	{ "f64 arg1", "4f@%eax", .why = "it has a different size" },
	{ "f64 arg1", "-4@$1", .why = "it has a different size" },
	{ "u8 *(arg1)", "8@$0x80000000", .why = "it is an address that is too large" },
	{ "u8 *(arg1+1)", "8@$0x7fffffffffffffff", .why = "it is an address that is too large" },
	{ "u8 arg1", "8@0x80000000(%rax)", .why = "its variable is too far away" },
};

TEST(test_places)
{
	for (size_t i = 0; i < ARRAY_SIZE(place_cases); i++) {
		static const struct fetch untouched = { .reg = 0x55 };
		const struct place_case *c = &place_cases[i];
		struct usdt_note note = { .name = "p:n" };
		struct fetch parsed, fetch = untouched;
		struct probe_arg arg;
		const char *why;
		int err;

		note.n_args = usdt_parse_args(NULL, EM_X86_64, 0, c->args, note.args);
		assert_int_equal(fetch_parse(c->expr, NULL, 0, true, &parsed, &arg, &why), 0);
		err = fetch_place(&parsed, &arg, &note, &fetch, &why);
		if (err != (c->why ? -EINVAL : 0) || (c->why && strcmp(why, c->why)))
			fail_msg("%s of '%s': %d %s", c->expr, c->args, err, err ? why : "");
		if (memcmp(&fetch, c->why ? &untouched : &c->fetch, sizeof(fetch)))
			fail_msg("%s of '%s': wrong table", c->expr, c->args);
	}
}

TEST(test_expressions)
{
	static const char no_arg[] = "not an argument of a USDT probe (arg1 to arg12)";
	static const struct {
		const char *text, *why;
	} bads[] = { { "u8 arg0", no_arg }, { "u8 arg13", no_arg }, { "u8 arg", no_arg }, { "u8 arg1x", no_arg },
		{ "u8 arg-1", no_arg }, { "u8 sp", no_arg }, { "u8 *(sp+8)", no_arg },
		{ "u8 arg1>>8", "text after the expression" }, { "u8 *(*(*(*(arg1))))", "more than three loads" } };
	struct probe_arg arg;
	struct fetch f;
	const char *why;

	for (size_t i = 0; i < ARRAY_SIZE(bads); i++) {
		if (fetch_parse(bads[i].text, NULL, 0, true, &f, &arg, &why) != -EINVAL ||
			strcmp(why, bads[i].why))
			fail_msg("'%s': %s", bads[i].text, why);
	}
	for (unsigned int n = 1; n <= 12; n++) {
		char text[32];

		snprintf(text, sizeof(text), "f32 *(arg%u)", n);
		assert_int_equal(fetch_parse(text, NULL, 0, true, &f, &arg, &why), 0);
		assert_int_equal(f.reg, FETCH_USDT_ARG | (n - 1));
		assert_true(arg.is_float);
		assert_int_equal(arg.size, 4);
	}
}

/* ---- notes of this program, as sys/sdt.h writes them ---- */

int test_usdt_variable __attribute__((used)) = 5;
unsigned short test_usdt_semaphore __attribute__((used, section(".probes")));

#define NOTE(name, label, semaphore, args)           \
	".pushsection .note.stapsdt,\"\",\"note\"\n" \
	".balign 4\n"                                \
	".4byte 992f-991f, 994f-993f, 3\n"           \
	"991: .asciz \"stapsdt\"\n"                  \
	"992: .balign 4\n"                           \
	"993: .8byte " label "\n"                    \
	".8byte _.stapsdt.base\n"                    \
	".8byte " semaphore "\n"                     \
	".asciz \"test\"\n"                          \
	".asciz \"" name "\"\n"                      \
	".asciz \"" args "\"\n"                      \
	"994: .balign 4\n"                           \
	".popsection\n"

__attribute__((noinline, noclone, used)) static void fire(void)
{
	__asm__ volatile("test_usdt_first: nop\n"
			 "test_usdt_second: nop\n"
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
			 ".weak _.stapsdt.base\n"
			 ".hidden _.stapsdt.base\n"
			 "_.stapsdt.base: .space 1\n"
			 ".popsection\n"
#ifdef __x86_64__
		NOTE("two", "test_usdt_second", "test_usdt_semaphore",
			"4@test_usdt_variable(%rip) -8@$-3") NOTE("two", "test_usdt_first",
			"test_usdt_semaphore", "4@test_usdt_variable+4(%rip) -8@%rax")
#else
		NOTE("two", "test_usdt_second", "test_usdt_semaphore", "4@[x0] -8@-3")
			NOTE("two", "test_usdt_first", "test_usdt_semaphore", "4@[x0, 4] -8@x1")
#endif
			NOTE("one", "test_usdt_first", "0", ""));
}

struct seen {
	struct elf_file *elf;
	unsigned int n;
	struct usdt_note notes[4];
	char names[4][16];
};

static int on_note(const struct usdt_note *note, void *arg)
{
	struct seen *s = arg;

	assert_true(s->n < 4);
	assert_true(strlen(note->name) < sizeof(s->names[0]));
	strcpy(s->names[s->n], note->name);
	s->notes[s->n++] = *note;
	return 0;
}

static uint64_t symbol_offset(struct elf_file *elf, uint64_t vaddr)
{
	uint64_t offset = 0;

	assert_int_equal(elf_vaddr_to_offset(elf, vaddr, &offset), 0);
	return offset;
}

TEST(test_own_notes)
{
	struct elf_symbol variable, semaphore, function;
	struct seen s = {};

	fire();
	assert_int_equal(elf_open("/proc/self/exe", &s.elf), 0);
	assert_int_equal(elf_find_object(s.elf, "test_usdt_variable", &variable), 0);
	assert_int_equal(elf_find_object(s.elf, "test_usdt_semaphore", &semaphore), 0);
	assert_int_equal(elf_find_symbol(s.elf, "fire", &function), 0);
	assert_int_equal(usdt_each(s.elf, "test:*", on_note, &s), 3);
	assert_string_equal(s.names[0], "test:one"); /* by offset, then by name */
	assert_string_equal(s.names[1], "test:two");
	assert_string_equal(s.names[2], "test:two");
	assert_int_equal(s.notes[0].vaddr, s.notes[1].vaddr);
	assert_true(s.notes[2].vaddr > s.notes[1].vaddr);
	assert_true(s.notes[0].vaddr >= function.vaddr &&
		    s.notes[2].vaddr < function.vaddr + function.size);
	assert_int_equal(s.notes[0].offset, symbol_offset(s.elf, s.notes[0].vaddr));
	assert_int_equal(s.notes[0].semaphore, 0);
	assert_int_equal(s.notes[1].semaphore, symbol_offset(s.elf, semaphore.vaddr));
	assert_int_equal(s.notes[2].semaphore, s.notes[1].semaphore);
	assert_int_equal(s.notes[0].n_args, 0);
	assert_int_equal(s.notes[1].n_args, 2);
	assert_int_equal(s.notes[2].args[1].value, -3);
#ifdef __x86_64__
	assert_int_equal(s.notes[2].args[0].reg, RIP);
	assert_int_equal(s.notes[2].args[0].value, (int64_t)(variable.vaddr - s.notes[2].vaddr));
	assert_int_equal(
		s.notes[1].args[0].value, (int64_t)(variable.vaddr + 4 - s.notes[1].vaddr));
#endif
	s.n = 0;
	assert_int_equal(usdt_each(s.elf, "test:two", on_note, &s), 2);
	assert_int_equal(usdt_each(s.elf, "two", on_note, &s), 0);
	assert_int_equal(usdt_each(s.elf, "other:*", on_note, &s), 0);
	elf_close(s.elf);
}

static int stop_at_once(const struct usdt_note *note, void *arg)
{
	++*(int *)arg;
	return -EXDEV;
}

TEST(test_stop)
{
	struct elf_file *elf;
	int calls = 0;

	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	assert_int_equal(usdt_each(elf, "*", stop_at_once, &calls), -EXDEV);
	assert_int_equal(calls, 1);
	elf_close(elf);
}

/* ---- forged notes ---- */

#define TEXT_AT 0x1000
#define TEXT_SIZE 0x100

struct image {
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	Elf64_Shdr sh[4];
	char names[64];
	char notes[1024];
	char text[TEXT_SIZE];
};

static void image_init(struct image *m)
{
	static const char names[] = "\0.note.stapsdt\0.stapsdt.base\0.shstrtab";

	memset(m, 0, sizeof(*m));
	m->eh = elf_header(offsetof(struct image, ph), 1, offsetof(struct image, sh), 4, 3);
	m->ph = elf_segment(PT_LOAD, PF_R | PF_X, TEXT_AT, offsetof(struct image, text), TEXT_SIZE, 0);
	m->sh[1] = elf_section(1, SHT_NOTE, 0, offsetof(struct image, notes), 0, 0, 0);
	m->sh[2] = elf_section(15, SHT_PROGBITS, TEXT_AT + 0x80, offsetof(struct image, text) + 0x80, 1, 0, 0);
	m->sh[3] = elf_section(29, SHT_STRTAB, 0, offsetof(struct image, names), sizeof(names), 0, 0);
	memcpy(m->names, names, sizeof(names));
}

/* Appends a note; strings: "provider\0name\0args", len bytes of it with the last NUL. */
static Elf64_Nhdr *image_add(struct image *m, uint64_t location, uint64_t base, uint64_t semaphore,
	const char *strings, size_t len)
{
	char *p = m->notes + m->sh[1].sh_size;
	uint64_t addrs[] = { location, base, semaphore };
	Elf64_Nhdr nh = {
		.n_namesz = 8, .n_descsz = (Elf64_Word)(sizeof(addrs) + len), .n_type = 3
	};
	size_t size = sizeof(nh) + 8 + ((nh.n_descsz + 3) & ~3u);

	assert_true(m->sh[1].sh_size + size <= sizeof(m->notes));
	memcpy(p, &nh, sizeof(nh));
	memcpy(p + sizeof(nh), "stapsdt", 8);
	memcpy(p + sizeof(nh) + 8, addrs, sizeof(addrs));
	memcpy(p + sizeof(nh) + 8 + sizeof(addrs), strings, len);
	m->sh[1].sh_size += size;
	return (Elf64_Nhdr *)p;
}

#define ADD(m, location, base, semaphore, strings) \
	image_add(m, location, base, semaphore, strings, sizeof(strings))

static int image_each(const struct image *m, struct seen *s)
{
	int err;

	*s = (struct seen){};
	assert_int_equal(elf_open_fd(file_of(m, sizeof(*m)), &s->elf), 0);
	err = usdt_each(s->elf, "*", on_note, s);
	elf_close(s->elf);
	return err;
}

TEST(test_forged_good)
{
	struct image m;
	struct seen s;

	image_init(&m);
	assert_int_equal(image_each(&m, &s), 0); /* an empty section */
	ADD(&m, TEXT_AT + 8, TEXT_AT + 0x80, TEXT_AT + 0x40, "p\0second\0-4@%edi");
	ADD(&m, TEXT_AT + 4, TEXT_AT + 0x80, 0, "p\0first\0");
	ADD(&m, TEXT_AT + 4, TEXT_AT + 0x80, 0, "p\0first\0"); /* twice the same */
	/* linked for another address, and moved here */
	ADD(&m, 0x400000 + 12, 0x400000 + 0x80, 0x400000 + 0x44, "p\0moved\0");
	assert_int_equal(image_each(&m, &s), 3);
	assert_string_equal(s.names[0], "p:first");
	assert_string_equal(s.names[1], "p:second");
	assert_int_equal(s.notes[1].offset, offsetof(struct image, text) + 8);
	assert_int_equal(s.notes[1].semaphore, offsetof(struct image, text) + 0x40);
	assert_int_equal(s.notes[1].n_args, 1);
	assert_string_equal(s.names[2], "p:moved");
	assert_int_equal(s.notes[2].vaddr, TEXT_AT + 12);
	assert_int_equal(s.notes[2].semaphore, offsetof(struct image, text) + 0x44);
	/* without .stapsdt.base nothing was moved */
	m.sh[2].sh_name = 0;
	assert_int_equal(image_each(&m, &s), 2);
}

TEST(test_forged_left_out)
{
	char strings[300] = "p\0n";
	struct image m;
	struct seen s;

	image_init(&m);
	ADD(&m, TEXT_AT + TEXT_SIZE, TEXT_AT + 0x80, 0, "p\0behind\0");
	ADD(&m, 0, TEXT_AT + 0x80, 0, "p\0null\0");
	ADD(&m, UINT64_MAX, TEXT_AT + 0x80, 0, "p\0last\0");
	ADD(&m, TEXT_AT, TEXT_AT + 0x80, TEXT_AT + 0x41, "p\0odd\0");
	ADD(&m, TEXT_AT, TEXT_AT + 0x80, 0x9000, "p\0lost\0");
	ADD(&m, TEXT_AT, TEXT_AT + 0x80, 0, "\0n\0");
	ADD(&m, TEXT_AT, TEXT_AT + 0x80, 0, "p\0\0");
	ADD(&m, TEXT_AT, TEXT_AT + 0x80, 0, "p\0a\x1b[1m\0");
	ADD(&m, TEXT_AT, TEXT_AT + 0x80, 0, "p\0a b\0");
	image_add(&m, TEXT_AT, TEXT_AT + 0x80, 0, "p\0cut", 5); /* no NUL */
	image_add(&m, TEXT_AT, TEXT_AT + 0x80, 0, "p\0n", 4);   /* no arguments */
	ADD(&m, TEXT_AT, TEXT_AT + 0x80, 0, "p\0type\0")->n_type = 4;
	memcpy((char *)ADD(&m, TEXT_AT, TEXT_AT + 0x80, 0, "p\0owner\0") + 12, "stapsdT", 8);
	assert_int_equal(image_each(&m, &s), 0);
	/* one name is as long as can be, the next too long */
	for (int n = USDT_NAME_MAX - 2; n <= USDT_NAME_MAX - 1; n++) {
		image_init(&m);
		memset(strings + 2, 'n', (size_t)n);
		memset(strings + 2 + n, 0, 2);
		image_add(&m, TEXT_AT, TEXT_AT + 0x80, 0, strings, (size_t)n + 4);
		m.text[0] = 0;
		s = (struct seen){};
		assert_true(n == USDT_NAME_MAX - 2 || image_each(&m, &s) == 0);
	}
}

TEST(test_forged_bad)
{
	static const uint32_t huge[] = { 0xffffffff, 0xfffffffc, 0x7fffffff, 4096 };
	struct image good, m;
	struct seen s;

	image_init(&good);
	ADD(&good, TEXT_AT, TEXT_AT + 0x80, 0, "p\0n\0");
	assert_int_equal(image_each(&good, &s), 1);
	for (size_t i = 0; i < ARRAY_SIZE(huge); i++) {
		m = good;
		((Elf64_Nhdr *)m.notes)->n_namesz = huge[i];
		assert_int_equal(image_each(&m, &s), -EBADMSG);
		m = good;
		((Elf64_Nhdr *)m.notes)->n_descsz = huge[i];
		assert_int_equal(image_each(&m, &s), -EBADMSG);
	}
	/* every cut */
	for (uint64_t n = 0; n < good.sh[1].sh_size - 3; n++) {
		m = good;
		m.sh[1].sh_size = n;
		assert_true(image_each(&m, &s) <= 0);
	}
#define EXPECT(error, change)                                \
	do {                                                 \
		m = good;                                    \
		change;                                      \
		assert_int_equal(image_each(&m, &s), error); \
	} while (0)
	EXPECT(-EBADMSG, m.sh[1].sh_size = UINT64_MAX);
	EXPECT(-EBADMSG, m.sh[1].sh_size = 5u << 20);
	EXPECT(-EBADMSG, m.sh[1].sh_offset = sizeof(m) - 4);
	EXPECT(-EBADMSG, m.sh[1].sh_flags = SHF_COMPRESSED);
	EXPECT(-EBADMSG, m.sh[3].sh_size = UINT64_MAX);
	EXPECT(0, m.sh[1].sh_name = 0xffffffff); /* has no such section */
#undef EXPECT
}

RUN_TESTS(NULL, NULL)
