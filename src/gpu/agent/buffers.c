// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/agent/buffers.h"

#include <sys/mman.h>

/* The last record of an old CUPTI may be shorter than what is read of it. */
#define MAPPED_SIZE (BUFFER_SIZE + 4096u)

void *buffer_take(struct buffers *b)
{
	void *buffer;

	if (b->open >= BUFFERS_MAX)
		return NULL;
	if (b->free) {
		buffer = b->free;
		b->free = *(void **)buffer;
		b->free_count--;
	} else {
		buffer = mmap(NULL, MAPPED_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (buffer == MAP_FAILED)
			return NULL;
	}
	b->open++;
	return buffer;
}

void buffer_return(struct buffers *b, void *buffer)
{
	b->open -= b->open > 0;
	if (b->free_count >= BUFFERS_KEPT) {
		munmap(buffer, MAPPED_SIZE);
		return;
	}
	*(void **)buffer = b->free;
	b->free = buffer;
	b->free_count++;
}

void buffers_free(struct buffers *b)
{
	while (b->free) {
		void *buffer = b->free;

		b->free = *(void **)buffer;
		munmap(buffer, MAPPED_SIZE);
	}
	b->free_count = 0;
}

/* What is common to all records of CUPTI's: where, and from when to when */
struct span {
	uint64_t start, end;
	uint32_t device, context, stream, correlation;
};

/* 0 where it has no times that could be shown */
static int set_span(struct gpu_record *rec, const struct clocks *clocks, struct ring *ring, uint64_t now, const struct span *s)
{
	bool sure, sure_end;

	ring->said.records++;
	if (!s->start || !s->end || s->end < s->start) {
		ring->said.dropped_clock++;
		return 0;
	}
	rec->start = clocks_convert(clocks, s->start, &sure);
	rec->end = clocks_convert(clocks, s->end, &sure_end);
	if (!sure || !sure_end || rec->end < rec->start || rec->end > now) {
		rec->flags |= GPU_RECORD_F_CLOCK;
		rec->end = rec->start + (s->end - s->start);
	}
	rec->device = s->device;
	rec->context = s->context;
	rec->stream = s->stream;
	rec->correlation = s->correlation;
	return 1;
}

#define SPAN(r) (r)->start, (r)->end, (r)->device, (r)->context, (r)->stream, (r)->correlation

static void put_kernel(const struct cupti_kernel *k, const struct clocks *clocks, struct ring *ring, uint64_t now)
{
	struct gpu_record rec = { .kind = GPU_RECORD_KERNEL };

	if (!set_span(&rec, clocks, ring, now, &(struct span){ SPAN(k) }))
		return;
	for (int i = 0; i < 3; i++) {
		rec.kernel.grid[i] = k->grid[i];
		rec.kernel.block[i] = k->block[i];
	}
	rec.kernel.shared_static = k->shared_static;
	rec.kernel.shared_dynamic = k->shared_dynamic;
	rec.kernel.graph_node = k->graph_node;
	rec.kernel.graph = k->graph;
	rec.kernel.registers = k->registers;
	if (ring_name(ring, k->name, &rec.kernel.name))
		ring->said.dropped_ring++;
	else
		ring_put(ring, &rec);
}

static void put_copy(const struct cupti_memcpy *m, const struct clocks *clocks, struct ring *ring, uint64_t now)
{
	struct gpu_record rec = { .kind = GPU_RECORD_COPY };

	if (!set_span(&rec, clocks, ring, now, &(struct span){ SPAN(m) }))
		return;
	rec.copy.bytes = m->bytes;
	rec.copy.kind = m->copy_kind;
	rec.copy.source = m->source;
	rec.copy.destination = m->destination;
	rec.copy.graph = m->graph;
	rec.copy.graph_node = m->graph_node;
	ring_put(ring, &rec);
}

static void put_copy2(const struct cupti_memcpy2 *m, const struct clocks *clocks, struct ring *ring, uint64_t now)
{
	struct gpu_record rec = { .kind = GPU_RECORD_COPY };

	if (!set_span(&rec, clocks, ring, now, &(struct span){ SPAN(m) }))
		return;
	rec.copy.bytes = m->bytes;
	rec.copy.kind = m->copy_kind;
	rec.copy.source = m->source;
	rec.copy.destination = m->destination;
	ring_put(ring, &rec);
}

static void put_set(const struct cupti_memset *m, const struct clocks *clocks, struct ring *ring, uint64_t now)
{
	struct gpu_record rec = { .kind = GPU_RECORD_SET };

	if (!set_span(&rec, clocks, ring, now, &(struct span){ SPAN(m) }))
		return;
	rec.copy.bytes = m->bytes;
	rec.copy.kind = m->value;
	rec.copy.destination = m->memory_kind;
	rec.copy.graph = m->graph;
	rec.copy.graph_node = m->graph_node;
	ring_put(ring, &rec);
}

static void put_graph(const struct cupti_graph *g, const struct clocks *clocks, struct ring *ring, uint64_t now)
{
	struct gpu_record rec = { .kind = GPU_RECORD_GRAPH };

	if (!set_span(&rec, clocks, ring, now, &(struct span){ SPAN(g) }))
		return;
	rec.graph.graph = g->graph;
	ring_put(ring, &rec);
}

void buffer_read(const struct cupti *cupti, const struct clocks *clocks, struct ring *ring, uint8_t *buffer, size_t valid)
{
	/* what has completed has ended by now; a later end tells of a clock that was set back. 1 ms: drift is no step. */
	uint64_t now = clocks_boot_ns() + 1000000;
	void *rec = NULL;

	while (valid && cupti->next_record(buffer, valid, &rec) == CUPTI_OK) {
		switch (*(const uint32_t *)rec) {
		case CUPTI_KIND_KERNEL:
		case CUPTI_KIND_CONCURRENT_KERNEL:
			put_kernel(rec, clocks, ring, now);
			break;
		case CUPTI_KIND_MEMCPY:
			put_copy(rec, clocks, ring, now);
			break;
		case CUPTI_KIND_MEMCPY2:
			put_copy2(rec, clocks, ring, now);
			break;
		case CUPTI_KIND_MEMSET:
			put_set(rec, clocks, ring, now);
			break;
		case CUPTI_KIND_GRAPH_TRACE:
			put_graph(rec, clocks, ring, now);
			break;
		default:
			ring->said.unknown++;
		}
	}
}
