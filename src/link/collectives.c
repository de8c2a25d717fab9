// SPDX-License-Identifier: BSD-2-Clause
#include "link/collectives.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link/file.h"
#include "read/pftrace_events.h"
#include "read/trace.h"
#include "util/list_room.h"

/* Calls in which all ranks of the communicator take part. */
static const char *const functions[] = {
	"ncclAllReduce",
	"ncclAllGather",
	"ncclReduceScatter",
	"ncclReduce",
	"ncclBroadcast",
	"ncclBcast",
	"ncclAlltoAll",
	"ncclGather",
	"ncclScatter",
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

static const char *const makers[] = { "ncclCommInitRank", "ncclCommInitRankConfig" };

/* In a trace of ours the first reading of the clocks is among the first events. */
#define CLOCK_WITHIN 1000
#define LOST "lost records"
#define BUDGET "budget" /* which turns off the probes of functions, and on again */

/* An event with the arguments that matter. */
struct found {
	const char *name;
	int64_t from_ns, to_ns;
	uint32_t pid, tid;
	uint64_t comm, id, bytes, count, ranks, rank, lost;
	bool has_comm;
	uint64_t type; /* hash of its name */
};

struct collectives_reader {
	struct collectives *c;
	char *why;
	int64_t begin_ns; /* of Chrome JSON: CLOCK_BOOTTIME - ts */
};

const char *collective_name(uint8_t function)
{
	return function < FUNCTIONS ? functions[function] : "";
}

static bool is_maker(const char *name)
{
	for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
		if (!strcmp(name, makers[i]))
			return true;
	}
	return false;
}

static size_t function_of(const char *name)
{
	size_t i = 0;

	while (i < FUNCTIONS && strcmp(name, functions[i]))
		i++;
	return i;
}

static bool is_wanted(const char *name)
{
	return (!strncmp(name, "nccl", 4) && (function_of(name) < FUNCTIONS || is_maker(name))) || !strcmp(name, LOST);
}

static void take_number(struct found *f, const char *key, uint64_t value)
{
	const struct {
		const char *key;
		uint64_t *to;
	} list[] = {
		{ "comm", &f->comm },
		{ "id", &f->id },
		{ "bytes", &f->bytes },
		{ "count", &f->count },
		{ "ranks", &f->ranks },
		{ "rank", &f->rank },
		{ "function", &f->lost },
	};

	for (size_t i = 0; key && i < sizeof(list) / sizeof(list[0]); i++) {
		if (!strcmp(key, list[i].key))
			*list[i].to = value;
	}
}

/* Chrome JSON has pointers as text. */
static void take_text(struct found *f, const char *key, const char *text)
{
	if (!key || !text)
		return;
	if (!strcmp(key, "type"))
		f->type = name_hash(text, strlen(text));
	else if (!strncmp(text, "0x", 2))
		take_number(f, key, strtoull(text, NULL, 16));
}

static int add_loss(struct collectives *c, int64_t from_ns, int64_t to_ns)
{
	if (list_room((void **)&c->losses, c->n_losses, &c->losses_size, sizeof(*c->losses)))
		return -ENOMEM;
	c->losses[c->n_losses++] = (struct collective_loss){ from_ns, to_ns };
	return 0;
}

static int add_maker(struct collectives *c, const struct found *f)
{
	if (c->n_made == COLLECTIVES_MAX)
		return 0;
	if (list_room((void **)&c->made, c->n_made, &c->made_size, sizeof(*c->made)))
		return -ENOMEM;
	c->made[c->n_made++] = (struct communicator){ .ns = f->to_ns,
		.comm = f->comm,
		.id = f->id,
		.pid = f->pid,
		.ranks = f->ranks > UINT32_MAX ? 0 : (uint32_t)f->ranks,
		.rank = f->rank > UINT32_MAX ? 0 : (uint32_t)f->rank };
	return 0;
}

static int add_call(struct collectives *c, const struct found *f, size_t function)
{
	uint64_t bytes = f->bytes ? f->bytes : f->count;
	struct collective_call *call;

	if (c->n_calls == COLLECTIVES_MAX)
		return c->left_out++ ? 0 : add_loss(c, f->from_ns, INT64_MAX / 4);
	if (list_room((void **)&c->calls, c->n_calls, &c->calls_size, sizeof(*c->calls)))
		return -ENOMEM;
	call = &c->calls[c->n_calls++];
	*call = (struct collective_call){ .from_ns = f->from_ns,
		.to_ns = f->to_ns,
		.comm = f->comm,
		.bytes = bytes,
		.pid = f->pid,
		.tid = f->tid,
		.function = (uint8_t)function };
	call->key = name_hash((const char *)&(const uint64_t[]){ function, bytes, f->type }, 3 * sizeof(uint64_t));
	return 0;
}

