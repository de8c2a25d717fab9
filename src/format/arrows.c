// SPDX-License-Identifier: BSD-2-Clause
#include "format/arrows.h"

#include <string.h>

#include "util/alloc.h"

/* In one pass over the rings at most a few thousand slices with a wake-up arrive: a set overflows
 * only by chance, and then an arrow is missing. */
#define SETS (1 << 14)
#define WAYS 4
#define WAITING (1 << 13)
#define PROBES 16

struct slice {
	uint64_t start_ns;
	uint32_t tid, track;
};

struct arrows {
	struct slice written[SETS][WAYS]; /* the newest first */
	struct arrow waiting[WAITING];    /* wake_ns 0: empty; open addressing over PROBES slots */
};

struct arrows *arrows_new(void)
{
	return xcalloc(1, sizeof(struct arrows));
}

void arrows_reset(struct arrows *a)
{
	memset(a, 0, sizeof(*a));
}

static size_t slice_hash(uint32_t tid, uint64_t slice_ns)
{
	/* 2^64 / golden ratio: the upper bits are mixed best */
	return (size_t)(((slice_ns ^ (uint64_t)tid << 40) * 0x9e3779b97f4a7c15ull) >> 40);
}

void arrows_add_slice(struct arrows *a, uint32_t tid, uint64_t slice_ns, uint32_t track)
{
	struct slice *set = a->written[slice_hash(tid, slice_ns) % SETS];

	memmove(set + 1, set, (WAYS - 1) * sizeof(*set));
	set[0] = (struct slice){ slice_ns, tid, track };
}

/* Returns whether the slice was written, and then sets the track. */
static bool slice_is_written(const struct arrows *a, uint32_t tid, uint64_t slice_ns, uint32_t *ret_track)
{
	const struct slice *set = a->written[slice_hash(tid, slice_ns) % SETS];

	for (int i = 0; i < WAYS; i++) {
		if (set[i].start_ns == slice_ns && set[i].tid == tid) {
			*ret_track = set[i].track;
			return true;
		}
	}
	return false;
}

bool arrows_take(struct arrows *a, uint32_t tid, uint64_t slice_ns, struct arrow *ret_arrow)
{
	size_t place = slice_hash(tid, slice_ns);

	for (int i = 0; i < PROBES; i++) {
		struct arrow *w = &a->waiting[(place + (size_t)i) % WAITING];

		if (!w->wake_ns || w->waker_tid != tid || w->slice_ns != slice_ns)
			continue;
		*ret_arrow = *w;
		w->wake_ns = 0;
		return true;
	}
	return false;
}

bool arrows_add(struct arrows *a, struct arrow *arrow)
{
	size_t place = slice_hash(arrow->waker_tid, arrow->slice_ns);
	struct arrow *oldest = &a->waiting[place % WAITING];

	if (slice_is_written(a, arrow->waker_tid, arrow->slice_ns, &arrow->waker_track))
		return true;
	for (int i = 0; i < PROBES; i++) {
		struct arrow *w = &a->waiting[(place + (size_t)i) % WAITING];

		if (!w->wake_ns) {
			*w = *arrow;
			return false;
		}
		if (w->wake_ns < oldest->wake_ns)
			oldest = w;
	}
	*oldest = *arrow;
	return false;
}
