/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bundled engine: a small Llama with random weights and one token per printable
 * character. The functions that llama.cpp has too keep their names and signatures.
 */
#ifndef MINI_LLAMA_H
#define MINI_LLAMA_H

#include <stdbool.h>
#include <stdint.h>

#define MINI_VOCAB 96 /* ' ' to '~', and a newline for everything else */

struct llama_batch {
	int32_t n_tokens;
	int32_t *token;
	float *embd;
	int32_t *pos;
	int32_t *n_seq_id;
	int32_t **seq_id;
	int8_t *logits;
};

_Static_assert(sizeof(struct llama_batch) == 56, "llama_batch");

struct llama_context;
struct llama_sampler;

/* max_batch: most tokens of one llama_decode. NULL when memory is short. */
struct llama_context *mini_context_new(int n_ctx, int max_batch, int n_threads);
struct llama_sampler *mini_sampler_new(uint32_t seed);
/* Calls of ggml_cpu_extra_compute_forward and ggml_barrier so far, of all threads. */
void mini_context_counts(
	const struct llama_context *ctx, uint64_t *ret_ops, uint64_t *ret_barriers);

struct llama_batch llama_batch_get_one(int32_t *tokens, int32_t n_tokens);
/* Uses n_tokens and token of the batch. 0; 1: no room left; -1: tokens out of range. */
int32_t llama_decode(struct llama_context *ctx, struct llama_batch batch);
/* The same with a batch of structures (batch_ext.h); type: 1, to decode. */
struct llama_batch_ext;
int32_t llama_process(struct llama_context *ctx, int type, struct llama_batch_ext *batch);
int32_t llama_sampler_sample(struct llama_sampler *smpl, struct llama_context *ctx, int32_t idx);
void llama_memory_clear(struct llama_context *ctx, bool data);

#endif
