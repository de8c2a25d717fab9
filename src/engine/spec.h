/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Engines are data: which functions to probe, what their arguments mean, which roles they play. A
 * preset (engines/NAME.json) and the -u options both become probe specifications in one table; the
 * index in the table is the probe's id, its attach cookie and the id in its records.
 */
#ifndef INFTRACE_ENGINE_SPEC_H
#define INFTRACE_ENGINE_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe.h"

#define SPEC_CHECKS_MAX 4
#define SPEC_CALLED_MAX 4096 /* texts that its slices are called; others have the name of the specification */

/* The names of an enumeration as some files of the engine have them. */
struct enum_variant {
	char **names;
	size_t n;
};

struct enum_file {
	uint64_t dev, ino;
	uint32_t variant;
};

struct enum_user {
	uint32_t tgid;
	uint32_t variant;
};

/* The names of an enumeration's values. */
struct enum_table {
	char *name;
	char **names; /* by value, as the process of probe_table_use() has them; NULL: no name */
	size_t n;
	char *object; /* a table of strings in one of the engine's files that replaces them, or NULL */
	bool from_file;		       /* names are a variant's */
	char **own_names;	       /* the preset's, if from_file; texts stay as long as the table exists */
	size_t n_own;
	struct enum_variant *variants; /* no two are the same; a process not among `users` has the first */
	size_t n_variants;
	struct enum_file *files; /* that are mapped */
	size_t n_files, cap_files;
	struct enum_user *users; /* ENUM_USERS_MAX, by tgid */
	uint8_t *bytes; /* size of what each value stands for; NULL: unknown */
};

/* "ARG == VALUE": the argument's number, then a number or the name of a value of its enum. */
struct probe_cond {
	enum probe_when op; /* WHEN_ALWAYS: no condition */
	unsigned int arg;
	int64_t than;
	char *name; /* NULL: `than` counts */
	unsigned int other; /* 1 + another argument to compare with; 0: none */
};

#define NAME_CASES_MAX 8

struct name_case {
	struct probe_cond cond;
	char *name;
};

struct probe_arg {
	char *name;
	struct probe_cond only_if; /* calls for which it does not hold lack the argument */
	const struct enum_table *names; /* NULL: a number */
	bool is_signed;
	bool is_pointer;
	bool is_handle; /* a pointer that may have a name */
	bool is_string;
	bool is_float; /* the value holds the bits of a float */
	bool is_row; /* derived from the step's rows, see rows.h */
	uint8_t size;
};

/* The members of an operator's node in the engine's graph; offsets in bytes. */
struct node_fields {
	struct node_layout layout; /* bytes 0: the probe is about no node */
	uint16_t view, op, type, shape, stride, name;
	const struct enum_table *ops, *types;
};

/* The tensors among the arguments of an operator; the shapes of at most FUNC_VALS_MAX / 2 are read. */
struct tensor_args {
	uint32_t tensors; /* 1 << argument */
	uint32_t sizes;   /* offset of the shape in a tensor (FETCH_F_SHAPE), in bytes; 0: nothing is known */
	uint32_t types;   /* likewise of the number of its type; 0: not known */
	uint8_t n_types;  /* numbers from this one on are no types */
	uint8_t n;        /* arguments in all, up to 32 */
	uint8_t regs;     /* 1 << enum fetch_reg: registers with pointers to pointers to the tensors, in their order */
	uint16_t index;   /* two bits for each register, see FETCH_F_SHAPE */
};

