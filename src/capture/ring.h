/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring buffers: one per group of CPUs for the stream of records, drained on a timer without any
 * wake-up, and a small one for the life of tasks, which wakes the reader when it must act at once
 * (exec, a mapped library, the exit of a process).
 */
#ifndef INFTRACE_RING_H
#define INFTRACE_RING_H

#include <stddef.h>
#include <stdint.h>

#include "record.h"

struct bpf_map;
struct rings;

typedef void (*record_cb)(const struct rec_hdr *rec, size_t size, void *arg);

/* Returns the number of rings for a machine with this many CPUs. The ring of a CPU has the index CPU >> *ret_shift. */
unsigned int rings_count(unsigned int cpus, unsigned int *ret_shift);

/*
 * Creates n rings of `bytes` each (a power of two, at least a page) and puts them into the map of
 * maps `outer`. `control` is the loaded control ring. Free with rings_free(). -errno.
 */
int rings_create(struct bpf_map *outer, struct bpf_map *control, unsigned int n, size_t bytes,
	record_cb cb, void *arg, struct rings **ret_rings);
void rings_free(struct rings *r);

/* Makes the template that a map of maps needs before it is loaded. Returns a file descriptor to
 * close after the load, or a negative errno. */
int rings_set_template(struct bpf_map *outer);

/*
 * Passes records to the callback, those of the control ring first, and no more of each ring than
 * keeps producers from holding up the others by being faster than the callback. Returns 1 if a ring
 * may hold more, 0 if all were seen empty.
 */
int rings_drain(struct rings *r);

/* The fill level of the fullest ring in percent; callable from any thread. */
unsigned int rings_fill(const struct rings *r);

/* Drains the control ring alone; also callable within the callback. */
int rings_drain_control(struct rings *r);

#endif
