// SPDX-License-Identifier: BSD-2-Clause
/*
 * Generates tokens with the bundled engine (mini/): the same calls under the same names as in
 * llama.cpp, for machines that cannot fetch a build of it.
 */
#include "run.h"

#include "mini/llama.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

struct mini {
	struct llama_context *ctx;
	struct llama_sampler *sampler;
	char extra[96];
};

static void *mini_open(const struct run_options *o)
{
	static struct mini m;

	if (o->poll >= 0) {
		run_fail("-P: the bundled engine has no thread pool");
		return NULL;
	}
	m.ctx = mini_context_new(RUN_CONTEXT_TOKENS, RUN_PROMPT_TOKENS, o->threads);
	m.sampler = mini_sampler_new(o->seed);
	if (!m.ctx || !m.sampler) {
		run_fail("out of memory");
		return NULL;
	}
	printf("pid %d: bundled engine, %d threads\n", getpid(), o->threads);
	fflush(stdout);
	return &m;
}

static int mini_tokenize(void *engine, const char *text, int32_t *tokens, int max)
{
	int n = 0;

	(void)engine;
	for (; *text; text++) {
		if (n == max)
			return -1;
		tokens[n++] = *text >= ' ' && *text <= '~' ? *text - ' ' : MINI_VOCAB - 1;
	}
	return n;
}

static void mini_clear(void *engine)
{
	struct mini *m = engine;

	llama_memory_clear(m->ctx, true);
}

static int mini_decode(void *engine, int32_t *tokens, int32_t n)
{
	struct mini *m = engine;

	return llama_decode(m->ctx, llama_batch_get_one(tokens, n));
}

static int32_t mini_sample(void *engine)
{
	struct mini *m = engine;

	return llama_sampler_sample(m->sampler, m->ctx, -1);
}

static int mini_piece(void *engine, int32_t token, char *buf, size_t size)
{
	(void)engine;
	if (!size)
		return 0;
	buf[0] = token == MINI_VOCAB - 1 ? '\n' : (char)(' ' + token);
	return 1;
}

static const char *mini_extra(void *engine)
{
	struct mini *m = engine;
	uint64_t ops, barriers;

	mini_context_counts(m->ctx, &ops, &barriers);
	snprintf(m->extra, sizeof(m->extra), ",\"ops\":%" PRIu64 ",\"barriers\":%" PRIu64, ops,
		barriers);
	return m->extra;
}

static const struct engine_ops mini_ops = {
	.name = "mini",
	.args = "",
	.n_args = 0,
	.open = mini_open,
	.tokenize = mini_tokenize,
	.clear = mini_clear,
	.decode = mini_decode,
	.sample = mini_sample,
	.piece = mini_piece,
	.extra = mini_extra,
};

int main(int argc, char **argv)
{
	return run_main(argc, argv, &mini_ops);
}