/* One function to probe, or a pair of functions that begin and end a span. */
struct probe_spec {
	char *library; /* glob on the file name, or a path if it contains a slash; NULL: the engine's files */
	char *symbol;  /* a name, a glob with * or ?, an expression of elf_resolve(), "usdt:provider:name" */
	char *span_name; /* a fixed name, or the name where no case holds; or: */
	struct name_case name_cases[NAME_CASES_MAX];
	unsigned int n_name_cases;
	int name_arg;	 /* >= 0: the name is this argument's enum name, or, with `called`, its text */
	struct called **called; /* the texts so far, at most SPEC_CALLED_MAX; NULL: it is no text */
	enum probe_role role;
	uint8_t flags; /* PROBE_F_* */
	int name_part;	 /* >= 0: the name is this part of the mangled C++ symbol, 0 the outermost scope */
	struct probe_cond when; /* only calls for which it holds */
	struct probe_cond checks[SPEC_CHECKS_MAX]; /* these hold for every call of an engine that the preset fits */
	unsigned int n_checks;
	bool past_early_return; /* calls that return at once may be missed */
	bool is_usdt;	 /* stands, like a glob, for the specifications that its places make */
	bool is_glob;	 /* stands for the specifications that its matches make */
	bool is_python;	 /* a Python function: see engine/sites.h */
	/* With is_python: the functions that have the batch of a step, which makes its rows, and requests that arrive, and
	 * how; NULL: none. Each sequence is then one request. The two specifications behind this one tell of their ids and ends. */
	char *batch_function, *results_function, *arrival_function, *sent_function;
	struct python_batch *batch;
	struct python_values *values; /* with is_python: where its arguments are; NULL: it has none */
	/* Prefix of the name that the file declares for the function (sites.c); of a match, the whole: "aten::add.Tensor".
	 * NULL: not asked for, or not declared. */
	char *declared;
	char *unless; /* "usdt:provider:name": only in files without that; no glob. NULL: in all */
	struct tensor_args tensors; /* of a match */
	unsigned int nshapes;	    /* values, two for each of their registers, from nargs on, which is 0 */
	bool exits;	 /* at most SITE_EXITS_MAX probes on its way out see its end, not a return probe */
	size_t from;	 /* a match: index + 1 of the glob it comes from; 0: no match */
	unsigned int nargs, nstrs;
	struct probe_arg args[FUNC_VALS_MAX];
	struct fetch fetch[FUNC_VALS_MAX];
	struct fetch group; /* with PROBE_F_GROUP */
	bool ordered;       /* hooks see it in processes that have some */
	bool hooked;        /* which all have, so it gets no probes */
	bool outermost; /* calls within another call of the same role do not count */
	bool stand_in; /* a step only where no other step of its engine is called */
	uint8_t row_count, rows_at, row_else, row_struct; /* as in struct probe: rows, rows_at, row_else, row_struct */
	struct row_fetch row[ROW_COLUMNS];
	struct {
		char *function; /* its code shows where the column is in a file's rows; NULL: as in the preset */
		uint32_t member; /* its element_find() result where the preset is right */
	} accessor[ROW_COLUMNS];
	const struct engine *engine; /* NULL: from the command line */
	bool refused;		     /* found where it must not, or cannot, be probed */
	unsigned int attached;	     /* sites attached so far */
	bool dear_ends;		     /* probes on its way out are single-stepped */
	bool dear_begin;	     /* so is the one where it begins */
	uint64_t records;
	int handle_arg; /* >= 0: in each call this argument's value has the name ... */
	int handle_name; /* ... in this string argument */
	bool hidden; /* exists for these names only */
	bool has_enums;
	uint8_t bytes_count, bytes_type; /* 1 + the argument with the number of elements, and that with their type; 0: none */
	struct node_fields node;
	bool rows_fit; /* all rows of some step could be read */
	unsigned int checked; /* calls with checked values, up to CHECK_CALLS */
	uint16_t misfits;     /* 1 << argument: does not fit the engine and is left out */
	uint16_t misfits_late; /* 1 << argument: single values unknown to its enum were left out and reported */
	uint64_t left_out;    /* number of values */
};

struct engine {
	char *name;
	char *advice; /* for when none of its steps is called; may be NULL */
	unsigned int version;
	char **mapped; /* globs on the names of mapped files */
	size_t n_mapped;
	struct enum_table *enums;
	size_t n_enums;
	bool runtime; /* what engines are written in: its files alone make no process one of an engine */
	bool matched; /* some target maps one of its files */
	unsigned int number; /* 1 + its index in the table */
	bool has_step, has_stand_in;
	bool has_python; /* some of its steps are Python functions */
};

struct probe_table {
	struct probe_spec *specs;
	size_t n, cap;
	struct engine **engines;
	size_t n_engines;
	size_t left_out; /* matches of globs that did not fit the table */
	struct {
		uint64_t dev, ino;
	} reading; /* the file that engine_set_names() is about */
	bool many_names; /* some enumeration has several variants */
	uint32_t used;	 /* the process of probe_table_use() */
	uint32_t tensor_sizes; /* FOUND_TENSORS of the last file, 0: none ... */
	bool tensors_differ;   /* ... which was not the others' */
	bool op_detail; /* presets loaded from now on fetch what only --op-detail shows */
	bool dear_ends; /* probes with `exits` also go where each call pays for a single-stepped instruction */
	bool nodes;      /* presets also copy the nodes of operators, which only execution traces show */
	bool declared;   /* presets also take the names that a file declares, as PyTorch's own traces do */
};

/* Whether the shapes of tensors are read where a file declares its operators. */
static inline bool probe_table_shapes(const struct probe_table *pt)
{
	return pt->declared && (pt->op_detail || pt->nodes);
}

void probe_table_free(struct probe_table *pt);

/* The probe of a step, a call or a node; NULL: there is none. */
static inline struct probe_spec *probe_table_get(const struct probe_table *pt, const struct rec_hdr *h)
{
	return h->id < pt->n ? &pt->specs[h->id] : NULL;
}

/* Appends LIB:SYMBOL[(name=EXPR,...)][@role]. On failure one line has been printed; -EINVAL. */
int probe_table_add_option(struct probe_table *pt, const char *option);

