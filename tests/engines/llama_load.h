/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * llama.cpp's functions, loaded from a directory of its shared libraries. A failure ends the program with a line on stderr.
 */
#ifndef LLAMA_LOAD_H
#define LLAMA_LOAD_H

#include "llama_api.h"

#define LLAMA_FUNCTIONS(X)                                                            \
	X(ggml, void, ggml_backend_load_all_from_path, (const char *))                \
	X(ggml, struct threadpool_params, ggml_threadpool_params_default, (int))      \
	X(llama, void, llama_log_set, (void (*)(int, const char *, void *), void *))  \
	X(llama, void, llama_backend_init, (void))                                    \
	X(llama, struct model_params, llama_model_default_params, (void))             \
	X(llama, struct context_params, llama_context_default_params, (void))         \
	X(llama, void *, llama_model_load_from_file, (const char *, struct model_params)) \
	X(llama, void *, llama_init_from_model, (void *, struct context_params))      \
	X(llama, const void *, llama_get_model, (const void *))                       \
	X(llama, void, llama_attach_threadpool, (void *, void *, void *))             \
	X(llama, void *, llama_get_memory, (const void *))                            \
	X(llama, void, llama_memory_clear, (void *, bool))                            \
	X(llama, bool, llama_memory_seq_rm, (void *, int32_t, int32_t, int32_t))      \
	X(llama, int32_t, llama_model_desc, (const void *, char *, size_t))           \
	X(llama, const void *, llama_model_get_vocab, (const void *))                 \
	X(llama, int32_t, llama_tokenize, (const void *, const char *, int32_t, int32_t *, int32_t, bool, bool)) \
	X(llama, int32_t, llama_token_to_piece, (const void *, int32_t, char *, int32_t, int32_t, bool)) \
	X(llama, struct batch, llama_batch_init, (int32_t, int32_t, int32_t))         \
	X(llama, struct batch, llama_batch_get_one, (int32_t *, int32_t))             \
	X(llama, int32_t, llama_decode, (void *, struct batch))                       \
	X(llama, struct sampler_chain_params, llama_sampler_chain_default_params, (void)) \
	X(llama, void *, llama_sampler_chain_init, (struct sampler_chain_params))     \
	X(llama, void, llama_sampler_chain_add, (void *, void *))                     \
	X(llama, void *, llama_sampler_init_top_k, (int32_t))                         \
	X(llama, void *, llama_sampler_init_temp, (float))                            \
	X(llama, void *, llama_sampler_init_dist, (uint32_t))                         \
	X(llama, int32_t, llama_sampler_sample, (void *, void *, int32_t))

/* Since 0.7.0; NULL before. */
#define LLAMA_NEW_FUNCTIONS(X)                                                        \
	X(llama, void *, llama_batch_ext_init, (void *))                              \
	X(llama, void, llama_batch_ext_clear, (void *))                               \
	X(llama, int32_t, llama_batch_ext_add_token, (void *, int32_t, int32_t))      \
	X(llama, bool, llama_batch_ext_add_seq, (void *, int32_t, int32_t))           \
	X(llama, bool, llama_batch_ext_set_pos, (void *, int32_t, const int32_t *))   \
	X(llama, bool, llama_batch_ext_set_output_logits, (void *, int32_t, bool))    \
	X(llama, int32_t, llama_process, (void *, int, void *))

#define LLAMA_EXTERN(lib, ret, name, params) extern ret(*name) params;
LLAMA_FUNCTIONS(LLAMA_EXTERN)
LLAMA_NEW_FUNCTIONS(LLAMA_EXTERN)
#undef LLAMA_EXTERN

struct llama_setup {
	const char *dir, *model;
	uint32_t n_ctx, n_batch, n_ubatch, n_seq_max; /* n_ubatch: 0 for n_batch; n_seq_max: 0 for llama.cpp's default */
	int32_t n_threads, gpu_layers;
	bool separate; /* each sequence has its share of the context, instead of sharing all of it */
	bool (*on_node)(void *tensor, bool ask, void *data); /* NULL, or ggml_backend_sched_eval_callback */
};

/* A context of that model. */
void *llama_open(const struct llama_setup *s);

/* A chain as servers use it: top k, temperature, a random choice. */
void *llama_open_sampler(uint32_t seed);

/* Appends a row of one sequence; returns its number in the batch. */
int llama_batch_row(struct batch *b, int32_t token, int pos, int seq, bool output);

/* llama_decode() by way of llama_process(), with the same rows. */
int32_t llama_process_batch(void *ctx, const struct batch *b);

#endif
