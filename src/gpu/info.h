/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the numbers in records of GPUs stand for: names of kernels, and tracks. A track is a stream of a device, as one
 * process uses it; what overlaps there, as it may between clocks that are not quite the same, has further tracks.
 */
#ifndef INFTRACE_GPU_INFO_H
#define INFTRACE_GPU_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/devices.h"

#define GPU_TRACKS_MAX 1024
#define GPU_NAMES_MAX (1 << 17) /* and at most GPU_NAMES_MEMORY bytes of them: further kernels have no name */
#define GPU_NAMES_MEMORY (16u << 20)
#define GPU_OPERATORS_MAX 1024 /* in which kernels were captured */
#define GPU_PROCESSES_MAX 16
#define GPU_TRACK_NAME_MAX 96

struct gpu_info;

struct gpu_track {
	uint32_t device, tgid, context, stream;
	uint32_t lane; /* 0: the stream's first track */
	uint64_t end_ns;
	char name[GPU_TRACK_NAME_MAX];
};

/* -ENOMEM */
int gpu_info_new(struct gpu_info **ret_info);
void gpu_info_free(struct gpu_info *info);

/* The number of a kernel's name, as it is in the program; 0 if there is no more room. The text may hold anything. */
uint32_t gpu_info_name(struct gpu_info *info, const char *mangled);

/* The number of an operator's name; 0 if there is no more room. */
uint32_t gpu_info_operator(struct gpu_info *info, const char *name);
/* NULL: there is none of this number. */
const char *gpu_info_operator_name(const struct gpu_info *info, uint32_t number);

/* The track of what runs in this time: the first of the stream's on which it overlaps with nothing. false: there are too
 * many tracks. */
bool gpu_info_track(struct gpu_info *info, const struct gpu_track *of, uint64_t start_ns, uint64_t end_ns, uint32_t *ret_track);

/* As in the source, cut at the end where it is very long, and without arguments of templates. Never NULL. */
const char *gpu_info_full_name(const struct gpu_info *info, uint32_t name);
const char *gpu_info_short_name(const struct gpu_info *info, uint32_t name);
/* As it is in the program; "": it is not known. */
const char *gpu_info_mangled_name(const struct gpu_info *info, uint32_t name);

/* Whether the kernel is one of NCCL's, which run until all devices have taken part. */
bool gpu_info_is_collective(const struct gpu_info *info, uint32_t name);

/* The stream of tracks on which steps are. */
#define GPU_STREAM_STEPS UINT32_MAX

static inline bool gpu_track_is_steps(const struct gpu_track *t)
{
	return t->stream == GPU_STREAM_STEPS;
}

/* Whether each step of the process will be followed by what its GPU did. */
void gpu_info_expect(struct gpu_info *info, uint32_t tgid, bool expected);
bool gpu_info_expects(const struct gpu_info *info, uint32_t tgid);

/* NULL: there is no such track. */
const struct gpu_track *gpu_info_get_track(const struct gpu_info *info, uint32_t track);

/* The devices, which are known as processes tell of them. */
struct gpu_devices *gpu_info_devices(struct gpu_info *info);
/* What a device is; NULL: nothing is known of it. */
const struct gpu_identity *gpu_info_device(const struct gpu_info *info, uint32_t device);
/* Of how many something is known. */
uint32_t gpu_info_devices_known(const struct gpu_info *info);

/* Whether a process has used the device; whether that one was the first. */
bool gpu_info_is_used(const struct gpu_info *info, uint32_t device);
bool gpu_info_is_first(const struct gpu_info *info, uint32_t device, uint32_t tgid);

/* "host to device" */
const char *gpu_copy_name(uint32_t kind);

#endif
