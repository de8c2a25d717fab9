// SPDX-License-Identifier: BSD-2-Clause
#define race_window() moment()
void moment(void);

#define slot_window() moment()

#include "irq.bpf.c"
#include "sched.bpf.c"

#include "hook/agent/slot.h"
#include "programs.h"

static struct hook_slot slots[2];
static struct thread thread;
static struct task_struct task = { .pid = 7, .tgid = 7, .bpf_storage = (void *)&thread }, other;

void *bpf_task_storage_get(void *map, struct task_struct *of, void *value, u64 flags)
{
	return of == &task ? &thread : NULL;
}

/* Those of the logs have an entry, others none. */
void *bpf_map_lookup_elem(void *map, const void *key)
{
	static struct wait_log_heads heads;
	static struct ran entry;

	if (map == &wait_log_heads)
		return &heads;
	if (map == &hook_slots)
		return slots;
	if (map == slots)
		return &slots[*(const u32 *)key & 1];
	return map == &ran_log ? &entry : NULL;
}

struct task_struct *bpf_get_current_task_btf(void)
{
	return &task;
}

void thread_start(void)
{
	__builtin_memset(&thread, 0, sizeof(thread));
	__builtin_memset(&stats, 0, sizeof(stats));
	enabled = 1;
	stats.start_ns = now_ns();
	thread.since = now_ns();
	slots[1].tid = (u32)task.pid;
	thread.hooked = (struct hooked){ .map = 1, .slot = 1, .tid = (u32)task.pid, .seen = slots[1].total[slots[1].calls >> 1 & 1] };
}

void hook_begins(void)
{
	slot_begin(&slots[1], now_ns);
}

void hook_ends(void)
{
	slot_end(&slots[1], now_ns);
}

void call_starts(void)
{
	change_begin(&thread);
	thread.sys_start = call_begin(&thread, &thread.in_syscall, ST_SYSCALL);
	change_end(&thread);
}

void call_stops(void)
{
	change_begin(&thread);
	call_end(&thread, &thread.in_syscall, ST_SYSCALL);
	change_end(&thread);
}

void fault_starts(void)
{
	change_begin(&thread);
	thread.fault_start = call_begin(&thread, &thread.in_fault, ST_FAULT);
	change_end(&thread);
}

void fault_stops(void)
{
	change_begin(&thread);
	call_end(&thread, &thread.in_fault, ST_FAULT);
	change_end(&thread);
}

void role_is(u32 state)
{
	u32 before;

	change_begin(&thread);
	thread_change(&thread, state, &before);
	race_window();
	thread.role = state;
	race_window();
	thread_changed(&thread);
	change_end(&thread);
}

void interrupt_starts(u32 number)
{
	irq_begin(number, IRQ_F_SOFT);
}

void interrupt_stops(u32 number)
{
	irq_end(number, IRQ_F_SOFT);
}

void switch_away(bool preempted)
{
	sched_switch(preempted, &task, &other, preempted ? 0 : 1);
}

void switch_back(void)
{
	sched_switch(0, &other, &task, 1);
}

void scheduled(void)
{
	task.sched_info.last_arrival = now_ns() + RUN_QUEUE_CLOCK;
}

void woken(void)
{
	thread.wake_ns = now_ns();
}

u64 thread_stop(void)
{
	return thread_account(&thread);
}

u64 thread_time(u32 state)
{
	return thread.times.ns[state];
}

u64 thread_troubles(void)
{
	return stats.hooks_misfit + stats.account_retries + stats.missed_switches + stats.irqs_full + stats.irqs_left + stats.faults_open;
}
