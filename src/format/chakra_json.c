// SPDX-License-Identifier: BSD-2-Clause
/*
 * Execution traces in PyTorch's own form, as its ExecutionTraceObserver writes them: JSON, in which each node names what it is
 * called by, and the attribute rf_id is the number of the same call in a Kineto trace.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "format/chakra.h"
#include "format/derive.h"
#include "io/writer.h"
#include "util/clock.h"
#include "util/fmt.h"

#define SCHEMA "1.1.0-chakra.0.0.4"
#define ROOT_NAME "[pytorch|profiler|execution_trace|process]"
#define THREAD_NAME "[pytorch|profiler|execution_trace|thread]"
#define SCOPE_USER 7 /* of RecordScope: what is no function */

static char *attr(char *p, const char *name, const char *type, uint64_t v)
{
	p = fmt_str(fmt_lit(p, ",{\"name\":\""), name, strlen(name));
	p = fmt_str(fmt_lit(p, "\",\"type\":\""), type, strlen(type));
	return fmt_lit(fmt_u64(fmt_lit(p, "\",\"value\":"), v), "}");
}

static char *node(char *p, uint64_t id, const char *name, size_t len, uint64_t parent, const struct et_call *c)
{
	p = fmt_u64(fmt_lit(p, "{\"id\":"), id);
	p = fmt_json_str(fmt_lit(p, ",\"name\":"), name, len);
	p = fmt_u64(fmt_lit(p, ",\"ctrl_deps\":"), parent);
	p = et_write_inputs(fmt_lit(p, ",\"inputs\":{\"values\":"), c, ET_VALUES);
	p = et_write_inputs(fmt_lit(p, ",\"shapes\":"), c, ET_SHAPES);
	p = et_write_inputs(fmt_lit(p, ",\"types\":"), c, ET_TYPES);
	p = fmt_lit(p, "},\"outputs\":{\"values\":[],\"shapes\":[],\"types\":[]},\"attrs\":[");
	p = fmt_lit(p, "{\"name\":\"seq_id\",\"type\":\"int64\",\"value\":-1}");
	p = attr(p, "rf_id", "uint64", c->number);
	p = attr(p, "fw_parent", "uint64", 0);
	p = attr(p, "scope", "uint64", c->name ? 0 : SCOPE_USER);
	p = attr(p, "tid", "uint64", c->tid);
	p = attr(p, "fw_tid", "uint64", 0);
	p = fmt_lit(p, ",{\"name\":\"op_schema\",\"type\":\"string\",\"value\":");
	p = c->declared ? fmt_json_str(p, c->declared, strlen(c->declared)) : fmt_lit(p, "\"\"");
	return fmt_lit(p, "}]}");
}

char *et_json_begin(char *p, uint64_t real_ns, uint64_t mono_ns)
{
	time_t when = (time_t)(real_ns / NSEC_PER_SEC);
	char date[24] = "";
	struct tm tm;

	if (localtime_r(&when, &tm))
		strftime(date, sizeof(date), "%F %T", &tm);
	p = fmt_json_str(fmt_lit(p, "{\"schema\":\"" SCHEMA "\",\"time\":"), date, strlen(date));
	p = fmt_lit(fmt_u64(fmt_lit(p, ",\"start_ts\":"), mono_ns / 1000), ",\"nodes\":[\n");
	return node(p, ET_JSON_ROOT, ROOT_NAME, strlen(ROOT_NAME), ET_JSON_ROOT, &(struct et_call){ 0 });
}

void et_json_end(struct writer *w, uint32_t pid, uint64_t mono_ns)
{
	char text[WRITER_TAIL_MAX];

	writer_set_tail(w, text, (size_t)snprintf(text, sizeof(text), "\n],\"pid\":%u,\"finish_ts\":%" PRIu64 "}\n", pid, mono_ns / 1000));
}

char *et_json_thread(char *p, uint64_t id, uint32_t tid)
{
	return node(fmt_lit(p, ",\n"), id, THREAD_NAME, strlen(THREAD_NAME), ET_JSON_ROOT, &(struct et_call){ .tid = tid });
}

char *et_json_call(char *p, const struct et_call *c, uint64_t thread)
{
	size_t len;
	const char *name = operator_name(c->declared, c->name, &len);

	return node(fmt_lit(p, ",\n"), c->id, name, len, c->parent ? c->parent : thread, c);
}
