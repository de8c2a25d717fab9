/* SPDX-License-Identifier: BSD-2-Clause */
/* What this kernel offers and what this process may do, found by trying: release numbers mislead, since enterprise kernels
 * have features of much newer releases. */
#ifndef INFTRACE_FEATURES_H
#define INFTRACE_FEATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/perf_events.h"

enum feature {
	FEATURE_BTF,
	FEATURE_RING_BUFFER,
	FEATURE_ATOMICS,
	FEATURE_TASK_STORAGE,
	FEATURE_ATTACH_COOKIE,
	FEATURE_UPROBE_MULTI,
	FEATURE_UPROBE_MULTI_PID,
	FEATURE_WATCHPOINTS,
	FEATURE_UPROBE,
#ifdef __x86_64__
	FEATURE_NOP5,
#endif
	FEATURE_TASK_ITER,
	FEATURE_SCHED_SWITCH, /* the tracepoints, in one run up to FEATURE_SYS_EXIT */
	FEATURE_SCHED_WAKING,
	FEATURE_SCHED_FORK,
	FEATURE_SCHED_EXEC,
	FEATURE_SCHED_EXIT,
	FEATURE_SCHED_MIGRATE,
	FEATURE_TASK_RENAME,
	FEATURE_SYS_ENTER,
	FEATURE_SYS_EXIT,
	FEATURE_PAGE_FAULT_USER,
	FEATURE_FAULTS_MINOR,
	FEATURE_FAULTS_MAJOR,
	FEATURE_CPU_CLOCK, /* perf events from FEATURE_FAULTS_MINOR up to FEATURE_CYCLES */
	FEATURE_CYCLES,
	FEATURE_FAULT_RETURN,
	FEATURE_IRQ_HANDLER,
	FEATURE_SOFTIRQ,
#ifdef __x86_64__
	FEATURE_LOCAL_TIMER,
#endif
	FEATURE_PAGE_ALLOC,
	FEATURE_PAGE_FREE,
	FEATURE_RSS_STAT,
	FEATURE_MAX,
};

#define FEATURE_UNTRIED 1

/* Whether kernels for this architecture have FEATURE_PAGE_FAULT_USER: all of x86's do, and none of arm64's. */
#ifdef __x86_64__
#define KERNEL_HAS_FAULT_BEGIN true
#else
#define KERNEL_HAS_FAULT_BEGIN false
#endif

/* The oldest kernel.org release that has everything required. */
#define FEATURES_RELEASE_MIN "5.15"

struct prober;

struct feature_desc {
	const char *name;
	const char *since; /* the kernel.org release that introduced it */
	const char *loss;  /* what is missing without it and its replacement; NULL: required */
	bool fast;         /* cheap enough to be tried before each recording */
	int (*try)(struct prober *prober, const char *arg);
	const char *arg;
	enum feature instead; /* a feature that replaces this one; 0: none */
};

struct capability_desc {
	int cap;
	const char *name;
	const char *loss; /* as above */
};

extern const struct feature_desc feature_descs[FEATURE_MAX];
#define CAPABILITIES_MAX 5
extern const struct capability_desc capability_descs[CAPABILITIES_MAX];

#define SYSCTL_UNKNOWN INT32_MIN

/* Reads a number from a file of /proc/sys; SYSCTL_UNKNOWN on failure. */
int32_t read_sysctl(const char *path);

/* Converts an address in inftrace's own process to an offset in the mapped file; 0: not found. */
uint64_t own_offset(uint64_t addr);

struct features {
	char release[65];
	char machine[65];
	uint64_t caps;         /* effective, bit 1 << CAP_* */
	bool user_ns;          /* not the initial one, so capabilities do not count for BPF */
	bool pid_ns;           /* not the initial one, so pids here differ from those that the kernel records */
	char lockdown[32];     /* none, integrity, confidentiality; "" if there is no lockdown */
	uint64_t memlock;      /* soft RLIMIT_MEMLOCK in bytes, UINT64_MAX: unlimited */
	int32_t perf_paranoid; /* sysctls, or SYSCTL_UNKNOWN */
	int32_t unprivileged_bpf_disabled;
	int err[FEATURE_MAX]; /* 0 works, -errno does not, FEATURE_UNTRIED */
};

/*
 * Tries all features, which takes some 100 ms and attaches an empty program to each tracepoint for a moment; or only those
 * marked fast, in a few milliseconds, and leaves the rest at FEATURE_UNTRIED. -errno if not even the basics can be read;
 * a missing feature is a result, not an error.
 */
int features_probe(struct features *ret, bool fast_only);

/* Tries in a child process whether a probe on a 5-byte nop leaves the caller's stack alone. Returns 0 if it does, -EFAULT
 * if not, or why it cannot be tried. */
int features_nop5(void);

/* Tries how the ends of page faults can be seen; prefers perf events. */
enum fault_ends features_fault_ends(struct features *f);

static inline bool features_have(const struct features *f, enum feature id)
{
	return !f->err[id];
}

/* CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON. */
bool features_have_capability(const struct features *f, int cap);

/* Whether the process has the capabilities that a recording needs, in the initial user namespace. */
bool features_permitted(const struct features *f);

/* Whether this feature is required, was tried, does not work, and nothing replaces it. */
bool features_blocked_by(const struct features *f, enum feature id);

/* Whether a recording can run, as far as was tried: 0, -EPERM (privileges) or -EOPNOTSUPP (kernel), with one line in
 * ret_why on what is missing and what to do. */
int features_require(const struct features *f, char *ret_why, size_t size);

/* Writes one line to buf, why a feature does not work and the remedy. Returns buf. */
const char *features_remedy(const struct features *f, enum feature id, char *buf, size_t size);

#endif
