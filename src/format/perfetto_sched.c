// SPDX-License-Identifier: BSD-2-Clause
/*
 * Perfetto trace: wake-ups and switches, as ftrace events in bundles by CPU, from which a reader makes the tracks of CPUs and
 * the states of threads.
 *
 * A switch has a task that leaves and one that arrives. It is made from two records, for the times that the two ran on the
 * CPU; if no record follows immediately, the CPU is shown as idle: without -e cpu only the targets' times are known.
 */
#include <stdlib.h>

#include "format/perfetto.h"
#include "util/alloc.h"

#define EVENTS_BYTES 2560 /* of a bundle */
#define EVENT_BYTES 192   /* of one event, at most */
#define SWITCHES_MAX 160
#define COMMS_MAX 32

#define PRIO 120 /* for all tasks: priorities are not recorded */

/* FtraceEvent */
enum {
	FTRACE_TIMESTAMP = 1,
	FTRACE_PID = 2,
	FTRACE_SWITCH = 4,
	FTRACE_FLAGS = 5,
	FTRACE_WAKING = 20,
};

#define FLAG_HARDIRQ 0x08 /* common_flags, TRACE_FLAG_HARDIRQ of the kernel */

/* prev_state as in ftrace: include/linux/sched.h, __task_state_index() */
#define STATE_REPORTED 0x7f
#define STATE_EXIT_DEAD 0x10
#define STATE_DEAD 0x80 /* in the task itself */
#define STATE_NOLOAD 0x400
#define STATE_IDLE 0x80 /* as displayed */

struct ran {
	uint32_t tid; /* 0: idle */
	char comm[TASK_COMM_LEN];
};

struct perfetto_cpu {
	uint32_t cpu;
	bool begun; /* a whole switch was written, so compact ones may follow */
	struct ran now;
	uint64_t end_ns;  /* when the last task, `left`, left the CPU */
	uint64_t last_ns; /* of the last switch */
	uint32_t left;
	uint64_t lost;
	char events[EVENTS_BYTES];
	size_t used;
	unsigned int n, n_comms;
	struct {
		uint64_t ns;
		uint32_t prev_state, next_tid, comm;
	} switches[SWITCHES_MAX];
	char comms[COMMS_MAX][TASK_COMM_LEN];
};

static struct perfetto_cpu *perfetto_get_cpu(struct perfetto_sink *s, uint32_t cpu)
{
	if (cpu >= PERFETTO_CPUS)
		return NULL;
	if (!s->cpus[cpu]) {
		s->cpus[cpu] = xcalloc(1, sizeof(*s->cpus[cpu]));
		s->cpus[cpu]->cpu = cpu;
	}
	return s->cpus[cpu];
}

static char *put_switch_comm(char *p, uint32_t field, const char comm[TASK_COMM_LEN])
{
	return proto_text(p, field, comm, strnlen(comm, TASK_COMM_LEN));
}

/* ---- bundles ---- */

/* Packed fields of varints, whose length is not known in advance. */
#define PACK(p, field, c, expression)                                \
	do {                                                         \
		char *mark_;                                         \
		p = proto_open(p, field, &mark_);                    \
		for (unsigned int i = 0; i < (c)->n; i++)            \
			p = proto_varint(p, (uint64_t)(expression)); \
		p = proto_close(mark_, p);                           \
	} while (0)

static char *put_switches(char *p, const struct perfetto_cpu *c)
{
	char *compact;

	p = proto_open(p, 4 /* compact_sched */, &compact);
	for (unsigned int i = 0; i < c->n_comms; i++)
		p = put_switch_comm(p, 5 /* intern_table */, c->comms[i]);
	PACK(p, 1 /* switch_timestamp */, c, c->switches[i].ns - (i ? c->switches[i - 1].ns : 0));
	PACK(p, 2 /* switch_prev_state */, c, c->switches[i].prev_state);
	PACK(p, 3 /* switch_next_pid */, c, c->switches[i].next_tid);
	PACK(p, 4 /* switch_next_prio */, c, PRIO);
	PACK(p, 6 /* switch_next_comm_index */, c, c->switches[i].comm);
	return proto_close(compact, p);
}

static void cpu_flush(struct perfetto_sink *s, struct perfetto_cpu *c)
{
	char *packet, *bundle, *p;

	if (!c->used && !c->n)
		return;
	p = packet_begin(s, &packet);
	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_FTRACE);
	p = proto_open(p, PACKET_FTRACE, &bundle);
	p = proto_u64(p, 1 /* cpu */, c->cpu);
	p = fmt_str(p, c->events, c->used);
	if (c->lost)
		p = proto_u64(p, 3 /* lost_events */, 1);
	if (c->n)
		p = put_switches(p, c);
	packet_end(s, packet, proto_close(bundle, p));
	c->used = c->n = c->n_comms = 0;
	c->lost = 0;
}

/* Room for the next event of the bundle. */
static char *ftrace_reserve(struct perfetto_sink *s, struct perfetto_cpu *c)
{
	if (c->used + EVENT_BYTES > EVENTS_BYTES)
		cpu_flush(s, c);
	return c->events + c->used;
}

static char *put_ftrace(char *p, uint64_t ns, uint32_t pid, uint32_t flags)
{
	p = proto_u64(p, FTRACE_TIMESTAMP, ns);
	p = proto_u64(p, FTRACE_PID, pid);
	return flags ? proto_u64(p, FTRACE_FLAGS, flags) : p;
}

/* ---- switches ---- */

