/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process reveals about the model that it serves. All of it is hostile. */
#ifndef INFTRACE_MODEL_H
#define INFTRACE_MODEL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MODEL_NAME_MAX 257 /* with the NUL */

struct json_object;
struct process_text;

/*
 * The name, without its directory, of the .gguf file of which it has mapped the most, else of one that
 * it has open. -ENOENT, -ESRCH, -EACCES.
 */
int model_of_files(pid_t pid, char name[MODEL_NAME_MAX]);

/* The model that its command line names, by --model or the like, or as in `vllm serve NAME`. -ENOENT. */
int model_of_cmdline(const struct process_text *cmdline, char name[MODEL_NAME_MAX]);

/* The number of sequences at a time that --parallel or the like allows; 0: none says it. */
uint32_t model_concurrency(const struct process_text *cmdline);

/*
 * Adds the options on its command line as "--name": "value", or true for those without a value. Only
 * settings: numbers, words and file names; for short options only numbers, since the word after one may be
 * a prompt. No secrets. -ENOMEM.
 */
int model_add_options(const struct process_text *cmdline, struct json_object *obj);

#endif
