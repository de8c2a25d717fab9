// SPDX-License-Identifier: BSD-2-Clause
#include "engine/calls.h"

#include <string.h>

#include "engine/check.h"

static size_t call_size(const struct probe_spec *s)
{
	return REC_FUNCTION_SIZE(probe_spec_values(s)) + s->nstrs * (size_t)FUNC_STR_LEN;
}

/* Strings are usually missing because the kernel had no memory. */
const struct rec_hdr *with_strings(const struct probe_spec *s, const struct rec_hdr *h, size_t *size)
{
	size_t whole = call_size(s);
	static struct rec_function padded;

	if (*size >= whole || *size > sizeof(padded))
		return h;
	memset(&padded, 0, sizeof(padded));
	memcpy(&padded, h, *size);
	*size = whole < sizeof(padded) ? whole : sizeof(padded);
	return &padded.h;
}

static const struct rec_hdr *calls_take_function(struct probe_table *pt, struct handles *handles, struct shown_contexts *drafts,
	struct probe_spec *s, const struct rec_function *r)
{
	unsigned int arg = (unsigned int)s->handle_arg, name = (unsigned int)s->handle_name;
	const char *strs = probe_record_strings(s, r);

	if (!check_call(pt, s, r->vals, strs))
		return NULL;
	if (s->role == ROLE_SEQUENCE)
		drafts_learn(drafts, s, r);
	if (s->handle_arg >= 0 && check_shown(s, arg, r->vals) && check_shown(s, name, r->vals) && !(r->h.flags & REC_F_OPEN_END))
		(s->role == ROLE_SEQUENCE ? handles_set_recent : handles_set)(handles, r->h.tgid, r->vals[arg],
			probe_arg_string(s, name, strs));
	return &r->h;
}

static const struct rec_hdr *calls_take_step(struct probe_table *pt, const struct shown_contexts *drafts, struct probe_spec *s,
	const struct rec_step *r, size_t *size)
{
	static struct rec_step bare;

	if (!check_call(pt, s, r->vals, r->strs[0]))
		return NULL;
	r = drafts_mark(drafts, s, r, *size);
	if (!rows_refused(s))
		return &r->h;
	memcpy(&bare, r, sizeof(bare));
	bare.n_parts = bare.parts_left = 0;
	*size = sizeof(bare);
	return &bare.h;
}

const struct rec_hdr *calls_take(struct probe_table *pt, struct handles *handles, struct shown_contexts *drafts,
	struct probe_spec *s, const struct rec_hdr *h, size_t *size)
{
	probe_table_use(pt, h->tgid);
	if (h->kind == REC_STEP)
		return calls_take_step(pt, drafts, s, (const struct rec_step *)h, size);
	if (h->kind != REC_FUNCTION)
		return h;
	if (*size < call_size(s))
		h = with_strings(s, h, size);
	return calls_take_function(pt, handles, drafts, s, (const struct rec_function *)h);
}
