/* SPDX-License-Identifier: BSD-2-Clause */
/* Attaches function probes to the files that the targets have mapped. */
#ifndef INFTRACE_ATTACH_H
#define INFTRACE_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "capture/links.h"
#include "engine/spec.h"

struct inspector;
struct checked_files;

struct attach_config {
	struct probe_table *probes;  /* must outlive the result; grows by matches of globs */
	struct inspector *inspector; /* must outlive the result, too */
	int probes_fd;               /* the map that says what to do at each probe */
	int python_calls_fd;         /* ... and which Python functions are steps ... */
	int python_values_fd;        /* ... with which arguments */
	struct bpf_program *programs[LINK_KINDS];
	bool multi;                   /* the programs were loaded for uprobe_multi links */
	bool states_only;             /* leaves out functions of presets that only make records of their own */
	bool windows;                 /* links_idle() will be called */
	bool sheds;                   /* links_shed() will be called */
	bool hooks;                   /* likewise, for the barriers that hooks can see */
	volatile uint32_t *link_gens; /* for links_new() */
};

#define BUDGET_PROCESSES 64

/* A file with an interpreter in which an engine's Python functions have probes. */
struct python_placed {
	uint32_t number;
	const struct engine *engine;
};

struct attach {
	struct links *links; /* callers idle them, shed them or move them to the targets with links.h */
	uint32_t parts;      /* 1 << enum shed_part, of parts with probes; only with `sheds` */
	/* processes that began, or called exec, while probes were only in the targets: their calls were missed until they had
	 * probes of their own */
	struct {
		unsigned int processes;
		uint64_t ns_max;
		unsigned int never; /* ended before that */
	} probed_late;
	/* set by the creator; called for each file in which attach_process() places probes; `file` as the process sees it */
	void (*placed)(const char *file, void *arg);
	void *placed_arg;
	uint64_t given_back; /* times that the probes of a file were given back; known only with c.multi, as links_files() is */
	struct attach_config c;
	/* private */
	bool no_returns;
	struct checked_files *checked;
	struct {
		uint64_t left_ns, since_ns; /* of all processes; grows with time */
		struct {
			pid_t pid;
			uint64_t spent_ns;
		} processes[BUDGET_PROCESSES]; /* the last ones that have spent much */
		unsigned int next;
	} budget;
	bool budget_told, unopened_told;
	int nop5;        /* result of features_nop5(), or FEATURE_UNTRIED */
	uint32_t number; /* of the last file that was read for its functions */
	bool has_python; /* a target has an engine some of whose steps are Python functions */
	struct python_placed *pythons;
	size_t n_pythons, cap_pythons;
};

struct attach *attach_new(const struct attach_config *c);

/* Detaches everything. */
void attach_free(struct attach *a);

/* Announces a target of attach_process(): attach_named_files() must know whether it tolerates return probes. */
void attach_expect_process(struct attach *a, pid_t pid);

/*
 * Attaches to new executable files that the process has mapped. since_ns: when the process began or called exec
 * (CLOCK_BOOTTIME); 0: not during the recording. Returns the number of sites, or -ESRCH. A file that cannot be probed is
 * reported once and left out.
 */
int attach_process(struct attach *a, pid_t pid, uint64_t since_ns);

/*
 * Detaches the probes of files that attach_process() has not met since since_ns (CLOCK_BOOTTIME), and forgets the files. Call
 * it once all targets were looked at since then. Files that -u or a COMMAND names by path keep their probes, as do all
 * without uprobe_multi. Returns whether any file lost probes.
 */
bool attach_give_back(struct attach *a, uint64_t since_ns);

/* Attaches to the executable of a command before it starts: without a loader it calls its functions at once. */
void attach_executable(struct attach *a, const char *path);

/* Calls links_everywhere(); prints one line on failure. */
void attach_everywhere(struct attach *a, const char *why);

/* Call after attach_process() for these processes: reports probes of the command line without a site in a file mapped by now,
 * with `strict` as an error if the library is mapped but lacks the function. Returns the number of the latter. */
unsigned int attach_check_options(struct attach *a, const pid_t *pids, size_t n, bool strict);

/* Checks and attaches the probes of the command line that name a file by its path. -ENOENT, after printing what is missing. */
int attach_named_files(struct attach *a);

#endif
