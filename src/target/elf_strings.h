/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of strings in an ELF file: what C declares as const char *const NAMES[]. */
#ifndef INFTRACE_ELF_STRINGS_H
#define INFTRACE_ELF_STRINGS_H

#include "target/elf.h"

/* No string of a table is longer; one that is ends the table. */
#define ELF_STRINGS_LEN_MAX 63
#define ELF_STRINGS_MAX 1024

/*
 * Reads the strings that the pointers of a data object lead to, before any relocation by the
 * dynamic linker: from the relocations themselves. Entries that are null or lead nowhere are NULL.
 * The caller frees each string and the array. -ENOENT: no such object; -EBADMSG: not such a table;
 * -ENOMEM.
 */
int elf_strings_read(struct elf_file *elf, const char *object, char ***ret_strings, size_t *ret_n);

void elf_strings_free(char **strings, size_t n);

#endif
