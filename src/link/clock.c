// SPDX-License-Identifier: BSD-2-Clause
#include "link/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "link/file.h"
#include "util/bisect.h"
#include "util/list_room.h"

int link_clock_add(struct link_clock *c, int64_t own_ns, int64_t real_ns)
{
	int64_t ahead;

	if (c->n == CLOCK_POINTS_MAX)
		return -E2BIG;
	if (__builtin_sub_overflow(real_ns, own_ns, &ahead))
		return 0;
	if (list_room((void **)&c->points, c->n, &c->size, sizeof(*c->points)))
		return -ENOMEM;
	c->points[c->n++] = (struct clock_point){ own_ns, ahead };
	return 0;
}

static int compare_points(const void *x, const void *y)
{
	const struct clock_point *a = x, *b = y;

	return a->own_ns < b->own_ns ? -1 : a->own_ns > b->own_ns;
}

void link_clock_sort(struct link_clock *c)
{
	if (c->n)
		qsort(c->points, c->n, sizeof(*c->points), compare_points);
}

void link_clock_clear(struct link_clock *c)
{
	free(c->points);
	memset(c, 0, sizeof(*c));
}

/* How many points are not after it. */
static size_t points_until(const struct link_clock *c, int64_t own_ns)
{
	return bisect(c->n, k, c->points[k].own_ns <= own_ns);
}

int64_t link_clock_ahead(const struct link_clock *c, int64_t own_ns)
{
	size_t i = points_until(c, own_ns);
	const struct clock_point *a, *b;
	double part;

	if (!c->n)
		return 0;
	if (!i || i == c->n)
		return c->points[i ? i - 1 : 0].ahead_ns;
	a = &c->points[i - 1];
	b = &c->points[i];
	part = (double)(own_ns - a->own_ns) / (double)(b->own_ns - a->own_ns);
	return a->ahead_ns + (int64_t)((double)(b->ahead_ns - a->ahead_ns) * part);
}

int64_t link_clock_spread(const struct link_clock *c, int64_t from_ns, int64_t to_ns)
{
	size_t i = points_until(c, from_ns), end = points_until(c, to_ns);
	int64_t low = INT64_MAX, high = INT64_MIN;

	if (!c->n)
		return 0;
	i = i ? i - 1 : 0;
	for (; i < c->n && i <= end; i++) {
		low = c->points[i].ahead_ns < low ? c->points[i].ahead_ns : low;
		high = c->points[i].ahead_ns > high ? c->points[i].ahead_ns : high;
	}
	return high - low;
}

bool link_clock_text(const char *text, int64_t *ret_ns)
{
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret_ns = strtoll(text, &end, 10);
	return !errno && !*end && link_time_fits(*ret_ns);
}
