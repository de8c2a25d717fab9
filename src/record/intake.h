/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records on their way from the session to a sink. Each goes one way: the life of tasks, strings, checks, names,
 * the limit of steps, the sink. What was lost goes the same way.
 */
#ifndef INFTRACE_RECORD_INTAKE_H
#define INFTRACE_RECORD_INTAKE_H

#include "record/capture.h"
#include "sink/sink.h"

struct step_limit;

struct intake {
	struct capture *c;
	struct step_limit *step_limit; /* NULL: no --max-steps-per-process */
	bool keep_names; /* those of threads are learned at once: by the time of a dump they may be gone */
	/* the last thread that was found alive, and as of which change of the tasks */
	uint32_t met_tgid, met_tid;
	uint64_t met_changes;
	/* of the window that is open */
	struct sink *sink;	      /* NULL: none is, and nothing but what is known of tasks is taken */
	struct window_totals *totals; /* records, steps and loss */
	uint64_t dropped_now[REC_KIND_MAX]; /* by the sink, so far */
	uint64_t last_loss_ns;
	/* of the run */
	uint64_t lost[REC_KIND_MAX]; /* all that the session has counted so far */
	uint64_t dropped; /* records that a file was too slow for, over all kinds and outputs */
};

/* A window opens: what comes goes to the sink, and is counted there. */
void intake_open(struct intake *in, struct sink *s, struct window_totals *totals, uint64_t now_ns);
void intake_close(struct intake *in);

/* Takes a record; a record_cb whose argument is the intake. */
void intake_record(const struct rec_hdr *h, size_t size, void *arg);

/* The rings have been emptied. */
void intake_settled(struct intake *in, uint64_t now_ns);

/* The window closes, and all its records were taken: hands over what was held back. */
void intake_release(struct intake *in);

/* Counts what was lost by now, and tells the sink. */
void intake_check_loss(struct intake *in, uint64_t now_ns);

/* The record with all that sinks expect of it: a call whose strings could not be kept comes without, and gets empty
 * ones. Valid until the next. */
const struct rec_hdr *with_strings(const struct probe_table *probes, const struct rec_hdr *h, size_t *size);

/* Of counts per kind. */
uint64_t total_of(const uint64_t counts[REC_KIND_MAX]);

#endif
