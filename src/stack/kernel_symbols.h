/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of the kernel's functions, from /proc/kallsyms. */
#ifndef INFTRACE_STACK_KERNEL_SYMBOLS_H
#define INFTRACE_STACK_KERNEL_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

struct kernel_symbols;

/* Opens the list: whoever opens it needs CAP_SYSLOG to be shown addresses. It is read when the first address is looked up.
 * NULL path: /proc/kallsyms. Negative errno. */
int kernel_symbols_new(const char *path, struct kernel_symbols **ret_symbols);
void kernel_symbols_free(struct kernel_symbols *ks);

/* NULL: not known. ret_module: the module in brackets, NULL: the kernel itself. Valid until the next call. */
const char *kernel_symbols_find(struct kernel_symbols *ks, uint64_t addr, uint64_t *ret_start, const char **ret_module);

size_t kernel_symbols_memory(const struct kernel_symbols *ks);

#endif
