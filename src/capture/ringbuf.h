/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads a ring buffer of BPF programs, mapped once: libbpf maps the data twice, which counts twice
 * in the memory of the process.
 */
#ifndef INFTRACE_RINGBUF_H
#define INFTRACE_RINGBUF_H

#include <stdbool.h>
#include <stddef.h>

struct ringbuf;

/* The data is valid during the call. */
typedef void (*ringbuf_cb)(const void *data, size_t size, void *arg);

/* Maps the ring of `bytes` (its max_entries). Samples longer than `longest` are skipped. The file
 * descriptor stays the caller's and may be closed. -errno. */
int ringbuf_new(int fd, size_t bytes, size_t longest, struct ringbuf **ret_ring);
void ringbuf_free(struct ringbuf *r);

/* In percent; callable from any thread. */
unsigned int ringbuf_fill(const struct ringbuf *r);

/* Passes up to `max` samples to cb. Returns true if there may be more. */
bool ringbuf_consume(struct ringbuf *r, unsigned int max, ringbuf_cb cb, void *arg);

#endif
