/* SPDX-License-Identifier: BSD-2-Clause */
/* The sums of bpf/sums.bpf.h when the window has closed. */
#ifndef INFTRACE_CAPTURE_SUMS_H
#define INFTRACE_CAPTURE_SUMS_H

#include "process_sums.h"

/* Reads both maps into a list sorted by tgid, which the caller frees. -errno. */
int sums_read(int process_fd, int syscall_fd, struct process_totals **ret_list, size_t *ret_n);
/* Reads the system calls alone, by tgid and number, also while the window is open: until it closes,
 * those of a process that is alive are not in the list above. The caller frees *ret_calls. */
int sums_read_calls(int syscall_fd, struct process_call **ret_calls, size_t *ret_n);
void sums_free(struct process_totals *list, size_t n);

#endif
