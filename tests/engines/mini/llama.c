// SPDX-License-Identifier: BSD-2-Clause
#include "llama.h"

#include "ggml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_LAYERS 4
#define DIM 128
#define HEAD 32
#define DIM_KV 64
#define DIM_FFN 384
#define NODES_MAX (3 + 17 * N_LAYERS)
#define TOP_K 20
#define TEMPERATURE 0.8f

struct layer {
	struct ggml_tensor q, k, v, out, gate, up, down;
	struct ggml_tensor cache_k, cache_v;
};

struct llama_context {
	struct ggml_tensor embeddings, head, tokens, positions;
	struct layer layers[N_LAYERS];
	struct ggml_cgraph graph;
	struct ggml_tensor nodes[NODES_MAX];
	float *logits; /* of the last token decoded */
	char *arena;
	size_t arena_size, arena_used, arena_graph; /* graph: where the results of nodes begin */
	int n_ctx, max_batch, n_threads, n_past;
};

struct llama_sampler {
	uint32_t state;
};

/* xorshift32: the same weights and texts on every machine. */
static uint32_t random_next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void *arena_take(struct llama_context *ctx, size_t size)
{
	void *p = ctx->arena + ctx->arena_used;

	ctx->arena_used += (size + 63) & ~(size_t)63;
	if (ctx->arena_used > ctx->arena_size)
		abort(); /* mini_context_new has added up the sizes wrongly */
	return p;
}

static void tensor_init(struct llama_context *ctx, struct ggml_tensor *t, int64_t ne0, int64_t ne1,
	const char *name)
{
	*t = (struct ggml_tensor){
		.ne = { ne0, ne1, 1, 1 },
		.nb = { 4, 4 * (size_t)ne0, 4 * (size_t)(ne0 * ne1), 4 * (size_t)(ne0 * ne1) },
	};
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->data = arena_take(ctx, t->nb[2]);
}

static void weights_init(struct llama_context *ctx, struct ggml_tensor *t, int64_t ne0, int64_t ne1,
	float gain, uint32_t *seed)
{
	float *w, scale = gain * sqrtf(3.0f / (float)ne0); /* uniform of variance 1 / ne0 */
	int64_t i;

	tensor_init(ctx, t, ne0, ne1, "weight");
	w = t->data;
	for (i = 0; i < ne0 * ne1; i++)
		w[i] = ((float)random_next(seed) / 2147483648.0f - 1.0f) * scale;
}

static void layer_init(struct llama_context *ctx, struct layer *l, uint32_t *seed)
{
	weights_init(ctx, &l->q, DIM, DIM, 1, seed);
	weights_init(ctx, &l->k, DIM, DIM_KV, 1, seed);
	weights_init(ctx, &l->v, DIM, DIM_KV, 1, seed);
	weights_init(ctx, &l->out, DIM, DIM, 1, seed);
	weights_init(ctx, &l->gate, DIM, DIM_FFN, 1, seed);
	weights_init(ctx, &l->up, DIM, DIM_FFN, 1, seed);
	weights_init(ctx, &l->down, DIM_FFN, DIM, 1, seed);
	tensor_init(ctx, &l->cache_k, DIM_KV, ctx->n_ctx, "cache_k");
	tensor_init(ctx, &l->cache_v, DIM_KV, ctx->n_ctx, "cache_v");
}

/* Upper bound of what the arena has to hold, each tensor rounded up to 64 bytes. */
static size_t arena_bound(int n_ctx, int max_batch)
{
	size_t weights = N_LAYERS * (2 * DIM * DIM + 2 * DIM * DIM_KV + 3 * DIM * DIM_FFN) +
			 2 * DIM * MINI_VOCAB;
	size_t cache = N_LAYERS * 2 * DIM_KV * (size_t)n_ctx;
	size_t nodes = NODES_MAX * DIM_FFN * (size_t)max_batch;

	return 4 * (weights + cache + nodes + 2 * (size_t)max_batch) + 64 * (NODES_MAX + 64);
}

