// SPDX-License-Identifier: BSD-2-Clause
/*
 * Generates tokens with a real llama.cpp build through its C API, loaded with dlopen, and
 * prints what it knows about the run as its last line (counts.h).
 */
#define _GNU_SOURCE
#include "run.h"

#include "hook.h"
#include "llama_api.h"
#include "nodes.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef void (*log_callback)(int level, const char *text, void *data);

/* X(library, return type, name, parameters); the CPU backend is only known once ggml has
 * picked and loaded one. */
#define API_FUNCTIONS(X)                                                                  \
	X(ggml, void, ggml_backend_load_all_from_path, (const char *))                    \
	X(ggml, struct threadpool_params, ggml_threadpool_params_default, (int))          \
	X(llama, void, llama_log_set, (log_callback, void *))                             \
	X(llama, void, llama_backend_init, (void))                                        \
	X(llama, struct model_params, llama_model_default_params, (void))                 \
	X(llama, struct context_params, llama_context_default_params, (void))             \
	X(llama, void *, llama_model_load_from_file, (const char *, struct model_params)) \
	X(llama, void *, llama_init_from_model, (void *, struct context_params))          \
	X(llama, void, llama_attach_threadpool, (void *, void *, void *))                 \
	X(llama, void *, llama_get_memory, (const void *))                                \
	X(llama, void, llama_memory_clear, (void *, bool))                                \
	X(llama, const void *, llama_model_get_vocab, (const void *))                     \
	X(llama, int32_t, llama_tokenize,                                                 \
		(const void *, const char *, int32_t, int32_t *, int32_t, bool, bool))    \
	X(llama, int32_t, llama_token_to_piece,                                           \
		(const void *, int32_t, char *, int32_t, int32_t, bool))                  \
	X(llama, struct batch, llama_batch_get_one, (int32_t *, int32_t))                 \
	X(llama, int32_t, llama_decode, (void *, struct batch))                           \
	X(llama, struct sampler_chain_params, llama_sampler_chain_default_params, (void)) \
	X(llama, void *, llama_sampler_chain_init, (struct sampler_chain_params))         \
	X(llama, void, llama_sampler_chain_add, (void *, void *))                         \
	X(llama, void *, llama_sampler_init_top_k, (int32_t))                             \
	X(llama, void *, llama_sampler_init_temp, (float))                                \
	X(llama, void *, llama_sampler_init_dist, (uint32_t))                             \
	X(llama, int32_t, llama_sampler_sample, (void *, void *, int32_t))                \
	X(llama, int32_t, llama_model_desc, (const void *, char *, size_t))

struct api {
#define DECLARE(lib, ret, name, params) ret(*name) params;
	API_FUNCTIONS(DECLARE)
#undef DECLARE
};

struct llama {
	struct api api;
	void *model, *ctx, *sampler;
	const void *vocab;
	struct node_log *nodes;
	const struct engine_hook *hook;
	unsigned int steps, node; /* the node that its callback is called for next */
};

static void on_log(int level, const char *text, void *data)
{
	(void)data;
	if (level == 4) /* GGML_LOG_LEVEL_ERROR; 5 continues a line of any level */
		fputs(text, stderr);
}

