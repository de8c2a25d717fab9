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

static struct llama_context *ctx;
static struct llama_sampler *sampler;

static int mini_open(const struct run_options *o)
{
	if (o->poll >= 0)
		return run_fail("-P: the bundled engine has no thread pool");
	ctx = mini_context_new(RUN_CONTEXT_TOKENS, RUN_PROMPT_TOKENS, o->threads);
	sampler = mini_sampler_new((uint32_t)o->seed);
	if (!ctx || !sampler)
		return run_fail("out of memory");
	printf("pid %d: bundled engine, %d threads\n", getpid(), o->threads);
	fflush(stdout);
	return 0;
}

static int mini_tokenize(const char *text, int32_t *tokens, int max)
{
	int n = 0;

	for (; *text; text++) {
		if (n == max)
			return -1;
		tokens[n++] = *text >= ' ' && *text <= '~' ? *text - ' ' : MINI_VOCAB - 1;
	}
	return n;
}

static void mini_clear(void)
{
	llama_memory_clear(ctx, true);
}

static int mini_decode(int32_t *tokens, int32_t n)
{
	return llama_decode(ctx, llama_batch_get_one(tokens, n));
}

static int32_t mini_sample(void)
{
	return llama_sampler_sample(sampler, ctx, -1);
}

static int mini_piece(int32_t token, char *buf, size_t size)
{
	if (!size)
		return 0;
	buf[0] = token == MINI_VOCAB - 1 ? '\n' : (char)(' ' + token);
	return 1;
}

static const char *mini_extra(void)
{
	static char extra[96];
	uint64_t ops, barriers;

	mini_context_counts(ctx, &ops, &barriers);
	snprintf(extra, sizeof(extra), ",\"ops\":%" PRIu64 ",\"barriers\":%" PRIu64, ops, barriers);
	return extra;
}

int main(int argc, char **argv)
{
	static const struct engine_ops ops = { .name = "mini", .args = "", .open = mini_open, .tokenize = mini_tokenize,
		.clear = mini_clear, .decode = mini_decode, .sample = mini_sample, .piece = mini_piece, .extra = mini_extra };

	return run_main(argc, argv, &ops);
}
