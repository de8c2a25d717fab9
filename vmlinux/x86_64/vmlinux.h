/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Kernel types in use, for CO-RE: only the fields that the programs read, in an order of
 * their own. Generated; to change it, edit vmlinux/types.list.
 *
 *   from     Linux 6.18.44, x86_64
 *   on       2026-11-28
 *   by       vmlinux/regenerate
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include <linux/types.h>

typedef __u8 u8;
typedef __s8 s8;
typedef __u16 u16;
typedef __s16 s16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_info {
	u32 status;
	u32 cpu;
};

struct sched_entity {
	u64 nr_migrations;
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	unsigned long long last_arrival;
};

struct thread_struct {
	unsigned long fsbase;
};

struct hlist_node {
	struct hlist_node *next;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	void *stack;
	unsigned int flags;
	int on_cpu;
	int on_rq;
	int wake_cpu;
	int nr_cpus_allowed;
	int pid;
	int tgid;
	int exit_code;
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	char comm[16];
	struct files_struct *files;
	struct signal_struct *signal;
	struct mm_struct *mm;
	struct bpf_local_storage *bpf_storage;
	struct thread_struct thread;
	struct uprobe_task *utask;
	struct hlist_node pid_links[4];
};

struct cfs_rq {
	int throttle_count;
	struct rq *rq;
};

struct rq {
	u64 clock;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
	unsigned long maxrss;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct mm_struct {
	struct task_struct *owner;
	unsigned long start_stack;
	struct uprobes_state uprobes_state;
};

struct xol_area {
	unsigned long vaddr;
};

struct uprobe_task {
	struct return_instance *return_instances;
};

struct return_instance {
	unsigned long stack;
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
};

struct files_struct {
	struct fdtable *fdt;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	struct file_operations *f_op;
	struct path f_path;
	void *private_data;
};

struct qstr {
	unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct inode {
	unsigned short i_mode;
	u32 i_rdev;
	unsigned long i_ino;
	struct super_block *i_sb;
};

struct super_block {
	u32 s_dev;
};

struct socket {
	short int type;
	struct sock *sk;
};

struct in6_addr {
	union {
		u32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	unsigned short skc_family;
	u16 skc_num;
	u16 skc_dport;
	u32 skc_rcv_saddr;
	u32 skc_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	struct in6_addr skc_v6_daddr;
};

struct sk_buff_head {
	struct sk_buff *prev;
};

struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_receive_queue;
	u16 sk_protocol;
	struct pid *sk_peer_pid;
};

struct sk_buff {
	struct sock *sk;
};

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
};

struct sockaddr_un {
	char sun_path[108];
};

struct unix_address {
	int len;
	struct sockaddr_un name[];
};

struct hlist_head {
	struct hlist_node *first;
};

struct upid {
	int nr;
};

struct pid {
	struct hlist_head tasks[4];
	struct upid numbers[];
};

struct tcp_sock {
	u32 copied_seq;
	u32 rcv_nxt;
	u64 bytes_received;
	u32 snd_una;
	u32 write_seq;
	u64 bytes_acked;
	u64 tcp_mstamp;
};

struct inet_connection_sock {
	struct {
		u32 lrcvtime;
	} icsk_ack;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct pt_regs {
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long cx;
	unsigned long bx;
	unsigned long r8;
	unsigned long r9;
	unsigned long r10;
	unsigned long r11;
	unsigned long r12;
	unsigned long r13;
	unsigned long r14;
	unsigned long r15;
	unsigned long ax;
	unsigned long bp;
	unsigned long sp;
	unsigned long ip;
	unsigned long flags;
	unsigned long orig_ax;
};

struct bpf_perf_event_data {
	struct pt_regs regs;
	u64 sample_period;
	u64 addr;
};

struct pcpu_hot { int preempt_count; };

#pragma clang attribute pop

#endif
