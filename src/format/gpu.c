// SPDX-License-Identifier: BSD-2-Clause
#include "format/gpu.h"

#include <stdio.h>
#include <string.h>

#include "gpu/hand_over.h"

const char *gpu_category(const struct rec_gpu *r)
{
	return r->h.id == GPU_KERNEL ? "kernel" : r->h.id == GPU_COPY ? "gpu_memcpy"
								      : "gpu_memset";
}

const char *gpu_name(const struct gpu_info *info, const struct rec_gpu *r)
{
	if (r->h.id == GPU_KERNEL)
		return gpu_info_kernel(info, r->name)->brief;
	if (r->h.id == GPU_SET)
		return "Memset (Device)";
	switch (r->copy_kind) {
	case GPU_COPY_HOST_TO_DEVICE:
		return "Memcpy HtoD";
	case GPU_COPY_DEVICE_TO_HOST:
		return "Memcpy DtoH";
	case GPU_COPY_DEVICE_TO_DEVICE:
		return "Memcpy DtoD";
	case GPU_COPY_HOST_TO_HOST:
		return "Memcpy HtoH";
	case GPU_COPY_PEER_TO_PEER:
		return "Memcpy PtoP";
	default:
		return "Memcpy";
	}
}

uint64_t gpu_megabytes_per_s(const struct rec_gpu *r)
{
	if (!r->h.dur_ns || r->bytes > UINT64_MAX / 1000)
		return 0;
	return r->bytes * 1000 / r->h.dur_ns; /* a byte a nanosecond is 1000 MB/s */
}

const char *gpu_label(const struct gpu_info *info, uint32_t device, char buf[GPU_LABEL_MAX])
{
	const struct gpu_identity *is = gpu_info_device(info, device);
	const char *pci = is ? is->pci : "", *uuid = is && (!*pci || !strncmp(is->uuid, "MIG", 3)) ? is->uuid : "";
	char *p = buf + sprintf(buf, "GPU %u", device);

	if (is && is->name[0])
		p += sprintf(p, ": %s", is->name);
	if (*pci || *uuid)
		sprintf(p, " (%s%s%s)", pci, *pci && *uuid ? ", " : "", uuid);
	return buf;
}

static const struct {
	const char *key, *name; /* name: without the unit */
} parts[GPU_PART_MAX] = {
	[GPU_PART_BUSY] = { "gpu_busy_us", "gpu_busy" },
	[GPU_PART_COPY] = { "gpu_copy_us", "gpu_copy" },
	[GPU_PART_IDLE_LAUNCH] = { "gpu_idle_launch_us", "gpu_idle_launch" },
	[GPU_PART_IDLE_WAIT] = { "gpu_idle_wait_us", "gpu_idle_wait" },
	[GPU_PART_COLLECTIVE] = { "gpu_collective_us", "gpu_collective" },
	[GPU_PART_UNKNOWN] = { "gpu_unknown_us", "gpu_unknown" },
};

const char *gpu_part_key(int part)
{
	return parts[part].key;
}

const char *gpu_part_name(int part)
{
	return parts[part].name;
}

const char *gpu_counter_name(const struct gpu_info *info, enum gpu_counter c, const struct rec_gpu_load *r, char buf[GPU_COUNTER_NAME_MAX])
{
	const char *name = c == GPU_COUNTER_BUSY ? "busy" : "launched, not done";

	if (gpu_info_is_first(info, r->h.id, r->h.tgid))
		snprintf(buf, GPU_COUNTER_NAME_MAX, "%s", name);
	else
		snprintf(buf, GPU_COUNTER_NAME_MAX, "%s (pid %u)", name, r->h.tgid);
	return buf;
}

const char *gpu_counter_unit(enum gpu_counter c)
{
	return c == GPU_COUNTER_BUSY ? "%" : "launches";
}

bool gpu_counter_value(enum gpu_counter c, const struct rec_gpu_load *r, uint64_t *ret_value)
{
	if (c == GPU_COUNTER_WAITS)
		*ret_value = r->waits;
	else
		*ret_value = r->h.dur_ns ? (r->busy_ns * 100 + r->h.dur_ns / 2) / r->h.dur_ns : 0;
	return c != GPU_COUNTER_WAITS || r->has_waits;
}
