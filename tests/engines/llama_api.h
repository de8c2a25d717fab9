/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Structs of llama.cpp's C API, which the drivers load with dlopen.
 *
 * They are those of llama.cpp release v0.5.0 (commit 0ad4a86, ggml 0.25.1; llama.h and
 * ggml.h), checked against the stores that llama_model_default_params and
 * llama_context_default_params of that build make into their result buffer. Another release
 * may lay them out differently: the version fetched for the tests is pinned for that reason. What 0.7.0 has moved is in
 * llama_load.c.
 */
#ifndef LLAMA_API_H
#define LLAMA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_params {
	void *devices, *tensor_buft_overrides;
	int32_t n_gpu_layers, split_mode;
	int32_t load_mode, lazy_mode;
	int32_t main_gpu;
	const float *tensor_split;
	void *progress_cb, *progress_ud;
	const void *kv_overrides;
	bool vocab_only, check_tensors, use_extra_bufts, no_host, no_alloc, load_mtp;
};

struct context_params {
	uint32_t n_ctx, n_batch, n_ubatch, n_seq_max;
	uint32_t n_rs_seq, n_outputs_max, n_outputs_max_per_seq;
	int32_t n_threads, n_threads_batch;
	int32_t ctx_type, rope_scaling, pooling, attention, flash_attn;
	float rope_base, rope_scale, yarn_ext, yarn_attn, yarn_fast, yarn_slow;
	uint32_t yarn_orig_ctx;
	float defrag;
	void *cb_eval, *cb_eval_ud;
	int32_t type_k, type_v;
	void *abort_cb, *abort_ud;
	bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified;
	void *samplers;
	size_t n_samplers;
	void *ctx_other;
	char later[64]; /* of newer releases */
};

struct batch {
	int32_t n_tokens;
	int32_t *token;
	float *embd;
	int32_t *pos;
	int32_t *n_seq_id;
	int32_t **seq_id;
	int8_t *logits;
};

struct sampler_chain_params {
	bool no_perf;
};

struct threadpool_params {
	bool cpumask[512];
	int32_t n_threads, prio;
	uint32_t poll;
	bool strict_cpu, paused;
};

_Static_assert(sizeof(struct model_params) == 80, "llama_model_params");
_Static_assert(offsetof(struct context_params, later) == 160, "llama_context_params");
_Static_assert(sizeof(struct batch) == 56, "llama_batch");
_Static_assert(sizeof(struct threadpool_params) == 528, "ggml_threadpool_params");

#endif
