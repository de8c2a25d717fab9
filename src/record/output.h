/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the records of a recording go: a format and its files, for each of the outputs that are asked for. */
#ifndef INFTRACE_RECORD_OUTPUT_H
#define INFTRACE_RECORD_OUTPUT_H

#include "record/options.h"
#include "sink/sink.h"

/* Whether everything can be written, and the default name. Nothing is created yet. Prints one line
 * on failure; 0, -EINVAL (usage) or another errno. */
int outputs_check(struct record_options *o);

/* Creates the directories that are missing. Prints one line on failure. */
int outputs_prepare(const struct record_options *o);

/*
 * Opens the files and writes their first events: those that `o` names, or of a window or a dump one set for
 * each process, named by time. With -a there is one set all the same: cutting up a system would make hundreds.
 * `o` and `rec` must outlive the sink. Prints one line on failure.
 */
int outputs_open(const struct record_options *o, const struct recording *rec, struct sink **ret_sink);

/* The same, but by process only for these: records of others are left out. */
int outputs_open_of(const struct record_options *o, const struct recording *rec, const uint32_t *tgids, size_t n,
	struct sink **ret_sink);

/* Of one set: the name of the file that is written, of the traces in the order of the options, then of the
 * profile. NULL: there is no such file. */
const char *outputs_name(const struct sink *s, size_t i);

/* Opens the file that outputs_name() names for reading. -ENOENT: it is no file. */
int outputs_reopen(const struct sink *s, size_t i);

#endif
