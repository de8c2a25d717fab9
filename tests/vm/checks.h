/* SPDX-License-Identifier: BSD-2-Clause */
/* What the checks of the virtual machine share. */
#ifndef INFTRACE_VM_CHECKS_H
#define INFTRACE_VM_CHECKS_H

#include <stdbool.h>
#include <sys/types.h>

#define OUT "/out"
#define CHILD_SECONDS 150 /* emulated, beside other work; it must not hang for ever */

/* Page faults of storm.c. */
#define STORM_THREADS 3
#define STORM_PAGES 256
#define STORM_ROUNDS 20
#define STORM_FAULTS (STORM_THREADS * STORM_PAGES * STORM_ROUNDS)

__attribute__((format(printf, 3, 4))) void result(bool ok, const char *name, const char *fmt, ...);
/* How many failed so far. */
int results_failed(void);
void pause_ms(long ms);
/* The last bytes of a file, each line after "| ", so that none is taken for a result. */
void log_print(const char *path);

/* Starts argv in a process group of its own, with stdout and stderr in the file log. */
pid_t child_start(const char *log, char *const argv[]);
/* Waits for the child; its exit code, 128 + N when killed by signal N, or -1 when it ran
 * past the deadline and was killed for it. */
int child_finish(pid_t pid);
bool child_lives(pid_t pid);
/* Runs argv to its end as a check of that name; prints its output when the exit code is not
 * the expected one. */
bool child_check(const char *name, int expected, char *const argv[]);

/* Counts the loaded BPF programs; with a name, prints them as one note line. */
int programs_count(const char *name);

/* Waits until a process waits for the FIFO; returns the write end, and that process goes on
 * when it is closed. Fails when the child ends before. */
int fifo_open(const char *path, pid_t pid);

/* Waits until the file begins with the prefix; fails when the child ends before. */
bool file_wait(const char *path, const char *prefix, pid_t pid);
/* Whether a line of the file has that text. */
bool file_has(const char *path, const char *line_text);
/* Waits until it has; fails when the child ends before. */
bool file_wait_has(const char *path, const char *line_text, pid_t pid);
/* Waits until so many lines have. */
bool file_wait_lines(const char *path, const char *line_text, int lines, pid_t pid);
int lines_with(const char *path, const char *line_text);

/* recordings.c */
void record_command(char *name, char *events, char *counters);
void record_processes(const char *name);
void record_many(const char *name);
void record_ten(const char *name);
void record_requests(const char *name);
void record_budget(const char *name);
void record_hold(const char *name);
void record_spawns(const char *name);
void record_service(char *name);

/* windows.c */
void record_windows(const char *name);
void record_every(const char *name);
void record_flight(const char *name);

#endif
