// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/devices.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* "0000:1b:00.0", with digits of either case, as one number that sorts like it. false: it is none. */
static bool parse_pci(const char *text, uint64_t *ret_address)
{
	unsigned int domain, bus, slot, function;
	int end = 0;

	if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &end) != 4 || !end || text[end])
		return false;
	*ret_address = (uint64_t)domain << 24 | bus << 16 | slot << 8 | function;
	return true;
}

static void print_pci(uint64_t address, char ret[GPU_PCI_MAX])
{
	snprintf(ret, GPU_PCI_MAX, "%04x:%02x:%02x.%x", (unsigned int)(address >> 24), (unsigned int)(address >> 16 & 0xff),
		(unsigned int)(address >> 8 & 0xff), (unsigned int)(address & 0xff));
}

static void print_uuid(const struct gpu_device *about, char ret[GPU_UUID_MAX])
{
	char *p = ret + sprintf(ret, "%s-", about->uuid_kind == GPU_UUID_MIG ? "MIG" : "GPU");

	for (size_t i = 0; i < sizeof(about->uuid); i++)
		p += sprintf(p, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", about->uuid[i]);
}

/* Returns whether anything is known. */
static bool identify(const struct gpu_device *about, struct gpu_identity *ret)
{
	uint64_t pci;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i + 1 < sizeof(ret->name) && about->name[i]; i++)
		ret->name[i] = about->name[i] >= ' ' && about->name[i] <= '~' ? about->name[i] : '?';
	if (parse_pci(about->pci, &pci))
		print_pci(pci, ret->pci);
	if (about->uuid_kind == GPU_UUID_DEVICE || about->uuid_kind == GPU_UUID_MIG) {
		memcpy(ret->uuid_bytes, about->uuid, sizeof(ret->uuid_bytes));
		print_uuid(about, ret->uuid);
	}
	return ret->name[0] || ret->pci[0] || ret->uuid[0];
}

/* How many of the machine's have a lower address; false: it is none of them. */
static bool place_in_machine(const char *dir, const char *pci, uint32_t *ret_place)
{
	uint64_t address, other;
	const struct dirent *e;
	bool found = false;
	DIR *list;

	if (!parse_pci(pci, &address))
		return false;
	list = opendir(dir);
	if (!list)
		return false;
	*ret_place = 0;
	while ((e = readdir(list))) {
		if (!parse_pci(e->d_name, &other))
			continue;
		found |= other == address;
		*ret_place += other < address;
	}
	closedir(list);
	return found;
}

static bool is_free(const struct gpu_devices *d, uint32_t device)
{
	return device < GPU_DEVICES_MAX && !d->list[device].is_taken;
}

static bool find_free(const struct gpu_devices *d, const struct gpu_identity *is, uint32_t own, uint32_t *ret_device)
{
	uint32_t at;

	if (!is || !d->machine_dir || !place_in_machine(d->machine_dir, is->pci, &at) || !is_free(d, at))
		at = own;
	if (!is_free(d, at)) {
		for (at = 0; at < GPU_DEVICES_MAX && !is_free(d, at); at++)
			;
	}
	if (at == GPU_DEVICES_MAX)
		return false;
	*ret_device = at;
	return true;
}

/* false: it has no UUID, or that is new */
static bool find_uuid(const struct gpu_devices *d, const char *uuid, uint32_t *ret_device)
{
	for (uint32_t i = 0; *uuid && i < GPU_DEVICES_MAX; i++) {
		if (!strcmp(d->list[i].is.uuid, uuid)) {
			*ret_device = i;
			return true;
		}
	}
	return false;
}

static void know(struct gpu_devices *d, uint32_t device, const struct gpu_identity *is)
{
	d->list[device].is = *is;
	d->list[device].is_known = true;
	d->list[device].is_shared = false;
	d->n_known++;
}

bool gpu_devices_add(struct gpu_devices *d, const struct gpu_device *about, uint32_t own, bool shared, uint32_t *ret_device)
{
	struct gpu_identity is;
	bool known = about && identify(about, &is);

	if (known && find_uuid(d, is.uuid, ret_device))
		return true;
	shared = shared && !known;
	if (shared && own < GPU_DEVICES_MAX && d->list[own].is_shared) {
		*ret_device = own;
		return true;
	}
	if (!find_free(d, known ? &is : NULL, own, ret_device))
		return false;
	d->list[*ret_device].is_taken = true;
	d->list[*ret_device].is_shared = shared;
	if (known)
		know(d, *ret_device, &is);
	return true;
}

void gpu_devices_set(struct gpu_devices *d, uint32_t device, const struct gpu_device *about)
{
	struct gpu_identity is;

	if (device < GPU_DEVICES_MAX && d->list[device].is_taken && !d->list[device].is_known && identify(about, &is))
		know(d, device, &is);
}

const struct gpu_identity *gpu_devices_get(const struct gpu_devices *d, uint32_t device)
{
	return device < GPU_DEVICES_MAX && d->list[device].is_known ? &d->list[device].is : NULL;
}
