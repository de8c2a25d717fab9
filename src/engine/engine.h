/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Engines are data: which functions to probe, what their arguments mean, which role they
 * play. A preset (engines/NAME.json) and the -u options both become probe specifications
 * in one table; the index in the table is the probe's id, its attach cookie and the id in
 * its records.
 */
#ifndef INFTRACE_ENGINE_H
#define INFTRACE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe.h"

#define SPEC_CHECKS_MAX 4

/* The names that a file of the engine has for an enumeration. */
struct enum_variant {
	uint64_t dev, ino;
	char **names;
	size_t n;
};

struct enum_user {
	uint32_t tgid;
	uint32_t variant;
};

/* Names of an enumeration's values. */
struct enum_table {
	char *name;
	char **names; /* by value; NULL where there is none: those of the process in probe_table_use() */
	size_t n;
	char *object; /* a table of strings in one of the engine's files that replaces them; or NULL */
	bool from_file;		       /* names are a variant's */
	char **own_names;	       /* of the preset then: texts stay where they are as long as the table */
	size_t n_own;
	struct enum_variant *variants; /* in the order of their files; who is no user has the first */
	size_t n_variants;
	struct enum_user *users; /* ENUM_USERS_MAX, by tgid */
};

/* "ARG == VALUE": the argument's number, then a number or the name of a value of its enum. */
struct probe_cond {
	enum probe_when op; /* WHEN_ALWAYS: no condition */
	unsigned int arg;
	int64_t than;
	char *name; /* NULL: than */
	unsigned int other; /* 1 + another argument that it is compared with; 0: none */
};

#define NAME_CASES_MAX 8

struct name_case {
	struct probe_cond cond;
	char *name;
};

struct probe_arg {
	char *name;
	struct probe_cond only_if; /* calls for which it does not hold do not have the argument */
	const struct enum_table *names; /* NULL: a number */
	bool is_signed;
	bool is_pointer;
	bool is_handle; /* a pointer that may have a name */
	bool is_string;
	bool is_float; /* the value is its bits */
	bool is_row; /* made of the step's rows, see rows.h */
	uint8_t size;
};

/* One function to probe, or a pair of functions that begin and end a span. */
struct probe_spec {
	char *library; /* glob on the file name, or a path when it has a slash; NULL: the engine's files */
	char *symbol;  /* a name, a glob with * or ?, an expression of elf_resolve(), "usdt:provider:name" */
	char *span_name; /* fixed name, or that of calls for which no case holds; or: */
	struct name_case name_cases[NAME_CASES_MAX];
	unsigned int n_name_cases;
	int name_arg;	 /* >= 0: the name is this argument's enum name */
	enum probe_role role;
	uint8_t flags; /* PROBE_F_* */
	int name_part;	 /* >= 0: the name is this part of the mangled C++ symbol, 0 the outermost scope */
	struct probe_cond when; /* only calls for which it holds */
	struct probe_cond checks[SPEC_CHECKS_MAX]; /* hold for every call of an engine that the preset fits */
	unsigned int n_checks;
	bool past_early_return; /* calls that return at once need not be seen */
	bool is_usdt;	 /* stands, like a glob, for the specifications that its places make */
	bool is_glob;	 /* stands for the specifications that its matches make */
	size_t from;	 /* a match: index + 1 of the glob it comes from; 0: no match */
	unsigned int nargs, nstrs;
	struct probe_arg args[FUNC_VALS_MAX];
	struct fetch fetch[FUNC_VALS_MAX];
	struct fetch group; /* with PROBE_F_GROUP */
	bool outermost; /* calls within another one of its role do not count */
	uint8_t row_count, rows_at, row_else; /* as in struct probe: rows, rows_at, row_else */
	struct row_fetch row[ROW_COLUMNS];
	const struct engine *engine; /* NULL: from the command line */
	bool refused;		     /* found where it must not, or cannot, be probed */
	unsigned int attached;	     /* sites attached so far */
	uint64_t records;
	int handle_arg; /* >= 0: calls tell that this argument's value is called ... */
	int handle_name; /* ... as this string argument says */
	bool hidden; /* there for these names only */
	bool has_enums;
	unsigned int checked; /* calls whose values were looked at, of CHECK_CALLS */
	uint16_t misfits;     /* 1 << argument: does not fit the engine, is left out */
	uint16_t misfits_late; /* had a single such value later */
	uint64_t left_out;    /* values */
};

struct engine {
	char *name;
	unsigned int version;
	char **mapped; /* globs on the names of mapped files */
	size_t n_mapped;
	struct enum_table *enums;
	size_t n_enums;
	bool matched; /* some target maps one of its files */
};

struct probe_table {
	struct probe_spec *specs;
	size_t n, cap;
	struct engine **engines;
	size_t n_engines;
	size_t left_out; /* matches of globs for which there was no room */
	struct {
		uint64_t dev, ino;
	} reading; /* the file that engine_set_names() is about */
	bool many_names; /* some enumeration has several variants */
	uint32_t used;	 /* by probe_table_use() */
	bool op_detail; /* presets loaded from now on fetch what only --op-detail shows */
};

