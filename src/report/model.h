/* SPDX-License-Identifier: BSD-2-Clause */
/* The report's model. Steps are kept by column: a value takes as many bytes as the largest of its column needs, and none if
 * all are equal. A step takes some 60 bytes instead of the 550 of struct step. */
#ifndef INFTRACE_REPORT_MODEL_H
#define INFTRACE_REPORT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/host_clock.h"
#include "link/ranks.h"
#include "probe.h"
#include "record.h"
#include "report/stacks.h"
#include "report/stats.h"
#include "util/host_id.h"
#include "util/json.h"

/* The states of record.h, then one for names that this version does not know. */
#define STATE_OTHER ST_MAX
#define STATES (ST_MAX + 1)
#define STATE_NONE STATES

/* Who made the calling thread of a step wait, for longest. */
struct wait_info {
	int64_t ns;      /* 0: nothing is known */
	uint32_t tid;    /* the thread in its way, perhaps itself */
	uint32_t comm;   /* its name */
	uint32_t name;   /* what it did, as a text: "worker: blocked_io in read of x"; of the thread itself: the call and its file; 0: none */
	uint32_t behind; /* ST_RUNNABLE: who ran instead, for most of it; a thread's name, or "idle" or "cpu.max"; ST_STOPPED: who continued it;
			  * 0: unknown */
	uint32_t behind_tid;
	uint8_t state;
};

/* The largest cause of a time in which no step ran. */
struct largest_cause {
	uint32_t name; /* a text; 0: unknown */
	int64_t ns;
};

struct step {
	int64_t ts; /* from the start of the recording */
	int64_t at; /* on the process' time axis, which joins its recordings. Set by model_finish */
	int64_t total;
	int64_t gap; /* since the previous step in its lane; -1: none. Set by model_finish */
	int64_t own[STATES], workers[STATES], workers_total;
	struct wait_info wait;
	int64_t held; /* its longest wait at a barrier, for straggler_tid */
	uint32_t straggler_tid, straggler_comm;
	uint32_t number, tid, n_tokens, phase;
	uint32_t recording; /* counted from 0 over all files */
	uint32_t lane;      /* steps of one lane are consecutive. Set by model_finish */
	uint64_t context;   /* of the engine; 0: unknown */
	uint32_t syscalls, faults_minor, faults_major, lost;
	uint32_t n_workers, cpus_allowed; /* 0: unknown */
	int64_t cpu_limit;                /* in thousandths of a CPU; 0: none, or unknown */
	uint32_t behind; /* index into the process' behind: own rows, then the workers'; longest first */
	uint8_t n_behind, n_workers_behind;
	uint32_t ops, n_ops;       /* index into the process' step_ops */
	uint32_t typical;          /* index into the process' typicals. Set by typical_find */
	uint64_t rows[ROW_VALUES]; /* 1 + the value that describes its rows (docs/engines.md); 0: unknown */
	uint32_t left_out; /* 1 << enum shed_part, by --budget; the time of barriers left out counts as CPU */
	bool left_out_changed; /* one of these was off for a part of it only */
	bool unfinished, began_before;
	bool watched; /* the process's other Python functions cost nothing */
	struct largest_cause gap_by; /* of the gap before it */
	uint32_t stand_in; /* the function that stands in for the engine's step; 0: none. Kept only as a count of the process */
	int64_t tracer; /* the recorder's overhead; -1: unknown. Kept only as a sum of the process */
};

/* The columns: K(name, member, key) for members that are fields of schema/profile_fields.h, in the order written;
 * R(name, member, key) for arguments that describe rows, key being their name in presets; F(name, member) for the others;
 * A(name, member, n) for arrays of n of them. */
