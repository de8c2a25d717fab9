// SPDX-License-Identifier: BSD-2-Clause
/*
 * Computes a graph on the CPU the way ggml does: every thread walks all the nodes, does its share
 * of each, and spins at a barrier after each.
 */
#include "ggml.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ggml_threadpool {
	struct ggml_cgraph *graph;
	int n_threads;
	atomic_int n_barrier, n_barrier_passed;
	atomic_ullong barriers, ops;
};

struct worker {
	struct ggml_threadpool *tp;
	pthread_t thread;
	int ith;
};

static float *row(const struct ggml_tensor *t, int64_t i)
{
	return (float *)((char *)t->data + (size_t)i * t->nb[1]);
}

static int32_t *ids(const struct ggml_tensor *t)
{
	return t->data;
}

/* This thread's part of n items: *ret_first up to, not including, the returned one. */
static int64_t share(const struct ggml_compute_params *p, int64_t n, int64_t *ret_first)
{
	*ret_first = n * p->ith / p->nth;
	return n * (p->ith + 1) / p->nth;
}

static float dot(const float *a, const float *b, int64_t n)
{
	float sum[8] = { 0 };
	int64_t i;
	int j;

	for (i = 0; i + 8 <= n; i += 8)
		for (j = 0; j < 8; j++)
			sum[j] += a[i + j] * b[i + j];
	for (; i < n; i++)
		sum[0] += a[i] * b[i];
	return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

void ggml_compute_forward_add(const struct ggml_compute_params *params, struct ggml_tensor *dst)
{
	int64_t first, r, i, end = share(params, dst->ne[1], &first);

	for (r = first; r < end; r++) {
		const float *a = row(dst->src[0], r), *b = row(dst->src[1], r);
		float *out = row(dst, r);

		for (i = 0; i < dst->ne[0]; i++)
			out[i] = a[i] + b[i];
	}
}

void ggml_compute_forward_rms_norm(
	const struct ggml_compute_params *params, struct ggml_tensor *dst)
{
	int64_t first, r, i, n = dst->ne[0], end = share(params, dst->ne[1], &first);

	for (r = first; r < end; r++) {
		const float *in = row(dst->src[0], r);
		float scale = 1.0f / sqrtf(dot(in, in, n) / (float)n + 1e-5f);
		float *out = row(dst, r);

		for (i = 0; i < n; i++)
			out[i] = in[i] * scale;
	}
}

/* src0: weights, one row per output; src1: one row per token. The threads share the outputs, since
 * there is only one token while decoding. */
void ggml_compute_forward_mul_mat(const struct ggml_compute_params *params, struct ggml_tensor *dst)
{
	int64_t first, r, i, end = share(params, dst->ne[0], &first);

	for (r = 0; r < dst->ne[1]; r++)
		for (i = first; i < end; i++)
			row(dst, r)[i] =
				dot(row(dst->src[0], i), row(dst->src[1], r), dst->src[0]->ne[0]);
}

void ggml_compute_forward_get_rows(
	const struct ggml_compute_params *params, struct ggml_tensor *dst)
{
	int64_t first, r, end = share(params, dst->ne[1], &first);

	for (r = first; r < end; r++)
		memcpy(row(dst, r), row(dst->src[0], ids(dst->src[1])[r]), dst->nb[1]);
}

void ggml_compute_forward_set_rows(
	const struct ggml_compute_params *params, struct ggml_tensor *dst)
{
	int64_t first, r, end = share(params, dst->src[0]->ne[1], &first);

	for (r = first; r < end; r++)
		memcpy(row(dst, ids(dst->src[1])[r]), row(dst->src[0], r), dst->nb[1]);
}

/* src1: positions; op_params[0]: size of a head. */
void ggml_compute_forward_rope(const struct ggml_compute_params *params, struct ggml_tensor *dst)
{
	int64_t first, r, i, end = share(params, dst->ne[1], &first);
	int head = dst->op_params[0];

	for (r = first; r < end; r++) {
		const float *in = row(dst->src[0], r);
		float *out = row(dst, r);

		for (i = 0; i < dst->ne[0]; i += 2) {
			float freq = powf(10000.0f, -(float)(i % head) / (float)head);
			float angle = (float)ids(dst->src[1])[r] * freq;
			float c = cosf(angle), s = sinf(angle);

			out[i] = in[i] * c - in[i + 1] * s;
			out[i + 1] = in[i] * s + in[i + 1] * c;
		}
	}
}

/* One head of one token over positions 0..n_past: softmax in one pass, rescaled whenever a
 * larger score turns up. */
static void attention_head(const float *q, const struct ggml_tensor *k, const struct ggml_tensor *v,
	int64_t offset, int head, int n_past, float *out)
{
	float score, weight, rescale, max = -INFINITY, sum = 0;
	int pos, i;

	memset(out, 0, (size_t)head * sizeof(*out));
	for (pos = 0; pos <= n_past; pos++) {
		score = dot(q, row(k, pos) + offset, head) / sqrtf((float)head);
		rescale = 1;
		if (score > max) {
			rescale = expf(max - score);
			max = score;
		}
		weight = expf(score - max);
		sum = sum * rescale + weight;
		for (i = 0; i < head; i++)
			out[i] = out[i] * rescale + weight * row(v, pos)[offset + i];
	}
	for (i = 0; i < head; i++)
		out[i] /= sum;
}

/* src: q, cached k, cached v, positions; op_params[0]: size of a head. */
void ggml_compute_forward_flash_attn_ext(
	const struct ggml_compute_params *params, struct ggml_tensor *dst)
{
	int head = dst->op_params[0];
	int64_t n_heads = dst->ne[0] / head, n_kv = dst->src[1]->ne[0] / head;
	int64_t first, i, end = share(params, n_heads * dst->ne[1], &first);

	for (i = first; i < end; i++) {
		int64_t r = i / n_heads, h = i % n_heads;

		attention_head(row(dst->src[0], r) + h * head, dst->src[1], dst->src[2],
			h * n_kv / n_heads * head, head, ids(dst->src[3])[r],
			row(dst, r) + h * head);
	}
}

/* SwiGLU: src0 is the gate. */
void ggml_compute_forward_glu(const struct ggml_compute_params *params, struct ggml_tensor *dst)
{
	int64_t first, r, i, end = share(params, dst->ne[1], &first);

	for (r = first; r < end; r++) {
		const float *gate = row(dst->src[0], r), *up = row(dst->src[1], r);
		float *out = row(dst, r);

		for (i = 0; i < dst->ne[0]; i++)
			out[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
	}
}

/* In ggml the accelerated paths (repacked weights, AMX) are tried here; there are none. */
bool ggml_cpu_extra_compute_forward(struct ggml_compute_params *params, struct ggml_tensor *op)
{
	(void)params;
	(void)op;
	return false;
}

static void compute_forward(struct ggml_compute_params *params, struct ggml_tensor *node)
{
	if (ggml_cpu_extra_compute_forward(params, node))
		return;
	switch (node->op) {
	case GGML_OP_ADD:
		ggml_compute_forward_add(params, node);
		break;
	case GGML_OP_RMS_NORM:
		ggml_compute_forward_rms_norm(params, node);
		break;
	case GGML_OP_MUL_MAT:
		ggml_compute_forward_mul_mat(params, node);
		break;
	case GGML_OP_GET_ROWS:
		ggml_compute_forward_get_rows(params, node);
		break;
	case GGML_OP_SET_ROWS:
		ggml_compute_forward_set_rows(params, node);
		break;
	case GGML_OP_ROPE:
		ggml_compute_forward_rope(params, node);
		break;
	case GGML_OP_FLASH_ATTN_EXT:
		ggml_compute_forward_flash_attn_ext(params, node);
		break;
	case GGML_OP_GLU:
		ggml_compute_forward_glu(params, node);
		break;
	}
}

static void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

/* Spins: with more threads than free CPUs this is where the time goes, as in the real one. */
void ggml_barrier(struct ggml_threadpool *tp)
{
	int passed;

	if (tp->n_threads == 1)
		return;
	passed = atomic_load(&tp->n_barrier_passed);
	if (atomic_fetch_add(&tp->n_barrier, 1) == tp->n_threads - 1) {
		atomic_store(&tp->n_barrier, 0);
		atomic_fetch_add(&tp->n_barrier_passed, 1);
		return;
	}
	while (atomic_load_explicit(&tp->n_barrier_passed, memory_order_acquire) == passed)
		cpu_relax();
}

static void *ggml_graph_compute_thread(void *arg)
{
	struct worker *w = arg;
	struct ggml_threadpool *tp = w->tp;
	struct ggml_compute_params params = {
		.ith = w->ith, .nth = tp->n_threads, .threadpool = tp
	};
	int i;

	for (i = 0; i < tp->graph->n_nodes; i++) {
		compute_forward(&params, &tp->graph->nodes[i]);
		atomic_fetch_add(&tp->ops, 1);
		ggml_barrier(tp);
		atomic_fetch_add(&tp->barriers, 1);
	}
	return NULL;
}

void ggml_graph_compute(struct ggml_cgraph *graph, int n_threads)
{
	struct ggml_threadpool tp = { .graph = graph, .n_threads = n_threads };
	struct worker workers[GGML_MAX_N_THREADS];
	int i, err;

	for (i = 0; i < n_threads; i++)
		workers[i] = (struct worker){ .tp = &tp, .ith = i };
	for (i = 1; i < n_threads; i++) {
		err = pthread_create(
			&workers[i].thread, NULL, ggml_graph_compute_thread, &workers[i]);
		if (err) {
			fprintf(stderr, "ggml: cannot start thread %d of %d: %s\n", i + 1,
				n_threads, strerror(err));
			abort(); /* those already started would wait at the barrier for ever */
		}
	}
	ggml_graph_compute_thread(&workers[0]);
	for (i = 1; i < n_threads; i++)
		pthread_join(workers[i].thread, NULL);
	graph->ops += tp.ops;
	graph->barriers += tp.barriers;
}
