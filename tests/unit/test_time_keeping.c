// SPDX-License-Identifier: BSD-2-Clause
/*
 * Time keeping (bpf/states.bpf.h), run in user space with interrupts and preemptions at every possible moment: all of a
 * thread's time is accounted once, to the state in which it was spent.
 */
#include "bpf/programs.h"
#include "probe.h"
#include "unit.h"

/* The configuration that the programs read, instead of the loader's. */
const volatile struct inf_config cfg = { .track_irq = true, .track_syscalls = true, .hooks = true };

/* So far apart that the few clock ticks that each reading takes cannot be mistaken for one of them. */
#define SPENT_NS 100000000u
#define OFF_NS 1000000u
#define IRQ_NS 10000u

enum event {
	INTERRUPT,
	PREEMPTION,
	EVENTS,
};

static u64 now, moments;
static u64 truth[ST_MAX + 1]; /* [ST_MAX]: blocked, in whatever state */
static u32 depth, most;       /* of nested interrupts */
static bool quiet;            /* nothing can come in between */

/* The events to inject, and their moments. */
static struct {
	u64 at;
	enum event event;
} plan[2];
static bool by_chance;
static uint64_t chance;

static void happen(enum event event)
{
	bool was = quiet;

	quiet = true;
	switch (event) {
	case INTERRUPT:
		depth++;
		quiet = depth >= most;
		interrupt_starts(depth);
		now += IRQ_NS;
		truth[ST_IRQ] += IRQ_NS;
		interrupt_stops(depth);
		depth--;
		break;
	case PREEMPTION:
		switch_away(true);
		now += OFF_NS;
		truth[ST_RUNNABLE] += OFF_NS;
		switch_back();
		break;
	case EVENTS:
		break;
	}
	quiet = was;
}

void moment(void)
{
	if (quiet)
		return;
	moments++;
	for (size_t i = 0; i < ARRAY_SIZE(plan) && !by_chance && !depth; i++) {
		if (plan[i].at == moments)
			happen(plan[i].event);
	}
	if (by_chance && next_random(&chance) % 16 == 0) /* the scheduler does not run within an interrupt */
		happen(depth ? INTERRUPT : (enum event)(next_random(&chance) % EVENTS));
}

u64 bpf_ktime_get_ns(void)
{
	moment();
	return ++now;
}

/* Runs a thread: ( ) a system call, [ ] a fault, h H a barrier that hooks see, B G c a role, s sleeps; it spends some time after each. */
static void run(const char *script)
{
	bool call = false, fault = false;
	u32 role = ST_CPU;

	memset(truth, 0, sizeof(truth));
	quiet = true;
	thread_start();
	quiet = false;
	moments = 0;
	for (const char *s = script; *s; s++) {
		switch (*s) {
		case '(':
		case ')':
			call = *s == '(';
			*s == '(' ? call_starts() : call_stops();
			break;
		case '[':
		case ']':
			fault = *s == '[';
			*s == '[' ? fault_starts() : fault_stops();
			break;
		case 'B':
		case 'G':
		case 'c':
			role = *s == 'B' ? ST_BARRIER : *s == 'G' ? ST_GPU_WAIT
								  : ST_CPU;
			role_is(role);
			break;
		case 'h':
		case 'H':
			role = *s == 'h' ? ST_BARRIER : ST_CPU;
			*s == 'h' ? hook_begins() : hook_ends();
			break;
		case 's':
			quiet = true;
			switch_away(false);
			now += OFF_NS;
			truth[role == ST_GPU_WAIT ? ST_GPU_WAIT : ST_MAX] += OFF_NS;
			woken();
			switch_back();
			quiet = false;
			break;
		}
		now += SPENT_NS;
		truth[role == ST_GPU_WAIT ? role : fault ? ST_FAULT
					   : call        ? ST_SYSCALL
							 : role] += SPENT_NS;
	}
}

