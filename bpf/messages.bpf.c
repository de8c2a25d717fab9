// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * What calls move over TCP connections, so that the clocks of two hosts can be compared: no byte is received before it was
 * sent. Loaded on demand; nothing is kept here between calls.
 */
#include "blocked.bpf.h"
#include "syscall_args.bpf.h"

#define POSITION_TRIES 3

/* enum message_call by number. */
const volatile u8 message_calls[512] = {};

/* Fills in both addresses as IPv6. Returns false if they are loopback, so that no other host knows the connection. */
static __always_inline bool fill_addresses(struct rec_message *r, struct sock *sk)
{
	r->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	r->peer_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	inet_addresses(sk, BPF_CORE_READ(sk, __sk_common.skc_family), r->local, r->peer);
	if (r->peer[0] || r->peer[1])
		return 1;
	if (r->peer[2] == MAPPED_PREFIX)
		return bpf_ntohl(r->peer[3]) >> 24 != 127;
	return r->peer[2] || r->peer[3] != bpf_htonl(1);
}

/*
 * Fills in the process's position in the stream; false: the counts kept changing. The kernel counts all bytes received, up
 * to rcv_nxt, and all acknowledged, up to snd_una; the process is at most a window away from there. Packets arrive meanwhile:
 * a count belongs to the numbers read after it only if it is still the same afterwards. (Not even then if another CPU was
 * changing it all the time. Such a position fits no other one of its connection.)
 */
static __always_inline bool fill_position(struct rec_message *r, struct tcp_sock *tp, bool received)
{
	u64 count;
	u32 base;

	for (int i = 0; i < POSITION_TRIES; i++) {
		if (received) {
			count = BPF_CORE_READ(tp, bytes_received);
			base = BPF_CORE_READ(tp, rcv_nxt);
			r->sequence = BPF_CORE_READ(tp, copied_seq);
			r->position = count - (u32)(base - r->sequence);
			if (BPF_CORE_READ(tp, bytes_received) == count)
				return 1;
		} else {
			count = BPF_CORE_READ(tp, bytes_acked);
			base = BPF_CORE_READ(tp, snd_una);
			r->sequence = BPF_CORE_READ(tp, write_seq);
			r->position = count + (u32)(r->sequence - base);
			if (BPF_CORE_READ(tp, bytes_acked) == count)
				return 1;
		}
	}
	return 0;
}

/*
 * When a call began; 0: unknown, so what it has sent may have been under way for any time. A call that was in progress when
 * the window opened seems to have begun with it.
 */
static __always_inline u64 call_since(const struct thread *t, u32 nr)
{
	return t->sys_nr == nr && t->sys_start > stats.start_ns ? t->sys_start : 0;
}

SEC("?tp_btf/sys_exit")
int BPF_PROG(messages_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 nr = sys_number(regs), call, fd, flags;
	struct rec_message r = {};
	struct thread *t;
	struct file *file;
	struct sock *sk;
	u64 from, to;

	if (!enabled || ret <= 0 || nr >= sizeof(message_calls))
		return 0;
	barrier_var(nr);
	call = message_calls[nr & (sizeof(message_calls) - 1)];
	if (call == MESSAGE_CALL_NONE || !emits(REC_MESSAGE))
		return 0;
	t = thread_of_any(task);
	if (!t || is_compat(task))
		return 0;
	from = call_since(t, nr);
	if (!from && call == MESSAGE_CALL_SEND)
		return 0;
	fd = sys_arg0(regs);
	file = file_of_fd(task, fd);
	sk = sock_of_file(file);
	if (file_kind(file) != FILE_SOCKET || !is_tcp(sk) || !fill_addresses(&r, sk))
		return 0;
	if (!fill_position(&r, (struct tcp_sock *)sk, call == MESSAGE_CALL_RECEIVE)) {
		count_lost(bpf_get_smp_processor_id() >> cfg.ring_shift, REC_MESSAGE);
		return 0;
	}
	to = now_ns(); /* after the position was read: its bytes were there by then */
	flags = call == MESSAGE_CALL_RECEIVE ? MESSAGE_F_RECEIVED : 0;
	r.bytes = ret;
	hdr_fill(&r.h, REC_MESSAGE, from ? from : to, to, task->tgid, task->pid, fd, flags);
	emit(&r, sizeof(r), REC_MESSAGE);
	return 0;
}
