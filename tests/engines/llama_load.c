// SPDX-License-Identifier: BSD-2-Clause
#include "../program.h"

#include "llama_load.h"

#include <dirent.h>

#define LLAMA_DEFINE(lib, ret, name, params) ret(*name) params;
LLAMA_FUNCTIONS(LLAMA_DEFINE)
LLAMA_NEW_FUNCTIONS(LLAMA_DEFINE)
#undef LLAMA_DEFINE

static __attribute__((noreturn, format(printf, 1, 2))) void fail(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static void on_log(int level, const char *text, void *data)
{
	(void)data;
	if (level == 4) /* GGML_LOG_LEVEL_ERROR; 5 continues a line of any level */
		fputs(text, stderr);
}

/* Loads dir/PREFIX*.so*; release names carry the version (libllama.v0.5.0.so). */
static void *library_open(const char *dir, const char *prefix)
{
	char path[4096] = "";
	struct dirent *e;
	DIR *d = opendir(dir);
	void *lib;

	if (!d)
		fail("%s: %s", dir, strerror(errno));
	while ((e = readdir(d))) {
		if (!strncmp(e->d_name, prefix, strlen(prefix)) && strstr(e->d_name, ".so"))
			snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
	}
	closedir(d);
	if (!*path)
		fail("%s: no %s*.so in there; give the folder of a llama.cpp build", dir, prefix);
	lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!lib)
		fail("%s", dlerror());
	return lib;
}

void *llama_open(const struct llama_setup *s)
{
	void *ggml = library_open(s->dir, "libggml."), *llama = library_open(s->dir, "libllama.");
	struct context_params cp;
	struct model_params mp;
	char backends[4096], *unified;
	void *model, *ctx;

#define LOAD(lib, ret, name, params)         \
	*(void **)&name = dlsym(lib, #name); \
	if (!name)                           \
		fail("%s: no %s; this driver knows release v0.5.0", s->dir, #name);
	LLAMA_FUNCTIONS(LOAD)
#undef LOAD
#define LOAD_NEW(lib, ret, name, params) *(void **)&name = dlsym(lib, #name);
	LLAMA_NEW_FUNCTIONS(LOAD_NEW)
#undef LOAD_NEW
	llama_log_set(on_log, NULL);
	snprintf(backends, sizeof(backends), "%s/ggml/backends0", s->dir); /* as Debian has them */
	ggml_backend_load_all_from_path(access(backends, F_OK) ? s->dir : backends);
	llama_backend_init();
	mp = llama_model_default_params();
	mp.n_gpu_layers = s->gpu_layers;
	model = llama_model_load_from_file(s->model, mp);
	if (!model)
		fail("%s: llama.cpp cannot load this model", s->model);
	cp = llama_context_default_params();
	cp.n_ctx = s->n_ctx;
	cp.n_batch = s->n_batch;
	cp.n_ubatch = s->n_ubatch ? s->n_ubatch : s->n_batch;
	cp.n_threads = cp.n_threads_batch = s->n_threads;
	cp.cb_eval = (void *)s->on_node;
	if (s->n_seq_max) {
		cp.n_seq_max = s->n_seq_max;
		unified = (char *)&cp.kv_unified;
		if (llama_process) /* 0.7.0 has moe_cache_size before it */
			unified += sizeof(size_t);
		*unified = !s->separate;
	}
	ctx = llama_init_from_model(model, cp);
	if (!ctx)
		fail("cannot make a context for this model");
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

int32_t llama_process_batch(void *ctx, const struct batch *b)
{
	static void *ext;

	if (!llama_process)
		fail("this build has no llama_process");
	if (!ext)
		ext = llama_batch_ext_init(ctx);
	llama_batch_ext_clear(ext);
	for (int i = 0; i < b->n_tokens; i++) {
		int32_t row = llama_batch_ext_add_token(ext, b->seq_id[i][0], b->token[i]);
		bool ok = row == i;

		for (int k = 1; k < b->n_seq_id[i]; k++)
			ok &= llama_batch_ext_add_seq(ext, row, b->seq_id[i][k]);
		ok &= llama_batch_ext_set_pos(ext, row, &b->pos[i]) && llama_batch_ext_set_output_logits(ext, row, b->logits[i]);
		if (!ok)
			fail("a row is refused");
	}
	return llama_process(ctx, 1, ext);
}
