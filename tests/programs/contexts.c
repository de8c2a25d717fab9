// SPDX-License-Identifier: BSD-2-Clause
/*
 * Several contexts at once, each with its own requests: a prompt in parts, then tokens. Prints what it
 * did for each request, with the times right before, within and right after each call of the step
 * function.
 *
 *	contexts CONTEXTS REQUESTS TOKENS keep|hop	hop: each call is made by another thread
 */
#include "../program.h"

#include "section.h"

#define CONTEXTS_MAX 16
#define PART 64       /* prompt tokens per step */
#define STEPS_MAX 256 /* per request */

struct step {
	int n_tokens;
	uint64_t before, first, last, after;
};

struct context {
	int id;
	pthread_t thread;
	unsigned int seed;
	struct step *step; /* the current one */
	struct step steps[STEPS_MAX];
	int n_steps;
};

static struct context contexts[CONTEXTS_MAX];
static int requests, tokens;
static bool hop;

void decode(struct context *c, int n_tokens);

__attribute__((noipa)) void decode(struct context *c, int n_tokens)
{
	uint64_t ns = 100000 + (uint64_t)rand_r(&c->seed) % 2000000;

	(void)n_tokens;
	c->step->first = clock_ns(CLOCK_BOOTTIME);
	sleep_for(ns);
	c->step->last = clock_ns(CLOCK_BOOTTIME);
}

static void *call_run(void *arg)
{
	struct context *c = arg;

	c->step->before = clock_ns(CLOCK_BOOTTIME);
	decode(c, c->step->n_tokens);
	c->step->after = clock_ns(CLOCK_BOOTTIME);
	return NULL;
}

static void call(struct context *c, int n_tokens)
{
	c->step = &c->steps[c->n_steps++];
	c->step->n_tokens = n_tokens;
	if (hop)
		pthread_join(thread_start(call_run, c), NULL);
	else
		call_run(c);
}

static void print_request(const struct context *c, int request)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	printf("{\"context\": %llu, \"request\": %d, \"steps\": [",
		(unsigned long long)(uintptr_t)c, request);
	for (int i = 0; i < c->n_steps; i++) {
		const struct step *s = &c->steps[i];

		printf("%s[%d, %llu, %llu, %llu, %llu]", i ? ", " : "", s->n_tokens,
			(unsigned long long)s->before, (unsigned long long)s->first,
			(unsigned long long)s->last, (unsigned long long)s->after);
	}
	printf("]}\n");
	pthread_mutex_unlock(&lock);
}

static void *context_run(void *arg)
{
	struct context *c = arg;

	for (int i = 0; i < requests; i++) {
		int prompt = 2 + rand_r(&c->seed) % (4 * PART), output = rand_r(&c->seed) % tokens;

		c->n_steps = 0;
		/* a last part of one token would look like a decode to a reader that only knows the number */
		for (prompt += prompt % PART == 1; prompt > 0; prompt -= PART)
			call(c, prompt < PART ? prompt : PART);
		for (int k = 0; k < 1 + output; k++)
			call(c, 1);
		print_request(c, i);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int n = argc == 5 ? atoi(argv[1]) : 0;

	if (n < 1 || n > CONTEXTS_MAX || atoi(argv[3]) < 1 || atoi(argv[3]) > STEPS_MAX - 8)
		return 2;
	requests = atoi(argv[2]);
	tokens = atoi(argv[3]);
	hop = !strcmp(argv[4], "hop");
	line_wait();
	for (int i = 0; i < n; i++) {
		contexts[i].id = i;
		contexts[i].seed = (unsigned int)i + 1;
		contexts[i].thread = thread_start(context_run, &contexts[i]);
	}
	for (int i = 0; i < n; i++)
		pthread_join(contexts[i].thread, NULL);
	return 0;
}