/* Those without a communicator are of other programs, or cannot be told apart. */
static int take(struct collectives *c, const struct found *f)
{
	size_t function = function_of(f->name);

	if (!link_time_fits(f->from_ns) || !link_time_fits(f->to_ns))
		return 0;
	if (!strcmp(f->name, LOST))
		return f->lost ? add_loss(c, f->from_ns, f->to_ns) : 0;
	if (!f->comm)
		return 0;
	if (is_maker(f->name))
		return add_maker(c, f);
	return function < FUNCTIONS ? add_call(c, f, function) : 0;
}

/* ---- Perfetto ---- */

static int perfetto_slice(void *ctx, const struct pftrace_slice *s)
{
	struct found f = { .name = s->name, .from_ns = s->start_ns, .to_ns = s->end_ns, .pid = s->pid, .tid = s->tid };

	if (!s->n)
		return 0;
	for (size_t i = 0; i < s->n; i++) {
		if (s->args[i].text)
			take_text(&f, s->args[i].name, s->args[i].text);
		else
			take_number(&f, s->args[i].name, s->args[i].value);
	}
	return take(((struct collectives_reader *)ctx)->c, &f);
}

static bool wants_instant(const char *name)
{
	return pftrace_instant_is_host(name) || !strcmp(name, BUDGET);
}

static int perfetto_instant(void *ctx, const struct pftrace_instant *in)
{
	struct collectives *c = ((struct collectives_reader *)ctx)->c;

	if (pftrace_instant_is_host(in->name)) {
		pftrace_instant_host(in, &c->id);
		return 0;
	}
	return link_time_fits(in->ns) ? add_loss(c, in->ns, in->ns) : 0;
}

static void take_clocks(struct collectives *c, int64_t boot_ns, int64_t real_ns)
{
	if (c->has_clock || !link_time_fits(boot_ns) || !link_time_fits(real_ns))
		return;
	c->has_clock = true;
	c->boot_ns = boot_ns;
	c->real_ns = real_ns;
}

static int perfetto_clocks(void *ctx, int64_t boot_ns, int64_t real_ns)
{
	take_clocks(((struct collectives_reader *)ctx)->c, boot_ns, real_ns);
	return 0;
}

static void perfetto_bad(void *ctx, uint64_t offset, const char *why)
{
	struct collectives_reader *r = ctx;

	if (!r->why[0])
		snprintf(r->why, COLLECTIVES_WHY_MAX, "byte %llu: %s", (unsigned long long)offset, why);
}

/* ---- Chrome JSON ---- */

static int chrome_clock(struct collectives_reader *r, const struct trace_event *e)
{
	int64_t ts, boot, real;

	if (r->c->has_clock || node_us_to_ns(e->ts, &ts) < 0 || !link_time_fits(ts) ||
		!link_clock_text(node_string(node_get(e->args, "boottime_ns")), &boot) ||
		!link_clock_text(node_string(node_get(e->args, "realtime_ns")), &real))
		return 0;
	take_clocks(r->c, boot, real);
	r->begin_ns = boot - ts;
	host_id_from_json(&r->c->id, e->args);
	return 0;
}

static uint32_t small(const struct json_node *node)
{
	uint64_t v = node_u64(node);

	return v > UINT32_MAX ? 0 : (uint32_t)v;
}

static int chrome_event(void *ctx, const struct trace_event *e)
{
	const char *ph = node_string(e->ph);
	struct collectives_reader *r = ctx;
	struct found f = { .name = node_string(e->name), .pid = small(e->pid), .tid = small(e->tid) };
	int64_t dur;

	if (!r->c->has_clock && e->number > CLOCK_WITHIN)
		return -ENODATA; /* none of ours */
	if (!ph || !f.name || node_us_to_ns(e->ts, &f.from_ns) < 0 || !link_time_fits(f.from_ns))
		return 0;
	if (ph[0] == 'i' && !strcmp(f.name, "inftrace_clock"))
		return chrome_clock(r, e);
	if (ph[0] == 'i' && !strcmp(f.name, BUDGET))
		return add_loss(r->c, f.from_ns, f.from_ns);
	if (ph[0] != 'X' || !is_wanted(f.name) || node_us_to_ns(e->dur, &dur) < 0 || !link_time_fits(dur) || !node_is(e->args, JSON_OBJECT))
		return 0;
	f.to_ns = f.from_ns + dur;
	json_for_each (arg, e->args) {
		if (node_is(arg, JSON_INT))
			take_number(&f, arg->key, node_u64(arg));
		else
			take_text(&f, arg->key, node_string(arg));
	}
	return take(r->c, &f);
}

