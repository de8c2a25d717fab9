/* SPDX-License-Identifier: BSD-2-Clause */
/* inftrace record: the options (record.c), the outputs (record_out.c) and the run (record_run.c). */
#ifndef INFTRACE_CMD_RECORD_H
#define INFTRACE_CMD_RECORD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sink/sink.h"

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
	EVENT_FUNCTIONS_NAMED = 1 << 16, /* in -e: the profile too wants their calls */
};
#define EVENTS_DEFAULT (EVENT_SCHED | EVENT_SYSCALLS | EVENT_FAULTS | EVENT_FUNCTIONS | EVENT_IPC)

#define OUTPUTS_MAX 8

struct session;
struct view;

struct view_ops {
	/* The recording has begun: its records go to the sink as well. Prints one line on failure. */
	int (*open)(struct view *v, const struct recording *rec, struct sink **ret_sink);
	/* After each drain, several times a second. Returns 0, 1 to end the run, or an error. */
	int (*round)(struct view *v, uint64_t now_ns);
	void (*signal)(struct view *v, int signo);
};

/* Shows a recording while it runs, in place of messages: inftrace top. */
struct view {
	const struct view_ops *ops;
	int fd;		    /* to be polled for input; -1: none */
	sigset_t signals;   /* that it is told of */
	int command_fds[3]; /* for command_spawn_with() */
	struct session *session; /* before open() */
};

struct record_options {
	pid_t *pids;
	size_t n_pids;
	bool all;
	char **command; /* NULL: none */
	const char *outputs[OUTPUTS_MAX];
	size_t n_outputs;
	const char *profile;
	struct view *view;    /* or NULL */
	uint64_t duration_ns; /* 0: until stopped */
	unsigned int events;
	const char *engine; /* "auto", "none", a name or a file */
	const char **uprobes;
	size_t n_uprobes;
	uint64_t min_syscall_ns;
	uint64_t ring_bytes;
	bool strict;
	bool op_detail;
	/* profile metadata; NULL or 0: look elsewhere */
	const char *commit_sha, *model, *runtime_flags;
	uint32_t concurrency;
};

struct outputs;
struct session_config;

/* What several commands parse. Each prints one line on failure; -EINVAL, -ENOMEM. */
int record_add_uprobe(struct record_options *o, const char *spec);
int record_parse_ring_size(const char *arg, uint64_t *ret);
int record_check_targets(const struct record_options *o, const char *command);

/* Parses the LIST of -e. Prints one line on failure; -EINVAL. */
int events_parse(const char *list, unsigned int *ret_events);

/* What the events, the outputs and the function probes want kept and sent. */
void events_configure(
	const struct record_options *o, const struct probe_table *probes, struct session_config *c);

/* Whether everything can be written, and the default name. Nothing is created yet. Prints one line
 * on failure; 0, -EINVAL (usage) or another errno. */
int outputs_check(struct record_options *o);

/* Opens the files and writes their first events. `tgid`: the first target, for the metadata; 0 with
 * -a. Prints one line on failure. */
int outputs_open(const struct record_options *o, const struct recording *rec, pid_t tgid,
	struct outputs **ret_out);

void outputs_record(struct outputs *out, const struct rec_hdr *rec);
void outputs_loss(struct outputs *out, const struct loss *l);
/* See struct sink_ops. */
void outputs_settled(struct outputs *out);
int outputs_flush(struct outputs *out);
uint64_t outputs_bytes(const struct outputs *out);

/* Closes; t NULL: nothing was recorded, and files that were created are removed. Prints each file
 * with its size. */
int outputs_close(struct outputs *out, const struct window_totals *t);

/* Runs the recording. Returns an exit code. */
int record_run(struct record_options *o);

#endif
