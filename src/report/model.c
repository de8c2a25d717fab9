// SPDX-License-Identifier: BSD-2-Clause
#include "report/model.h"

#include <json-c/linkhash.h>
#include <stdio.h>
#include <string.h>

#include "report/stacks.h"

#define STEP_OPS_MAX 256

void model_init(struct model *m)
{
	*m = (struct model){ .names.ids = lh_kchar_table_new(64, NULL) };
	if (!m->names.ids)
		out_of_memory();
}

static void tally_free(struct tally *t)
{
	free(t->rows);
	idmap_free(&t->by_name);
}

static void gap_causes_free(struct gap_causes *g)
{
	free(g->list);
	idmap_free(&g->places);
}

static void gap_sum_free(struct gap_sum *g)
{
	gap_causes_free(&g->causes);
	tally_free(&g->rows);
}

static void process_free(struct process *p)
{
	steps_free(&p->steps);
	free(p->behind);
	free(p->step_ops);
	free(p->typicals);
	free(p->grouped);
	tally_free(&p->ops);
	tally_free(&p->syscalls);
	gap_sum_free(&p->gaps);
	gap_sum_free(&p->waits);
	gap_sum_free(&p->request_gaps);
	gap_sum_free(&p->answers);
	idmap_free(&p->by_number);
	free(p->calls);
	free(p->served.requests);
	free(p->served.states);
	free(p->served.waits);
	free(p->served.exchanges);
	idmap_free(&p->served.by_number);
	stack_times_free(&p->stacks);
	for (size_t i = 0; i < p->gpu.n; i++) {
		for (size_t k = 0; k < p->gpu.list[i].n_gaps; k++)
			free(p->gpu.list[i].gaps[k].why);
	}
	free(p);
}

void archive_hosts_free(struct archive_hosts *h)
{
	for (uint32_t i = 0; i < h->n_files; i++)
		free(h->files[i].path);
	ranks_clear(&h->ranks);
	free(h);
}

uint32_t archive_host_of(const struct archive_hosts *h, const struct boot *profile)
{
	enum boot_fit fits[ARCHIVE_HOSTS_MAX] = { BOOT_UNLIKELY }, fit;
	struct boot_choice choice = { 0 };

	list_for_each (f, h->files, h->n_files) {
		fit = f->has_boot ? boot_compare(profile, &f->boot) : BOOT_UNLIKELY;
		fits[f->host] = fit > fits[f->host] ? fit : fits[f->host];
	}
	for (uint32_t i = 0; i < h->n; i++)
		boot_choose(&choice, i, fits[i]);
	return choice.fit && !choice.several ? choice.host : h->n;
}

void model_free(struct model *m)
{
	for (size_t i = 0; i < m->n_processes; i++)
		process_free(m->processes[i]);
	free(m->processes);
	idmap_free(&m->by_pid);
	free(m->windows);
	free(m->clocks);
	for (size_t i = 0; i < m->n_archives; i++)
		archive_hosts_free(m->archives[i]);
	free(m->archives);
	for (size_t i = 0; i < m->n_families; i++) {
		tally_free(&m->families[i].stages);
		free(m->families[i].totals);
	}
	free(m->families);
	tally_free(&m->lost);
	code_tree_free(&m->code);
	lh_table_free(m->names.ids);
	for (size_t i = 0; i < m->names.len; i++)
		free(m->names.text[i]);
	free(m->names.text);
	memset(m, 0, sizeof(*m));
}

uint32_t model_name(struct model *m, const char *text)
{
	struct names *n = &m->names;
	struct lh_entry *entry;
	char *copy;

	if (!text || !*text)
		return 0;
	entry = lh_table_lookup_entry(n->ids, text);
	if (entry)
		return (uint32_t)(uintptr_t)lh_entry_v(entry);
	copy = xstrdup(text);
	if (n->len >= UINT32_MAX - 1 || lh_table_insert(n->ids, copy, (void *)(uintptr_t)(n->len + 1)))
		out_of_memory();
	*list_push(n->text, n->len, n->size) = copy;
	return (uint32_t)n->len;
}

const char *model_text(const struct model *m, uint32_t id)
{
	return id ? m->names.text[id - 1] : "";
}

struct process *model_process(struct model *m, uint32_t pid, uint32_t origin)
{
	char text[768];
	uint32_t i;

