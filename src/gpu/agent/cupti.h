/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is used of CUPTI, declared anew from its documented binary interface: no header of NVIDIA's is needed, and
 * nothing is linked. Records only ever grow at their end, so that these prefixes hold for CUDA 11.5 to 13.
 */
#ifndef INFTRACE_GPU_AGENT_CUPTI_H
#define INFTRACE_GPU_AGENT_CUPTI_H

#include <stddef.h>
#include <stdint.h>

#define CUPTI_OK 0
#define CUPTI_MAX_LIMIT_REACHED 12	/* no further record in this buffer */
#define CUPTI_MULTIPLE_SUBSCRIBERS 39

#define CUPTI_KIND_MEMCPY 1
#define CUPTI_KIND_MEMSET 2
#define CUPTI_KIND_KERNEL 3
#define CUPTI_KIND_CONCURRENT_KERNEL 10
#define CUPTI_KIND_MEMCPY2 22		/* between two devices */
#define CUPTI_KIND_GRAPH_TRACE 51

#define CUPTI_BUFFER_ALIGN 8

struct cupti_kernel {
	uint32_t kind;
	uint8_t cache_config, shared_config;
	uint16_t registers;
	uint64_t unused_8;
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	uint32_t grid[3], block[3];
	uint32_t shared_static, shared_dynamic;
	uint32_t local_thread, local_total;
	uint32_t correlation;
	int64_t grid_id;
	const char *name;
	void *unused_112;
	uint64_t queued, submitted;
	uint64_t unused_136;
	uint64_t graph_node;
	uint32_t unused_152;
	uint32_t graph;
};

struct cupti_memcpy {
	uint32_t kind;
	uint8_t copy_kind, source, destination, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint32_t runtime_correlation, unused_52;
	void *unused_56;
	uint64_t graph_node;
	uint32_t graph;
	uint32_t channel, channel_type, unused_84;
};

struct cupti_memcpy2 {
	uint32_t kind;
	uint8_t copy_kind, source, destination, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint32_t source_device, source_context, destination_device, destination_context;
	uint32_t correlation;
};

struct cupti_memset {
	uint32_t kind;
	uint32_t value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint16_t flags, memory_kind;
	uint32_t unused_52;
	void *unused_56;
	uint64_t graph_node;
	uint32_t graph;
	uint32_t channel, channel_type, unused_84;
};

struct cupti_graph {
	uint32_t kind;
	uint32_t correlation;
	uint64_t start, end;
	uint32_t device, graph, context, stream;
};

_Static_assert(sizeof(struct cupti_kernel) == 160, "kernel");
_Static_assert(offsetof(struct cupti_kernel, start) == 16 && offsetof(struct cupti_kernel, device) == 40, "kernel");
_Static_assert(offsetof(struct cupti_kernel, grid) == 52 && offsetof(struct cupti_kernel, block) == 64, "kernel");
_Static_assert(offsetof(struct cupti_kernel, correlation) == 92 && offsetof(struct cupti_kernel, name) == 104, "kernel");
_Static_assert(offsetof(struct cupti_kernel, queued) == 120 && offsetof(struct cupti_kernel, graph_node) == 144, "kernel");
_Static_assert(offsetof(struct cupti_kernel, graph) == 156, "kernel");
_Static_assert(sizeof(struct cupti_memcpy) == 88 && sizeof(struct cupti_memset) == 88, "copies and sets");
_Static_assert(offsetof(struct cupti_memcpy2, correlation) == 60, "copies between devices");

typedef void cupti_request_fn(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void cupti_complete_fn(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef void cupti_callback_fn(void *user, int domain, uint32_t id, const void *data);

struct cupti {
	int (*get_version)(uint32_t *version);
	int (*get_timestamp)(uint64_t *ns);
	int (*subscribe)(void **subscriber, cupti_callback_fn *callback, void *user);
	int (*unsubscribe)(void *subscriber);
	int (*register_callbacks)(cupti_request_fn *request, cupti_complete_fn *complete);
	int (*enable)(int kind);
	int (*disable)(int kind);
	int (*flush)(uint32_t forced);
	int (*next_record)(uint8_t *buffer, size_t valid, void **record);
	int (*dropped)(void *context, uint32_t stream, size_t *count);
	uint32_t version;
};

/* Finds libcupti and its functions. 0; -ENOENT: there is none, -ENOSYS: it lacks a function. The library stays. */
int cupti_load(struct cupti *ret_cupti);

#endif
