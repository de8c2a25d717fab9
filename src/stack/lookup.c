// SPDX-License-Identifier: BSD-2-Clause
#include "stack/lookup.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "stack/cold.h"
#include "stack/demangle.h"
#include "util/bisect.h"

#define SYMBOLS_MAX (4 << 20)
#define LOADS_MAX 32
/* Its parts must be known by name: much of an interpreter's code is in them (CPython 3.14 of GCC 16). */
#define PARTED "_PyEval_EvalFrameDefault"
#define NESTED_MAX 16 /* symbols to look back at for one that includes the place */

struct symbol {
	uint64_t start;
	uint32_t size; /* 0: to the next one */
	int32_t index;
};

struct load {
	uint64_t offset, size, vaddr;
};

struct lookup {
	Dwfl *dwfl;
	Dwfl_Module *mod;
	int debug_fd; /* -1: none, or passed on */
	GElf_Addr bias;
	struct load loads[LOADS_MAX];
	size_t n_loads;
	Dwarf_CFI *eh, *debug;
	Dwarf_Addr eh_bias, debug_bias;
	bool no_eh, no_debug;
	struct symbol *symbols;
	size_t n_symbols;
	bool symbols_read;
	/* the parts of PARTED */
	uint64_t parts[COLD_MAX];
	size_t n_parts;
	bool parts_read;
};

/* The file was opened by whoever asks; none is ever looked for from here. */
static int find_elf(Dwfl_Module *mod, void **data, const char *name, Dwarf_Addr base, char **file, Elf **elf)
{
	(void)mod, (void)data, (void)name, (void)base, (void)file, (void)elf;
	return -1;
}

static int find_debuginfo(Dwfl_Module *mod, void **data, const char *name, Dwarf_Addr base, const char *file,
	const char *link, GElf_Word crc, char **debug_file)
{
	struct lookup *l = *data;
	int fd = l ? l->debug_fd : -1;

	(void)mod, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)debug_file;
	if (fd >= 0)
		l->debug_fd = -1;
	return fd;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf,
	.find_debuginfo = find_debuginfo,
	.section_address = dwfl_offline_section_address,
};

static int read_loads(struct lookup *l, Elf *elf)
{
	size_t n;

	if (elf_getphdrnum(elf, &n))
		return -EBADMSG;
	for (size_t i = 0; i < n && l->n_loads < LOADS_MAX; i++) {
		GElf_Phdr ph;

		if (!gelf_getphdr(elf, (int)i, &ph))
			return -EBADMSG;
		if (ph.p_type == PT_LOAD && (ph.p_flags & PF_X))
			l->loads[l->n_loads++] = (struct load){ ph.p_offset, ph.p_filesz, ph.p_vaddr };
	}
	return l->n_loads ? 0 : -ENOEXEC;
}

/* ---- .gnu_debuglink: a name, padded to 4 bytes, and the checksum of the file ---- */

static const char *find_link(Elf *elf, uint32_t *ret_crc)
{
	size_t names, len;
	Elf_Scn *scn = NULL;

	if (elf_getshdrstrndx(elf, &names))
		return NULL;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name;
		Elf_Data *data;
		GElf_Shdr sh;

		if (!gelf_getshdr(scn, &sh) || sh.sh_type == SHT_NOBITS)
			continue;
		name = elf_strptr(elf, names, sh.sh_name);
		if (!name || strcmp(name, ".gnu_debuglink"))
			continue;
		data = elf_rawdata(scn, NULL);
		if (!data || !data->d_buf)
			return NULL;
		len = strnlen(data->d_buf, data->d_size);
		if (!len || (len / 4 + 1) * 4 + sizeof(*ret_crc) > data->d_size)
			return NULL;
		memcpy(ret_crc, (const char *)data->d_buf + (len / 4 + 1) * 4, sizeof(*ret_crc));
		return data->d_buf;
	}
	return NULL;
}

static bool has_checksum(int fd, uint32_t crc)
{
	static unsigned char buf[1 << 16];
	uLong sum = crc32(0, NULL, 0);
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		sum = crc32(sum, buf, (uInt)n);
		at += n;
	}
	return !n && sum == crc;
}

/* No path: a name must not lead elsewhere. */
void lookup_link(const struct lookup *l, char *to, size_t size)
{
	GElf_Addr bias;
	uint32_t crc;
	const char *name = find_link(dwfl_module_getelf(l->mod, &bias), &crc);

	*to = '\0';
	if (name && strlen(name) < size && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, ".."))
		strcpy(to, name);
}

