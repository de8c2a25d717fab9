// SPDX-License-Identifier: BSD-2-Clause
#include "report/costs.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "read/profile.h"
#include "report/output.h"
#include "report/read.h"
#include "util/json_node.h"

#define LINE_BYTES 64 /* of a cache line: x86, and nearly all arm64 (a few have 128) */

/* Adds, but stays at the limit: files may contain any number. */
static uint64_t count_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Takes what one line has: `of` of `all` steps or calls. Without both of the first counters there is nothing to say. */
static void counts_take(struct count_sum *s, const struct json_node *const values[PMU_MAX], uint64_t of, uint64_t all)
{
	s->all = count_add(s->all, all);
	if (!values[COUNTER_INSTRUCTIONS] || !values[COUNTER_CYCLES])
		return;
	s->of = count_add(s->of, of);
	if (values[COUNTER_LLC_MISSES])
		s->missed_of = count_add(s->missed_of, of);
	for (int i = 0; i < PMU_MAX; i++)
		s->n[i] = count_add(s->n[i], values[i] ? node_u64(values[i]) : 0);
}

static struct count_sum *counts_of_phase(struct count_phases *c, uint32_t phase)
{
	size_t i = 0;

	while (i < c->n && c->list[i].phase != phase)
		i++;
	if (i == COUNT_PHASES_MAX)
		i--;
	else if (i == c->n)
		c->list[c->n++] = (struct count_phase){ .phase = phase };
	return &c->list[i].sum;
}

void count_phases_add(struct count_phases *c, uint32_t phase, const struct json_node *shape)
{
	const struct json_node *values[PMU_MAX];

	for (unsigned int i = 0; i < PMU_MAX; i++)
		values[i] = node_get(shape, counter_name(COUNTERS_HARDWARE, i));
	counts_take(counts_of_phase(c, phase), values, 1, 1);
}

bool counts_there(const struct json_node *shape)
{
	json_for_each (value, shape) {
		if (!strncmp(value->key, "cycles_", 7))
			return true;
	}
	return false;
}

static const struct json_node *op_count(
	const struct json_node *shape, const char *prefix, const char *name, const struct json_node **cursor)
{
	char key[256];

	if (snprintf(key, sizeof(key), "%s_%s", prefix, name) >= (int)sizeof(key))
		return NULL;
	return node_get_next(shape, key, cursor);
}

void counts_add_op(
	struct count_sum *s, const struct json_node *shape, const char *name, uint64_t calls, const struct json_node **cursor)
{
	const struct json_node *values[PMU_MAX], *counted;

	for (unsigned int i = 0; i < PMU_MAX; i++)
		values[i] = op_count(shape, counter_name(COUNTERS_HARDWARE, i), name, cursor);
	counted = op_count(shape, "counted", name, cursor);
	counts_take(s, values, counted ? node_u64(counted) : calls, calls);
}

static double per_cycle(const struct count_sum *s, enum hardware_counter i)
{
	return s->n[COUNTER_CYCLES] ? (double)s->n[i] / (double)s->n[COUNTER_CYCLES] : 0;
}

/* Of some it is known, and of others not: then the sum is not that of the whole. */
static bool has_misses(const struct count_sum *s)
{
	return s->of && s->missed_of == s->of;
}

const char *counts_bound(const struct count_sum *s)
{
	double ipc = per_cycle(s, COUNTER_INSTRUCTIONS), bytes = LINE_BYTES * per_cycle(s, COUNTER_LLC_MISSES);

	if (!s->n[COUNTER_CYCLES] || !has_misses(s))
		return NULL;
	if (ipc < 1 && bytes >= 1)
		return "memory-bound";
	return ipc >= 2 && bytes < 1 ? "compute-bound" : NULL;
}

const char *counts_text(const struct count_sum *s, char buf[COUNTS_TEXT_MAX])
{
	int n = 0;

	*buf = 0;
	if (!s->of || !s->n[COUNTER_CYCLES])
		return buf;
	n = snprintf(buf, COUNTS_TEXT_MAX, "%.2f instructions a cycle", per_cycle(s, COUNTER_INSTRUCTIONS));
	if (has_misses(s) && n > 0 && n < COUNTS_TEXT_MAX)
		snprintf(buf + n, (size_t)(COUNTS_TEXT_MAX - n), ", at least %.2f bytes from memory a cycle",
			LINE_BYTES * per_cycle(s, COUNTER_LLC_MISSES));
	return buf;
}

