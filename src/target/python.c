// SPDX-License-Identifier: BSD-2-Clause
#include "target/python.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe.h"
#include "target/code.h"
#include "target/file.h"
#include "target/process.h"
#include "target/usdt.h"
#include "util/alloc.h"

/* The newest files that were read: interpreters are few, and other programs are read only once while they are among
 * these. */
#define FILES_MAX 64

/* Present in all versions: it is in the code, so the mapping that has it gives the load bias. */
#define CODE_SYMBOL "_PyEval_EvalFrameDefault"

/* Addresses are as linked. */
struct python_file {
	uint64_t dev, ino;
	bool python;
	unsigned int major, minor; /* 0: the file does not say */
	struct elf_symbol code;	   /* without its name */
	struct elf_symbol runtime; /* without its name */
	uint64_t type_code, type_str, type_bytes, type_int;
};

struct python_finder {
	struct python_file files[FILES_MAX];
	unsigned int next;
};

struct python_finder *python_finder_new(void)
{
	return xcalloc(1, sizeof(struct python_finder));
}

void python_finder_free(struct python_finder *f)
{
	free(f);
}

static uint64_t object_find_address(struct elf_file *elf, const char *name)
{
	struct elf_symbol sym;

	return elf_find_object(elf, name, &sym) ? 0 : sym.vaddr;
}

/* PY_VERSION_HEX, which is a constant in the file from 3.11 on; 0: it is not known. */
static uint64_t read_version(struct elf_file *elf)
{
	struct elf_symbol sym;
	uint64_t version;

	if (elf_find_object(elf, "Py_Version", &sym) || !sym.offset || elf_read_at_offset(elf, sym.offset, &version, sizeof(version)))
		return 0;
	return version;
}

/* "/usr/bin/python3.9", "/usr/lib/libpython3.9.so.1.0" */
static void python_parse_name(const char *path, struct python_file *f)
{
	const char *p = strstr(basename(path), "python");
	unsigned int major, minor;

	if (p && sscanf(p, "python%2u.%2u", &major, &minor) == 2) {
		f->major = major;
		f->minor = minor;
	}
}

static bool may_be_python(struct elf_file *elf, const char *path)
{
	uint64_t vaddr;
	size_t len;
	void *data;
	int err;

	if (strstr(basename(path), "python"))
		return true;
	/* the section exists from 3.11 on; that it is longer than allowed is an answer, too */
	err = elf_read_section(elf, ".PyRuntime", 1, &vaddr, &data, &len);
	if (!err)
		free(data);
	return err != -ENOENT;
}

static int python_read_file(pid_t pid, const struct mapped_file *m, struct python_file *f)
{
	struct elf_file *elf;
	uint64_t version;
	int fd, err;

	*f = (struct python_file){ .dev = m->dev, .ino = m->ino };
	err = file_open_mapped(pid, m, &fd);
	if (!err)
		err = elf_open_fd(fd, &elf);
	if (err)
		return err;
	if (may_be_python(elf, m->path) && !elf_find_symbol(elf, CODE_SYMBOL, &f->code)) {
		f->code.name = NULL;
		f->type_code = object_find_address(elf, "PyCode_Type");
		f->type_str = object_find_address(elf, "PyUnicode_Type");
		f->type_bytes = object_find_address(elf, "PyBytes_Type");
		f->type_int = object_find_address(elf, "PyLong_Type");
		f->python = !elf_find_object(elf, "_PyRuntime", &f->runtime);
		f->runtime.name = NULL;
		version = read_version(elf);
		f->major = version >> 24 & 0xff;
		f->minor = version >> 16 & 0xff;
		if (!f->major)
			python_parse_name(m->path, f);
	}
	elf_close(elf);
	return 0;
}

static const struct python_file *get_file(struct python_finder *finder, pid_t pid, const struct mapped_file *m)
{
	struct python_file *f;

	for (unsigned int i = 0; i < FILES_MAX; i++) {
		f = &finder->files[i];
		if (f->ino == m->ino && f->dev == m->dev)
			return f;
	}
	f = &finder->files[finder->next];
	finder->next = (finder->next + 1) % FILES_MAX;
	if (python_read_file(pid, m, f))
		f->ino = 0; /* not remembered: it may work with the next process */
	return f;
}

struct search {
	struct python_finder *finder;
	pid_t pid;
	char exe[4096];
	struct python_file found;
	uint64_t bias;
};

static int search_check_mapping(const struct mapped_file *m, void *arg)
{
	const char *base = strrchr(m->path, '/');
	struct search *s = arg;
	const struct python_file *f;

	if (strcmp(m->path, s->exe) && (!base || strncmp(base, "/libpython3", 11)))
		return 0;
	f = get_file(s->finder, s->pid, m);
	if (!f->python || f->code.offset < m->offset || f->code.offset - m->offset >= m->end - m->start)
		return 0;
	s->found = *f;
	s->bias = m->start + (f->code.offset - m->offset) - f->code.vaddr;
	return 1;
}

/* From 3.13 on the process has a table of its offsets. */
static int read_layout(pid_t pid, const struct search *s, struct python *ret_python)
{
	uint64_t words[PYTHON_DEBUG_WORDS], runtime = s->found.runtime.vaddr + s->bias;
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = pread(fd, words, sizeof(words), (off_t)runtime);
	close(fd);
	return n < 0 ? -ESRCH : python_layout_read(words, (size_t)n / sizeof(*words), ret_python);
}

static uint64_t vaddr_relocate(uint64_t vaddr, uint64_t bias)
{
	return vaddr ? vaddr + bias : 0;
}

