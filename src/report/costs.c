// SPDX-License-Identifier: BSD-2-Clause
#include "report/costs.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "read/profile.h"
#include "report/output.h"
#include "schema/profile_keys.h"
#include "util/json.h"
#include "util/names.h"

#define NAME_SHOWN 72 /* bytes of a name */
#define LINE_BYTES 64 /* of a cache line: x86, and nearly all arm64 (a few have 128) */

/* Adds, but stays at the limit: files may contain any number. */
static uint64_t count_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Adds the counters of one line, which has them for `of` of its `all` steps or calls. Instructions and cycles are required. */
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

void count_phases_add(struct count_phases *c, uint32_t phase, const struct json_node *shape)
{
	const struct json_node *values[PMU_MAX];
	size_t at = list_find(c->n, i, c->list[i].phase == phase || i + 1 == COUNT_PHASES_MAX);

	if (at == c->n)
		c->list[c->n++].phase = phase;
	for (unsigned int i = 0; i < PMU_MAX; i++)
		values[i] = node_get(shape, counter_name(COUNTERS_HARDWARE, i));
	counts_take(&c->list[at].sum, values, 1, 1);
}

bool counts_there(const struct json_node *shape)
{
	json_for_each (value, shape) {
		if (!strncmp(value->key, "cycles_", 7))
			return true;
	}
	return false;
}

static const struct json_node *shape_find_count(
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
		values[i] = shape_find_count(shape, counter_name(COUNTERS_HARDWARE, i), name, cursor);
	counted = shape_find_count(shape, "counted", name, cursor);
	counts_take(s, values, counted ? node_u64(counted) : calls, calls);
}

static double per_cycle(const struct count_sum *s, enum hardware_counter i)
{
	return s->n[COUNTER_CYCLES] ? (double)s->n[i] / (double)s->n[COUNTER_CYCLES] : 0;
}

/* Whether all counted steps have LLC misses: otherwise the sum says nothing of the whole. */
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
	struct text t = text_in(buf, COUNTS_TEXT_MAX);

	if (!s->of || !s->n[COUNTER_CYCLES])
		return buf;
	text_add(&t, "%.2f instructions a cycle", per_cycle(s, COUNTER_INSTRUCTIONS));
	if (has_misses(s))
		text_add(&t, ", at least %.2f bytes from memory a cycle", LINE_BYTES * per_cycle(s, COUNTER_LLC_MISSES));
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
		page_put(page, "\nWhat %s cost the CPU%s%s\n  %s\n",
			c->list[i].phase ? NAME(page->m, c->list[i].phase) : "steps", bound ? ": " : "", bound ?: "",
			text);
		page_put(page, "  %.1f million instructions a step, on the thread that calls it\n",
			(double)s->n[COUNTER_INSTRUCTIONS] / (double)s->of / 1e6);
		if (s->of < s->all)
			page_put(page, "  of %llu of %llu steps it is not known\n", LLU(s->all - s->of), LLU(s->all));
	}
}

void json_put_counts(struct json_object *o, const struct count_sum *s)
{
	if (!s->of || !s->n[COUNTER_CYCLES])
		return;
	json_put_u64(o, "counted", s->of);
	for (unsigned int i = 0; i < PMU_MAX; i++) {
		if (i != COUNTER_LLC_MISSES || has_misses(s))
			json_put_u64(o, counter_name(COUNTERS_HARDWARE, i), s->n[i]);
	}
	json_put_double(o, "ipc", per_cycle(s, COUNTER_INSTRUCTIONS));
	json_put_text(o, "bound", counts_bound(s));
}

void json_put_phase_counts(const struct page *page, struct json_object *o, const struct count_phases *c)
{
	struct json_object *array = NULL, *phase;

	for (size_t i = 0; i < c->n; i++) {
		const struct count_sum *s = &c->list[i].sum;

		if (!s->of || !s->n[COUNTER_CYCLES])
			continue;
		array = array ?: json_put_array(o, "counters");
		phase = json_put_object(array, NULL);
		json_put_name(page, phase, "phase", c->list[i].phase);
		json_put_u64(phase, "steps", s->all);
		json_put_counts(phase, s);
	}
}

/* ---- GPUs ---- */