#define STEP_FIELDS(K, R, F, A)                                  \
	K(NUMBER, number, step)                                         \
	K(TID, tid, tid)                                                \
	K(PHASE, phase, phase)                                          \
	K(N_TOKENS, n_tokens, n_tokens)                                 \
	K(CONTEXT, context, context)                                    \
	R(ROWS, rows[ROW_N_OUTPUTS], n_outputs)                         \
	R(ROWS_SEQUENCES, rows[ROW_N_SEQUENCES], n_sequences)           \
	R(ROWS_ONE, rows[ROW_ONE_SEQUENCE], sequence)                   \
	R(ROWS_MASK, rows[ROW_MASK], sequences)                         \
	R(ROWS_POSITION, rows[ROW_FIRST_POSITION], position)            \
	R(ROWS_READ, rows[ROW_READ], rows_read)                         \
	K(TS, ts, ts_us)                                                \
	K(FAULTS_MINOR, faults_minor, faults_minor)                     \
	K(FAULTS_MAJOR, faults_major, faults_major)                     \
	K(SYSCALLS, syscalls, syscalls)                                 \
	K(LOST, lost, lost)                                             \
	K(CPUS_ALLOWED, cpus_allowed, cpus_allowed)                     \
	K(CPU_LIMIT, cpu_limit, cpu_limit)                              \
	K(N_WORKERS, n_workers, workers)                                \
	K(STRAGGLER_TID, straggler_tid, straggler_tid)                  \
	K(STRAGGLER_COMM, straggler_comm, straggler_comm)               \
	K(HELD, held, straggler_held_us)                                \
	K(LEFT_OUT, left_out, left_out)                                 \
	K(LEFT_OUT_CHANGED, left_out_changed, left_out_changed)         \
	K(WATCHED, watched, watched)                                    \
	K(BEGAN_BEFORE, began_before, began_before)                     \
	K(UNFINISHED, unfinished, unfinished)                           \
	F(AT, at)                                                       \
	F(TOTAL, total)                                                 \
	F(GAP, gap)                                                     \
	F(GAP_BY, gap_by.name)                                          \
	F(GAP_BY_NS, gap_by.ns)                                         \
	F(WAIT_NS, wait.ns)                                             \
	F(WAIT_TID, wait.tid)                                           \
	F(WAIT_COMM, wait.comm)                                         \
	F(WAIT_NAME, wait.name)                                         \
	F(WAIT_BEHIND, wait.behind)                                     \
	F(WAIT_BEHIND_TID, wait.behind_tid)                             \
	F(WAIT_STATE, wait.state)                                       \
	A(OWN, own, STATES)                                             \
	A(WORKERS, workers, STATES)                                     \
	F(WORKERS_TOTAL, workers_total)                                 \
	F(RECORDING, recording)                                         \
	F(LANE, lane)                                                   \
	F(BEHIND, behind)                                               \
	F(N_BEHIND, n_behind)                                           \
	F(N_WORKERS_BEHIND, n_workers_behind)                           \
	F(OPS, ops)                                                     \
	F(N_OPS, n_ops)                                                 \
	F(TYPICAL, typical)

#define STEP_COLUMN(name, ...) STEP_##name,
#define STEP_COLUMN_ARRAY(name, member, n) STEP_##name, STEP_##name##_LAST = STEP_##name + (n)-1,
enum step_column { STEP_FIELDS(STEP_COLUMN, STEP_COLUMN, STEP_COLUMN, STEP_COLUMN_ARRAY) STEP_COLUMNS };

struct column {
	void *values;
	int64_t same;  /* width 0: the value of all steps */
	uint8_t width; /* bytes of each value, which is signed */
};

struct steps {
	struct column columns[STEP_COLUMNS];
	size_t len, size;
	struct step first;          /* holds the values that all steps share */
	uint8_t wide[STEP_COLUMNS]; /* the columns with values of their own */
	size_t n_wide;
};

void steps_free(struct steps *s);

void steps_add(struct steps *s, const struct step *step);
void steps_set(struct steps *s, size_t i, enum step_column column, int64_t value);
/* Moves each step order[i] to i. */
void steps_reorder(struct steps *s, const uint32_t *order);

static inline int64_t steps_get(const struct steps *s, size_t i, enum step_column column)
{
	const struct column *c = &s->columns[column];

	switch (c->width) {
	case 0:
		return c->same;
	case 1:
		return ((const int8_t *)c->values)[i];
	case 2:
		return ((const int16_t *)c->values)[i];
	case 4:
		return ((const int32_t *)c->values)[i];
	default:
		return ((const int64_t *)c->values)[i];
	}
}

