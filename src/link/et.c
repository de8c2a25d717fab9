// SPDX-License-Identifier: BSD-2-Clause
/* PyTorch's operators in traces of Kineto, its profiler, and in execution traces. */
#include "link/hosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "read/etrace.h"
#include "util/list.h"
#include "util/text.h"

/* ---- lists of calls by number ---- */

static void numbereds_add(struct numbereds *l, uint64_t number, int64_t ns, uint64_t name)
{
	if (l->n == NUMBERED_MAX)
		l->left_out++;
	else
		*list_push(l->list, l->n, l->size) = (struct numbered){ number, ns, name };
}

static int numbered_compare(const void *x, const void *y)
{
	const struct numbered *a = x, *b = y;

	return cmp_int(a->number, b->number) ?: cmp_int(a->ns, b->ns);
}

void numbereds_sort(struct numbereds *l)
{
	list_sort(l->list, l->n, numbered_compare);
}

void numbereds_clear(struct numbereds *l)
{
	free(l->list);
	memset(l, 0, sizeof(*l));
}

const struct numbered *numbereds_find(const struct numbereds *l, uint64_t number)
{
	size_t i = bisect(l->n, k, l->list[k].number < number);

	return i < l->n && l->list[i].number == number ? &l->list[i] : NULL;
}

/* ---- Kineto ---- */

struct kineto {
	struct link_file *f;
	struct numbereds launches, launched; /* by correlation */
	int64_t base_ns;
	bool has_base, has_events;
};

struct kineto *kineto_new(struct link_file *f)
{
	struct kineto *k = xcalloc(1, sizeof(*k));

	k->f = f;
	return k;
}

void kineto_free(struct kineto *k)
{
	if (!k)
		return;
	numbereds_clear(&k->launches);
	numbereds_clear(&k->launched);
	free(k);
}

void kineto_base(struct kineto *k, int64_t base_ns)
{
	k->has_base = true;
	if (link_time_fits(base_ns))
		k->base_ns = base_ns;
}

static bool arg_read_number(const struct json_node *args, const char *key, uint64_t *ret)
{
	const struct json_node *value = node_get(args, key);

	if (!node_is(value, JSON_INT))
		return false;
	*ret = node_u64(value);
	return true;
}

void kineto_event(struct kineto *k, const struct trace_event *e, int64_t start_ns, int64_t end_ns)
{
	const char *cat = node_string(e->cat) ?: "";
	bool is_op = !strcmp(cat, "cpu_op"), is_launch = !strcmp(cat, "cuda_runtime") || !strcmp(cat, "cuda_driver");
	int64_t tid = node_s64(e->tid);
	uint64_t number;

	if (is_op || !strcmp(cat, "user_annotation")) {
		if (arg_read_number(e->args, "Record function id", &number) && number)
			numbereds_add(&k->f->operators, number, start_ns, name_hash(e->name->text, e->name->len));
	} else if (is_launch || !strcmp(cat, "kernel") || !strcmp(cat, "gpu_memcpy") || !strcmp(cat, "gpu_memset")) {
		if (arg_read_number(e->args, "correlation", &number))
			numbereds_add(is_launch ? &k->launches : &k->launched, number, start_ns, 0);
	} else {
		return;
	}
	k->has_events = true;
	if (is_op || is_launch)
		spans_add(&k->f->spans, e->name->text, tid < 0 || tid > UINT32_MAX ? 0 : (uint32_t)tid, start_ns, end_ns);
}

bool kineto_is(const struct kineto *k)
{
	return k->has_base || k->has_events;
}

static void check_launches(struct kineto *k)
{
	struct launch_check *c = &k->f->launches;

	numbereds_sort(&k->launches);
	c->least_ns = INT64_MAX;
	c->left_out = k->launches.left_out + k->launched.left_out;
	for (size_t i = 0; i < k->launched.n; i++) {
		const struct numbered *of = numbereds_find(&k->launches, k->launched.list[i].number);
		int64_t ns;

		if (!of) {
			c->unpaired++;
			continue;
		}
		ns = k->launched.list[i].ns - of->ns;
		c->kernels++;
		c->early += ns < 0;
		c->least_ns = ns < c->least_ns ? ns : c->least_ns;
	}
}

