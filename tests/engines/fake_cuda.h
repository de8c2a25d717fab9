/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of CUDA, NCCL, PyTorch and vLLM that the presets probe, as their public headers
 * declare them (cuda.h, cuda_runtime_api.h, crt/host_runtime.h, nccl.h; CUDA 13, NCCL 2.28), so
 * that the compiler and not a preset decides which register an argument is in.
 *
 * A family is a parameter list: P(type, name) for each, S between them. A parameter that a preset
 * shows has the preset's name. The functions of the libraries (fake_cuda.c) and their calls
 * (fake_cuda_driver.c) are generated from these lists.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef void *t_ptr;
typedef uint8_t t_u8;
typedef uint32_t t_u32;
typedef uint64_t t_u64;
typedef int32_t t_s32;
typedef double t_f64;
typedef const char *t_str;
typedef int t_unused; /* for functions without parameters: C has no name for nothing */

typedef enum {
	ncclInt8 = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclFloat32 = 7,
	ncclFloat64 = 8,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
	ncclNumTypes = 12,
} t_dtype;

typedef enum {
	ncclSum = 0,
	ncclProd = 1,
	ncclMax = 2,
	ncclMin = 3,
	ncclAvg = 4,
	ncclNumOps = 5, /* operators that a program creates follow */
} t_redop;

typedef struct {
	char internal[128];
} t_unique;

/* CUlaunchConfig */
struct cu_config {
	unsigned int gridDimX, gridDimY, gridDimZ;
	unsigned int blockDimX, blockDimY, blockDimZ;
	unsigned int sharedMemBytes;
	void *hStream;
	void *attrs;
	unsigned int numAttrs;
};
typedef const struct cu_config *t_cu_config;

/* CUDA_MEMCPY2D_v2 */
struct copy2d {
	size_t srcXInBytes, srcY;
	int srcMemoryType;
	const void *srcHost;
	unsigned long long srcDevice;
	void *srcArray;
	size_t srcPitch;
	size_t dstXInBytes, dstY;
	int dstMemoryType;
	void *dstHost;
	unsigned long long dstDevice;
	void *dstArray;
	size_t dstPitch;
	size_t WidthInBytes, Height;
};
typedef const struct copy2d *t_copy2d;

/* CUDA_MEMCPY3D_v2 */
struct copy3d {
	size_t srcXInBytes, srcY, srcZ, srcLOD;
	int srcMemoryType;
	const void *srcHost;
	unsigned long long srcDevice;
	void *srcArray, *reserved0;
	size_t srcPitch, srcHeight;
	size_t dstXInBytes, dstY, dstZ, dstLOD;
	int dstMemoryType;
	void *dstHost;
	unsigned long long dstDevice;
	void *dstArray, *reserved1;
	size_t dstPitch, dstHeight;
	size_t WidthInBytes, Height, Depth;
};
typedef const struct copy3d *t_copy3d;

/* clang-format off */

/* ---- parameter lists ---- */

#define FAM_none(P, S) P(unused, none)
#define FAM_launch(P, S) \
	P(ptr, function) S P(u32, grid_x) S P(u32, grid_y) S P(u32, grid_z) S P(u32, block_x) S \
	P(u32, block_y) S P(u32, block_z) S P(u32, shared) S P(ptr, stream_handle) S P(ptr, params)
#define FAM_launch_ex(P, S) P(cu_config, config) S P(ptr, function) S P(ptr, params) S P(ptr, extra)
#define FAM_graph(P, S) P(ptr, graph) S P(ptr, stream_handle)
#define FAM_capture(P, S) P(ptr, stream_handle) S P(s32, mode)
#define FAM_capture_end(P, S) P(ptr, stream_handle) S P(ptr, result)
#define FAM_graph_make(P, S) P(ptr, executable) S P(ptr, graph) S P(u64, flags)
#define FAM_copy(P, S) P(ptr, dst) S P(ptr, src) S P(u64, bytes)
#define FAM_copy_async(P, S) P(ptr, dst) S P(ptr, src) S P(u64, bytes) S P(ptr, stream_handle)
#define FAM_peer(P, S) P(ptr, dst) S P(ptr, dst_ctx) S P(ptr, src) S P(ptr, src_ctx) S P(u64, bytes)
#define FAM_peer_async(P, S) \
	P(ptr, dst) S P(ptr, dst_ctx) S P(ptr, src) S P(ptr, src_ctx) S P(u64, bytes) S P(ptr, stream_handle)