static inline bool steps_all_zero(const struct steps *s, enum step_column column)
{
	return !s->columns[column].width && !s->columns[column].same;
}

struct step steps_load(const struct steps *s, size_t i);

/* Requests from the lines of a profile (docs/profile-schema.md): told apart within an engine's batches, with the parts of
 * their time; or without parts, if the engine's rows are unknown. */

struct json_node;
struct process;

/* The parts of a request's time, which add up to it. */
enum request_time {
	TIME_QUEUED,
	TIME_OWN_PREFILL,
	TIME_OWN_DECODE,
	TIME_OTHERS,  /* work for other requests */
	TIME_BETWEEN, /* no step ran */
	TIME_PARTS,
};

enum request_flags {
	REQUEST_BEGAN_BEFORE = 1 << 0,
	REQUEST_UNFINISHED = 1 << 1, /* the recording ended within one of its steps */
	REQUEST_END_NOT_SEEN = 1 << 2,
	REQUEST_LOST = 1 << 3, /* steps were lost while it ran */
	REQUEST_CANCELLED = 1 << 4,
	REQUEST_OF_STEPS = 1 << 5, /* its engine's rows are unknown: its time is not divided into parts */
	REQUEST_MIXED = 1 << 6,    /* with REQUEST_OF_STEPS: it has no times of its own */
	REQUEST_PARTED = 1 << 7,   /* its parts add up to its time */
	REQUEST_JOINED = 1 << 8,   /* matched with the exchange on its socket */
};

/* The time of a part that the calling thread spent in a state. */
struct request_state {
	int64_t ns;
	uint8_t part, state;
};

#define REQUEST_WAITS_MAX 8

#define SEQUENCE_UNKNOWN UINT32_MAX /* no valid sequence */

/* How long a request waited for the rows of another one, given by number and sequence. */
struct request_wait {
	int64_t ns;
	int64_t first; /* of ns: before the waiter's first token; -1: unknown */
	uint32_t number, sequence;
};

struct request {
	int64_t ts;            /* from the start of the recording */
	int64_t at;            /* on the process' time axis; set by served_finish */
	int64_t total;         /* from the first byte on the socket, if that is known, else from its first step */
	int64_t ttft;          /* from its first step; -1: none, or unknown */
	int64_t ttft_client;   /* from the socket's first byte to the first part of the answer on it; -1: unknown */
	int64_t unread;        /* from the socket's first byte until the server had read it; -1: unknown */
	int64_t to_engine;     /* from the socket's first byte until the engine had it; -1: unknown */
	int64_t answered;      /* from the end of its last step until its answer was written; -1: unknown */
	int64_t write_blocked; /* in calls that blocked while writing the answer */
	int64_t tpot;          /* mean; -1: as above */
	int64_t tpot_max;
	int64_t parts[TIME_PARTS];
	int64_t first_others, first_between; /* time of these parts before the first token; -1: unknown */
	int64_t waited_others;               /* waiting for requests that are not among its waits */
	int64_t refused[REFUSALS]; /* of its queue: the engine's scheduler let no other request in, for this reason */
	/* of its other parts: from when it was preempted until it went on, before its first token, too, and computing the same once more */
	int64_t preempted, first_preempted, recompute;
	struct largest_cause gap_by; /* of its queue and the time between its steps */
	struct largest_cause answer_by; /* of the time until the first part of its answer was written */
	uint64_t context;
	uint32_t number;    /* within the recording; 0: unknown */
	uint32_t recording; /* counted from 0 over all files */
	uint32_t sequence;
	uint32_t id; /* the engine's own; its text is empty: unknown */
	uint32_t prompt_tokens, cached_tokens, output_tokens, steps, steps_shared;
	uint32_t preemptions, recomputed_tokens;
	uint32_t chunks;    /* parts of the answer on its socket */
	uint32_t slots;     /* the most requests that its context worked on at a time; set by served_finish, as `full` */
	int64_t full;       /* of its queue: the context worked on so many, one of them in this one's slot; 0: it did not wait for a slot */
	uint32_t first_state, first_wait; /* indices into the process' states and waits */
	uint16_t n_states;
	uint16_t flags;
	uint8_t n_waits;
};

