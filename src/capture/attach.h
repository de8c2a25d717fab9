/* SPDX-License-Identifier: BSD-2-Clause */
/* Attaches function probes to the files that the targets have mapped. */
#ifndef INFTRACE_ATTACH_H
#define INFTRACE_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "capture/links.h"
#include "engine/engine.h"

struct inspector;
struct attach;

struct attach_config {
	struct probe_table *probes; /* must outlive the result; grows by matches of globs */
	struct inspector *inspector; /* must outlive the result, too */
	int probes_fd;		    /* the map that says what to do at each probe */
	int python_calls_fd;	    /* ... and which Python functions are steps */
	struct bpf_program *programs[LINK_KINDS];
	bool multi;		      /* the programs were loaded for uprobe_multi links */
	bool states_only;	      /* leaves out functions of presets that only make records of their own */
	bool windows;		      /* attach_idle() will be called */
	bool sheds;		      /* attach_shed() will be called */
	volatile uint32_t *link_gens; /* for links_new() */
};

int attach_new(const struct attach_config *c, struct attach **ret_attach);

/* Detaches everything. */
void attach_free(struct attach *a);

/* Detaches all probes but steps, and attaches them again. */
void attach_idle(struct attach *a);
void attach_wake(struct attach *a);

/*
 * Detaches the probes of SHED_BARRIERS or SHED_OPERATORS, or attaches them again, including those found later. Probes
 * that cannot be detached stay.
 */
void attach_shed(struct attach *a, enum shed_part part, bool off);

/* Whether probes are still being detached, in the background. Call now and then: it waits for threads that are done. */
bool attach_detaching(struct attach *a);

/* The parts that have probes: 1 << enum shed_part. Only with `sheds`. */
uint32_t attach_parts(const struct attach *a);

/* Announces a target for which attach_process() will be called: whether it tolerates return probes
 * also matters for attach_named_files(). */
void attach_expect_process(struct attach *a, pid_t pid);

/*
 * Looks at the executable files that the process has mapped and attaches what matches in those not
 * seen before. since_ns: when the process began or called exec (CLOCK_BOOTTIME); 0: not during the
 * recording. Returns the number of sites attached, or -ESRCH. A file that cannot be probed is reported
 * once and left out.
 */
int attach_process(struct attach *a, pid_t pid, uint64_t since_ns);

/*
 * Gives back the probes of files that attach_process() has not met since then (CLOCK_BOOTTIME), and forgets these
 * files: when it meets one again, that is new. Call it when all targets were looked at since then. Files that -u or a
 * COMMAND names by their path keep their probes, and so do all without uprobe_multi. Returns whether there were any.
 */
bool attach_give_back(struct attach *a, uint64_t since_ns);

struct attach_files {
	size_t probed;       /* have probes now */
	uint64_t given_back; /* times that the probes of a file were given back */
};

/* Returns false without uprobe_multi: not known. */
bool attach_files(const struct attach *a, struct attach_files *ret_files);

/* Called for each file in which attach_process() has placed probes; `file` as the process sees it. */
typedef void (*attach_placed_cb)(const char *file, void *arg);
void attach_on_placed(struct attach *a, attach_placed_cb cb, void *arg);

/* Places probes in the executable of a command that has not been started yet, since a program without a
 * loader calls its functions at once. */
void attach_executable(struct attach *a, const char *path);

/*
 * Switches from probes in every process that has the files mapped to probes in the targets only: call
 * attach_in_targets_begin(), attach_process() for each target, and attach_in_targets_commit().
 * -EOPNOTSUPP if the kernel cannot do it, or if it was done before and undone.
 */
int attach_in_targets_begin(struct attach *a);
void attach_in_targets_commit(struct attach *a);

/* Whether attach_process() must be called for each new target process: true from attach_in_targets_begin() on. */
bool attach_in_targets(const struct attach *a);

/* Switches back for good, from any state. */
void attach_everywhere(struct attach *a, const char *why);

/* The process has exited, or an exec has replaced its main thread: attach_process() will make it
 * known again. */
void attach_process_gone(struct attach *a, pid_t pid);

/* A process continues without its main thread, by which the kernel identifies it. */
void attach_main_thread_gone(struct attach *a);

/* Processes that began, or called exec, while probes were only in the targets: their calls were missed
 * until they had probes of their own. */
struct attach_late {
	unsigned int processes;
	uint64_t ns_max;
};

struct attach_late attach_late(const struct attach *a);

/*
 * Call after attach_process() for these processes: reports the probes of the command line that have no place in any
 * file mapped by now; with `strict` as an error where the library is mapped and lacks the function. Returns the number
 * of such errors.
 */
unsigned int attach_check_options(struct attach *a, const pid_t *pids, size_t n, bool strict);

/*
 * Checks the probes of the command line that name a file by its path, and attaches them. Returns
 * -ENOENT after printing what is missing.
 */
int attach_named_files(struct attach *a);

#endif
