/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process says about the model that it serves without being asked. All of it is hostile. */
#ifndef INFTRACE_MODEL_H
#define INFTRACE_MODEL_H

#include <stddef.h>
#include <sys/types.h>

#define MODEL_NAME_MAX 257 /* with the NUL */

struct json_object;
struct process_text;

/*
 * The name, without its directory, of the .gguf file that it has mapped the most of, else of one that it
 * has open. -ENOENT, -ESRCH, -EACCES.
 */
int model_of_files(pid_t pid, char name[MODEL_NAME_MAX]);

/* What --model and the like on its command line name. -ENOENT. */
int model_of_cmdline(const struct process_text *cmdline, char name[MODEL_NAME_MAX]);

/*
 * Adds the options on its command line as "--name": "value", or true for those without a value; only
 * settings: numbers, words and names of files, and of short options only numbers, since the word behind one
 * may be a prompt. No secrets. -ENOMEM.
 */
int model_add_options(const struct process_text *cmdline, struct json_object *obj);

#endif