/* A request as its client saw it: an exchange on a socket of the server. */
struct exchange {
	int64_t ts;    /* when its first byte came, from the start of the recording */
	int64_t unread; /* until the server had read it; -1: unknown */
	int64_t to_engine; /* until the engine had it; -1: unknown */
	int64_t total; /* until the last byte was written */
	int64_t first; /* until the first part of the answer was written; -1: none */
	int64_t tpot;  /* mean per token if joined with a request, else per part of its answer; -1: unknown */
	uint32_t recording;
	uint32_t outputs; /* tokens or parts, as for tpot */
	bool cut;         /* its end was not seen */
};

/* The requests of a process. */
struct served {
	struct request *requests; /* after served_finish: sorted by time */
	size_t len, size;
	LIST(struct request_state, states);
	LIST(struct request_wait, waits);
	size_t in_batches; /* requests without REQUEST_OF_STEPS */
	/* All client requests seen at sockets, joined or not. Client latencies are taken from these alone. */
	LIST(struct exchange, exchanges);
	uint64_t joined;    /* of the exchanges */
	uint64_t unrelated; /* further exchanges that fit no request of the engine: health checks and the like */
	struct idmap by_number;
};

/* "queued", "own_prefill", ... as in the profile. */
const char *request_time_name(enum request_time part);

/* The place of a recording on the time axis of a process. */
struct recording_place {
	uint32_t recording;
	int64_t offset;
};

/* Moves the requests to the process' time axis and sorts them. places: of the recordings with steps; end: of the last step. */
void served_finish(struct served *s, const struct recording_place *places, size_t n_places, int64_t end);

/* The request with this number; NULL: not in the files. */
const struct request *served_find(const struct served *s, uint32_t recording, uint32_t number);

/* TTFT, including the queue if that is known; -1: unknown. */
static inline int64_t request_first_token(const struct request *r)
{
	return r->ttft < 0 ? -1 : r->ttft + r->parts[TIME_QUEUED];
}

/* From the step that gave its first token until that was written to its socket; -1: unknown. */
static inline int64_t request_written(const struct request *r)
{
	return r->ttft < 0 || r->ttft_client < r->ttft + r->parts[TIME_QUEUED] ? -1 : r->ttft_client - r->ttft - r->parts[TIME_QUEUED];
}

/* Whether it is a request in batches, with known rows. */
static inline bool request_told_apart(const struct request *r)
{
	return !(r->flags & (REQUEST_OF_STEPS | REQUEST_MIXED));
}

/* ---- what the CPU counted, and what GPUs did during steps, by phase (costs.h) ---- */

/* Sums over steps or calls. */
struct count_sum {
	uint64_t of, all;    /* steps or calls with counters; and all of them */
	uint64_t n[PMU_MAX]; /* by enum hardware_counter */
	uint64_t missed_of;  /* of `of`: those with COUNTER_LLC_MISSES */
};

#define COUNT_PHASES_MAX 16 /* further phases count as the last one */

struct count_phases {
	struct count_phase {
		uint32_t phase; /* a name */
		struct count_sum sum;
	} list[COUNT_PHASES_MAX];
	size_t n;
};

#define GPU_PHASE_GAPS 3
#define GPU_WHY_MAX 384

/* A gap in which nothing had been launched on the GPU. */
struct phase_gap {
	int64_t ns; /* 0: none */
	uint32_t step;
	char *why; /* "the launching thread ..."; NULL: not known */
};

/* What GPUs did in steps. */
struct gpu_sum {
	uint64_t kernels, copies;
	int64_t total, part[GPU_PART_MAX]; /* of the steps with known GPU activity */
	int64_t after;                     /* how long the GPU worked after the steps on what they had launched */
};

#define GPU_PHASES_MAX 16 /* further phases count as the last one */

