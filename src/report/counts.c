// SPDX-License-Identifier: BSD-2-Clause
#include "report/counts.h"

#include <stdio.h>
#include <string.h>

#include "report/json.h"
#include "report/model.h"
#include "report/text_page.h"
#include "util/json_node.h"
#include "util/text.h"

#define LINE_BYTES 64 /* of a cache line: x86, and nearly all arm64 (a few have 128) */

/* Adds, but stays at the limit: files may contain any number. */
static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Takes what one line has: `of` of `all` steps or calls. Without both of the first counters there is nothing to say. */
static void take(struct count_sum *s, const struct json_node *const values[PMU_MAX], uint64_t of, uint64_t all)
{
	s->all = add(s->all, all);
	if (!values[COUNTER_INSTRUCTIONS] || !values[COUNTER_CYCLES])
		return;
	s->of = add(s->of, of);
	if (values[COUNTER_LLC_MISSES])
		s->missed_of = add(s->missed_of, of);
	for (int i = 0; i < PMU_MAX; i++)
		s->n[i] = add(s->n[i], values[i] ? node_u64(values[i]) : 0);
}

static struct count_sum *find_phase(struct count_phases *c, uint32_t phase)
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
	take(find_phase(c, phase), values, 1, 1);
}

bool counts_there(const struct json_node *shape)
{
	json_for_each (value, shape) {
		if (!strncmp(value->key, "cycles_", 7))
			return true;
	}
	return false;
}

static const struct json_node *find(
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
		values[i] = find(shape, counter_name(COUNTERS_HARDWARE, i), name, cursor);
	counted = find(shape, "counted", name, cursor);
	take(s, values, counted ? node_u64(counted) : calls, calls);
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
	char name[64], text[COUNTS_TEXT_MAX];

	for (size_t i = 0; i < c->n; i++) {
		const struct count_sum *s = &c->list[i].sum;
		const char *bound = counts_bound(s);

		if (!*counts_text(s, text))
			continue;
		text_printable(name, sizeof(name), c->list[i].phase ? model_text(page->m, c->list[i].phase) : "steps");
		fprintf(page->out, "\nWhat %s cost the CPU%s%s\n  %s\n", name, bound ? ": " : "", bound ? bound : "", text);
		fprintf(page->out, "  %.1f million instructions a step, on the thread that calls it\n",
			(double)s->n[COUNTER_INSTRUCTIONS] / (double)s->of / 1e6);
		if (s->of < s->all)
			fprintf(page->out, "  of %llu of %llu steps it is not known\n", (unsigned long long)(s->all - s->of),
				(unsigned long long)s->all);
	}
}

void counts_put(struct json_build *b, struct json_object *o, const struct count_sum *s)
{
	const char *bound = counts_bound(s);

	if (!s->of || !s->n[COUNTER_CYCLES])
		return;
	json_put_u64(b, o, "counted", s->of);
	for (unsigned int i = 0; i < PMU_MAX; i++) {
		if (i != COUNTER_LLC_MISSES || has_misses(s))
			json_put_u64(b, o, counter_name(COUNTERS_HARDWARE, i), s->n[i]);
	}
	json_put_double(b, o, "ipc", per_cycle(s, COUNTER_INSTRUCTIONS));
	if (bound)
		json_put_text(b, o, "bound", bound);
}

void counts_put_phases(struct json_build *b, struct json_object *o, const struct model *m, const struct count_phases *c)
{
	struct json_object *array = NULL, *phase;

	for (size_t i = 0; i < c->n; i++) {
		const struct count_sum *s = &c->list[i].sum;

		if (!s->of || !s->n[COUNTER_CYCLES])
			continue;
		array = array ? array : json_new_array(b);
		phase = json_new_object(b);
		if (c->list[i].phase)
			json_put_text(b, phase, "phase", model_text(m, c->list[i].phase));
		json_put_u64(b, phase, "steps", s->all);
		counts_put(b, phase, s);
		json_append(b, array, phase);
	}
	if (array)
		json_put(b, o, "counters", array);
}