/* Loads dir/PREFIX*.so*; release names carry the version (libllama.v0.5.0.so). */
static void *library_open(const char *dir, const char *prefix)
{
	struct dirent *e;
	char path[4096];
	void *lib = NULL;
	DIR *d;

	d = opendir(dir);
	if (!d) {
		run_fail("%s: %s", dir, strerror(errno));
		return NULL;
	}
	while (!lib && (e = readdir(d))) {
		if (strncmp(e->d_name, prefix, strlen(prefix)) || !strstr(e->d_name, ".so"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
		if (!lib) {
			run_fail("%s", dlerror());
			goto out;
		}
	}
	if (!lib)
		run_fail("%s: no %s*.so in there; give the folder of a llama.cpp build", dir,
			prefix);
out:
	closedir(d);
	return lib;
}

/* ret_lib: a handle that finds everything of ggml. */
static int api_load(struct api *api, const char *dir, void **ret_lib)
{
	void *ggml, *llama;

	ggml = library_open(dir, "libggml.");
	llama = ggml ? library_open(dir, "libllama.") : NULL;
	if (!llama)
		return -1;
#define LOAD(lib, ret, name, params)              \
	*(void **)&api->name = dlsym(lib, #name); \
	if (!api->name)                           \
		return run_fail("%s: no %s; this driver knows release v0.5.0", dir, #name);
	API_FUNCTIONS(LOAD)
#undef LOAD
	*ret_lib = llama;
	return 0;
}

/* The CPU backend that ggml picked for this machine; false: none. */
static bool cpu_backend_path(char path[4096])
{
	char line[4096];
	bool found = false;
	FILE *maps;

	maps = fopen("/proc/self/maps", "re");
	if (!maps)
		return false;
	while (!found && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "/libggml-cpu"))
			continue;
		strcpy(path, strchr(line, '/'));
		path[strcspn(path, "\n")] = '\0';
		found = true;
	}
	fclose(maps);
	return found;
}

static int threadpool_attach(struct llama *l, const struct run_options *o)
{
	struct threadpool_params params = l->api.ggml_threadpool_params_default(o->threads);
	void *(*threadpool_new)(struct threadpool_params *);
	char path[4096];
	void *cpu, *pool;

	cpu = cpu_backend_path(path) ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
	if (!cpu)
		return run_fail("%s: no libggml-cpu*.so was loaded from there", o->args[0]);
	*(void **)&threadpool_new = dlsym(cpu, "ggml_threadpool_new");
	if (!threadpool_new)
		return run_fail("%s: no ggml_threadpool_new in its CPU backend", o->args[0]);
	params.poll = (uint32_t)o->poll;
	pool = threadpool_new(&params);
	if (!pool)
		return run_fail("cannot make a pool of %d threads", o->threads);
	l->api.llama_attach_threadpool(l->ctx, pool, NULL);
	return 0;
}

static void sampler_init(struct llama *l, uint32_t seed)
{
	struct api *a = &l->api;

	l->sampler = a->llama_sampler_chain_init(a->llama_sampler_chain_default_params());
	a->llama_sampler_chain_add(l->sampler, a->llama_sampler_init_top_k(40));
	a->llama_sampler_chain_add(l->sampler, a->llama_sampler_init_temp(0.8f));
	a->llama_sampler_chain_add(l->sampler, a->llama_sampler_init_dist(seed));
}

static int model_load(struct llama *l, const char *path, int gpu_layers)
{
	struct model_params mp = l->api.llama_model_default_params();

	mp.n_gpu_layers = gpu_layers;
	l->model = l->api.llama_model_load_from_file(path, mp);
	if (!l->model)
		return run_fail("%s: llama.cpp cannot load this model", path);
	l->vocab = l->api.llama_model_get_vocab(l->model);
	return 0;
}

/* ggml_backend_sched_eval_callback: first for each node with ask, until it wants one. */
static bool on_node(void *tensor, bool ask, void *data)
{
	struct llama *l = data;

	(void)tensor;
	return ask ? l->hook->node(l->node++, true) : l->hook->node(l->node - 1, false);
}

static int context_init(struct llama *l, int threads)
{
	struct context_params cp = l->api.llama_context_default_params();

	cp.n_ctx = RUN_CONTEXT_TOKENS;
	cp.n_batch = RUN_PROMPT_TOKENS;
	cp.n_ubatch = 256;
	cp.n_threads = cp.n_threads_batch = threads;
	if (l->nodes) {
		cp.cb_eval = (void *)node_log_eval;
		cp.cb_eval_ud = l->nodes;
	} else if (l->hook && l->hook->node) {
		cp.cb_eval = (void *)on_node;
		cp.cb_eval_ud = l;
	}
	l->ctx = l->api.llama_init_from_model(l->model, cp);
	if (!l->ctx)
		return run_fail("llama.cpp cannot make a context for this model");
	return 0;
}

static void *driver_open(const struct run_options *o)
{
	const char *dir = o->args[0], *path = o->args[1];
	static struct llama l;
	char desc[128] = "";
	void *lib = NULL;

	if (api_load(&l.api, dir, &lib))
		return NULL;
	if (o->nodes_path && node_log_open(o->nodes_path, lib, &l.nodes))
		return NULL;
	l.hook = o->hook;
	l.api.llama_log_set(on_log, NULL);
	l.api.ggml_backend_load_all_from_path(dir);
	l.api.llama_backend_init();
	if (model_load(&l, path, o->gpu_layers) || context_init(&l, o->threads))
		return NULL;
	if (o->poll >= 0 && threadpool_attach(&l, o))
		return NULL;
	sampler_init(&l, o->seed);
	l.api.llama_model_desc(l.model, desc, sizeof(desc));
	printf("pid %d: %s, %d threads\n", getpid(), desc, o->threads);
	fflush(stdout);
	return &l;
}

static int driver_tokenize(void *engine, const char *text, int32_t *tokens, int max)
{
	struct llama *l = engine;

	return l->api.llama_tokenize(
		l->vocab, text, (int32_t)strlen(text), tokens, max, true, true);
}

static void driver_clear(void *engine)
{
	struct llama *l = engine;

	l->api.llama_memory_clear(l->api.llama_get_memory(l->ctx), true);
}

static int driver_decode(void *engine, int32_t *tokens, int32_t n)
{
	struct llama *l = engine;

	if (l->nodes)
		node_log_step(l->nodes, l->steps++);
	l->node = 0;
	return l->api.llama_decode(l->ctx, l->api.llama_batch_get_one(tokens, n));
}

static int32_t driver_sample(void *engine)
{
	struct llama *l = engine;

	return l->api.llama_sampler_sample(l->sampler, l->ctx, -1);
}

static int driver_piece(void *engine, int32_t token, char *buf, size_t size)
{
	struct llama *l = engine;

	return l->api.llama_token_to_piece(l->vocab, token, buf, (int32_t)size, 0, true);
}

/* Which build of its CPU backend ggml chose. */
static const char *driver_extra(void *engine)
{
	static char text[320];
	char path[4096] = "";

	(void)engine;
	cpu_backend_path(path);
	snprintf(text, sizeof(text), ",\"cpu_backend\":\"%.256s\"", basename(path));
	return text;
}

static int driver_finish(void *engine)
{
	struct llama *l = engine;

	return l->nodes ? node_log_close(l->nodes) : 0;
}

static const struct engine_ops driver_ops = {
	.name = "llama.cpp",
	.args = "LIBDIR MODEL.gguf",
	.n_args = 2,
	.open = driver_open,
	.tokenize = driver_tokenize,
	.clear = driver_clear,
	.decode = driver_decode,
	.sample = driver_sample,
	.piece = driver_piece,
	.extra = driver_extra,
	.finish = driver_finish,
};

int main(int argc, char **argv)
{
	return run_main(argc, argv, &driver_ops);
}
