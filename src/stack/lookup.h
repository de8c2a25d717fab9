/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an ELF file says of places in it, read with libdw: call frame information (.eh_frame, .debug_frame) and names
 * (.symtab, .dynsym, .gnu_debugdata, those of a file with debug information). The file may be hostile, and libdw may
 * fall for it: see reader.h for where this runs.
 */
#ifndef INFTRACE_STACK_LOOKUP_H
#define INFTRACE_STACK_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/row.h"

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

#endif
