/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's side of the ring: names, clocks and the vendor's buffers that are read into it. */
#ifndef INFTRACE_GPU_AGENT_RING_H
#define INFTRACE_GPU_AGENT_RING_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/agent/clocks.h"
#include "gpu/agent/cupti.h"
#include "gpu/hand_over.h"

/* The writer's side of the ring, and the names in it. The caller holds the lock of the agent. */

#define NAMES_MAX 65536		/* further ones are id 0: unknown */
#define NAME_BYTES_MAX (16u << 20)

struct name {
	uint32_t hash;
	uint32_t length;
	const char *text;	/* in the pieces of memory below, with a 0 at its end */
	const void *seen_at;	/* where its library last had it */
	uint32_t written_to;	/* the ring that has it, by ring.generation */
};

/* All memory is mapped: the malloc of the process may be anything. */
struct names {
	struct name *list;	/* NAMES_MAX, id - 1; pages are taken as they are used */
	uint32_t *by_hash;	/* 2 * NAMES_MAX, id or 0 */
	uint32_t *by_place;	/* NAMES_MAX, a guess: id or 0 */
	char *memory;
	size_t memory_used, memory_size, bytes;
	uint32_t count;
};

struct ring {
	struct gpu_ring *shared;	/* NULL: none */
	struct gpu_record *records;
	uint32_t capacity;
	uint32_t generation;	/* how many rings there have been */
	uint64_t head;		/* our own: what is in shared is for the reader */
	uint64_t tail;		/* as last seen */
	struct gpu_ring_writer said; /* the counters */
	uint64_t marked_ring, marked_cupti; /* as of the last mark of dropped records */
	struct names names;
};

/* Maps the ring that a descriptor stands for. 0, or a negative errno: it is no ring of this version. */
int ring_map(struct ring *r, int fd);
void ring_unmap(struct ring *r);

/* Finds the id of a name, and sees to it that the reader has it. -ENOBUFS: there is no room for that now. */
int ring_name(struct ring *r, const char *text, uint32_t *ret_id);

/* Tells what a device is. false: there is no room for that now. */
bool ring_device(struct ring *r, uint32_t device, const struct gpu_device *about);

/* A copy of a text, which stays; NULL: there is no room. It may become a name later. */
const char *ring_keep(struct ring *r, const char *text);

/* Writes a record, or counts it as dropped. Not visible before ring_show(). */
void ring_put(struct ring *r, const struct gpu_record *rec);

/* Marks dropped records, then shows all that was written, and the counters, to the reader. */
void ring_show(struct ring *r);

/* From a record of a vendor's library to one of the ring: what all have in common. */

/* Where, and from when to when by the vendor's clock */
struct span {
	uint64_t start, end;
	uint32_t device, context, stream, correlation;
};

/* What all records of a buffer need. */
struct reading {
	const struct clocks *clocks;
	struct ring *ring;
	uint64_t now;
	bool stepped;
	bool forced; /* what has not completed is in it, too, without times */
};

/* stepped: the clocks have moved against each other since they were compared. */
static inline struct reading reading_begin(const struct clocks *clocks, bool stepped, struct ring *ring)
{
	/* what has completed has ended by now; a later end tells of a clock that was set back. 1 ms: drift is no step. */
	return (struct reading){ .clocks = clocks, .ring = ring, .now = clocks_boot_ns() + 1000000, .stepped = stepped };
}

/* Counts a record of what is over. Returns false where it has no times that could be shown. */
static inline bool reading_span(struct gpu_record *rec, const struct reading *r, const struct span *s)
{
	bool sure, sure_end;

	if (r->forced && (!s->start || !s->end))
		return false;
	r->ring->said.records++;
	if (!s->start || !s->end || s->end < s->start) {
		r->ring->said.dropped_clock++;
		return false;
	}
	rec->start = clocks_convert(r->clocks, s->start, &sure);
	rec->end = clocks_convert(r->clocks, s->end, &sure_end);
	if (r->stepped || !sure || !sure_end || rec->end < rec->start || rec->end > r->now) {
		rec->flags |= GPU_RECORD_F_CLOCK;
		rec->end = rec->start + (s->end - s->start);
	}
	rec->device = s->device;
	rec->context = s->context;
	rec->stream = s->stream;
	rec->correlation = s->correlation;
	return true;
}

/* The buffers that CUPTI fills, and what becomes of the records in them. */

#define BUFFER_SIZE (1u << 20)
#define BUFFERS_MAX 64 /* that CUPTI may have at once; it drops, and counts, what has no place */
#define BUFFERS_KEPT 8

/* Free buffers, linked through their first bytes, and those that CUPTI has. */
struct buffers {
	void *free;
	uint32_t free_count;
	uint32_t open;
	struct {
		void *buffer;
		uint64_t since_ns;
	} taken[BUFFERS_MAX];
};

/* A buffer for CUPTI, or NULL. now_ns: CLOCK_BOOTTIME. */
void *buffer_take(struct buffers *b, uint64_t now_ns);
void buffer_return(struct buffers *b, void *buffer);
void buffers_free(struct buffers *b);

/* Since when CUPTI has had the oldest of those that it has; UINT64_MAX: it has none. */
uint64_t buffers_since(const struct buffers *b);

/* Turns what is in a buffer, from `at` on, into records of the ring. at: NULL at first. stepped: the clocks have moved against each
 * other since they were compared. Returns false, and sets `at`, where the ring has no more room, unless drop. */
bool buffer_read(const struct cupti *cupti, const struct reading *r, uint8_t *buffer, size_t valid, bool drop, void **at);

#endif
