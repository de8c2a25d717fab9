// SPDX-License-Identifier: BSD-2-Clause
/* Profile JSONL: one line per engine step, whose stages add up to its total to the nanosecond. */
#include "sink/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/writer.h"
#include "sink/sink.h"
#include "util/fmt.h"
#include "util/names.h"

#define BODY_MAX 8192 /* shape and stage_us of a line: numbers, and names from the preset */

struct profile_sink {
	struct sink sink;
	struct writer *w;
	struct recording rec;
	struct profile_meta meta;
	char *head, *tail; /* of every line: before shape, behind stage_us */
	size_t head_len, tail_len;
	char *line;
};

static char *add_string(char *p, const char *key, const char *value)
{
	p = fmt_str(p, key, strlen(key));
	return fmt_json_str(p, value, strlen(value));
}

/* What is the same on every line is made once. */
static int make_envelope(struct profile_sink *ps, uint32_t tgid)
{
	const struct profile_meta *m = &ps->meta;
	const char *hash = m->env_hash ? m->env_hash(m->arg, tgid) : "sha256:unknown";
	size_t flags = strlen(m->runtime_flags);
	char *p;

	ps->head = malloc(FMT_JSON_STR_MAX(m->commit_sha ? strlen(m->commit_sha) : 0) +
			  FMT_JSON_STR_MAX(strlen(hash)) + FMT_JSON_STR_MAX(strlen(m->model)) + 256);
	ps->tail = malloc(flags + 256);
	if (!ps->head || !ps->tail)
		return -ENOMEM;
	if (m->commit_sha)
		p = add_string(ps->head, ",\"commit_sha\":", m->commit_sha);
	else
		p = fmt_lit(ps->head, ",\"commit_sha\":null");
	p = add_string(p, ",\"env_hash\":", hash);
	p = add_string(p, ",\"model\":", m->model);
	p = fmt_lit(p, ",\"concurrency\":");
	p = fmt_u32(p, m->concurrency);
	ps->head_len = (size_t)(p - ps->head);

	p = fmt_lit(ps->tail, ",\"graph_enabled\":false,\"runtime_flags\":");
	p = fmt_str(p, m->runtime_flags, flags);
	p = fmt_lit(p, ",\"source\":\"native\"}\n");
	ps->tail_len = (size_t)(p - ps->tail);

	ps->line = malloc(ps->head_len + BODY_MAX + ps->tail_len);
	return ps->line ? 0 : -ENOMEM;
}

/* Returns NULL when there is no memory for the envelope. */
static char *line_begin(struct profile_sink *ps, const char *event, uint32_t tgid)
{
	char *p;

	if (!ps->line && make_envelope(ps, tgid))
		return NULL;
	p = fmt_lit(ps->line, "{\"event\":\"");
	p = fmt_str(p, event, strlen(event));
	*p++ = '"';
	return fmt_str(p, ps->head, ps->head_len);
}

static void line_end(struct profile_sink *ps, char *p)
{
	p = fmt_str(p, ps->tail, ps->tail_len);
	writer_append(ps->w, ps->line, (size_t)(p - ps->line));
}

static char *add_u64(char *p, const char *key, uint64_t v)
{
	p = fmt_str(p, key, strlen(key));
	return fmt_u64(p, v);
}

static char *add_us(char *p, const char *key, uint64_t ns)
{
	p = fmt_str(p, key, strlen(key));
	return fmt_us(p, ns);
}


static char *add_key(char *p, const char *prefix, const char *key)
{
	p = fmt_lit(p, ",\"");
	p = fmt_str(p, prefix, strlen(prefix));
	p = fmt_str(p, key, strlen(key));
	return fmt_lit(p, "\":");
}

static char *add_states(char *p, const char *prefix, const uint64_t *ns)
{
	for (int i = 0; i < ST_MAX; i++) {
		if (ns[i])
			p = fmt_us(add_key(p, prefix, time_state_name((enum time_state)i)), ns[i]);
	}
	return p;
}

/* What held a thread up for longest, and who. */
static char *add_stall(char *p, const char *prefix, const struct stall *s)
{
	const char *state = time_state_name((enum time_state)s->state), *by = s->by;

	if (s->state == ST_CPU || s->state >= ST_MAX)
		return p;
	p = add_key(p, prefix, "_state");
	p = fmt_json_str(p, state, strlen(state));
	p = fmt_us(add_key(p, prefix, "_us"), s->dur_ns);
	if (s->state == ST_RUNNABLE && (!s->by_tid || s->flags & STALL_F_THROTTLED))
		by = s->flags & STALL_F_THROTTLED ? "cpu.max" : "idle";
	else if (!s->by_tid)
		return p; /* woken by an interrupt, or it ended otherwise */
	p = add_key(p, prefix, "_by");
	p = fmt_json_str(p, by, strnlen(by, sizeof(s->by)));
	p = fmt_u64(add_key(p, prefix, "_by_tid"), s->by_tid);
	if (s->state != ST_RUNNABLE && s->late_ns)
		p = fmt_us(add_key(p, prefix, "_late_us"), s->late_ns);
	return p;
}

