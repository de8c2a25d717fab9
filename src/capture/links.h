/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's links between function probes and the BPF programs. A uprobe is in every process that maps its file, now
 * or later: no call of a target or its children is missed, but other processes pay for each call, too. If they call the
 * probed functions often, the links are replaced during the recording by links for each target process.
 */
#ifndef INFTRACE_LINKS_H
#define INFTRACE_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct bpf_program;
struct links;

#define ATTACH_UPROBE_MULTI 48 /* BPF_TRACE_UPROBE_MULTI of 6.6: Debian 12's libbpf 1.1 does not know it yet */

enum links_state {
	LINKS_EVERYWHERE,
	LINKS_SWITCHING, /* both exist, and those everywhere still count */
	LINKS_BY_PROCESS,
};

/* Without uprobe_multi each link is closed after a grace period of its own, 0.1 s, under one lock: with more links for a
 * file the end of the recording would take minutes. */
#define LINKS_SINGLE_MAX 128

/* The most processes that get links of their own: each call looks at the links of all of them. */
#define LINKS_PROCESSES_MAX 32

/* Events of a call, each with a program of its own, in the order of attaching: a return without its entry counts for
 * nothing, an entry without its return stays open. */
enum link_kind {
	LINK_RETURN,
	LINK_EXIT, /* a place on the way out: struct site_exit */
	LINK_PYTHON_EXIT, /* where an interpreter leaves a Python function ... */
	LINK_ENTRY,
	LINK_PYTHON_ENTRY, /* ... and begins to run one */
	LINK_ARRIVAL, /* arrival at a barrier: SITE_ARRIVAL */
	LINK_NODE,    /* copies nodes of the engine's graph */
	LINK_KINDS,
};

/* When links are needed. */
enum link_when {
	LINK_WHEN_RECORDING, /* except while idle */
	LINK_WHEN_ALWAYS,
	LINK_WHEN_BARRIERS,  /* as LINK_WHEN_RECORDING, and links_shed() turns them off and on: SHED_BARRIERS */
	LINK_WHEN_OPERATORS, /* likewise: SHED_OPERATORS */
	LINK_WHENS,
};

/* Places in a file, with the cookies that tell the program which of them was hit. */
struct link_sites {
	unsigned long *offsets;
	uint64_t *cookies;         /* the lower half is up to the caller */
	unsigned long *semaphores; /* file offsets of the USDT probes' counters; 0: none */
	size_t n;
};

void link_sites_add(struct link_sites *s, uint64_t offset, uint32_t cookie, uint64_t semaphore);
void link_sites_free(struct link_sites *s);

/* The sites of a file, by enum link_kind. */
struct file_sites {
	struct link_sites of[LINK_KINDS];
};

size_t file_sites_count(const struct file_sites *s);
void file_sites_free(struct file_sites *s);

/* Copies semaphores from the entries in `from` to the same places in `to`: all probes at a place must have the same one, and
 * a function may begin with a USDT probe. links_add_file() does so within its sites. */
void file_sites_share(const struct file_sites *from, struct file_sites *to);

/* Makes one uprobe_multi link for all sites; pid 0: in every process. Returns its descriptor or an error. */
int links_create_multi(int prog_fd, bool ret, int file, const struct link_sites *s, pid_t pid);

/* The same for one site without a semaphore; and for one in inftrace's own executable and process. */
int links_create_multi_at(int prog_fd, bool ret, int file, unsigned long offset, pid_t pid);
int links_create_own(int prog_fd, bool ret, unsigned long offset);

/* programs: by enum link_kind. `multi`: they were loaded for uprobe_multi links. gens: shared with the BPF
 * programs, see link_lives() there; NULL: links by process are not possible. */
struct links *links_new(struct bpf_program *const programs[LINK_KINDS], bool multi, volatile uint32_t *gens);

/* Detaches everything; some 0.1 s. */
void links_free(struct links *l);

/* Attaches to a file. fd and the sites are taken over, but not on errors. number: for links_drop_file(), the same in all
 * calls for a file. -EFBIG: more than LINKS_SINGLE_MAX for a kernel without uprobe_multi. */
int links_add_file(struct links *l, uint32_t number, int fd, struct file_sites *sites, enum link_when when);

/* Drops a file. Returns 1, or 0 if there was none; -EOPNOTSUPP: single links stay. After the last file call
 * links_close_dropped(), which detaches in the background; the next links_add_file() waits for that. */
int links_drop_file(struct links *l, uint32_t number);
void links_close_dropped(struct links *l);

/* How many files have links by uprobe_multi. */
size_t links_files(const struct links *l);

/* links_idle() detaches in the background all but LINK_WHEN_ALWAYS; links_wake() attaches again, and returns the first
 * error, after which some links are missing. Single links stay attached. */
void links_idle(struct links *l);
int links_wake(struct links *l);

/* Detaches (off) or attaches the links of a part; they stay detached while idle. */
int links_shed(struct links *l, enum link_when when, bool off);

/* Whether some links are still being closed. Call now and then: it joins threads that are done. */
bool links_closing(struct links *l);

/*
 * Switches to links by process: call links_begin(), links_add_process() for each process, and links_commit(), which
 * closes the old links. No call is missed or seen twice meanwhile. -EOPNOTSUPP if the kernel cannot do it.
 * links_add_process() returns 1 if it made links, and 0 if the process has links already or
 * needs none; -ESRCH: it has exited. After another error only links_everywhere() can be called.
 */
int links_begin(struct links *l);
int links_add_process(struct links *l, pid_t tgid);
void links_commit(struct links *l);

/* Whether links can be by process, or are already. */
bool links_may_watch(const struct links *l);

/* Removes the links of a process, which are by process, at Python functions, for good. Returns whether it had any. */
bool links_watch_process(struct links *l, pid_t tgid);

/* Whether that has been called for it. */
bool links_watches(struct links *l, pid_t tgid);

/* The process has exited, or an exec gave it another main thread. */
void links_drop_process(struct links *l, pid_t tgid);

/* Switches back to links in every process, for good. Returns 1, or 0 if they were there already. */
int links_everywhere(struct links *l);

enum links_state links_state(const struct links *l);

#endif