void probe_table_free(struct probe_table *pt);

/*
 * Reads a preset and appends its probes. `name` is a path when it has a slash or ends in .json,
 * else the name of one that is installed. On failure one line with file, line and key has been
 * printed; -EINVAL (malformed, too many probes), -ENOENT
 * and whatever else open(2) says, -EFBIG, -ENOMEM.
 */
int engine_load(struct probe_table *pt, const char *name);

/* The same for a file. */
int engine_load_file(struct probe_table *pt, const char *path);

/* Loads every installed preset. Returns 0 also when there is none. */
int engine_load_all(struct probe_table *pt);

/* Appends LIB:SYMBOL[(name=EXPR,...)][@role]. On failure one line has been printed; -EINVAL. */
int probe_table_add_option(struct probe_table *pt, const char *option);

/* Whether a file of this name and path may have the function. */
bool probe_spec_matches(const struct probe_spec *s, const char *path);

/* The name of a span with these arguments. Never NULL. Like all names of the table, those of arguments and
 * their values included, the text stays where it is until probe_table_free(): sinks keep what they made of it. */
const char *probe_spec_name(const struct probe_spec *s, const uint64_t *vals);

/* Where the strings of a record are, FUNC_STR_LEN bytes each. */
const char *probe_record_strings(const struct probe_spec *s, const struct rec_function *r);

/* The string of an argument among them. */
const char *probe_arg_string(const struct probe_spec *s, unsigned int arg, const char *strs);

const char *probe_role_name(enum probe_role role);

/* Whether a file of this path is one of the engine's. */
bool engine_claims(const struct engine *e, const char *path);

#define ENUM_VARIANTS_MAX 64 /* files with names of their own; those of further ones are not read */
#define ENUM_USERS_MAX 4096  /* processes; two whose numbers are as far apart may lose theirs */

/*
 * Adds the names of an enum that pt->reading has. Numbers move between releases: the file that a
 * process has mapped knows those of that process, and of no other one. Until a process is known to use
 * a file, it is taken to use the first. Takes over the names, as of elf_strings_read(). Ignored when
 * the enum has no such table, or too many files had one.
 */
void engine_set_names(struct probe_table *pt, struct engine *e, size_t i, char **names, size_t n);

/* The process has mapped the file; has begun as a copy of another one. */
void probe_table_mapped(struct probe_table *pt, uint64_t dev, uint64_t ino, uint32_t tgid);
void probe_table_forked(struct probe_table *pt, uint32_t parent, uint32_t tgid);

/* Names of enums are those of this process from here on. For each record. */
void probe_table_switch(struct probe_table *pt, uint32_t tgid);
static inline void probe_table_use(struct probe_table *pt, uint32_t tgid)
{
	if (pt->many_names && pt->used != tgid)
		probe_table_switch(pt, tgid);
}

/* The instructions for the BPF side. -ENOENT: its condition names a value that the enum lacks. */
int probe_spec_encode(const struct probe_spec *s, struct probe *ret_probe);

/*
 * The specification of one match of a glob: made by copying it, or the one that an earlier file with
 * the same symbol has made. Pointers to specifications are invalid afterwards. -E2BIG, -ENOMEM.
 */
int probe_table_match(struct probe_table *pt, size_t glob, const char *symbol, size_t *ret_id);

/* The same for a place of a USDT probe, whose arguments are fetched as `fetch` says. */
int probe_table_place(struct probe_table *pt, size_t usdt, const char *symbol,
	const struct fetch fetch[FUNC_VALS_MAX], size_t *ret_id);

/* fetch.reg of what a USDT probe was parsed to: or-ed with the number of its argument, from 0. */
#define FETCH_USDT_ARG 0x80

/*
 * Parses "TYPE SOURCE": TYPE is u8..u64, s8..s64, f32, f64, ptr, handle, str or the name of an enum, SOURCE is a
 * register (arg1..arg6, sp; arm64 also arg7, arg8), a part of one (arg2>>32: a structure's second member), or
 * up to three nested loads: *(arg2+80), *(*(arg1+8)+16). A str is the text at a
 * place: "str arg1" where arg1 points, "str *(arg1+256)" inside the structure that it points to,
 * "str *(*(arg1+8))" where a member points; FUNC_STR_LEN bytes of it are kept. With usdt, arg1..arg12 are
 * the arguments of a USDT probe, which fetch_place() finds. -EINVAL with a reason in err.
 */
int fetch_parse(const char *text, const struct enum_table *enums, size_t n_enums, bool usdt,
	struct fetch *ret_fetch, struct probe_arg *ret_arg, const char **ret_err);

/* The same for a column of rows: one of up to four loads is of an element for each row, *(SOURCE+8*row) or
 * *(SOURCE+row), and the last one or the last but one. Numbers only. */
int fetch_parse_row(const char *text, struct row_fetch *ret_fetch, const char **ret_err);

/* What was parsed for a USDT probe, for one of its places. -EINVAL with a reason. */
struct usdt_note;
int fetch_place(const struct fetch *f, const struct probe_arg *arg, const struct usdt_note *note,
	struct fetch *ret_fetch, const char **ret_why);

#endif