static void chrome_stopped(void *ctx, const struct trace_stop *stop)
{
	struct collectives_reader *r = ctx;

	/* a recording that was cut ends between two events */
	if (!r->why[0] && (stop->kind == TRACE_UNREADABLE || stop->kind == TRACE_UNEXPECTED))
		snprintf(r->why, COLLECTIVES_WHY_MAX, "line %llu: %s", (unsigned long long)stop->line, stop->why);
}

/* ---- all ---- */

/* From the times in the file to the CLOCK_BOOTTIME of the machine. */
static void place(struct collectives_reader *r)
{
	struct collectives *c = r->c;
	int64_t by = r->begin_ns - c->id.shift_ns;

	for (size_t i = 0; i < c->n_calls; i++) {
		c->calls[i].from_ns += by;
		c->calls[i].to_ns += by;
	}
	for (size_t i = 0; i < c->n_made; i++)
		c->made[i].ns += by;
	for (size_t i = 0; i < c->n_losses; i++) {
		c->losses[i].from_ns += by;
		c->losses[i].to_ns += by;
	}
	c->boot_ns -= c->id.shift_ns;
	c->id.shift_ns = 0;
}

static int compare_calls(const void *x, const void *y)
{
	const struct collective_call *a = x, *b = y;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	if (a->from_ns != b->from_ns)
		return a->from_ns < b->from_ns ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int compare_made(const void *x, const void *y)
{
	const struct communicator *a = x, *b = y;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	if (a->comm != b->comm)
		return a->comm < b->comm ? -1 : 1;
	return a->ns < b->ns ? -1 : a->ns > b->ns;
}

static int compare_losses(const void *x, const void *y)
{
	const struct collective_loss *a = x, *b = y;

	return a->from_ns < b->from_ns ? -1 : a->from_ns > b->from_ns;
}

/* A collective that is made of another one (ncclBcast calls ncclBroadcast) is one. */
static void drop_nested(struct collectives *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_calls; i++) {
		const struct collective_call *call = &c->calls[i], *last = n ? &c->calls[n - 1] : NULL;

		if (last && last->pid == call->pid && last->tid == call->tid && call->from_ns >= last->from_ns && call->to_ns <= last->to_ns &&
			last->comm == call->comm)
			continue;
		c->calls[n++] = *call;
	}
	c->n_calls = n;
}

static void join_losses(struct collectives *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_losses; i++) {
		struct collective_loss *last = n ? &c->losses[n - 1] : NULL;

		if (!last || c->losses[i].from_ns > last->to_ns)
			c->losses[n++] = c->losses[i];
		else if (c->losses[i].to_ns > last->to_ns)
			last->to_ns = c->losses[i].to_ns;
	}
	c->n_losses = n;
}

static void finish(struct collectives *c)
{
	if (c->n_calls)
		qsort(c->calls, c->n_calls, sizeof(*c->calls), compare_calls);
	if (c->n_made)
		qsort(c->made, c->n_made, sizeof(*c->made), compare_made);
	if (c->n_losses)
		qsort(c->losses, c->n_losses, sizeof(*c->losses), compare_losses);
	join_losses(c);
	drop_nested(c);
}

int collectives_read(struct json_source *source, struct collectives *ret, char why[COLLECTIVES_WHY_MAX])
{
	static const struct pftrace_event_ops pftrace = { .slice = perfetto_slice,
		.clocks = perfetto_clocks,
		.instant = perfetto_instant,
		.wants_instant = wants_instant,
		.wants_args = is_wanted,
		.bad = perfetto_bad };
	static const struct trace_reader_ops chrome = { .event = chrome_event, .stop = chrome_stopped };
	struct collectives_reader r = { .c = ret, .why = why };
	struct trace_form form;
	bool torn;
	int err;

	memset(ret, 0, sizeof(*ret));
	why[0] = 0;
	if (pftrace_is(source)) {
		err = pftrace_events_read(source, &pftrace, &r, &torn);
	} else {
		err = trace_read(source, &chrome, &r, &form);
		if (!ret->has_clock)
			collectives_clear(ret); /* none of ours */
		if (err && err != -ENOMEM && !why[0])
			err = 0; /* it ends early, or is none of ours */
	}
	place(&r);
	finish(ret);
	return err ? err : why[0] ? -EBADMSG
				  : 0;
}

void collectives_clear(struct collectives *c)
{
	free(c->calls);
	free(c->made);
	free(c->losses);
	memset(c, 0, sizeof(*c));
}
