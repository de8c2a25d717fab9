/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports, once, that a process calls no step of a preset although its engine is at work. From then on calls of the
 * preset's stand-ins are the steps of that process, until one of its own is called after all.
 */
#ifndef INFTRACE_MISFIT_H
#define INFTRACE_MISFIT_H

#include <stdint.h>

#include "engine/spec.h"

struct inspector;
struct sink;
struct misfits;

#define MISFIT_MARK "misfit" /* name of the mark that reports it, whose number is the tgid */

/* steps_fd: the map engine_steps. Both others must outlive the result. */
struct misfits *misfits_new(int steps_fd, struct probe_table *pt, struct inspector *ins);
void misfits_free(struct misfits *m);

/* m may be NULL for all of these. */

/* Call now and then, not within a record's callback. s: the sink of the open window; NULL: none is open. */
void misfits_turn(struct misfits *m, struct sink *s, uint64_t now_ns);

/* The process has ended, or runs another program. */
void misfits_forget(struct misfits *m, uint32_t tgid);

/* Repeats earlier findings to a new sink, whose time begins at from_ns. */
void misfits_marks(const struct misfits *m, struct sink *s, uint64_t from_ns);

#endif
