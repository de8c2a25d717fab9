// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Interrupts, hard and soft: the time that they take from the thread that they hit is the state `irq`,
 * and each is a span of that thread. That includes soft interrupts that a system call runs itself.
 *
 * They nest, and they come in the middle of any other program here. Each begin and end changes the
 * state like any other: if two changes collide, the compare-and-exchange of thread_change() fails
 * for the interrupted one, which then takes a later instant. So no span begins or ends within an
 * interrupt that hit its program. If the interrupt comes after the exchange, but before the program
 * has stored the new state, that state is known from its announcement, and irq_end() announces it
 * again.
 */
#include "states.bpf.h"

static __always_inline struct irq_frame *irq_frame_at(struct thread *t, u32 i)
{
	barrier_var(i);
	return &t->irqs[i & (IRQ_DEPTH - 1)];
}

/* type: IRQ_F_SOFT, IRQ_F_VECTOR, or 0 for a handler; id: its number within that type. */
__noinline int irq_begin(u32 id, u32 type)
{
	struct thread *t = thread_of_any(bpf_get_current_task_btf());
	u32 depth, hit = ST_CPU;
	struct irq_frame *f;
	u64 now;

	if (!t)
		return 0;
	now = thread_change(t, ST_IRQ, &hit);
	depth = t->irq_depth;
	/* first the slot, then its contents: an interrupt that hits here takes the next one */
	WRITE_ONCE(t->irq_depth, depth + 1);
	thread_changed(t);
	if (depth >= IRQ_DEPTH) {
		__sync_fetch_and_add(&stats.irqs_full, 1);
		return 0;
	}
	f = irq_frame_at(t, depth);
	f->start = now;
	f->id = id;
	f->type = type;
	f->hit = hit;
	return 0;
}

__noinline int irq_end(u32 id, u32 type)
{
	struct thread *t = thread_of_any(bpf_get_current_task_btf());
	u32 depth, hit = ST_SAME, before;
	u64 start = 0, now;
	struct rec_irq r;

	if (!t)
		return 0;
	depth = t->irq_depth;
	if (!depth) /* it began before the recording */
		return 0;
	if (depth <= IRQ_DEPTH) {
		const struct irq_frame *f = irq_frame_at(t, depth - 1);

		if (f->id != id || f->type != type)
			return 0;
		start = f->start;
		hit = f->hit;
	}
	/* announced until the next change: the interrupted program may not have stored its own
	 * state yet */
	now = thread_change(t, hit, &before);
	WRITE_ONCE(t->irq_depth, depth - 1);
	if (depth > IRQ_DEPTH || !emits(REC_IRQ))
		return 0;
	hdr_current(&r.h, REC_IRQ, start, now, id, type);
	emit(&r, sizeof(r), REC_IRQ);
	return 0;
}

SEC("?tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_begin, int irq)
{
	return enabled ? irq_begin(irq, 0) : 0;
}

SEC("?tp_btf/irq_handler_exit")
int BPF_PROG(irq_handler_end, int irq)
{
	return enabled ? irq_end(irq, 0) : 0;
}

SEC("?tp_btf/softirq_entry")
int BPF_PROG(irq_soft_begin, unsigned int nr)
{
	return enabled ? irq_begin(nr, IRQ_F_SOFT) : 0;
}

SEC("?tp_btf/softirq_exit")
int BPF_PROG(irq_soft_end, unsigned int nr)
{
	return enabled ? irq_end(nr, IRQ_F_SOFT) : 0;
}

/*
 * Interrupts that x86 serves without a handler: the timer tick and calls from other CPUs. Each has its own
 * tracepoints (arch/x86/include/asm/trace/irq_vectors.h), whose programs are loaded if the kernel
 * has them. arm64 uses handlers for these, too.
 */
#ifdef __TARGET_ARCH_x86
#define VECTOR(name, id)                                          \
	SEC("?tp_btf/" #name "_entry")                            \
	int BPF_PROG(irq_vector_##name##_begin, int vector)       \
	{                                                         \
		return enabled ? irq_begin(id, IRQ_F_VECTOR) : 0; \
	}                                                         \
	SEC("?tp_btf/" #name "_exit")                             \
	int BPF_PROG(irq_vector_##name##_end, int vector)         \
	{                                                         \
		return enabled ? irq_end(id, IRQ_F_VECTOR) : 0;   \
	}

VECTOR(local_timer, VECTOR_LOCAL_TIMER)
VECTOR(reschedule, VECTOR_RESCHEDULE)
VECTOR(call_function, VECTOR_CALL_FUNCTION)
VECTOR(call_function_single, VECTOR_CALL_FUNCTION_SINGLE)
VECTOR(irq_work, VECTOR_IRQ_WORK)
#endif
