// SPDX-License-Identifier: BSD-2-Clause
#include "sink/request_gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sink/gpu.h"
#include "sink/profile_line.h"
#include "util/map.h"

enum own {
	OWN_PREFILL,
	OWN_DECODE,
	OWN_MAX,
};

static const char *const prefixes[OWN_MAX] = { [OWN_PREFILL] = "own_prefill_", [OWN_DECODE] = "own_decode_" };

struct part {
	uint32_t serial;
	enum own own;
	uint64_t others_ns;
};

/* A step whose GPU is not known, or not all of its parts. */
struct step {
	UT_hash_handle hh;
	uint32_t number;
	bool is_told, has_gpu;
	struct rec_gpu_step gpu;
	struct part parts[STEP_PARTS_MAX];
	size_t n;
};

struct request {
	UT_hash_handle hh;
	uint32_t serial;
	uint32_t waits; /* for so many steps */
	uint64_t ns[OWN_MAX][GPU_PART_MAX];
	bool unknown[OWN_MAX];
};

struct request_gpu {
	struct step *steps; /* the oldest first */
	struct request *requests;
};

int request_gpu_new(struct request_gpu **ret_gpu)
{
	*ret_gpu = calloc(1, sizeof(**ret_gpu));
	return *ret_gpu ? 0 : -ENOMEM;
}

static void free_step(struct request_gpu *g, struct step *s)
{
	HASH_DEL(g->steps, s);
	free(s);
}

static void free_request(struct request_gpu *g, struct request *r)
{
	HASH_DEL(g->requests, r);
	free(r);
}

void request_gpu_free(struct request_gpu *g)
{
	if (!g)
		return;
	while (g->steps)
		free_step(g, g->steps);
	while (g->requests)
		free_request(g, g->requests);
	free(g);
}

static struct request *find_request(const struct request_gpu *g, uint32_t serial)
{
	struct request *r;

	HASH_FIND(hh, g->requests, &serial, sizeof(serial), r);
	return r;
}

/* NULL: no memory */
static struct request *get_request(struct request_gpu *g, uint32_t serial)
{
	struct request *r = find_request(g, serial);

	if (r)
		return r;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->serial = serial;
	HASH_ADD(hh, g->requests, serial, sizeof(serial), r);
	if (r->hh.tbl)
		return r;
	free(r);
	return NULL;
}

/* The share of others in each part of the GPU, as in each state of the step. */
static void add_part(struct request_gpu *g, const struct part *p, const struct rec_gpu_step *gpu)
{
	struct request *r = find_request(g, p->serial);
	uint64_t until = 0, given = 0;

	if (!r)
		return;
	if (!gpu || gpu->h.flags & GPU_STEP_F_LOST || p->others_ns > gpu->h.dur_ns) {
		r->unknown[p->own] = true;
		return;
	}
	for (int i = 0; i < GPU_PART_MAX && gpu->h.dur_ns; i++) {
		uint64_t of_others;

		until += gpu->ns[i];
		of_others = (uint64_t)((unsigned __int128)p->others_ns * until / gpu->h.dur_ns) - given;
		given += of_others;
		r->ns[p->own][i] += gpu->ns[i] - of_others;
	}
}

/* gpu NULL: it will not be known. */
static void add_parts(struct request_gpu *g, struct step *s, const struct rec_gpu_step *gpu)
{
	for (size_t i = 0; i < s->n; i++) {
		struct request *r = find_request(g, s->parts[i].serial);

		add_part(g, &s->parts[i], gpu);
		if (r)
			r->waits--;
	}
	s->n = 0;
}

static struct step *find_step(const struct request_gpu *g, uint32_t number)
{
	struct step *s;

	HASH_FIND(hh, g->steps, &number, sizeof(number), s);
	return s;
}

/* NULL: no memory */
static struct step *get_step(struct request_gpu *g, uint32_t number)
{
	struct step *s = find_step(g, number);

	if (s)
		return s;
	if (HASH_COUNT(g->steps) == REQUEST_GPU_STEPS_MAX) {
		add_parts(g, g->steps, NULL);
		free_step(g, g->steps);
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->number = number;
	HASH_ADD(hh, g->steps, number, sizeof(number), s);
	if (s->hh.tbl)
		return s;
	free(s);
	return NULL;
}

void request_gpu_part(
	struct request_gpu *g, const struct step_request *r, const struct step_seen *s, const struct request_part *p, bool expected)
{
	struct request *of = get_request(g, r->serial);
	const struct part part = { r->serial, p->prompt ? OWN_PREFILL : OWN_DECODE, p->others_ns };
	struct step *step = find_step(g, s->number);

	if (!of)
		return;
	if (!step && expected)
		step = get_step(g, s->number);
	if (step && step->has_gpu) {
		add_part(g, &part, &step->gpu);
	} else if (step && step->n < STEP_PARTS_MAX) {
		step->parts[step->n++] = part;
		of->waits++;
	} else {
		of->unknown[part.own] = true;
	}
}

void request_gpu_told(struct request_gpu *g, const struct step_seen *s)
{
	struct step *step = find_step(g, s->number);

	if (!step)
		return;
	step->is_told = true;
	if (step->has_gpu)
		free_step(g, step);
}

void request_gpu_step(struct request_gpu *g, const struct rec_gpu_step *r)
{
	struct step *step = get_step(g, r->step);

	if (!step)
		return;
	step->gpu = *r;
	step->has_gpu = true;
	add_parts(g, step, r);
	if (step->is_told)
		free_step(g, step);
}

bool request_gpu_waits(const struct request_gpu *g, uint32_t serial)
{
	const struct request *r = find_request(g, serial);

	return r && r->waits;
}

char *request_gpu_end(struct request_gpu *g, char *p, uint32_t serial, bool shown)
{
	struct request *r = find_request(g, serial);

	if (!r)
		return p;
	for (int own = 0; own < OWN_MAX && shown && !r->waits; own++) {
		for (int i = 0; i < GPU_PART_MAX && !r->unknown[own]; i++) {
			if (r->ns[own][i])
				p = fmt_us(profile_add_key(p, prefixes[own], gpu_part_key(i)), r->ns[own][i]);
		}
	}
	free_request(g, r);
	return p;
}
