/* SPDX-License-Identifier: BSD-2-Clause */
/* BPF maps that start afresh with each window. */
#ifndef INFTRACE_MAPS_H
#define INFTRACE_MAPS_H

/* Deletes all entries of a hash with keys of at most 8 bytes. */
void map_clear(int fd);

/* Overwrites all entries of an array with zeros. */
void map_zero(int fd);

#endif
