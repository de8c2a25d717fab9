/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What inftrace report keeps of its input files: processes, their steps, and sums by name. Times
 * are nanoseconds; names are ids into one table, 0 is "not known".
 */
#ifndef INFTRACE_REPORT_MODEL_H
#define INFTRACE_REPORT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/counts.h"
#include "report/gpu.h"
#include "report/idmap.h"
#include "report/seq.h"
#include "report/stack_times.h"
#include "report/stats.h"
#include "report/steps.h"
#include "util/host_id.h"
#include "util/json_node.h"

/* Time that threads waited for a CPU while another one ran on it. */
struct behind_info {
	int64_t ns;
	uint32_t by, tid, pid; /* tid 0: no thread; `by` says what there was instead. pid 0: unknown */
	bool limit;	       /* held back by a CPU limit */
};

struct op_time {
	uint32_t name;
	int64_t ns;
};

/* A call of a function that is not a step: sampling, a graph. */
struct call {
	int64_t ts, ns;
	uint32_t name, recording;
};

/* Of an operator: in which function itself most of its samples were. */
struct op_hot {
	uint32_t function;
	uint64_t samples, next; /* next: of the function with the second most */
	uint64_t of;            /* all samples of the operator */
};

/* Time and count by name. */
struct tally_row {
	uint32_t name;
	int64_t ns;
	uint64_t count;
	struct op_hot hot;
	struct count_sum counts;
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
	uint32_t origin; /* a name that tells equal pids of several machines apart */
	uint32_t comm, model, commit, env_hash;
	uint32_t host; /* 0: unknown */
	struct steps steps; /* after model_finish: sorted by lane and time */
	struct behind_info *behind;
	size_t n_behind, behind_size;
	struct op_time *step_ops;
	size_t n_step_ops, step_ops_size;
	struct idmap by_number; /* of the first n_numbered steps, once there are operators by step */
	size_t n_numbered;
	struct typical *typicals; /* set by typical_find() */
	size_t n_typicals, typicals_size;
	uint32_t *grouped;   /* the steps sorted by what they are compared with, and by time */
	uint32_t recordings; /* with steps of this process */
	int64_t wall;        /* over all recordings, from the first step to the last */
	int64_t tracer, tracer_of; /* what the recorder cost, and the time of the steps for which it says so */
	uint64_t left_out[SHED_PARTS]; /* steps without this part, by --budget */
	uint64_t stand_ins; /* steps that stand in for those of the engine */
	uint32_t finding;   /* why its preset does not fit */
	struct tally ops, syscalls;
	struct call *calls; /* after model_finish: sorted by time */
	size_t n_calls, calls_size;
	struct seqs seqs; /* requests, from lines of the profile */
	struct stack_times stacks;
	struct gpu_phases gpu;
	struct count_phases counts;
	/* from sched_prof, fault_prof and memory_prof */
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
	double coverage; /* 0 to 1; < 0: unknown */
	uint32_t trigger; /* why it was dumped, a name */
	bool lacks_faults; /* the kernel did not show them */
};

/* What the clocks of its host said when a recording began, where it says so. */
struct recording_clock {
	bool known;
	int64_t boot_ns, real_ns; /* CLOCK_BOOTTIME of the machine, without what a time namespace adds; CLOCK_REALTIME. Each below 2^62 */
	struct host_id id;
};

struct names {
	char **text;
	size_t len, size;
	struct lh_table *ids;
};

#define FAMILIES_MAX 256

/* The lines of one event of another program. */
struct foreign_family {
	uint32_t event, source; /* names */
	uint64_t lines;
	struct times totals;      /* of those that have one */
	struct percentiles total; /* after model_finish */
	struct tally stages;
};

struct model {
	struct names names;
	struct process **processes; /* in the order of their first occurrence; after model_finish those without steps last */
	size_t n_processes, processes_size;
	struct idmap by_pid;
	struct window *windows;
	size_t n_windows, windows_size;
	struct tally lost; /* records, by kind */
	struct code_tree code; /* the stacks of all processes */
	uint64_t lost_records;
	uint32_t recordings;
	struct recording_clock *clocks; /* of the first n_clocks recordings */
	size_t n_clocks, clocks_size;
	struct archive_hosts **archives; /* of inftrace link: what was recorded of collectives over hosts */
	size_t n_archives, archives_size;
	struct foreign_family *families; /* of other programs */
	size_t n_families, families_size;
	uint32_t host; /* a name: that of the file which is being read, of an archive; 0: unknown */
};

/* Functions that can fail return 0 or -ENOMEM, after which only model_free may follow. */
int model_init(struct model *m);
void model_free(struct model *m);

/* The id of a text, created if it is new; for NULL and "": 0. */
int model_name(struct model *m, const char *text, uint32_t *ret_id);
/* Never NULL; "" for 0. May be unprintable, since names come from outside. */
const char *model_text(const struct model *m, uint32_t id);

/* The process, created if it is new. Its address does not change. */
int model_process(struct model *m, uint32_t pid, uint32_t origin, struct process **ret_process);

/* Notes when a recording began, and on which host: `ts` ns before the clocks in this object, as profiles and Chrome traces have them. Times that
 * cannot be are left out. 0 or -ENOMEM. */
int model_set_clock(struct model *m, uint32_t recording, const struct json_node *clocks, int64_t ts);
/* known is false if it has not been set. */
struct recording_clock model_clock(const struct model *m, uint32_t recording);

/* Whether only its name is known. */
bool process_empty(const struct process *p);

/* The steps sorted by recording and time, or (lanes) so within each lane: *ret_order is to be freed by the
 * caller, NULL if they are sorted already. Returns 0 or -ENOMEM. */
int process_order(const struct process *p, bool lanes, uint32_t **ret_order);

int process_add_step(struct process *p, const struct step *step);
/* Adds the rows for a step that is added next. */
int process_add_behind(struct process *p, struct step *step, const struct behind_info *own, size_t n_own,
	const struct behind_info *workers, size_t n_workers);
/* Adds the operator times of a step whose line came before. */
int process_add_ops(struct process *p, uint32_t recording, uint32_t number,
	const struct op_time *ops, size_t n);
int process_add_call(struct process *p, const struct call *call);

/* The family of an event and a source; *ret_family NULL: there are FAMILIES_MAX others. */
int model_family(struct model *m, const char *event, const char *source, struct foreign_family **ret_family);

int tally_add(struct tally *t, uint32_t name, int64_t ns, uint64_t count);
/* A row that has been added, until the next one is. */
struct tally_row *tally_get(struct tally *t, uint32_t name);
/* Sorts by time, longest first, then by count. No rows can be added after this. */
void tally_sort(struct tally *t);
int times_add(struct times *t, int64_t ns);

/*
 * Sorts the steps once everything is read: joins recordings on one time axis, separates contexts of
 * the engine, and computes the gaps between steps. Returns 0 or -ENOMEM.
 */
int model_finish(struct model *m);

/* Adds, but stays at the limit instead of wrapping: files may contain any number. */
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

/* Makes room for `need` elements in a growing array. */
int array_reserve(void *array, size_t need, size_t *size, size_t element);

#endif
