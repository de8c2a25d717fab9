/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store of the flight recorder: the newest records, in the order in which they were drained, in memory of a fixed size.
 * It has all that ended after its horizon, the latest end of a record that has left it. One thread uses it, and appends
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
	size_t used_bytes;              /* what records take, also records that only a running dump holds */
	uint64_t horizon_ns;            /* CLOCK_BOOTTIME; 0: nothing has left the store */
	uint64_t oldest_ns;             /* the earliest start of a record kept; 0: there is none */
	uint64_t records[REC_KIND_MAX]; /* kept, per kind */
	uint64_t kept, evicted;         /* records */
};

struct flight_dump {
	uint64_t horizon_ns; /* of the dump, as above; 0: it has everything since the start */
	struct tasks *names; /* at the record that is being handed over; of the store, until the dump ends */
};

/* Makes a store of `bytes` (FLIGHT_BYTES_MIN to _MAX) of memory, without its names, allocated on first use. keep_ns, unless 0:
 * keeps what ended within that time, and returns memory. `tasks`: the names, which are copied. -EINVAL, or of mmap(2). */
int flight_new(uint64_t bytes, uint64_t keep_ns, const struct tasks *tasks, struct flight **ret_flight);
void flight_free(struct flight *f);

/* Adds a copy of a record, but REC_MAPPED; without room the oldest are evicted. -EINVAL: an invalid kind or size. */
int flight_append(struct flight *f, const struct rec_hdr *rec, size_t size);

/* With keep_ns: drops what ended longer ago. now_ns: CLOCK_BOOTTIME. For every turn of the loop. */
void flight_expire(struct flight *f, uint64_t now_ns);

void flight_get_stats(const struct flight *f, struct flight_stats *ret_stats);

/* Begins a dump; with keep_ns, of what ended within that time before at_ns (the trigger). It loses nothing to records that
 * are appended meanwhile: without room the oldest of those are evicted. `live` has the names of threads of no target; NULL:
 * they come from /proc. -EBUSY while a dump runs. */
int flight_dump_begin(struct flight *f, uint64_t at_ns, struct tasks *live, struct flight_dump *ret_dump);

/* Raises the horizon to the beginning of the last n steps, or to so long before at_ns. Call it first. */
void flight_dump_last(struct flight *f, struct last last, uint64_t at_ns, struct flight_dump *dump);

/* Hands over the records of the dump that ended at since_ns or later, before flight_dump_next(). */
void flight_dump_since(struct flight *f, uint64_t since_ns, record_cb cb, void *arg);

/* Whether `open` was reported for the span that has ended with the record h. */
bool is_same_span(const struct rec_hdr *open, void *h);

/* Looks at the next max_records of the dump, oldest first, and hands over those that ended after its horizon. The
 * callback may append. Returns 1 while there may be more. What was handed over stays in the store as its oldest. */
int flight_dump_next(struct flight *f, record_cb cb, void *arg, unsigned int max_records);

/* A dump in several passes, each with all records, where the outputs of all processes would take too much memory. Until the
 * last pass what was handed over takes up room for new records. */
struct flight_process {
	struct thread_entry tgid;
	uint64_t records; /* how many of it will be handed over */
};

/* Adds the processes in the dump's records to a map of them. Call before the first flight_dump_next(). */
void flight_dump_processes(struct flight *f, struct thread_map *processes);

/* Sets the number of passes, before the first flight_dump_next(). */
void flight_dump_passes(struct flight *f, unsigned int n);

/* Begins the next pass, after flight_dump_next() has returned 0. Returns the names at its records, as in struct flight_dump. */
struct tasks *flight_dump_again(struct flight *f);

void flight_dump_end(struct flight *f);

/* ---- spans in flight ---- */

/* What threads have in flight when a dump begins. They keep running until the rings have been emptied, and some of it has
 * ended by then, with a record of its own. A dump shows each thread as of the instant at which it was looked at. */
struct in_flight *in_flight_new(void);
void in_flight_free(struct in_flight *f);

/* For session_peek(), with the in_flight as the argument. */
void in_flight_add(const struct rec_hdr *h, size_t size, void *in_flight);
void in_flight_end_thread(uint32_t tid, uint64_t at_ns, void *in_flight);

/* Call once, after the last: prepares the answers to the questions below. */
void in_flight_ready(struct in_flight *f);

void in_flight_each(const struct in_flight *f, record_cb cb, void *arg);
/* Drops the spans for which the callback returns true. */
void in_flight_drop(struct in_flight *f, bool (*drop)(const struct rec_hdr *h, void *arg), void *arg);

/* When the thread was looked at; UINT64_MAX: it was not. */
uint64_t in_flight_at(const struct in_flight *f, uint32_t tid);

/* Whether a record is later than what is in flight, or is part of it. */
bool in_flight_replaces(const struct in_flight *f, const struct rec_hdr *h);

#endif
