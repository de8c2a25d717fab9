/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Page faults. Their begin is a tracepoint; their end, which counts them and tells their kind, is an event of
 * perf_event_open(2), or where the kernel refuses those (Debian's and Ubuntu's, to all but CAP_SYS_ADMIN) the return of
 * a function of the kernel, which session_attach() attaches to as to a tracepoint.
 */
#ifndef INFTRACE_FAULTS_H
#define INFTRACE_FAULTS_H

#include <stdbool.h>

struct faults;
struct inftrace_bpf;
struct session_config;

#define FAULT_RETURN_FUNCTION "handle_mm_fault"

enum fault_ends {
	FAULT_ENDS_NONE, /* faults are not recorded */
	FAULT_ENDS_EVENTS,
	FAULT_ENDS_RETURN, /* of FAULT_RETURN_FUNCTION */
};

/* Chooses the programs that are loaded, by c->fault_ends. */
void faults_configure(struct inftrace_bpf *k, const struct session_config *c);

/*
 * Opens the events on all CPUs, if their programs were chosen and loaded, and attaches these. Prints one line on failure,
 * -errno. *ret_faults is to be freed then, too; NULL: there are no events.
 */
int faults_attach(struct inftrace_bpf *k, struct faults **ret_faults);

/* Stops the events, or lets them go on. NULL: nothing. */
void faults_set(const struct faults *f, bool on);

void faults_free(struct faults *f);

#endif
