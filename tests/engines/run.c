// SPDX-License-Identifier: BSD-2-Clause
#include "../program.h"

#include "run.h"

#include "counts.h"
#include "hook.h"

#include <getopt.h>

struct run {
	const struct engine_ops *ops;
	struct run_options o;
	struct counts c;
	int32_t prompt[RUN_PROMPT_TOKENS];
	int n_prompt;
};

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

int run_fail(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return -1;
}

static void usage(const struct engine_ops *ops)
{
	printf("Usage: %s [OPTIONS] %s\n"
	       "Generate tokens; the last line printed is JSON: the counts and times of the run.\n\n"
	       "  -n TOKENS    tokens to generate and decode after each prompt (128)\n"
	       "  -r ROUNDS    prompts, one after the other; 0: until SIGINT or SIGTERM (1)\n"
	       "  -t THREADS   (2)\n"
	       "  -P POLL      one thread pool for the whole run with this polling level, 0..100;\n"
	       "               default: new threads for every graph; llama.cpp only\n"
	       "  -g LAYERS    of the model on the GPU, where the build has one (0); llama.cpp only\n"
	       "  -p PROMPT    text of the prompt\n"
	       "  -b TOKENS    stretch the prompt to TOKENS tokens, at most %d\n"
	       "  -s SEED      of the sampler (1)\n"
	       "  -S FILE      write every stage (load, decode, sample) to FILE, a JSON line each\n"
	       "  -d MS        pause before the first prompt: time for a tracer to find the libraries\n"
	       "  -i MS        pause behind each token, for those who need an engine that runs and not its speed\n"
	       "  -N FILE      write the nodes of every graph to FILE, a JSON line each;\n"
	       "               llama.cpp only\n"
	       "  -H LIB.so    a library to be called around each step (hook.h); with llama.cpp\n"
	       "               also within\n"
	       "  -w           once ready, print \"ready\" and begin at the next line of input\n"
	       "  -W           with a thread that only waits, as servers have\n"
	       "  -q           do not print the generated text\n",
		program_invocation_short_name, ops->args, RUN_PROMPT_TOKENS);
}

static int number_parse(int opt, const char *text, long min, long max, int *ret_value)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (errno || *end || end == text || v < min || v > max)
		return run_fail("-%c %s: give a number from %ld to %ld", opt, text, min, max);
	*ret_value = (int)v;
	return 0;
}

static int option_parse(int opt, struct run_options *o)
{
	const struct {
		char opt;
		int min, max, *value;
	} numbers[] = {
		{ 'n', 0, RUN_CONTEXT_TOKENS, &o->tokens },
		{ 't', 1, 512, &o->threads },
		{ 'g', 0, 1000, &o->gpu_layers },
		{ 'b', 1, RUN_PROMPT_TOKENS, &o->prompt_tokens },
		{ 'r', 0, 1000000, &o->rounds },
		{ 'd', 0, 60000, &o->delay_ms },
		{ 'i', 0, 60000, &o->token_ms },
		{ 'P', 0, 100, &o->poll },
		{ 's', 1, INT32_MAX, &o->seed },
	};
	const char **texts[128] = { ['p'] = &o->prompt, ['S'] = &o->stages_path, ['N'] = &o->nodes_path, ['H'] = &o->hook_path };
	bool *flags[128] = { ['w'] = &o->wait, ['W'] = &o->waiter, ['q'] = &o->quiet };

	for (size_t i = 0; i < LENGTH(numbers); i++) {
		if (numbers[i].opt == opt)
			return number_parse(opt, optarg, numbers[i].min, numbers[i].max, numbers[i].value);
	}
	if (texts[opt])
		*texts[opt] = optarg;
	else if (flags[opt])
		*flags[opt] = true;
	else
		return -1; /* getopt has said why */
	return 0;
}

static int options_parse(int argc, char **argv, const struct engine_ops *ops, struct run_options *o)
{
	int opt;

	*o = (struct run_options){
		.tokens = 128,
		.threads = 2,
		.rounds = 1,
		.poll = -1,
		.seed = 1,
		.prompt = "the kernel probe can trace each token of the model",
	};
	while ((opt = getopt(argc, argv, "n:t:g:p:b:r:s:d:i:P:S:N:H:wWqh")) != -1) {
		if (opt == 'h') {
			usage(ops);
			exit(0);
		}
		if (option_parse(opt, o))
			return -1;
	}
	if (o->nodes_path && o->hook_path)
		return run_fail("-N and -H exclude each other: llama.cpp has one callback");
	if (argc - optind != ops->n_args)
		return run_fail("wrong arguments: %s [OPTIONS] %s; -h explains", program_invocation_short_name, ops->args);
	o->args = argv + optind;
	return 0;
}

