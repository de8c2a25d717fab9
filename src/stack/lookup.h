/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of a process say of a place in its code: how to unwind from there, and its names. */
#ifndef INFTRACE_STACK_LOOKUP_H
#define INFTRACE_STACK_LOOKUP_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stack/intern.h"
#include "stack/unwind.h"
#include "target/process.h"

/*
 * Writes the name as in the source (C++ and Rust), without parameters, cut to size - 1 bytes. A name that is not mangled, or not
 * well, is written as it is, without what compilers and linkers have added (".constprop.0", "@@GLIBC_2.34"). Some names take very
 * long, since what they repeat doubles with each reference: a long text ends early, but names that yield none do not.
 */
void demangle(const char *mangled, char *to, size_t size);

/* ---- the files that processes run code of, and what is known of places in them ---- */

struct modules;
struct module;

/* A place in a file. */
struct spot {
	const struct row *row; /* NULL: nothing is known */
	uint32_t frame;        /* INTERN_NONE: see intern_frame() */
	bool named;
	bool fault;     /* reading the file for this failed badly */
	bool starts;    /* where threads begin */
	bool evaluates; /* Python's function that evaluates frames */
};

struct modules_stats {
	uint64_t files, failed, lookups;
	size_t memory;
};

/* The number of the files that reading one process's files may end the reader for. */
#define MODULE_FAILURES_MAX 3

int modules_new(struct intern *in, struct modules **ret_modules);
void modules_free(struct modules *ms);

/* The file of a mapping, opened through the process. fault: set when reading it failed badly. NULL: it cannot be had. */
struct module *modules_get(struct modules *ms, pid_t pid, const struct mapped_file *m, bool *ret_fault);

/*
 * Files that no process maps any more are dropped when there are many: if modules_many(), call modules_use() for each that a
 * process points to, and modules_drop_unused(). Frames that they had stay.
 */
bool modules_many(const struct modules *ms);
void modules_use(struct module *m);
void modules_drop_unused(struct modules *ms);

/* The page of code that the kernel gives each process. */
struct module *modules_vdso(struct modules *ms);

/* What is known of an offset in the file. Valid until the next call. */
struct spot modules_spot(struct modules *ms, struct module *m, pid_t pid, const struct mapped_file *from, uint64_t offset);

void modules_stats(const struct modules *ms, struct modules_stats *ret_stats);

/*
 * ---- one file ----
 *
 * What an ELF file says of places in it, read with libdw: call frame information (.eh_frame, .debug_frame) and names
 * (.symtab, .dynsym, .gnu_debugdata, those of a file with debug information). The file may be hostile, and libdw may
 * fall for it: see unwind.h for where this runs.
 */

struct lookup;

/* Takes over the descriptors, also on failure. debug_fd: a file with the symbols and debug information that were
 * stripped from it; -1: none. linked: it was found by its name, and is used only if it has the checksum that the file says.
 * Negative errno. */
int lookup_open(int fd, int debug_fd, bool linked, struct lookup **ret_lookup);

/* The name of the file with what was stripped from this one, without a directory, as its .gnu_debuglink says; "": none. */
void lookup_link(const struct lookup *l, char *to, size_t size);
void lookup_close(struct lookup *l);

/* Of an offset in the file. A return address must have been moved into its call. -ENXIO: it is no code of the file. */
int lookup_place(struct lookup *l, uint64_t offset, struct place *ret_place);

/*
 * ---- parts of a function that the compiler has moved away from it, for code that seldom runs (cold.c) ----
 *
 * Where local symbols are stripped they have no name: the function's jumps lead there.
 */

#define COLD_MAX 8

/* The begin of the function, as the call frame information has it, that includes the address; 0: there is none. Addresses are
 * as linked. */
uint64_t cold_function(Elf *elf, uint64_t vaddr);

/* The parts that a function of some bytes at an offset in the file jumps to, apart from itself, by where they begin.
 * Returns how many. */
size_t cold_parts(Elf *elf, uint64_t vaddr, uint64_t offset, size_t size, uint64_t ret_starts[COLD_MAX]);

#endif
