/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a sink keeps of processes, in a list that does not grow with the number of those that come and go: when it is full,
 * those go that ended long enough ago for all of their records to have arrived.
 */
#ifndef INFTRACE_SINK_PROCESS_LIST_H
#define INFTRACE_SINK_PROCESS_LIST_H

#include <stddef.h>

struct tasks;

struct process_list {
	void *list;          /* elements begin with the uint32_t tgid of their process */
	size_t n, cap, size; /* size: of an element */
};

/* Makes room for one more, after which all have moved. tasks NULL: nobody has ended. drop: called for each that goes, to write
 * and free what it has; or NULL. -ENOMEM, and the list is as it was, but for those that went. */
int process_list_room(struct process_list *l, struct tasks *tasks, void (*drop)(void *element, void *arg), void *arg);

#endif
