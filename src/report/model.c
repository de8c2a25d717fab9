// SPDX-License-Identifier: BSD-2-Clause
#include "report/model.h"

#include <json-c/linkhash.h>
#include <stdio.h>
#include <string.h>

#include "link/host_clock.h"
#include "report/read.h"
#include "report/stacks.h"

#define STEP_OPS_MAX 256

int model_init(struct model *m)
{
	*m = (struct model){ .names.ids = lh_kchar_table_new(64, NULL) };
	return m->names.ids ? 0 : -ENOMEM;
}

static void tally_free(struct tally *t)
{
	free(t->rows);
	idmap_free(&t->by_name);
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
	idmap_free(&p->by_number);
	free(p->calls);
	served_free(&p->served);
	stack_times_free(&p->stacks);
	gpu_phases_clear(&p->gpu);
	free(p);
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
		free(m->families[i].totals.ns);
	}
	free(m->families);
	tally_free(&m->lost);
	code_tree_free(&m->code);
	if (m->names.ids)
		lh_table_free(m->names.ids);
	for (size_t i = 0; i < m->names.len; i++)
		free(m->names.text[i]);
	free(m->names.text);
	memset(m, 0, sizeof(*m));
}

int model_name(struct model *m, const char *text, uint32_t *ret_id)
{
	struct names *n = &m->names;
	struct lh_entry *entry;
	char *copy;

	if (!text || !*text) {
		*ret_id = 0;
		return 0;
	}
	entry = lh_table_lookup_entry(n->ids, text);
	if (entry) {
		*ret_id = (uint32_t)(uintptr_t)lh_entry_v(entry);
		return 0;
	}
	if (n->len >= UINT32_MAX - 1 ||
		array_reserve(&n->text, n->len + 1, &n->size, sizeof(*n->text)))
		return -ENOMEM;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	if (lh_table_insert(n->ids, copy, (void *)(uintptr_t)(n->len + 1))) {
		free(copy);
		return -ENOMEM;
	}
	n->text[n->len++] = copy;
	*ret_id = (uint32_t)n->len;
	return 0;
}

const char *model_text(const struct model *m, uint32_t id)
{
	return id ? m->names.text[id - 1] : "";
}

int model_process(struct model *m, uint32_t pid, uint32_t origin, struct process **ret_process)
{
	uint32_t i = (uint32_t)m->n_processes;
	char text[768];
	struct process *p;

	/* hosts that are alike have the same origin */
	snprintf(text, sizeof(text), "%s\n%s", model_text(m, m->host), model_text(m, origin));
	if ((m->host && model_name(m, text, &origin)) || idmap_number(&m->by_pid, step_key(origin, pid), &i))
		return -ENOMEM;
	if (i == m->n_processes) {
		p = calloc(1, sizeof(*p));
		if (!p || list_add(m->processes, m->n_processes, m->processes_size, p)) {
			free(p);
			return -ENOMEM;
		}
		*p = (struct process){ .pid = pid, .origin = origin, .host = m->host };
	}
	*ret_process = m->processes[i];
	return 0;
}

