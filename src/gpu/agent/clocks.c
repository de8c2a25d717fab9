// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/agent/agent.h"

#include <time.h>

#define READINGS 100
#define DRIFT_MAX_PPM 500 /* quartz drifts by less than 100, NTP slews by up to 500 */
#define DRIFT_MAX (DRIFT_MAX_PPM / 1e6)
#define STEP_MIN_NS 20000

uint64_t clocks_boot_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static const struct comparison *clocks_newest(const struct clocks *c)
{
	return &c->kept[(c->count - 1) % CLOCKS_KEPT];
}

static uint64_t time_distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static uint64_t comparison_extrapolate(const struct comparison *from, double slope, uint64_t gpu)
{
	int64_t elapsed = (int64_t)(gpu - from->gpu);

	return from->boot + (uint64_t)elapsed + (uint64_t)(int64_t)(slope * (double)elapsed);
}

void clocks_add(struct clocks *c, uint64_t gpu, uint64_t boot, uint64_t uncertain_ns)
{
	struct comparison new = { .gpu = gpu, .boot = boot };
	const struct comparison *last = c->count ? clocks_newest(c) : NULL;
	uint64_t elapsed, bend;

	if (last) {
		elapsed = boot - last->boot;
		bend = time_distance(boot, comparison_extrapolate(last, last->slope, gpu));
		/* twice, since the last slope may be as wrong in the other direction */
		if (gpu <= last->gpu || bend > 2 * (elapsed / 1000000 * DRIFT_MAX_PPM + uncertain_ns) + STEP_MIN_NS) {
			/* the time of the step is not known; the clock rates stay as they were */
			new.step = true;
			new.slope = last->slope;
			c->said.steps++;
			c->stepped_at = c->count;
		} else {
			new.slope = ((double)(int64_t)(elapsed - (gpu - last->gpu))) / (double)(gpu - last->gpu);
			/* over a short time uncertainty exceeds drift */
			if (elapsed < 1000000 && c->count > 1)
				new.slope = last->slope;
			/* on a busy machine over a longer time, too: an impossible rate would be followed for long */
			if (new.slope > DRIFT_MAX)
				new.slope = DRIFT_MAX;
			else if (new.slope < -DRIFT_MAX)
				new.slope = -DRIFT_MAX;
			c->said.bend_ns = bend > c->said.bend_ns ? bend : c->said.bend_ns;
		}
	}
	c->kept[c->count++ % CLOCKS_KEPT] = new;
	c->said.comparisons++;
	c->said.offset_ns = (int64_t)(boot - gpu);
	c->said.at_ns = boot;
	c->said.residual_ns = uncertain_ns > c->said.residual_ns ? uncertain_ns : c->said.residual_ns;
}

bool clocks_fit(const struct clocks *c, uint64_t before, uint64_t gpu, uint64_t after)
{
	const struct comparison *last = clocks_newest(c);
	uint64_t there = comparison_extrapolate(last, last->slope, gpu);
	uint64_t may = (after - last->boot) / 1000000 * DRIFT_MAX_PPM + STEP_MIN_NS;

	return there + may >= before && there <= after + may;
}

int clocks_compare(struct clocks *c, clock_read_fn *read)
{
	uint64_t best = UINT64_MAX, best_gpu = 0, best_boot = 0, before, after, gpu;
	int r;

	for (int i = 0; i < READINGS; i++) {
		before = clocks_boot_ns();
		r = read(&gpu);
		after = clocks_boot_ns();
		if (r)
			return r;
		if (after - before < best) {
			best = after - before;
			best_gpu = gpu;
			best_boot = before + best / 2;
		}
		/* close to the best ever: further readings only cost time */
		if (i >= 4 && best <= c->best_ns + c->best_ns / 4)
			break;
	}
	if (!c->best_ns || best < c->best_ns)
		c->best_ns = best;
	clocks_add(c, best_gpu, best_boot, best / 2 + 1);
	return 0;
}

/*
 * Whether a time lies within a kept interval with a step, measured from either end. This includes times that CUPTI's clock
 * repeats after it went back.
 */
static bool is_near_step(const struct clocks *c, uint32_t kept, uint64_t gpu)
{
	for (uint32_t i = 1; i < kept; i++) {
		const struct comparison *next = &c->kept[(c->count - i) % CLOCKS_KEPT], *at = &c->kept[(c->count - i - 1) % CLOCKS_KEPT];
		uint64_t between = next->boot - at->boot;

		if (next->step && (gpu - at->gpu <= between || next->gpu - gpu <= between))
			return true;
	}
	return false;
}

uint64_t clocks_convert(const struct clocks *c, uint64_t gpu, bool *ret_sure)
{
	uint32_t kept = c->count < CLOCKS_KEPT ? c->count : CLOCKS_KEPT;
	const struct comparison *at, *next = NULL;

	/* found nearly always among the last two or three */
	for (uint32_t i = 1; i <= kept; i++, next = at) {
		at = &c->kept[(c->count - i) % CLOCKS_KEPT];
		if (gpu >= at->gpu) {
			*ret_sure = (!next || !next->step) && !(c->said.steps && c->count - c->stepped_at < kept && is_near_step(c, kept, gpu));
			return comparison_extrapolate(at, next && !next->step ? next->slope : at->slope, gpu);
		}
	}
	/* the time is before the oldest comparison kept */
	at = &c->kept[(c->count - kept) % CLOCKS_KEPT];
	*ret_sure = !c->said.steps;
	return comparison_extrapolate(at, at->slope, gpu);
}

void clocks_say(const struct clocks *c, struct gpu_ring_clock *shared)
{
	uint32_t generation = shared->generation | 1;

	__atomic_store_n(&shared->generation, generation, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	shared->comparisons = c->said.comparisons;
	shared->offset_ns = c->said.offset_ns;
	shared->at_ns = c->said.at_ns;
	shared->residual_ns = c->said.residual_ns;
	shared->bend_ns = c->said.bend_ns;
	shared->steps = c->said.steps;
	__atomic_store_n(&shared->generation, generation + 1, __ATOMIC_RELEASE);
}
