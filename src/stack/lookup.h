/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process's files say of a place in its code: how to unwind from there, and its name. */
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
 * Writes the name as in the source (C++ and Rust), without parameters, cut to size - 1 bytes. A name that is not or badly mangled
 * is copied without what compilers and linkers have added (".constprop.0", "@@GLIBC_2.34"). Some names take very long, since back
 * references can double the text each time: a name stops once the text is full, but not if it yields no text.
 */
void demangle(const char *mangled, char *to, size_t size);

/* ---- the files whose code processes run, and what is known of places in them ---- */

struct modules;
struct module;

/* A place in a file. */
struct spot {
	const struct row *row; /* NULL: nothing is known */
	uint32_t frame;        /* INTERN_NONE: see intern_frame() */
	bool named;
	bool fault;     /* reading the file for this failed badly */
	bool starts;    /* in a function where threads begin */
	bool evaluates; /* in Python's function that evaluates frames */
};

struct modules_stats {
	uint64_t files, failed, lookups;
	size_t memory;
};

/* A process's files are no longer opened once so many of them have ended the reader. */
#define MODULE_FAILURES_MAX 3

int modules_new(struct intern *in, struct modules **ret_modules);
void modules_free(struct modules *ms);

/* Returns the file of a mapping, opened through the process, or NULL. ret_fault: reading it failed badly. */
struct module *modules_get(struct modules *ms, pid_t pid, const struct mapped_file *m, bool *ret_fault);

/*
 * When there are many files, those that no process maps any more are dropped: if modules_many(), call modules_use() for each
 * file that a process points to, then modules_drop_unused(). Their frames stay.
 */
bool modules_many(const struct modules *ms);
void modules_use(struct module *m);
void modules_drop_unused(struct modules *ms);

/* Returns the vDSO, read from this process; NULL: none. */
struct module *modules_vdso(struct modules *ms);

/* Returns what is known of an offset in the file, valid until the next call. */
struct spot modules_spot(struct modules *ms, struct module *m, pid_t pid, const struct mapped_file *from, uint64_t offset);

void modules_stats(const struct modules *ms, struct modules_stats *ret_stats);

/*
 * ---- one file ----
 *
 * Read with libdw: call frame information (.eh_frame, .debug_frame) and names (.symtab, .dynsym, .gnu_debugdata, those
 * of a debug file). The ELF file may be hostile and libdw is not hardened, so this runs in a process of its own: see unwind.h.
 */

struct lookup;

/* Takes over the descriptors, also on failure. debug_fd: the debug file with what was stripped from fd; -1: none. linked: it was
 * found by its .gnu_debuglink name and is used only if its checksum matches. Negative errno. */
int lookup_open(int fd, int debug_fd, bool linked, struct lookup **ret_lookup);

/* Gives the name of the debug file, without a directory, from .gnu_debuglink; "": none. */
void lookup_link(const struct lookup *l, char *to, size_t size);
void lookup_close(struct lookup *l);

/* Looks up an offset in the file; for a return address, one within the call. -ENXIO: it is no code of the file. */
int lookup_place(struct lookup *l, uint64_t offset, struct place *ret_place);

/*
 * ---- cold parts: code of a function that seldom runs, which the compiler has moved away from it (cold.c) ----
 *
 * Without local symbols they have no name, but the function's jumps lead to them.
 */

#define COLD_MAX 8

/* Returns the start of the function, by call frame information, that includes the address; 0: none. Addresses are as linked. */
uint64_t cold_function(Elf *elf, uint64_t vaddr);

/* Gives the starts of the parts outside a function that it jumps to. vaddr, offset, size: of the function, offset in the file.
 * Returns how many. */
size_t cold_parts(Elf *elf, uint64_t vaddr, uint64_t offset, size_t size, uint64_t ret_starts[COLD_MAX]);

#endif