int python_find(struct python_finder *f, pid_t pid, struct python *ret_python)
{
	struct search s = { .finder = f, .pid = pid };
	struct python p = {};
	char link[64];
	struct stat st;
	ssize_t n;
	int err;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	n = readlink(link, s.exe, sizeof(s.exe) - 1);
	s.exe[n > 0 ? n : 0] = 0;
	err = process_each_mapped(pid, search_check_mapping, &s);
	if (err <= 0)
		return err ? err : -ENOENT;
	err = read_layout(pid, &s, &p);
	if (err == -ENOENT) {
		p.major = s.found.major;
		p.minor = s.found.minor;
		err = python_layout_known(s.found.major, s.found.minor, &p);
	}
	p.walk.runtime = s.found.runtime.vaddr + s.bias;
	p.runtime_bytes = s.found.runtime.size;
	if (err == -ENOTSUP)
		*ret_python = p;
	if (err)
		return err;
	p.type_code = vaddr_relocate(s.found.type_code, s.bias);
	p.type_str = vaddr_relocate(s.found.type_str, s.bias);
	p.type_bytes = vaddr_relocate(s.found.type_bytes, s.bias);
	p.type_int = vaddr_relocate(s.found.type_int, s.bias);
	snprintf(link, sizeof(link), "/proc/%d/ns/pid", pid);
	if (!stat(link, &st)) {
		p.walk.ns_dev = st.st_dev;
		p.walk.ns_ino = st.st_ino;
	}
	*ret_python = p;
	return 0;
}

/*
 * The offsets in CPython's structures by version, on 64-bit machines. Within a release series they do not change after the
 * first release, since extension modules are compiled against them.
 *
 * Sources: 3.9 and 3.11 are from offsetof() with the headers of Debian's packages, 3.8, 3.10 and 3.12 from CPython's public
 * headers (Include/cpython, Include/internal). From 3.13 on the interpreter has a table of its own offsets,
 * _Py_DebugOffsets, of which only the order must be known: from offsetof() with Debian's headers of 3.13 and 3.14. All have been
 * compared with what interpreters of these versions say of themselves (tests/unit/test_python_live.c), except for builds
 * without the global lock.
 *
 * asyncio's tasks are in none of these, since their type is private to a module: the offsets of 3.8 to 3.13 are where
 * interpreters of these versions have a task's own coroutine and name (compared by the same test), those of 3.14 are from
 * the layout in CPython's Modules/_asynciomodule.c and have not been tried.
 */

#define NONE PYTHON_NO_OFFSET
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define MINOR_MIN 8
#define DEBUG_MINOR 13 /* the first version with _Py_DebugOffsets */
#define MINOR_MAX 14

#define W(n) (0x8000 + (n)) /* the n-th word of _Py_DebugOffsets */
#define OLD_WALK (PYTHON_WALK_LASTI | PYTHON_WALK_EACH)
#define LNOTAB PYTHON_LINES_LNOTAB
#define RANGES PYTHON_LINES_RANGES
#define LOCATIONS PYTHON_LINES_LOCATIONS
#define OF(field, ...) { offsetof(struct python, field), sizeof(((struct python *)0)->field), { __VA_ARGS__ } }

static const struct {
	uint16_t at;
	uint8_t size;
	uint16_t of[MINOR_MAX - MINOR_MIN + 1]; /* 3.8, 3.9, ... */
} offsets[] = {
	OF(walk.interpreters, 32, 32, 32, 40, 40, W(5), W(5)),
	OF(walk.interp_next, 0, 0, 0, 0, 0, W(8), W(8)),
	OF(walk.interp_threads, 8, 8, 8, 16, 72, W(9), W(9)),
	OF(walk.thread_next, 8, 8, 8, 8, 8, W(21), W(24)),
	OF(walk.thread_self, 176, 176, 176, 152, 136, W(24), W(27)),
	OF(walk.thread_native, NONE, NONE, NONE, 160, 144, W(25), W(28)),
	OF(walk.thread_frame, 24, 24, 24, 56, 56, W(23), W(26)),
	OF(walk.cframe_frame, NONE, NONE, NONE, 8, 0, NONE, NONE),
	OF(walk.frame_code, 32, 32, 32, 32, 0, W(30), W(33)),
	OF(walk.frame_previous, 24, 24, 24, 48, 8, W(29), W(32)),
	OF(walk.frame_instr, 104, 104, 96, 56, 56, W(31), W(34)),
	OF(walk.frame_owner, NONE, NONE, NONE, NONE, 70, W(33), W(36)),
	OF(walk.frame_entry, NONE, NONE, NONE, 68, NONE, NONE, NONE),
	OF(walk.frame_gen, 96, 96, 88, NONE, NONE, NONE, NONE),
	OF(walk.gen_owner, NONE, NONE, NONE, 69, 70, W(33), W(36)),
	OF(walk.gen_frame, NONE, NONE, NONE, 80, 72, 72, 72),
	OF(walk.frame_locals, 360, 360, 352, 72, 72, W(32), W(35)),
	OF(walk.code_flags, NONE, NONE, NONE, NONE, 48, W(40), W(45)), /* words: the number of arguments, right behind the flags */
	OF(first, 0, 0, 0, 0, 0, 2, 2),
	OF(walk.task_coro, 112, 152, 160, 136, 136, 120, 128), /* of builds with the lock */
	OF(walk.task_name, 120, 160, 168, 144, 144, 128, 136),
	OF(walk.owner_shim, 0, 0, 0, 0, 3, 3, 3), /* FRAME_OWNED_BY_CSTACK; in 3.14 FRAME_OWNED_BY_INTERPRETER, and _CSTACK is 4 */
	OF(walk.flags, OLD_WALK, OLD_WALK, OLD_WALK, 0, 0, 0, 0),
	OF(objects.type, 8, 8, 8, 8, 8, W(45), W(51)),
	OF(objects.code_name, 112, 112, 112, 120, 120, W(36), W(41)),
	OF(objects.code_filename, 104, 104, 104, 112, 112, W(35), W(40)),
	OF(objects.code_qualname, NONE, NONE, NONE, 128, 128, W(37), W(42)),
	OF(objects.code_lines, 120, 120, 120, 136, 136, W(38), W(43)),
	OF(objects.code_firstlineno, 40, 40, 40, 72, 68, W(39), W(44)),
	OF(objects.code_start, NONE, NONE, NONE, 184, 192, W(43), W(48)),
	OF(objects.bytes_size, 16, 16, 16, 16, 16, W(65), W(75)),
	OF(objects.bytes_data, 32, 32, 32, 32, 32, W(66), W(76)),
	OF(objects.str_length, 16, 16, 16, 16, 16, W(69), W(79)),
	OF(objects.str_state, 32, 32, 32, 32, 32, W(68), W(78)),
	OF(objects.str_kind_shift, 2, 2, 2, 2, 2, 2, 2),
	OF(objects.str_data, 48, 48, 48, 48, 40, W(70), W(80)),
	OF(objects.str_data_wide, 72, 72, 72, 72, 56, W(70), W(80)),
	OF(objects.lines, LNOTAB, LNOTAB, RANGES, LOCATIONS, LOCATIONS, LOCATIONS, LOCATIONS),
	OF(objects.lasti_unit, 1, 1, 2, 0, 0, 0, 0),
};

