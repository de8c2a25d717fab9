// SPDX-License-Identifier: BSD-2-Clause
#include "../program.h"

#include "nodes.h"

#include "run.h"

#include <ctype.h>

/* ggml.h of ggml 0.25.1 (llama.cpp v0.5.0); checked for each tensor against ggml's own functions. */
struct tensor {
	int32_t type;
	void *buffer;
	int64_t ne[4];
	size_t nb[4];
	int32_t op;
	int32_t op_params[16];
	int32_t flags;
	struct tensor *src[10];
	struct tensor *view_src;
	size_t view_offs;
	char *data;
	char name[64];
	void *extra;
	char padding[8];
};

_Static_assert(sizeof(struct tensor) == 336, "ggml_tensor");

#define NODE_FUNCTIONS(X)                                       \
	X(const char *, ggml_op_name, (int))                    \
	X(const char *, ggml_type_name, (int))                  \
	X(const char *, ggml_get_name, (const struct tensor *)) \
	X(void *, ggml_get_data, (const struct tensor *))       \
	X(int64_t, ggml_nelements, (const struct tensor *))     \
	X(int64_t, ggml_nrows, (const struct tensor *))

struct node_log {
	FILE *f;
	unsigned int step;
	bool misfit;
#define DECLARE(ret, name, params) ret(*name) params;
	NODE_FUNCTIONS(DECLARE)
#undef DECLARE
};

int node_log_open(const char *path, struct node_log **ret_log)
{
	struct node_log *log = calloc(1, sizeof(*log));

	if (!log)
		return run_fail("out of memory");
#define LOAD(ret, name, params)                                                    \
	*(void **)&log->name = dlsym(RTLD_DEFAULT, #name);                         \
	if (!log->name) {                                                          \
		free(log);                                                         \
		return run_fail("no %s; this driver knows release v0.5.0", #name); \
	}
	NODE_FUNCTIONS(LOAD)
#undef LOAD
	log->f = fopen(path, "we");
	if (!log->f) {
		free(log);
		return run_fail("%s: %s", path, strerror(errno));
	}
	*ret_log = log;
	return 0;
}

void node_log_step(struct node_log *log, unsigned int step)
{
	log->step = step;
}

static bool fits(const struct node_log *log, const struct tensor *t)
{
	const int64_t *ne = t->ne;

	return log->ggml_get_name(t) == t->name && log->ggml_get_data(t) == t->data &&
	       log->ggml_nelements(t) == ne[0] * ne[1] * ne[2] * ne[3] &&
	       log->ggml_nrows(t) == ne[1] * ne[2] * ne[3];
}

/* Our own names need no escaping; those from a model might. */
static void text_print(const struct node_log *log, const char *key, const char *text, bool lower)
{
	fprintf(log->f, "\"%s\":\"", key);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
			c = '?';
		fputc(lower ? tolower(c) : c, log->f);
	}
	fputc('"', log->f);
}

static void tensor_print(const struct node_log *log, const struct tensor *t)
{
	text_print(log, "name", t->name, false);
	fputc(',', log->f);
	text_print(log, "type", log->ggml_type_name(t->type), true);
	fprintf(log->f, ",\"ne\":[%lld,%lld,%lld,%lld]", (long long)t->ne[0], (long long)t->ne[1],
		(long long)t->ne[2], (long long)t->ne[3]);
}

/* One row of 32-bit ids for each token; rows may be further apart than they are long. */
static void ids_print(const struct node_log *log, const struct tensor *t)
{
	fputs(",\"ids\":[", log->f);
	for (int64_t row = 0; row < t->ne[1]; row++) {
		const int32_t *ids = (const int32_t *)(t->data + (size_t)row * t->nb[1]);

		fputs(row ? ",[" : "[", log->f);
		for (int64_t i = 0; i < t->ne[0]; i++)
			fprintf(log->f, "%s%d", i ? "," : "", ids[i]);
		fputc(']', log->f);
	}
	fputc(']', log->f);
}

/* Operators for which no function runs: other views of a result, and what has no elements, such as the outputs of a part of
 * a batch that has none. */
static bool is_empty(const struct node_log *log, const struct tensor *t)
{
	static const char *const names[] = { "NONE", "RESHAPE", "TRANSPOSE", "VIEW", "PERMUTE" };

	if (!log->ggml_nelements(t))
		return true;
	for (size_t i = 0; i < LENGTH(names); i++) {
		if (!strcmp(log->ggml_op_name(t->op), names[i]))
			return true;
	}
	return false;
}

/* The edges of the graph: which operators' results it needs, by the addresses of their nodes. */
static void needs_print(const struct node_log *log, const struct tensor *t)
{
	const char *comma = "";

	fprintf(log->f, ",\"at\":\"%p\",\"empty\":%s,\"needs\":[", (const void *)t, is_empty(log, t) ? "true" : "false");
	for (int i = 0; i < 10; i++) {
		const struct tensor *from = t->src[i];

		while (from && is_empty(log, from))
			from = from->src[0];
		if (!from)
			continue;
		fprintf(log->f, "%s\"%p\"", comma, (const void *)from);
		comma = ",";
	}
	fputc(']', log->f);
}

static void node_print(const struct node_log *log, const struct tensor *t, bool ids)
{
	fprintf(log->f, "{\"step\":%u,", log->step);
	text_print(log, "op", log->ggml_op_name(t->op), true);
	fputc(',', log->f);
	tensor_print(log, t);
	if (t->src[0]) {
		fputs(",\"src0\":{", log->f);
		tensor_print(log, t->src[0]);
		fputc('}', log->f);
	}
	needs_print(log, t);
	if (ids)
		ids_print(log, t);
	fputs("}\n", log->f);
}

bool node_log_eval(void *tensor, bool ask, void *data)
{
	const struct tensor *t = tensor;
	struct node_log *log = data;
	bool chooses;

	if (!fits(log, t) || (t->src[0] && !fits(log, t->src[0]))) {
		log->misfit = true;
		return false;
	}
	chooses = !strncmp(t->name, "ffn_moe_topk", 12);
	if (!ask || !chooses)
		node_print(log, t, !ask);
	return chooses || !ask;
}

int node_log_close(struct node_log *log)
{
	bool misfit = log->misfit, bad = ferror(log->f) != 0;

	bad |= fclose(log->f) != 0;
	free(log);
	if (misfit)
		return run_fail("a tensor is not laid out as in release v0.5.0");
	return bad ? run_fail("the nodes could not be written") : 0;
}
