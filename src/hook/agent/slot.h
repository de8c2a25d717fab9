/* SPDX-License-Identifier: BSD-2-Clause */
/* How a thread writes its slot (hook_slot.h): so that a program which interrupts it at any moment finds it whole. */
#ifndef INFTRACE_HOOK_AGENT_SLOT_H
#define INFTRACE_HOOK_AGENT_SLOT_H

#include "hook_slot.h"

/* Marks a moment between two stores. Does nothing, except in tests/unit. */
#ifndef slot_window
#define slot_window() (void)0
#endif

#define SLOT_GET(member) __atomic_load_n(&(member), __ATOMIC_ACQUIRE)
#define SLOT_SET(member, value) __atomic_store_n(&(member), (value), __ATOMIC_RELEASE)

/* A clock, in ns. */
typedef u64 slot_clock(void);

/* Reads the clock. Returns the thread's own: without the time that programs have accounted elsewhere so far. */
static inline __attribute__((always_inline)) u64 slot_own_time(const struct hook_slot *s, slot_clock *clock, u64 *ret_now)
{
	u64 away;

	do {
		away = SLOT_GET(s->away);
		*ret_now = clock();
		slot_window();
	} while (__builtin_expect(SLOT_GET(s->away) != away, 0));
	return *ret_now - away;
}

/* A call begins; none is open. The thread's own clock stands still if it is interrupted here. */
static inline __attribute__((always_inline)) void slot_begin(struct hook_slot *s, slot_clock *clock)
{
	u64 now, own = slot_own_time(s, clock, &now);

	SLOT_SET(s->began[(s->met + 1) & 1], now);
	SLOT_SET(s->met, s->met + 1);
	slot_window();
	SLOT_SET(s->own, own);
	slot_window();
	SLOT_SET(s->calls, s->calls + 1);
	slot_window();
}

/* It ends. Returns how long it took, also off the CPU. */
static inline __attribute__((always_inline)) u64 slot_end(struct hook_slot *s, slot_clock *clock)
{
	u64 calls = s->calls + 1, now, own = slot_own_time(s, clock, &now);

	SLOT_SET(s->total[calls >> 1 & 1], s->total[~calls >> 1 & 1] + own - s->own);
	slot_window();
	SLOT_SET(s->calls, calls);
	slot_window();
	return now > s->began[s->met & 1] ? now - s->began[s->met & 1] : 0;
}

/* Another one begins: this one was left by a longjmp(), at an unknown time, or by a signal, whose handler makes a call, too. The thread
 * must not seem to be within it for ever, so it took no time. */
static inline void slot_drop(struct hook_slot *s)
{
	u64 calls = s->calls + 1;

	SLOT_SET(s->total[calls >> 1 & 1], s->total[~calls >> 1 & 1]);
	SLOT_SET(s->calls, calls);
}

#endif