#define COOKIE "xdebugpy"
#define WORD_VERSION 1
#define WORD_FREE_THREADED 2

#define CODE_FLAGS_SIZE 4 /* an int right before the number of arguments */

/* Larger offsets than any version has, several times over. */
#define RUNTIME_MAX (1u << 20)
#define OBJECT_MAX 4096

/* words: _Py_DebugOffsets, for versions that have it. -EBADMSG: they cannot be right. */
static int fill_layout(unsigned int minor, const uint64_t *words, struct python *ret_python)
{
	struct python p = { .major = 3, .minor = minor };

	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++) {
		uint64_t v = offsets[i].of[minor - MINOR_MIN];

		if (v >= W(0) && v != NONE) {
			v = words[v - W(0)];
			if (v >= (offsets[i].size == sizeof(uint32_t) ? RUNTIME_MAX : OBJECT_MAX))
				return -EBADMSG;
		}
		memcpy((char *)&p + offsets[i].at, &v, offsets[i].size); /* little-endian, as the file is */
	}
	*ret_python = p;
	return 0;
}

int python_layout_known(unsigned int major, unsigned int minor, struct python *ret_python)
{
	return major == 3 && minor >= MINOR_MIN && minor < DEBUG_MINOR ? fill_layout(minor, NULL, ret_python) : -ENOTSUP;
}

int python_layout_read(const uint64_t *words, size_t n, struct python *ret_python)
{
	unsigned int major, minor;
	struct python p;

	if (n < PYTHON_DEBUG_WORDS || memcmp(words, COOKIE, sizeof(uint64_t)))
		return -ENOENT;
	major = (words[WORD_VERSION] >> 24) & 0xff; /* PY_VERSION_HEX */
	minor = (words[WORD_VERSION] >> 16) & 0xff;
	if (major != 3 || minor < DEBUG_MINOR || minor > MINOR_MAX) {
		ret_python->major = major;
		ret_python->minor = minor;
		return -ENOTSUP;
	}
	if (fill_layout(minor, words, &p))
		return -EBADMSG;
	p.walk.code_flags = p.walk.code_flags >= CODE_FLAGS_SIZE ? p.walk.code_flags - CODE_FLAGS_SIZE : NONE;
	p.objects.str_data_wide += 16; /* behind the length and the address of a copy in UTF-8 */
	if (words[WORD_FREE_THREADED]) {
		p.walk.task_coro = NONE;
		p.objects.str_kind_shift = minor > DEBUG_MINOR ? 8 : 2;
	}
	*ret_python = p;
	return 0;
}

#define EVAL "_PyEval_EvalFrameDefault"
#define CHECK "_Py_CheckRecursiveCall"
#define LEAVES "python:function__return"
#define TEXT_MAX (64u << 20) /* bytes of code */

/* Places of registers in struct pt_regs. */
#define PLACE_RBX 5 /* calls preserve the registers up to there */
#define PLACE_RSI 13
#define PLACE_RDI 14
#define PLACE_NONE 0xff

struct python_search {
	struct elf_file *elf;
	struct code code;       /* the section with all the code */
	struct elf_symbol eval; /* the function that runs Python functions; it is within the section */
	uint64_t check;         /* the function that is called when the recursion is too deep */
	uint64_t semaphore;     /* offset in the file; 0: it was built without USDT probes */
	struct python_sites *out;
};

/* Decodes the next instruction of s->eval; false: there is none. */
static bool eval_next(const struct python_search *s, struct code_place *at)
{
	return at->addr - s->eval.vaddr < s->eval.size && code_next(&s->code, at, s->code.in);
}

/* Whether the walk has come to the end of s->eval. */
static bool eval_ended(const struct python_search *s, const struct code_place *at)
{
	return at->addr - s->eval.vaddr >= s->eval.size;
}

static bool python_is_conditional_jump(const cs_insn *in)
{
	return site_is_emulated(in) &&
	       ((in->size == 2 && in->bytes[0] >= 0x70 && in->bytes[0] <= 0x7f) || (in->size == 6 && in->bytes[0] == 0x0f));
}

/* The place of a 64-bit register; PLACE_NONE: any other register. */
static uint8_t python_place_of(x86_reg reg)
{
	static const x86_reg places[] = { X86_REG_R15, X86_REG_R14, X86_REG_R13, X86_REG_R12, X86_REG_RBP, X86_REG_RBX,
		X86_REG_R11, X86_REG_R10, X86_REG_R9, X86_REG_R8, X86_REG_RAX, X86_REG_RCX, X86_REG_RDX, X86_REG_RSI,
		X86_REG_RDI };

	for (uint8_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (places[i] == reg)
			return i;
	}
	return PLACE_NONE;
}

/* Adds a place; -ENOTSUP if there are too many. site.offset is filled in. */
static int python_add_site(struct python_search *s, uint64_t vaddr, struct site site)
{
	int err = elf_vaddr_to_offset(s->elf, vaddr, &site.offset);

	if (err || s->out->n == PYTHON_SITES_MAX)
		return -ENOTSUP;
	site.cheap = true;
	site.python = s->out->layout;
	s->out->sites[s->out->n++] = site;
	return 0;
}

/*
 * CPython 3.8 to 3.10 call _PyEval_EvalFrameDefault() for each Python function, with its frame as an argument. It ends with
 * a call, of _Py_CheckFunctionResult():
 *	call ...;  add rsp, N;  pop ...;  ret
 * or with a jump to that function behind the pops. Both are emulated, and what follows says where the frame of this call
 * of the interpreter is. A way out without a call, as of one that fails before it begins, is not seen.
 */
#define WAY_MAX 16  /* the most instructions between the last call and the return */
#define CANARY 0x28 /* of the stack protector, in the thread's area */