static void write_full_switch(struct perfetto_sink *s, struct perfetto_cpu *c, uint64_t ns,
	const struct ran *prev, uint32_t prev_state, const struct ran *next)
{
	char *event, *sw, *p = proto_open(ftrace_reserve(s, c), 2 /* event */, &event);

	p = put_ftrace(p, ns, prev->tid, 0);
	p = proto_open(p, FTRACE_SWITCH, &sw);
	p = put_switch_comm(p, 1, prev->comm);
	p = proto_u64(p, 2, prev->tid);
	p = proto_u64(p, 3, PRIO);
	p = proto_u64(p, 4, prev_state);
	p = put_switch_comm(p, 5, next->comm);
	p = proto_u64(p, 6, next->tid);
	p = proto_u64(p, 7, PRIO);
	c->used = (size_t)(proto_close(event, proto_close(sw, p)) - c->events);
}

static uint32_t intern_comm(struct perfetto_cpu *c, const char comm[TASK_COMM_LEN])
{
	for (uint32_t i = 0; i < c->n_comms; i++) {
		if (!memcmp(c->comms[i], comm, TASK_COMM_LEN))
			return i;
	}
	memcpy(c->comms[c->n_comms], comm, TASK_COMM_LEN);
	return c->n_comms++;
}

/* Switches away from the current task. A compact switch does not name that task, so time must not go back. */
static void write_switch(struct perfetto_sink *s, struct perfetto_cpu *c, uint64_t ns,
	uint32_t prev_state, const struct ran *next)
{
	if (!c->begun || ns < c->last_ns) {
		write_full_switch(s, c, ns, &c->now, prev_state, next);
		c->begun = true;
	} else {
		if (c->n == SWITCHES_MAX || c->n_comms == COMMS_MAX)
			cpu_flush(s, c);
		c->switches[c->n].ns = ns;
		c->switches[c->n].prev_state = prev_state;
		c->switches[c->n].next_tid = next->tid;
		c->switches[c->n].comm = intern_comm(c, next->comm);
		c->n++;
	}
	c->last_ns = ns;
	c->now = *next;
}

static uint32_t switch_state(uint32_t state)
{
	if (state == REC_ON_CPU_PREEMPTED)
		return REC_ON_CPU_PREEMPTED;
	if (state & STATE_DEAD)
		return STATE_EXIT_DEAD;
	if (state & STATE_NOLOAD)
		return STATE_IDLE;
	state &= STATE_REPORTED;
	return state ? 1u << (31 - (unsigned int)__builtin_clz(state)) : 0;
}

static const struct ran idle = { .comm = "swapper" };

void perfetto_on_cpu(struct perfetto_sink *s, const struct rec_on_cpu *r)
{
	struct perfetto_cpu *c = perfetto_get_cpu(s, r->h.cpu);
	uint64_t start = perfetto_ts(s, r->h.start_ns), end = r->h.start_ns + r->h.dur_ns;
	struct perfetto_thread *t = perfetto_thread(s, r->h.tgid, r->h.tid);
	struct ran next = { .tid = r->h.tid };

	if (!c || !t)
		return;
	memcpy(next.comm, t->comm, TASK_COMM_LEN);
	if (c->now.tid && c->end_ns < start) { /* something else ran in between, or nothing */
		write_switch(s, c, c->end_ns, c->left, &idle);
		c->left = 0;
	}
	write_switch(s, c, start, c->left, &next);
	c->end_ns = end > start ? end : start;
	c->left = switch_state(r->h.id);
}

void perfetto_waking(struct perfetto_sink *s, const struct rec_off_cpu *r)
{
	struct perfetto_cpu *c = perfetto_get_cpu(s, r->h.cpu);
	bool from_irq = r->h.flags & OFF_CPU_F_WAKER_IRQ || !r->waker_tid;
	struct perfetto_thread *t;
	char *event, *waking, *comm, *p;

	if (!r->wake_ns || !c)
		return;
	t = perfetto_thread(s, r->h.tgid, r->h.tid);
	if (!t)
		return;
	/* as frequent as times off the CPU; the content of one has less than 128 bytes */
	p = proto_open_short(ftrace_reserve(s, c), 2 /* event */, &event);
	p = put_ftrace(p, perfetto_ts(s, off_cpu_runnable_ns(r)), r->waker_tid, from_irq ? FLAG_HARDIRQ : 0);
	p = proto_open_short(p, FTRACE_WAKING, &waking);
	p = proto_open_short(p, 1 /* comm */, &comm);
	memcpy(p, t->text, sizeof(t->text)); /* a constant size, hence no call */
	p = proto_close_short(comm, p + t->text_len);
	p = proto_u64(p, 2 /* pid */, t->tid);
	p = proto_u64(p, 3 /* prio */, PRIO);
	p = proto_u64(p, 4 /* success */, 1);
	p = proto_u64(p, 5 /* target_cpu */, r->h.cpu);
	c->used = (size_t)(proto_close_short(event, proto_close_short(waking, p)) - c->events);
}

/* ---- */

void perfetto_cpus_lost(struct perfetto_sink *s, uint64_t n)
{
	for (uint32_t i = 0; i < PERFETTO_CPUS && n; i++) {
		if (s->cpus[i])
			s->cpus[i]->lost += n;
	}
}

void perfetto_cpus_flush(struct perfetto_sink *s)
{
	for (uint32_t i = 0; i < PERFETTO_CPUS; i++) {
		if (s->cpus[i])
			cpu_flush(s, s->cpus[i]);
	}
}

void perfetto_cpus_close(struct perfetto_sink *s)
{
	for (uint32_t i = 0; i < PERFETTO_CPUS; i++) {
		struct perfetto_cpu *c = s->cpus[i];

		if (!c)
			continue;
		if (c->now.tid)
			write_switch(s, c, c->end_ns, c->left, &idle);
		cpu_flush(s, c);
		free(c);
		s->cpus[i] = NULL;
	}
}
