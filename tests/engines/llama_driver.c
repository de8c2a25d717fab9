// SPDX-License-Identifier: BSD-2-Clause
/*
 * Generates tokens with a real llama.cpp build through its C API, loaded with dlopen, and
 * prints what it knows about the run as its last line (counts.h).
 */
#include "../program.h"

#include "hook.h"
#include "llama_load.h"
#include "nodes.h"
#include "run.h"

static void *ctx, *sampler;
static const void *vocab;
static struct node_log *nodes;
static const struct engine_hook *hook;
static unsigned int steps, node; /* node: that the hook's callback is called for next */

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

static int threadpool_attach(const struct run_options *o)
{
	struct threadpool_params params = ggml_threadpool_params_default(o->threads);
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
	llama_attach_threadpool(ctx, pool, NULL);
	return 0;
}

/* ggml_backend_sched_eval_callback: of a hook first for each node with ask, until it wants one. */
static bool on_node(void *tensor, bool ask, void *data)
{
	(void)data;
	if (nodes)
		return node_log_eval(tensor, ask, nodes);
	return ask ? hook->node(node++, true) : hook->node(node - 1, false);
}

static int driver_open(const struct run_options *o)
{
	char desc[128] = "";

	hook = o->hook;
	ctx = llama_open(&(struct llama_setup){ .dir = o->args[0], .model = o->args[1], .n_ctx = RUN_CONTEXT_TOKENS,
		.n_batch = RUN_PROMPT_TOKENS, .n_ubatch = 256, .n_threads = o->threads, .gpu_layers = o->gpu_layers,
		.on_node = o->nodes_path || (hook && hook->node) ? on_node : NULL });
	if (o->nodes_path && node_log_open(o->nodes_path, &nodes))
		return -1;
	if (o->poll >= 0 && threadpool_attach(o))
		return -1;
	sampler = llama_open_sampler((uint32_t)o->seed);
	vocab = llama_model_get_vocab(llama_get_model(ctx));
	llama_model_desc(llama_get_model(ctx), desc, sizeof(desc));
	printf("pid %d: %s, %d threads\n", getpid(), desc, o->threads);
	fflush(stdout);
	return 0;
}

static int driver_tokenize(const char *text, int32_t *tokens, int max)
{
	return llama_tokenize(vocab, text, (int32_t)strlen(text), tokens, max, true, true);
}

static void driver_clear(void)
{
	llama_memory_clear(llama_get_memory(ctx), true);
}

static int driver_decode(int32_t *tokens, int32_t n)
{
	if (nodes)
		node_log_step(nodes, steps++);
	node = 0;
	return llama_decode(ctx, llama_batch_get_one(tokens, n));
}

static int32_t driver_sample(void)
{
	return llama_sampler_sample(sampler, ctx, -1);
}

static int driver_piece(int32_t token, char *buf, size_t size)
{
	return llama_token_to_piece(vocab, token, buf, (int32_t)size, 0, true);
}

/* Which build of its CPU backend ggml chose. */
static const char *driver_extra(void)
{
	static char text[320];
	char path[4096] = "";

	cpu_backend_path(path);
	snprintf(text, sizeof(text), ",\"cpu_backend\":\"%.256s\"", basename(path));
	return text;
}

static int driver_finish(void)
{
	return nodes ? node_log_close(nodes) : 0;
}

int main(int argc, char **argv)
{
	static const struct engine_ops ops = { .name = "llama.cpp", .args = "LIBDIR MODEL.gguf", .n_args = 2,
		.open = driver_open, .tokenize = driver_tokenize, .clear = driver_clear, .decode = driver_decode,
		.sample = driver_sample, .piece = driver_piece, .extra = driver_extra, .finish = driver_finish };

	return run_main(argc, argv, &ops);
}