/* Whether a file of this name and path may have the function. */
bool probe_spec_matches(const struct probe_spec *s, const char *path);

/* Whether it is a barrier that a hook can see, whose threads have its first argument in common; or begins an operator, of which a hook can
 * read the value, if it has one. */
bool probe_spec_may_hook(const struct probe_spec *s);

/* Whether its calls are steps, or states of a thread, or counted in steps. */
bool probe_spec_makes_states(const struct probe_spec *s);

/* The part that --budget turns it off with; SHED_PARTS: none. */
enum shed_part probe_spec_part(const struct probe_spec *s);

/* Whether each sequence of its rows is one request, whose id a probe behind this one tells. */
static inline bool probe_spec_own_ids(const struct probe_spec *s)
{
	return s->batch || (s->values && s->row_count);
}

/* The name of a span with these arguments. Never NULL. Like all names of the table, including those of arguments and
 * their values, the text stays where it is until probe_table_free(), since sinks keep what they derive from it. */
const char *probe_spec_name(const struct probe_spec *s, const uint64_t *vals);

/* How many values its records have. */
static inline unsigned int probe_spec_values(const struct probe_spec *s)
{
	return s->nargs + s->nshapes;
}

/* The strings of a record, FUNC_STR_LEN bytes each. */
static inline const char *probe_record_strings(const struct probe_spec *s, const struct rec_function *r)
{
	return (const char *)&r->vals[s->nargs]; /* with shapes there are none */
}

/* The PMU_MAX counters of the call; NULL: nothing was counted. */
const uint64_t *probe_record_counts(const struct probe_spec *s, const struct rec_function *r);

/* The string of one argument among them. */
const char *probe_arg_string(const struct probe_spec *s, unsigned int arg, const char *strs);

/* What a call with `called` is called. */
const char *probe_called_name(const struct probe_spec *s, const struct rec_function *r);

/* What a call is called: by one of its strings, or probe_spec_name(). It stays as long as the table. */
static inline const char *probe_record_name(const struct probe_spec *s, const struct rec_function *r)
{
	return s->called ? probe_called_name(s, r) : probe_spec_name(s, r->vals);
}

const char *probe_role_name(enum probe_role role);

/* The option that makes Python functions ones of this role. */
const char *python_option(enum probe_role role);

/* Whether a file of this path is one of the engine's; and whether it shows that a process is one of the engine. */
bool engine_claims(const struct engine *e, const char *path);
bool engine_shows(const struct engine *e, const char *path);

#define ENUM_VARIANTS_MAX 64 /* that differ; further ones are not read */
#define ENUM_FILES_MAX 4096  /* mapped at a time; names of further files are not read */
#define ENUM_USERS_MAX 4096  /* processes; of two with the same number modulo this, one may lose its names */

/*
 * Adds the names of an enum from the file pt->reading. Values move between releases: the file that a
 * process has mapped has the names for that process only. Until a process is known to use a file, it
 * is assumed to use the first. Takes over the names, as returned by elf_strings_read(). Ignored if the
 * enum has no such table, or too many files had one.
 */
void engine_set_names(struct probe_table *pt, struct engine *e, size_t i, char **names, size_t n);

/* The process has mapped the file. */
void probe_table_mapped(struct probe_table *pt, uint64_t dev, uint64_t ino, uint32_t tgid);
/* No process maps the file any more: another file may get its number. Processes keep the names that they have. */
void probe_table_unmapped(struct probe_table *pt, uint64_t dev, uint64_t ino);
/* The process has begun as a copy of its parent. */
void probe_table_forked(struct probe_table *pt, uint32_t parent, uint32_t tgid);

/* From now on enums have the names of this process. Called for each record. */
void probe_table_switch(struct probe_table *pt, uint32_t tgid);
static inline void probe_table_use(struct probe_table *pt, uint32_t tgid)
{
	if (pt->many_names && pt->used != tgid)
		probe_table_switch(pt, tgid);
}

/* Makes the instructions for the BPF side. -ENOENT: its condition names a value that the enum lacks. */
int probe_spec_encode(const struct probe_spec *s, struct probe *ret_probe);

/*
 * Sets *ret_id to the specification of one match of a glob: a copy of the glob's, or the one that an earlier file with the
 * same symbol has made. instant: its end cannot be seen. tensors: sizes may be 0. Pointers to specifications are invalid
 * afterwards. -E2BIG: the table is full.
 */
int probe_table_match(struct probe_table *pt, size_t glob, const char *symbol, bool instant, const struct tensor_args *tensors,
	size_t *ret_id);

/* The same for a place of a USDT probe, whose arguments are fetched according to `fetch`. */
int probe_table_place(struct probe_table *pt, size_t usdt, const char *symbol,
	const struct fetch fetch[FUNC_VALS_MAX], size_t *ret_id);