/* Adds to *bytes what an instruction on the way out does to the stack pointer; false: none that occurs there. */
static bool unwind_add_insn(const cs_insn *in, int64_t *bytes)
{
	const cs_x86_op *ops = in->detail->x86.operands;

	switch (in->id) {
	case X86_INS_POP:
		*bytes += 8;
		return ops[0].type == X86_OP_REG && ops[0].reg != X86_REG_RSP;
	case X86_INS_ADD:
		*bytes += ops[1].imm;
		return ops[0].type == X86_OP_REG && ops[0].reg == X86_REG_RSP && ops[1].type == X86_OP_IMM;
	case X86_INS_LEA:
		*bytes += ops[1].mem.disp;
		return ops[0].reg == X86_REG_RSP && ops[1].mem.base == X86_REG_RSP && ops[1].mem.index == X86_REG_INVALID;
	case X86_INS_SUB: /* the stack protector's comparison, or the next one */
	case X86_INS_XOR:
		return ops[0].type == X86_OP_REG && ops[0].reg != X86_REG_RSP;
	case X86_INS_MOV:
		return ops[0].type == X86_OP_REG && ops[0].reg != X86_REG_RSP;
	case X86_INS_JNE:
	case X86_INS_NOP:
		return true;
	default:
		return false;
	}
}

/* Whether the code after a call leads to the return. ret_units: how far the stack pointer is below its value at the entry,
 * in units of 8 bytes. */
static bool code_leads_to_return(const struct python_search *s, uint64_t addr, uint16_t *ret_units)
{
	struct code_place at = code_at(&s->code, addr);
	const cs_insn *in = s->code.ahead;
	int64_t bytes = 0;

	for (int i = 0; i < WAY_MAX && code_next(&s->code, &at, s->code.ahead); i++) {
		const cs_x86_op *op = &in->detail->x86.operands[0];

		if (in->id == X86_INS_RET) {
			if (in->detail->x86.op_count || bytes < 0 || bytes % 8 || bytes / 8 > PROBE_COOKIE_EXIT_MAX)
				return false;
			*ret_units = (uint16_t)(bytes / 8);
			return true;
		}
		if (in->id == X86_INS_JMP && op->type == X86_OP_IMM && code_has(&s->code, (uint64_t)op->imm))
			at = code_at(&s->code, (uint64_t)op->imm);
		else if (!unwind_add_insn(in, &bytes))
			return false;
	}
	return false;
}

static int find_exits_3_8(struct python_search *s)
{
	struct code_place at = code_at(&s->code, s->eval.vaddr);
	const cs_insn *in = s->code.in;
	bool unwound = false;
	int err = 0;

	while (!err && eval_next(s, &at)) {
		const cs_x86_op *op = &in->detail->x86.operands[0];
		struct site site = { .exit = true };

		if ((in->id == X86_INS_CALL && site_is_emulated(in) && code_leads_to_return(s, at.addr, &site.exit_units)) ||
			(in->id == X86_INS_JMP && unwound && site_is_emulated(in) &&
				(uint64_t)op->imm - s->eval.vaddr >= s->eval.size))
			err = python_add_site(s, in->address, site);
		unwound = in->id == X86_INS_POP;
	}
	return err || !eval_ended(s, &at) || !s->out->n ? -ENOTSUP : 0;
}

static int find_entry_3_8(struct python_search *s)
{
	struct site entry = { .reg = s->out->minor == 8 ? PLACE_RDI : PLACE_RSI };
	struct code_place at = code_at(&s->code, s->eval.vaddr);

	return code_next(&s->code, &at, s->code.in) && site_is_emulated(s->code.in) ? python_add_site(s, s->eval.vaddr, entry) : -ENOTSUP;
}

/*
 * CPython 3.11 runs a Python function that another one calls without a call of its own: it goes back to the beginning of
 * _PyEval_EvalFrameDefault(). On that way, and when C code calls it, it counts the depth of the recursion:
 *	mov [state + N], depth - 1;  test;  jcc to:  mov rsi, "";  mov rdi, state;  call _Py_CheckRecursiveCall
 * The jump is where a function begins, and state the register with the thread's state. Where a function ends, by a
 * return, a yield or an exception, the interpreter checks whether its USDT probe function__return is on:
 *	cmp word ptr [semaphore], 0;  jcc
 * (Its function__entry does not help: 3.11 reaches it only while a tracer in Python is active.) Both jumps are emulated,
 * and the semaphore stays as it is: switched on, it would cost far more than a probe.
 */
#define CALL_WAY 4 /* the most instructions before the call */
#define CMP_LEN 8  /* of the comparison with the semaphore */
#define FRAME_ENTRY 68

/* The place of a register that calls preserve, or of the first argument's; else PLACE_NONE. */
static uint8_t state_place(x86_reg reg)
{
	uint8_t place = python_place_of(reg);

	return place <= PLACE_RBX || place == PLACE_RDI ? place : PLACE_NONE;
}

/* Whether an address has an empty string, which CPython passes where it is about a Python function. */
static bool is_empty(const struct python_search *s, uint64_t vaddr)
{
	uint64_t offset;
	char c = 1;

	return !elf_vaddr_to_offset(s->elf, vaddr, &offset) && !elf_read_at_offset(s->elf, offset, &c, 1) && !c;
}

/* The string that an instruction puts into the second argument's register; 0: it does not. */
static uint64_t insn_argument_string(const cs_insn *in)
{
	const cs_x86_op *ops = in->detail->x86.operands;

	if (in->detail->x86.op_count != 2 || ops[0].type != X86_OP_REG ||
		(ops[0].reg != X86_REG_RSI && ops[0].reg != X86_REG_ESI))
		return 0;
	if (in->id == X86_INS_MOV && ops[1].type == X86_OP_IMM)
		return (uint64_t)ops[1].imm;
	if (in->id == X86_INS_LEA && ops[1].mem.base == X86_REG_RIP && ops[1].mem.index == X86_REG_INVALID)
		return in->address + in->size + (uint64_t)ops[1].mem.disp;
	return 0;
}