	/* hosts that are alike have the same origin */
	snprintf(text, sizeof(text), "%s\n%s", model_text(m, m->host), model_text(m, origin));
	if (m->host)
		origin = model_name(m, text);
	i = idmap_number(&m->by_pid, step_key(origin, pid), m->n_processes);
	if (i == m->n_processes) {
		*list_add(m, processes) = xcalloc(1, sizeof(struct process));
		*m->processes[i] = (struct process){ .pid = pid, .origin = origin, .host = m->host };
	}
	return m->processes[i];
}

void model_set_clock(struct model *m, uint32_t recording, const struct json_node *clocks, int64_t ts)
{
	struct recording_clock c = { .known = true };

	if (!link_clock_text(node_string(node_get(clocks, "boottime_ns")), &c.boot_ns) ||
		!link_clock_text(node_string(node_get(clocks, "realtime_ns")), &c.real_ns) || ts > c.boot_ns || ts > c.real_ns)
		return;
	host_id_from_json(&c.id, clocks);
	c.boot_ns -= ts + c.id.shift_ns;
	c.real_ns -= ts;
	while (m->n_clocks <= recording)
		list_add(m, clocks)->known = false;
	m->clocks[recording] = c;
}

struct recording_clock model_clock(const struct model *m, uint32_t recording)
{
	return recording < m->n_clocks ? m->clocks[recording] : (struct recording_clock){ 0 };
}

bool process_empty(const struct process *p)
{
	return !p->steps.len && !p->finding && !p->ops.len && !p->syscalls.len && !p->n_calls && !p->served.len &&
	       !p->stacks.n_sums && !p->has_sched && !p->has_faults && !p->has_memory;
}

void process_add_step(struct process *p, const struct step *step)
{
	p->stand_ins += step->stand_in != 0;
	for (int i = 0; i < SHED_PARTS; i++)
		p->left_out[i] += step->left_out >> i & 1;
	steps_add(&p->steps, step);
}

void process_add_behind(struct process *p, struct step *step, const struct behind_info *own, size_t n_own,
	const struct behind_info *workers, size_t n_workers)
{
	if (!n_own && !n_workers)
		return;
	step->behind = (uint32_t)p->n_behind;
	step->n_behind = (uint8_t)n_own;
	step->n_workers_behind = (uint8_t)n_workers;
	for (size_t i = 0; i < n_own + n_workers; i++)
		*list_add(p, behind) = i < n_own ? own[i] : workers[i - n_own];
}

void process_add_ops(struct process *p, uint32_t recording, uint32_t number, const struct op_time *ops, size_t n)
{
	uint32_t at;

	for (; p->n_numbered < p->steps.len; p->n_numbered++)
		idmap_set(&p->by_number, step_key_at(&p->steps, p->n_numbered), (uint32_t)p->n_numbered);
	if (!idmap_get(&p->by_number, step_key(recording, number), &at))
		return;
	/* no engine has more; they are searched linearly */
	n = least_of(n, STEP_OPS_MAX);
	steps_set(&p->steps, at, STEP_OPS, (int64_t)p->n_step_ops);
	steps_set(&p->steps, at, STEP_N_OPS, (int64_t)n);
	for (size_t i = 0; i < n; i++)
		*list_add(p, step_ops) = ops[i];
}

struct foreign_family *model_family(struct model *m, const char *event, const char *source)
{
	struct foreign_family f = { .event = model_name(m, event), .source = model_name(m, source) };
	size_t at = list_find(m->n_families, i, m->families[i].event == f.event && m->families[i].source == f.source);

	if (at == FAMILIES_MAX)
		return NULL;
	if (at == m->n_families)
		*list_add(m, families) = f;
	return &m->families[at];
}

struct tally_row *tally_add(struct tally *t, uint32_t name, int64_t ns, uint64_t count)
{
	uint32_t i = idmap_number(&t->by_name, name, t->len);

	if (i == t->len)
		*list_push(t->rows, t->len, t->size) = (struct tally_row){ .name = name };
	t->rows[i].ns = ns_add(t->rows[i].ns, ns);
	t->rows[i].count += count;
	return &t->rows[i];
}

ORDER(compare_rows, struct tally_row, FALLING(ns), FALLING(count), RISING(name))

/* By time, longest first, then by count. No rows can be added after this. */
static void tally_sort(struct tally *t)
{
	list_sort(t->rows, t->len, compare_rows);
}

