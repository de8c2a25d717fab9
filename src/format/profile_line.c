// SPDX-License-Identifier: BSD-2-Clause
#include "format/profile_line.h"

#include <stdlib.h>

#include "engine/check.h"
#include "engine/spec.h"
#include "target/tasks.h"
#include "util/names.h"

#define ENVELOPES_MAX 4096 /* beyond that all are dropped, and made again when needed */

static void envelope_clear(struct profile_envelope *e)
{
	free(e->head);
	free(e->tail);
	e->head = e->tail = NULL;
}

/* ,"container":{...} of a process in one. */
static char *add_container(char *p, const struct profile_lines *l, uint32_t tgid)
{
	const struct container *c = l->tasks && tgid ? tasks_container(l->tasks, tgid) : NULL;
	char *first;

	if (!c)
		return p;
	first = p = fmt_lit(p, "," PROFILE_KEY(container) "{");
	if (c->id[0])
		p = add_string(p, ",\"id\":" + (p == first), c->id);
	if (c->pod[0])
		p = add_string(p, ",\"pod_uid\":" + (p == first), c->pod);
	if (c->host[0])
		p = add_string(p, ",\"host\":" + (p == first), c->host);
	*p++ = '}';
	return p;
}

static void make_envelope(struct profile_lines *l, struct profile_envelope *e)
{
	const struct profile_meta *m = l->meta.of ? l->meta.of(l->meta.arg, e->tgid) : &l->meta;
	const char *hash = m->env_hash ? m->env_hash : "sha256:unknown";
	uint32_t seen = e->tgid ? e->seen : l->seen, n = m->concurrency ? m->concurrency : seen;
	const char *from = m->configured && m->concurrency ? "configured" : "seen";
	size_t flags = strlen(m->runtime_flags), max;
	char *p;

	envelope_clear(e);
	e->head = xmalloc(FMT_JSON_STR_MAX(m->commit_sha ? strlen(m->commit_sha) : 0) +
			  FMT_JSON_STR_MAX(strlen(hash)) + FMT_JSON_STR_MAX(strlen(m->model)) + 256);
	e->tail = xmalloc(flags + 256 + FMT_JSON_STR_MAX(sizeof(struct container)));
	if (m->commit_sha)
		p = add_string(e->head, "," PROFILE_KEY(commit_sha), m->commit_sha);
	else
		p = fmt_lit(e->head, "," PROFILE_KEY(commit_sha) "null");
	p = add_string(p, "," PROFILE_KEY(env_hash), hash);
	p = add_string(p, "," PROFILE_KEY(model), m->model);
	p = add_u64(p, "," PROFILE_KEY(concurrency), n ? n : 1);
	e->head_len = (size_t)(p - e->head);

	p = fmt_lit(e->tail, "," PROFILE_KEY(runtime_flags));
	p = fmt_str(p, m->runtime_flags, flags);
	p = add_container(p, l, e->tgid);
	if (n && (m->configured || !m->concurrency))
		p = add_string(p, ",\"concurrency_from\":", from);
	p = fmt_lit(p, "," PROFILE_KEY(source) "\"native\",\"" PROFILE_MARK "\":1}\n");
	e->tail_len = (size_t)(p - e->tail);
	e->incomplete = m->incomplete;
	e->counts = !m->concurrency;

	max = e->head_len + PROFILE_BODY_MAX + e->tail_len;
	if (max > l->line_max) {
		l->line = xreallocarray(l->line, 1, max);
		l->line_max = max;
	}
}

static struct profile_envelope *nth_envelope(const struct profile_lines *l, size_t i)
{
	return (struct profile_envelope *)l->envelopes.list + i;
}

static void drop_envelope(void *envelope, void *arg)
{
	(void)arg;
	envelope_clear(envelope);
}

static void add_envelope(struct profile_lines *l, uint32_t tgid)
{
	l->envelopes.size = sizeof(struct profile_envelope);
	process_list_room(&l->envelopes, l->tasks, drop_envelope, NULL);
	if (l->envelopes.n == ENVELOPES_MAX) {
		while (l->envelopes.n)
			envelope_clear(nth_envelope(l, --l->envelopes.n));
	}
	l->current = l->envelopes.n++;
	*nth_envelope(l, l->current) = (struct profile_envelope){ .tgid = tgid };
}

