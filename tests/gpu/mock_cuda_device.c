// SPDX-License-Identifier: BSD-2-Clause
/*
 * Devices of libcuda.so.1 (mock.h): their numbers are those of the process, of the machine's devices that CUDA_VISIBLE_DEVICES names, by
 * their place there ("1,0") or by the beginning of their UUID ("GPU-00000002", "MIG-"). MOCK_OLD_DRIVER: that of before 11.4, without UUIDs of
 * instances.
 */
#include "mock_cuda.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MACHINE_MAX 64
#define NOT_INITIALIZED 3
#define INVALID_DEVICE 101

static int machine_count(void)
{
	uint64_t n = mock_number_of("MOCK_DEVICES", 1);

	return n < MACHINE_MAX ? (int)n : MACHINE_MAX;
}

static int is_instances(void)
{
	return getenv("MOCK_MIG") != NULL;
}

/* The bytes of "GPU-00000002-0000-0000-0000-6d6f636b0000"; those of instances end with 1. */
static void make_uuid(int at, int of_instance, unsigned char ret[16])
{
	static const unsigned char last[6] = "mock";

	memset(ret, 0, 10);
	memcpy(ret + 10, last, sizeof(last));
	ret[3] = (unsigned char)(is_instances() && !of_instance ? 0 : at);
	ret[15] = (unsigned char)of_instance;
}

static int is_named(const char *word, size_t length, int at)
{
	unsigned char uuid[16];
	char text[64], *p = text;

	make_uuid(at, is_instances(), uuid);
	p += sprintf(p, "%s-", is_instances() ? "MIG" : "GPU");
	for (int i = 0; i < 16; i++)
		p += sprintf(p, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
	return length > 4 && !strncmp(word, text, length);
}

/* Which of the machine's devices the process sees: what follows one that is not there is left out, too. */
static int list_visible(int ret[MACHINE_MAX])
{
	const char *word = getenv("CUDA_VISIBLE_DEVICES");
	int n = 0, at, count = machine_count();

	if (!word) {
		for (at = 0; at < count; at++)
			ret[n++] = at;
		return n;
	}
	while (*word && n < MACHINE_MAX) {
		size_t length = strcspn(word, ",");

		if (*word >= '0' && *word <= '9') {
			at = atoi(word);
		} else {
			for (at = 0; at < count && !is_named(word, length, at); at++)
				;
		}
		if (at >= count)
			break;
		ret[n++] = at;
		word += length;
		word += *word == ',';
	}
	return n;
}

/* The machine's number of one that the process sees; those that are beyond them are there, too, but say nothing of themselves. */
static CUresult find(int device, int *ret_at)
{
	int visible[MACHINE_MAX], n = list_visible(visible);

	if (device < 0 || device >= n)
		return INVALID_DEVICE;
	*ret_at = visible[device];
	return 0;
}

API cuDeviceGet(int *ret, int ordinal)
{
	*ret = ordinal;
	return 0;
}

API cuDeviceGetCount(int *ret)
{
	int visible[MACHINE_MAX];

	*ret = list_visible(visible);
	return mock_cuda_ready() ? 0 : NOT_INITIALIZED;
}

API cuDeviceGetName(char *name, int size, int device)
{
	int at, error = find(device, &at);

	if (!error)
		snprintf(name, (size_t)size, "%s%s", at % 2 ? "No \"Such\" GPU" : "Mock H100", is_instances() ? " MIG 1g.10gb" : "");
	return error;
}

/* An address that no machine has. */
API cuDeviceGetPCIBusId(char *pci, int size, int device)
{
	int at, error = find(device, &at);

	if (!error)
		snprintf(pci, (size_t)size, "FFFF:%02X:00.0", is_instances() ? 0x1b : 0x1b + at);
	return error;
}

static CUresult get_uuid(unsigned char uuid[16], int device, int of_instance)
{
	int at, error = (int)mock_number_of("MOCK_FAIL_UUID", 0) ?: find(device, &at);

	if (!error)
		make_uuid(at, of_instance, uuid);
	return error;
}

API cuDeviceGetUuid(unsigned char uuid[16], int device)
{
	return get_uuid(uuid, device, 0);
}

#ifndef MOCK_OLD_DRIVER
API cuDeviceGetUuid_v2(unsigned char uuid[16], int device)
{
	return get_uuid(uuid, device, is_instances());
}
#endif

/* What each attribute of interest is on an H100; others are 0. */
API cuDeviceGetAttribute(int *ret, int attribute, int device)
{
	static const int attributes[128] = {
		[1] = 1024, [2] = 1024, [3] = 1024, [4] = 64, [5] = INT_MAX, [6] = 65535, [7] = 65535, [8] = 48 << 10, [9] = 64 << 10, [10] = 32, [12] = 64 << 10, [16] = 132, [38] = 50 << 20, [39] = 2048, [81] = 228 << 10, [82] = 64 << 10, [95] = 1, [97] = 227 << 10, [102] = 1, [106] = 32
	};

	*ret = attribute >= 0 && attribute < 128 ? attributes[attribute] : 0;
	if (attribute == 75 || attribute == 76)
		mock_cuda_arch(attribute == 75 ? ret : NULL, attribute == 76 ? ret : NULL);
	return 0;
}