int lookup_open(int fd, int debug_fd, bool linked, struct lookup **ret_lookup)
{
	struct lookup *l = calloc(1, sizeof(*l));
	void **data;
	int err = -ENOMEM;
	uint32_t crc;
	Elf *elf;

	if (!l)
		goto out;
	l->debug_fd = debug_fd;
	debug_fd = -1;
	l->dwfl = dwfl_begin(&callbacks);
	if (!l->dwfl)
		goto out;
	err = -ENOEXEC;
	dwfl_report_begin(l->dwfl);
	l->mod = dwfl_report_elf(l->dwfl, "file", "file", fd, 0, true);
	if (!l->mod)
		goto out;
	fd = -1; /* it is libdw's now */
	dwfl_report_end(l->dwfl, NULL, NULL);
	if (!dwfl_module_info(l->mod, &data, NULL, NULL, NULL, NULL, NULL, NULL))
		goto out;
	*data = l;
	elf = dwfl_module_getelf(l->mod, &l->bias);
	if (!elf)
		goto out;
	if (linked && l->debug_fd >= 0 && (!find_link(elf, &crc) || !has_checksum(l->debug_fd, crc))) {
		close(l->debug_fd);
		l->debug_fd = -1;
	}
	err = read_loads(l, elf);
out:
	if (fd >= 0)
		close(fd);
	if (debug_fd >= 0)
		close(debug_fd);
	if (err)
		lookup_close(l);
	else
		*ret_lookup = l;
	return err;
}

void lookup_close(struct lookup *l)
{
	if (!l)
		return;
	if (l->debug_fd >= 0)
		close(l->debug_fd);
	if (l->dwfl)
		dwfl_end(l->dwfl);
	free(l->symbols);
	free(l);
}

/* ---- call frame information ---- */

static int take_ops(struct row *row, struct rule *rule, const Dwarf_Op *ops, size_t n)
{
	if (n > ROW_OPS_MAX - (size_t)row->n_ops)
		return -E2BIG;
	rule->op = row->n_ops;
	rule->n_ops = (uint8_t)n;
	for (size_t i = 0; i < n; i++) {
		row->ops[row->n_ops++] = (struct row_op){
			.atom = ops[i].atom, .number = (int64_t)ops[i].number, .number2 = (int64_t)ops[i].number2
		};
	}
	return 0;
}

static bool fits(int64_t v)
{
	return v == (int32_t)v;
}

static int take_cfa(struct row *row, Dwarf_Frame *frame)
{
	Dwarf_Op *ops;
	size_t n;

	if (dwarf_frame_cfa(frame, &ops, &n) || !n)
		return -EBADMSG;
	if (n == 1 && ops->atom == DW_OP_bregx && ops->number < ROW_REGS && fits((int64_t)ops->number2)) {
		row->cfa = (struct rule){
			.kind = RULE_REG, .reg = (uint8_t)ops->number, .offset = (int32_t)ops->number2
		};
		return 0;
	}
	row->cfa.kind = RULE_IS_EXPR;
	return take_ops(row, &row->cfa, ops, n);
}

static int take_register(struct row *row, Dwarf_Frame *frame, int reg)
{
	struct rule *rule = &row->regs[reg];
	Dwarf_Op mem[3], *ops;
	bool value;
	size_t n;

	if (dwarf_frame_register(frame, reg, mem, &ops, &n))
		return -EBADMSG;
	if (!n) {
		rule->kind = ops == mem ? RULE_UNDEFINED : RULE_SAME;
		return 0;
	}
	if (n == 1 && ops->atom == DW_OP_regx && ops->number < ROW_REGS) {
		rule->kind = RULE_REG;
		rule->reg = (uint8_t)ops->number;
		return 0;
	}
	value = ops[n - 1].atom == DW_OP_stack_value;
	n -= value;
	if (n && n <= 2 && ops[0].atom == DW_OP_call_frame_cfa &&
		(n == 1 || (ops[1].atom == DW_OP_plus_uconst && fits((int64_t)ops[1].number)))) {
		rule->kind = value ? RULE_IS : RULE_AT;
		rule->offset = n == 1 ? 0 : (int32_t)ops[1].number;
		return 0;
	}
	rule->kind = value ? RULE_IS_EXPR : RULE_AT_EXPR;
	return take_ops(row, rule, ops, n);
}

/* Addresses from the first up to the second. */
struct range {
	Dwarf_Addr from, to;
};

