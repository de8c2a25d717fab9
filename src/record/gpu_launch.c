// SPDX-License-Identifier: BSD-2-Clause
#include "record/gpu_launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/check.h"

enum launch_arg {
	ARG_GRID_X,
	ARG_GRID_Y,
	ARG_GRID_Z,
	ARG_BLOCK_X,
	ARG_BLOCK_Y,
	ARG_BLOCK_Z,
	ARG_STREAM,
	ARG_BYTES,
	ARG_WIDTH,
	ARG_HEIGHT,
	ARG_DEPTH,
	ARG_EVENT,
	ARGS,
};

static const char *const arg_names[ARGS] = {
	[ARG_GRID_X] = "grid_x",
	[ARG_GRID_Y] = "grid_y",
	[ARG_GRID_Z] = "grid_z",
	[ARG_BLOCK_X] = "block_x",
	[ARG_BLOCK_Y] = "block_y",
	[ARG_BLOCK_Z] = "block_z",
	[ARG_STREAM] = "stream_handle",
	[ARG_BYTES] = "bytes",
	[ARG_WIDTH] = "width",
	[ARG_HEIGHT] = "height",
	[ARG_DEPTH] = "depth",
	[ARG_EVENT] = "event",
};

#define KNOWN_MAX 4096 /* probes */

/* Where a probe has which argument, since names are compared once only. */
struct places {
	bool known;
	bool is_nccl;    /* which launches through CUDA, as late as at the end of a group: its calls are no launches themselves */
	int8_t at[ARGS]; /* -1: it does not have it */
};

struct gpu_launches {
	struct places by_id[KNOWN_MAX];
};

int gpu_launches_new(struct gpu_launches **ret_launches)
{
	*ret_launches = calloc(1, sizeof(**ret_launches));
	return *ret_launches ? 0 : -ENOMEM;
}

void gpu_launches_free(struct gpu_launches *gl)
{
	free(gl);
}

static const struct places *places_of(struct gpu_launches *gl, const struct probe_spec *s, uint32_t id)
{
	struct places *p = id < KNOWN_MAX ? &gl->by_id[id] : NULL;

	if (!p || p->known)
		return p;
	p->known = true;
	p->is_nccl = !strncmp(s->symbol, "nccl", strlen("nccl"));
	for (int k = 0; k < ARGS; k++) {
		p->at[k] = -1;
		for (unsigned int i = 0; i < s->nargs; i++) {
			if (!strcmp(s->args[i].name, arg_names[k]))
				p->at[k] = (int8_t)i;
		}
	}
	return p;
}

static bool get(const struct places *p, const struct probe_spec *s, const struct rec_function *r, enum launch_arg arg,
	uint64_t *ret_value)
{
	int at = p->at[arg];

	if (at < 0 || !check_shown(s, (unsigned int)at, r->vals))
		return false;
	*ret_value = r->vals[at];
	return true;
}

static bool get_three(const struct places *p, const struct probe_spec *s, const struct rec_function *r, enum launch_arg first,
	uint32_t ret[3])
{
	uint64_t v;

	for (int i = 0; i < 3; i++) {
		if (!get(p, s, r, first + (enum launch_arg)i, &v))
			return false;
		ret[i] = (uint32_t)v;
	}
	return true;
}

static bool get_bytes(const struct places *p, const struct probe_spec *s, const struct rec_function *r, uint64_t *ret_bytes)
{
	uint64_t width, height, depth = 1;

	if (get(p, s, r, ARG_BYTES, ret_bytes))
		return true;
	if (!get(p, s, r, ARG_WIDTH, &width) || !get(p, s, r, ARG_HEIGHT, &height))
		return false;
	get(p, s, r, ARG_DEPTH, &depth);
	*ret_bytes = width * height * depth;
	return true;
}

/* Two handles are no addresses: 1 stands for the same stream as 0 does, and 2 for one that each thread has of its own. */
static uint64_t stream_of(uint64_t handle, uint32_t tid)
{
	return handle == 1 ? 0 : handle == 2 ? 2 | (uint64_t)tid << 32
					     : handle;
}

bool gpu_launch_get(struct gpu_launches *gl, const struct probe_spec *s, const struct rec_function *r, struct launch *ret_launch)
{
	const struct places *p = places_of(gl, s, r->h.id);
	struct launch l = { .start_ns = r->h.start_ns, .end_ns = r->h.start_ns + r->h.dur_ns, .tid = r->h.tid };

	if (!p || p->is_nccl || r->h.flags & REC_F_OPEN_END)
		return false;
	switch (s->role) {
	case ROLE_LAUNCH:
		l.kind = LAUNCH_KERNEL;
		l.has_shape = get_three(p, s, r, ARG_GRID_X, l.grid) && get_three(p, s, r, ARG_BLOCK_X, l.block);
		break;
	case ROLE_GRAPH:
		if (!(s->flags & PROBE_F_GRAPH)) /* that of an engine */
			return false;
		l.kind = LAUNCH_GRAPH;
		break;
	case ROLE_TRANSFER:
		l.kind = LAUNCH_COPY;
		l.has_bytes = get_bytes(p, s, r, &l.bytes);
		break;
	case ROLE_CAPTURE:
		l.kind = LAUNCH_CAPTURE;
		break;
	case ROLE_CAPTURE_END:
		l.kind = LAUNCH_CAPTURE_END;
		break;
	default:
		return false;
	}
	l.has_stream = get(p, s, r, ARG_STREAM, &l.stream);
	l.stream = stream_of(l.stream, r->h.tid);
	*ret_launch = l;
	return true;
}

void gpu_launch_wait(struct gpu_launches *gl, const struct probe_spec *s, const struct rec_function *r, struct gpu_process *proc)
{
	const struct places *p = places_of(gl, s, r->h.id);
	uint64_t stream, event;
	bool has_stream;

	if (!p || p->is_nccl || r->h.flags & (REC_F_OPEN_START | REC_F_OPEN_END) || get(p, s, r, ARG_EVENT, &event))
		return;
	has_stream = get(p, s, r, ARG_STREAM, &stream);
	stream = has_stream ? stream_of(stream, r->h.tid) : 0;
	gpu_process_wait(proc, has_stream ? &stream : NULL, r->h.start_ns, r->h.start_ns + r->h.dur_ns);
}
