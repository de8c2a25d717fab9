/* SPDX-License-Identifier: BSD-2-Clause */
/* What of a process's settings may be a secret, and must be neither printed nor hashed. */
#ifndef INFTRACE_SECRET_H
#define INFTRACE_SECRET_H

#include <stdbool.h>

/* Of a variable or an option: VLLM_API_KEY, --hf-token. */
bool secret_name(const char *name);

/* A URL with a password, a parameter that is called one, or a token that shows what it is. */
bool secret_value(const char *value);

#endif
