/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a ring buffer of BPF programs, mapped once: libbpf maps the data twice, which counts twice as memory. */
#ifndef INFTRACE_RINGBUF_H
#define INFTRACE_RINGBUF_H

#include <stdbool.h>
#include <stddef.h>

#include "record.h"

struct ringbuf;

/* The data is valid during the call. */
typedef void (*ringbuf_cb)(const void *data, size_t size, void *arg);

/* Maps the ring of `bytes` (its max_entries). Samples longer than `longest` are skipped. The file
 * descriptor stays the caller's and may be closed. -errno. */
int ringbuf_new(int fd, size_t bytes, size_t longest, struct ringbuf **ret_ring);
void ringbuf_free(struct ringbuf *r);

/* Passes up to `max` samples to cb. Returns true if there may be more. */
bool ringbuf_consume(struct ringbuf *r, unsigned int max, ringbuf_cb cb, void *arg);

/* The ring buffers: one per group of CPUs for the stream of records, drained on a timer, and a small one for the life of
 * tasks, which wakes the reader when it must act at once (exec, a mapped library, the exit of a process). */

struct bpf_map;
struct rings;

typedef void (*record_cb)(const struct rec_hdr *rec, size_t size, void *arg);

/* Returns the number of rings for a machine with this many CPUs. The ring of a CPU has the index CPU >> *ret_shift. */
unsigned int rings_count(unsigned int cpus, unsigned int *ret_shift);

/* Creates n rings of `bytes` (a power of two, at least a page) in the map of maps `outer`. control: the loaded control ring. */
int rings_create(struct bpf_map *outer, struct bpf_map *control, unsigned int n, size_t bytes,
	record_cb cb, void *arg, struct rings **ret_rings);
void rings_free(struct rings *r);

/* Makes the template that a map of maps needs. Returns a descriptor to close after the load, or -errno. */
int rings_set_template(struct bpf_map *outer);

/* Passes records to the callback, the control ring's first; a bounded number from each ring, so that none holds up the
 * others. Returns 1 if a ring may hold more, 0 if all were seen empty. */
int rings_drain(struct rings *r);

/* The fill level of the fullest ring in percent; callable from any thread. */
unsigned int rings_fill(const struct rings *r);

/* Drains the control ring alone; also callable within the callback. Returns whether it may hold more. */
int rings_drain_control(struct rings *r);

#endif
