/* SPDX-License-Identifier: BSD-2-Clause */
/* Takes records and losses from the session to a sink: tasks, strings, checks, names, the limit of steps. */
#ifndef INFTRACE_RECORD_INTAKE_H
#define INFTRACE_RECORD_INTAKE_H

#include "engine/sequences.h"
#include "record/capture.h"
#include "sink/sink.h"

struct gaps;
struct gpu;
struct overhead;
struct scrape;
struct step_limit;
struct unwinder;

struct intake {
	struct capture *c;
	struct shown_contexts drafts;
	struct overhead *overhead;     /* NULL: no --budget */
	struct step_limit *step_limit; /* NULL: no --max-steps-per-process */
	struct unwinder *unwinder;     /* NULL: no stacks */
	struct gpu *gpu;               /* NULL: no --gpu */
	struct hooks *hooks;           /* NULL: no --hooks */
	struct scrape *scrape;         /* NULL: no --metrics */
	struct gaps *gaps;             /* NULL: no steps are recorded */
	bool keep_names;               /* learns names of threads at once: they may be gone by the time of a dump */
	/* the last thread found alive, and tasks_changes() at that time */
	uint32_t met_tgid, met_tid;
	uint64_t met_changes;
	/* for the open window */
	struct sink *sink;                  /* NULL: none, and only the tasks are kept up to date */
	struct window_totals *totals;       /* records, steps and loss */
	uint64_t dropped_now[REC_KIND_MAX]; /* by the sink, at the last look */
	uint64_t last_loss_ns;
	/* for the run */
	uint64_t lost[REC_KIND_MAX]; /* so far, by the session, the unwinder and GPUs */
	uint64_t dropped;            /* records for which a file was too slow, over all kinds and outputs */
};

/* A window opens: from now on records go to the sink and are counted there. */
void intake_open(struct intake *in, struct sink *s, struct window_totals *totals, uint64_t now_ns);
void intake_close(struct intake *in);

/* Takes a record of the kernel; and one made in user space, for the open window. arg: the intake. */
void intake_record(const struct rec_hdr *h, size_t size, void *arg);
void intake_made(const struct rec_hdr *h, size_t size, void *arg);

/* Hands over the stacks of all samples so far, and waits for them. */
void intake_finish_stacks(struct intake *in);

/* The rings have been emptied. */
void intake_settled(struct intake *in, uint64_t now_ns);

/* The window closes, and all its records have been taken: hands over what was held back. */
void intake_release(struct intake *in);

/* Counts what has been lost so far, and tells the sink. */
void intake_check_loss(struct intake *in, uint64_t now_ns);

uint64_t total_of(const uint64_t counts[REC_KIND_MAX]);

#endif
