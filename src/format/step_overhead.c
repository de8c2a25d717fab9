// SPDX-License-Identifier: BSD-2-Clause
#include "format/step_overhead.h"

/* all: used if t was never timed */
static uint64_t mean_ns(const struct hit_time *t, const struct hit_time *all)
{
	return t->n ? t->ns / t->n : all->ns / all->n;
}

void probe_costs_make(struct probe_costs *p, const struct hit_time timed[HIT_MAX], const struct hit_time *counters, const uint64_t outside_ns[HIT_MAX])
{
	struct hit_time all = { 0 };

	for (int k = 0; k < HIT_MAX; k++) {
		all.n += timed[k].n;
		all.ns += timed[k].ns;
	}
	p->known = all.n > 0;
	for (int k = 0; k < HIT_MAX && p->known; k++)
		p->ns[k] = outside_ns[k] + (k == HIT_HOOK ? 0 : mean_ns(&timed[k], &all));
	if (p->known && counters)
		p->ns[HIT_SWITCH] += outside_ns[HIT_SWITCH] + mean_ns(counters, &all);
}

/* Samples are not counted per step: they cost their average, or nothing where --budget left some out. What the stacks of waits
 * cost is unknown. */
static uint64_t hits_ns(const struct rec_step *r, const struct hits *hits, const uint64_t ns[ST_MAX], const struct probe_costs *p)
{
	uint64_t on_cpu = ns[ST_CPU] + ns[ST_BARRIER] + ns[ST_GC] + ns[ST_SYSCALL] + ns[ST_FAULT] + ns[ST_IRQ], sum = 0;

	if (p->sample_period_ns && !(r->left_out & 1u << SHED_SAMPLES))
		sum = on_cpu * p->sample_ns / p->sample_period_ns;
	for (int k = 0; k < HIT_MAX; k++)
		sum += hits->n[k] * p->ns[k];
	return sum;
}

static uint64_t behind_own_ns(const struct behind_table *table, uint32_t self)
{
	uint64_t ns = 0;

	for (int i = 0; i < BEHIND_MAX; i++) {
		if (table->slots[i].ns && table->slots[i].tgid == self)
			ns += table->slots[i].ns;
	}
	return ns;
}

bool step_overhead_of(const struct rec_step *r, const struct probe_costs *p, uint32_t self, struct step_overhead *ret_weight)
{
	uint64_t hits, waited;

	if (!p || !p->known)
		return false;
	hits = hits_ns(r, &r->hits, r->ns, p);
	waited = behind_own_ns(&r->behind, self);
	if (r->workers) {
		hits = (hits + hits_ns(r, &r->workers_hits, r->workers_ns, p)) / (1 + (uint64_t)r->workers);
		waited += behind_own_ns(&r->workers_behind, self);
	}
	/* no step would have ended before it began, though several threads may have waited at once */
	if (waited > r->h.dur_ns)
		waited = r->h.dur_ns;
	ret_weight->waited_ns = waited;
	ret_weight->ns = waited + hits < r->h.dur_ns ? waited + hits : r->h.dur_ns;
	return true;
}
