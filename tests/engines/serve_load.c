// SPDX-License-Identifier: BSD-2-Clause
#include "serve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N_SYSTEM 24 /* tokens that many prompts begin with */
#define N_WORDS 300 /* tokens that prompts are made of */

static struct serve_options opt;
static uint64_t state;
static int n_made;

static uint64_t random_next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1dull;
}

int draw(int from, int to)
{
	return from + (int)((random_next() >> 33) % (uint64_t)(to - from + 1));
}

bool chance(int percent)
{
	return draw(1, 100) <= percent;
}

void load_init(const struct serve_options *o)
{
	opt = *o;
	state = o->seed * 0x9e3779b97f4a7c15ull + 1;
}

void request_free(struct request *r)
{
	free(r->prompt);
	free(r);
}

static void prompt_add(struct request *r, const int32_t *tokens, int n)
{
	int room = opt.context - r->n_outputs - r->n_prompt - 8;

	n = n < room ? n : room;
	if (n <= 0)
		return;
	memcpy(&r->prompt[r->n_prompt], tokens, (size_t)n * sizeof(*tokens));
	r->n_prompt += n;
}

static void prompt_add_new(struct request *r, int n)
{
	for (int32_t token; n > 0; n--) {
		token = draw(260, 260 + N_WORDS);
		prompt_add(r, &token, 1);
	}
}

static void prompt_make(struct request *r, const struct slot *slots)
{
	const struct slot *s = &slots[draw(0, opt.slots - 1)];
	/* most are short */
	int n = chance(70) ? draw(1, 1 + opt.prompt / 4) : draw(1, opt.prompt), kind = draw(1, 100);

	for (int i = 0; i < opt.slots && s->request; i++)
		s = &slots[i]; /* one that is free, if any */
	if (opt.long_every && r->id % opt.long_every == opt.long_every - 1) {
		prompt_add_new(r, opt.long_prompt);
	} else if (kind <= 20 && s->n_tokens && s->answered && s->n_tokens + n + opt.outputs + 16 < opt.context) {
		/* the next turn of a chat: all so far, the last token, and the user's answer */
		prompt_add(r, s->tokens, s->n_tokens);
		prompt_add(r, &s->sampled, 1);
		prompt_add_new(r, n + 1);
	} else if (kind <= 30 && s->last_prompt > 1 && s->last_prompt <= s->n_tokens) {
		/* the same prompt once more */
		prompt_add(r, s->tokens, s->last_prompt);
	} else if (kind <= 65) {
		for (int32_t token = 3; token < 3 + N_SYSTEM; token++)
			prompt_add(r, &token, 1);
		prompt_add_new(r, n);
	} else {
		prompt_add_new(r, n);
	}
}

double load_interval(void)
{
	if (n_made == opt.requests)
		return -1;
	return -log(1 - draw(0, 999999) / 1e6) * opt.between;
}

struct request *load_request(const struct slot *slots)
{
	struct request *r = calloc(1, sizeof(*r));

	r->id = n_made++;
	r->prompt = malloc((size_t)opt.context * sizeof(*r->prompt));
	r->n_outputs = draw(1, opt.outputs);
	r->first_step = r->last_step = -1;
	prompt_make(r, slots);
	if (opt.long_every && r->id % opt.long_every == opt.long_every - 1)
		r->n_outputs = 2;
	else if (chance(opt.cancels))
		r->cancel_after = draw(1, 6);
	r->drafts = chance(opt.drafts);
	r->clears = chance(5);
	return r;
}

struct request *load_asked(int prompt, int outputs)
{
	struct request *r = calloc(1, sizeof(*r));

	r->id = n_made++;
	r->prompt = malloc((size_t)opt.context * sizeof(*r->prompt));
	r->n_outputs = outputs < opt.context / 2 ? outputs : opt.context / 2;
	r->first_step = r->last_step = -1;
	prompt_add_new(r, prompt);
	return r;
}

/*
 * As in llama.cpp's server: the common prefix, but at least one token is decoded, since its output is needed. One
 * less in two cases, in which the rows alone could not show that it is another request: it would continue one
 * that ended without an output, or look like the next token of one that had some.
 */
int slot_cached(const struct slot *s, const struct request *r)
{
	int n = 0;

	while (n < s->n_tokens && n < r->n_prompt && s->tokens[n] == r->prompt[n])
		n++;
	if (n == r->n_prompt)
		n--;
	if (n && n == s->n_tokens && (!s->answered || n == r->n_prompt - 1))
		n--;
	return n;
}
