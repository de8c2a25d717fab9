// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/load.h"

#include <errno.h>
#include <stdlib.h>

struct device {
	uint32_t device;
	uint64_t until_ns; /* what ran up to then has been counted */
	uint64_t busy_ns[GPU_LOAD_SLOTS];
	bool was_told; /* the last interval was not 0 */
};

struct gpu_load {
	uint32_t tgid;
	uint64_t next_ns;             /* the begin of the first interval that has not been told */
	size_t first;                 /* its slot */
	int64_t open;                 /* what was launched before its end, and not done */
	int64_t more[GPU_LOAD_SLOTS]; /* by how much that changes */
	struct device *devices[GPU_LOAD_DEVICES];
	size_t n_devices;
};

int gpu_load_new(uint32_t tgid, uint64_t now_ns, struct gpu_load **ret_load)
{
	struct gpu_load *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->tgid = tgid;
	l->next_ns = now_ns - now_ns % GPU_LOAD_NS;
	*ret_load = l;
	return 0;
}

void gpu_load_free(struct gpu_load *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n_devices; i++)
		free(l->devices[i]);
	free(l);
}

/* NULL: there are too many */
static struct device *get_device(struct gpu_load *l, uint32_t device)
{
	struct device *d;

	for (size_t i = 0; i < l->n_devices; i++) {
		if (l->devices[i]->device == device)
			return l->devices[i];
	}
	d = l->n_devices < GPU_LOAD_DEVICES ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return NULL;
	d->device = device;
	l->devices[l->n_devices++] = d;
	return d;
}

/* Counted from the first that has not been told; what is before it counts in that one, what is too far ahead in the last. */
static size_t interval_of(const struct gpu_load *l, uint64_t ns)
{
	uint64_t i = ns < l->next_ns ? 0 : (ns - l->next_ns) / GPU_LOAD_NS;

	return i < GPU_LOAD_SLOTS ? (size_t)i : GPU_LOAD_SLOTS - 1;
}

static size_t slot_of(const struct gpu_load *l, size_t interval)
{
	return (l->first + interval) % GPU_LOAD_SLOTS;
}

static void add_busy(struct gpu_load *l, struct device *d, uint64_t from_ns, uint64_t to_ns)
{
	if (from_ns < l->next_ns)
		from_ns = l->next_ns;
	while (from_ns < to_ns) {
		size_t i = interval_of(l, from_ns);
		uint64_t end_ns = l->next_ns + (i + 1) * GPU_LOAD_NS;

		if (i == GPU_LOAD_SLOTS - 1)
			return;
		if (end_ns > to_ns)
			end_ns = to_ns;
		d->busy_ns[slot_of(l, i)] += end_ns - from_ns;
		from_ns = end_ns;
	}
}

void gpu_load_add(struct gpu_load *l, const struct rec_gpu *r)
{
	struct device *d = get_device(l, r->device);
	uint64_t end_ns = r->h.start_ns + r->h.dur_ns, launched_ns = r->launched_ns ? r->launched_ns : r->h.start_ns;
	size_t from, to;

	if (!d)
		return;
	add_busy(l, d, r->h.start_ns > d->until_ns ? r->h.start_ns : d->until_ns, end_ns);
	if (end_ns > d->until_ns)
		d->until_ns = end_ns;
	if (end_ns < l->next_ns)
		return;
	/* at the end of an interval it has been launched, at that of another one it is done */
	from = interval_of(l, launched_ns < end_ns ? launched_ns : end_ns);
	to = interval_of(l, end_ns);
	l->more[slot_of(l, from)]++;
	l->more[slot_of(l, to)]--;
}

static void tell(struct gpu_load *l, struct device *d, uint64_t waits, bool is_known, gpu_load_cb cb, void *arg)
{
	struct rec_gpu_load r = {
		.h = { .kind = REC_GPU_LOAD, .start_ns = l->next_ns, .dur_ns = GPU_LOAD_NS, .tgid = l->tgid, .tid = l->tgid },
		.busy_ns = d->busy_ns[l->first],
		.waits = (u32)waits,
		.has_waits = l->n_devices == 1,
	};
	bool any = r.busy_ns || (r.has_waits && waits);

	r.h.id = d->device;
	d->busy_ns[l->first] = 0;
	if (is_known && (any || d->was_told))
		cb(&r.h, sizeof(r), arg);
	d->was_told = is_known ? any : d->was_told;
}

void gpu_load_take(
	struct gpu_load *l, uint64_t until_ns, const struct gpu_load_ops *ops, void *ops_arg, gpu_load_cb cb, void *arg)
{
	for (; l->next_ns + GPU_LOAD_NS <= until_ns; l->next_ns += GPU_LOAD_NS) {
		uint64_t end_ns = l->next_ns + GPU_LOAD_NS, waits;
		bool is_known;

		l->open += l->more[l->first];
		l->more[l->first] = 0;
		if (!l->n_devices) { /* nothing to tell for long */
			l->next_ns = until_ns - until_ns % GPU_LOAD_NS - GPU_LOAD_NS;
			continue;
		}
		is_known = ops->is_known(l->next_ns, end_ns, ops_arg);
		waits = (uint64_t)(l->open > 0 ? l->open : 0) + ops->pending(end_ns, ops_arg);
		for (size_t i = 0; i < l->n_devices; i++)
			tell(l, l->devices[i], waits, is_known, cb, arg);
		l->first = (l->first + 1) % GPU_LOAD_SLOTS;
	}
}