#define FAM_copy2d(P, S) P(copy2d, copy)
#define FAM_copy2d_async(P, S) P(copy2d, copy) S P(ptr, stream_handle)
#define FAM_copy3d(P, S) P(copy3d, copy)
#define FAM_copy3d_async(P, S) P(copy3d, copy) S P(ptr, stream_handle)
#define FAM_set(P, S) P(ptr, dst) S P(u8, value) S P(u64, elements)
#define FAM_set_async(P, S) P(ptr, dst) S P(u8, value) S P(u64, elements) S P(ptr, stream_handle)
#define FAM_alloc(P, S) P(ptr, result) S P(u64, bytes)
#define FAM_alloc_flags(P, S) P(ptr, result) S P(u64, bytes) S P(u32, flags)
#define FAM_alloc_pitch(P, S) \
	P(ptr, result) S P(ptr, pitch) S P(u64, width) S P(u64, height) S P(u32, element)
#define FAM_alloc_async(P, S) P(ptr, result) S P(u64, bytes) S P(ptr, stream_handle)
#define FAM_alloc_pool(P, S) P(ptr, result) S P(u64, bytes) S P(ptr, pool) S P(ptr, stream_handle)
#define FAM_create(P, S) P(ptr, result) S P(u64, bytes) S P(ptr, properties) S P(u64, flags)
#define FAM_free(P, S) P(ptr, address)
#define FAM_free_async(P, S) P(ptr, address) S P(ptr, stream_handle)
#define FAM_map(P, S) P(ptr, address) S P(u64, bytes) S P(u64, offset) S P(u64, handle) S P(u64, flags)
#define FAM_unmap(P, S) P(ptr, address) S P(u64, bytes)
#define FAM_load(P, S) P(ptr, module) S P(ptr, image)
#define FAM_name(P, S) P(ptr, result) S P(ptr, module) S P(str, kernel)
#define FAM_wait_stream(P, S) P(ptr, stream_handle)
#define FAM_wait_event(P, S) P(ptr, event)
#define FAM_wait_context(P, S) P(ptr, context)
#define FAM_wait(P, S) P(unused, none)


#define FAM_all_reduce(P, S) \
	P(ptr, send) S P(ptr, recv) S P(u64, count) S P(dtype, type) S P(redop, op) S P(ptr, comm) S P(ptr, stream_handle)
#define FAM_reduce(P, S) \
	P(ptr, send) S P(ptr, recv) S P(u64, count) S P(dtype, type) S P(redop, op) S P(s32, root) S \
	P(ptr, comm) S P(ptr, stream_handle)
#define FAM_gather_all(P, S) \
	P(ptr, send) S P(ptr, recv) S P(u64, count) S P(dtype, type) S P(ptr, comm) S P(ptr, stream_handle)
#define FAM_rooted(P, S) \
	P(ptr, send) S P(ptr, recv) S P(u64, count) S P(dtype, type) S P(s32, root) S P(ptr, comm) S P(ptr, stream_handle)
#define FAM_bcast(P, S) \
	P(ptr, buff) S P(u64, count) S P(dtype, type) S P(s32, root) S P(ptr, comm) S P(ptr, stream_handle)
#define FAM_to_peer(P, S) \
	P(ptr, buff) S P(u64, count) S P(dtype, type) S P(s32, peer) S P(ptr, comm) S P(ptr, stream_handle)
#define FAM_comm_init(P, S) P(ptr, result) S P(s32, ranks) S P(unique, id) S P(s32, rank)
#define FAM_comm_init_config(P, S) \
	P(ptr, result) S P(s32, ranks) S P(unique, id) S P(s32, rank) S P(ptr, config)
#define FAM_comm(P, S) P(ptr, comm)

#define FAM_norm(P, S) P(ptr, out) S P(ptr, input) S P(ptr, weight) S P(f64, epsilon)
#define FAM_tensors(P, S) P(ptr, out) S P(ptr, input)

/*
 * ---- functions ----
 *
 * F(name, family): does nothing. W(name, family): waits for the GPU.
 */

#define WITH(F, name, suffix, family) F(name, family) F(name##suffix, family)

