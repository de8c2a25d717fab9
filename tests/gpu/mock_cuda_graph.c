// SPDX-License-Identifier: BSD-2-Clause
/* Events, and graphs that are captured from streams, of a GPU that does not exist: see mock.h. */
#define _GNU_SOURCE
#include "mock_cuda.h"

#include <stdlib.h>
#include <string.h>

struct event {
	uint64_t at; /* when all that was launched before it has run */
	struct graph *captured_by;
};

static uint32_t graph_count;

/* ---- events ---- */

API cuEventCreate(struct event **ret, unsigned int flags)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : OUT_OF_MEMORY;
}

API cuEventDestroy_v2(struct event *e)
{
	free(e);
	return 0;
}

API cuEventRecord(struct event *e, struct stream *s)
{
	e->at = __atomic_load_n(&mock_stream(s)->busy_until, __ATOMIC_RELAXED);
	e->captured_by = mock_stream(s)->captured_by;
	return 0;
}

API cuEventQuery(struct event *e)
{
	return mock_cuda_now() < e->at ? NOT_READY : 0;
}

API cuEventSynchronize(struct event *e)
{
	return mock_wait(e->at);
}

API cuEventElapsedTime_v2(float *ret_ms, struct event *from, struct event *to)
{
	*ret_ms = (float)((double)(int64_t)(to->at - from->at) / 1e6);
	return 0;
}

API cuStreamWaitEvent(struct stream *s, struct event *e, unsigned int flags)
{
	struct stream *of = mock_stream(s);

	if (e->captured_by)
		of->captured_by = e->captured_by;
	else if (e->at > of->busy_until)
		__atomic_store_n(&of->busy_until, e->at, __ATOMIC_RELAXED);
	return 0;
}

/* ---- capture ---- */

API cuStreamBeginCapture_v2(struct stream *s, int mode)
{
	struct graph *g = calloc(1, sizeof(*g));

	mock_stream(s)->captured_by = g;
	return g ? 0 : OUT_OF_MEMORY;
}

API cuStreamEndCapture(struct stream *s, struct graph **ret)
{
	*ret = mock_stream(s)->captured_by;
	if (!*ret)
		return 1;
	mock_end_capture(*ret);
	return 0;
}

API cuStreamIsCapturing(struct stream *s, int *ret)
{
	*ret = mock_stream(s)->captured_by != NULL;
	return 0;
}

void mock_graph_add(struct graph *g, const struct mock_work *w, uint64_t ns)
{
	if (g->count == g->room) {
		g->room = g->room ? 2 * g->room : 64;
		g->nodes = realloc(g->nodes, g->room * sizeof(*g->nodes));
		if (!g->nodes)
			abort();
	}
	g->nodes[g->count].work = *w;
	g->nodes[g->count++].ns = ns;
}

/* ---- graphs ---- */

static void graph_copy(struct graph *to, const struct graph *from)
{
	free(to->nodes);
	to->nodes = NULL;
	to->count = to->room = 0;
	for (uint32_t i = 0; i < from->count; i++)
		mock_graph_add(to, &from->nodes[i].work, from->nodes[i].ns);
}

API cuGraphInstantiateWithFlags(struct graph **ret, struct graph *g, unsigned long long flags)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return OUT_OF_MEMORY;
	(*ret)->id = __atomic_add_fetch(&graph_count, 1, __ATOMIC_RELAXED);
	graph_copy(*ret, g);
	return 0;
}

/* As the real one: only where it has as many nodes. */
API cuGraphExecUpdate_v2(struct graph *executable, struct graph *g, void *ret_info)
{
	if (executable->count != g->count)
		return 910;
	graph_copy(executable, g);
	return 0;
}

API cuGraphDestroy(struct graph *g)
{
	free(g->nodes);
	free(g);
	return 0;
}

API cuGraphExecDestroy(struct graph *executable)
{
	return cuGraphDestroy(executable);
}

API cuGraphLaunch(struct graph *executable, struct stream *s)
{
	struct mock_work whole = { .kind = MOCK_GRAPH, .graph = executable->id };
	uint32_t correlation = 0;

	for (uint32_t i = 0; i < executable->count; i++) {
		struct mock_work w = executable->nodes[i].work;

		w.graph = executable->id;
		w.graph_node = (uint64_t)executable->id << 32 | (i + 1);
		w.correlation = correlation;
		mock_run(&w, mock_stream(s), executable->nodes[i].ns);
		correlation = w.correlation;
		whole.start = whole.start ? whole.start : w.start;
	}
	/* as a whole: from the start of its first node to the end of its last, which it does not extend */
	whole.correlation = correlation;
	mock_run(&whole, mock_stream(s), 0);
	return 0;
}