static void write_step(struct profile_sink *ps, const struct rec_step *r)
{
	const struct probe_spec *s = &ps->rec.probes->specs[r->h.id];
	char *p = line_begin(ps, "token_prof", r->h.tgid);

	if (!p)
		return;
	p = add_u64(p, ",\"shape\":{\"step\":", r->number);
	p = add_u64(p, ",\"pid\":", r->h.tgid);
	p = add_u64(p, ",\"tid\":", r->h.tid);
	p = add_string(p, ",\"phase\":", probe_spec_name(s, r->vals));
	for (unsigned int i = 0; i < s->nargs; i++) {
		if (s->args[i].is_string)
			continue; /* the shape has scalars only */
		*p++ = ',';
		p = fmt_json_str(p, s->args[i].name, strlen(s->args[i].name));
		*p++ = ':';
		p = s->args[i].is_signed ? fmt_s64(p, (int64_t)r->vals[i]) : fmt_u64(p, r->vals[i]);
	}
	p = add_us(p, ",\"ts_us\":",
		r->h.start_ns > ps->rec.start_boot_ns ? r->h.start_ns - ps->rec.start_boot_ns : 0);
	p = add_u64(p, ",\"switches\":",
		(uint64_t)r->n.switches_voluntary + r->n.switches_involuntary);
	p = add_u64(p, ",\"switches_voluntary\":", r->n.switches_voluntary);
	p = add_u64(p, ",\"migrations\":", r->n.migrations);
	p = add_u64(p, ",\"faults_minor\":", r->n.faults_minor);
	p = add_u64(p, ",\"faults_major\":", r->n.faults_major);
	p = add_u64(p, ",\"syscalls\":", r->n.syscalls);
	p = add_u64(p, ",\"lost\":", r->lost);
	if (r->h.flags & REC_F_OPEN_END)
		p = fmt_lit(p, ",\"unfinished\":true");
	p = add_u64(p, ",\"workers\":", r->workers);
	p = add_stall(p, "stall", &r->stall);
	if (r->straggler_tid) {
		p = add_u64(p, ",\"straggler_tid\":", r->straggler_tid);
		p = add_us(p, ",\"straggler_held_us\":", r->held_ns);
		p = add_stall(p, "straggler", &r->straggler);
	}
	p = add_us(p, "},\"stage_us\":{\"total\":", r->h.dur_ns);
	p = add_states(p, "", r->ns);
	if (r->workers) {
		uint64_t total = 0;

		for (int i = 0; i < ST_MAX; i++)
			total += r->workers_ns[i];
		p = add_us(p, ",\"workers_total\":", total);
		p = add_states(p, "workers_", r->workers_ns);
	}
	*p++ = '}';
	line_end(ps, p);
}

static void profile_record(struct sink *s, const struct rec_hdr *rec)
{
	struct profile_sink *ps = (struct profile_sink *)s;

	if (rec->kind == REC_STEP && rec->id < ps->rec.probes->n)
		write_step(ps, (const struct rec_step *)rec);
}

static void profile_loss(struct sink *s, const struct loss *l)
{
	/* in the line of each step that it touched, and in window_prof */
	(void)s;
	(void)l;
}

static int profile_flush(struct sink *s)
{
	return writer_flush(((struct profile_sink *)s)->w);
}

static uint64_t profile_bytes(const struct sink *s)
{
	return writer_bytes(((const struct profile_sink *)s)->w);
}

/* A share as a decimal number with six places, without a double. */
static char *fmt_share(char *p, uint64_t part, uint64_t whole)
{
	uint64_t millionths = whole ? (uint64_t)((unsigned __int128)part * 1000000 / whole) : 1000000;

	p = fmt_u64(p, millionths / 1000000);
	*p++ = '.';
	for (uint64_t div = 100000; div; div /= 10)
		*p++ = (char)('0' + millionths / div % 10);
	return p;
}

static void write_window(struct profile_sink *ps, const struct window_totals *t)
{
	uint64_t total = t->close_ns - t->open_ns, records = 0, lost = 0;
	char *p = line_begin(ps, "window_prof", 0);

	if (!p)
		return;
	for (int k = 0; k < REC_KIND_MAX; k++) {
		records += t->records[k];
		lost += t->lost[k];
	}
	p = add_u64(p, ",\"shape\":{\"window\":", 0);
	p = add_u64(p, ",\"records\":", records);
	p = add_u64(p, ",\"lost\":", lost);
	for (int k = 0; k < REC_KIND_MAX; k++) {
		if (!t->lost[k])
			continue;
		p = fmt_lit(p, ",\"lost_");
		p = fmt_str(p, rec_kind_name((enum rec_kind)k), strlen(rec_kind_name((enum rec_kind)k)));
		p = fmt_lit(p, "\":");
		p = fmt_u64(p, t->lost[k]);
	}
	p = add_u64(p, ",\"bytes\":", t->bytes);
	p = add_u64(p, ",\"steps\":", t->steps);
	p = fmt_lit(p, ",\"coverage\":");
	p = fmt_share(p, total > t->lost_ns ? total - t->lost_ns : 0, total);
	p = add_us(p, "},\"stage_us\":{\"total\":", total);
	p = add_us(p, ",\"open\":", t->open_cost_ns);
	p = add_us(p, ",\"close\":", t->close_cost_ns);
	*p++ = '}';
	line_end(ps, p);
}

static int profile_close(struct sink *s, const struct window_totals *t)
{
	struct profile_sink *ps = (struct profile_sink *)s;
	int err;

	if (t)
		write_window(ps, t);
	err = writer_close(ps->w);
	free(ps->head);
	free(ps->tail);
	free(ps->line);
	free(ps);
	return err;
}

static const struct sink_ops profile_ops = {
	.record = profile_record,
	.loss = profile_loss,
	.flush = profile_flush,
	.close = profile_close,
	.bytes = profile_bytes,
};

int profile_sink_new(struct writer *w, const struct recording *rec, const struct profile_meta *meta,
	struct sink **ret_sink)
{
	struct profile_sink *ps = calloc(1, sizeof(*ps));

	if (!ps) {
		writer_close(w);
		return -ENOMEM;
	}
	ps->sink.ops = &profile_ops;
	ps->w = w;
	ps->rec = *rec;
	ps->meta = *meta;
	*ret_sink = &ps->sink;
	return 0;
}
