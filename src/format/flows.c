// SPDX-License-Identifier: BSD-2-Clause
#include "format/flows.h"

#include <string.h>

#include "util/alloc.h"

/* In one pass over the rings at most a few thousand slices with a wake-up arrive: a set overflows
 * only by chance, and then a flow is missing. */
#define SETS (1 << 14)
#define WAYS 4
#define WAITING (1 << 13)
#define PROBES 16

struct slice {
	uint64_t start_ns;
	uint32_t tid, track;
};

struct flows {
	struct slice written[SETS][WAYS]; /* the newest first */
	struct flow waiting[WAITING];     /* wake_ns 0: empty; open addressing over PROBES slots */
};

struct flows *flows_new(void)
{
	return xcalloc(1, sizeof(struct flows));
}

void flows_reset(struct flows *f)
{
	memset(f, 0, sizeof(*f));
}

static size_t slice_hash(uint32_t tid, uint64_t slice_ns)
{
	/* 2^64 / golden ratio: the upper bits are mixed best */
	return (size_t)(((slice_ns ^ (uint64_t)tid << 40) * 0x9e3779b97f4a7c15ull) >> 40);
}

void flows_add_slice(struct flows *f, uint32_t tid, uint64_t slice_ns, uint32_t track)
{
	struct slice *set = f->written[slice_hash(tid, slice_ns) % SETS];

	memmove(set + 1, set, (WAYS - 1) * sizeof(*set));
	set[0] = (struct slice){ slice_ns, tid, track };
}

/* Returns whether the slice was written, and then sets the track. */
static bool slice_is_written(const struct flows *f, uint32_t tid, uint64_t slice_ns, uint32_t *ret_track)
{
	const struct slice *set = f->written[slice_hash(tid, slice_ns) % SETS];

	for (int i = 0; i < WAYS; i++) {
		if (set[i].start_ns == slice_ns && set[i].tid == tid) {
			*ret_track = set[i].track;
			return true;
		}
	}
	return false;
}

bool flows_take(struct flows *f, uint32_t tid, uint64_t slice_ns, struct flow *ret_flow)
{
	size_t place = slice_hash(tid, slice_ns);

	for (int i = 0; i < PROBES; i++) {
		struct flow *w = &f->waiting[(place + (size_t)i) % WAITING];

		if (!w->wake_ns || w->waker_tid != tid || w->slice_ns != slice_ns)
			continue;
		*ret_flow = *w;
		w->wake_ns = 0;
		return true;
	}
	return false;
}

bool flows_add(struct flows *f, struct flow *flow)
{
	size_t place = slice_hash(flow->waker_tid, flow->slice_ns);
	struct flow *oldest = &f->waiting[place % WAITING];

	if (slice_is_written(f, flow->waker_tid, flow->slice_ns, &flow->waker_track))
		return true;
	for (int i = 0; i < PROBES; i++) {
		struct flow *w = &f->waiting[(place + (size_t)i) % WAITING];

		if (!w->wake_ns) {
			*w = *flow;
			return false;
		}
		if (w->wake_ns < oldest->wake_ns)
			oldest = w;
	}
	*oldest = *flow;
	return false;
}
