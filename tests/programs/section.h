/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A section: a stretch of one thread's work for which the program knows the system calls it made,
 * and the kernel knows the switches and faults. Two calls of close() with a descriptor that no
 * file has bound it, so that a tracer's spans can be cut to the same stretch.
 */
#ifndef TEST_SECTION_H
#define TEST_SECTION_H

#include "../program.h"

#define SECTION_CALLS_MAX 64

/* At one instant; from /proc/thread-self/status and getrusage(RUSAGE_THREAD). */
struct usage {
	long voluntary, involuntary, minor, major;
};

struct section {
	int id, tid, status_fd;
	long populated; /* minor faults that no instruction caused: MAP_POPULATE */
	int retries;    /* of the markers; each is 2 pread64, 2 getrusage, 1 close */
	int signals; /* that it took: one that comes when the thread goes to sleep keeps it awake */
	bool skip_calls; /* the system calls are not counted */
	bool from_birth; /* the switches since the thread began, not since the begin marker */
	struct usage begin, end;
	struct call {
		const char *name;
		long n, errors, sum; /* sum: of the results from 0 to 1000000 */
	} calls[SECTION_CALLS_MAX];
	int n_calls;
};

/* What /proc/TID/status (an open descriptor) says now: the letter of the state, and the
 * switches. One pread64. */
char status_read(int fd, struct usage *ret_usage);

/* /proc/TID/status, open. */
int status_open(int tid);

/* Keeps the thread on the first CPU that it may use. */
void pin_thread(void);

/* On the thread itself. id: different for every section of the process. */
void section_begin(struct section *s, int id);
void section_end(struct section *s);

/* Counts a call of that name in the section, and returns `ret`, its result. */
long section_did(struct section *s, const char *name, long ret);

/* Prints one line of JSON on stdout, with one write. */
void section_print(const struct section *s);

/* CALL(&section, read, fd, buf, size): makes the call and counts it. */
#define CALL(s, name, ...) section_did(s, #name, syscall(SYS_##name, ##__VA_ARGS__))

#endif