struct llama_context *mini_context_new(int n_ctx, int max_batch, int n_threads)
{
	struct llama_context *ctx;
	uint32_t seed = 1;
	int i;

	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return NULL;
	ctx->n_ctx = n_ctx;
	ctx->max_batch = max_batch;
	ctx->n_threads = n_threads;
	ctx->arena_size = arena_bound(n_ctx, max_batch);
	ctx->arena = aligned_alloc(64, ctx->arena_size);
	if (!ctx->arena) {
		free(ctx);
		return NULL;
	}
	weights_init(ctx, &ctx->embeddings, DIM, MINI_VOCAB, 1, &seed);
	weights_init(ctx, &ctx->head, DIM, MINI_VOCAB, 3, &seed);
	tensor_init(ctx, &ctx->tokens, max_batch, 1, "tokens");
	tensor_init(ctx, &ctx->positions, max_batch, 1, "positions");
	for (i = 0; i < N_LAYERS; i++)
		layer_init(ctx, &ctx->layers[i], &seed);
	ctx->arena_graph = ctx->arena_used;
	ctx->graph.nodes = ctx->nodes;
	return ctx;
}

void mini_context_counts(const struct llama_context *ctx, uint64_t *ret_ops, uint64_t *ret_barriers)
{
	*ret_ops = ctx->graph.ops;
	*ret_barriers = ctx->graph.barriers;
}

/* A node with room for its result; name as in llama.cpp, with the layer after a dash. */
static struct ggml_tensor *node_add(struct llama_context *ctx, enum ggml_op op, const char *name,
	int layer, int64_t ne0, int64_t ne1, struct ggml_tensor *src0, struct ggml_tensor *src1)
{
	struct ggml_tensor *t = &ctx->nodes[ctx->graph.n_nodes++];

	tensor_init(ctx, t, ne0, ne1, name);
	if (layer >= 0)
		snprintf(t->name, sizeof(t->name), "%s-%d", name, layer);
	t->op = op;
	t->src[0] = src0;
	t->src[1] = src1;
	return t;
}

static struct ggml_tensor *mul_mat(struct llama_context *ctx, const char *name, int layer,
	struct ggml_tensor *weights, struct ggml_tensor *x)
{
	return node_add(ctx, GGML_OP_MUL_MAT, name, layer, weights->ne[1], x->ne[1], weights, x);
}

/* dst = f(x) or f(x, y) of x's shape. */
static struct ggml_tensor *like(struct llama_context *ctx, enum ggml_op op, const char *name,
	int layer, struct ggml_tensor *x, struct ggml_tensor *y)
{
	return node_add(ctx, op, name, layer, x->ne[0], x->ne[1], x, y);
}

static struct ggml_tensor *rope(
	struct llama_context *ctx, const char *name, int layer, struct ggml_tensor *x)
{
	struct ggml_tensor *t = like(ctx, GGML_OP_ROPE, name, layer, x, &ctx->positions);

	t->op_params[0] = HEAD;
	return t;
}

/* Writes x into the rows of the cache at the tokens' positions. */
static void cache_store(struct llama_context *ctx, const char *name, int layer,
	struct ggml_tensor *cache, struct ggml_tensor *x)
{
	struct ggml_tensor *t =
		node_add(ctx, GGML_OP_SET_ROWS, name, layer, 1, 1, x, &ctx->positions);

	t->view_src = cache;
	t->data = cache->data;
	memcpy(t->ne, cache->ne, sizeof(t->ne));
	memcpy(t->nb, cache->nb, sizeof(t->nb));
}

static struct ggml_tensor *attention_build(
	struct llama_context *ctx, struct layer *l, int il, struct ggml_tensor *x)
{
	struct ggml_tensor *q, *k, *v, *t;

	q = mul_mat(ctx, "Qcur", il, &l->q, x);
	k = mul_mat(ctx, "Kcur", il, &l->k, x);
	v = mul_mat(ctx, "Vcur", il, &l->v, x);
	q = rope(ctx, "Qcur", il, q);
	k = rope(ctx, "Kcur", il, k);
	cache_store(ctx, "cache_k", il, &l->cache_k, k);
	cache_store(ctx, "cache_v", il, &l->cache_v, v);
	t = like(ctx, GGML_OP_FLASH_ATTN_EXT, "kqv_out", il, q, &l->cache_k);
	t->src[2] = &l->cache_v;
	t->src[3] = &ctx->positions;
	t->op_params[0] = HEAD;
	return mul_mat(ctx, "attn_out", il, &l->out, t);
}

static struct ggml_tensor *layer_build(struct llama_context *ctx, int il, struct ggml_tensor *x)
{
	struct layer *l = &ctx->layers[il];
	struct ggml_tensor *t, *gate, *up;

