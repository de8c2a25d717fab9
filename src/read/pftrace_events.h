/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Perfetto traces, as a stream: the slices of threads, and how the clocks relate. Everything else is skipped.
 *
 * The file may be of any origin, and damaged. What is kept of it is bounded, as in pftrace.h.
 */
#ifndef INFTRACE_READ_PFTRACE_EVENTS_H
#define INFTRACE_READ_PFTRACE_EVENTS_H

#include <stdbool.h>

#include "read/pftrace.h"
#include "util/host_id.h"

#define PFTRACE_SLICES_NEST 64 /* on one track; deeper ones are left out */

#define PFTRACE_ARGS_MAX 12

/* An argument of a slice or an instant; further ones than PFTRACE_ARGS_MAX are left out. */
struct pftrace_arg {
	const char *name, *text; /* NULL: unknown; text NULL: it is a number */
	uint64_t value;
};

struct pftrace_slice {
	const char *name;         /* the same pointer for the same text, as long as the file is read */
	uint32_t pid, tid;        /* 0: on the track `inftrace` */
	int64_t start_ns, end_ns; /* CLOCK_BOOTTIME */
	size_t n;                 /* arguments, if wants_args() holds for the name */
	const struct pftrace_arg *args;
};

/* An instant of a thread, or of the track `inftrace`, with its arguments. */
struct pftrace_instant {
	const char *name; /* as above */
	int64_t ns;
	size_t n;
	struct pftrace_arg args[PFTRACE_ARGS_MAX];
};

/* Where wants_args or wants_instant is there, the slices of the track `inftrace`, which is of no thread, are passed, too. */
struct pftrace_event_ops {
	/* A slice is passed when it ends. */
	void (*slice)(void *ctx, const struct pftrace_slice *slice);
	/* Two clocks at one instant: 0, or -errno to stop; NULL: they are not wanted. */
	int (*clocks)(void *ctx, int64_t boot_ns, int64_t real_ns);
	/* There is something at this time (CLOCK_BOOTTIME); NULL: that does not matter. */
	void (*time)(void *ctx, int64_t boot_ns);
	/* The instants of names for which wants_instant() holds; NULL: none are wanted. */
	void (*instant)(void *ctx, const struct pftrace_instant *instant);
	bool (*wants_instant)(const char *name);
	/* Whether the slices of this name are wanted with their arguments. */
	bool (*wants_args)(const char *name);
	/* A problem at this offset of the (decompressed) file. */
	void (*bad)(void *ctx, uint64_t offset, const char *why);
};

/* The instant of inftrace's traces that says on which host they were made, and what it says; all zero if that is damaged. */
bool pftrace_instant_is_host(const char *name);
void pftrace_instant_host(const struct pftrace_instant *instant, struct host_id *ret);

/* Whether an open source begins as such a trace, rather than as text. */
bool pftrace_is(const struct json_source *source);

/* Reads an open source to its end. Returns and *ret_torn as pftrace_read(). */
int pftrace_events_read(struct json_source *source, const struct pftrace_event_ops *ops, void *ctx, bool *ret_torn);

#endif
