/* SPDX-License-Identifier: BSD-2-Clause */
/* Samples and waits of traces and profiles, summed up by stack for tools that draw them. */
#ifndef INFTRACE_EXPORT_SAMPLES_H
#define INFTRACE_EXPORT_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "read/json_source.h"

/* A pool of distinct pieces of memory, numbered from 0 in the order in which they came. */

struct pool_item;

struct pool {
	struct pool_item *by_data, **items;
	uint32_t n;
	size_t size, bytes; /* bytes: of memory */
};

/* Adds a piece if it is new; returns its number. Padding in it must be 0. */
uint32_t pool_add(struct pool *p, const void *data, size_t len);
/* The same without adding it; -ENOENT: not found. */
int64_t pool_find(const struct pool *p, const void *data, size_t len);
/* Valid until pool_clear(). */
const void *pool_get(const struct pool *p, uint32_t number);
size_t pool_len(const struct pool *p, uint32_t number);
void pool_clear(struct pool *p);

/* Samples of a trace, summed up by thread and stack, and with --speedscope each of them. */

#define SAMPLES_BYTES_MAX (UINT64_C(1) << 30)

/* A function, or a line of one. Texts are numbers in `texts`. */
struct samples_frame {
	uint32_t name;    /* without the line, and "" if it is unknown */
	uint32_t mapping; /* the mapped file; "": none */
	uint32_t build_id;
	uint32_t file; /* source file: the mapping, if that is what runs; "": unknown */
	uint32_t line; /* in it; 0: unknown */
	uint32_t pad;
	uint64_t pc; /* in the mapping */
};

struct samples_thread {
	uint32_t pid, tid;
};

/* Samples of one thread with one stack. */
struct samples_key {
	uint32_t thread, stack, off_cpu, pad;
};

struct samples_sum {
	uint64_t n, ns; /* how many, and the time that they stand for; 0: unknown */
};

struct samples_event {
	uint64_t at_ns, ns;
	uint32_t key; /* its number among the sums */
	uint32_t pad;
};

struct samples {
	struct pool texts; /* with their NUL */
	struct pool frames, stacks, threads, keys;
	struct pool named; /* samples_thread, tid 0 for a process; the name of each: */
	uint32_t *names;
	struct samples_sum *sums; /* of each key */
	uint32_t names_size, sums_size;
	struct samples_event *events; /* with `each` */
	size_t n_events, events_size;
	bool each;
	uint64_t n[2], ns[2]; /* in all, on and off the CPU */
};

/* Called for each problem, with its place in the file. */
typedef void (*samples_problem)(void *arg, uint64_t offset, const char *why);

/* Reads an open source. Returns 0, or -errno with the reason passed to `problem`. *s has everything up to there. */
int samples_read(struct samples *s, struct json_source *source, samples_problem problem, void *arg, bool *ret_torn);

/* Which samples of a profile are taken; NULL, or a negative number: all. */
struct samples_filter {
	const char *phase, *state;
	int64_t step;
};

/* The same from a profile: stack_prof (docs/profile-schema.md). `offset` of a problem is the number of a line. */
int samples_read_profile(struct samples *s, struct json_source *source, const struct samples_filter *filter,
	samples_problem problem, void *arg);
void samples_clear(struct samples *s);

/* ---- for the writers ---- */

const char *samples_text(const struct samples *s, uint32_t text);
/* The outermost first. */
const uint32_t *samples_stack(const struct samples *s, uint32_t stack, size_t *ret_n);
/* The name of a thread (its process's, if it has none of its own), or with tid 0 of a process. "": none. */
const char *samples_name(const struct samples *s, uint32_t pid, uint32_t tid);

/* The last part of a path. */
const char *samples_base(const char *path);
/* What a frame is called: NAME, NAME (FILE:LINE) or [LIBRARY]. Returns buf. */
#define SAMPLES_LABEL_MAX 1024
const char *samples_label(const struct samples *s, const struct samples_frame *f, char buf[SAMPLES_LABEL_MAX]);

/* Each writes a whole file. -EIO if it could not be written. */
int collapsed_write(const struct samples *s, bool off_cpu, FILE *out);
int pprof_write(const struct samples *s, FILE *out);
int speedscope_write(const struct samples *s, const char *name, FILE *out);

#endif