static void check_sum(const char *script, u64 start)
{
	u64 end, sum = 0;

	quiet = true;
	end = thread_stop();
	quiet = false;
	for (u32 i = 0; i < ST_MAX; i++)
		sum += thread_time(i);
	if (sum != end - start)
		fail_msg("%s: %llu ns of %llu are accounted", script, (unsigned long long)sum, (unsigned long long)(end - start));
}

/* Each time counts for its state, except for the programs' own time, during which the clock goes on. */
static void check_states(const char *script)
{
	u64 got[ST_MAX + 1] = { 0 };

	for (u32 i = 0; i < ST_MAX; i++)
		got[i > ST_RUNNABLE && i != ST_IRQ ? ST_MAX : i] += thread_time(i);
	for (u32 i = 0; i <= ST_MAX; i++) {
		if (got[i] < truth[i] || got[i] > truth[i] + IRQ_NS / 2)
			fail_msg("%s, with an event %u at %llu and %u at %llu: %llu ns of state %u instead of %llu", script, plan[0].event,
				(unsigned long long)plan[0].at, plan[1].event, (unsigned long long)plan[1].at, (unsigned long long)got[i], i,
				(unsigned long long)truth[i]);
	}
}

static void run_planned(const char *script)
{
	u64 start = now;

	run(script);
	check_sum(script, start + 2);
	check_states(script);
}

static const char *const scripts[] = { "()", "(s)", "[]", "[s]", "([])", "Bc", "B(s)c", "B[]c", "G(s)c", "()()", "(s)[]B", "hH", "h()H", "h(s)H", "h[]H", "(s)hH[]" };

/* Every two events, in any order, at all moments. */
TEST(test_pairs)
{
	most = 1;
	for (size_t k = 0; k < ARRAY_SIZE(scripts); k++) {
		u64 n;

		memset(plan, 0, sizeof(plan));
		run_planned(scripts[k]);
		n = moments + 8; /* a second try has some more */
		assert_true(n > 10);
		if (strchr(scripts[k], 'G')) /* what comes during a wait for the GPU counts as that wait */
			continue;
		for (u32 events = 0; events < EVENTS * EVENTS; events++) {
			plan[0].event = (enum event)(events / EVENTS);
			plan[1].event = (enum event)(events % EVENTS);
			for (plan[0].at = 1; plan[0].at <= n; plan[0].at++) {
				for (plan[1].at = plan[0].at; plan[1].at <= n; plan[1].at++) {
					run_planned(scripts[k]);
					assert_int_equal(thread_troubles(), 0);
				}
			}
		}
	}
}

/* Any number of events, also nested, in a thread that does anything. */
TEST(test_chance)
{
	static const char *const parts[] = { "()", "(s)", "[]", "([s])", "B", "B(s)", "G", "G()", "c", "c[]", "chH", "ch(s)H", "ch[]H()" };

	by_chance = true;
	most = 3;
	chance = 42;
	for (int i = 0; i < 1000000; i++) {
		char script[64] = "";
		u64 start = now;

		for (int k = 0; k < 3; k++)
			strcat(script, parts[next_random(&chance) % ARRAY_SIZE(parts)]);
		run(script);
		check_sum(script, start + 2);
	}
	by_chance = false;
}

/* The thread comes onto the CPU again without a report: it was off the CPU until then, not until it is seen. */
TEST(test_unreported)
{
	u64 off = 0, start = now + 2;

	quiet = true;
	thread_start();
	switch_away(true);
	switch_back();
	scheduled();
	now += SPENT_NS;
	switch_away(false);
	now += OFF_NS;
	scheduled();
	now += SPENT_NS;
	call_starts();
	now += SPENT_NS;
	call_stops();
	check_sum("unreported", start);
	for (u32 i = ST_RUNNABLE; i < ST_MAX; i++)
		off += thread_time(i);
	assert_in_range(off, OFF_NS, OFF_NS + IRQ_NS / 2);
	assert_in_range(thread_time(ST_CPU), 2 * SPENT_NS - IRQ_NS, 2 * SPENT_NS + IRQ_NS);
	assert_in_range(thread_time(ST_SYSCALL), SPENT_NS, SPENT_NS + IRQ_NS);
}

RUN_TESTS(NULL, NULL)
