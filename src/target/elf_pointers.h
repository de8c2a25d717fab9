/* SPDX-License-Identifier: BSD-2-Clause */
/* Pointers in the data of an ELF file, and what they point to, without running any of its code. */
#ifndef INFTRACE_ELF_POINTERS_H
#define INFTRACE_ELF_POINTERS_H

#include <stdbool.h>

#include "target/elf.h"

/* The longest string of a table; a longer one ends the table. */
#define ELF_STRINGS_LEN_MAX 63
#define ELF_STRINGS_MAX 1024

/*
 * Follows an expression from a function to another one that has no symbol. It is a symbol and then any
 * number of "()", the address that the function returns, and "[N]", the N-th pointer stored at the
 * address: "OrtGetApiBase()[0]()[9]". A function must return the address in the plain way (lea, ret). The
 * symbol of a virtual table ("_ZTV...") is found by its type information where the file is stripped. On
 * success the symbol is the function at the end, named by the expression (which must outlive it).
 * -ENOENT: the first symbol is missing; -EINVAL: malformed; -EBADMSG: the code does not have that form, or it ends
 * outside of the code.
 */
int elf_resolve(struct elf_file *elf, const char *expr, struct elf_symbol *ret_sym);

/* Whether that is such an expression, and not the name of a function or a glob. */
bool elf_is_path(const char *expr);

/*
 * Reads the strings that the pointers of a data object point to, the way they are before
 * relocation. Entries that are null or point nowhere are NULL. The caller frees each string and the
 * array. -ENOENT: no such object; -EBADMSG: not such a table; -ENOMEM.
 */
int elf_strings_read(struct elf_file *elf, const char *object, char ***ret_strings, size_t *ret_n);

void elf_strings_free(char **strings, size_t n);

#endif
