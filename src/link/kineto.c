// SPDX-License-Identifier: BSD-2-Clause
#include "link/kineto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct kineto {
	struct link_file *f;
	struct numbereds launches, launched; /* by correlation */
	int64_t base_ns;
	bool has_base, has_events;
};

int kineto_new(struct link_file *f, struct kineto **ret_kineto)
{
	struct kineto *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	k->f = f;
	*ret_kineto = k;
	return 0;
}

void kineto_free(struct kineto *k)
{
	if (!k)
		return;
	numbereds_clear(&k->launches);
	numbereds_clear(&k->launched);
	free(k);
}

void kineto_base(struct kineto *k, int64_t base_ns)
{
	k->has_base = true;
	if (link_time_fits(base_ns))
		k->base_ns = base_ns;
}

static bool read_number(const struct json_node *args, const char *key, uint64_t *ret)
{
	const struct json_node *value = node_get(args, key);

	if (!node_is(value, JSON_INT))
		return false;
	*ret = node_u64(value);
	return true;
}

static int read_call(struct kineto *k, const struct trace_event *e, int64_t start_ns, int64_t end_ns)
{
	int64_t tid = node_s64(e->tid);

	return spans_add(&k->f->spans, e->name->text, tid < 0 || tid > UINT32_MAX ? 0 : (uint32_t)tid, start_ns, end_ns);
}

int kineto_event(struct kineto *k, const struct trace_event *e, int64_t start_ns, int64_t end_ns)
{
	const char *cat = node_string(e->cat);
	uint64_t number;
	int err = 0;

	if (!cat)
		return 0;
	if (!strcmp(cat, "cpu_op") || !strcmp(cat, "user_annotation")) {
		k->has_events = true;
		if (read_number(e->args, "Record function id", &number) && number)
			err = numbereds_add(&k->f->operators, number, start_ns, name_hash(e->name->text, e->name->len));
		return err || *cat != 'c' ? err : read_call(k, e, start_ns, end_ns);
	}
	if (!strcmp(cat, "cuda_runtime") || !strcmp(cat, "cuda_driver")) {
		k->has_events = true;
		if (read_number(e->args, "correlation", &number))
			err = numbereds_add(&k->launches, number, start_ns, 0);
		return err ? err : read_call(k, e, start_ns, end_ns);
	}
	if (strcmp(cat, "kernel") && strcmp(cat, "gpu_memcpy") && strcmp(cat, "gpu_memset"))
		return 0;
	k->has_events = true;
	return read_number(e->args, "correlation", &number) ? numbereds_add(&k->launched, number, start_ns, 0) : 0;
}

bool kineto_is(const struct kineto *k)
{
	return k->has_base || k->has_events;
}

static void check_launches(struct kineto *k)
{
	struct launch_check *c = &k->f->launches;

	numbereds_sort(&k->launches);
	c->least_ns = INT64_MAX;
	c->left_out = k->launches.left_out + k->launched.left_out;
	for (size_t i = 0; i < k->launched.n; i++) {
		const struct numbered *of = numbereds_find(&k->launches, k->launched.list[i].number);
		int64_t ns;

		if (!of) {
			c->unpaired++;
			continue;
		}
		ns = k->launched.list[i].ns - of->ns;
		c->kernels++;
		c->early += ns < 0;
		c->least_ns = ns < c->least_ns ? ns : c->least_ns;
	}
}

int kineto_finish(struct kineto *k)
{
	struct link_file *f = k->f;

	for (size_t i = 0; i < f->spans.n; i++) {
		f->spans.list[i].start_ns += k->base_ns;
		f->spans.list[i].end_ns += k->base_ns;
	}
	if (f->first_ns <= f->last_ns) {
		f->first_ns += k->base_ns;
		f->last_ns += k->base_ns;
	}
	f->begin_ns = k->base_ns;
	numbereds_sort(&f->operators);
	check_launches(k);
	return link_clock_add(&f->clock, f->first_ns, f->first_ns);
}
