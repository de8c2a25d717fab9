/* SPDX-License-Identifier: BSD-2-Clause */
/* The BPF programs compiled for user space: what libbpf's header of the same name has for them, as functions of a test. */
#ifndef INFTRACE_TEST_BPF_HELPERS_H
#define INFTRACE_TEST_BPF_HELPERS_H

#include <stddef.h>

#define SEC(name)
#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name
#define __array(name, val) typeof(val) *name[]
#undef __always_inline /* libc has another one */
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __weak __attribute__((weak))
#define __ksym
#define barrier_var(v) asm volatile("" : "+r"(v))

u64 bpf_ktime_get_ns(void);
struct task_struct *bpf_get_current_task_btf(void);
void *bpf_task_storage_get(void *map, struct task_struct *task, void *value, u64 flags);
void *bpf_map_lookup_elem(void *map, const void *key);

/* None of these is reached: nothing is sent. */
static inline u64 bpf_get_current_pid_tgid(void)
{
	return 0;
}

static inline u32 bpf_get_smp_processor_id(void)
{
	return 0;
}

static inline u32 bpf_get_prandom_u32(void)
{
	return 0;
}

static inline void *bpf_this_cpu_ptr(const void *p)
{
	return NULL;
}

#define NOTHING(name, ...)                         \
	static inline long name(__VA_ARGS__) \
	{                                          \
		return -1;                         \
	}
NOTHING(bpf_map_update_elem, void *map, const void *key, const void *value, u64 flags)
NOTHING(bpf_map_delete_elem, void *map, const void *key)
NOTHING(bpf_task_storage_delete, void *map, struct task_struct *task)
NOTHING(bpf_ringbuf_output, void *ring, void *data, u64 size, u64 flags)
NOTHING(bpf_ringbuf_submit, void *data, u64 flags)
NOTHING(bpf_probe_read_kernel, void *to, u32 size, const void *from)
NOTHING(bpf_probe_read_kernel_str, void *to, u32 size, const void *from)
NOTHING(bpf_loop, u32 n, void *body, void *ctx, u64 flags)
NOTHING(bpf_probe_read_user, void *to, u32 size, const void *from)
NOTHING(bpf_task_pt_regs, struct task_struct *task)
NOTHING(bpf_tail_call, void *ctx, void *map, u32 index)
NOTHING(bpf_perf_event_read_value, void *map, u64 flags, void *buf, u32 size)

static inline void *bpf_ringbuf_reserve(void *ring, u64 size, u64 flags)
{
	return NULL;
}

#endif