int model_set_clock(struct model *m, uint32_t recording, const struct json_node *clocks, int64_t ts)
{
	struct recording_clock c = { .known = true };

	if (!link_clock_text(node_string(node_get(clocks, "boottime_ns")), &c.boot_ns) ||
		!link_clock_text(node_string(node_get(clocks, "realtime_ns")), &c.real_ns) || ts > c.boot_ns || ts > c.real_ns)
		return 0;
	host_id_from_json(&c.id, clocks);
	c.boot_ns -= ts + c.id.shift_ns;
	c.real_ns -= ts;
	if (array_reserve(&m->clocks, recording + 1, &m->clocks_size, sizeof(*m->clocks)))
		return -ENOMEM;
	for (; m->n_clocks <= recording; m->n_clocks++)
		m->clocks[m->n_clocks].known = false;
	m->clocks[recording] = c;
	return 0;
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

int process_add_step(struct process *p, const struct step *step)
{
	p->stand_ins += step->stand_in != 0;
	return steps_add(&p->steps, step);
}

int process_add_behind(struct process *p, struct step *step, const struct behind_info *own, size_t n_own,
	const struct behind_info *workers, size_t n_workers)
{
	if (!n_own && !n_workers)
		return 0;
	if (array_reserve(&p->behind, p->n_behind + n_own + n_workers, &p->behind_size, sizeof(*p->behind)))
		return -ENOMEM;
	step->behind = (uint32_t)p->n_behind;
	step->n_behind = (uint8_t)n_own;
	step->n_workers_behind = (uint8_t)n_workers;
	memcpy(p->behind + p->n_behind, own, n_own * sizeof(*own));
	memcpy(p->behind + p->n_behind + n_own, workers, n_workers * sizeof(*workers));
	p->n_behind += n_own + n_workers;
	return 0;
}

int process_add_ops(struct process *p, uint32_t recording, uint32_t number, const struct op_time *ops, size_t n)
{
	uint32_t at;

	for (; p->n_numbered < p->steps.len; p->n_numbered++) {
		if (idmap_set(&p->by_number, step_key_at(&p->steps, p->n_numbered), (uint32_t)p->n_numbered))
			return -ENOMEM;
	}
	if (!idmap_get(&p->by_number, step_key(recording, number), &at))
		return 0;
	/* no engine has that many; the search among them is linear */
	if (n > STEP_OPS_MAX)
		n = STEP_OPS_MAX;
	if (array_reserve(&p->step_ops, p->n_step_ops + n, &p->step_ops_size, sizeof(*p->step_ops)) ||
		steps_set(&p->steps, at, STEP_OPS, (int64_t)p->n_step_ops) ||
		steps_set(&p->steps, at, STEP_N_OPS, (int64_t)n))
		return -ENOMEM;
	memcpy(p->step_ops + p->n_step_ops, ops, n * sizeof(*ops));
	p->n_step_ops += n;
	return 0;
}

int process_add_call(struct process *p, const struct call *call)
{
	return list_add(p->calls, p->n_calls, p->calls_size, *call);
}

int model_family(struct model *m, const char *event, const char *source, struct foreign_family **ret_family)
{
	struct foreign_family f = { 0 };
	int err = model_name(m, event, &f.event) ?: model_name(m, source, &f.source);
	size_t i = 0;

	while (!err && i < m->n_families && (m->families[i].event != f.event || m->families[i].source != f.source))
		i++;
	if (!err && i == m->n_families && i < FAMILIES_MAX)
		err = list_add(m->families, m->n_families, m->families_size, f);
	*ret_family = !err && i < m->n_families ? &m->families[i] : NULL;
	return err;
}

int tally_add(struct tally *t, uint32_t name, int64_t ns, uint64_t count)
{
	uint32_t i = (uint32_t)t->len;

	if (idmap_number(&t->by_name, name, &i) ||
		(i == t->len && list_add(t->rows, t->len, t->size, (struct tally_row){ .name = name })))
		return -ENOMEM;
	t->rows[i].ns = ns_add(t->rows[i].ns, ns);
	t->rows[i].count += count;
	return 0;
}

struct tally_row *tally_get(struct tally *t, uint32_t name)
{
	uint32_t i;

	return idmap_get(&t->by_name, name, &i) ? &t->rows[i] : NULL;
}

static int compare_rows(const void *a, const void *b)
{
	const struct tally_row *x = a, *y = b;

	return cmp_int(y->ns, x->ns) ?: (cmp_int(y->count, x->count) ?: cmp_int(x->name, y->name));
}

/* By time, longest first, then by count. No rows can be added after this. */
static void tally_sort(struct tally *t)
{
	list_sort(t->rows, t->len, compare_rows);
}

int times_add(struct times *t, int64_t ns)
{
	return list_add(t->ns, t->len, t->size, ns);
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

int process_order(const struct process *p, bool lanes, uint32_t **ret_order)
{
	int (*compare)(const void *a, const void *b, void *arg) = lanes ? compare_in_lanes : compare_steps;
	struct steps *s = (struct steps *)&p->steps;
	uint32_t *order = calloc(s->len + 1, sizeof(*order));
	bool sorted = true;

	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->len; i++) {
		order[i] = i;
		sorted = sorted && (!i || compare(&order[i - 1], &order[i], s) < 0);
	}
	if (!sorted)
		qsort_r(order, s->len, sizeof(*order), compare, s);
	else
		free(order);
	*ret_order = sorted ? NULL : order;
	return 0;
}

static int sort_steps(struct process *p)
{
	uint32_t *order = NULL;
	int err = process_order(p, true, &order);

	if (order)
		err = steps_reorder(&p->steps, order);
	free(order);
	return err;
}

/* Whether a step ran in the same lane and recording as the previous one. */
static bool is_next(const struct process *p, size_t i)
{
	return i && steps_get(&p->steps, i, STEP_LANE) == steps_get(&p->steps, i - 1, STEP_LANE) &&
	       steps_get(&p->steps, i, STEP_RECORDING) == steps_get(&p->steps, i - 1, STEP_RECORDING);
}

/* Whether steps of a lane ran at the same time. */
static bool steps_overlap(const struct process *p)
{
	for (size_t i = 1; i < p->steps.len; i++) {
		if (is_next(p, i) && steps_get(&p->steps, i, STEP_AT) < steps_end(&p->steps, i - 1))
			return true;
	}
	return false;
}

/* Steps of a context are consecutive, on whatever thread. If contexts are unknown, or two had the
 * same address, steps that overlap are told apart by their threads. */
static int find_lanes(struct process *p)
{
	struct idmap contexts = { 0 };
	int err = 0;

	for (size_t i = 0; i < p->steps.len && !err; i++) {
		uint32_t lane = (uint32_t)contexts.len;

		err = idmap_number(&contexts, (uint64_t)steps_get(&p->steps, i, STEP_CONTEXT), &lane);
		err = err ?: steps_set(&p->steps, i, STEP_LANE, lane);
	}
	idmap_free(&contexts);
	err = err ?: sort_steps(p);
	if (err || !steps_overlap(p))
		return err;
	for (size_t i = 0; i < p->steps.len && !err; i++)
		err = steps_set(&p->steps, i, STEP_LANE, steps_get(&p->steps, i, STEP_TID));
	return err ?: sort_steps(p);
}

/* The clock of each recording starts at 0: one that would begin before the end of the previous one
 * is moved to that end. The steps are in the order of recordings. Moves the requests to this axis, too. */
static int join_recordings(struct process *p)
{
	int64_t end = 0, offset = 0, start = 0, recording = -1;
	struct recording_place *places = NULL;
	size_t n = 0, size = 0;
	int err = 0;

	for (size_t i = 0; i < p->steps.len && !err; i++) {
		int64_t ts = steps_get(&p->steps, i, STEP_TS), of = steps_get(&p->steps, i, STEP_RECORDING);

		if (of != recording) {
			recording = of;
			p->wall = ns_add(p->wall, end - start);
			offset = p->recordings++ && ts < end ? end - ts : 0;
			start = end = ns_add(ts, offset);
			err = list_add(places, n, size, (struct recording_place){ (uint32_t)of, offset });
		}
		err = err ?: steps_set(&p->steps, i, STEP_AT, ns_add(ts, offset));
		if (!err && steps_end(&p->steps, i) > end)
			end = steps_end(&p->steps, i);
	}
	p->wall = ns_add(p->wall, end - start);
	err = err ?: served_finish(&p->served, places, n, end);
	free(places);
	return err;
}

static int find_gaps(struct process *p)
{
	for (size_t i = 0; i < p->steps.len; i++) {
		int64_t gap = is_next(p, i) ? steps_get(&p->steps, i, STEP_AT) - steps_end(&p->steps, i - 1) : -1;

		if (steps_set(&p->steps, i, STEP_GAP, gap < 0 ? -1 : gap))
			return -ENOMEM;
	}
	return 0;
}

static int compare_calls(const void *a, const void *b)
{
	const struct call *x = a, *y = b;

	return cmp_int(x->recording, y->recording) ?: (cmp_int(x->ts, y->ts) ?: cmp_int(y->ns, x->ns));
}

int model_finish(struct model *m)
{
	size_t n = 0;
	int err = 0;

	/* processes without steps and requests, such as a program that only starts the engine, come last */
	for (size_t i = 0; i < m->n_processes; i++) {
		struct process *p = m->processes[i];

		if (!p->steps.len && !p->served.len && !p->served.n_exchanges)
			continue;
		memmove(m->processes + n + 1, m->processes + n, (i - n) * sizeof(*m->processes));
		m->processes[n++] = p;
	}
	idmap_free(&m->by_pid);
	for (size_t i = 0; !err && i < m->n_processes; i++) {
		struct process *p = m->processes[i];

		if (sort_steps(p) || join_recordings(p) || find_lanes(p) || find_gaps(p) || stack_times_finish(m, p))
			err = -ENOMEM;
		list_sort(p->calls, p->n_calls, compare_calls);
		op_code_finish(&m->code, p);
		tally_sort(&p->ops);
		tally_sort(&p->syscalls);
	}
	list_for_each (f, m->families, m->n_families) {
		tally_sort(&f->stages);
		f->total = percentiles_of(f->totals.ns, f->totals.len);
	}
	tally_sort(&m->lost);
	return err;
}

/* ---- steps.c ---- */

#define SIZE_MIN 8

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	"of a value the first bytes are copied, whose others are its sign");

