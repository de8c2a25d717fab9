/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the records of a window go: one set of outputs, or one for each process. */
#ifndef INFTRACE_RECORD_EXPORTS_H
#define INFTRACE_RECORD_EXPORTS_H

#include "record/options.h"

struct exports;

/* A file that is complete now. */
typedef void (*exports_file_cb)(const char *name, uint64_t bytes, void *arg);

/*
 * Opens the outputs for all targets that live; by process, also for those that come later, with
 * their first record; when there are too many of these, the rest shares one. With -a there is one set all
 * the same: cutting up a system would make hundreds.
 * Prints one line on failure.
 */
int exports_open(const struct record_options *o, const struct recording *rec, bool by_process,
	struct exports **ret_exports);

/* The same for these processes and no others: records of others are left out. */
int exports_open_of(const struct record_options *o, const struct recording *rec, const uint32_t *tgids, size_t n,
	struct exports **ret_exports);

/* Whether some output shows it. */
bool exports_want(struct exports *e, const struct rec_hdr *h);
void exports_record(struct exports *e, const struct rec_hdr *h);
void exports_loss(struct exports *e, const struct loss *l);
void exports_mark(struct exports *e, const struct mark *m);
void exports_settled(struct exports *e);
/* Returns the first error of any output so far. */
int exports_flush(struct exports *e);
/* Bytes that wait to be written. */
uint64_t exports_pending(const struct exports *e);
uint64_t exports_bytes(const struct exports *e);
/* As outputs_name(), when there is one set for all. */
const char *exports_name(const struct exports *e, size_t i);
/* As outputs_reopen(), when there is one set for all. */
int exports_reopen(const struct exports *e, size_t i);
/* Records that some output had no room for. */
void exports_dropped(const struct exports *e, uint64_t ret_dropped[REC_KIND_MAX]);

/* Not all that belongs into the files will come: they keep the names of parts. */
void exports_cut(struct exports *e);

/* As outputs_close(). */
int exports_close(struct exports *e, const struct window_totals *t, exports_file_cb cb, void *arg);

#endif
