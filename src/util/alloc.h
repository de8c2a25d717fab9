/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocation that does not fail. Linux overcommits: a process out of memory is killed rather than told, and where it is told (a limit on
 * the address space) nothing useful is left to do. So these end the program with one line instead of returning NULL. A recording that
 * ends that way is as complete as one that was killed, and the recorder notices when a process that reads hostile files (util/confine.h) ends.
 *
 * Not for a size that comes from a file or from the traced side and is not bounded otherwise: use malloc() and handle its error.
 */
#ifndef INFTRACE_UTIL_ALLOC_H
#define INFTRACE_UTIL_ALLOC_H

#include <stddef.h>

/* Logs "out of memory" and ends the program with 1; call it also when a library reports that. */
void out_of_memory(void) __attribute__((noreturn, cold));

/* Like the functions without the x. The caller frees the result with free(). */
void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xreallocarray(void *memory, size_t n, size_t size);
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *text, size_t len) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...) __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));

#endif