static void *waits(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static int hook_load(struct run_options *o)
{
	void *lib = dlopen(o->hook_path, RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		return run_fail("%s", dlerror());
	o->hook = dlsym(lib, "engine_hook");
	return o->hook ? 0 : run_fail("%s: no engine_hook (hook.h) in it", o->hook_path);
}

static int prompt_init(struct run *r)
{
	int n;

	n = r->ops->tokenize(r->o.prompt, r->prompt, RUN_PROMPT_TOKENS);
	if (n <= 0)
		return run_fail("cannot use this prompt: it must have 1 to %d tokens", RUN_PROMPT_TOKENS);
	for (; n < r->o.prompt_tokens; n++)
		r->prompt[n] = r->prompt[n > 7 ? n - 7 : n - 1];
	r->n_prompt = n;
	return 0;
}

static int decode(struct run *r, int32_t *tokens, int32_t n)
{
	const struct engine_hook *hook = r->o.hook;
	unsigned int step = (unsigned int)r->c.n_steps;
	int err;

	counts_step_begin(&r->c, n);
	if (hook && hook->step_begin)
		hook->step_begin(step, n);
	err = r->ops->decode(tokens, n);
	if (hook && hook->step_end)
		hook->step_end(step);
	counts_step_end(&r->c);
	return err ? run_fail("decoding %d tokens failed: %d", n, err) : 0;
}

static int32_t sample(struct run *r)
{
	uint64_t start = clock_ns(CLOCK_BOOTTIME);
	int32_t token = r->ops->sample();

	counts_stage(&r->c, "sample", start);
	r->c.generated++;
	return token;
}

static void token_print(const struct run *r, int32_t token)
{
	char piece[64];
	int n = r->ops->piece(token, piece, sizeof(piece));

	if (n > 0)
		fwrite(piece, 1, (size_t)n, stdout);
}

/* One prompt: a step of all its tokens, then one step per generated token. */
static int prompt_run(struct run *r)
{
	bool print = !r->o.quiet && r->c.prompts == 0;
	int32_t token;
	int i;

	r->ops->clear();
	if (decode(r, r->prompt, r->n_prompt))
		return -1;
	r->c.prompts++;
	r->c.prompt_tokens += (uint64_t)r->n_prompt;
	for (i = 0; i < r->o.tokens && r->n_prompt + i < RUN_CONTEXT_TOKENS && !stopped; i++) {
		token = sample(r);
		if (print)
			token_print(r, token);
		if (decode(r, &token, 1))
			return -1;
		if (r->o.token_ms)
			usleep((useconds_t)r->o.token_ms * 1000);
	}
	if (print)
		putchar('\n');
	return 0;
}

static int run(struct run *r)
{
	uint64_t start = clock_ns(CLOCK_BOOTTIME);
	const struct engine_hook *hook;
	int i, err = 0;

	if (r->o.hook_path && hook_load(&r->o))
		return -1;
	hook = r->o.hook;
	if (r->ops->open(&r->o))
		return -1;
	r->c.load_ns = counts_stage(&r->c, "load", start);
	if (prompt_init(r) || (hook && hook->init && hook->init()))
		return -1;
	usleep((useconds_t)r->o.delay_ms * 1000);
	if (r->o.waiter)
		thread_start(waits, NULL);
	if (r->o.wait)
		line_wait();
	for (i = 0; (!r->o.rounds || i < r->o.rounds) && !stopped; i++) {
		if (prompt_run(r))
			return -1;
	}
	counts_print(&r->c, r->ops->name, r->o.threads, r->ops->extra ? r->ops->extra() : NULL);
	if (hook && hook->finish)
		err = hook->finish();
	if (r->ops->finish)
		err |= r->ops->finish();
	return err;
}

int run_main(int argc, char **argv, const struct engine_ops *ops)
{
	struct sigaction sa = { .sa_handler = on_signal };
	static struct run r;
	int err;

	r.ops = ops;
	if (options_parse(argc, argv, ops, &r.o))
		return 2;
	err = counts_init(&r.c, r.o.stages_path);
	if (err) {
		run_fail("%s: %s", r.o.stages_path, strerror(-err));
		return 1;
	}
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	err = run(&r);
	counts_fini(&r.c);
	fflush(stdout);
	/* as servers do: what is known of the GPU is handed over then */
	if (r.o.gpu_layers)
		exit(err ? 1 : 0);
	/* The engine is not torn down: its threads may be asleep in a pool, and nothing that
	 * follows matters to a trace. */
	_exit(err ? 1 : 0);
}