void gap_causes_add(struct gap_causes *g, const struct gap_cause *cause)
{
	uint32_t i = idmap_number(&g->places, step_key(cause->name, cause->behind), g->n_list);

	if (i == g->n_list) {
		*list_add(g, list) = *cause;
		return;
	}
	g->list[i].ns = ns_add(g->list[i].ns, cause->ns);
	g->list[i].behind_ns = ns_add(g->list[i].behind_ns, cause->behind_ns);
	g->list[i].count += cause->count;
}

uint32_t gap_name(struct model *m, uint32_t name, uint32_t behind)
{
	char text[512];

	snprintf(text, sizeof(text), "%s, mostly %s", model_text(m, name), model_text(m, behind));
	return model_name(m, text);
}

/* A process with a smaller share of the time between steps is not told from others of its name: a server may start many. */
#define GAP_PROCESS_LEAST 100

/* Sums the causes by name. */
static void finish_gaps(struct model *m, struct gap_sum *g)
{
	struct gap_causes merged = { 0 };
	struct tally processes = { 0 }, *t = &g->rows;
	int64_t total = 0;

	list_for_each (c, g->causes.list, g->causes.n_list) {
		tally_add(&processes, c->process, c->ns, c->count);
		total = ns_add(total, c->ns);
	}
	list_for_each (c, g->causes.list, g->causes.n_list) {
		if (c->process && tally_add(&processes, c->process, 0, 0)->ns < total / GAP_PROCESS_LEAST)
			c->name = c->without_pid;
		gap_causes_add(&merged, c);
		tally_add(t, c->name, c->ns, c->count);
	}
	/* by_name keeps the row's first name */
	list_for_each (c, merged.list, merged.n_list) {
		struct tally_row *row = tally_add(t, c->name, 0, 0);

		if (c->behind && c->behind_ns > row->ns / 2)
			row->name = gap_name(m, c->name, c->behind);
	}
	tally_free(&processes);
	gap_causes_free(&merged);
	tally_sort(t);
}

struct interval {
	int64_t from, to;
	uint32_t recording;
};

ORDER(compare_intervals, struct interval, RISING(recording), RISING(from))

/* When there were requests: sorted, and without overlaps. Returns their number. */
static size_t find_busy(const struct served *s, struct interval *ret)
{
	size_t n = 0, out = 0;

	list_for_each (e, s->exchanges, s->n_exchanges)
		ret[n++] = (struct interval){ e->ts, ns_add(e->ts, e->total), e->recording };
	list_for_each (r, s->requests, s->len)
		ret[n++] = (struct interval){ r->ts, ns_add(r->ts, r->total), r->recording };
	list_sort(ret, n, compare_intervals);
	for (size_t i = 0; i < n; i++) {
		struct interval *last = out ? &ret[out - 1] : NULL;

		if (!last || last->recording != ret[i].recording || last->to < ret[i].from)
			ret[out++] = ret[i];
		else if (last->to < ret[i].to)
			last->to = ret[i].to;
	}
	return out;
}

/* The time between steps while there was no request. */
static int64_t idle_between(const struct process *p)
{
	const struct served *s = &p->served;
	struct interval *busy = xcalloc(s->n_exchanges + s->len + 1, sizeof(*busy));
	size_t n = s->n_exchanges ? find_busy(s, busy) : 0;
	int64_t idle = 0;

	for (size_t i = 0; n && i < p->steps.len; i++) {
		const uint32_t recording = (uint32_t)steps_get(&p->steps, i, STEP_RECORDING);
		const int64_t gap = steps_get(&p->steps, i, STEP_GAP), to = steps_get(&p->steps, i, STEP_TS), from = to - gap;

		if (gap <= 0)
			continue;
		idle = ns_add(idle, gap);
		for (size_t k = bisect(n, j, busy[j].recording < recording || (busy[j].recording == recording && busy[j].to <= from));
			k < n && busy[k].recording == recording && busy[k].from < to; k++)
			idle -= (busy[k].to < to ? busy[k].to : to) - (busy[k].from > from ? busy[k].from : from);
	}
	free(busy);
	return idle;
}

static int compare_steps(const void *a, const void *b, void *arg)
{
	const struct steps *s = arg;
	size_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

#define COMPARE(column) cmp_int(steps_get(s, x, column), steps_get(s, y, column))
	return COMPARE(STEP_RECORDING) ?: (COMPARE(STEP_TS) ?: (COMPARE(STEP_NUMBER) ?: cmp_int(x, y)));
}

static int compare_in_lanes(const void *a, const void *b, void *arg)
{
	const struct steps *s = arg;
	size_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return COMPARE(STEP_LANE) ?: compare_steps(a, b, arg);
#undef COMPARE
}

