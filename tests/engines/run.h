/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The main program that the test engines share: options, prompts, generation, counts.
 */
#ifndef TEST_RUN_H
#define TEST_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine_hook;

#define RUN_CONTEXT_TOKENS 2048
#define RUN_PROMPT_TOKENS 1024

struct run_options {
	const char *prompt, *stages_path, *nodes_path, *hook_path;
	const struct engine_hook *hook; /* NULL: none */
	int tokens, threads, prompt_tokens, rounds;
	int gpu_layers, seed;
	int delay_ms; /* between loading and the first prompt */
	int token_ms; /* behind each token */
	int poll;     /* -1: no thread pool of the caller's */
	bool quiet, wait, waiter;
	char **args; /* what follows the options */
};

struct engine_ops {
	const char *name;
	const char *args; /* for the usage */
	int n_args;
	/* Makes it ready to decode; 0, or it has said why (run_fail). */
	int (*open)(const struct run_options *o);
	/* Writes at most max tokens; returns their number, <= 0 when there is no such text. */
	int (*tokenize)(const char *text, int32_t *tokens, int max);
	void (*clear)(void);                       /* forget the context */
	int (*decode)(int32_t *tokens, int32_t n); /* 0, or an error code */
	int32_t (*sample)(void);
	/* The text of a token, not terminated; returns its length. */
	int (*piece)(int32_t token, char *buf, size_t size);
	/* NULL, or further members for the line of counts: JSON that starts with a comma. */
	const char *(*extra)(void);
	int (*finish)(void); /* NULL, or what remains to be written; 0, or it has said why */
};

/* Says on stderr what went wrong; returns -1. */
int run_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The whole program; the exit code is 0, 1 (failed) or 2 (usage). */
int run_main(int argc, char **argv, const struct engine_ops *ops);

#endif
