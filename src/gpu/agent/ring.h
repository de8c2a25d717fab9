/* SPDX-License-Identifier: BSD-2-Clause */
/* The writer's side of the ring, and the names in it. The caller holds the lock of the agent. */
#ifndef INFTRACE_GPU_AGENT_RING_H
#define INFTRACE_GPU_AGENT_RING_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/hand_over.h"

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

/* Whether there is room for a record, whatever its name, and for the mark of ring_show(). */
bool ring_has_room(struct ring *r);

/* Writes a record, or counts it as dropped. Not visible before ring_show(). */
void ring_put(struct ring *r, const struct gpu_record *rec);

/* Marks dropped records, then shows all that was written, and the counters, to the reader. */
void ring_show(struct ring *r);

#endif