#define FIELD(name, member, ...) ARRAY(name, member, 1)
#define ARRAY(name, member, n)                                                                     \
	[STEP_##name] = { offsetof(struct step, member), sizeof(((struct step *)0)->member) / (n), \
		n },

/* Where the values of each column are in a step; those of an array follow its first one, and have no entry. */
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

static void put(struct column *c, size_t i, int64_t value)
{
	memcpy((char *)c->values + i * c->width, &value, c->width);
}

/* Makes the values of a column wide enough for this one. */
static int widen(struct steps *s, enum step_column column, int64_t value)
{
	struct column *c = &s->columns[column], wide = { .width = width_of(value) };

	if (!c->width && width_of(c->same) > wide.width)
		wide.width = width_of(c->same);
	wide.values = malloc(s->size * wide.width);
	if (!wide.values)
		return -ENOMEM;
	for (size_t i = 0; i < s->len; i++)
		put(&wide, i, steps_get(s, i, column));
	if (!c->width)
		s->wide[s->n_wide++] = (uint8_t)column;
	free(c->values);
	*c = wide;
	return 0;
}

int steps_set(struct steps *s, size_t i, enum step_column column, int64_t value)
{
	struct column *c = &s->columns[column];

	if (!c->width && value == c->same)
		return 0;
	if (width_of(value) > c->width && widen(s, column, value))
		return -ENOMEM;
	put(c, i, value);
	return 0;
}