void kineto_finish(struct kineto *k)
{
	struct link_file *f = k->f;

	for (size_t i = 0; i < f->spans.n; i++) {
		f->spans.list[i].start_ns += k->base_ns;
		f->spans.list[i].end_ns += k->base_ns;
	}
	if (f->first_ns <= f->last_ns) {
		f->first_ns += k->base_ns;
		f->last_ns += k->base_ns;
	}
	f->begin_ns = k->base_ns;
	numbereds_sort(&f->operators);
	check_launches(k);
	link_clock_add(&f->clock, f->first_ns, f->first_ns); /* its only point */
}

/* ---- execution traces ---- */

struct et_reader {
	const struct link_file *kineto;
	struct et_check *check;
	struct etrace t;
};

static int et_take_node(void *ctx, const struct etrace_node *n)
{
	struct et_reader *r = ctx;
	const struct numbered *theirs = r->kineto && n->rf_id ? numbereds_find(&r->kineto->operators, n->rf_id) : NULL;

	r->check->operators += !!n->rf_id;
	if (theirs && n->name && theirs->name == name_hash(n->name, n->name_len))
		r->check->found++;
	else if (theirs)
		r->check->renamed++;
	if (n->wrong)
		snprintf(r->t.why, sizeof(r->t.why), "%s %llu: %s", r->t.kind == FILE_EXECUTION_TRACE ? "message" : "line",
			(unsigned long long)n->number, n->wrong);
	else if (r->t.n_nodes > ET_NODES_MAX || r->t.n_edges > ET_NODES_MAX)
		snprintf(r->t.why, sizeof(r->t.why), "more than %u nodes or dependencies", ET_NODES_MAX);
	return r->t.why[0] ? -EBADMSG : 0;
}

static int check_nodes(struct et_reader *r)
{
	struct etrace *t = &r->t;

	r->check->nodes = t->n_nodes;
	etrace_sort(t);
	for (size_t i = 1; i < t->n_nodes; i++) {
		if (t->nodes[i].id != t->nodes[i - 1].id)
			continue;
		snprintf(t->why, sizeof(t->why), "two nodes have the id %llu", (unsigned long long)t->nodes[i].id);
		return -EBADMSG;
	}
	for (size_t i = 0; i < t->n_edges; i++)
		r->check->missing_deps += !etrace_find(t, t->edges[i].to);
	return etrace_find_cycle(t);
}

static int read_nodes(struct et_reader *r, struct json_source *source, const char *path)
{
	enum file_kind kind;
	const char *why;
	char buf[160];
	int err;

	kind = file_detect(source, buf, sizeof(buf), &why);
	if (kind < FILE_EXECUTION_TRACE) /* damaged, or JSON without nodes, which etrace_read() reports */
		kind = text_has_suffix(path, ".et") ? FILE_EXECUTION_TRACE : FILE_ET_PYTORCH;
	r->t.kind = kind;
	err = etrace_read(&r->t, source, et_take_node, r);
	if (err || !r->t.torn || r->t.own)
		return err;
	snprintf(r->t.why, sizeof(r->t.why), "the file ends inside a node");
	return -EBADMSG;
}

int et_check(const struct link_file *f, const struct link_file *kineto, struct et_check *ret, char why[LINK_WHY_MAX])
{
	struct et_reader r = { .kineto = kineto, .check = ret };
	struct json_source source;
	int err;

	memset(ret, 0, sizeof(*ret));
	err = json_source_open(&source, f->path);
	if (err)
		snprintf(r.t.why, sizeof(r.t.why), "%s", source.error);
	else
		err = read_nodes(&r, &source, f->path);
	json_source_close(&source);
	if (!err)
		err = check_nodes(&r);
	snprintf(why, LINK_WHY_MAX, "%s", r.t.why);
	etrace_clear(&r.t);
	return err;
}