/* Whether it is the function, or a stub of a library's PLT. */
static bool is_check(const struct python_search *s, uint64_t addr)
{
	return addr == s->check || !code_has(&s->code, addr);
}

/* Whether the code at an address calls the check for a Python function; ret_reg has the thread's state there. */
static bool checks_recursion(const struct python_search *s, uint64_t addr, uint8_t *ret_reg)
{
	struct code_place at = code_at(&s->code, addr);
	const cs_insn *in = s->code.ahead;
	/* If nothing puts the state into rdi, it is there already. With USDT probes that is so where an exception is thrown
	 * into a generator, which does not begin to run then; without them, generators are not followed. */
	uint8_t reg = s->semaphore ? PLACE_NONE : PLACE_RDI;
	bool empty = false;

	for (int i = 0; i < CALL_WAY && code_next(&s->code, &at, s->code.ahead); i++) {
		const cs_x86_op *ops = in->detail->x86.operands;
		uint64_t string = insn_argument_string(in);

		*ret_reg = reg;
		if (in->id == X86_INS_CALL)
			return ops[0].type == X86_OP_IMM && is_check(s, (uint64_t)ops[0].imm) && empty && reg != PLACE_NONE;
		if (in->id == X86_INS_JMP && !i && ops[0].type == X86_OP_IMM && code_has(&s->code, (uint64_t)ops[0].imm))
			at = code_at(&s->code, (uint64_t)ops[0].imm);
		else if (string)
			empty = is_empty(s, string);
		else if (in->id == X86_INS_MOV && ops[0].type == X86_OP_REG && ops[0].reg == X86_REG_RDI && ops[1].type == X86_OP_REG)
			reg = state_place(ops[1].reg);
		else
			return false;
	}
	return false;
}

static int find_entries_3_11(struct python_search *s)
{
	struct code_place at = code_at(&s->code, s->eval.vaddr);
	unsigned int exits = s->out->n;
	uint8_t reg;
	int err = 0;

	while (!err && eval_next(s, &at)) {
		const cs_insn *in = s->code.in;

		if (python_is_conditional_jump(in) &&
			(checks_recursion(s, (uint64_t)in->detail->x86.operands[0].imm, &reg) || checks_recursion(s, at.addr, &reg)))
			err = python_add_site(s, in->address, (struct site){ .reg = reg, .no_yields = !s->semaphore });
	}
	return err || !eval_ended(s, &at) || s->out->n == exits ? -ENOTSUP : 0;
}

/* Whether the four bytes at p, relative to the address `from`, lead to the semaphore. */
static bool is_semaphore(const struct python_search *s, const uint8_t *p, uint64_t from)
{
	uint64_t offset;
	int32_t rel;

	memcpy(&rel, p, sizeof(rel));
	return !elf_vaddr_to_offset(s->elf, from + (uint64_t)(int64_t)rel, &offset) && offset == s->semaphore;
}

/*
 * The comparisons may be anywhere, also in the part of the function that is rarely executed and lies elsewhere. Code that
 * reads the semaphore in another way is a place where functions end and no probe could be.
 */
static int find_exits_3_11(struct python_search *s)
{
	static const uint8_t cmp[] = { 0x66, 0x83, 0x3d };
	int err = 0;

	for (size_t i = 2; !err && i + CMP_LEN < s->code.len; i++) {
		const uint8_t *t = s->code.bytes + i;
		bool compares = !memcmp(t, cmp, sizeof(cmp)) && !t[CMP_LEN - 1];
		bool loads = t[0] == 0x0f && t[1] == 0xb7 && (t[2] & 0xc7) == 0x05;
		struct code_place at = code_at(&s->code, s->code.vaddr + i + CMP_LEN);

		if (loads && is_semaphore(s, t + 3, s->code.vaddr + i + 7))
			err = -ENOTSUP;
		if (!compares || !is_semaphore(s, t + 3, at.addr))
			continue;
		if (code_next(&s->code, &at, s->code.in) && python_is_conditional_jump(s->code.in))
			err = python_add_site(s, s->code.in->address, (struct site){ .exit = true });
		else
			err = -ENOTSUP;
	}
	return err || !s->out->n ? -ENOTSUP : 0;
}

/* Whether an instruction compares the byte of a frame that says that C code called the interpreter. */
static bool tests_entry(const cs_insn *in)
{
	const cs_x86_op *ops = in->detail->x86.operands;

	return in->id == X86_INS_CMP && ops[0].type == X86_OP_MEM && ops[0].size == 1 && ops[0].mem.disp == FRAME_ENTRY &&
	       ops[0].mem.base != X86_REG_RSP && ops[0].mem.base != X86_REG_RIP && ops[0].mem.index == X86_REG_INVALID &&
	       ops[1].type == X86_OP_IMM && !ops[1].imm;
}

/*
 * Without USDT probes: at a return and at an exception the interpreter checks whether C code has called it with the frame, and
 * jumps if so. (Not at a yield, where that is always so.)
 */
static int find_returns_3_11(struct python_search *s)
{
	struct code_place at = code_at(&s->code, s->eval.vaddr);
	const cs_insn *in = s->code.in;
	bool tested = false;
	int err = 0;

	while (!err && eval_next(s, &at)) {
		if (tested && python_is_conditional_jump(in)) {
			err = python_add_site(s, in->address, (struct site){ .exit = true });
			tested = false;
		} else if (tests_entry(in)) {
			err = tested ? -ENOTSUP : 0;
			tested = true;
		} else if (tested && in->id != X86_INS_MOV && in->id != X86_INS_LEA) {
			err = -ENOTSUP; /* the comparison's result is gone, or used otherwise */
		}
	}
	/* a return, an exception, and the making of a generator */
	return err || !eval_ended(s, &at) || s->out->n < 3 ? -ENOTSUP : 0;
}

/*
 * CPython 3.12 begins to run each Python function, whoever calls it, by counting down how deep the recursion may still be:
 *	mov eax, [state + N];  lea edx, [rax - 1];  mov [state + N], edx;  test eax, eax;  jle
 * The jump is the place. Where a function returns, or an exception leaves it, a function is called with its frame as
 * the second argument, _PyEvalFrameClearAndPop(), which is known by its symbol, or by its looking at once who owns
 * the frame. Generators that yield do not come by there.
 */
