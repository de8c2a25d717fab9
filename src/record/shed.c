// SPDX-License-Identifier: BSD-2-Clause
#include "record/shed.h"

#include <string.h>

void shed_init(struct shed *s, uint64_t budget)
{
	memset(s, 0, sizeof(*s));
	s->budget = budget;
	s->last = SHED_PARTS;
	for (int i = 0; i < SHED_PARTS; i++)
		s->part[i].quiet_ns = SHED_QUIET_NS;
}

void shed_step(struct shed *s, uint64_t start_ns, uint64_t dur_ns, uint64_t weight_ns)
{
	struct shed_look *l = &s->look;

	if (start_ns < s->since_ns || !dur_ns)
		return;
	if (!l->steps)
		l->begun_ns = start_ns;
	l->steps++;
	l->ns += dur_ns;
	l->weight_ns += weight_ns;
}

static uint64_t share_of(uint64_t part, uint64_t whole)
{
	return (uint64_t)((unsigned __int128)part * SHED_WHOLE / whole);
}

static bool look_is_over(const struct shed_look *l, uint64_t now)
{
	if (l->steps >= SHED_LOOK_STEPS)
		return true;
	return l->steps >= SHED_LOOK_LEAST && now >= l->begun_ns + SHED_LOOK_NS;
}

static uint64_t per_step(const struct shed_look *l)
{
	return l->weight_ns / l->steps;
}

static enum shed_part first_on(const struct shed *s)
{
	int i = 0;

	while (i < SHED_PARTS && !(s->parts & ~s->off & 1u << i))
		i++;
	return i;
}

static bool turn_off(struct shed *s, uint64_t now)
{
	enum shed_part part = first_on(s);
	uint64_t on;

	if (part == SHED_PARTS)
		return false;
	on = s->part[part].on_ns;
	if (on && now - on < 2 * s->part[part].quiet_ns)
		s->part[part].quiet_ns *= 2;
	else
		s->part[part].quiet_ns = SHED_QUIET_NS;
	if (s->part[part].quiet_ns > SHED_QUIET_MAX_NS)
		s->part[part].quiet_ns = SHED_QUIET_MAX_NS;
	s->off |= 1u << part;
	s->last = part;
	s->before_ns = per_step(&s->look);
	return true;
}

/* Whether a tenth of the budget would be left with it. */
static bool fits(const struct shed *s, enum shed_part part)
{
	const struct shed_look *l = &s->look;
	uint64_t weight = l->weight_ns + s->part[part].price_ns * l->steps;

	return share_of(weight, l->ns) < s->budget - s->budget / 10;
}

static bool turn_on(struct shed *s, uint64_t now)
{
	uint64_t quiet = now > s->since_ns ? now - s->since_ns : 0;

	for (int i = SHED_PARTS - 1; i >= 0; i--) {
		if (!(s->off & 1u << i) || quiet < s->part[i].quiet_ns)
			continue;
		if (!fits(s, i) && (quiet < SHED_QUIET_MAX_NS || s->share >= s->budget))
			continue;
		s->off &= ~(1u << i);
		s->part[i].on_ns = now;
		return true;
	}
	return false;
}

/* Takes what turning off the last part has saved. */
static void take_price(struct shed *s)
{
	uint64_t now = per_step(&s->look);

	if (s->last == SHED_PARTS)
		return;
	s->part[s->last].price_ns = s->before_ns > now ? s->before_ns - now : 0;
	s->last = SHED_PARTS;
}

bool shed_turn(struct shed *s, uint32_t parts, uint64_t now_ns)
{
	bool changed;

	s->parts = parts;
	if (!look_is_over(&s->look, now_ns))
		return false;
	s->share = share_of(s->look.weight_ns, s->look.ns);
	take_price(s);
	changed = s->share > s->budget ? turn_off(s, now_ns) : turn_on(s, now_ns);
	s->look = (struct shed_look){ 0 };
	return changed;
}

void shed_applied(struct shed *s, uint64_t now_ns)
{
	s->since_ns = now_ns;
	s->look = (struct shed_look){ 0 };
}

bool shed_exhausted(const struct shed *s)
{
	return s->share > s->budget && first_on(s) == SHED_PARTS;
}
