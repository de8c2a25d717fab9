/* SPDX-License-Identifier: BSD-2-Clause */
/* Which of a process's settings may be secrets, which must be neither printed nor hashed. */
#ifndef INFTRACE_SECRET_H
#define INFTRACE_SECRET_H

#include <stdbool.h>

/* By the name of a variable or an option: VLLM_API_KEY, --hf-token. */
bool secret_name(const char *name);

/* By the value: a URL with a password, a parameter with such a name, or a token of a known form. */
bool secret_value(const char *value);

#endif
