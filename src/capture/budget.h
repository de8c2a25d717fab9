/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits how long the files of one process, and of all processes, may keep inftrace busy: a process
 * can map any number of files that take long to read, and fork any number of processes that do.
 */
#ifndef INFTRACE_BUDGET_H
#define INFTRACE_BUDGET_H

#include <stdint.h>
#include <sys/types.h>

#define BUDGET_PROCESSES 64

struct budget {
	uint64_t left_ns, since_ns; /* of all processes; grows with time */
	struct {
		pid_t pid;
		uint64_t spent_ns;
	} processes[BUDGET_PROCESSES]; /* the last ones that have spent much */
	unsigned int next;
};

void budget_init(struct budget *b);

/* How long another file of the process may take; 0: it may not be read. */
uint64_t budget_left(struct budget *b, pid_t pid, uint64_t now_ns);
void budget_spend(struct budget *b, pid_t pid, uint64_t ns);

#endif
