// SPDX-License-Identifier: BSD-2-Clause
#include "llama_load.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LLAMA_DEFINE(lib, ret, name, params) ret(*name) params;
LLAMA_FUNCTIONS(LLAMA_DEFINE)
#undef LLAMA_DEFINE

static void __attribute__((noreturn)) fail(const char *what)
{
	fprintf(stderr, "llama.cpp: %s\n", what);
	exit(1);
}

static void on_log(int level, const char *text, void *data)
{
	(void)data;
	if (level == 4)
		fputs(text, stderr);
}

static void *library_open(const char *dir, const char *prefix)
{
	char path[4096] = "";
	struct dirent *e;
	DIR *d = opendir(dir);
	void *lib;

	while (d && (e = readdir(d))) {
		if (!strncmp(e->d_name, prefix, strlen(prefix)) && strstr(e->d_name, ".so"))
			snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
	}
	if (d)
		closedir(d);
	if (!*path)
		fail("no libggml and libllama in that directory");
	lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!lib)
		fail(dlerror());
	return lib;
}

void *llama_open(const struct llama_setup *s)
{
	void *ggml = library_open(s->dir, "libggml."), *llama = library_open(s->dir, "libllama.");
	struct context_params cp;
	struct model_params mp;
	void *model, *ctx;

#define LOAD(lib, ret, name, params)         \
	*(void **)&name = dlsym(lib, #name); \
	if (!name)                           \
		fail("no " #name);
	LLAMA_FUNCTIONS(LOAD)
#undef LOAD
	llama_log_set(on_log, NULL);
	ggml_backend_load_all_from_path(s->dir);
	llama_backend_init();
	mp = llama_model_default_params();
	mp.n_gpu_layers = 0;
	model = llama_model_load_from_file(s->model, mp);
	if (!model)
		fail("cannot load the model");
	cp = llama_context_default_params();
	cp.n_ctx = s->n_ctx;
	cp.n_batch = cp.n_ubatch = s->n_batch;
	cp.n_seq_max = s->n_seq_max;
	cp.n_threads = cp.n_threads_batch = s->n_threads;
	cp.kv_unified = !s->separate;
	ctx = llama_init_from_model(model, cp);
	if (!ctx)
		fail("cannot make a context");
	return ctx;
}

void *llama_open_sampler(uint32_t seed)
{
	void *sampler = llama_sampler_chain_init(llama_sampler_chain_default_params());

	llama_sampler_chain_add(sampler, llama_sampler_init_top_k(40));
	llama_sampler_chain_add(sampler, llama_sampler_init_temp(0.8f));
	llama_sampler_chain_add(sampler, llama_sampler_init_dist(seed));
	return sampler;
}

int llama_batch_row(struct batch *b, int32_t token, int pos, int seq, bool output)
{
	int i = b->n_tokens++;

	b->token[i] = token;
	b->pos[i] = pos;
	b->n_seq_id[i] = 1;
	b->seq_id[i][0] = seq;
	b->logits[i] = output;
	return i;
}
