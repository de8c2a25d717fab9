/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A GPU that does not exist: libcuda.so.1 (mock_cuda*.c) and libcupti.so (mock_cupti.c) with the documented binary
 * interface, for tests of what reads CUPTI's records. What each launch did is known exactly: libcuda decides at the
 * launch when it begins and ends on the device, and writes that to the file of the truth. Kernels compute nothing; memory
 * of the device is memory of the process, and copies are made. libcudart.so.13 (mock_cudart.c) and libcublas.so.13
 * (mock_cublas.c) have what llama.cpp's CUDA build calls, above the same libcuda.
 *
 *   MOCK_TRUTH=FILE          struct mock_work for each, in the order of their launches, times in CLOCK_BOOTTIME; the
 *                            names of the kernels, a line for each, are in FILE.names
 *   MOCK_CUPTI=12.0          the version: 12.0 12.8 13.0 13.1 13.3 13.4; each has other sizes of records
 *   MOCK_CLOCK_OFFSET_NS=N   the device's clock is ahead of CLOCK_BOOTTIME by N at the start,
 *   MOCK_CLOCK_DRIFT_PPM=N   and runs faster by N millionths
 *   MOCK_DEVICES=N           how many devices the machine has (default 1), of which CUDA_VISIBLE_DEVICES may name some; a process can use
 *                            others, which say nothing of themselves
 *   MOCK_MIG=1               they are instances of one device
 *   MOCK_FAIL_UUID=N         asking for a UUID fails with error N
 *   MOCK_ARCH=9.0            the compute capability
 *   MOCK_KERNEL_NS=N         how long kernels take (default 5000)
 *   MOCK_LAUNCH_NS=N         from a launch to the beginning on an idle stream (default 2000)
 *   MOCK_SHUFFLE=1           records of a buffer are in no order
 *   MOCK_DROP_EVERY=N        each N-th record is dropped, and counted
 *   MOCK_ZERO_EVERY=N        each N-th record has no times
 *   MOCK_COMPLETE_MS=N       buffers are handed over that much later, by a slow thread
 *   MOCK_KEEP=1              a buffer is asked for at a launch, and kept while something that was launched is not done
 *   MOCK_ERROR39=1           another user has subscribed
 *   MOCK_FAIL_FLUSH=N        flushing fails with error N
 *   MOCK_FAIL_ENABLE=N       enabling any kind fails with error N
 */
#ifndef MOCK_H
#define MOCK_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum mock_kind {
	MOCK_KERNEL,
	MOCK_COPY,
	MOCK_SET,
	MOCK_GRAPH, /* a launch of a graph; its nodes follow as kernels */
};

struct mock_work {
	uint64_t start, end; /* CLOCK_BOOTTIME ns */
	uint64_t bytes;
	uint64_t graph_node;
	uint32_t kind; /* enum mock_kind */
	uint32_t correlation;
	uint32_t device, context, stream;
	uint32_t grid[3], block[3], shared;
	uint32_t copy_kind; /* 1 host to device, 2 device to host, 8 device to device; the value of a set */
	uint32_t graph;
	const char *name; /* of a kernel; in the file of the truth, mock_hash() of its first MOCK_NAME_MAX bytes */
};

#define MOCK_NAME_MAX 8192

static inline uint64_t mock_hash(const char *text, size_t length)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	while (length--)
		h = (h ^ (unsigned char)*text++) * UINT64_C(0x100000001b3);
	return h;
}

/* Of a variable of the environment. */
static inline uint64_t mock_number_of(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 10) : otherwise;
}

static inline uint64_t mock_boot_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * The file of the truth, and that of the names of kernels (mock_truth.c): opened if MOCK_TRUTH says so, and complete up to
 * here once they are flushed. The callers have a lock.
 */
void mock_truth_open(void);
void mock_truth_write(const struct mock_work *w);
void mock_truth_flush(void);

/* Sleeps until then. */
void mock_wait_until(uint64_t boot_ns);

/* What libcuda has for CUPTI: it tells it of each piece of work when it is launched, and has the clock. */
typedef void mock_sink_fn(const struct mock_work *w);
void mock_cuda_listen(mock_sink_fn *sink);
uint64_t mock_cuda_clock(uint64_t boot_ns);
uint64_t mock_cuda_now(void);
void mock_cuda_arch(int *ret_major, int *ret_minor); /* either may be NULL */

/* A function that has nothing to do; API: what those of the library are. */
#define STUB(name, params) \
	API name params    \
	{                  \
		return 0;  \
	}

/* CUDA_MEMCPY2D_v2 */
struct copy_2d {
	size_t src_x, src_y;
	uint32_t src_type;
	const void *src_host;
	uint64_t src_device;
	void *src_array;
	size_t src_pitch, dst_x, dst_y;
	uint32_t dst_type;
	void *dst_host;
	uint64_t dst_device;
	void *dst_array;
	size_t dst_pitch, width, height;
};

#endif
