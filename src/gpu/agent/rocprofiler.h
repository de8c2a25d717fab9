/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is used of rocprofiler-sdk, declared anew from its documented binary interface: no header of AMD's is needed, and
 * nothing is linked. Read in its headers of 0.4.0 (ROCm 6.2), 0.5.0 (6.3) and of the development branch after 1.3.5
 * (ROCm 10.0, 2026): fwd.h, registration.h, buffer.h, buffer_tracing.h, callback_tracing.h, external_correlation.h,
 * internal_threading.h, agent.h.
 *
 * Each structure begins with its size, which is looked at; they grew at their ends only, but for the record of a callback.
 * An id is a structure of one 64-bit number, which x86_64 and arm64 pass as they pass the number.
 */
#ifndef INFTRACE_GPU_AGENT_ROCPROFILER_H
#define INFTRACE_GPU_AGENT_ROCPROFILER_H

#include <stddef.h>
#include <stdint.h>

#define ROCP_OK 0 /* other numbers changed between versions */

#define ROCP_AGENT_INFO_VERSION_0 1
#define ROCP_AGENT_GPU 2
#define ROCP_CATEGORY_TRACING 1
#define ROCP_BUFFER_MEMORY_COPY 10
#define ROCP_BUFFER_KERNEL_DISPATCH 11
#define ROCP_CALLBACK_CODE_OBJECT 10
#define ROCP_CODE_OBJECT_KERNEL_SYMBOL 2
#define ROCP_PHASE_LOAD 1
#define ROCP_PHASE_UNLOAD 2
#define ROCP_REQUEST_MEMORY_COPY 10
#define ROCP_REQUEST_KERNEL_DISPATCH 11
#define ROCP_POLICY_LOSSLESS 2 /* blocks who writes while both halves are full */

enum { ROCP_COPY_HOST_TO_HOST = 1,
	ROCP_COPY_HOST_TO_DEVICE,
	ROCP_COPY_DEVICE_TO_HOST,
	ROCP_COPY_DEVICE_TO_DEVICE };

struct rocp_agent {
	uint64_t size;
	uint64_t id;
	uint32_t type;
	uint32_t cpu_cores;
};

struct rocp_header {
	uint32_t category, kind;
	void *payload;
};

struct rocp_dispatch {
	uint64_t size;
	uint32_t kind, operation;
	uint64_t correlation, external;
	uint64_t thread;
	uint64_t start, end;
	struct {
		uint64_t size;
		uint64_t agent, queue, kernel, dispatch;
		uint32_t private_segment, group_segment;
		uint32_t workgroup[3], grid[3]; /* both in work items */
	} info;
};

struct rocp_copy {
	uint64_t size;
	uint32_t kind, operation;
	uint64_t correlation, external;
	uint64_t thread;
	uint64_t start, end;
	uint64_t destination, source; /* agents */
	uint64_t bytes;
};

/* Passed by value. Since 1.0 there is a further number before the kind: which of both it is, its content tells. */
struct rocp_callback {
	uint64_t context, thread, correlation, external;
	union {
		struct {
			uint32_t kind, operation, phase, unused;
			const void *payload;
		} old;
		struct {
			uint64_t ancestor;
			uint32_t kind, operation, phase, unused;
			const void *payload;
		} now;
	};
};

struct rocp_kernel_symbol {
	uint64_t size;
	uint64_t kernel;
	uint64_t code_object;
	const char *name;
	/* in 0.4.0 as well */
	uint64_t object;
	uint32_t kernarg_size, kernarg_alignment, group_segment, private_segment;
	uint32_t sgprs, arch_vgprs, accum_vgprs; /* vector registers: of a work item */
};

_Static_assert(offsetof(struct rocp_dispatch, start) == 40 && offsetof(struct rocp_dispatch, info) == 56, "kernel");
_Static_assert(offsetof(struct rocp_dispatch, info.workgroup) == 56 + 48 && sizeof(struct rocp_dispatch) == 56 + 72, "kernel");
_Static_assert(offsetof(struct rocp_kernel_symbol, name) == 24 && offsetof(struct rocp_kernel_symbol, accum_vgprs) == 64, "symbol");
_Static_assert(offsetof(struct rocp_copy, destination) == 56 && sizeof(struct rocp_copy) == 80, "copy");
_Static_assert(offsetof(struct rocp_callback, old.payload) == 48 && sizeof(struct rocp_callback) == 64, "callback");

typedef int rocp_agents_fn(uint32_t version, const void **agents, size_t count, void *user);
typedef void rocp_buffer_fn(uint64_t context, uint64_t buffer, struct rocp_header **headers, size_t count, void *user, uint64_t dropped);
typedef void rocp_callback_fn(struct rocp_callback record, void *user_data, void *user);
typedef int rocp_request_fn(uint64_t thread, uint64_t context, uint32_t kind, int32_t operation, uint64_t correlation,
	uint64_t *ret_external, void *user);

/* What a tool answers with. The library may write to it. */
struct rocp_configured {
	size_t size;
	int (*initialize)(void (*finalize)(void), void *user);
	void (*finalize)(void *user);
	void *user;
};

struct rocprofiler {
	int (*get_timestamp)(uint64_t *ns);
	int (*query_agents)(uint32_t version, rocp_agents_fn *agents, size_t agent_size, void *user);
	int (*create_context)(uint64_t *context);
	int (*start_context)(uint64_t context);
	int (*stop_context)(uint64_t context);
	int (*create_buffer)(uint64_t context, size_t size, size_t watermark, uint32_t policy, rocp_buffer_fn *callback, void *user,
		uint64_t *buffer);
	int (*flush_buffer)(uint64_t buffer);
	int (*create_thread)(uint64_t *thread);
	int (*assign_thread)(uint64_t buffer, uint64_t thread);
	int (*trace_buffered)(uint64_t context, uint32_t kind, const int32_t *operations, size_t count, uint64_t buffer);
	int (*trace_callback)(uint64_t context, uint32_t kind, const int32_t *operations, size_t count, rocp_callback_fn *callback,
		void *user);
	int (*request_external)(uint64_t context, const uint32_t *kinds, size_t count, rocp_request_fn *callback, void *user);
};

#endif
