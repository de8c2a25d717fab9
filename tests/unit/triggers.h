/* SPDX-License-Identifier: BSD-2-Clause */
/* A set of triggers in tests, and an engine with steps for them. */
#ifndef INFTRACE_TEST_TRIGGERS_H
#define INFTRACE_TEST_TRIGGERS_H

#include "sinks.h"

#include "record/trigger.h"

#define MS UINT64_C(1000000)

static struct trigger_set *set;
static uint32_t next_step;

static inline int end_test(void **state)
{
	trigger_free(set);
	return teardown(state);
}

/* The engine's step: n_tokens and context. */
static inline int begin_test(void **state)
{
	struct probe_spec *s;
	const char *why;

	set = NULL;
	next_step = 0;
	if (setup(state))
		return -1;
	s = spec_append(&probes, NULL, "llama_decode");
	s->role = ROLE_STEP;
	s->flags = PROBE_F_SPAN;
	return spec_add_arg(s, "n_tokens", "s32 arg1", &ops, 1, &why) ||
			       spec_add_arg(s, "context", "ptr arg2", &ops, 1, &why) ||
			       spec_set_name(s, "n_tokens == 1 ? decode : prefill", &why)
		       ? -1
		       : 0;
}

#endif