#define CLEAR "_PyEvalFrameClearAndPop"
#define CLEAR_3_13 "_PyEval_FrameClearAndPop"
#define CLEAR_WAY 12   /* of its first instructions, one compares ... */
#define FRAME_OWNER 70 /* ... this byte of the frame */
#define DEPTH 28       /* in the state: int py_recursion_remaining */
#define TEST_WAY 2     /* instructions between the count and the jump */

/* The register with the state, if the instruction stores an int that may be the count; else X86_REG_INVALID. */
static x86_reg depth_count_register(const cs_insn *in)
{
	const cs_x86_op *op = &in->detail->x86.operands[0];

	if ((in->id != X86_INS_MOV && in->id != X86_INS_SUB && in->id != X86_INS_ADD && in->id != X86_INS_DEC) ||
		op->type != X86_OP_MEM || op->size != 4 || op->mem.disp != DEPTH || op->mem.index != X86_REG_INVALID ||
		op->mem.base == X86_REG_RSP)
		return X86_REG_INVALID;
	return op->mem.base;
}

static bool is_test(const cs_insn *in)
{
	return in->id == X86_INS_TEST || in->id == X86_INS_CMP;
}

/* "Not above zero", in whichever order. */
static bool is_depth_jump(const cs_insn *in)
{
	return python_is_conditional_jump(in) && (in->id == X86_INS_JLE || in->id == X86_INS_JG || in->id == X86_INS_JS ||
							 in->id == X86_INS_JNS);
}

static int find_entries_3_12(struct python_search *s)
{
	struct code_place at = code_at(&s->code, s->eval.vaddr);
	const cs_insn *in = s->code.in;
	x86_reg state = X86_REG_INVALID;
	int way = 0, err = 0;

	while (!err && eval_next(s, &at)) {
		x86_reg base = depth_count_register(in);

		if (base != X86_REG_INVALID && python_place_of(base) != PLACE_NONE) {
			state = base;
			way = 0;
		} else if (state != X86_REG_INVALID && is_depth_jump(in)) {
			err = python_add_site(s, in->address,
				(struct site){ .reg = python_place_of(state), .no_yields = true });
			state = X86_REG_INVALID;
		} else if (!is_test(in) || ++way > TEST_WAY) {
			state = X86_REG_INVALID;
		}
	}
	return err || !eval_ended(s, &at) || s->out->n < 2 ? -ENOTSUP : 0;
}

/* Whether a function first looks who owns the frame in its second argument. */
static bool looks_at_owner(const struct python_search *s, uint64_t addr)
{
	struct code_place at = code_at(&s->code, addr);
	const cs_insn *in = s->code.ahead;
	x86_reg frame = X86_REG_RSI;

	for (int i = 0; i < CLEAR_WAY && code_next(&s->code, &at, s->code.ahead); i++) {
		const cs_x86_op *ops = in->detail->x86.operands;

		if (in->id == X86_INS_CALL || in->id == X86_INS_RET || in->id == X86_INS_JMP)
			return false;
		if (in->id == X86_INS_MOV && ops[0].type == X86_OP_REG && ops[0].size == 8 && ops[1].type == X86_OP_REG &&
			ops[1].reg == X86_REG_RSI)
			frame = ops[0].reg;
		if (in->id == X86_INS_CMP && ops[0].type == X86_OP_MEM && ops[0].size == 1 && ops[0].mem.disp == FRAME_OWNER &&
			ops[0].mem.index == X86_REG_INVALID && (ops[0].mem.base == frame || ops[0].mem.base == X86_REG_RSI))
			return true;
	}
	return false;
}

/* Finds CLEAR without its symbol: it is the only called function with looks_at_owner(). */
static int find_clear(const struct python_search *s, struct elf_symbol *ret_sym)
{
	struct code_place at = code_at(&s->code, s->eval.vaddr);
	uint64_t found = 0;

	while (eval_next(s, &at)) {
		const cs_x86_op *op = &s->code.in->detail->x86.operands[0];
		uint64_t to = (uint64_t)op->imm;

		if (s->code.in->id != X86_INS_CALL || op->type != X86_OP_IMM || !code_has(&s->code, to) || to == found ||
			!looks_at_owner(s, to))
			continue;
		if (found)
			return -ENOTSUP;
		found = to;
	}
	if (!found)
		return -ENOTSUP;
	*ret_sym = (struct elf_symbol){ .name = CLEAR, .vaddr = found, .size = 16 };
	return elf_vaddr_to_offset(s->elf, found, &ret_sym->offset);
}

static int find_exit_3_12(struct python_search *s)
{
	struct elf_symbol clear;
	struct site site;

	if (s->out->layout >= PYTHON_LAYOUT_3_13 ? elf_find_symbol(s->elf, CLEAR_3_13, &clear)
						 : elf_find_symbol(s->elf, CLEAR, &clear) && find_clear(s, &clear))
		return -ENOTSUP;
	site_choose(s->elf, &clear, 1u << REG_ARG2, 0, &site);
	if (!site.cheap)
		return -ENOTSUP;
	return python_add_site(
		s, clear.vaddr + (site.offset - clear.offset), (struct site){ .exit = true, .exit_units = PLACE_RSI });
}

/*
 * CPython 3.13 calls a Python function in many instructions. But the first one of its own is RESUME, which compares whether the
 * code is as the interpreter's other tools want it, before the thread looks for anything else to do:
 *	mov code, [frame];  mov version, [state + EVAL_BREAKER];  ...;  cmp [code + VERSION], version;  ...;  jne
 * The jump is the place: the function goes on if they are equal; otherwise a more general RESUME does the same. The compiler
 * puts these anywhere, so all of the code is searched for the comparison. Functions end as in 3.12. CPython: Python/bytecodes.c.
 */
#define EVAL_BREAKER 24
#define VERSION 168    /* in a code object, of builds with the global lock */
#define RESUME_BACK 32 /* bytes from the loads to the comparison */
#define RESUME_AHEAD 2 /* instructions from there to the jump */
#define RESUMES_MAX 8  /* RESUME, RESUME_CHECK and INSTRUMENTED_RESUME, each perhaps more than once */

