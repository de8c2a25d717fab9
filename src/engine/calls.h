/* SPDX-License-Identifier: BSD-2-Clause */
/* Takes the steps and calls of the targets as they come, before anyone else sees them. */
#ifndef INFTRACE_ENGINE_CALLS_H
#define INFTRACE_ENGINE_CALLS_H

#include "engine/handles.h"
#include "engine/sequences.h"

/*
 * Takes a step or a call of probe s: checks that it fits its preset, and learns from it the names of handles and the contexts of
 * draft models. Of a node it only takes the process, whose names enums have from then on. Returns what may be shown: the record,
 * or a copy as of with_strings(), or one without parts, which do not fit; NULL: nothing.
 */
const struct rec_hdr *calls_take(struct probe_table *pt, struct handles *handles, struct shown_contexts *drafts,
	struct probe_spec *s, const struct rec_hdr *h, size_t *size);

/* Returns a call of probe s, with empty strings where its own found no room. Valid until the next call. */
const struct rec_hdr *with_strings(const struct probe_spec *s, const struct rec_hdr *h, size_t *size);

#endif
