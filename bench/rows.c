// SPDX-License-Identifier: BSD-2-Clause
/*
 * Steps that do nothing, with the rows of a batch as llama.cpp passes them.
 *
 *   rows ROWS SEQUENCES [structs]   says "ready"; for each line with a number on stdin, it makes so many steps and prints
 *                            their nanoseconds, of wall and of CPU time. structs: by llama_process(), whose rows are structures
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tests/engines/batch_ext.h"

struct batch {
	int32_t n_tokens;
	int32_t *token;
	float *embd;
	int32_t *pos, *n_seq_id;
	int32_t **seq_id;
	int8_t *logits;
};

int llama_decode(void *ctx, struct batch b);
int llama_process(void *ctx, int type, struct llama_batch_ext *b);

__attribute__((noipa)) int llama_process(void *ctx, int type, struct llama_batch_ext *b)
{
	__asm__ volatile("" ::"r"(ctx), "r"(type), "r"(b) : "memory");
	return 0;
}

__attribute__((noipa)) int llama_decode(void *ctx, struct batch b)
{
	__asm__ volatile("" ::"r"(ctx), "m"(b) : "memory");
	return 0;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	size_t n = argc > 2 ? (size_t)atoi(argv[1]) : 0, sequences = argc > 2 ? (size_t)atoi(argv[2]) : 0;
	struct batch b = { .n_tokens = (int32_t)n, .pos = calloc(n, 4), .n_seq_id = calloc(n, 4),
		.seq_id = calloc(n, sizeof(*b.seq_id)), .logits = calloc(n, 1) };
	bool structs = argc > 3 && !strcmp(argv[3], "structs");
	struct ext_token *tokens = calloc(n, sizeof(*tokens));
	struct llama_batch_ext ext = { .begin = tokens, .end = tokens + n };
	uint64_t wall, cpu;
	long steps;

	if (!n || !sequences || sequences > n || !b.pos || !b.n_seq_id || !b.seq_id || !b.logits || !tokens)
		return 2;
	for (size_t i = 0; i < n; i++) {
		b.pos[i] = (int32_t)i;
		b.n_seq_id[i] = 1;
		b.seq_id[i] = malloc(sizeof(**b.seq_id));
		if (!b.seq_id[i])
			return 1;
		*b.seq_id[i] = (int32_t)(i * sequences / n);
		b.logits[i] = sequences > 1 || i == n - 1;
		tokens[i] = (struct ext_token){ .output = b.logits[i], .n_sequences = 1, .pos = { (int32_t)i },
			.first = calloc(1, sizeof(struct ext_node)) };
		if (!tokens[i].first)
			return 1;
		tokens[i].first->sequence = *b.seq_id[i];
	}
	puts("ready");
	fflush(stdout);
	while (scanf("%ld", &steps) == 1) {
		wall = clock_ns(CLOCK_MONOTONIC);
		cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		while (steps--)
			structs ? llama_process(&b, 1, &ext) : llama_decode(&b, b);
		printf("%llu %llu\n", (unsigned long long)(clock_ns(CLOCK_MONOTONIC) - wall),
			(unsigned long long)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu));
		fflush(stdout);
	}
	return 0;
}
