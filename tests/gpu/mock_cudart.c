// SPDX-License-Identifier: BSD-2-Clause
/*
 * libcudart.so.13 of a GPU that does not exist (mock.h): what llama.cpp's CUDA build calls of it. As the real one it
 * initialises CUDA with the first call that needs it, and calls libcuda for all that is launched, copied or waited for.
 */
#define _GNU_SOURCE
#include "mock_cuda_api.h"

#include <pthread.h>
#include <string.h>

typedef int cudaError_t;
#define EXPORT __attribute__((visibility("default")))
#define API EXPORT __attribute__((noinline)) cudaError_t

#define OUT_OF_MEMORY 2
#define UNKNOWN_FUNCTION 98
#define KERNELS_MAX (1u << 16) /* a power of two */

enum { HOST_TO_HOST,
	HOST_TO_DEVICE,
	DEVICE_TO_HOST,
	DEVICE_TO_DEVICE };
enum { ATTRIBUTE_ARCH_MAJOR = 75,
	ATTRIBUTE_ARCH_MINOR = 76 };

struct dim3 {
	unsigned int x, y, z;
};

/* cudaLaunchConfig_t */
struct config {
	struct dim3 grid, block;
	size_t shared;
	void *stream, *attributes;
	unsigned int count;
};

/* cudaDeviceProp of CUDA 13 up to the last member that is read, at its documented offsets */
struct properties {
	char name[256];
	char uuid[16], luid[8];
	unsigned int luid_mask;
	size_t total, shared_per_block;
	int registers_per_block, warp_size;
	size_t pitch;
	int threads_per_block, threads[3], grid[3];
	size_t constant;
	int major, minor;
	size_t texture[2];
	int processors;
	int other[71];
	size_t shared_per_block_optin;
};

_Static_assert(offsetof(struct properties, total) == 288 && offsetof(struct properties, warp_size) == 308, "properties");
_Static_assert(offsetof(struct properties, major) == 360 && offsetof(struct properties, processors) == 384, "properties");
_Static_assert(offsetof(struct properties, shared_per_block_optin) == 672, "properties");

/* cudaFuncAttributes, the beginning */
struct attributes {
	size_t shared, constant, local;
	int threads_per_block, registers, ptx, binary, cache_mode, shared_dynamic;
};

static pthread_once_t started = PTHREAD_ONCE_INIT;
static __thread cudaError_t last_error;

static void start(void)
{
	void *context;

	cuInit(0);
	cuDevicePrimaryCtxRetain(&context, 0);
}

/* Every function that needs the GPU begins with it. */
static void begin(void)
{
	pthread_once(&started, start);
}

static cudaError_t end(int error)
{
	if (error)
		last_error = error;
	return error;
}

/* A function that is one of libcuda. */
#define SAME(name, params, to, args) \
	API name params              \
	{                            \
		begin();             \
		return end(to args); \
	}

/* ---- kernels: registered by constructors, found by the address of their stub on the CPU ---- */

static struct kernel {
	const void *stub;
	char *name;
	void *function;
} kernels[KERNELS_MAX];

static struct kernel *kernel_of(const void *stub)
{
	size_t i = (uintptr_t)stub / 16 % KERNELS_MAX;

	while (kernels[i].stub && kernels[i].stub != stub)
		i = (i + 1) % KERNELS_MAX;
	return &kernels[i];
}

static void *function_of(const void *stub)
{
	struct kernel *k = kernel_of(stub);

	begin();
	if (k->name && !k->function)
		cuModuleGetFunction(&k->function, NULL, k->name);
	return k->function;
}

EXPORT void **__cudaRegisterFatBinary(void *binary)
{
	static void *handle[1];

	return handle;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
}

EXPORT void __cudaUnregisterFatBinary(void **handle)
{
}

EXPORT void __cudaRegisterFunction(void **handle, const void *stub, char *function, const char *name, int threads, void *tid,
	void *bid, struct dim3 *block, struct dim3 *grid, int *warp)
{
	struct kernel *k = kernel_of(stub);

	k->stub = stub;
	k->name = strdup(name);
}

EXPORT void __cudaRegisterVar(
	void **handle, char *host, char *device, const char *name, int external, size_t size, int constant, int global)
{
}

/* ---- launches ---- */

static __thread struct config pushed;

EXPORT unsigned int __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void *stream)
{
	pushed = (struct config){ .grid = grid, .block = block, .shared = shared, .stream = stream };
	return 0;
}