/* "cmp [register + VERSION], register", or the other way round: the length up to the number, which begins at p; 0: another one. */
static size_t compares_version(const uint8_t *p)
{
	size_t len = p[-1] == 0x24 && (p[-2] & 7) == 4 ? 4 : 3; /* behind r12 there is another byte */
	const uint8_t *in = p - len;

	return (in[0] & 0xf8) == 0x48 && (in[1] == 0x39 || in[1] == 0x3b) && (in[2] & 0xc0) == 0x80 ? len : 0;
}

/* The place of the register with the frame, if the code from `addr` on leads from the loads to the comparison at `cmp`. */
static uint8_t resume_frame(const struct python_search *s, uint64_t addr, uint64_t cmp)
{
	x86_reg frame = X86_REG_INVALID, code = X86_REG_INVALID, version = X86_REG_INVALID;
	struct code_place at = code_at(&s->code, addr);
	const cs_insn *in = s->code.ahead;
	const cs_x86_op *ops;

	while (at.addr <= cmp && code_next(&s->code, &at, s->code.ahead)) {
		ops = in->detail->x86.operands;
		if (in->address == cmp) {
			bool first = ops[0].type == X86_OP_MEM;

			return ops[!first].mem.base == code && ops[first].reg == version ? python_place_of(frame) : PLACE_NONE;
		}
		if (in->id == X86_INS_MOV && ops[0].type == X86_OP_REG && ops[0].size == 8 && ops[1].type == X86_OP_MEM) {
			if (ops[1].mem.disp == EVAL_BREAKER) {
				version = ops[0].reg;
			} else if (!ops[1].mem.disp) {
				code = ops[0].reg;
				frame = ops[1].mem.base;
			}
		} else if (in->id != X86_INS_MOV && in->id != X86_INS_LEA && in->id != X86_INS_AND && in->id != X86_INS_XOR &&
			   in->id != X86_INS_ADD) {
			return PLACE_NONE;
		}
	}
	return PLACE_NONE;
}

/* The jump behind the comparison; false: there is none. It is then in s->code.in. */
static bool resume_jumps(const struct python_search *s, uint64_t cmp)
{
	struct code_place at = code_at(&s->code, cmp);
	const cs_insn *in = s->code.in;

	if (!code_next(&s->code, &at, s->code.in))
		return false;
	for (int i = 0; i < RESUME_AHEAD && code_next(&s->code, &at, s->code.in); i++) {
		if (in->id == X86_INS_JE || in->id == X86_INS_JNE)
			return python_is_conditional_jump(in);
		if (in->id != X86_INS_MOV)
			return false;
	}
	return false;
}

static int find_entries_3_13(struct python_search *s)
{
	static const uint32_t version = VERSION;
	const uint8_t *p = s->code.bytes + RESUME_BACK + 4, *end = s->code.bytes + s->code.len;
	unsigned int exits = s->out->n;
	int err = 0;

	for (; !err && p < end && (p = memmem(p, (size_t)(end - p), &version, sizeof(version))); p++) {
		size_t len = compares_version(p);
		uint64_t cmp = s->code.vaddr + (uint64_t)(p - s->code.bytes) - len;
		uint8_t frame = PLACE_NONE;

		if (!len || !memchr(p - len - RESUME_BACK, EVAL_BREAKER, RESUME_BACK))
			continue;
		for (size_t back = 1; back <= RESUME_BACK && frame == PLACE_NONE; back++)
			frame = resume_frame(s, cmp - back, cmp);
		if (frame != PLACE_NONE && resume_jumps(s, cmp))
			err = python_add_site(s, s->code.in->address, (struct site){ .reg = frame, .no_yields = true });
	}
	return err || s->out->n < exits + 2 || s->out->n > exits + RESUMES_MAX ? -ENOTSUP : 0;
}

/* Whether the interpreter in the file has the offsets that are known, by its own table of them. */
static int check_layout_3_13(struct elf_file *elf, enum python_layout layout, const char **ret_why)
{
	uint64_t words[PYTHON_DEBUG_WORDS];
	struct python_calls c = { 0 };
	struct elf_symbol sym;
	struct python p;

	*ret_why = "its structures are not known";
	if (elf_find_object(elf, "_PyRuntime", &sym) || !sym.offset || elf_read_at_offset(elf, sym.offset, words, sizeof(words)) ||
		python_layout_read(words, PYTHON_DEBUG_WORDS, &p))
		return -ENOTSUP;
	python_calls_layout(layout, &c);
	if (words[WORD_FREE_THREADED])
		*ret_why = "it was built without the global lock";
	return words[WORD_FREE_THREADED] || p.walk.frame_code != c.frame_code ||
			       p.objects.code_qualname != c.code_name || p.objects.code_filename != c.code_file ||
			       p.walk.code_flags != c.code_flags || p.objects.str_length != c.str_length ||
			       p.objects.str_state != c.str_state || p.objects.str_data != c.str_data || p.walk.frame_locals != c.frame_locals
		       ? -ENOTSUP
		       : 0;
}

static int on_semaphore_note(const struct usdt_note *note, void *arg)
{
	struct python_search *s = arg;

	s->semaphore = note->semaphore;
	return 1;
}

static bool elf_has_function(struct elf_file *elf, const char *function)
{
	struct elf_symbol sym;

	return !elf_find_symbol(elf, function, &sym);
}

/* The second number of the version: a constant from 3.11 on, before that told by the functions that exist. 0: unknown */
static unsigned int minor_of(struct elf_file *elf)
{
	uint64_t version = read_version(elf);

	if (version)
		return version >> 24 == 3 ? (unsigned int)(version >> 16 & 0xff) : 0;
	if (elf_has_function(elf, "PyIter_Send"))
		return 10;
	if (elf_has_function(elf, "PyObject_VectorcallMethod"))
		return 9;
	return elf_has_function(elf, "PyCode_NewWithPosOnlyArgs") ? 8 : 0;
}

static enum python_layout layout_of(unsigned int minor)
{
	if (minor < 11)
		return PYTHON_LAYOUT_3_8;
	if (minor == 11)
		return PYTHON_LAYOUT_3_11;
	if (minor == 12)
		return PYTHON_LAYOUT_3_12;
	return minor == 13 ? PYTHON_LAYOUT_3_13 : PYTHON_LAYOUT_3_14;
}