static int grow(struct steps *s)
{
	size_t size = s->size ? s->size + s->size / 2 : SIZE_MIN;
	void *values;

	for (size_t c = 0; c < STEP_COLUMNS; c++) {
		if (!s->columns[c].width)
			continue;
		values = reallocarray(s->columns[c].values, size, s->columns[c].width);
		if (!values)
			return -ENOMEM;
		s->columns[c].values = values;
	}
	s->size = size;
	return 0;
}

int steps_add(struct steps *s, const struct step *step)
{
	int err = 0;

	if (s->len == s->size && grow(s))
		return -ENOMEM;
	if (!s->len)
		s->first = *step;
	for (size_t f = 0; f < STEP_COLUMNS && !err; f++) {
		for (size_t i = 0; i < fields[f].count && !err; i++) {
			int64_t value = 0;

			memcpy(&value, (const char *)step + fields[f].offset + i * fields[f].size, fields[f].size);
			if (!s->len)
				s->columns[f + i].same = value;
			else
				err = steps_set(s, s->len, (enum step_column)(f + i), value);
		}
	}
	s->len++;
	return err;
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

int steps_reorder(struct steps *s, const uint32_t *order)
{
	for (size_t k = 0; k < STEP_COLUMNS; k++) {
		struct column *c = &s->columns[k], sorted = *c;

		if (!c->width)
			continue;
		sorted.values = malloc(s->size * c->width);
		if (!sorted.values)
			return -ENOMEM;
		for (size_t i = 0; i < s->len; i++)
			put(&sorted, i, steps_get(s, order[i], (enum step_column)k));
		free(c->values);
		*c = sorted;
	}
	return 0;
}
