/* SPDX-License-Identifier: BSD-2-Clause */
/* record --gpu: the processes whose agents have connected, and what their GPUs did. An agent is a library
 * (gpu/hand_over.h) that the CUDA driver loads: nothing is known of a GPU before a process starts to use one. */
#ifndef INFTRACE_RECORD_GPU_H
#define INFTRACE_RECORD_GPU_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/spec.h"
#include "gpu/join.h"
#include "gpu/process.h"
#include "record.h"
#include "record/options.h"

struct gpu;
struct gpu_launches;
struct inspector;

/* Prepares what a COMMAND needs. is_target: whether a process is recorded, even one born just now. cb takes the records of
 * the GPUs. Prints one line on failure; -EINVAL if something is missing. */
int gpu_new(const struct record_options *o, bool (*is_target)(uint32_t tgid, void *arg), gpu_record_cb cb, void *arg,
	struct gpu **ret_gpu);
void gpu_free(struct gpu *g);

/* NAME=VALUE for the environment of the COMMAND; ends with NULL. */
const char *const *gpu_environment(const struct gpu *g);

/* Begins to inject the agent into running processes, with inftrace's privileges. Prints a line for each failure, also later. */
void gpu_attach(struct gpu *g, struct inspector *inspector, const pid_t *pids, size_t n);

/* How full the fullest ring is, in percent. May be called by another thread. */
unsigned int gpu_fill(struct gpu *g);

int gpu_fd(const struct gpu *g); /* to be polled; g NULL: -1 */
const struct gpu_info *gpu_get_info(const struct gpu *g);

/* The agents collect from now on. */
void gpu_start(struct gpu *g);
/* The agents stop. The first call waits up to two seconds for what is left from before end_ns. */
void gpu_stop(struct gpu *g, uint64_t end_ns);

/* Takes a call or a step; s: its probe. */
void gpu_call(struct gpu *g, const struct probe_spec *s, const struct rec_function *r);
void gpu_step(struct gpu *g, const struct rec_step *r);

/* Accepts new agents and takes what agents have sent. drained: all calls and steps were taken. Returns whether there is more. */
bool gpu_drain(struct gpu *g, uint64_t now_ns, bool drained);

uint64_t gpu_lost(const struct gpu *g); /* records so far */
void gpu_summary(struct gpu *g);

/* ---- what a call launches or waits for, from the arguments that its preset names ---- */

struct gpu_launches *gpu_launches_new(void);
void gpu_launches_free(struct gpu_launches *gl);

/* Returns false if the call launches nothing on a GPU. */
bool gpu_launch_get(struct gpu_launches *gl, const struct probe_spec *s, const struct rec_function *r, struct launch *ret_launch);

#endif
