/* SPDX-License-Identifier: BSD-2-Clause */
/* What the agent has written of a GPU that does not exist, against what that GPU has done. */
#ifndef INFTRACE_TESTS_GPU_TRUTH_H
#define INFTRACE_TESTS_GPU_TRUTH_H

#include "gpu_peer.h"
#include "../gpu/mock.h"

#define LAUNCHES (GPU_WANT_KERNELS | GPU_WANT_COPIES)

/* The truth of what was launched so far, from a place in its file on; by correlation. */
struct truth {
	struct mock_work *list;
	size_t count;
	off_t at;
};

static inline void truth_read(struct peer *p, struct truth *t)
{
	off_t size;
	size_t bytes;

	peer_do(p, "truth");
	size = lseek(p->truth_fd, 0, SEEK_END);
	bytes = (size_t)(size - t->at);
	free(t->list);
	t->list = malloc(bytes + 1);
	t->count = bytes / sizeof(*t->list);
	assert_int_equal(pread(p->truth_fd, t->list, bytes, t->at), bytes);
	t->at = size;
	/* it may be much */
	fallocate(p->truth_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size);
}

static inline uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* How far a time may be off, by what the agent says of its clock. */
static inline uint64_t tolerance(const struct peer *p)
{
	return 2 * p->ring->clock.residual_ns + p->ring->clock.bend_ns + 2;
}

static inline void compare(const struct peer *p, const struct gpu_record *r, const struct mock_work *w)
{
	static const uint16_t kinds[] = { GPU_RECORD_KERNEL, GPU_RECORD_COPY, GPU_RECORD_SET, GPU_RECORD_GRAPH };
	const char *name;

	assert_int_equal(r->kind, kinds[w->kind]);
	assert_int_equal(r->flags, 0);
	assert_int_equal(r->correlation, w->correlation);
	assert_int_equal(r->stream, w->stream);
	assert_int_equal(r->context, w->context);
	assert_int_equal(r->device, w->device);
	assert_in_range(apart(r->start, w->start), 0, tolerance(p));
	assert_in_range(apart(r->end, w->end), 0, tolerance(p));
	if (r->kind == GPU_RECORD_KERNEL) {
		assert_memory_equal(r->kernel.grid, w->grid, sizeof(w->grid));
		assert_memory_equal(r->kernel.block, w->block, sizeof(w->block));
		assert_int_equal(r->kernel.shared_static + r->kernel.shared_dynamic, w->shared);
		assert_int_equal(r->kernel.registers, p->ring->writer.vendor == GPU_VENDOR_AMD ? 48 : 40); /* of the mocks' */
		assert_int_equal(r->kernel.graph, w->graph);
		assert_int_equal(r->kernel.graph_node, w->graph_node);
		assert_in_range(r->kernel.name, 1, PEER_NAMES_MAX - 1);
		name = p->names[r->kernel.name];
		assert_true(mock_hash(name, strlen(name)) == (uint64_t)(uintptr_t)w->name);
	} else if (r->kind == GPU_RECORD_GRAPH) {
		assert_int_equal(r->graph.graph, w->graph);
	} else {
		assert_int_equal(r->copy.bytes, w->bytes);
		assert_int_equal(r->copy.kind, w->copy_kind);
	}
}

/* Takes all records, and compares each with the truth of which it must be a part; how many there were. Without
 * graphs a correlation is of one piece of work. */
static inline size_t take_all(struct peer *p, const struct truth *t)
{
	struct gpu_record *taken = malloc((p->capacity + 1) * sizeof(*taken));
	uint8_t *seen = calloc(t->count + 1, 1);
	size_t count = 0;

	while (peer_take(p, &taken[count]))
		count++;
	for (size_t i = 0; i < count; i++) {
		uint32_t at = taken[i].correlation - t->list[0].correlation;

		assert_in_range(at, 0, t->count - 1);
		assert_int_equal(seen[at]++, 0);
		compare(p, &taken[i], &t->list[at]);
	}
	free(seen);
	free(taken);
	assert_int_equal(p->bad, 0);
	return count;
}

/* Starts a program with the agent, which collects. */
static inline void begin(struct peer *p, uint32_t capacity, uint32_t wanted, const char *environment)
{
	peer_listen(p, capacity);
	peer_start(p, true, environment);
	peer_tell(p, "init");
	peer_serve(p, wanted);
	peer_done(p);
}

#endif
