// SPDX-License-Identifier: BSD-2-Clause
#include "validate/check.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "read/etrace.h"
#include "util/list.h"
#include "util/text.h"

void check_problem(struct check_report *report, const char *fmt, ...)
{
	char *text;
	va_list ap;

	if (report->problems++ >= CHECK_SHOWN_MAX || !report->problem)
		return;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		out_of_memory();
	va_end(ap);
	report->problem(report->ctx, text);
	free(text);
}

void check_summary_end(const struct check_report *report, FILE *out)
{
	if (report->problems)
		fprintf(out, "; NOT VALID, %llu problem%s", (unsigned long long)report->problems,
			report->problems == 1 ? "" : "s");
	fputc('\n', out);
}

void name_counts_add(struct name_counts *counts, const char *name)
{
	char printable[sizeof(counts->names[0].name)];

	text_printable(printable, sizeof(printable), name);
	for (size_t i = 0; i < counts->len; i++) {
		if (!strcmp(counts->names[i].name, printable)) {
			counts->names[i].count++;
			return;
		}
	}
	if (counts->len == NAME_COUNT_MAX) {
		counts->others++;
		return;
	}
	strcpy(counts->names[counts->len].name, printable);
	counts->names[counts->len++].count = 1;
}

static int compare_counts(const void *a, const void *b)
{
	const struct name_count *x = a, *y = b;

	return cmp_int(y->count, x->count) ?: strcmp(x->name, y->name);
}

void name_counts_print(struct name_counts *counts, FILE *out)
{
	qsort(counts->names, counts->len, sizeof(counts->names[0]), compare_counts);
	for (size_t i = 0; i < counts->len; i++)
		fprintf(out, "%s%s %llu", i ? ", " : "", counts->names[i].name,
			(unsigned long long)counts->names[i].count);
	if (counts->others)
		fprintf(out, ", (others) %llu", (unsigned long long)counts->others);
	if (!counts->len)
		fputs("none", out);
}

/* Checks execution traces, of whatever program: docs/execution-trace.md. */

enum { IO_VALUES = 1,
	IO_TYPES = 3 };

struct validate_et_check {
	struct check_report *report;
	struct etrace t;
	uint64_t types[ETRACE_TYPES];
	size_t missing; /* dependencies on nodes that are not in the file */
};

/* Checks three texts, each a JSON array with an element for each tensor. */
static void check_tensors(struct validate_et_check *c, uint64_t message, struct proto_bytes in, const char *what)
{
	size_t len[IO_TYPES + 1] = { 0 };
	struct proto_field f;

	while (proto_next(&in, &f) == 1) {
		struct json_tokener *tokener;
		struct json_object *list;

		if (f.number < IO_VALUES || f.number > IO_TYPES)
			continue;
		tokener = json_tokener_new();
		list = json_tokener_parse_ex(tokener, (const char *)f.bytes.p, (int)proto_len(f.bytes));
		if (json_object_is_type(list, json_type_array))
			len[f.number] = json_object_array_length(list);
		else
			check_problem(c->report, "message %" PRIu64 ": %s: field %" PRIu64 " is not a JSON array", message, what, f.number);
		json_object_put(list);
		json_tokener_free(tokener);
	}
	if (len[1] != len[2] || len[1] != len[3])
		check_problem(c->report, "message %" PRIu64 ": %s: %zu values, %zu shapes and %zu types", message, what, len[1], len[2],
			len[3]);
}

