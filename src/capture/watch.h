/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Watches the Python functions whose calls are steps by hardware watchpoints (bpf/python_watch.bpf.h), so that the other functions of
 * a process cost nothing. The probes in the interpreter find these functions. A process whose functions were seen gets
 * watchpoints; for some steps both see its calls, and if they agree, the process loses the probes.
 */
#ifndef INFTRACE_WATCH_H
#define INFTRACE_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct inftrace_bpf;
struct links;
struct probe_table;
struct watches;

/* Before loading: whether functions may be watched. can: links can be by process. */
void watches_configure(struct inftrace_bpf *k, const struct probe_table *probes, bool can);

/* After loading. k, links and probes must outlive the result, which is NULL if functions are not watched. */
int watches_new(struct inftrace_bpf *k, struct links *links, const struct probe_table *probes, struct watches **ret_watches);

/* Prints what was missed. w may be NULL here and below. */
void watches_free(struct watches *w);

/* Call some times a second. Returns whether a process is watched that may still have probes: call watches_take_over() then, once
 * links are by process. now_ns: CLOCK_BOOTTIME. */
bool watches_turn(struct watches *w, uint64_t now_ns);
void watches_take_over(struct watches *w);

/* Turns all watchpoints off or on. */
void watches_set(struct watches *w, bool on);

#endif
