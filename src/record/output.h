/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the records of a recording go: a format and its files for each output. */
#ifndef INFTRACE_RECORD_OUTPUT_H
#define INFTRACE_RECORD_OUTPUT_H

#include "record/options.h"
#include "sink/sink.h"

/* Checks that everything can be written, and sets the default name. Creates nothing yet. Prints one
 * line on failure; 0, -EINVAL (usage) or another errno. */
int outputs_check(struct record_options *o);

/* Creates missing directories. Prints one line on failure. */
int outputs_prepare(const struct record_options *o);

/*
 * Opens the files and writes their first events: those that `o` names, or for a window or a dump one set for
 * each process, named by time. With -a there is only one set, since one per process would make hundreds. `o`
 * and `rec` must outlive the sink. Prints one line on failure.
 */
int outputs_open(const struct record_options *o, const struct recording *rec, struct sink **ret_sink);

/* The same for these processes only: records of others are left out. */
int outputs_open_of(const struct record_options *o, const struct recording *rec, const uint32_t *tgids, size_t n,
	struct sink **ret_sink);

/* For one set: the name of the file that is being written, of the traces in the order of the options, then
 * of the profile. NULL: there is no such file. */
const char *outputs_name(const struct sink *s, size_t i);

/* Opens the file named by outputs_name() for reading. -ENOENT: it is not a file. */
int outputs_reopen(const struct sink *s, size_t i);

#endif
