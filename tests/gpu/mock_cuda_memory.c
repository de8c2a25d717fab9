// SPDX-License-Identifier: BSD-2-Clause
/* Memory, copies and sets of a GPU that does not exist: see mock.h. Copies are made when they are launched. */
#define _GNU_SOURCE
#include "mock_cuda.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGN 4096u
#define GRANULARITY (2u << 20)
#define TOTAL (UINT64_C(64) << 30)

enum { HOST_TO_DEVICE = 1,
	DEVICE_TO_HOST = 2,
	DEVICE_TO_DEVICE = 8 };
enum { MEMORY_HOST = 1,
	MEMORY_DEVICE };

_Static_assert(offsetof(struct copy_2d, width) == 112, "CUDA_MEMCPY2D");

extern CUresult cuStreamSynchronize(struct stream *s);

API cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
	*ret_free = *ret_total = TOTAL;
	return 0;
}

static CUresult allocate(size_t bytes, void **ret)
{
	size_t whole = (bytes + ALIGN - 1) / ALIGN * ALIGN;

	/* zeroed, so that what is computed from it is the same each time */
	*ret = aligned_alloc(ALIGN, whole ? whole : ALIGN);
	if (!*ret)
		return OUT_OF_MEMORY;
	memset(*ret, 0, whole);
	return 0;
}

API cuMemAlloc_v2(uint64_t *ret, size_t bytes)
{
	return allocate(bytes, (void **)ret);
}

API cuMemAllocManaged(uint64_t *ret, size_t bytes, unsigned int flags)
{
	return allocate(bytes, (void **)ret);
}

API cuMemHostAlloc(void **ret, size_t bytes, unsigned int flags)
{
	return allocate(bytes, ret);
}

API cuMemFree_v2(uint64_t address)
{
	free((void *)address);
	return 0;
}

API cuMemFreeHost(void *address)
{
	free(address);
	return 0;
}

/* ---- addresses that are reserved first, and backed by memory later ---- */

API cuMemGetAllocationGranularity(size_t *ret, const void *properties, int option)
{
	*ret = GRANULARITY;
	return 0;
}

API cuMemAddressReserve(uint64_t *ret, size_t bytes, size_t align, uint64_t at, unsigned long long flags)
{
	void *m = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*ret = (uint64_t)m;
	return m == MAP_FAILED ? OUT_OF_MEMORY : 0;
}

API cuMemAddressFree(uint64_t address, size_t bytes)
{
	munmap((void *)address, bytes);
	return 0;
}

API cuMemCreate(uint64_t *ret, size_t bytes, const void *properties, unsigned long long flags)
{
	*ret = 1;
	return 0;
}

API cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags)
{
	return mprotect((void *)address, bytes, PROT_READ | PROT_WRITE) ? OUT_OF_MEMORY : 0;
}

STUB(cuMemSetAccess, (uint64_t address, size_t bytes, const void *access, size_t count))
STUB(cuMemUnmap, (uint64_t address, size_t bytes))
STUB(cuMemRelease, (uint64_t handle))

/* ---- copies and sets ---- */

static CUresult copy(uint32_t kind, void *dst, const void *src, size_t bytes, struct stream *s, bool wait)
{
	struct mock_work w = { .kind = MOCK_COPY, .bytes = bytes, .copy_kind = kind };

	if (!mock_stream(s)->captured_by)
		memmove(dst, src, bytes);
	mock_run(&w, mock_stream(s), 1000 + bytes / 16); /* 16 GB/s */
	return wait ? cuStreamSynchronize(s) : 0;
}

API cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t bytes)
{
	return copy(HOST_TO_DEVICE, (void *)dst, src, bytes, NULL, true);
}

API cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t bytes)
{
	return copy(DEVICE_TO_HOST, dst, (void *)src, bytes, NULL, true);
}

API cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, struct stream *s)
{
	return copy(HOST_TO_DEVICE, (void *)dst, src, bytes, s, false);
}

API cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, struct stream *s)
{
	return copy(DEVICE_TO_HOST, dst, (void *)src, bytes, s, false);
}

API cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t bytes, struct stream *s)
{
	return copy(DEVICE_TO_DEVICE, (void *)dst, (void *)src, bytes, s, false);
}

API cuMemcpy2DAsync_v2(const struct copy_2d *c, struct stream *s)
{
	char *dst = c->dst_type == MEMORY_HOST ? c->dst_host : (char *)c->dst_device;
	const char *src = c->src_type == MEMORY_HOST ? c->src_host : (char *)c->src_device;
	struct mock_work w = {
		.kind = MOCK_COPY,
		.bytes = c->width * c->height,
		.copy_kind = c->src_type == MEMORY_HOST ? HOST_TO_DEVICE : c->dst_type == MEMORY_HOST ? DEVICE_TO_HOST
												      : DEVICE_TO_DEVICE,
	};

	for (size_t y = 0; y < c->height && !mock_stream(s)->captured_by; y++)
		memmove(dst + y * c->dst_pitch, src + y * c->src_pitch, c->width);
	mock_run(&w, mock_stream(s), 1000 + w.bytes / 16);
	return 0;
}

static CUresult set(unsigned int value, size_t bytes, struct stream *s)
{
	struct mock_work w = { .kind = MOCK_SET, .bytes = bytes, .copy_kind = value };

	mock_run(&w, mock_stream(s), 1000 + bytes / 64);
	return 0;
}

API cuMemsetD8Async(uint64_t dst, unsigned char value, size_t n, struct stream *s)
{
	if (!mock_stream(s)->captured_by)
		memset((void *)dst, value, n);
	return set(value, n, s);
}

API cuMemsetD8_v2(uint64_t dst, unsigned char value, size_t n)
{
	return cuMemsetD8Async(dst, value, n, NULL);
}

API cuMemsetD32Async(uint64_t dst, unsigned int value, size_t n, struct stream *s)
{
	for (size_t i = 0; i < n && !mock_stream(s)->captured_by; i++)
		((uint32_t *)dst)[i] = value;
	return set(value, 4 * n, s);
}
