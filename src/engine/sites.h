/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the probes of presets and of Python functions go in a file. */
#ifndef INFTRACE_SITES_H
#define INFTRACE_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/spec.h"
#include "target/elf.h"
#include "target/site.h"

/* Whether a file of this name shows something that arguments of Python functions need: FOUND_TENSORS. */
bool probe_table_wants_tensors(const struct probe_table *pt, const char *shown);

/* Which probes go where in a file. */

struct probe_site {
	size_t spec; /* index in the table: the probe's id */
	const struct elf_symbol *symbol;
	struct site site;
	uint64_t semaphore; /* of a USDT probe: offset in the file, 0: none */
};

/*
 * What a file reveals about one specification. Everything here but `spec` comes from the file, which
 * may be hostile.
 */
enum found_kind {
	FOUND_SITE,
	FOUND_GO,     /* a function that a return probe would break */
	FOUND_NO_ARG, /* a place of a USDT probe with an argument that cannot be read */
	FOUND_NO_PYTHON, /* an interpreter that Python functions cannot be probed in */
	FOUND_TENSORS,   /* where PyTorch keeps the sizes of a tensor, for arguments of Python functions */
	FOUND_MAX,
};

struct found {
	enum found_kind kind;
	size_t spec; /* index in the table; a glob or a USDT probe stands for the specifications that it makes */
	const struct elf_symbol *symbol;
	struct site site;
	uint64_t semaphore;
	const struct fetch *fetch; /* FUNC_VALS_MAX of them, at a place of a USDT probe or with `row`; else NULL */
	const struct row_fetch *row; /* ROW_COLUMNS of them, where they differ from the preset; else NULL */
	unsigned int arg;	   /* FOUND_NO_ARG: which ... */
	const char *why;	   /* ... and why not; also of FOUND_NO_PYTHON */
	const char *declared;	   /* FOUND_SITE: the name that the file declares for the function; NULL: none */
	struct tensor_args tensors; /* FOUND_SITE: likewise; sizes may be 0 */
};

/* A non-zero return ends the walk and is returned. The pointers are valid during the call. */
typedef int (*found_cb)(const struct found *f, void *arg);

/*
 * Calls cb for each place in the file where a probe of the table goes. `shown` is the path as the
 * target sees it, to which the globs apply. `states_only`: of the presets' functions only those that
 * make time states (steps, barriers, GPU waits) and launches of graphs. Changes nothing: it runs in a
 * process that has nothing but the file. Returns 0, or an error of elf_find_symbol() and the like.
 */
int sites_find(const struct probe_table *pt, struct elf_file *elf, const char *shown, bool states_only,
	found_cb cb, void *arg);

/* A non-zero return ends the walk and is returned. The symbol is valid during the call. */
typedef int (*probe_site_cb)(const struct probe_site *site, void *arg);

/*
 * Adds what was found to the table, which grows by the matches of globs, and calls cb for a site.
 * Functions for which the table has no room are left out and counted. The user is told what cannot
 * be probed, once for each specification and file: *last_told, initially SIZE_MAX.
 */
int sites_take(struct probe_table *pt, const char *shown, const struct found *f, size_t *last_told,
	probe_site_cb cb, void *arg);

/*
 * A library's names for its operators, from their declarations, which it has as text: PyTorch's
 * "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor" is its function add_Tensor.
 */
struct declared {
	char *text;
	const char **names; /* in `text`, in the order of the names of functions */
	size_t n;
};

/* *ret must be all 0, and stays so for a file without declarations. The caller clears it. */
void declared_read(struct elf_file *elf, struct declared *ret);
void declared_clear(struct declared *d);

/* Returns "add.Tensor" for add_Tensor, a part of a mangled name; NULL: it is not declared. ret_result: 1: the result is
 * returned in memory, whose address is the first argument; 0: in registers; -1: not known. */
const char *declared_find(const struct declared *d, const char *name, size_t len, int *ret_result);

/* Sets the members of *t that say where PyTorch's tensors have their sizes and type, as the code of two functions shows: those named
 * here, or NULL: at::native::size(const Tensor &, int64_t) and is_complex(const Tensor &). 0: it does not, or is not x86-64. */
void tensor_layout_find(struct elf_file *elf, const char *sizes_function, const char *types_function, struct tensor_args *t);

/* Reads which arguments of a function are tensors; *layout says where they have what. result: of declared_find(). From the first
 * argument on that is passed in an unknown way, none counts. */
void tensor_args_read(const char *symbol, int result, const struct tensor_args *layout, struct tensor_args *ret_tensors);

#endif
