// SPDX-License-Identifier: BSD-2-Clause
#include "link/et.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "read/etrace.h"
#include "util/text.h"

struct et_reader {
	const struct link_file *kineto;
	struct et_check *check;
	struct etrace t;
};

static void compare(struct et_reader *r, const struct etrace_node *n)
{
	const struct numbered *theirs;

	if (!n->rf_id)
		return;
	r->check->operators++;
	theirs = r->kineto ? numbereds_find(&r->kineto->operators, n->rf_id) : NULL;
	if (!theirs)
		return;
	if (n->name && theirs->name == name_hash(n->name, n->name_len))
		r->check->found++;
	else
		r->check->renamed++;
}

static int take_node(void *ctx, const struct etrace_node *n)
{
	struct et_reader *r = ctx;

	compare(r, n);
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
	if (kind < FILE_EXECUTION_TRACE) /* JSON without nodes, which says so, or a damaged one */
		kind = text_has_suffix(path, ".et") ? FILE_EXECUTION_TRACE : FILE_ET_PYTORCH;
	r->t.kind = kind;
	err = etrace_read(&r->t, source, take_node, r);
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