API __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void **stream)
{
	*grid = pushed.grid;
	*block = pushed.block;
	*shared = pushed.shared;
	*stream = pushed.stream;
	return 0;
}

API __cudaGetKernel(void **ret, const void *stub)
{
	*ret = function_of(stub);
	return *ret ? 0 : end(UNKNOWN_FUNCTION);
}

API __cudaLaunchKernel(void *kernel, struct dim3 grid, struct dim3 block, void **params, size_t shared, void *stream)
{
	begin();
	return end(cuLaunchKernel(
		kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned int)shared, stream, params, NULL));
}

API cudaLaunchKernelExC(const struct config *c, const void *stub, void **params)
{
	struct cu_config to = { .shared = (unsigned int)c->shared, .stream = c->stream, .attributes = c->attributes, .count = c->count };
	void *f = function_of(stub);

	if (!f)
		return end(UNKNOWN_FUNCTION);
	memcpy(to.grid, &c->grid, sizeof(to.grid));
	memcpy(to.block, &c->block, sizeof(to.block));
	return end(cuLaunchKernelEx(&to, f, params, NULL));
}

API cudaLaunchCooperativeKernel(
	const void *stub, struct dim3 grid, struct dim3 block, void **params, size_t shared, void *stream)
{
	void *f = function_of(stub);

	if (!f)
		return end(UNKNOWN_FUNCTION);
	return end(cuLaunchCooperativeKernel(
		f, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned int)shared, stream, params));
}

/* ---- what kernels and the device are like ---- */

API cudaFuncGetAttributes(struct attributes *ret, const void *stub)
{
	int major, minor;

	mock_cuda_arch(&major, &minor);
	*ret = (struct attributes){
		.threads_per_block = 1024, .registers = 64, .ptx = 10 * major + minor, .binary = 10 * major + minor, .shared_dynamic = 48 << 10
	};
	return 0;
}

STUB(cudaFuncSetAttribute, (const void *stub, int attribute, int value))

API cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *ret, const void *stub, int threads, size_t shared, unsigned int flags)
{
	*ret = threads > 0 && threads <= 1024 ? 2048 / threads : 1;
	return 0;
}

SAME(cudaGetDeviceCount, (int *ret), cuDeviceGetCount, (ret))

API cudaGetDevice(int *ret)
{
	*ret = 0;
	return 0;
}

API cudaSetDevice(int device)
{
	begin();
	return device ? end(101) : 0;
}

STUB(cudaSetDeviceFlags, (unsigned int flags))

API cudaGetDeviceProperties(struct properties *ret, int device)
{
	size_t unused;

	begin();
	memset(ret, 0, sizeof(*ret));
	strcpy(ret->name, "A GPU that does not exist");
	cuMemGetInfo_v2(&unused, &ret->total);
	ret->shared_per_block = 48 << 10;
	ret->registers_per_block = 64 << 10;
	ret->warp_size = 32;
	ret->threads_per_block = 1024;
	ret->constant = 64 << 10;
	cuDeviceGetAttribute(&ret->major, ATTRIBUTE_ARCH_MAJOR, device);
	cuDeviceGetAttribute(&ret->minor, ATTRIBUTE_ARCH_MINOR, device);
	ret->processors = 132;
	ret->shared_per_block_optin = 227 << 10;
	return 0;
}

SAME(cudaDeviceGetAttribute, (int *ret, int attribute, int device), cuDeviceGetAttribute, (ret, attribute, device))

API cudaDeviceGetPCIBusId(char *ret, int length, int device)
{
	strncpy(ret, "0000:01:00.0", (size_t)length);
	return 0;
}

API cudaDeviceCanAccessPeer(int *ret, int device, int peer)
{
	*ret = 0;
	return 0;
}

STUB(cudaDeviceEnablePeerAccess, (int peer, unsigned int flags))
SAME(cudaDeviceSynchronize, (void), cuCtxSynchronize, ())

EXPORT const char *cudaGetErrorString(cudaError_t error)
{
	const char *text;

	cuGetErrorString(error, &text);
	return text;
}

API cudaGetLastError(void)
{
	cudaError_t error = last_error;

	last_error = 0;
	return error;
}

API cudaPeekAtLastError(void)
{
	return last_error;
}

/* ---- memory ---- */