static int check_node(void *ctx, const struct etrace_node *n)
{
	struct validate_et_check *c = ctx;
	const char *unit = c->t.kind == FILE_EXECUTION_TRACE ? "message" : "line";

	if (n->wrong)
		check_problem(c->report, "%s %" PRIu64 ": %s", unit, n->number, n->wrong);
	if (!n->name_len)
		check_problem(c->report, "%s %" PRIu64 ": node %" PRIu64 " has no name", unit, n->number, n->id);
	if (c->t.kind == FILE_ET_PYTORCH && !n->has_control)
		check_problem(c->report, "%s %" PRIu64 ": node %" PRIu64 " has no ctrl_deps", unit, n->number, n->id);
	if (n->type && n->type < ETRACE_TYPES)
		c->types[n->type]++;
	else if (c->t.kind != FILE_ET_PYTORCH)
		check_problem(c->report, "%s %" PRIu64 ": node %" PRIu64 " has the type %" PRIu64 ", which there is not", unit, n->number,
			n->id, n->type);
	/* other programs write any text: Chakra's converter has lists in Python's notation */
	if (c->t.own) {
		check_tensors(c, n->number, n->inputs, "inputs");
		check_tensors(c, n->number, n->outputs, "outputs");
	}
	return 0;
}

/*
 * Checks that data dependencies are on nodes in the file. Control dependencies are checked only in inftrace's own files:
 * Chakra's feeder ignores them, and its converter and PyTorch leave out nodes that others have them on.
 */
static void check_edges(struct validate_et_check *c)
{
	const struct etrace_edge *e = c->t.edges;

	for (size_t i = 0; i < c->t.n_edges; i++, e++) {
		if (!etrace_find(&c->t, e->to)) {
			c->missing++;
			if (!e->control || c->t.own)
				check_problem(c->report, "node %" PRIu64 " depends on %" PRIu64 ", which is not in the file", e->from, e->to);
		} else if (i && !e->control && !e[-1].control && e[-1].to == e->to && e[-1].from == e->from) {
			check_problem(c->report, "node %" PRIu64 " depends on %" PRIu64 " twice, of which Chakra's feeder ends one only", e->from,
				e->to);
		}
	}
}

static void check_graph(struct validate_et_check *c)
{
	etrace_sort(&c->t);
	for (size_t i = 1; i < c->t.n_nodes; i++) {
		if (c->t.nodes[i].id == c->t.nodes[i - 1].id)
			check_problem(c->report, "node %" PRIu64 " is in the file twice", c->t.nodes[i].id);
	}
	check_edges(c);
	if (etrace_find_cycle(&c->t))
		check_problem(c->report, "%s", c->t.why);
}

static void summary_print(const struct validate_et_check *c, const char *path, FILE *out)
{
	static const char *const kinds[] = {
		[FILE_EXECUTION_TRACE] = "",
		[FILE_ET_PYTORCH] = " of PyTorch",
		[FILE_ET_FEEDER] = " in the JSON of Chakra's feeder",
		[FILE_ET_JSONIZER] = " in the JSON of Chakra's jsonizer",
	};
	const char *between = ": ";

	fprintf(out, "%s: execution trace%s, %zu nodes, %zu dependencies", path, kinds[c->t.kind], c->t.n_nodes, c->t.n_edges - c->missing);
	for (size_t i = 0; i < ETRACE_TYPES; i++) {
		if (!c->types[i])
			continue;
		fprintf(out, "%s%s %" PRIu64, between, etrace_types[i], c->types[i]);
		between = ", ";
	}
	if (c->missing)
		fprintf(out, "; %zu dependencies on nodes that are not in it", c->missing);
	if (c->t.torn)
		fputs("; the last message is cut off, as of a recording that goes on or was killed", out);
	check_summary_end(c->report, out);
}

void check_execution_trace(struct json_source *source, enum file_kind kind, const char *path, struct check_report *report, FILE *out)
{
	struct validate_et_check c = { .report = report, .t.kind = kind };
	int err = etrace_read(&c.t, source, check_node, &c);

	if (err)
		check_problem(report, "%s", c.t.why);
	else
		check_graph(&c);
	if (!err && kind == FILE_ET_PYTORCH && !c.t.schema)
		check_problem(report, "has no schema");
	if (!err || c.t.n_nodes)
		summary_print(&c, path, out);
	etrace_clear(&c.t);
}