struct gpu_phase {
	uint32_t phase;       /* a name */
	uint64_t steps, lost; /* with known GPU activity; with lost records of it */
	struct gpu_sum all;
	struct phase_device {
		uint32_t device;
		struct gpu_sum sum;
	} devices[GPU_STEP_DEVICES];
	size_t n_devices;
	bool devices_missing;                  /* there are more devices */
	struct phase_gap gaps[GPU_PHASE_GAPS]; /* the longest first */
	size_t n_gaps;
};

struct gpu_phases {
	struct gpu_phase list[GPU_PHASES_MAX];
	size_t n;
};

/* ---- processes ---- */

/* Time that threads waited for a CPU while another one ran on it. */
struct behind_info {
	int64_t ns;
	uint32_t by, tid, pid; /* tid 0: no thread, `by` is "idle" or "cpu.max". pid 0: unknown */
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

/* The function with the most samples in itself while an operator ran. */
struct op_hot {
	uint32_t function;
	uint64_t samples, next; /* next: those of the runner-up */
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

/* Who caused time between steps, and the thread that was in its way. */
struct gap_cause {
	uint32_t name, behind; /* texts; behind 0: nobody, or unknown */
	uint32_t process;      /* a text that tells it from others; 0: the steps' own */
	uint32_t without_pid;  /* with process: the name for several of them */
	int64_t ns, behind_ns;
	uint64_t count;
};

struct gap_causes {
	LIST(struct gap_cause, list);
	struct idmap places;
};

/* Time in which no step ran, and who caused it. */
struct gap_sum {
	struct gap_causes causes;
	struct tally rows; /* of text; the count is of gaps, or of requests. Set by model_finish */
	uint64_t n;        /* gaps, or requests */
};

struct process {
	uint32_t pid;
	uint32_t origin; /* a name that tells equal pids of several machines apart */
	uint32_t comm, model, commit, env_hash;
	uint32_t host; /* 0: unknown */
	struct steps steps; /* after model_finish: sorted by lane and time */
	LIST(struct behind_info, behind);
	LIST(struct op_time, step_ops);
	struct idmap by_number; /* index by step_key(), of the first n_numbered steps; only with operators by step */
	size_t n_numbered;
	LIST(struct typical, typicals); /* set by typical_find() */
	uint32_t *grouped;   /* step indices by comparison group, then time */
	uint32_t recordings; /* with steps of this process */
	int64_t wall;        /* over all recordings, from the first step to the last */
	int64_t tracer, tracer_of; /* the recorder's overhead, and the time of the steps with a known one */
	uint64_t left_out[SHED_PARTS]; /* steps without this part, by --budget */
	uint64_t stand_ins; /* steps that stand in for those of the engine */
	uint32_t finding;   /* why its preset does not fit */
	struct tally ops, syscalls;
	struct gap_sum gaps;         /* between steps */
	struct gap_sum waits;        /* of the calling threads within steps */
	struct gap_sum request_gaps; /* the same as requests had it: queued and between their steps */
	struct gap_sum answers;      /* until the first parts of answers were written, from when their first tokens were there */
	int64_t idle;                /* between steps, while there was no request; 0 if these are not known. Set by model_finish */
	LIST(struct call, calls); /* after model_finish: sorted by time */
	struct served served; /* requests, from lines of the profile */
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
	bool lacks_faults; /* no page faults, since the kernel did not show them */
};

/*
 * The hosts of an archive of inftrace link: how their clocks relate, and what their recordings have of collectives.
 */

#define ARCHIVE_HOSTS_MAX 256
#define ARCHIVE_FILES_MAX 1024

struct archive_host {
	uint32_t name; /* a name of the model; never 0 */
	bool known;    /* its clock is placed on the timeline to within residual_ns, which is 0 for the timeline's own host */
	int64_t residual_ns;
};

struct archive_hosts {
	struct archive_host list[ARCHIVE_HOSTS_MAX];
	uint32_t n;
	struct archive_file {
		char *path; /* of the member */
		uint32_t host;
		struct host_place place;
		bool has_boot;
		struct boot boot;
	} files[ARCHIVE_FILES_MAX];
	uint32_t n_files;
	struct ranks ranks;
};

void archive_hosts_free(struct archive_hosts *h);

/* The index of the host whose traces have the profile's boot; n: none, or several are as likely. */
uint32_t archive_host_of(const struct archive_hosts *h, const struct boot *profile);

/* The clocks of the host when a recording began, if they are known. */
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
	LIST(int64_t, totals);    /* of the lines with a total */
	struct percentiles total; /* after model_finish */
	struct tally stages;
};

struct model {
	struct names names;
	LIST(struct process *, processes); /* in the order of their first occurrence; after model_finish those without steps last */
	struct idmap by_pid;
	LIST(struct window, windows);
	struct tally lost; /* records, by kind */
	struct code_tree code; /* the stacks of all processes */
	uint64_t lost_records;
	uint32_t recordings;
	LIST(struct recording_clock, clocks); /* of the first n_clocks recordings */
	LIST(struct archive_hosts *, archives); /* of inftrace link: what was recorded of collectives over hosts */
	LIST(struct foreign_family, families); /* of other programs */
	uint32_t host; /* name of the host whose file of an archive is being read; 0: unknown */
};

void model_init(struct model *m);
void model_free(struct model *m);

/* Interns a text; returns its id, 0 for NULL and "". */
uint32_t model_name(struct model *m, const char *text);
/* Never NULL; "" for 0. May be unprintable, since names come from outside. */
const char *model_text(const struct model *m, uint32_t id);

/* The process, created if it is new. Its address does not change. */
struct process *model_process(struct model *m, uint32_t pid, uint32_t origin);

/* Sets the start of a recording, `ts` ns before the readings in `clocks`, which profiles and Chrome traces have alike, and
 * its host. Ignores impossible times. */
void model_set_clock(struct model *m, uint32_t recording, const struct json_node *clocks, int64_t ts);
/* known is false if it has not been set. */
struct recording_clock model_clock(const struct model *m, uint32_t recording);

/* Whether only its name is known. */
bool process_empty(const struct process *p);

/* Step indices sorted by recording and time, or (lanes) by lane first, to be freed by the caller; NULL: the steps are sorted
 * already. */
uint32_t *process_order(const struct process *p, bool lanes);

void process_add_step(struct process *p, const struct step *step);
/* Adds the rows of a step that process_add_step() adds next. */
void process_add_behind(struct process *p, struct step *step, const struct behind_info *own, size_t n_own,
	const struct behind_info *workers, size_t n_workers);
/* Adds the operator times of a step whose line came before. */
void process_add_ops(struct process *p, uint32_t recording, uint32_t number, const struct op_time *ops, size_t n);

void gap_causes_add(struct gap_causes *g, const struct gap_cause *cause);
/* Interns "NAME, mostly behind x"; `behind` is a text. */
uint32_t gap_name(struct model *m, uint32_t name, uint32_t behind);

/* The family of an event and a source; NULL: there are FAMILIES_MAX others. */
struct foreign_family *model_family(struct model *m, const char *event, const char *source);

/* Returns the row; the pointer is valid until the next call. */
struct tally_row *tally_add(struct tally *t, uint32_t name, int64_t ns, uint64_t count);

/* Sorts the steps once everything is read: joins recordings on one time axis, separates contexts of the engine, and
 * computes the gaps between steps. */
void model_finish(struct model *m);

/* Adds, but stays at the limit instead of wrapping: files may contain any number. */
static inline int64_t ns_add(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return b < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

/* The map key of a step or a request of a recording. */
static inline uint64_t step_key(uint32_t recording, uint32_t number)
{
	return (uint64_t)recording << 32 | number;
}

static inline uint64_t step_key_at(const struct steps *s, size_t i)
{
	return step_key((uint32_t)steps_get(s, i, STEP_RECORDING), (uint32_t)steps_get(s, i, STEP_NUMBER));
}

static inline int64_t steps_end(const struct steps *s, size_t i)
{
	return ns_add(steps_get(s, i, STEP_AT), steps_get(s, i, STEP_TOTAL));
}

#endif
