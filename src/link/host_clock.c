// SPDX-License-Identifier: BSD-2-Clause
#include "link/host_clock.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/list.h"

enum boot_fit boot_compare(const struct boot *a, const struct boot *b)
{
	if (a->id.boot_id[0] && b->id.boot_id[0])
		return strcmp(a->id.boot_id, b->id.boot_id) ? BOOT_OTHER : BOOT_SAME;
	return llabs(a->lead_ns - b->lead_ns) <= BOOT_AGREE_NS ? BOOT_LIKELY : BOOT_UNLIKELY;
}

void boot_choose(struct boot_choice *c, uint32_t host, enum boot_fit fit)
{
	if ((fit != BOOT_SAME && fit != BOOT_LIKELY) || fit < c->fit)
		return;
	*c = (struct boot_choice){ .fit = fit, .host = host, .several = fit == c->fit };
}

int link_clock_add(struct link_clock *c, int64_t own_ns, int64_t real_ns)
{
	int64_t ahead;

	if (c->n == CLOCK_POINTS_MAX)
		return -E2BIG;
	if (!__builtin_sub_overflow(real_ns, own_ns, &ahead))
		*list_push(c->points, c->n, c->size) = (struct clock_point){ own_ns, ahead };
	return 0;
}

static int compare_points(const void *x, const void *y)
{
	const struct clock_point *a = x, *b = y;

	return cmp_int(a->own_ns, b->own_ns);
}

void link_clock_sort(struct link_clock *c)
{
	list_sort(c->points, c->n, compare_points);
}

void link_clock_clear(struct link_clock *c)
{
	free(c->points);
	memset(c, 0, sizeof(*c));
}

/* Returns how many points are at or before own_ns. */
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

/* Clocks are read in whole nanoseconds, each rounded down. */
#define ROUNDING_NS 1
/* Steps of a search for a rate; each leaves two thirds or half of the interval, so 160 leave 1e-28 of it. */
#define NARROWINGS 160

void host_messages_add(struct host_messages *m, bool from_us, int64_t sent_ns, int64_t received_ns, uint32_t message)
{
	struct host_bounds *b = from_us ? &m->high : &m->low;

	if (b->n == HOST_BOUNDS_MAX || !link_time_fits(sent_ns) || !link_time_fits(received_ns)) {
		m->left_out++;
		return;
	}
	*list_push(b->list, b->n, b->size) = from_us ? (struct host_bound){ sent_ns, received_ns - sent_ns + ROUNDING_NS, message }
						     : (struct host_bound){ received_ns, sent_ns - received_ns - ROUNDING_NS, message };
}

void host_messages_clear(struct host_messages *m)
{
	free(m->low.list);
	free(m->high.list);
	memset(m, 0, sizeof(*m));
}

/* ---- convex hulls of the bounds ---- */

static int compare_bounds(const void *x, const void *y)
{
	const struct host_bound *a = x, *b = y;

	return cmp_int(a->at_ns, b->at_ns) ?: cmp_int(a->ns, b->ns);
}

/* Whether b, between a and c, is no corner of the hull: for sign 1 not below the line from a to c, for -1 not above it. */
static bool corner_is_inside(const struct host_bound *a, const struct host_bound *b, const struct host_bound *c, int sign)
{
	__int128 left = (__int128)(b->at_ns - a->at_ns) * ((__int128)c->ns - a->ns);
	__int128 right = (__int128)(c->at_ns - a->at_ns) * ((__int128)b->ns - a->ns);

	return sign > 0 ? right >= left : right <= left;
}

/* Keeps the hull's corners that face the line: for sign 1 the lower hull of upper bounds, for -1 the upper hull of lower ones. */
static void keep_hull(struct host_bounds *b, int sign)
{
	size_t n = 0;

	list_sort(b->list, b->n, compare_bounds);
	for (size_t i = 0; i < b->n; i++) {
		struct host_bound p = b->list[i];

		if (n && b->list[n - 1].at_ns == p.at_ns) {
			if (sign > 0)
				continue; /* the first bound at an instant is the lowest */
			n--;
		}
		while (n >= 2 && corner_is_inside(&b->list[n - 2], &b->list[n - 1], &p, sign))
			n--;
		b->list[n++] = p;
	}
	b->n = n;
}

/* ---- allowed lines ---- */

struct solver {
	const struct host_bounds *low, *high;
	int64_t from_ns, base_ns; /* origins of times and offsets, so that doubles hold them to the nanosecond */
};

/* Returns the offset at from_ns of the line of this rate that touches the hull, at corner *ret; sign as for keep_hull. */
static double solver_touch_hull(const struct solver *s, const struct host_bounds *b, int sign, double rate, size_t *ret)
{
	size_t low = 0, high = b->n - 1;

	/* the slopes of the hull's edges are sorted: the corner is where they pass the rate */
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct host_bound *p = &b->list[mid];
		double rise = (double)((__int128)p[1].ns - p[0].ns), even = rate * (double)(p[1].at_ns - p[0].at_ns);

		if (sign * rise < sign * even)
			low = mid + 1;
		else
			high = mid;
	}
	*ret = low;
	return (double)((__int128)b->list[low].ns - s->base_ns) - rate * (double)(b->list[low].at_ns - s->from_ns);
}

static double solver_highest_at(const struct solver *s, double rate, size_t *ret)
{
	return solver_touch_hull(s, s->high, 1, rate, ret);
}

static double solver_lowest_at(const struct solver *s, double rate, size_t *ret)
{
	return solver_touch_hull(s, s->low, -1, rate, ret);
}