uint32_t *process_order(const struct process *p, bool lanes)
{
	int (*compare)(const void *a, const void *b, void *arg) = lanes ? compare_in_lanes : compare_steps;
	struct steps *s = (struct steps *)&p->steps;
	uint32_t *order = xcalloc(s->len + 1, sizeof(*order));
	bool sorted = true;

	for (uint32_t i = 0; i < s->len; i++) {
		order[i] = i;
		sorted = sorted && (!i || compare(&order[i - 1], &order[i], s) < 0);
	}
	if (!sorted) {
		qsort_r(order, s->len, sizeof(*order), compare, s);
		return order;
	}
	free(order);
	return NULL;
}

static void sort_steps(struct process *p)
{
	uint32_t *order = process_order(p, true);

	if (order)
		steps_reorder(&p->steps, order);
	free(order);
}

/* Whether a step ran in the same lane and recording as the previous one. */
static bool step_continues_lane(const struct process *p, size_t i)
{
	return i && steps_get(&p->steps, i, STEP_LANE) == steps_get(&p->steps, i - 1, STEP_LANE) &&
	       steps_get(&p->steps, i, STEP_RECORDING) == steps_get(&p->steps, i - 1, STEP_RECORDING);
}

/* Steps of a context are consecutive, on whatever thread. If contexts are unknown, or two had the
 * same address, steps that overlap are told apart by their threads. */
static void find_lanes(struct process *p)
{
	struct idmap contexts = { 0 };
	bool overlap = false;

	for (size_t i = 0; i < p->steps.len; i++)
		steps_set(&p->steps, i, STEP_LANE,
			idmap_number(&contexts, (uint64_t)steps_get(&p->steps, i, STEP_CONTEXT), contexts.len));
	idmap_free(&contexts);
	sort_steps(p);
	for (size_t i = 1; i < p->steps.len; i++)
		overlap |= step_continues_lane(p, i) && steps_get(&p->steps, i, STEP_AT) < steps_end(&p->steps, i - 1);
	for (size_t i = 0; overlap && i < p->steps.len; i++)
		steps_set(&p->steps, i, STEP_LANE, steps_get(&p->steps, i, STEP_TID));
	sort_steps(p);
}

/* The clock of each recording starts at 0: one that would begin before the end of the previous one
 * is moved to that end. The steps are in the order of recordings. Moves the requests to this axis, too. */
static void join_recordings(struct process *p)
{
	int64_t end = 0, offset = 0, start = 0, recording = -1;
	struct recording_place *places = NULL;
	size_t n = 0, size = 0;

	for (size_t i = 0; i < p->steps.len; i++) {
		int64_t ts = steps_get(&p->steps, i, STEP_TS), of = steps_get(&p->steps, i, STEP_RECORDING);

		if (of != recording) {
			recording = of;
			p->wall = ns_add(p->wall, end - start);
			offset = p->recordings++ && ts < end ? end - ts : 0;
			start = end = ns_add(ts, offset);
			*list_push(places, n, size) = (struct recording_place){ (uint32_t)of, offset };
		}
		steps_set(&p->steps, i, STEP_AT, ns_add(ts, offset));
		if (steps_end(&p->steps, i) > end)
			end = steps_end(&p->steps, i);
	}
	p->wall = ns_add(p->wall, end - start);
	served_finish(&p->served, places, n, end);
	free(places);
}

ORDER(compare_calls, struct call, RISING(recording), RISING(ts), FALLING(ns))

void model_finish(struct model *m)
{
	size_t n = 0;

	/* processes without steps and requests, such as a program that only starts the engine, come last */
	for (size_t i = 0; i < m->n_processes; i++) {
		struct process *p = m->processes[i];

		if (!p->steps.len && !p->served.len && !p->served.n_exchanges)
			continue;
		memmove(m->processes + n + 1, m->processes + n, (i - n) * sizeof(*m->processes));
		m->processes[n++] = p;
	}
	idmap_free(&m->by_pid);
	for (size_t i = 0; i < m->n_processes; i++) {
		struct process *p = m->processes[i];

		sort_steps(p);
		join_recordings(p);
		find_lanes(p);
		for (size_t k = 0; k < p->steps.len; k++) {
			int64_t gap = step_continues_lane(p, k) ? steps_get(&p->steps, k, STEP_AT) - steps_end(&p->steps, k - 1) : -1;

			steps_set(&p->steps, k, STEP_GAP, gap < 0 ? -1 : gap);
		}
		stack_times_finish(m, p);
		list_sort(p->calls, p->n_calls, compare_calls);
		op_code_finish(&m->code, p);
		tally_sort(&p->ops);
		tally_sort(&p->syscalls);
		finish_gaps(m, &p->gaps);
		finish_gaps(m, &p->waits);
		finish_gaps(m, &p->request_gaps);
		finish_gaps(m, &p->answers);
		p->idle = idle_between(p);
	}
	list_for_each (f, m->families, m->n_families) {
		tally_sort(&f->stages);
		f->total = percentiles_of(f->totals, f->n_totals);
	}
	tally_sort(&m->lost);
}

