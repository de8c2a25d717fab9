/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of ggml's interface that a tracer looks at, for the bundled engine: same names,
 * same layout as ggml 0.25.1 (ggml.h, ggml-impl.h), so that the preset for llama.cpp fits.
 */
#ifndef MINI_GGML_H
#define MINI_GGML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GGML_MAX_SRC 10
#define GGML_MAX_NAME 64
#define GGML_MAX_N_THREADS 512

/* The numbers of ggml 0.25.1; the names are in GGML_OP_NAME. */
enum ggml_op {
	GGML_OP_NONE = 0,
	GGML_OP_ADD = 2,
	GGML_OP_RMS_NORM = 25,
	GGML_OP_MUL_MAT = 29,
	GGML_OP_GET_ROWS = 40,
	GGML_OP_SET_ROWS = 42,
	GGML_OP_ROPE = 48,
	GGML_OP_FLASH_ATTN_EXT = 74,
	GGML_OP_GLU = 100,
	GGML_OP_COUNT,
};

struct ggml_tensor {
	int32_t type; /* 0: f32, the only one here */
	void *buffer;
	int64_t ne[4];
	size_t nb[4];
	int32_t op;
	int32_t op_params[16];
	int32_t flags;
	struct ggml_tensor *src[GGML_MAX_SRC];
	struct ggml_tensor *view_src;
	size_t view_offs;
	void *data;
	char name[GGML_MAX_NAME];
	void *extra;
	char padding[8];
};

_Static_assert(offsetof(struct ggml_tensor, ne) == 16, "ne");
_Static_assert(offsetof(struct ggml_tensor, nb) == 48, "nb");
_Static_assert(offsetof(struct ggml_tensor, op) == 80, "op");
_Static_assert(offsetof(struct ggml_tensor, op_params) == 84, "op_params");
_Static_assert(offsetof(struct ggml_tensor, src) == 152, "src");
_Static_assert(offsetof(struct ggml_tensor, data) == 248, "data");
_Static_assert(offsetof(struct ggml_tensor, name) == 256, "name");
_Static_assert(sizeof(struct ggml_tensor) == 336, "ggml_tensor");

struct ggml_cgraph {
	struct ggml_tensor *nodes;
	int n_nodes;
	/* Calls of ggml_barrier and ggml_cpu_extra_compute_forward so far, of all threads. */
	uint64_t barriers, ops;
};

struct ggml_threadpool;

struct ggml_compute_params {
	int ith, nth;
	struct ggml_threadpool *threadpool;
};

/* libggml-base.so */
const char *ggml_op_name(enum ggml_op op);

/* libggml-cpu-mini.so. Like the real one without a thread pool of the caller's, it starts and
 * joins n_threads - 1 workers in every call. */
void ggml_graph_compute(struct ggml_cgraph *graph, int n_threads);
void ggml_barrier(struct ggml_threadpool *tp);
bool ggml_cpu_extra_compute_forward(struct ggml_compute_params *params, struct ggml_tensor *op);
void ggml_compute_forward_add(const struct ggml_compute_params *params, struct ggml_tensor *dst);
void ggml_compute_forward_rms_norm(
	const struct ggml_compute_params *params, struct ggml_tensor *dst);
void ggml_compute_forward_mul_mat(
	const struct ggml_compute_params *params, struct ggml_tensor *dst);
void ggml_compute_forward_get_rows(
	const struct ggml_compute_params *params, struct ggml_tensor *dst);
void ggml_compute_forward_set_rows(
	const struct ggml_compute_params *params, struct ggml_tensor *dst);
void ggml_compute_forward_rope(const struct ggml_compute_params *params, struct ggml_tensor *dst);
void ggml_compute_forward_flash_attn_ext(
	const struct ggml_compute_params *params, struct ggml_tensor *dst);
void ggml_compute_forward_glu(const struct ggml_compute_params *params, struct ggml_tensor *dst);

#endif
