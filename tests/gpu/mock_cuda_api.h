/* SPDX-License-Identifier: BSD-2-Clause */
/* libcuda.so.1 (mock.h) as those see it that call it: what a handle stands for is not their business. */
#ifndef MOCK_CUDA_API_H
#define MOCK_CUDA_API_H

#include "mock.h"

/* CUlaunchConfig */
struct cu_config {
	unsigned int grid[3], block[3], shared;
	void *stream, *attributes;
	unsigned int count;
};

extern int cuInit(unsigned int flags);
extern int cuDeviceGetCount(int *ret);
extern int cuDeviceGetAttribute(int *ret, int attribute, int device);
extern int cuDevicePrimaryCtxRetain(void **ret, int device);
extern int cuCtxSynchronize(void);
extern int cuGetErrorString(int error, const char **ret);
extern int cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total);
extern int cuMemAlloc_v2(uint64_t *ret, size_t bytes);
extern int cuMemAllocManaged(uint64_t *ret, size_t bytes, unsigned int flags);
extern int cuMemHostAlloc(void **ret, size_t bytes, unsigned int flags);
extern int cuMemFree_v2(uint64_t address);
extern int cuMemFreeHost(void *address);
extern int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, void *stream);
extern int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, void *stream);
extern int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t bytes, void *stream);
extern int cuMemcpy2DAsync_v2(const struct copy_2d *c, void *stream);
extern int cuMemsetD8_v2(uint64_t dst, unsigned char value, size_t n);
extern int cuMemsetD8Async(uint64_t dst, unsigned char value, size_t n, void *stream);
extern int cuModuleGetFunction(void **ret, void *module, const char *name);
extern int cuLaunchKernel(void *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
	unsigned int bz, unsigned int shared, void *stream, void **params, void **extra);
extern int cuLaunchKernelEx(const struct cu_config *c, void *f, void **params, void **extra);
extern int cuLaunchCooperativeKernel(void *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
	unsigned int bz, unsigned int shared, void *stream, void **params);
extern int cuStreamCreate(void **ret, unsigned int flags);
extern int cuStreamDestroy_v2(void *stream);
extern int cuStreamSynchronize(void *stream);
extern int cuStreamWaitEvent(void *stream, void *event, unsigned int flags);
extern int cuStreamBeginCapture_v2(void *stream, int mode);
extern int cuStreamEndCapture(void *stream, void **ret_graph);
extern int cuStreamIsCapturing(void *stream, int *ret);
extern int cuEventCreate(void **ret, unsigned int flags);
extern int cuEventDestroy_v2(void *event);
extern int cuEventRecord(void *event, void *stream);
extern int cuEventSynchronize(void *event);
extern int cuGraphInstantiateWithFlags(void **ret, void *graph, unsigned long long flags);
extern int cuGraphExecUpdate_v2(void *executable, void *graph, void *ret_info);
extern int cuGraphDestroy(void *graph);
extern int cuGraphExecDestroy(void *executable);
extern int cuGraphLaunch(void *executable, void *stream);
extern int cuCtxCreate_v2(void **ret, unsigned int flags, int device);
extern int cuCtxDestroy_v2(void *c);
extern int cuCtxSetCurrent(void *c);
extern int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t bytes);
extern int cuMemsetD32Async(uint64_t dst, unsigned int value, size_t n, void *s);

#endif