/* ---- steps by column ---- */

#define SIZE_MIN 8

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	"of a value the first bytes are copied, whose others are its sign");

#define FIELD(name, member, ...) ARRAY(name, member, 1)
#define ARRAY(name, member, n)                                                                     \
	[STEP_##name] = { offsetof(struct step, member), sizeof(((struct step *)0)->member) / (n), \
		n },

/* Each column's member of struct step. Only the first column of an array has an entry, with the count. */
static const struct {
	uint16_t offset;
	uint8_t size, count;
} fields[STEP_COLUMNS] = { STEP_FIELDS(FIELD, FIELD, FIELD, ARRAY) };

void steps_free(struct steps *s)
{
	for (size_t c = 0; c < STEP_COLUMNS; c++)
		free(s->columns[c].values);
	memset(s, 0, sizeof(*s));
}

static uint8_t width_of(int64_t value)
{
	if (value == (int8_t)value)
		return 1;
	if (value == (int16_t)value)
		return 2;
	return value == (int32_t)value ? 4 : 8;
}

static void column_put(struct column *c, size_t i, int64_t value)
{
	memcpy((char *)c->values + i * c->width, &value, c->width);
}

/* Makes a column wide enough for a value. */
static void steps_widen_column(struct steps *s, enum step_column column, int64_t value)
{
	struct column *c = &s->columns[column], wide = { .width = width_of(value) };

	if (!c->width && width_of(c->same) > wide.width)
		wide.width = width_of(c->same);
	wide.values = xreallocarray(NULL, s->size, wide.width);
	for (size_t i = 0; i < s->len; i++)
		column_put(&wide, i, steps_get(s, i, column));
	if (!c->width)
		s->wide[s->n_wide++] = (uint8_t)column;
	free(c->values);
	*c = wide;
}

void steps_set(struct steps *s, size_t i, enum step_column column, int64_t value)
{
	struct column *c = &s->columns[column];

	if (!c->width && value == c->same)
		return;
	if (width_of(value) > c->width)
		steps_widen_column(s, column, value);
	column_put(c, i, value);
}

void steps_add(struct steps *s, const struct step *step)
{
	if (s->len == s->size) {
		s->size = s->size ? s->size + s->size / 2 : SIZE_MIN;
		list_for_each (c, s->columns, STEP_COLUMNS)
			c->values = c->width ? xreallocarray(c->values, s->size, c->width) : NULL;
	}
	if (!s->len)
		s->first = *step;
	for (size_t f = 0; f < STEP_COLUMNS; f++) {
		for (size_t i = 0; i < fields[f].count; i++) {
			int64_t value = 0;

			memcpy(&value, (const char *)step + fields[f].offset + i * fields[f].size, fields[f].size);
			if (!s->len)
				s->columns[f + i].same = value;
			else
				steps_set(s, s->len, (enum step_column)(f + i), value);
		}
	}
	s->len++;
}

struct step steps_load(const struct steps *s, size_t i)
{
	struct step step = s->first;

	for (size_t k = 0; k < s->n_wide; k++) {
		int64_t value = steps_get(s, i, s->wide[k]);
		size_t f = s->wide[k];

		while (!fields[f].count)
			f--;
		memcpy((char *)&step + fields[f].offset + (s->wide[k] - f) * fields[f].size, &value, fields[f].size);
	}
	return step;
}

void steps_reorder(struct steps *s, const uint32_t *order)
{
	for (size_t k = 0; k < STEP_COLUMNS; k++) {
		struct column *c = &s->columns[k], sorted = *c;

		if (!c->width)
			continue;
		sorted.values = xreallocarray(NULL, s->size, c->width);
		for (size_t i = 0; i < s->len; i++)
			column_put(&sorted, i, steps_get(s, order[i], (enum step_column)k));
		free(c->values);
		*c = sorted;
	}
}
