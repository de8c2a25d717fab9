// SPDX-License-Identifier: BSD-2-Clause
#include "sink/profile_line.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/check.h"

/* What is the same on every line is made once. */
static int make_envelope(struct profile_lines *l, uint32_t tgid)
{
	const struct profile_meta *m = &l->meta;
	const char *hash = m->env_hash ? m->env_hash(m->arg, tgid) : "sha256:unknown";
	size_t flags = strlen(m->runtime_flags);
	char *p;

	l->head = malloc(FMT_JSON_STR_MAX(m->commit_sha ? strlen(m->commit_sha) : 0) +
			 FMT_JSON_STR_MAX(strlen(hash)) + FMT_JSON_STR_MAX(strlen(m->model)) + 256);
	l->tail = malloc(flags + 256);
	if (!l->head || !l->tail)
		return -ENOMEM;
	if (m->commit_sha)
		p = add_string(l->head, ",\"commit_sha\":", m->commit_sha);
	else
		p = fmt_lit(l->head, ",\"commit_sha\":null");
	p = add_string(p, ",\"env_hash\":", hash);
	p = add_string(p, ",\"model\":", m->model);
	p = add_u64(p, ",\"concurrency\":", m->concurrency);
	l->head_len = (size_t)(p - l->head);

	p = fmt_lit(l->tail, ",\"runtime_flags\":");
	p = fmt_str(p, m->runtime_flags, flags);
	p = fmt_lit(p, ",\"source\":\"native\"}\n");
	l->tail_len = (size_t)(p - l->tail);

	l->line = malloc(l->head_len + PROFILE_BODY_MAX + l->tail_len);
	return l->line ? 0 : -ENOMEM;
}

char *profile_line_begin(struct profile_lines *l, const char *event, uint32_t tgid)
{
	char *p;

	if (!l->line && make_envelope(l, tgid))
		return NULL;
	p = fmt_lit(l->line, "{\"event\":\"");
	p = fmt_str(p, event, strlen(event));
	*p++ = '"';
	p = fmt_str(p, l->head, l->head_len);
	p = fmt_lit(p, ",\"shape\":{");
	return l->windows ? fmt_lit(add_u64(p, "\"window\":", l->window), ",") : p;
}

void profile_line_end(struct profile_lines *l, char *p, bool graph)
{
	p = graph ? fmt_lit(p, ",\"graph_enabled\":true") : fmt_lit(p, ",\"graph_enabled\":false");
	p = fmt_str(p, l->tail, l->tail_len);
	writer_append(l->w, l->line, (size_t)(p - l->line));
}

void profile_lines_clear(struct profile_lines *l)
{
	free(l->head);
	free(l->tail);
	free(l->line);
}

char *profile_add_args(char *p, const struct probe_spec *s, const uint64_t *vals, const char *strs)
{
	for (unsigned int i = 0; i < s->nargs; i++) {
		const struct probe_arg *a = &s->args[i];
		const char *str;

		if ((a->is_string && !strs) || !check_shown(s, i, vals))
			continue;
		*p++ = ',';
		p = fmt_json_str(p, a->name, strlen(a->name));
		*p++ = ':';
		if (a->is_string) {
			str = probe_arg_string(s, i, strs);
			p = fmt_json_str(p, str, strnlen(str, FUNC_STR_LEN));
		} else if (a->is_float) {
			p = fmt_float(p, vals[i], a->size);
		} else {
			p = a->is_signed ? fmt_s64(p, (int64_t)vals[i]) : fmt_u64(p, vals[i]);
		}
	}
	return p;
}
