/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flight recorder's store: the newest records, in the order in which they were drained, in memory of a fixed size. It
 * has every record that ended after its horizon, the latest end of any evicted record. One thread uses it, and appends
 * between the parts of a dump.
 */
#ifndef INFTRACE_RECORD_FLIGHT_STORE_H
#define INFTRACE_RECORD_FLIGHT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/ringbuf.h"
#include "record.h"
#include "sink/process_list.h"
#include "target/tasks.h"
#include "util/parse.h"

struct flight;
struct in_flight;

#define FLIGHT_BYTES_MIN (UINT64_C(1) << 20)
#define FLIGHT_BYTES_MAX (UINT64_C(1) << 44)

struct flight_stats {
	size_t bytes;                   /* memory: the most that the store can ever use */
	size_t used_bytes;              /* taken by records, including ones that only a running dump holds */
	uint64_t horizon_ns;            /* CLOCK_BOOTTIME; 0: nothing has left the store */
	uint64_t oldest_ns;             /* the earliest start of a record kept; 0: there is none */
	uint64_t records[REC_KIND_MAX]; /* kept, per kind */
	uint64_t kept, evicted;         /* records */
};

struct flight_dump {
	uint64_t horizon_ns; /* of the dump, as above; 0: it has everything since the start */
	struct tasks *names; /* as of the record being handed over; owned by the store, until the dump ends */
};

/* Makes a store of `bytes` (FLIGHT_BYTES_MIN to _MAX), not counting names; pages are allocated on first use. keep_ns, unless
 * 0: keeps only what ended within that time, and gives memory back. Copies `tasks`, the names. -EINVAL, or mmap(2)'s error. */
int flight_new(uint64_t bytes, uint64_t keep_ns, const struct tasks *tasks, struct flight **ret_flight);
void flight_free(struct flight *f);

/* Adds a copy of a record (ignores REC_MAPPED); evicts the oldest if full. -EINVAL: an invalid kind or size. */
int flight_append(struct flight *f, const struct rec_hdr *rec, size_t size);

/* With keep_ns: evicts what ended longer ago. now_ns: CLOCK_BOOTTIME. Call it in every turn of the loop. */
void flight_expire(struct flight *f, uint64_t now_ns);

void flight_get_stats(const struct flight *f, struct flight_stats *ret_stats);

/* Begins a dump; with keep_ns, of what ended within that time before at_ns (the trigger). Records appended meanwhile take
 * nothing from it: if full, the oldest of those are evicted. `live`: names of threads that belong to no target; NULL: they
 * come from /proc. -EBUSY while a dump runs. */
int flight_dump_begin(struct flight *f, uint64_t at_ns, struct tasks *live, struct flight_dump *ret_dump);

/* Raises the horizon to the start of the last.n newest steps, or to last.ns before at_ns. Call it first. */
void flight_dump_last(struct flight *f, struct last last, uint64_t at_ns, struct flight_dump *dump);

/* Hands over the dump's records that ended at since_ns or later. Call it before flight_dump_next(). */
void flight_dump_since(struct flight *f, uint64_t since_ns, record_cb cb, void *arg);

/* Whether h is the record of the span that was reported as `open` while in flight. */
bool is_same_span(const struct rec_hdr *open, void *h);

/* Looks at the dump's next max_records, oldest first, and hands over those that ended after its horizon. The callback may
 * append. Returns 1 while there may be more. Records handed over stay in the store, as its oldest. */
int flight_dump_next(struct flight *f, record_cb cb, void *arg, unsigned int max_records);

/* A dump makes several passes over all records where the outputs of all processes at once would take too much memory. Until
 * the last pass, records handed over still take up room. */
struct flight_process {
	struct thread_entry tgid;
	uint64_t records; /* that will be handed over */
};

/* Adds the processes of the dump's records to a map of struct flight_process. Call before the first flight_dump_next(). */
void flight_dump_processes(struct flight *f, struct thread_map *processes);

/* Sets the number of passes, before the first flight_dump_next(). */
void flight_dump_passes(struct flight *f, unsigned int n);

/* Begins the next pass, after flight_dump_next() has returned 0. Returns its names, as in struct flight_dump. */
struct tasks *flight_dump_again(struct flight *f);

void flight_dump_end(struct flight *f);

/* ---- spans in flight ---- */

/* The spans that threads have in flight when a dump begins. Threads run on until the rings are drained, so some of the spans
 * have ended by then, with a record of their own. A dump shows each thread as of the instant at which it was looked at. */
struct in_flight *in_flight_new(void);
void in_flight_free(struct in_flight *f);

/* The callbacks of session_peek(), with the in_flight as the argument. */
void in_flight_add(const struct rec_hdr *h, size_t size, void *in_flight);
void in_flight_end_thread(uint32_t tid, uint64_t at_ns, void *in_flight);

/* Call it once, when all are added and before the functions below. */
void in_flight_ready(struct in_flight *f);

void in_flight_each(const struct in_flight *f, record_cb cb, void *arg);
/* Drops the spans for which the callback returns true. */
void in_flight_drop(struct in_flight *f, bool (*drop)(const struct rec_hdr *h, void *arg), void *arg);

/* When the thread was looked at; UINT64_MAX: it was not. */
uint64_t in_flight_at(const struct in_flight *f, uint32_t tid);

/* Whether a record ended after its thread was looked at, or is of a span in flight. */
bool in_flight_replaces(const struct in_flight *f, const struct rec_hdr *h);

#endif