void page_counts(const struct page *page, const struct count_phases *c)
{
	char text[COUNTS_TEXT_MAX];

	for (size_t i = 0; i < c->n; i++) {
		const struct count_sum *s = &c->list[i].sum;
		const char *bound = counts_bound(s);

		if (!*counts_text(s, text))
			continue;
		page_put(page, "\nWhat %s cost the CPU%s%s\n  %s\n", c->list[i].phase ? NAME(page->m, c->list[i].phase) : "steps",
			bound ? ": " : "", bound ?: "", text);
		page_put(page, "  %.1f million instructions a step, on the thread that calls it\n",
			(double)s->n[COUNTER_INSTRUCTIONS] / (double)s->of / 1e6);
		if (s->of < s->all)
			page_put(page, "  of %llu of %llu steps it is not known\n", LLU(s->all - s->of), LLU(s->all));
	}
}

void json_put_counts(struct json_build *b, struct json_object *o, const struct count_sum *s)
{
	if (!s->of || !s->n[COUNTER_CYCLES])
		return;
	json_put_u64(b, o, "counted", s->of);
	for (unsigned int i = 0; i < PMU_MAX; i++) {
		if (i != COUNTER_LLC_MISSES || has_misses(s))
			json_put_u64(b, o, counter_name(COUNTERS_HARDWARE, i), s->n[i]);
	}
	json_put_double(b, o, "ipc", per_cycle(s, COUNTER_INSTRUCTIONS));
	if (counts_bound(s))
		json_put_text(b, o, "bound", counts_bound(s));
}

void json_put_phase_counts(struct json_build *b, struct json_object *o, const struct count_phases *c)
{
	struct json_object *array = NULL, *phase;

	for (size_t i = 0; i < c->n; i++) {
		const struct count_sum *s = &c->list[i].sum;

		if (!s->of || !s->n[COUNTER_CYCLES])
			continue;
		array = array ?: json_put_array(b, o, "counters");
		phase = json_put_object(b, array, NULL);
		json_put_name(b, phase, "phase", c->list[i].phase);
		json_put_u64(b, phase, "steps", s->all);
		json_put_counts(b, phase, s);
	}
}

/* ---- gpu.c ---- */

