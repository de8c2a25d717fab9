/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams a Perfetto trace's thread slices, instants and clock snapshots. Everything else is skipped.
 *
 * The file may be of any origin, and damaged. Memory is bounded, as in pftrace.h.
 */
#ifndef INFTRACE_READ_PFTRACE_EVENTS_H
#define INFTRACE_READ_PFTRACE_EVENTS_H

#include <stdbool.h>

#include "read/pftrace.h"
#include "util/host_id.h"

#define PFTRACE_SLICES_NEST 64 /* per track; deeper slices are left out */

#define PFTRACE_ARGS_MAX 12

/* An argument of a slice or an instant; those beyond PFTRACE_ARGS_MAX are left out. */
struct pftrace_arg {
	const char *name, *text; /* NULL: unknown; text NULL: it is a number */
	uint64_t value;
};

struct pftrace_slice {
	const char *name;         /* the same pointer for the same text while the file is read */
	uint32_t pid, tid;        /* 0: on the track `inftrace` */
	int64_t start_ns, end_ns; /* CLOCK_BOOTTIME */
	size_t n;                 /* arguments; 0 unless wants_args(name) */
	const struct pftrace_arg *args;
};

/* An instant of a thread, or of the track `inftrace`, with its arguments. */
struct pftrace_instant {
	const char *name; /* as above */
	int64_t ns;
	size_t n;
	struct pftrace_arg args[PFTRACE_ARGS_MAX];
};

/* With wants_args or wants_instant, the slices of the track `inftrace`, which belongs to no thread, are passed, too. */
struct pftrace_event_ops {
	/* A slice is passed when it ends. */
	void (*slice)(void *ctx, const struct pftrace_slice *slice);
	/* Passes a snapshot of two clocks. Returns 0, or -errno to stop. NULL: not wanted. */
	int (*clocks)(void *ctx, int64_t boot_ns, int64_t real_ns);
	/* Passes the time of each packet that has one. NULL: not wanted. */
	void (*time)(void *ctx, int64_t boot_ns);
	/* Passes an instant for whose name wants_instant() holds. NULL: none are wanted. */
	void (*instant)(void *ctx, const struct pftrace_instant *instant);
	bool (*wants_instant)(const char *name);
	/* Whether the slices of this name are wanted with their arguments. */
	bool (*wants_args)(const char *name);
	/* Reports a problem at an offset of the (decompressed) file. */
	void (*bad)(void *ctx, uint64_t offset, const char *why);
};

/* The instant with which inftrace names the host of a trace, and its content: all zero if damaged. */
bool pftrace_instant_is_host(const char *name);
void pftrace_instant_host(const struct pftrace_instant *instant, struct host_id *ret);

/* Whether an open source begins like a Perfetto trace rather than text. */
bool pftrace_is(const struct json_source *source);

/* Reads an open source to its end. The return value and *ret_torn are those of pftrace_read(). */
int pftrace_events_read(struct json_source *source, const struct pftrace_event_ops *ops, void *ctx, bool *ret_torn);

#endif