/* Made once; an incomplete one is made again after 1, 2, 4, 8 ... lines. */
static struct profile_envelope *envelope_of(struct profile_lines *l, uint32_t tgid)
{
	struct profile_envelope *e;

	if (l->current >= l->envelopes.n || nth_envelope(l, l->current)->tgid != tgid) {
		for (l->current = 0; l->current < l->envelopes.n; l->current++) {
			if (nth_envelope(l, l->current)->tgid == tgid)
				break;
		}
	}
	if (l->current == l->envelopes.n)
		add_envelope(l, tgid);
	e = nth_envelope(l, l->current);
	if (!e->head || (e->incomplete && !(e->lines & (e->lines - 1))))
		make_envelope(l, e);
	e->lines++;
	return e;
}

char *profile_line_begin(struct profile_lines *l, const char *event, uint32_t tgid)
{
	const struct profile_envelope *e = envelope_of(l, tgid ? tgid : l->tgid);
	char *p = fmt_lit(l->line, "{" PROFILE_KEY(event) "\"");

	p = fmt_str(p, event, strlen(event));
	*p++ = '"';
	p = fmt_str(p, e->head, e->head_len);
	p = fmt_lit(p, "," PROFILE_KEY(shape) "{");
	return l->windows ? fmt_lit(PUT_FIRST(p, window, l->window), ",") : p;
}

void profile_line_end(struct profile_lines *l, char *p, bool graph)
{
	p = graph ? fmt_lit(p, "," PROFILE_KEY(graph_enabled) "true") : fmt_lit(p, "," PROFILE_KEY(graph_enabled) "false");
	p = fmt_str(p, nth_envelope(l, l->current)->tail, nth_envelope(l, l->current)->tail_len);
	writer_append(l->w, l->line, (size_t)(p - l->line));
}

void profile_lines_saw(struct profile_lines *l, uint32_t tgid, uint64_t sequences)
{
	uint32_t n = sequences < UINT32_MAX ? (uint32_t)sequences : UINT32_MAX;
	struct profile_envelope *e = envelope_of(l, tgid);

	if (n <= e->seen)
		return;
	e->seen = n;
	l->seen = n > l->seen ? n : l->seen;
	for (size_t i = 0; i < l->envelopes.n; i++) {
		e = nth_envelope(l, i);
		if (e->counts && (e->tgid == tgid || !e->tgid))
			envelope_clear(e);
	}
}

void profile_lines_exec(struct profile_lines *l, uint32_t tgid)
{
	for (size_t i = 0; i < l->envelopes.n; i++) {
		struct profile_envelope *e = nth_envelope(l, i);

		if (e->tgid == tgid || !e->tgid)
			envelope_clear(e);
	}
}

void profile_lines_clear(struct profile_lines *l)
{
	while (l->envelopes.n)
		envelope_clear(nth_envelope(l, --l->envelopes.n));
	free(l->envelopes.list);
	free(l->line);
}

char *profile_add_args(char *p, const struct probe_spec *s, const uint64_t *vals, const char *strs)
{
	uint64_t bytes;

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
	if (bytes_of_call(s, vals, &bytes))
		p = fmt_u64(fmt_lit(p, ",\"bytes\":"), bytes);
	return p;
}

char *profile_add_key(char *p, const char *prefix, const char *key)
{
	p = fmt_lit(p, ",\"");
	p = fmt_str(p, prefix, strlen(prefix));
	p = fmt_str(p, key, strlen(key));
	return fmt_lit(p, "\":");
}

char *profile_add_states(char *p, const char *prefix, const uint64_t *ns)
{
	for (int i = 0; i < ST_MAX; i++) {
		if (ns[i])
			p = fmt_us(profile_add_key(p, prefix, time_state_name((enum time_state)i)), ns[i]);
	}
	return p;
}

char *profile_fmt_share(char *p, uint64_t part, uint64_t whole)
{
	uint64_t millionths = whole ? (uint64_t)((unsigned __int128)part * 1000000 / whole) : 1000000;

	p = fmt_u64(p, millionths / 1000000);
	*p++ = '.';
	for (uint64_t div = 100000; div; div /= 10)
		*p++ = (char)('0' + millionths / div % 10);
	return p;
}
