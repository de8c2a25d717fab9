/* SPDX-License-Identifier: BSD-2-Clause */
/* What several formats derive from a record. */
#ifndef INFTRACE_FORMAT_DERIVE_H
#define INFTRACE_FORMAT_DERIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gpu/info.h"
#include "record.h"
#include "requests/step_requests.h"
#include "schema/trace_names.h"
#include "sink/sink.h"
#include "util/names.h"

/* ---- what counters counted ---- */

/* Instructions per cycle, in thousandths; false: not both were counted. */
bool counts_ipc(const struct counters *c, const uint64_t *n, uint64_t *ret_ipc);

/* Adds members to an object: "instructions":1 and so on. */
char *counts_fmt(char *p, const struct counters *c, const uint64_t *n);

/* ---- system calls that pass data between processes or threads, with their names in traces ---- */

/* The name of the outcome: ipc_fast_send, ipc_fast_recv, ipc_slow; NULL: it is another call. */
const char *ipc_name(const struct rec_hdr *h);

/* The medium: pipe, unix, eventfd, futex. Only for calls that have a name. */
const char *ipc_kind_name(const struct rec_hdr *h);

/* ---- what calls have moved over TCP connections ---- */

const char *message_name(const struct rec_message *r);

/* "10.0.0.1:80" or "[fd00::1]:80", of an address as in struct rec_message. Returns buf. */
const char *message_address(char buf[MESSAGE_ADDRESS_MAX], const uint32_t address[4], uint16_t port);

/* ---- requests in batches ---- */

/* The engine's own id of a request; NULL: unknown. names: may be NULL. As handles_get(). */
static inline const char *request_own_id(const struct handles *names, const struct step_request *r)
{
	return r->own_ids && names ? handles_get(names, r->tgid, r->sequence) : NULL;
}

/* ---- requests on sockets ---- */

#define REQUEST_NAME_LEN (REQUEST_HEAD_LEN + 1)

/* "POST /v1/completions", without the query; "request" if it is not HTTP. */
const char *request_name(const struct rec_request *r, char buf[REQUEST_NAME_LEN]);

/* Returns a percentile of the time between parts of the answer, by nearest rank; 0 if it has fewer than two. */
uint64_t request_gap_ns(const struct rec_request *r, unsigned int percent);

/* ---- who ran while threads of a step waited for a CPU, as rows of a table ---- */

struct behind_row {
	uint64_t ns;
	uint32_t tid, tgid; /* 0: no thread; `by` is "idle" or "cpu.max" */
	bool limit;
	char by[TASK_COMM_LEN + 1]; /* as its owner named it: may be unprintable */
};

/*
 * Fills rows from a table, longest first, and returns their number. waited_ns: the wait that they are parts of; a table with a
 * larger sum gives no rows. *ret_others: the rest of the wait.
 */
size_t behind_rows(const struct behind_table *table, uint64_t waited_ns,
	struct behind_row rows[BEHIND_MAX], uint64_t *ret_others);

/* Whether a part of a gap tells who ran on its CPU, or who continued it. */
static inline bool gap_segment_has_behind(const struct gap_segment *s)
{
	return s->state == ST_RUNNABLE || (s->state == ST_STOPPED && s->by_tid);
}

/* Who that was: up to sizeof(s->by) bytes. */
static inline const char *gap_segment_behind(const struct gap_segment *s)
{
	if (s->flags & GAP_SEGMENT_F_LIMITED)
		return "cpu.max";
	return s->by_tid ? s->by : "idle";
}

/* What a part of a gap waited for: a file, with its directory's name, or the peer of a socket. Returns "file" or "peer"; NULL:
 * neither is known. */
#define GAP_FD_MAX 112
const char *gap_segment_fd(const struct recording *rec, const struct gap_segment *s, char buf[GAP_FD_MAX]);

/* What PyTorch's own traces call an operator: as it is declared, without its overload. declared NULL: its name. */
static inline const char *operator_name(const char *declared, const char *name, size_t *ret_len)
{
	*ret_len = declared ? strcspn(declared, ".") : strlen(name);
	return declared ? declared : name;
}

/* ---- GPUs ---- */

/* Pseudo processes, one for each device, and their tracks: above every real pid, see format/chrome.h. */
#define PID_GPU 4195000
#define TID_GPU 4196000

/* "kernel", "gpu_memcpy", "gpu_memset" */
const char *gpu_category(const struct rec_gpu *r);
/* The name of a slice. */
const char *gpu_name(const struct gpu_info *info, const struct rec_gpu *r);
/* Of a copy or a set; 0: unknown. */
uint64_t gpu_megabytes_per_s(const struct rec_gpu *r);

#define GPU_LABEL_MAX 192
/* "GPU 0", or "GPU 0: NVIDIA H200 (0000:1b:00.0)" if known; a MIG instance has its UUID as well. Returns buf. */
const char *gpu_label(const struct gpu_info *info, uint32_t device, char buf[GPU_LABEL_MAX]);

/* Number of a step's devices that are listed one by one. */
static inline uint32_t gpu_step_devices(const struct rec_gpu_step *r)
{
	return r->n_devices < GPU_STEP_DEVICES ? r->n_devices : GPU_STEP_DEVICES;
}

/* "gpu_busy_us", "gpu_busy" */
const char *gpu_part_key(int part);
const char *gpu_part_name(int part);

/* Counters of a device. */
enum gpu_counter {
	GPU_COUNTER_BUSY, /* percent of the time */
	GPU_COUNTER_WAITS,
	GPU_COUNTERS,
};

#define GPU_COUNTER_NAME_MAX 48
/* "busy", "launched, not done"; for further processes on the same device "busy (pid 4711)". Returns buf. */
const char *gpu_counter_name(const struct gpu_info *info, enum gpu_counter c, const struct rec_gpu_load *r, char buf[GPU_COUNTER_NAME_MAX]);
const char *gpu_counter_unit(enum gpu_counter c);
/* false: unknown */
bool gpu_counter_value(enum gpu_counter c, const struct rec_gpu_load *r, uint64_t *ret_value);

/* Whether a flow leads to it from the call that launched it. */
static inline bool gpu_has_flow(const struct rec_gpu *r, const struct recording *to)
{
	return r->h.flags & GPU_F_FIRST && r->launch_tid && r->launch_ns >= to->start_boot_ns &&
	       r->h.start_ns >= r->launch_ns && r->h.dur_ns;
}

#endif
