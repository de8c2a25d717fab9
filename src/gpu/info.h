/* SPDX-License-Identifier: BSD-2-Clause */
/* What is known of GPUs apart from their activity: devices, tracks, names, and load. */
#ifndef INFTRACE_GPU_INFO_H
#define INFTRACE_GPU_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/hand_over.h"
#include "record.h"
#include "util/clock.h"

/*
 * The devices of a recording, which numbers them itself: in each process CUDA renumbers the devices that CUDA_VISIBLE_DEVICES
 * leaves. Two processes mean the same device if the UUIDs are equal.
 */

#define GPU_DEVICES_MAX 64
#define GPU_PCI_MAX 24  /* "0000:1b:00.0" */
#define GPU_UUID_MAX 41 /* "GPU-" or "MIG-", and 36 characters */
#define GPU_MACHINE_DIR "/proc/driver/nvidia/gpus"

/* What a process says of a device. */
struct gpu_identity {
	char name[GPU_DEVICE_NAME_MAX]; /* printable ASCII; "": not known, also for the texts below */
	char pci[GPU_PCI_MAX];
	char uuid[GPU_UUID_MAX];
	uint8_t uuid_bytes[sizeof(((struct gpu_device *)0)->uuid)]; /* valid if .uuid is known */
};

struct gpu_devices {
	const char *machine_dir; /* has an entry per device of the machine, named by PCI address */
	uint32_t n_known;        /* devices of which something is known */
	struct {
		struct gpu_identity is;
		bool is_taken, is_known;
		bool is_shared; /* unknown, and used by processes that number devices as the machine does */
	} list[GPU_DEVICES_MAX];
};

/*
 * Gives the number, below GPU_DEVICES_MAX, of the device that a process calls `own`. Call it once per device. A device with a known
 * UUID gets that device's number; a new one its place among the machine's devices by PCI address, as in nvidia-smi; if that is
 * unknown or taken, `own`; else the first free number.
 * about NULL: nothing is known of it, so it is no other process's device, unless processes number devices as the machine does (shared).
 * Returns false if there are too many.
 */
bool gpu_devices_add(struct gpu_devices *d, const struct gpu_device *about, uint32_t own, bool shared, uint32_t *ret_device);

/* Describes a device of which nothing was known; known devices stay as they are. */
void gpu_devices_set(struct gpu_devices *d, uint32_t device, const struct gpu_device *about);

/* Returns NULL if nothing is known of the device. */
const struct gpu_identity *gpu_devices_get(const struct gpu_devices *d, uint32_t device);

/*
 * Kernel names and tracks by the ids in GPU records. A track is a stream of a device as one process uses it; activity that
 * overlaps there, as it may since clocks are not exact, goes to further tracks.
 */

#define GPU_TRACKS_MAX 1024
#define GPU_NAMES_MAX (1 << 17) /* and at most GPU_NAMES_MEMORY bytes; further kernels have no name */
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

struct gpu_info *gpu_info_new(void);
void gpu_info_free(struct gpu_info *info);

/* Interns a kernel's mangled name, which may be any text; returns its id, 0 if there is no more room. */
uint32_t gpu_info_name(struct gpu_info *info, const char *mangled);

/* Interns an operator's name; returns its id, 0 if there is no more room. */
uint32_t gpu_info_operator(struct gpu_info *info, const char *name);
/* NULL: no such id. */
const char *gpu_info_operator_name(const struct gpu_info *info, uint32_t number);

/* Gives the track for activity in this time: the first of the stream's tracks where it overlaps nothing. false: too many
 * tracks. */
bool gpu_info_track(struct gpu_info *info, const struct gpu_track *of, uint64_t start_ns, uint64_t end_ns, uint32_t *ret_track);

struct gpu_kernel_name {
	const char *mangled;      /* "": not known */
	const char *full, *brief; /* demangled, cut at STACK_NAME_MAX; brief: without template arguments */
	bool is_collective;       /* an NCCL kernel, which runs until all devices have taken part */
};

/* Never NULL. */
const struct gpu_kernel_name *gpu_info_kernel(const struct gpu_info *info, uint32_t name);

/* The stream of the tracks of steps. */
#define GPU_STREAM_STEPS UINT32_MAX

static inline bool gpu_track_is_steps(const struct gpu_track *t)
{
	return t->stream == GPU_STREAM_STEPS;
}

/* Whether each step of the process will be followed by its rec_gpu_step. */
void gpu_info_expect(struct gpu_info *info, uint32_t tgid, bool expected);
bool gpu_info_expects(const struct gpu_info *info, uint32_t tgid);

/* NULL: no such track. */
const struct gpu_track *gpu_info_get_track(const struct gpu_info *info, uint32_t track);

struct gpu_devices *gpu_info_devices(struct gpu_info *info);
/* NULL: nothing is known of the device. */
const struct gpu_identity *gpu_info_device(const struct gpu_info *info, uint32_t device);
/* Returns how many devices something is known of. */
uint32_t gpu_info_devices_known(const struct gpu_info *info);

/* Whether any process has used the device; whether this process was the first. */
bool gpu_info_is_used(const struct gpu_info *info, uint32_t device);
bool gpu_info_is_first(const struct gpu_info *info, uint32_t device, uint32_t tgid);

/* "host to device" */
const char *gpu_copy_name(uint32_t kind);

/*
 * The load of a process's devices at regular intervals: busy time, and how many launches wait.
 */

#define GPU_LOAD_NS (10 * NSEC_PER_MSEC) /* interval of a record, left out if there is nothing to tell */
#define GPU_LOAD_SLOTS 1024              /* intervals ahead; launches and ends beyond count in the last, busy time is left out */
#define GPU_LOAD_DEVICES 16              /* of a process; further ones get no records */

struct gpu_load;

typedef void (*gpu_load_cb)(const struct rec_hdr *h, size_t size, void *arg);
struct gpu_load_ops {
	/* Returns how many launches up to then have added nothing so far. */
	size_t (*pending)(uint64_t until_ns, void *arg);
	/* Whether all activity of the interval is known; otherwise it gets no record. */
	bool (*is_known)(uint64_t from_ns, uint64_t to_ns, void *arg);
};

struct gpu_load *gpu_load_new(uint32_t tgid, uint64_t now_ns);
void gpu_load_free(struct gpu_load *l);

/* Adds activity, nearly in the order of its start. */
void gpu_load_add(struct gpu_load *l, const struct rec_gpu *r);

/* Emits the intervals up to until_ns, before which all activity has been added. Waiting launches are told only of a process with one
 * device. */
void gpu_load_take(
	struct gpu_load *l, uint64_t until_ns, const struct gpu_load_ops *ops, void *ops_arg, gpu_load_cb cb, void *arg);

#endif
