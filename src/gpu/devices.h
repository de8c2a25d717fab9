/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices of a recording. CUDA numbers them in each process anew, of those that CUDA_VISIBLE_DEVICES leaves: that two processes mean
 * the same one is known by its UUID, and a recording has numbers of its own.
 */
#ifndef INFTRACE_GPU_DEVICES_H
#define INFTRACE_GPU_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/hand_over.h"

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
		bool is_shared; /* and not known: by processes whose numbers are those of the machine */
	} list[GPU_DEVICES_MAX];
};

/*
 * The number of what a process calls device `own`, below GPU_DEVICES_MAX: to be asked for once. A device with a UUID that another process has
 * named is that one. Else it is its place among the machine's, in the order of their PCI addresses, as of nvidia-smi; where that is not known, or
 * another one has it, `own`; or the first that is free.
 * about: NULL: nothing is known of it; then it is a device that no other process uses, or, where numbers are those of the machine
 * (shared), the one that others call so. false: there are too many.
 */
bool gpu_devices_add(struct gpu_devices *d, const struct gpu_device *about, uint32_t own, bool shared, uint32_t *ret_device);

/* Says what a device is that was added without; of others, nothing changes. */
void gpu_devices_set(struct gpu_devices *d, uint32_t device, const struct gpu_device *about);

/* NULL: nothing is known of it. */
const struct gpu_identity *gpu_devices_get(const struct gpu_devices *d, uint32_t device);

#endif
