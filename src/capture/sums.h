/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums of the BPF programs, and snapshots of what threads are doing. */
#ifndef INFTRACE_CAPTURE_SUMS_H
#define INFTRACE_CAPTURE_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/ringbuf.h"
#include "process_sums.h"
#include "target/tasks.h"

/* The sums of bpf/sums.bpf.h: all are complete once the window has closed; memory can be read while it is open. */

/* Reads both maps into a list sorted by tgid, for sums_free(). */
struct process_totals *sums_read(int process_fd, int syscall_fd, size_t *ret_n);
/* Reads the system calls alone, by tgid and number, also while the window is open: until it closes, the list above lacks
 * the calls of live processes. The caller frees the result. */
struct process_call *sums_read_calls(int syscall_fd, size_t *ret_n);
void sums_free(struct process_totals *list, size_t n);

/* ---- memory of the target processes: counts of the BPF programs, turned into REC_MEMORY records where they changed ---- */

struct memory;

/* sums_fd: the map process_sums. */
struct memory *memory_new(int sums_fd);
void memory_free(struct memory *m);

/* Call when the window opens: what the targets have used so far belongs to the time before it. */
void memory_start(struct memory *m, struct tasks *tasks);

/* Makes a record for each target whose memory has changed since the previous call, and a last one when it has exited. Does
 * nothing within 10 ms of the previous call, unless `last`. */
void memory_sample(struct memory *m, struct tasks *tasks, uint64_t now_ns, bool last, record_cb cb, void *arg);

/* Call when the window closes: fills in the current and the highest resident sets. */
void memory_totals(const struct memory *m, struct process_totals *list, size_t n);

/* The task iterators of bpf/snapshot.bpf.c. */

struct bpf_program;

/* Runs an iterator once over all tasks. -errno. */
int snapshot_run(struct bpf_program *prog);

/* Sends the stacks of threads that still wait at boot_ns, if the program is loaded. until: the program's variable for it. */
int snapshot_waiting(struct bpf_program *prog, volatile uint64_t *until, uint64_t boot_ns);

/*
 * Passes on what every thread has in flight, as records marked REC_F_OPEN_END, and after each thread's records the instant
 * at which they were taken; what the thread ended before is in the rings by then. A thread that changes during each of a
 * few tries is left out. -errno.
 */
typedef void (*peek_cb)(uint32_t tid, uint64_t at_ns, void *arg);
int snapshot_peek(struct bpf_program *prog, record_cb cb, peek_cb thread_cb, void *arg);

#endif
