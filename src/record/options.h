/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of a recording: commands fill them in, and a run gets no other input. */
#ifndef INFTRACE_RECORD_OPTIONS_H
#define INFTRACE_RECORD_OPTIONS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "io/writer.h"
#include "util/names.h"

enum event {
	EVENT_SCHED = 1 << 0,
	EVENT_SYSCALLS = 1 << 1,
	EVENT_FAULTS = 1 << 2,
	EVENT_FUNCTIONS = 1 << 3,
	EVENT_CPU = 1 << 4,
	EVENT_IPC = 1 << 5,
	EVENT_MEMORY = 1 << 6,
	EVENT_IRQ = 1 << 7,
	EVENT_REQUESTS = 1 << 8,
	EVENT_SAMPLES = 1 << 9,
	EVENT_STACKS = 1 << 10,
	EVENT_PMU = 1 << 11,
	EVENT_MESSAGES = 1 << 12,
	EVENT_FUNCTIONS_NAMED = 1 << 16,    /* functions was given in -e: the profile has calls, too */
	EVENT_REQUESTS_LISTENING = 1 << 17, /* EVENT_REQUESTS if a process listens: see events_listening() */
};
#define EVENTS_DEFAULT (EVENT_SCHED | EVENT_SYSCALLS | EVENT_FAULTS | EVENT_FUNCTIONS | EVENT_IPC | EVENT_REQUESTS_LISTENING)

#define MIN_STACK_DEFAULT_NS 1000000

#define OUTPUTS_MAX 8
#define FORMATS_MAX 8

struct probe_table;
struct recording;
struct session;
struct session_config;
struct sink;
struct trigger_set;
struct view;

/* What inftrace top shows instead of messages while a recording runs. */
struct view_ops {
	/* The recording begins. Its records also go to *ret_sink, which `rec` outlives. Prints one line on failure. */
	int (*open)(struct view *v, const struct recording *rec, struct sink **ret_sink);
	/* Called after each drain, several times a second. Returns 0, 1 to end the run, or an error. */
	int (*round)(struct view *v, uint64_t now_ns);
	void (*signal)(struct view *v, int signo);
};

struct view {
	const struct view_ops *ops;
	int fd;                  /* to be polled for input, or -1 */
	sigset_t signals;        /* signals to pass to it */
	int command_fds[3];      /* for command_spawn() */
	struct session *session; /* set before open() */
};

struct record_options {
	pid_t *pids;
	size_t n_pids;
	bool all;
	bool discover;      /* every process that a preset matches */
	const char *cgroup; /* every process in it; with discover, every match in it; NULL: none */
	char **command;     /* NULL: none */
	const char *user;   /* who runs the command; NULL: who runs inftrace */
	const char *outputs[OUTPUTS_MAX];
	size_t n_outputs;
	const char *profile;
	struct view *view;    /* or NULL */
	uint64_t duration_ns; /* 0: until stopped */
	unsigned int events;
	const char **engines; /* "auto", "none", names and files; without any: "auto" */
	size_t n_engines;
	const char **uprobes;
	size_t n_uprobes;
	const char **py_steps;
	size_t n_py_steps;
	const char **py_spans;
	size_t n_py_spans;
	uint64_t min_syscall_ns;
	uint32_t sample_hz;    /* of EVENT_SAMPLES; 0: the default */
	uint64_t min_stack_ns; /* of EVENT_STACKS */
	bool has_min_stack;
	enum counter_set counters; /* of EVENT_PMU; COUNTERS_NONE: the default */
	uint64_t ring_bytes;
	bool strict;
	bool no_names; /* of files and peers that threads wait for */
	bool op_detail;
	uint32_t et_steps;    /* at most, in each execution trace; 0: all */
	bool hooks;           /* barriers are seen by hooks in the processes */
	bool gpu, gpu_attach; /* the GPUs of a COMMAND; also of running processes */
	uint32_t gpu_every;   /* collects one step in this many; 0: all */
	bool has_gpu_wait;
	uint32_t gpu_wait_ms; /* longest wait for room in a ring, between two flushes */
	uint64_t gpu_budget;  /* in millionths of a CPU; 0: no limit */
	const char *cupti;    /* the library; NULL: it is searched for */
	const char *metrics;  /* where the engine's own are: a URL, or a port; NULL: they are not read */
	bool has_budget;
	uint64_t budget;    /* in millionths of the time of steps */
	bool hold, no_hold; /* targets wait for probes; by default a command does, and -p does not */
	/* profile metadata; NULL or 0: take it from elsewhere */
	const char *command_line; /* how the recording was started */
	const char *commit_sha, *model, *runtime_flags;
	uint32_t concurrency;
	/* windows, the flight recorder and files; NULL or 0: not given */
	const char *window_flag;          /* open while this file exists */
	const char *window_spec;          /* for schedule_parse() */
	uint64_t max_steps;               /* for all processes together */
	uint32_t max_steps_each;          /* for each process */
	const char *output_dir;           /* of windows and dumps; set whenever they are used */
	bool chakra_names;                /* names the traces there as the other tool does */
	const char *formats[FORMATS_MAX]; /* of the files there: "json", "json.gz", "pftrace", "et", ... */
	size_t n_formats;
	const char *profile_format;       /* of the profiles there: "jsonl.gz"; NULL: "jsonl" */
	uint64_t flight_bytes, flight_ns; /* the flight recorder's size, if either is set */
	struct trigger_set *triggers;
	uint64_t trigger_cooldown_ns;
	uint32_t max_dumps;
	uint64_t max_size;
	uint32_t max_files;
	struct writer_floor min_free;
};

/* Runs a recording, from the checks to the summary. Returns an exit code. */
int record_run(struct record_options *o);

/* Whether targets are found while the recording runs. */
static inline bool record_finds(const struct record_options *o)
{
	return o->discover || o->cgroup;
}

static inline bool record_is_flight(const struct record_options *o)
{
	return o->flight_bytes || o->flight_ns;
}

/* Whether files are named by time, a trace and a profile for each process: for windows and the flight recorder. */
static inline bool record_by_time(const struct record_options *o)
{
	return o->window_flag || o->window_spec || record_is_flight(o);
}

static inline bool record_wants_trace(const struct record_options *o)
{
	return o->n_outputs || record_by_time(o);
}

/* Whether calls of the presets' functions are wanted one by one, not only for the states of threads. */
bool record_wants_presets(const struct record_options *o);

/* Whether --hooks can be done. Prints one line if not. */
int hooks_options_check(const struct record_options *o);

/* Whether page faults are recorded or count as a thread state, if the kernel allows it. */
bool record_wants_faults(const struct record_options *o);

/* Whether an output is an execution trace; only: whether all traces are. */
bool record_wants_nodes(const struct record_options *o, bool only);

/* Whether operators get the names that their file declares. */
bool record_wants_declared(const struct record_options *o);

bool output_is_et(const char *name);

static inline bool record_wants_profile(const struct record_options *o)
{
	return o->profile || record_by_time(o);
}

/* Parses the LIST of -e. Prints one line on failure; -EINVAL. */
int events_parse(const char *list, unsigned int *ret_events);

/* Sets EVENT_REQUESTS if -e leaves it open and a -p process listens. */
void events_listening(struct record_options *o);

/* Sets which record kinds are kept and sent, by the events, the outputs and the function probes. */
void events_configure(
	const struct record_options *o, const struct probe_table *probes, struct session_config *c);

#endif