static const struct {
	const char *key, *name, *shown, *bound;
} parts[GPU_PART_MAX] = {
	[GPU_PART_BUSY] = { "busy_us", "busy", "kernels", "GPU-bound" },
	[GPU_PART_COPY] = { "copy_us", "copy", "copies", "copy-bound" },
	[GPU_PART_IDLE_LAUNCH] = { "idle_launch_us", "idle_launch", "idle: launch", "launch-bound" },
	[GPU_PART_IDLE_WAIT] = { "idle_wait_us", "idle_wait", "idle: waits", "bound by waits of the GPU" },
	[GPU_PART_COLLECTIVE] = { "collective_us", "collective", "collectives", "bound by collectives" },
	[GPU_PART_UNKNOWN] = { "unknown_us", "unknown", "not known", "not known" },
};

/* The member whose key is formatted. */
static const struct json_node *__attribute__((format(printf, 2, 3))) node_with(const struct json_node *shape,
	const char *fmt, ...)
{
	char key[64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(key, sizeof(key), fmt, ap);
	va_end(ap);
	return node_get(shape, key);
}

/* Appends "before `NAME`"; nothing if the name is not known. */
static void text_add_quoted_name(struct text *t, const char *before, const struct json_node *name)
{
	const char *text = node_string(name);
	char shown[NAME_SHOWN];

	if (text && *text)
		text_add(t, "%s`%s`", before, text_printable(shown, sizeof(shown), text));
}

/* What the launching thread did for most of a gap; false: not known. */
static bool gap_why(const struct json_node *shape, int number, char buf[GPU_WHY_MAX])
{
	/* states for which the words about slow steps do not fit */
	static const char *const own[STATES] = {
		[ST_CPU] = "computed for",
		[ST_GPU_WAIT] = "was still in a call that waits for the GPU for",
		[ST_GC] = "collected garbage for",
		[ST_SYSCALL] = "was in system calls for",
		[ST_FAULT] = "was in page faults for",
	};
	const char *state = node_string(node_with(shape, "gpu_gap%d_state", number));
	struct text t = text_in(buf, GPU_WHY_MAX);
	unsigned int hint = 0;
	int of = state ? read_state(state, &hint) : -1;
	char phrase[PHRASE_MAX];
	int64_t ns;

	if (of < 0 || !read_us(node_with(shape, "gpu_gap%d_%.30s_us", number, words_state((unsigned int)of)), &ns))
		return false;
	text_add(&t, "the launching thread ");
	if (own[of])
		text_add(&t, "%s %s", own[of], DURATION(ns));
	else
		text_add(&t, "%s", words_phrase(phrase, (unsigned int)of, ns));
	text_add_quoted_name(&t, of == ST_SYSCALL ? ", mostly " : " in ",
		node_with(shape, of == ST_CPU ? "gpu_gap%d_in" : "gpu_gap%d_call", number));
	text_add_quoted_name(&t, of == ST_RUNNABLE ? " behind " : ", woken by ", node_with(shape, "gpu_gap%d_by", number));
	return true;
}

static void gpu_phase_add_gap(struct gpu_phase *p, const struct json_node *shape, int number, uint32_t step)
{
	struct phase_gap gap = { .step = step }, *last = &p->gaps[GPU_PHASE_GAPS - 1];
	char why[GPU_WHY_MAX];

	if (!read_us(node_with(shape, "gpu_gap%d_us", number), &gap.ns) || gap.ns <= last->ns)
		return;
	if (gap_why(shape, number, why))
		gap.why = xstrdup(why);
	free(last->why);
	last->why = NULL;
	list_insert(p->gaps, p->n_gaps, GPU_PHASE_GAPS, ns, gap);
}

/* Reads the keys of a step that begin with `prefix`. complete: all parts are required. Returns false if they do not add up
 * to total_ns, so that shares of it would be wrong. */
static bool sum_read(const struct json_node *shape, const char *prefix, int64_t total_ns, bool complete,
	struct gpu_sum *ret)
{
	uint32_t kernels = 0, copies = 0;
	int64_t sum = 0;

	*ret = (struct gpu_sum){ .total = total_ns };
	for (int i = 0; i < GPU_PART_MAX; i++) {
		const struct json_node *part = node_with(shape, "%s%s", prefix, parts[i].key);

		if (!read_us(part, &ret->part[i]) && complete && (part || i != GPU_PART_COLLECTIVE))
			return false;
		sum = ns_add(sum, ret->part[i]);
	}
	read_u32(node_with(shape, "%skernels", prefix), &kernels);
	read_u32(node_with(shape, "%scopies", prefix), &copies);
	read_us(node_with(shape, "%safter_us", prefix), &ret->after);
	ret->kernels = kernels;
	ret->copies = copies;
	return sum == total_ns;
}

static void sum_add(struct gpu_sum *to, const struct gpu_sum *s)
{
	to->kernels += s->kernels;
	to->copies += s->copies;
	to->total = ns_add(to->total, s->total);
	to->after = ns_add(to->after, s->after);
	for (int i = 0; i < GPU_PART_MAX; i++)
		to->part[i] = ns_add(to->part[i], s->part[i]);
}

/* Keeps the devices sorted by number. */
static void gpu_phase_add_device(struct gpu_phase *p, uint32_t device, const struct gpu_sum *sum)
{
	size_t i = list_find(p->n_devices, k, p->devices[k].device >= device);

	if (i == p->n_devices || p->devices[i].device != device) {
		p->devices_missing |= p->n_devices == GPU_STEP_DEVICES;
		if (p->n_devices == GPU_STEP_DEVICES)
			return;
		memmove(&p->devices[i + 1], &p->devices[i], (p->n_devices++ - i) * sizeof(p->devices[0]));
		p->devices[i] = (struct phase_device){ .device = device };
	}
	sum_add(&p->devices[i].sum, sum);
}

static void gpu_phase_add_devices(struct gpu_phase *p, const struct gpu_sum *all, const struct json_node *shape)
{
	uint32_t n = 0, device = 0;
	struct gpu_sum sum;
	char prefix[32];

	if (read_u32(node_get(shape, KEY(gpu_devices)), &n)) {
		p->devices_missing |= n > GPU_STEP_DEVICES;
		json_for_each (value, shape) {
			const char *key = profile_key_numbered(value->key, "gpu_device", &device);

			if (!key || strcmp(key, "kernels") != 0) /* every device has this key */
				continue;
			snprintf(prefix, sizeof(prefix), "gpu_device%u_", device);
			if (sum_read(shape, prefix, all->total, false, &sum))
				gpu_phase_add_device(p, device, &sum);
		}
	} else if (read_u32(node_get(shape, KEY(gpu_device)), &device) && all->part[GPU_PART_IDLE_LAUNCH] != all->total) {
		gpu_phase_add_device(p, device, all); /* the only device has the step's parts; without GPU work its number says nothing */
	}
}

void gpu_phases_add(struct gpu_phases *g, uint32_t phase, uint32_t step, int64_t total_ns, const struct json_node *shape)
{
	bool lost = node_is(node_get(shape, KEY(gpu_lost)), JSON_TRUE);
	struct gpu_sum sum;
	struct gpu_phase *p;
	size_t at;

	if (!lost && !sum_read(shape, "gpu_", total_ns, true, &sum))
		return;
	at = list_find(g->n, i, g->list[i].phase == phase || i + 1 == GPU_PHASES_MAX);
	if (at == g->n)
		g->list[g->n++].phase = phase;
	p = &g->list[at];
	if (lost) {
		p->lost++;
		return;
	}
	p->steps++;
	sum_add(&p->all, &sum);
	for (int i = 1; i <= GPU_GAPS; i++)
		gpu_phase_add_gap(p, shape, i, step);
	gpu_phase_add_devices(p, &sum, shape);
}

/* "launch-bound" and the like: what takes the largest part; NULL: nothing is known. */
static const char *gpu_bound(const struct gpu_sum *s)
{
	int64_t busy = ns_add(s->part[GPU_PART_BUSY], s->after);
	int most = GPU_PART_BUSY;

	for (int i = 0; i < GPU_PART_MAX; i++) {
		if (s->part[i] > (most == GPU_PART_BUSY ? busy : s->part[most]))
			most = i;
	}
	return busy > 0 || s->part[most] > 0 ? parts[most].bound : NULL;
}

/* A device's time in a part, if the phase has several devices. A step that does not mention a device launched nothing on it. */
static int64_t device_part(const struct gpu_phase *p, const struct gpu_sum *s, int part)
{
	bool nothing = part == (p->devices_missing ? GPU_PART_UNKNOWN : GPU_PART_IDLE_LAUNCH);

	return nothing ? ns_add(s->part[part], p->all.total - s->total) : s->part[part];
}

static void put_devices(const struct page *page, const struct gpu_phase *p)
{
	for (size_t i = 0; i < p->n_devices && p->n_devices > 1; i++) {
		const struct gpu_sum *s = &p->devices[i].sum;
		const char *before = "  ";

		page_put(page, "  GPU %-2u", p->devices[i].device);
		for (int k = 0; k < GPU_PART_MAX; k++) {
			int64_t ns = device_part(p, s, k);

			if (!ns)
				continue;
			page_put(page, "%s%s %.2f %%", before, parts[k].shown, 100 * page_share(ns, p->all.total));
			before = ", ";
		}
		if (s->after)
			page_put(page, "; after the step for another %s", DURATION(s->after / (int64_t)p->steps));
		page_put(page, "\n");
	}
}

void page_gpu(const struct page *page, const struct gpu_phase *p)
{
	const struct gpu_sum *s = &p->all;
	const char *bound = gpu_bound(s);

	page_put(page, "\nWhat the GPU%s did in %s%s%s\n", p->n_devices > 1 ? "s" : "",
		p->phase ? NAME(page->m, p->phase) : "steps", bound ? ": " : "", bound ?: "");
	for (int i = 0; i < GPU_PART_MAX; i++) {
		if (!s->part[i])
			continue;
		page_part(page, parts[i].shown, s->part[i], s->total, s->part[i] / (int64_t)p->steps);
		page_put(page, "\n");
	}
	if (s->after)
		page_put(page, "  after the step the GPU worked for another %s on what the step had launched\n",
			DURATION(s->after / (int64_t)p->steps));
	if (p->steps)
		page_put(page, "  %.1f kernels, %.1f copies a step\n", (double)s->kernels / (double)p->steps,
			(double)s->copies / (double)p->steps);
	put_devices(page, p);
	for (size_t i = 0; i < p->n_gaps; i++)
		page_put(page, "  %s %s in step %u%s%s\n", i ? "              " : "longest gaps: ",
			DURATION(p->gaps[i].ns), p->gaps[i].step, p->gaps[i].why ? ", " : "", p->gaps[i].why ?: "");
	if (p->lost)
		page_put(page, "  of %llu of %llu steps it is not known: records of the GPU are missing\n", LLU(p->lost),
			LLU(p->lost + p->steps));
}

static void put_sum(struct json_object *o, const struct gpu_phase *p, const struct gpu_sum *s)
{
	struct json_object *us;
	bool all = s == &p->all;

	json_put_u64(o, "kernels", s->kernels);
	json_put_u64(o, "copies", s->copies);
	json_put_text(o, "bound", all ? gpu_bound(s) : NULL);
	us = json_put_object(o, "gpu_us");
	json_put_us(us, "total", p->all.total);
	for (int k = 0; k < GPU_PART_MAX; k++)
		json_put_us(us, parts[k].name, all ? s->part[k] : device_part(p, s, k));
	json_put_us(o, "after_us", s->after);
}

void json_put_gpu(const struct page *page, struct json_object *o, const struct gpu_phases *g)
{
	if (!g->n)
		return;
	json_put_list (o, "gpu", one, p, g->list, g->n) {
		json_put_name(page, one, "phase", p->phase);
		json_put_u64(one, "steps", p->steps);
		json_put_u64(one, "steps_with_loss", p->lost);
		put_sum(one, p, &p->all);
		if (p->n_devices > 1) {
			json_put_list (one, "devices", device, d, p->devices, p->n_devices) {
				json_put_u64(device, "device", d->device);
				put_sum(device, p, &d->sum);
			}
		}
		json_put_list (one, "gaps", gap, of, p->gaps, p->n_gaps) {
			json_put_u64(gap, "step", of->step);
			json_put_us(gap, "us", of->ns);
			json_put_text(gap, "text", of->why);
		}
	}
}
