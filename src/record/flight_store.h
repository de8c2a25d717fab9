/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store of the flight recorder: the newest records, in the order in which they were drained, in
 * memory of a fixed size. Used by one thread: records are appended between the parts of a dump,
 * which is a piece of work between two drains.
 *
 * The horizon says from when on nothing is missing: it is the latest end (start + duration) of a
 * record that has left the store. Every record that was appended and ended after the horizon is in
 * the store; of those that ended at it or before it some may be.
 */
#ifndef INFTRACE_RECORD_FLIGHT_STORE_H
#define INFTRACE_RECORD_FLIGHT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/ring.h"
#include "record.h"
#include "target/tasks.h"

#define FLIGHT_BYTES_MIN (UINT64_C(1) << 20)
#define FLIGHT_BYTES_MAX (UINT64_C(1) << 44)

struct flight;

struct flight_stats {
	size_t bytes;        /* of memory: all that the store can ever use */
	size_t used_bytes;   /* of it with records, those that only a running dump holds included */
	uint64_t horizon_ns; /* CLOCK_BOOTTIME; 0: nothing has left the store */
	uint64_t oldest_ns;  /* the earliest start of a record kept; 0: none is */
	uint64_t records[REC_KIND_MAX]; /* kept, per kind */
	uint64_t kept, evicted;         /* records */
};

struct flight_dump {
	uint64_t horizon_ns; /* of the dump, as above; 0: it has all since the start */
	/* The names as of the record that is handed over. Of the store, valid until the dump ends.
	 */
	struct tasks *names;
};

/*
 * Makes a store of at most `bytes` (FLIGHT_BYTES_MIN to _MAX) of memory, its bookkeeping included;
 * pages are taken as they are first used. keep_ns not 0: it keeps what ended within that time, and
 * takes and gives back memory for it, up to `bytes`; if that does not do it keeps what fits.
 * `tasks`: the names as of now, copied. The table of names is not part of `bytes`. Free with
 * flight_free(). -EINVAL, -ENOMEM.
 */
int flight_new(
	uint64_t bytes, uint64_t keep_ns, const struct tasks *tasks, struct flight **ret_flight);
void flight_free(struct flight *f);

/* Adds a record, copied; when there is no room the oldest leave. REC_MAPPED is left out. -EINVAL:
 * no such kind or size, and nothing was added. */
int flight_append(struct flight *f, const struct rec_hdr *rec, size_t size);

/* With keep_ns: lets go of what ended longer ago. now_ns: CLOCK_BOOTTIME. For every turn of the
 * loop. */
void flight_expire(struct flight *f, uint64_t now_ns);

void flight_get_stats(const struct flight *f, struct flight_stats *ret_stats);

/*
 * Begins a dump of all that is in the store now; with keep_ns, of what ended within that time
 * before at_ns (the trigger). Nothing of it is lost by what is appended while the dump runs: that
 * goes elsewhere, and where there is no room its own oldest leave (and the dump's with them, for
 * any later dump). `live`: where the names of threads of no target come from; NULL: from /proc as
 * they are met. -EBUSY while a dump runs, -ENOMEM.
 */
int flight_dump_begin(
	struct flight *f, uint64_t at_ns, struct tasks *live, struct flight_dump *ret_dump);

/*
 * Whether the dump has a record of the span that `open` reports as still open, which ended at
 * since_ns or later: one of the same thread, kind and start, and id where a thread can have
 * several. To be asked before the first flight_dump_next(); fast as long as since_ns is the same.
 */
bool flight_dump_has(struct flight *f, const struct rec_hdr *open, uint64_t since_ns);

/*
 * Hands over the next records of the dump that ended after its horizon, oldest first; looks at
 * max_records at most, so that records handed over may be fewer. The callback may append. Returns 1
 * while there may be more, 0 when all were handed over. What was handed over stays in the store as
 * its oldest.
 */
int flight_dump_next(struct flight *f, record_cb cb, void *arg, unsigned int max_records);

/*
 * A dump in several passes, each of which hands over all records: where the outputs of all
 * processes at once would take too much memory. What was handed over stays until the last pass, and
 * is missing as room for new records.
 */
struct flight_process {
	uint32_t tgid;
	uint64_t records; /* of it that will be handed over */
};

/* The processes that the dump has records of, in no order; *ret_list is to be freed. Before the
 * first flight_dump_next(). -ENOMEM. */
int flight_dump_processes(struct flight *f, struct flight_process **ret_list, size_t *ret_n);

/* There will be `n` passes. Before the first flight_dump_next(); without it there is one. -ENOMEM:
 * the dump is to be ended. */
int flight_dump_passes(struct flight *f, unsigned int n);

/* Begins the next pass, after flight_dump_next() has returned 0. ret_names: as in struct
 * flight_dump; those of the pass before are gone. -ENOMEM. */
int flight_dump_again(struct flight *f, struct tasks **ret_names);

/* Ends the dump, whether or not all was handed over. */
void flight_dump_end(struct flight *f);

#endif
