/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What inftrace report keeps of the files it read: processes, their steps, and what adds up by
 * name. Times are nanoseconds; names are ids into one table, 0 is "not known".
 */
#ifndef INFTRACE_REPORT_MODEL_H
#define INFTRACE_REPORT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/idmap.h"
#include "report/seq.h"
#include "report/steps.h"

/* Time that threads waited for a CPU while another one ran on it. */
struct behind_info {
	int64_t ns;
	uint32_t by, tid, pid; /* tid 0: nobody; by says what there was instead. pid 0: not known */
	bool limit;	       /* held back by a CPU limit */
};

struct op_time {
	uint32_t name;
	int64_t ns;
};

/* A call of a function that is no step: sampling, a graph. */
struct call {
	int64_t ts, ns;
	uint32_t name, recording;
};

/* Time and number by name. */
struct tally_row {
	uint32_t name;
	int64_t ns;
	uint64_t count;
};

struct tally {
	struct tally_row *rows;
	size_t len, size;
	struct idmap by_name;
};

/* Durations, in the order in which they came. */
struct times {
	int64_t *ns;
	size_t len, size;
};

struct process {
	uint32_t pid;
	uint32_t origin; /* what tells equal pids of several machines apart: a name */
	uint32_t comm, model, commit, env_hash;
	struct steps steps; /* after model_finish: by lane, in the order of time */
	struct behind_info *behind;
	size_t n_behind, behind_size;
	struct op_time *step_ops;
	size_t n_step_ops, step_ops_size;
	struct idmap by_number; /* of the first n_numbered steps: once operators came by step */
	size_t n_numbered;
	struct typical *typicals; /* typical.h sets these */
	size_t n_typicals, typicals_size;
	uint32_t *grouped;   /* the steps by what they are compared with, in the order of time */
	uint32_t recordings; /* that have steps of it */
	int64_t wall;        /* of all recordings, first step to last */
	int64_t tracer, tracer_of; /* what the recorder cost, and the time of the steps of which it says so */
	struct tally ops, syscalls;
	struct call *calls; /* after model_finish: in the order of time */
	size_t n_calls, calls_size;
	struct seqs seqs; /* requests, as lines of the profile tell */
	struct times socket_ttft; /* as the server's sockets do: the same ones, seen from outside */
	uint64_t socket_requests;
	/* by sched_prof, fault_prof and memory_prof */
	int64_t sched[STATES], sched_total;
	uint64_t switches_voluntary, switches_involuntary;
	uint64_t faults_minor, faults_major;
	int64_t fault_minor_ns, fault_major_ns;
	uint64_t rss_peak, pages_allocated, pages_freed;
	bool has_sched, has_faults, has_memory, has_pages;
};

/* One window_prof line. */
struct window {
	uint32_t file; /* name */
	int64_t total;
	uint64_t records, lost, steps;
	double coverage; /* 0 to 1; < 0: not said */
	uint32_t trigger; /* why it was dumped: a name */
};

struct names {
	char **text;
	size_t len, size;
	struct lh_table *ids;
};

struct model {
	struct names names;
	struct process **processes; /* in the order in which they were met */
	size_t n_processes, processes_size;
	struct idmap by_pid;
	struct window *windows;
	size_t n_windows, windows_size;
	struct tally lost; /* records, by kind */
	uint64_t lost_records;
	uint32_t recordings;
};

/* All that can fail return 0 or -ENOMEM, after which model_free is the only thing to do. */
int model_init(struct model *m);
void model_free(struct model *m);

/* The id of a text, made when it is new; of NULL and "": 0. */
int model_name(struct model *m, const char *text, uint32_t *ret_id);
/* Never NULL; "" for 0. Not fit to print: names are somebody else's. */
const char *model_text(const struct model *m, uint32_t id);

/* The process, made when it is new. It stays where it is. */
int model_process(struct model *m, uint32_t pid, uint32_t origin, struct process **ret_process);

/* Only its name was met. */
bool process_empty(const struct process *p);

/* The steps in the order of recordings and of time, or (lanes) so within each lane: *ret_order is the caller's to
 * free, NULL when they are in that order. Returns 0 or -ENOMEM. */
int process_order(const struct process *p, bool lanes, uint32_t **ret_order);

int process_add_step(struct process *p, const struct step *step);
/* Rows for a step that is added next. */
int process_add_behind(struct process *p, struct step *step, const struct behind_info *own, size_t n_own,
	const struct behind_info *workers, size_t n_workers);
/* Operator times of a step whose line came before. */
int process_add_ops(struct process *p, uint32_t recording, uint32_t number,
	const struct op_time *ops, size_t n);
int process_add_call(struct process *p, const struct call *call);

int tally_add(struct tally *t, uint32_t name, int64_t ns, uint64_t count);
/* By time, longest first; then by count. Rows cannot be added after this. */
void tally_sort(struct tally *t);
int times_add(struct times *t, int64_t ns);

/*
 * Brings the steps in order once all is read: recordings behind one another on one time axis,
 * contexts of the engine apart, and the gaps between steps. Returns 0 or -ENOMEM.
 */
int model_finish(struct model *m);

/* Adds, and stays at the limit instead of wrapping: files may hold any number. */
static inline int64_t ns_add(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return b < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

static inline int64_t step_end(const struct step *s)
{
	return ns_add(s->at, s->total);
}

static inline int64_t steps_end(const struct steps *s, size_t i)
{
	return ns_add(steps_get(s, i, STEP_AT), steps_get(s, i, STEP_TOTAL));
}

/* Room for need elements in a growing array. */
int array_reserve(void *array, size_t need, size_t *size, size_t element);

#endif