static const struct {
	const char *key, *name, *shown, *bound;
} parts[GPU_PART_MAX] = {
	[GPU_PART_BUSY] = { "gpu_busy_us", "busy", "kernels", "GPU-bound" },
	[GPU_PART_COPY] = { "gpu_copy_us", "copy", "copies", "copy-bound" },
	[GPU_PART_IDLE_LAUNCH] = { "gpu_idle_launch_us", "idle_launch", "idle: launch", "launch-bound" },
	[GPU_PART_IDLE_WAIT] = { "gpu_idle_wait_us", "idle_wait", "idle: waits", "bound by waits of the GPU" },
	[GPU_PART_COLLECTIVE] = { "gpu_collective_us", "collective", "collectives", "bound by collectives" },
	[GPU_PART_UNKNOWN] = { "gpu_unknown_us", "unknown", "not known", "not known" },
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

void gpu_phases_clear(struct gpu_phases *g)
{
	for (size_t i = 0; i < g->n; i++) {
		for (int k = 0; k < GPU_PHASE_GAPS; k++)
			free(g->list[i].gaps[k].why);
	}
	g->n = 0;
}

/* The member with a name that is put together. */
static const struct json_node *__attribute__((format(printf, 2, 3))) node_with(const struct json_node *shape, const char *fmt, ...)
{
	char key[64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(key, sizeof(key), fmt, ap);
	va_end(ap);
	return node_get(shape, key);
}

/* ---- the longest gaps ---- */

#define SHOWN 72 /* bytes of a name */

/* before `NAME`; nothing if it is not known. Returns how long it is. */
static size_t add_named(char *buf, size_t size, const char *before, const struct json_node *name)
{
	const char *text = node_string(name);
	char shown[SHOWN];
	int n = text && *text ? snprintf(buf, size, "%s`%s`", before, text_printable(shown, sizeof(shown), text)) : 0;

	return n < 0 ? 0 : (size_t)n < size ? (size_t)n
					    : size - 1;
}

/* Where the words for a step that took longer than others do not fit. */
static void add_phrase(char *buf, size_t size, unsigned int state, int64_t ns)
{
	static const char *const own[] = {
		[ST_CPU] = "computed for",
		[ST_GPU_WAIT] = "was still in a call that waits for the GPU for",
		[ST_SYSCALL] = "was in system calls for",
		[ST_FAULT] = "was in page faults for",
	};
	char phrase[PHRASE_MAX];

	if (state < sizeof(own) / sizeof(own[0]) && own[state])
		snprintf(buf, size, "the launching thread %s %s", own[state], DURATION(ns));
	else
		snprintf(buf, size, "the launching thread %s", words_phrase(phrase, state, ns));
}

/* What the launching thread did for most of it; false: not known. */
static bool gap_why(const struct json_node *shape, int number, char buf[GPU_WHY_MAX])
{
	const char *state = node_string(node_with(shape, "gpu_gap%d_state", number));
	unsigned int hint = 0;
	int of = state ? read_state(state, &hint) : -1;
	int64_t ns;
	size_t n;

	if (of < 0 || !read_us(node_with(shape, "gpu_gap%d_%.30s_us", number, words_state((unsigned int)of)), &ns))
		return false;
	add_phrase(buf, GPU_WHY_MAX, (unsigned int)of, ns);
	n = strlen(buf);
	n += add_named(buf + n, GPU_WHY_MAX - n, of == ST_SYSCALL ? ", mostly " : " in ",
		node_with(shape, of == ST_CPU ? "gpu_gap%d_in" : "gpu_gap%d_call", number));
	add_named(buf + n, GPU_WHY_MAX - n, of == ST_RUNNABLE ? " behind " : ", woken by ", node_with(shape, "gpu_gap%d_by", number));
	return true;
}

static void add_gap(struct gpu_phase *p, const struct json_node *shape, int number, uint32_t step)
{
	struct phase_gap gap = { .step = step };
	char why[GPU_WHY_MAX];
	int i;

	if (!read_us(node_with(shape, "gpu_gap%d_us", number), &gap.ns) || gap.ns <= p->gaps[GPU_PHASE_GAPS - 1].ns)
		return;
	if (gap_why(shape, number, why))
		gap.why = strdup(why);
	free(p->gaps[GPU_PHASE_GAPS - 1].why);
	for (i = GPU_PHASE_GAPS - 1; i && p->gaps[i - 1].ns < gap.ns; i--)
		p->gaps[i] = p->gaps[i - 1];
	p->gaps[i] = gap;
}

/* ---- phases ---- */

/* NULL: there are too many. */
static struct phase_device *get_device(struct gpu_phase *p, uint32_t device)
{
	size_t i = 0;

	while (i < p->n_devices && p->devices[i].device < device)
		i++;
	if (i < p->n_devices && p->devices[i].device == device)
		return &p->devices[i];
	if (p->n_devices == GPU_STEP_DEVICES) {
		p->devices_missing = true;
		return NULL;
	}
	memmove(&p->devices[i + 1], &p->devices[i], (p->n_devices++ - i) * sizeof(p->devices[0]));
	p->devices[i] = (struct phase_device){ .device = device };
	return &p->devices[i];
}

/* What the step says of a device, in keys that begin with `prefix`. */
static void add_device(struct gpu_phase *p, uint32_t device, const char *prefix, int64_t total_ns, const struct json_node *shape)
{
	int64_t ns[GPU_PART_MAX] = { 0 }, sum = 0, after = 0;
	uint32_t kernels = 0, copies = 0;
	struct phase_device *d;

	for (int i = 0; i < GPU_PART_MAX; i++) {
		read_us(node_with(shape, "%s%s", prefix, parts[i].key + strlen("gpu_")), &ns[i]);
		sum = ns_add(sum, ns[i]);
	}
	d = sum == total_ns ? get_device(p, device) : NULL;
	if (!d)
		return;
	read_u32(node_with(shape, "%skernels", prefix), &kernels);
	read_u32(node_with(shape, "%scopies", prefix), &copies);
	read_us(node_with(shape, "%safter_us", prefix), &after);
	d->kernels += kernels;
	d->copies += copies;
	d->total = ns_add(d->total, total_ns);
	d->after = ns_add(d->after, after);
	for (int i = 0; i < GPU_PART_MAX; i++)
		d->part[i] = ns_add(d->part[i], ns[i]);
}

static void add_devices(struct gpu_phase *p, int64_t total_ns, int64_t nothing_ns, const struct json_node *shape)
{
	uint32_t n = 0, device = 0;
	char prefix[32];

	if (read_u32(node_get(shape, "gpu_devices"), &n)) {
		p->devices_missing |= n > GPU_STEP_DEVICES;
		json_for_each (value, shape) {
			const char *key = profile_key_numbered(value->key, "gpu_device", &device);

			if (!key || strcmp(key, "kernels") != 0) /* which each has */
				continue;
			snprintf(prefix, sizeof(prefix), "gpu_device%u_", device);
			add_device(p, device, prefix, total_ns, shape);
		}
	} else if (read_u32(node_get(shape, "gpu_device"), &device) && nothing_ns != total_ns) {
		add_device(p, device, "gpu_", total_ns, shape); /* it has the parts of the step; one that did nothing is any of them */
	}
}

void gpu_phases_add(struct gpu_phases *g, uint32_t phase, uint32_t step, int64_t total_ns, const struct json_node *shape)
{
	int64_t ns[GPU_PART_MAX], sum = 0;
	uint32_t kernels = 0, copies = 0;
	struct gpu_phase *p;
	int64_t after;

	if (node_is(node_get(shape, "gpu_lost"), JSON_TRUE)) {
		find_phase(g, phase)->lost++;
		return;
	}
	for (int i = 0; i < GPU_PART_MAX; i++) {
		const struct json_node *part = node_get(shape, parts[i].key);

		ns[i] = 0;
		if (!read_us(part, &ns[i]) && (part || i != GPU_PART_COLLECTIVE))
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
	if (read_us(node_get(shape, "gpu_after_us"), &after))
		p->after = ns_add(p->after, after);
	for (int i = 0; i < GPU_PART_MAX; i++)
		p->part[i] = ns_add(p->part[i], ns[i]);
	for (int i = 1; i <= GPU_GAPS; i++)
		add_gap(p, shape, i, step);
	add_devices(p, total_ns, ns[GPU_PART_IDLE_LAUNCH], shape);
}

const char *gpu_bound(const struct gpu_phase *p)
{
	int64_t busy = ns_add(p->part[GPU_PART_BUSY], p->after);
	int most = GPU_PART_BUSY;

	for (int i = 0; i < GPU_PART_MAX; i++) {
		if (p->part[i] > (most == GPU_PART_BUSY ? busy : p->part[most]))
			most = i;
	}
	return busy > 0 || p->part[most] > 0 ? parts[most].bound : NULL;
}

/* Of a phase with several devices. A step that says nothing of one had nothing for it. */
static int64_t device_part(const struct gpu_phase *p, const struct phase_device *d, int part)
{
	bool nothing = part == (p->devices_missing ? GPU_PART_UNKNOWN : GPU_PART_IDLE_LAUNCH);

	return nothing ? ns_add(d->part[part], p->total - d->total) : d->part[part];
}

static void put_devices(const struct page *page, const struct gpu_phase *p)
{
	for (size_t i = 0; i < p->n_devices && p->n_devices > 1; i++) {
		const struct phase_device *d = &p->devices[i];
		const char *before = "  ";

		page_put(page, "  GPU %-2u", d->device);
		for (int k = 0; k < GPU_PART_MAX; k++) {
			int64_t ns = device_part(p, d, k);

			if (!ns)
				continue;
			page_put(page, "%s%s %.2f %%", before, parts[k].shown, 100 * page_share(ns, p->total));
			before = ", ";
		}
		if (d->after)
			page_put(page, "; after the step for another %s", DURATION(d->after / (int64_t)p->steps));
		page_put(page, "\n");
	}
}

static void put_phase(const struct page *page, const struct gpu_phase *p)
{
	const char *bound = gpu_bound(p);

	page_put(page, "\nWhat the GPU%s did in %s%s%s\n", p->n_devices > 1 ? "s" : "", p->phase ? NAME(page->m, p->phase) : "steps",
		bound ? ": " : "", bound ?: "");
	for (int i = 0; i < GPU_PART_MAX; i++) {
		double share = page_share(p->part[i], p->total);

		if (!p->part[i])
			continue;
		page_put(page, "  %-15s%6.2f %% ", parts[i].shown, 100 * share);
		page_bar(page, share, PAGE_BAR);
		page_put(page, "%8s\n", DURATION(p->part[i] / (int64_t)p->steps));
	}
	if (p->after)
		page_put(page, "  after the step the GPU worked for another %s on what the step had launched\n",
			DURATION(p->after / (int64_t)p->steps));
	if (p->steps)
		page_put(page, "  %.1f kernels, %.1f copies a step\n", (double)p->kernels / (double)p->steps,
			(double)p->copies / (double)p->steps);
	put_devices(page, p);
	for (int i = 0; i < GPU_PHASE_GAPS && p->gaps[i].ns; i++)
		page_put(page, "  %s %s in step %u%s%s\n", i ? "              " : "longest gaps: ", DURATION(p->gaps[i].ns), p->gaps[i].step,
			p->gaps[i].why ? ", " : "", p->gaps[i].why ?: "");
	if (p->lost)
		page_put(page, "  of %llu of %llu steps it is not known: records of the GPU are missing\n", LLU(p->lost),
			LLU(p->lost + p->steps));
}

void page_gpu(const struct page *page, const struct gpu_phases *g)
{
	for (size_t i = 0; i < g->n; i++)
		put_phase(page, &g->list[i]);
}

static void put_device(struct json_build *b, struct json_object *o, const struct gpu_phase *p, const struct phase_device *d)
{
	struct json_object *us;

	json_put_u64(b, o, "device", d->device);
	json_put_u64(b, o, "kernels", d->kernels);
	json_put_u64(b, o, "copies", d->copies);
	us = json_put_object(b, o, "gpu_us");
	json_put_us(b, us, "total", p->total);
	for (int k = 0; k < GPU_PART_MAX; k++)
		json_put_us(b, us, parts[k].name, device_part(p, d, k));
	json_put_us(b, o, "after_us", d->after);
}

void json_put_gpu(struct json_build *b, struct json_object *o, const struct gpu_phases *g)
{
	struct json_object *array = g->n ? json_put_array(b, o, "gpu") : NULL, *us, *list, *one;

	list_for_each (p, g->list, g->n) {
		o = json_put_object(b, array, NULL);
		json_put_name(b, o, "phase", p->phase);
		json_put_u64(b, o, "steps", p->steps);
		json_put_u64(b, o, "steps_with_loss", p->lost);
		json_put_u64(b, o, "kernels", p->kernels);
		json_put_u64(b, o, "copies", p->copies);
		if (gpu_bound(p))
			json_put_text(b, o, "bound", gpu_bound(p));
		us = json_put_object(b, o, "gpu_us");
		json_put_us(b, us, "total", p->total);
		for (int k = 0; k < GPU_PART_MAX; k++)
			json_put_us(b, us, parts[k].name, p->part[k]);
		json_put_us(b, o, "after_us", p->after);
		list = p->n_devices > 1 ? json_put_array(b, o, "devices") : NULL;
		for (size_t k = 0; list && k < p->n_devices; k++)
			put_device(b, json_put_object(b, list, NULL), p, &p->devices[k]);
		list = json_put_array(b, o, "gaps");
		for (int k = 0; k < GPU_PHASE_GAPS && p->gaps[k].ns; k++) {
			one = json_put_object(b, list, NULL);
			json_put_u64(b, one, "step", p->gaps[k].step);
			json_put_us(b, one, "us", p->gaps[k].ns);
			if (p->gaps[k].why)
				json_put_text(b, one, "text", p->gaps[k].why);
		}
	}
}
