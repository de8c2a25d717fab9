/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of code that lies in no file: the kernel's functions, and code made at run time. */
#ifndef INFTRACE_STACK_KERNEL_SYMBOLS_H
#define INFTRACE_STACK_KERNEL_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Names of the kernel's functions, from /proc/kallsyms. */

struct kernel_symbols;

/* Opens the list, which shows addresses only to an opener with CAP_SYSLOG; the first lookup reads it. NULL path: /proc/kallsyms.
 * Negative errno. */
int kernel_symbols_new(const char *path, struct kernel_symbols **ret_symbols);
void kernel_symbols_free(struct kernel_symbols *ks);

/* Returns the name, or NULL if not known. ret_module: without brackets; NULL: the kernel itself. Both valid until the next call. */
const char *kernel_symbols_find(struct kernel_symbols *ks, uint64_t addr, uint64_t *ret_start, const char **ret_module);

size_t kernel_symbols_memory(const struct kernel_symbols *ks);

/*
 * Names of code made at run time, from /tmp/perf-PID.map as the process sees it: lines "START SIZE NAME", in hex,
 * appended as code is made. The file is not trusted: it must belong to the user of the process, and how much of it is
 * read, how often, and how many names are kept is bounded. For reused addresses the last name counts; of too many names
 * the oldest half goes.
 */

#define PERF_MAP_NAMES_MAX 32768
#define PERF_MAP_BYTES_MAX (2 << 20) /* of names */
#define PERF_MAP_NAME_MAX 256

struct perf_map;

/* Returns NULL if the process has no perf map that belongs to its user. */
struct perf_map *perf_map_open(pid_t pid);
/* Takes over the descriptor. */
struct perf_map *perf_map_new(int fd);
void perf_map_free(struct perf_map *map);

/* Returns the name of the code at the address, valid until the next call, or NULL. Reads on if the file has grown. */
const char *perf_map_find(struct perf_map *map, uint64_t addr, uint64_t *ret_start);

size_t perf_map_memory(const struct perf_map *map);

#endif
