// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/agent/buffers.h"

#include <sys/mman.h>

/* The last record of an old CUPTI may be shorter than what is read of it. */
#define MAPPED_SIZE (BUFFER_SIZE + 4096u)

void *buffer_take(struct buffers *b, uint64_t now_ns)
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
	b->taken[b->open].buffer = buffer;
	b->taken[b->open++].since_ns = now_ns;
	return buffer;
}

void buffer_return(struct buffers *b, void *buffer)
{
	for (uint32_t i = 0; i < b->open; i++) {
		if (b->taken[i].buffer != buffer)
			continue;
		b->taken[i] = b->taken[--b->open];
		break;
	}
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

uint64_t buffers_since(const struct buffers *b)
{
	uint64_t since = UINT64_MAX;

	for (uint32_t i = 0; i < b->open; i++) {
		if (b->taken[i].since_ns < since)
			since = b->taken[i].since_ns;
	}
	return since;
}

#define SPAN(r)                                                                                \
	{                                                                                      \
		(r)->start, (r)->end, (r)->device, (r)->context, (r)->stream, (r)->correlation \
	}

static void put_kernel(const struct cupti_kernel *k, const struct reading *r)
{
	struct gpu_record rec = { .kind = GPU_RECORD_KERNEL };

	if (!reading_span(&rec, r, &(struct span)SPAN(k)))
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
	if (ring_name(r->ring, k->name, &rec.kernel.name))
		r->ring->said.dropped_ring++;
	else
		ring_put(r->ring, &rec);
}

static void put_copy(uint16_t kind, const struct span *s, const struct gpu_copy *copy, const struct reading *r)
{
	struct gpu_record rec = { .kind = kind };

	if (!reading_span(&rec, r, s))
		return;
	rec.copy = *copy;
	ring_put(r->ring, &rec);
}

/* The three that move or fill memory, of which each has its own layout. */
static void put_memory(const void *any, const struct reading *r)
{
	const struct cupti_memcpy *m = any;
	const struct cupti_memcpy2 *p = any; /* to another device, which says no graph */
	const struct cupti_memset *s = any;

	if (m->kind == CUPTI_KIND_MEMCPY)
		put_copy(GPU_RECORD_COPY, &(struct span)SPAN(m),
			&(struct gpu_copy){ m->bytes, m->copy_kind, m->source, m->destination, m->graph, m->graph_node }, r);
	else if (p->kind == CUPTI_KIND_MEMCPY2)
		put_copy(GPU_RECORD_COPY, &(struct span)SPAN(p), &(struct gpu_copy){ p->bytes, p->copy_kind, p->source, p->destination, 0, 0 }, r);
	else
		put_copy(GPU_RECORD_SET, &(struct span)SPAN(s),
			&(struct gpu_copy){ s->bytes, s->value, 0, s->memory_kind, s->graph, s->graph_node }, r);
}

static void put_graph(const struct cupti_graph *g, const struct reading *r)
{
	struct gpu_record rec = { .kind = GPU_RECORD_GRAPH };

	if (!reading_span(&rec, r, &(struct span)SPAN(g)))
		return;
	rec.graph.graph = g->graph;
	ring_put(r->ring, &rec);
}

static void put(const void *rec, const struct reading *r)
{
	switch (*(const uint32_t *)rec) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		put_kernel(rec, r);
		break;
	case CUPTI_KIND_MEMCPY:
	case CUPTI_KIND_MEMCPY2:
	case CUPTI_KIND_MEMSET:
		put_memory(rec, r);
		break;
	case CUPTI_KIND_GRAPH_TRACE:
		put_graph(rec, r);
		break;
	default:
		r->ring->said.unknown++;
	}
}

bool buffer_read(const struct cupti *cupti, const struct reading *r, uint8_t *buffer, size_t valid, bool drop, void **at)
{
	while (valid) {
		if (!drop && !ring_has_room(r->ring))
			return false;
		if (cupti->next_record(buffer, valid, at) != CUPTI_OK)
			break;
		put(*at, r);
	}
	return true;
}
