/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A GPU of AMD's that does not exist: libamdhip64.so.6 (mock_hip.c) and librocprofiler-sdk.so.1 (mock_rocprofiler.c) with
 * the documented binary interface, for tests of what reads the records of rocprofiler-sdk. As with mock.h, what each launch
 * did is known exactly: HIP decides at the launch when it begins and ends on the device, and writes that to the file of
 * the truth. Of the environment in mock.h these count here, too: MOCK_TRUTH, MOCK_CLOCK_OFFSET_NS, MOCK_CLOCK_DRIFT_PPM,
 * MOCK_KERNEL_NS, MOCK_LAUNCH_NS, MOCK_SHUFFLE, MOCK_DROP_EVERY, MOCK_ZERO_EVERY, MOCK_COMPLETE_MS.
 *
 *   MOCK_ROCPROFILER=1.1     the version: 0.5 1.1 1.3; each has other sizes of records, or another layout
 *   MOCK_FAIL_START=N        starting a context fails with status N
 *   MOCK_FAIL_CONFIGURE=N    configuring a buffered service fails with status N
 *   MOCK_INDIRECT=1          launches are enqueued by another thread than the one that makes them
 *
 * All streams share two queues, as HIP has only a few. Fills, and small copies on the device, are kernels; small copies to
 * the device are made by the CPU.
 */
#ifndef MOCK_ROCM_H
#define MOCK_ROCM_H

#include <stdint.h>

/* What HIP tells rocprofiler of. Times are CLOCK_BOOTTIME. */
struct mock_rocm_work {
	uint64_t start, end;
	uint64_t agent, queue, kernel; /* kernel 0: a copy */
	uint64_t bytes;
	uint32_t workgroup[3], grid[3], group_segment; /* grid: in work items */
	uint32_t operation;			       /* of a copy */
	uint32_t lane;				       /* what is in one of them ends in its order */
};

#define MOCK_ROCM_LANES 3
#define MOCK_ROCM_CPU UINT64_C(0x1000) /* agents */
#define MOCK_ROCM_GPU UINT64_C(0x1004)

/* rocprofiler_set_api_table is what HIP calls really; of it only what it leads to is here. */
typedef void mock_rocm_start_fn(void);
typedef void mock_rocm_begin_fn(struct mock_rocm_work *w); /* decides when it runs, once tools have been asked */
typedef uint32_t mock_rocm_launch_fn(struct mock_rocm_work *w, mock_rocm_begin_fn *begin); /* its correlation id */
typedef void mock_rocm_symbol_fn(uint64_t kernel, const char *name);

#endif
