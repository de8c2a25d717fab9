/* SPDX-License-Identifier: BSD-2-Clause */
/* Takes the steps and calls of the targets as they come, before anyone else sees them. */
#ifndef INFTRACE_ENGINE_CALLS_H
#define INFTRACE_ENGINE_CALLS_H

#include "engine/handles.h"
#include "engine/sequences.h"

/*
 * Checks that a step or a call, of the probe s, fits its preset, and learns from it the names of handles and the contexts of draft models.
 * From then on enums have the names of its process, as after the node of an operator, which is taken as it is. Returns what
 * may be shown: the record, or a copy that is valid until the next call, with empty strings where its own found no room,
 * without the parts of a batch that turns out to be laid out in another way; NULL: nothing.
 */
const struct rec_hdr *calls_take(struct probe_table *pt, struct handles *handles, struct shown_contexts *drafts,
	struct probe_spec *s, const struct rec_hdr *h, size_t *size);

/* Returns a call, with empty strings where its own found no room. Valid until the next call. */
const struct rec_hdr *with_strings(const struct probe_spec *s, const struct rec_hdr *h, size_t *size);

#endif