/* ret_range: of the addresses for which the row is valid. */
static int read_row(Dwarf_CFI *cfi, Dwarf_Addr at, struct row *row, struct range *ret_range)
{
	Dwarf_Frame *frame;
	bool signal;
	int ra, err;

	memset(row, 0, sizeof(*row));
	if (dwarf_cfi_addrframe(cfi, at, &frame))
		return -ENOENT;
	ra = dwarf_frame_info(frame, &ret_range->from, &ret_range->to, &signal);
	err = ra < 0 || ra >= ROW_REGS ? -EBADMSG : take_cfa(row, frame);
	for (int reg = 0; !err && reg < ROW_REGS; reg++)
		err = take_register(row, frame, reg);
	row->ra = (uint8_t)ra;
	row->signal = signal;
	row->known = !err;
	free(frame);
	return err;
}

/* at: as libdw sees the file. */
static void find_row(struct lookup *l, Dwarf_Addr at, struct row *row, struct range *range)
{
	if (!l->eh && !l->no_eh) {
		l->eh = dwfl_module_eh_cfi(l->mod, &l->eh_bias);
		l->no_eh = !l->eh;
	}
	if (l->eh && !read_row(l->eh, at - l->eh_bias, row, range)) {
		range->from += l->eh_bias;
		range->to += l->eh_bias;
		return;
	}
	if (!l->debug && !l->no_debug) {
		l->debug = dwfl_module_dwarf_cfi(l->mod, &l->debug_bias);
		l->no_debug = !l->debug;
	}
	if (l->debug && !read_row(l->debug, at - l->debug_bias, row, range)) {
		range->from += l->debug_bias;
		range->to += l->debug_bias;
		return;
	}
	memset(row, 0, sizeof(*row));
	*range = (struct range){ at, at + 1 };
}

/* ---- names ---- */

static int count_underscores(const char *name)
{
	return (int)strspn(name, "_");
}

/* Of two names for one place: visible from outside, without leading underscores, longer. */
static bool is_better(struct lookup *l, const struct symbol *a, const struct symbol *b)
{
	GElf_Sym sa, sb;
	const char *na, *nb;
	GElf_Addr addr;
	int ua, ub;

	if (!a->size != !b->size)
		return a->size;
	na = dwfl_module_getsym_info(l->mod, a->index, &sa, &addr, NULL, NULL, NULL);
	nb = dwfl_module_getsym_info(l->mod, b->index, &sb, &addr, NULL, NULL, NULL);
	if (!na || !nb)
		return na;
	if ((GELF_ST_BIND(sa.st_info) == STB_LOCAL) != (GELF_ST_BIND(sb.st_info) == STB_LOCAL))
		return GELF_ST_BIND(sb.st_info) == STB_LOCAL;
	ua = count_underscores(na);
	ub = count_underscores(nb);
	return ua != ub ? ua < ub : strlen(na) > strlen(nb);
}

static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *sa = a, *sb = b;

	if (sa->start != sb->start)
		return sa->start < sb->start ? -1 : 1;
	return sa->index < sb->index ? -1 : sa->index > sb->index;
}

static bool is_code(const struct lookup *l, GElf_Addr addr)
{
	for (size_t i = 0; i < l->n_loads; i++) {
		if (addr - l->bias - l->loads[i].vaddr < l->loads[i].size)
			return true;
	}
	return false;
}

/* Several names of one place: keeps the best. */
static void drop_twins(struct lookup *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->n_symbols; i++) {
		if (kept && l->symbols[kept - 1].start == l->symbols[i].start) {
			if (is_better(l, &l->symbols[i], &l->symbols[kept - 1]))
				l->symbols[kept - 1] = l->symbols[i];
			continue;
		}
		l->symbols[kept++] = l->symbols[i];
	}
	l->n_symbols = kept;
}

