// SPDX-License-Identifier: BSD-2-Clause
#include "report/gpu.h"

#include <stdio.h>

#include "report/json.h"
#include "report/model.h"
#include "report/read.h"
#include "report/report.h"
#include "report/text_page.h"
#include "report/words.h"
#include "util/text.h"

static const struct {
	const char *key, *name, *bound;
} parts[GPU_PART_MAX] = {
	[GPU_PART_BUSY] = { "gpu_busy_us", "busy", "GPU-bound" },
	[GPU_PART_COPY] = { "gpu_copy_us", "copy", "copy-bound" },
	[GPU_PART_IDLE_LAUNCH] = { "gpu_idle_launch_us", "idle_launch", "launch-bound" },
	[GPU_PART_IDLE_WAIT] = { "gpu_idle_wait_us", "idle_wait", "bound by waits of the GPU" },
	[GPU_PART_UNKNOWN] = { "gpu_unknown_us", "unknown", "not known" },
};

static struct gpu_phase *find_phase(struct gpu_phases *g, uint32_t phase)
{
	for (size_t i = 0; i < g->n; i++) {
		if (g->list[i].phase == phase)
			return &g->list[i];
	}
	if (g->n == GPU_PHASES_MAX)
		return &g->list[GPU_PHASES_MAX - 1];
	g->list[g->n].phase = phase;
	return &g->list[g->n++];
}

void gpu_phases_add(struct gpu_phases *g, uint32_t phase, int64_t total_ns, const struct json_node *shape)
{
	int64_t ns[GPU_PART_MAX], sum = 0;
	uint32_t kernels = 0, copies = 0;
	struct gpu_phase *p;

	if (node_is(node_get(shape, "gpu_lost"), JSON_TRUE)) {
		find_phase(g, phase)->lost++;
		return;
	}
	for (int i = 0; i < GPU_PART_MAX; i++) {
		if (!read_us(node_get(shape, parts[i].key), &ns[i]))
			return;
		sum = ns_add(sum, ns[i]);
	}
	if (sum != total_ns) /* a share of it would be wrong */
		return;
	read_u32(node_get(shape, "gpu_kernels"), &kernels);
	read_u32(node_get(shape, "gpu_copies"), &copies);
	p = find_phase(g, phase);
	p->steps++;
	p->kernels += kernels;
	p->copies += copies;
	p->total = ns_add(p->total, total_ns);
	for (int i = 0; i < GPU_PART_MAX; i++)
		p->part[i] = ns_add(p->part[i], ns[i]);
}

const char *gpu_bound(const struct gpu_phase *p)
{
	int most = 0;

	for (int i = 1; i < GPU_PART_MAX; i++) {
		if (p->part[i] > p->part[most])
			most = i;
	}
	return p->part[most] > 0 ? parts[most].bound : NULL;
}

static void put_phase(const struct page *page, const struct gpu_phase *p)
{
	static const char *const words[GPU_PART_MAX] = {
		[GPU_PART_BUSY] = "kernels",
		[GPU_PART_COPY] = "copies",
		[GPU_PART_IDLE_LAUNCH] = "idle: launch",
		[GPU_PART_IDLE_WAIT] = "idle: waits",
		[GPU_PART_UNKNOWN] = "not known",
	};
	char name[64], d[DURATION_MAX];
	const char *bound = gpu_bound(p);

	text_printable(name, sizeof(name), p->phase ? model_text(page->m, p->phase) : "steps");
	fprintf(page->out, "\nWhat the GPU did in %s%s%s\n", name, bound ? ": " : "", bound ? bound : "");
	for (int i = 0; i < GPU_PART_MAX; i++) {
		double share = page_share(p->part[i], p->total);

		if (!p->part[i])
			continue;
		fprintf(page->out, "  %-15s%6.2f %% ", words[i], 100 * share);
		page_bar(page, share, PAGE_BAR);
		fprintf(page->out, "%8s\n", words_duration(d, p->part[i] / (int64_t)p->steps));
	}
	if (p->steps)
		fprintf(page->out, "  %.1f kernels, %.1f copies a step\n", (double)p->kernels / (double)p->steps,
			(double)p->copies / (double)p->steps);
	if (p->lost)
		fprintf(page->out, "  of %llu of %llu steps it is not known: records of the GPU are missing\n", (unsigned long long)p->lost,
			(unsigned long long)(p->lost + p->steps));
}

void page_gpu(const struct page *page, const struct gpu_phases *g)
{
	for (size_t i = 0; i < g->n; i++)
		put_phase(page, &g->list[i]);
}

struct json_object *gpu_array(struct json_build *b, const struct model *m, const struct gpu_phases *g)
{
	struct json_object *array = json_new_array(b);

	for (size_t i = 0; i < g->n; i++) {
		const struct gpu_phase *p = &g->list[i];
		struct json_object *o = json_new_object(b), *us = json_new_object(b);
		const char *bound = gpu_bound(p);

		if (p->phase)
			json_put_text(b, o, "phase", model_text(m, p->phase));
		json_put_u64(b, o, "steps", p->steps);
		json_put_u64(b, o, "steps_with_loss", p->lost);
		json_put_u64(b, o, "kernels", p->kernels);
		json_put_u64(b, o, "copies", p->copies);
		if (bound)
			json_put_text(b, o, "bound", bound);
		json_put_us(b, us, "total", p->total);
		for (int k = 0; k < GPU_PART_MAX; k++)
			json_put_us(b, us, parts[k].name, p->part[k]);
		json_put(b, o, "gpu_us", us);
		json_append(b, array, o);
	}
	return array;
}
