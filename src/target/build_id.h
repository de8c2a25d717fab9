/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFTRACE_BUILD_ID_H
#define INFTRACE_BUILD_ID_H

#include <stddef.h>

/*
 * The GNU build-id of an ELF file in lower-case hex, from its program headers alone and without libelf:
 * little enough code to run on a hostile file with all privileges. -ENOENT: it has none there, or is not
 * a 64-bit ELF file; -ENOSPC: hex is too small.
 */
int build_id_read(int fd, char *hex, size_t size);

#endif