/* The same for a function whose rows have another layout than in the preset. */
int probe_table_rows(struct probe_table *pt, size_t id, const char *symbol, const struct fetch fetch[FUNC_VALS_MAX],
	const struct row_fetch row[ROW_COLUMNS], size_t *ret_id);

/* fetch.reg in a parsed USDT argument: or-ed with its number, from 0. */
#define FETCH_USDT_ARG 0x80

/*
 * Parses "TYPE SOURCE": TYPE is u8..u64, s8..s64, f32, f64, ptr, handle, str or the name of an enum, SOURCE is a
 * register (arg1..arg6, sp; arm64 also arg7, arg8), a part of one (arg2>>32: a structure's second member), or up
 * to three nested loads: *(arg2+80), *(*(arg1+8)+16). A str is a text, of which FUNC_STR_LEN bytes are kept:
 * "str arg1" where arg1 points, "str *(arg1+256)" inside the structure that it points to, "str *(*(arg1+8))"
 * where a member points. With usdt, arg1..arg12 are the arguments of a USDT probe, which fetch_place() finds.
 * -EINVAL with a reason in ret_err.
 */
int fetch_parse(const char *text, const struct enum_table *enums, size_t n_enums, bool usdt,
	struct fetch *ret_fetch, struct probe_arg *ret_arg, const char **ret_err);

/* The same for a column of rows: one of up to four loads, the last or the last but one, is of an element
 * for each row: *(SOURCE+8*row) or *(SOURCE+row). Numbers only. */
int fetch_parse_row(const char *text, struct row_fetch *ret_fetch, const char **ret_err);

/* Adapts what was parsed for a USDT probe to one of its places. -EINVAL with a reason. */
struct usdt_note;
int fetch_place(const struct fetch *f, const struct probe_arg *arg, const struct usdt_note *note,
	struct fetch *ret_fetch, const char **ret_why);

/* ---- building specifications, for the presets and for the -u option ---- */

/* Bytes of a symbol or span name, and of the name of an argument or of an enum's value. Even a span
 * with ten arguments of the longest names is an event of less than WRITER_EVENT_MAX bytes. */
#define SPEC_STRING_MAX 255
#define SPEC_NAME_MAX 63
#define SPECS_MAX 4096 /* as many as the BPF map of probes holds */

/* The beginning of the symbol of a USDT probe; "provider:name" follows. */
#define SPEC_USDT "usdt:"

/* Appends a span probe named after its symbol. The table copies all strings. NULL: full. Pointers
 * to earlier specifications are invalid afterwards. */
struct probe_spec *spec_append(struct probe_table *pt, const char *library, const char *symbol);

struct probe_spec *spec_find(
	struct probe_table *pt, const struct engine *e, const char *library, const char *symbol);

/* Whether its role needs a duration, so that an instant will not do. */
bool spec_needs_end(const struct probe_spec *s);

/* The number of an argument, or -1. The name need not be terminated by a NUL. */
int spec_find_arg(const struct probe_spec *s, const char *name, size_t len);

/* Whether a text has 1 to max bytes and no control characters. */
bool spec_text_ok(const char *text, size_t max);

/* Part n of an Itanium-mangled nested name: _ZN2at4_ops3add4callE... has at, _ops, add, call. NULL: it has none. */
const char *spec_mangled_part(const char *symbol, int n, size_t *ret_len);

/* False: it begins like a USDT probe, but does not say which. */
bool spec_usdt_ok(const char *symbol);

/* Each returns 0 or -EINVAL, with the reason in ret_why where there is more than one. */
int spec_set_role(struct probe_spec *s, const char *role);
int spec_set_name(struct probe_spec *s, const char *rule, const char **ret_why);
int spec_set_when(struct probe_spec *s, const char *rule, const char **ret_why);
/* The name of the argument `handle` is in the argument `name`, "$ARG". */
int spec_set_names(struct probe_spec *s, const char *handle, const char *name, const char **ret_why);
int spec_add_check(struct probe_spec *s, const char *rule, const char **ret_why);
/* Whether an argument of this name may be added; and what counts it once it is there, at s->args[s->nargs]. */
int spec_name_arg(const struct probe_spec *s, const char *name, const char **ret_why);
int spec_count_arg(struct probe_spec *s, const char *name, const char **ret_why);
/* expr: "TYPE SOURCE", "TYPE SOURCE at return", or "TYPE SOURCE if CONDITION" on arguments that came before. */
int spec_add_arg(struct probe_spec *s, const char *name, const char *expr,
	const struct enum_table *enums, size_t n_enums, const char **ret_why);

/* Whether a condition holds for a call with these values. One without an operator always does. */
bool cond_holds(const struct probe_spec *s, const struct probe_cond *c, const uint64_t *vals);

#endif