#define FUNCTIONS_cuda(F, W) \
	WITH(F, cuLaunchKernel, _ptsz, launch) \
	WITH(F, cuLaunchCooperativeKernel, _ptsz, launch) \
	WITH(F, cuLaunchKernelEx, _ptsz, launch_ex) \
	WITH(F, cuGraphLaunch, _ptsz, graph) \
	WITH(F, cuStreamBeginCapture_v2, _ptsz, capture) \
	WITH(F, cuStreamEndCapture, _ptsz, capture_end) \
	F(cuGraphInstantiateWithFlags, graph_make) \
	F(cuGraphInstantiateWithParams, graph_make) \
	F(cuGraphExecUpdate_v2, graph_make) \
	WITH(F, cuMemcpyHtoD_v2, _ptds, copy) \
	WITH(F, cuMemcpyDtoH_v2, _ptds, copy) \
	WITH(F, cuMemcpyDtoD_v2, _ptds, copy) \
	WITH(F, cuMemcpy, _ptds, copy) \
	WITH(F, cuMemcpyHtoDAsync_v2, _ptsz, copy_async) \
	WITH(F, cuMemcpyDtoHAsync_v2, _ptsz, copy_async) \
	WITH(F, cuMemcpyDtoDAsync_v2, _ptsz, copy_async) \
	WITH(F, cuMemcpyAsync, _ptsz, copy_async) \
	WITH(F, cuMemcpyPeer, _ptds, peer) \
	WITH(F, cuMemcpyPeerAsync, _ptsz, peer_async) \
	WITH(F, cuMemcpy2D_v2, _ptds, copy2d) \
	WITH(F, cuMemcpy2DUnaligned_v2, _ptds, copy2d) \
	WITH(F, cuMemcpy2DAsync_v2, _ptsz, copy2d_async) \
	WITH(F, cuMemcpy3D_v2, _ptds, copy3d) \
	WITH(F, cuMemcpy3DAsync_v2, _ptsz, copy3d_async) \
	WITH(F, cuMemsetD8_v2, _ptds, set) \
	WITH(F, cuMemsetD16_v2, _ptds, set) \
	WITH(F, cuMemsetD32_v2, _ptds, set) \
	WITH(F, cuMemsetD8Async, _ptsz, set_async) \
	WITH(F, cuMemsetD16Async, _ptsz, set_async) \
	WITH(F, cuMemsetD32Async, _ptsz, set_async) \
	WITH(W, cuStreamSynchronize, _ptsz, wait_stream) \
	W(cuEventSynchronize, wait_event) \
	W(cuCtxSynchronize, wait) \
	W(cuCtxSynchronize_v2, wait_context) \
	F(cuMemAlloc_v2, alloc) \
	F(cuMemAllocManaged, alloc_flags) \
	F(cuMemAllocHost_v2, alloc) \
	F(cuMemHostAlloc, alloc_flags) \
	F(cuMemCreate, create) \
	F(cuMemAllocPitch_v2, alloc_pitch) \
	WITH(F, cuMemAllocAsync, _ptsz, alloc_async) \
	WITH(F, cuMemAllocFromPoolAsync, _ptsz, alloc_pool) \
	F(cuMemFree_v2, free) \
	F(cuMemFreeHost, free) \
	WITH(F, cuMemFreeAsync, _ptsz, free_async) \
	F(cuMemMap, map) \
	F(cuMemUnmap, unmap) \
	F(cuModuleLoadData, load) \
	F(cuModuleLoadDataEx, load) \
	F(cuModuleLoadFatBinary, load) \
	F(cuLibraryLoadData, load) \
	F(cuModuleGetFunction, name) \
	F(cuLibraryGetKernel, name)

#define FUNCTIONS_nccl(F, W) \
	F(ncclAllReduce, all_reduce) \
	F(ncclReduceScatter, all_reduce) \
	F(ncclReduce, reduce) \
	F(ncclAllGather, gather_all) \
	F(ncclAlltoAll, gather_all) \
	F(ncclBroadcast, rooted) \
	F(ncclGather, rooted) \
	F(ncclScatter, rooted) \
	F(ncclBcast, bcast) \
	F(ncclSend, to_peer) \
	F(ncclRecv, to_peer) \
	F(ncclGroupStart, none) \
	F(ncclGroupEnd, none) \
	F(ncclCommInitRank, comm_init) \
	F(ncclCommInitRankConfig, comm_init_config) \
	F(ncclCommFinalize, comm) \
	F(ncclCommDestroy, comm) \
	F(ncclCommAbort, comm)

/* Two that the preset knows, of both kinds of tensor, and two that it must leave alone: a template,
 * whose name is elsewhere, and one that only begins like a known name. */
#define FUNCTIONS_vllm(F, W) \
	F(_Z8rms_normRN2at6TensorES1_S1_d, norm) \
	F(_Z12silu_and_mulRN5torch6stable6TensorES2_, tensors) \
	F(_ZN4vllm8rms_normIfEEvPT_S2_S2_d, norm) \
	F(_Z15rms_norm_helperRN2at6TensorES1_, tensors)

/* clang-format on */

#define COMMA ,
#define CAT(a, b) CAT_(a, b)
#define CAT_(a, b) a##b

#endif
