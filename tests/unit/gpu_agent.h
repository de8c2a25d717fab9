/* SPDX-License-Identifier: BSD-2-Clause */
/* The other side of a ring in tests: writes like an agent, or like a malicious one. */
#ifndef INFTRACE_TEST_GPU_AGENT_H
#define INFTRACE_TEST_GPU_AGENT_H

#include <sys/mman.h>

#include "gpu/ring.h"
#include "unit.h"

struct fake_agent {
	struct gpu_ring *ring;
	uint32_t capacity;
};

static inline struct fake_agent agent_open(struct gpu_feed *f)
{
	struct fake_agent a = { .ring = mmap(NULL, GPU_RING_HEAD_SIZE, PROT_READ, MAP_SHARED, f->fd, 0) };

	assert_ptr_not_equal(a.ring, MAP_FAILED);
	a.capacity = a.ring->fixed.capacity;
	assert_int_equal(a.ring->fixed.magic, GPU_HAND_OVER_MAGIC);
	munmap(a.ring, GPU_RING_HEAD_SIZE);
	a.ring = mmap(NULL, GPU_RING_SIZE(a.capacity), PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	assert_ptr_not_equal(a.ring, MAP_FAILED);
	return a;
}

static inline void agent_close(struct fake_agent *a)
{
	munmap(a->ring, GPU_RING_SIZE(a->capacity));
}

/* Drops the record if the ring is full. */
static inline void agent_write(struct fake_agent *a, const struct gpu_record *r)
{
	struct gpu_ring_writer *w = &a->ring->writer;
	uint64_t head = w->head;

	w->records++;
	if (head - __atomic_load_n(&a->ring->reader.tail, __ATOMIC_ACQUIRE) >= a->capacity) {
		w->dropped_ring++;
		return;
	}
	GPU_RING_RECORDS(a->ring)
	[head & (a->capacity - 1)] = *r;
	__atomic_store_n(&w->head, head + 1, __ATOMIC_RELEASE);
}

static inline void agent_name(struct fake_agent *a, uint32_t id, const char *text, size_t len)
{
	for (size_t at = 0; at < len || !at; at += GPU_NAME_CHUNK) {
		struct gpu_record r = { .kind = GPU_RECORD_NAME };

		r.name.id = id;
		r.name.length = (uint16_t)len;
		r.name.offset = (uint16_t)at;
		memcpy(r.name.text, text + at, len - at < GPU_NAME_CHUNK ? len - at : GPU_NAME_CHUNK);
		agent_write(a, &r);
	}
}

static inline struct gpu_record agent_kernel(uint64_t start, uint64_t end, uint32_t stream, uint32_t correlation)
{
	struct gpu_record r = { .kind = GPU_RECORD_KERNEL };

	r.start = start;
	r.end = end;
	r.context = 1;
	r.stream = stream;
	r.correlation = correlation;
	for (int i = 0; i < 3; i++)
		r.kernel.grid[i] = r.kernel.block[i] = 1;
	return r;
}

static inline void agent_flushed(struct fake_agent *a, uint64_t until)
{
	__atomic_store_n(&a->ring->writer.flushed_until, until, __ATOMIC_RELEASE);
}

#endif
