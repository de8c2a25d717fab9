/* SPDX-License-Identifier: BSD-2-Clause */
/* What is known of GPUs, apart from what they did: devices, tracks, names, and how busy they are. */
#ifndef INFTRACE_GPU_INFO_H
#define INFTRACE_GPU_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/hand_over.h"
#include "record.h"
#include "util/clock.h"

/*
 * The devices of a recording, which has numbers of its own: CUDA numbers the devices that CUDA_VISIBLE_DEVICES leaves in each process
 * anew. Two processes mean the same device if it has the same UUID.
 */

#define GPU_DEVICES_MAX 64
#define GPU_PCI_MAX 24  /* "0000:1b:00.0" */
#define GPU_UUID_MAX 41 /* "GPU-" or "MIG-", and 36 characters */
#define GPU_MACHINE_DIR "/proc/driver/nvidia/gpus"

/* What a process says that a device is. */
struct gpu_identity {
	char name[GPU_DEVICE_NAME_MAX]; /* printable ASCII; "": not known, as of what follows */
	char pci[GPU_PCI_MAX];
	char uuid[GPU_UUID_MAX];
	uint8_t uuid_bytes[sizeof(((struct gpu_device *)0)->uuid)]; /* if .uuid is known */
};

struct gpu_devices {
	const char *machine_dir; /* has an entry for each of the machine's, by its PCI address */
	uint32_t n_known;        /* of which something is known */
	struct {
		struct gpu_identity is;
		bool is_taken, is_known;
		bool is_shared; /* unknown, and used by processes that number devices as the machine does */
	} list[GPU_DEVICES_MAX];
};

/*
 * The number, below GPU_DEVICES_MAX, of the device that a process calls `own`: to be asked for once. A device with the UUID of a known
 * one is that one. Another one gets its place among the machine's devices in the order of their PCI addresses, as nvidia-smi numbers
 * them; where that is not known or taken, `own`; else the first free number.
 * about: NULL: nothing is known of it: no other process uses it, unless processes number devices as the machine does (shared).
 * false: there are too many.
 */
bool gpu_devices_add(struct gpu_devices *d, const struct gpu_device *about, uint32_t own, bool shared, uint32_t *ret_device);

/* Says what a device is that nothing was known of; others stay as they are. */
void gpu_devices_set(struct gpu_devices *d, uint32_t device, const struct gpu_device *about);

/* NULL: nothing is known of it. */
const struct gpu_identity *gpu_devices_get(const struct gpu_devices *d, uint32_t device);

/*
 * What the numbers in records of GPUs stand for: names of kernels, and tracks. A track is a stream of a device, as one
 * process uses it; what overlaps there, as it may between clocks that are not quite the same, has further tracks.
 */

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

struct gpu_info *gpu_info_new(void);
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

struct gpu_kernel_name {
	const char *mangled;      /* as it is in the program; "": it is not known */
	const char *full, *brief; /* as in the source, cut at the end where it is very long; brief: without arguments of templates */
	bool is_collective;       /* one of NCCL's, which run until all devices have taken part */
};

/* Never NULL. */
const struct gpu_kernel_name *gpu_info_kernel(const struct gpu_info *info, uint32_t name);

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

/*
 * How busy the devices of a process were, and how much was waiting for them, at regular intervals.
 */

#define GPU_LOAD_NS (10 * NSEC_PER_MSEC) /* a record for so long, unless there is nothing to tell */
#define GPU_LOAD_SLOTS 1024              /* what is known earlier than that is counted in the last one */
#define GPU_LOAD_DEVICES 16              /* of a process: of more, nothing is told */

struct gpu_load;

typedef void (*gpu_load_cb)(const struct rec_hdr *h, size_t size, void *arg);
struct gpu_load_ops {
	/* Launches up to then of which nothing has been added. */
	size_t (*pending)(uint64_t until_ns, void *arg);
	/* Whether nothing is missing of what ran: otherwise the interval is not told. */
	bool (*is_known)(uint64_t from_ns, uint64_t to_ns, void *arg);
};

struct gpu_load *gpu_load_new(uint32_t tgid, uint64_t now_ns);
void gpu_load_free(struct gpu_load *l);

/* What ran: nearly in the order of its begin. */
void gpu_load_add(struct gpu_load *l, const struct rec_gpu *r);

/* Everything that ended before has been added: tells the intervals up to then. How much waits is told of a process with one device. */
void gpu_load_take(
	struct gpu_load *l, uint64_t until_ns, const struct gpu_load_ops *ops, void *ops_arg, gpu_load_cb cb, void *arg);

#endif