static int find_in_text(struct python_search *s, const char **ret_why)
{
	int (*find_exits)(struct python_search * s) = find_exit_3_12, (*find_entries)(struct python_search * s) = find_entries_3_12;

	if (!code_has(&s->code, s->eval.vaddr) || s->eval.size > s->code.len - (s->eval.vaddr - s->code.vaddr))
		return -ENOTSUP;
	if (s->out->layout == PYTHON_LAYOUT_3_8) {
		find_exits = find_exits_3_8;
		find_entries = find_entry_3_8;
	} else if (s->out->layout == PYTHON_LAYOUT_3_11) {
		find_exits = s->semaphore ? find_exits_3_11 : find_returns_3_11;
		find_entries = find_entries_3_11;
	}
	if (s->out->layout >= PYTHON_LAYOUT_3_13)
		find_entries = find_entries_3_13;
	*ret_why = "where it leaves functions is not known";
	if (find_exits(s))
		return -ENOTSUP;
	*ret_why = "where it begins to run a function is not known";
	return find_entries(s);
}

int python_sites_find(struct elf_file *elf, struct python_sites *ret_sites, const char **ret_why)
{
	struct python_sites sites = { .n = 0 };
	struct python_search s = { .elf = elf, .out = &sites };
	struct elf_symbol check;
	uint64_t vaddr;
	size_t len;
	void *text;
	int err;

	if (elf_find_symbol(elf, EVAL, &s.eval))
		return -ENOENT;
	*ret_why = "Python functions can be steps with CPython 3.8 to 3.14 on x86_64 only";
	sites.minor = minor_of(elf);
	if (elf_machine(elf) != EM_X86_64 || sites.minor < 8 || sites.minor > 14)
		return -ENOTSUP;
	sites.layout = layout_of(sites.minor);
	if (sites.layout >= PYTHON_LAYOUT_3_13 && check_layout_3_13(elf, sites.layout, ret_why))
		return -ENOTSUP;
	*ret_why = "its code cannot be read";
	if (usdt_each(elf, LEAVES, on_semaphore_note, &s) < 0)
		return -ENOTSUP;
	if (elf_find_symbol(elf, CHECK, &check) || elf_read_section(elf, ".text", TEXT_MAX, &vaddr, &text, &len))
		return -ENOTSUP;
	s.code = code_open(text, len, vaddr);
	s.check = check.vaddr;
	err = find_in_text(&s, ret_why);
	code_close(&s.code);
	if (!err)
		*ret_sites = sites;
	return err;
}

void python_calls_layout(enum python_layout layout, struct python_calls *ret_calls)
{
	/* locals and type_keys are from offsetof() with CPython's headers. Those of 3.8 and 3.9 differ from 3.10's, which stands here:
	 * no engine with batches runs on them. */
	static const struct {
		uint8_t minor, how, frame_owner, code_flags, attributes;
		uint16_t locals, type_keys;
	} of[PYTHON_LAYOUTS] = {
		[PYTHON_LAYOUT_3_8] = { .minor = 8, .how = PYTHON_BY_CALL, .attributes = PYTHON_IN_DICT, .locals = 352 },
		[PYTHON_LAYOUT_3_11] = { .minor = 11, .how = PYTHON_BY_STATE, .frame_owner = 69, .code_flags = 48,
			.attributes = PYTHON_VALUES_BEFORE, .locals = 72, .type_keys = 872 },
		[PYTHON_LAYOUT_3_12] = { .minor = 12, .how = PYTHON_BY_FRAME, .frame_owner = 70, .code_flags = 48,
			.attributes = PYTHON_VALUES_TAGGED, .locals = 72, .type_keys = 880 },
		/* as in 3.12, but for what follows: see check_layout_3_13() */
		[PYTHON_LAYOUT_3_13] = { .minor = 12, .how = PYTHON_BY_FRAME, .code_flags = 48,
			.attributes = PYTHON_VALUES_WITHIN, .locals = 72, .type_keys = 880 },
		[PYTHON_LAYOUT_3_14] = { .minor = 12, .how = PYTHON_BY_FRAME, .code_flags = 48,
			.attributes = PYTHON_VALUES_WITHIN, .locals = 80, .type_keys = 880 },
	};
	struct python p = { 0 };

	python_layout_known(3, of[layout].minor, &p);
	ret_calls->how = of[layout].how;
	ret_calls->thread_frame = p.walk.thread_frame;
	ret_calls->cframe_frame = p.walk.cframe_frame;
	ret_calls->frame_code = p.walk.frame_code;
	ret_calls->frame_owner = of[layout].frame_owner;
	ret_calls->frame_locals = of[layout].locals;
	ret_calls->code_name = layout == PYTHON_LAYOUT_3_8 ? p.objects.code_name : p.objects.code_qualname;
	ret_calls->code_file = p.objects.code_filename;
	/* CPython: Include/cpython/code.h: co_varnames, or co_localsplusnames */
	ret_calls->code_locals = (uint16_t)(p.objects.code_filename - (layout == PYTHON_LAYOUT_3_8 ? 32 : 16));
	ret_calls->tuple_items = layout == PYTHON_LAYOUT_3_14 ? 32 : 24; /* Include/cpython/tupleobject.h: behind the hash since 3.14 */
	ret_calls->code_flags = of[layout].code_flags;
	ret_calls->str_length = p.objects.str_length;
	ret_calls->str_state = p.objects.str_state;
	ret_calls->str_data = p.objects.str_data;
	if (layout == PYTHON_LAYOUT_3_8 || layout >= PYTHON_LAYOUT_3_13)
		ret_calls->thread_frame = NONE;
	ret_calls->if_equal = layout >= PYTHON_LAYOUT_3_13;
	ret_calls->attributes = of[layout].attributes;
	ret_calls->type_keys = of[layout].type_keys;
	ret_calls->split_values = layout >= PYTHON_LAYOUT_3_13 ? 8 : 0;
	ret_calls->tagged_ints = layout >= PYTHON_LAYOUT_3_12;
	ret_calls->old_keys = layout == PYTHON_LAYOUT_3_8;
}