SAME(cudaMemGetInfo, (size_t *ret_free, size_t *ret_total), cuMemGetInfo_v2, (ret_free, ret_total))
SAME(cudaMalloc, (void **ret, size_t bytes), cuMemAlloc_v2, ((uint64_t *)ret, bytes))
SAME(cudaMallocManaged, (void **ret, size_t bytes, unsigned int flags), cuMemAllocManaged, ((uint64_t *)ret, bytes, flags))
SAME(cudaMallocHost, (void **ret, size_t bytes), cuMemHostAlloc, (ret, bytes, 0))
SAME(cudaHostAlloc, (void **ret, size_t bytes, unsigned int flags), cuMemHostAlloc, (ret, bytes, flags))

API cudaHostGetDevicePointer(void **ret, void *host, unsigned int flags)
{
	*ret = host;
	return 0;
}

STUB(cudaHostRegister, (void *host, size_t bytes, unsigned int flags))
STUB(cudaHostUnregister, (void *host))

API cudaFree(void *address)
{
	return end(cuMemFree_v2((uint64_t)address));
}

API cudaFreeHost(void *address)
{
	return end(cuMemFreeHost(address));
}

API cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream)
{
	begin();
	if (kind == HOST_TO_DEVICE)
		return end(cuMemcpyHtoDAsync_v2((uint64_t)dst, src, bytes, stream));
	if (kind == DEVICE_TO_HOST)
		return end(cuMemcpyDtoHAsync_v2(dst, (uint64_t)src, bytes, stream));
	return end(cuMemcpyDtoDAsync_v2((uint64_t)dst, (uint64_t)src, bytes, stream));
}

API cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height, int kind,
	void *stream)
{
	struct copy_2d c = {
		.src_type = kind == HOST_TO_HOST || kind == HOST_TO_DEVICE ? 1 : 2,
		.src_host = src,
		.src_device = (uint64_t)src,
		.src_pitch = src_pitch,
		.dst_type = kind == HOST_TO_HOST || kind == DEVICE_TO_HOST ? 1 : 2,
		.dst_host = dst,
		.dst_device = (uint64_t)dst,
		.dst_pitch = dst_pitch,
		.width = width,
		.height = height,
	};

	begin();
	return end(cuMemcpy2DAsync_v2(&c, stream));
}

SAME(cudaMemcpyPeerAsync, (void *dst, int dst_device, const void *src, int src_device, size_t bytes, void *stream), cuMemcpyDtoDAsync_v2, ((uint64_t)dst, (uint64_t)src, bytes, stream))
SAME(cudaMemset, (void *dst, int value, size_t bytes), cuMemsetD8_v2, ((uint64_t)dst, (unsigned char)value, bytes))
SAME(cudaMemsetAsync, (void *dst, int value, size_t bytes, void *stream), cuMemsetD8Async, ((uint64_t)dst, (unsigned char)value, bytes, stream))

/* ---- streams, events, graphs: as they are ---- */

SAME(cudaStreamCreateWithFlags, (void **ret, unsigned int flags), cuStreamCreate, (ret, flags))
SAME(cudaStreamDestroy, (void *stream), cuStreamDestroy_v2, (stream))
SAME(cudaStreamSynchronize, (void *stream), cuStreamSynchronize, (stream))
SAME(cudaStreamWaitEvent, (void *stream, void *event, unsigned int flags), cuStreamWaitEvent, (stream, event, flags))
SAME(cudaStreamBeginCapture, (void *stream, int mode), cuStreamBeginCapture_v2, (stream, mode))
SAME(cudaStreamEndCapture, (void *stream, void **ret_graph), cuStreamEndCapture, (stream, ret_graph))
SAME(cudaStreamIsCapturing, (void *stream, int *ret), cuStreamIsCapturing, (stream, ret))
SAME(cudaEventCreateWithFlags, (void **ret, unsigned int flags), cuEventCreate, (ret, flags))
SAME(cudaEventDestroy, (void *event), cuEventDestroy_v2, (event))
SAME(cudaEventRecord, (void *event, void *stream), cuEventRecord, (event, stream))
SAME(cudaEventSynchronize, (void *event), cuEventSynchronize, (event))
SAME(cudaGraphInstantiate, (void **ret, void *graph, unsigned long long flags), cuGraphInstantiateWithFlags, (ret, graph, flags))
SAME(cudaGraphExecUpdate, (void *executable, void *graph, void *ret_info), cuGraphExecUpdate_v2, (executable, graph, ret_info))
SAME(cudaGraphDestroy, (void *graph), cuGraphDestroy, (graph))
SAME(cudaGraphExecDestroy, (void *executable), cuGraphExecDestroy, (executable))
SAME(cudaGraphLaunch, (void *executable, void *stream), cuGraphLaunch, (executable, stream))
