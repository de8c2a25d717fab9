// SPDX-License-Identifier: BSD-2-Clause
/*
 * libcublas.so.13 of a GPU that does not exist (mock.h): what llama.cpp's CUDA build calls of it. Each product is a
 * kernel, launched through libcuda, that computes nothing.
 */
#include "mock_cuda_api.h"

typedef int cublasStatus_t;
#define EXPORT __attribute__((visibility("default")))
#define API EXPORT __attribute__((noinline)) cublasStatus_t

#define NOT_INITIALIZED 1

struct handle {
	void *stream;
};

static cublasStatus_t launch(struct handle *h, int m, int n, int batches)
{
	static void *function;

	if (!function && cuModuleGetFunction(&function, NULL, "mock_gemm_64x64_tn"))
		return NOT_INITIALIZED;
	return cuLaunchKernel(function, (unsigned int)(m + 63) / 64, (unsigned int)(n + 63) / 64, (unsigned int)batches, 128, 1, 1,
		       16384, h->stream, NULL, NULL)
		       ? 13
		       : 0;
}

API cublasCreate_v2(struct handle **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : 3;
}

API cublasDestroy_v2(struct handle *h)
{
	free(h);
	return 0;
}

API cublasSetStream_v2(struct handle *h, void *stream)
{
	h->stream = stream;
	return 0;
}

STUB(cublasSetMathMode, (struct handle *h, int mode))
STUB(cublasSetWorkspace_v2, (struct handle *h, void *space, size_t bytes))

EXPORT const char *cublasGetStatusString(cublasStatus_t status)
{
	return status ? "an error of the GPU that does not exist" : "success";
}

/* The first parameters are the same for all; of those that follow only the number of batches is of interest. */
#define FIRST struct handle *h, int op_a, int op_b, int m, int n, int k

API cublasSgemm_v2(FIRST)
{
	return launch(h, m, n, 1);
}

API cublasGemmEx(FIRST)
{
	return launch(h, m, n, 1);
}

API cublasGemmStridedBatchedEx(FIRST, const void *alpha, const void *a, int ta, int lda, long long sa, const void *b, int tb,
	int ldb, long long sb, const void *beta, void *c, int tc, int ldc, long long sc, int batches)
{
	return launch(h, m, n, batches);
}

API cublasSgemmStridedBatched(FIRST, const float *alpha, const float *a, int lda, long long sa, const float *b, int ldb,
	long long sb, const float *beta, float *c, int ldc, long long sc, int batches)
{
	return launch(h, m, n, batches);
}

API cublasGemmBatchedEx(FIRST, const void *alpha, const void *const *a, int ta, int lda, const void *const *b, int tb, int ldb,
	const void *beta, void *const *c, int tc, int ldc, int batches)
{
	return launch(h, m, n, batches);
}

API cublasSgemmBatched(FIRST, const float *alpha, const float *const *a, int lda, const float *const *b, int ldb,
	const float *beta, float *const *c, int ldc, int batches)
{
	return launch(h, m, n, batches);
}

API cublasStrsmBatched(struct handle *h, int side, int fill, int op, int diag, int m, int n)
{
	return launch(h, m, n, 1);
}