	t = like(ctx, GGML_OP_RMS_NORM, "attn_norm", il, x, NULL);
	t = attention_build(ctx, l, il, t);
	x = like(ctx, GGML_OP_ADD, "ffn_inp", il, x, t);
	t = like(ctx, GGML_OP_RMS_NORM, "ffn_norm", il, x, NULL);
	gate = mul_mat(ctx, "ffn_gate", il, &l->gate, t);
	up = mul_mat(ctx, "ffn_up", il, &l->up, t);
	t = like(ctx, GGML_OP_GLU, "ffn_swiglu", il, gate, up);
	t = mul_mat(ctx, "ffn_out", il, &l->down, t);
	return like(ctx, GGML_OP_ADD, "l_out", il, x, t);
}

static void graph_build(struct llama_context *ctx, int n_tokens)
{
	struct ggml_tensor *x;
	int il;

	ctx->graph.n_nodes = 0;
	ctx->arena_used = ctx->arena_graph;
	x = node_add(ctx, GGML_OP_GET_ROWS, "inp_embd", -1, DIM, n_tokens, &ctx->embeddings,
		&ctx->tokens);
	for (il = 0; il < N_LAYERS; il++)
		x = layer_build(ctx, il, x);
	x = like(ctx, GGML_OP_RMS_NORM, "result_norm", -1, x, NULL);
	x = mul_mat(ctx, "result_output", -1, &ctx->head, x);
	ctx->logits = (float *)x->data + (n_tokens - 1) * MINI_VOCAB;
}

struct llama_batch llama_batch_get_one(int32_t *tokens, int32_t n_tokens)
{
	return (struct llama_batch){ .n_tokens = n_tokens, .token = tokens };
}

static int32_t decode(struct llama_context *ctx, struct llama_batch batch)
{
	int32_t *tokens = ctx->tokens.data, *positions = ctx->positions.data;
	int32_t i;

	if (batch.n_tokens < 1 || batch.n_tokens > ctx->max_batch)
		return -1;
	if (ctx->n_past + batch.n_tokens > ctx->n_ctx)
		return 1;
	for (i = 0; i < batch.n_tokens; i++) {
		if (batch.token[i] < 0 || batch.token[i] >= MINI_VOCAB)
			return -1;
		tokens[i] = batch.token[i];
		positions[i] = ctx->n_past + i;
	}
	graph_build(ctx, batch.n_tokens);
	ggml_graph_compute(&ctx->graph, ctx->n_threads);
	ctx->n_past += batch.n_tokens;
	return 0;
}

int32_t llama_decode(struct llama_context *ctx, struct llama_batch batch)
{
	return decode(ctx, batch);
}

/* The bundled engine keeps one sequence, so rows are only counted, within what it can take. */
int32_t llama_process(struct llama_context *ctx, int type, struct llama_batch_ext *batch)
{
	static int32_t tokens[1];

	return decode(ctx, llama_batch_get_one(tokens, type == 1 && batch ? 1 : 0));
}

void llama_memory_clear(struct llama_context *ctx, bool data)
{
	int il;

	ctx->n_past = 0;
	for (il = 0; data && il < N_LAYERS; il++) {
		memset(ctx->layers[il].cache_k.data, 0, ctx->layers[il].cache_k.nb[2]);
		memset(ctx->layers[il].cache_v.data, 0, ctx->layers[il].cache_v.nb[2]);
	}
}

struct llama_sampler *mini_sampler_new(uint32_t seed)
{
	struct llama_sampler *smpl = malloc(sizeof(*smpl));

	if (smpl)
		smpl->state = seed ? seed : 1;
	return smpl;
}

struct candidate {
	float logit;
	int32_t token;
};

static int candidate_compare(const void *a, const void *b)
{
	float la = ((const struct candidate *)a)->logit, lb = ((const struct candidate *)b)->logit;

	return (la < lb) - (la > lb);
}

/* Top k, temperature, then one at random; idx: only the last token has logits. */
int32_t llama_sampler_sample(struct llama_sampler *smpl, struct llama_context *ctx, int32_t idx)
{
	struct candidate c[MINI_VOCAB];
	float p[TOP_K], sum = 0, x;
	int i;

	(void)idx;
	for (i = 0; i < MINI_VOCAB; i++)
		c[i] = (struct candidate){ ctx->logits[i], i };
	qsort(c, MINI_VOCAB, sizeof(c[0]), candidate_compare);
	for (i = 0; i < TOP_K; i++) {
		p[i] = expf((c[i].logit - c[0].logit) / TEMPERATURE);
		sum += p[i];
	}
	x = (float)random_next(&smpl->state) / 4294967296.0f * sum;
	for (i = 0; i < TOP_K - 1; i++) {
		x -= p[i];
		if (x < 0)
			break;
	}
	return c[i].token;
}