static double solver_room_at(const struct solver *s, double rate)
{
	size_t low, high;

	return solver_highest_at(s, rate, &high) - solver_lowest_at(s, rate, &low);
}

/* What to maximize over the rate: the room, or the highest or lowest offset `later` ns after from_ns; each is concave. */
enum want { WANT_ROOM,
	WANT_HIGHEST,
	WANT_LOWEST };

static double solver_value_at(const struct solver *s, enum want want, double later, double rate)
{
	size_t i;

	switch (want) {
	case WANT_HIGHEST:
		return solver_highest_at(s, rate, &i) + rate * later;
	case WANT_LOWEST:
		return -(solver_lowest_at(s, rate, &i) + rate * later);
	default:
		return solver_room_at(s, rate);
	}
}

/* Returns the rate between a and b with the greatest value. */
static double solver_find_rate(const struct solver *s, enum want want, double later, double a, double b)
{
	for (int i = 0; i < NARROWINGS; i++) {
		double third = (b - a) / 3;

		if (solver_value_at(s, want, later, a + third) < solver_value_at(s, want, later, b - third))
			a += third;
		else
			b -= third;
	}
	return a + (b - a) / 2;
}

/* Returns the last rate that leaves room, going from `allowed`, which does, towards one that may not. */
static double solver_last_allowed(const struct solver *s, double allowed, double towards)
{
	if (solver_room_at(s, towards) >= 0)
		return towards;
	for (int i = 0; i < NARROWINGS; i++) {
		double mid = allowed + (towards - allowed) / 2;

		*(solver_room_at(s, mid) >= 0 ? &allowed : &towards) = mid;
	}
	return allowed;
}

static int64_t clamp_s64(__int128 v)
{
	return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN
							 : (int64_t)v;
}

/* Sets the bounds at one end of the time, over rates from first to last. Returns half their distance plus rounding. */
static int64_t solver_bound_end(const struct solver *s, struct host_clock *c, int end, double first, double last)
{
	double later = end ? (double)(c->to_ns - c->from_ns) : 0;
	double up = solver_value_at(s, WANT_HIGHEST, later, solver_find_rate(s, WANT_HIGHEST, later, first, last));
	double down = -solver_value_at(s, WANT_LOWEST, later, solver_find_rate(s, WANT_LOWEST, later, first, last));
	__int128 high = s->base_ns + (__int128)ceil(up), low = s->base_ns + (__int128)floor(down);

	c->high_ns[end] = clamp_s64(high);
	c->low_ns[end] = clamp_s64(low);
	c->ahead_ns[end] = clamp_s64(low + (high - low) / 2);
	return clamp_s64((high - low + 1) / 2 + ROUNDING_NS);
}

static void solver_solve(const struct solver *s, struct host_clock *c)
{
	double best = solver_find_rate(s, WANT_ROOM, 0, -HOST_DRIFT_MAX, HOST_DRIFT_MAX), left = solver_room_at(s, best), first, last;
	size_t low, high;

	solver_lowest_at(s, best, &low);
	solver_highest_at(s, best, &high);
	c->low_message = s->low->list[low].message;
	c->high_message = s->high->list[high].message;
	if (left < 0) {
		c->known = HOST_CONTRADICTS;
		c->apart_ns = clamp_s64((__int128)ceil(-left));
		return;
	}
	c->known = HOST_BOTH;
	first = solver_last_allowed(s, best, -HOST_DRIFT_MAX);
	last = solver_last_allowed(s, best, HOST_DRIFT_MAX);
	for (int end = 0; end < 2; end++) {
		int64_t half = solver_bound_end(s, c, end, first, last);

		c->residual_ns = half > c->residual_ns ? half : c->residual_ns;
	}
}

/* Returns the tightest of one-sided bounds, for both ends since the drift is unknown. */
static void bounds_find_tightest(const struct host_bounds *b, int sign, int64_t ret_ns[2], uint32_t *ret_message)
{
	const struct host_bound *best = &b->list[0];

	for (size_t i = 1; i < b->n; i++)
		best = sign > 0 ? (b->list[i].ns < best->ns ? &b->list[i] : best) : (b->list[i].ns > best->ns ? &b->list[i] : best);
	ret_ns[0] = ret_ns[1] = best->ns;
	*ret_message = best->message;
}

int host_clock_find(struct host_messages *m, int64_t from_ns, int64_t to_ns, struct host_clock *ret)
{
	struct solver s = { .low = &m->low, .high = &m->high, .from_ns = from_ns };

	if (!link_time_fits(from_ns) || !link_time_fits(to_ns) || from_ns > to_ns)
		return -EINVAL;
	memset(ret, 0, sizeof(*ret));
	ret->from_ns = from_ns;
	ret->to_ns = to_ns;
	keep_hull(&m->low, -1);
	keep_hull(&m->high, 1);
	if (m->low.n && m->high.n) {
		s.base_ns = m->high.list[0].ns;
		solver_solve(&s, ret);
	} else if (m->low.n) {
		ret->known = HOST_AT_LEAST;
		bounds_find_tightest(&m->low, -1, ret->low_ns, &ret->low_message);
	} else if (m->high.n) {
		ret->known = HOST_AT_MOST;
		bounds_find_tightest(&m->high, 1, ret->high_ns, &ret->high_message);
	}
	return 0;
}

int64_t host_clock_ahead(const struct host_clock *c, int64_t at_ns)
{
	__int128 span = c->to_ns - c->from_ns, change = (__int128)c->ahead_ns[1] - c->ahead_ns[0];

	if (!span)
		return c->ahead_ns[0];
	return c->ahead_ns[0] + (int64_t)(change * (at_ns - c->from_ns) / span);
}
