// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * What an operator computes and from what: copies of its node in the engine's graph and of its source nodes. The engine
 * reuses a graph's memory in the next step, so user space could not read it in time. Only loaded for execution traces.
 */
#include "spans.bpf.h"
#include "fetch.bpf.h"
#include "probed.bpf.h"
#include "shed.bpf.h"

/* A copying thread can be preempted by another one, which finds the room in use: its node is counted as lost. */
struct node_room {
	u32 busy;
	u32 pad;
	struct rec_node r;
};

/* Not created unless the program is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct node_room);
} node_rooms __weak SEC(".maps");

/* Copies the node at `from` to place `at`. If its memory is not there, the copy is zero and marked as unread. */
static __noinline int node_copy(struct rec_node *r, u64 from, u32 bytes, u32 at)
{
	if (!r || at >= NODES_MAX)
		return 0;
	if (bytes > NODE_BYTES_MAX)
		bytes = NODE_BYTES_MAX;
	r->at[at] = from;
	if (bpf_probe_read_user(r->nodes[at], bytes, (void *)from)) {
		__builtin_memset(r->nodes[at], 0, NODE_BYTES_MAX);
		r->unread |= 1 << at;
	}
	return 0;
}

/* Copies the sources behind the node itself. Returns the number of nodes, including that. */
static __noinline u32 node_sources(struct rec_node *r, u64 node, const struct probe *p)
{
	u32 n = 1;

	if (!r || !p)
		return 0;
	for (u32 i = 0; i < NODES_MAX - 1; i++) {
		u64 source = 0;

		if (i >= p->node.n_sources)
			break;
		bpf_probe_read_user(&source, sizeof(source), (void *)(node + p->node.sources + i * sizeof(source)));
		if (source)
			node_copy(r, source, p->node.bytes, n++);
	}
	return n;
}

SEC("uprobe")
int node_entry(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 zero = 0, group = bpf_get_smp_processor_id() >> cfg.ring_shift, id, n;
	struct node_room *room;
	u64 regs[REG_MAX], vals[FUNC_VALS_MAX], size;
	struct thread *t;
	struct probe *p;
	void *ring;

	if (!enabled || !emits(REC_NODE))
		return 0;
	t = probed_thread(ctx, task, 1, 1, &id);
	if (!t)
		return 0;
	p = bpf_map_lookup_elem(&probes, &id);
	if (!p || shed_changes(p) & 1)
		goto out;
	if (!p->hit)
		p->hit = 1;
	regs_read(ctx, regs);
	fetch_all(regs, p, vals);
	if (!when_holds(p, vals) || !vals[0])
		goto out;
	room = bpf_map_lookup_elem(&node_rooms, &zero);
	if (!room || __sync_lock_test_and_set(&room->busy, 1)) {
		count_lost(group, REC_NODE);
		goto out;
	}
	size = now_ns();
	hdr_fill(&room->r.h, REC_NODE, size, size, task->tgid, task->pid, id, 0);
	room->r.step = thread_step(t);
	room->r.unread = 0;
	node_copy(&room->r, vals[0], p->node.bytes, 0);
	n = node_sources(&room->r, vals[0], p);
	if (n > NODES_MAX)
		n = NODES_MAX;
	room->r.n = n;
	size = REC_NODE_SIZE(n);
	barrier_var(size);
	ring = bpf_map_lookup_elem(&rings, &group);
	if (size > sizeof(room->r) || !ring || bpf_ringbuf_output(ring, &room->r, size, BPF_RB_NO_WAKEUP))
		count_lost(group, REC_NODE);
	WRITE_ONCE(room->busy, 0);
out:
	hit_end(t->timed_ns, t->timed_kind);
	return 0;
}