/* Sorted, since libdw's own search looks at each symbol of the file. */
static void read_symbols(struct lookup *l)
{
	int n = dwfl_module_getsymtab(l->mod);

	l->symbols_read = true;
	if (n <= 0)
		return;
	if (n > SYMBOLS_MAX)
		n = SYMBOLS_MAX;
	l->symbols = malloc((size_t)n * sizeof(*l->symbols));
	for (int i = 1; l->symbols && i < n; i++) {
		GElf_Sym sym;
		GElf_Addr addr;
		GElf_Word shndx;
		const char *name = dwfl_module_getsym_info(l->mod, i, &sym, &addr, &shndx, NULL, NULL);
		int type = name ? GELF_ST_TYPE(sym.st_info) : STT_SECTION;

		if (!name || !*name || *name == '$' || shndx == SHN_UNDEF || !is_code(l, addr) ||
			(type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
			continue;
		l->symbols[l->n_symbols++] = (struct symbol){
			.start = addr, .size = sym.st_size > UINT32_MAX ? UINT32_MAX : (uint32_t)sym.st_size, .index = i
		};
	}
	if (!l->symbols)
		return;
	qsort(l->symbols, l->n_symbols, sizeof(*l->symbols), compare_symbols);
	drop_twins(l);
}

static bool same_section(struct lookup *l, Dwarf_Addr a, Dwarf_Addr b)
{
	Dwarf_Addr bias;
	Elf_Scn *of_a = dwfl_module_address_section(l->mod, &a, &bias);
	Elf_Scn *of_b = dwfl_module_address_section(l->mod, &b, &bias);

	return of_a && of_a == of_b;
}

/* Narrows the range to the addresses around this one that have the same symbol. */
static const struct symbol *find_symbol(struct lookup *l, Dwarf_Addr at, struct range *range)
{
	size_t lo;

	if (!l->symbols_read)
		read_symbols(l);
	lo = bisect(l->n_symbols, k, l->symbols[k].start <= at);
	if (lo < l->n_symbols && l->symbols[lo].start < range->to)
		range->to = l->symbols[lo].start;
	for (size_t back = 0; back < NESTED_MAX && back < lo; back++) {
		const struct symbol *s = &l->symbols[lo - 1 - back];

		/* one without a size extends to the next symbol, but not into another section: _init is no name of the PLT */
		if (s->size ? at - s->start < s->size : !back && same_section(l, s->start, at)) {
			if (s->start > range->from)
				range->from = s->start;
			if (s->size && s->start + s->size < range->to)
				range->to = s->start + s->size;
			return s;
		}
		if (s->start + s->size > range->from)
			range->from = s->start + s->size;
	}
	return NULL;
}

static bool find_address(const struct lookup *l, uint64_t offset, uint64_t *ret_vaddr)
{
	for (size_t i = 0; i < l->n_loads; i++) {
		if (offset - l->loads[i].offset < l->loads[i].size) {
			*ret_vaddr = offset - l->loads[i].offset + l->loads[i].vaddr;
			return true;
		}
	}
	return false;
}

static void read_parts(struct lookup *l)
{
	Elf *elf = dwfl_module_getelf(l->mod, &l->bias);

	l->parts_read = true;
	for (size_t i = 0; elf && i < l->n_symbols; i++) {
		const struct symbol *s = &l->symbols[i];
		uint64_t vaddr = s->start - l->bias;
		GElf_Sym sym;
		GElf_Addr addr;
		const char *name = dwfl_module_getsym_info(l->mod, s->index, &sym, &addr, NULL, NULL, NULL);

		if (!name || strcmp(name, PARTED))
			continue;
		for (size_t j = 0; j < l->n_loads; j++) {
			const struct load *load = &l->loads[j];

			if (vaddr - load->vaddr < load->size)
				l->n_parts = cold_parts(elf, vaddr, vaddr - load->vaddr + load->offset, s->size, l->parts);
		}
		break;
	}
}

/* The name of code that has no symbol; NULL: not known. */
static const char *find_part(struct lookup *l, uint64_t vaddr, Dwarf_Addr *start)
{
	uint64_t function;

	if (!l->parts_read)
		read_parts(l);
	if (!l->n_parts)
		return NULL;
	function = cold_function(dwfl_module_getelf(l->mod, &l->bias), vaddr);
	for (size_t i = 0; i < l->n_parts; i++) {
		if (l->parts[i] == function) {
			*start = function + l->bias;
			return PARTED ".cold";
		}
	}
	return NULL;
}

int lookup_place(struct lookup *l, uint64_t offset, struct place *ret_place)
{
	const struct symbol *s;
	const char *name = NULL;
	struct range range;
	Dwarf_Addr at, start;
	GElf_Sym sym;
	uint64_t vaddr;
	GElf_Addr addr;

	if (!find_address(l, offset, &vaddr))
		return -ENXIO;
	at = vaddr + l->bias;
	find_row(l, at, &ret_place->row, &range);
	start = range.from;
	s = find_symbol(l, at, &range);
	/* nothing has called it: its address is where it begins */
	if (!s && ret_place->row.signal) {
		range = (struct range){ at, at + 1 };
		s = find_symbol(l, at + 1, &range);
		range = (struct range){ at, at + 1 };
	}
	if (s)
		name = dwfl_module_getsym_info(l->mod, s->index, &sym, &addr, NULL, NULL, NULL);
	if (s)
		start = s->start;
	else
		name = find_part(l, vaddr, &start);
	ret_place->rel_pc = start - l->bias;
	ret_place->from = offset - (at - range.from);
	ret_place->to = offset + (range.to - at);
	memset(ret_place->name, 0, sizeof(ret_place->name));
	if (name)
		demangle(name, ret_place->name, sizeof(ret_place->name));
	return 0;
}
