/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's links between function probes and the BPF programs.
 *
 * A uprobe is in every process that has its file mapped, now and later: nothing that a target or a
 * child of it calls is missed, but other processes with the file pay for each call too. Where they
 * turn out to call the probed functions often, the links are exchanged, while it all runs, for ones
 * of each target process, which leave no breakpoint in any other.
 */
#ifndef INFTRACE_LINKS_H
#define INFTRACE_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct bpf_program;
struct links;

enum links_state {
	LINKS_EVERYWHERE,
	LINKS_SWITCHING, /* both, and those everywhere still count */
	LINKS_BY_PROCESS,
};

/* Without uprobe_multi each link is closed after a grace period of its own, 0.1 s, under one lock:
 * with more than these of one file the end of the recording would take minutes. */
#define LINKS_SINGLE_MAX 128

/* Processes that links are made for one by one: each call looks at the links of all of them. */
#define LINKS_PROCESSES_MAX 32

/* What is told of a call, each by a program of its own. In the order in which they are attached: a return without its
 * entry is nothing, an entry without its return stays open. */
enum link_kind {
	LINK_RETURN,
	LINK_ENTRY,
	LINK_ARRIVAL, /* at a barrier: SITE_ARRIVAL */
	LINK_KINDS,
};

/* When links are wanted. */
enum link_when {
	LINK_WHEN_RECORDING, /* not while idle */
	LINK_WHEN_ALWAYS,
	LINK_WHEN_BARRIERS, /* as LINK_WHEN_RECORDING, and links_shed() turns them off and on: SHED_BARRIERS */
	LINK_WHEN_OPERATORS, /* likewise: SHED_OPERATORS */
	LINK_WHENS,
};

/* Places in a file, and what tells the program which one it was called at. */
struct link_sites {
	unsigned long *offsets;
	uint64_t *cookies;         /* the lower half is the caller's */
	unsigned long *semaphores; /* offsets in the file of counters that count the probes there;
				      0: none */
	size_t n;
};

int link_sites_add(struct link_sites *s, uint64_t offset, uint32_t cookie, uint64_t semaphore);
void link_sites_free(struct link_sites *s);

/* The same of a file, by enum link_kind. */
struct file_sites {
	struct link_sites of[LINK_KINDS];
};

size_t file_sites_count(const struct file_sites *s);
void file_sites_free(struct file_sites *s);

/* All probes of one place must agree on its semaphore, as a function may begin with a USDT probe: gives
 * those of the entries in `from` to the same places in `to`. links_add_file() does so among its own. */
void file_sites_share(const struct file_sites *from, struct file_sites *to);

/* One uprobe_multi link for all sites; pid 0: in every process. Returns its descriptor or an error. */
int links_create_multi(int prog_fd, bool ret, int file, const struct link_sites *s, pid_t pid);

/* programs: by enum link_kind. `multi`: they were loaded for uprobe_multi links. gens: shared with the BPF
 * programs, see link_lives() there; NULL: links cannot be by process. */
int links_new(struct bpf_program *const programs[LINK_KINDS], bool multi, volatile uint32_t *gens,
	struct links **ret_links);

/* Detaches everything; some 0.1 s. */
void links_free(struct links *l);

/*
 * Attaches to a file. fd and the sites are taken over, but on errors they stay the caller's.
 * -EFBIG: more than LINKS_SINGLE_MAX for a kernel without uprobe_multi.
 */
int links_add_file(struct links *l, int fd, struct file_sites *sites, enum link_when when);

/*
 * Detaches what is not always wanted, in the background, and attaches it again. Single links stay: each
 * would take 0.1 s. links_wake() returns the first error; then some are missing.
 */
void links_idle(struct links *l);
int links_wake(struct links *l);

/*
 * Detaches those of a part, in the background, or attaches them again; also while idle, when they stay detached in any
 * case. Single links stay. Returns the first error; then some are missing.
 */
int links_shed(struct links *l, enum link_when when, bool off);

/* Whether some are still on their way out. */
bool links_closing(struct links *l);

/*
 * Switches to links by process: call links_begin(), links_add_process() for each process, and links_commit(), which
 * closes the old links. No call is missed or seen twice meanwhile. -EOPNOTSUPP if the kernel cannot do it.
 * links_add_process() returns 1 if it made links, and 0 if the process has exited, has links already
 * or needs none; after an error only links_everywhere() can be called.
 */
int links_begin(struct links *l);
int links_add_process(struct links *l, pid_t pid);
void links_commit(struct links *l);

/* The process has exited, or was given another main thread by exec. */
void links_drop_process(struct links *l, pid_t pid);

/* Switches back to links in every process, for good. Returns 1, or 0 if they were there already. */
int links_everywhere(struct links *l);

enum links_state links_state(const struct links *l);

#endif
