// SPDX-License-Identifier: BSD-2-Clause
/*
 * A library that exports the functions of fake_cuda.h and does nothing but record what it was
 * called with: a JSON line for each call, in the order of the calls of a thread, in the file
 * FAKE_CUDA_LOG. The functions that wait for the GPU sleep or spin, and record for how long.
 *
 * FAKE_LIB is cuda, nccl or vllm.
 */
#include "../program.h"

#include "fake_cuda.h"

#include <inttypes.h>

#define WAIT_MAX_NS 300000

struct line {
	char text[2048];
	size_t len;
};

static void __attribute__((format(printf, 2, 3))) add(struct line *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	l->len += (size_t)vsnprintf(l->text + l->len, sizeof(l->text) - l->len, fmt, ap);
	va_end(ap);
	if (l->len >= sizeof(l->text))
		abort();
}

/* One write for each line, so that those of different threads and libraries do not mix. */
static void put(const struct line *l)
{
	static int fd = -1;

	if (fd < 0) {
		int new = open(getenv("FAKE_CUDA_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644), none = -1;

		if (!__atomic_compare_exchange_n(&fd, &none, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			close(new);
	}
	if (write(fd, l->text, l->len) != (ssize_t)l->len)
		abort();
}

/* ---- the recorded form of a parameter ---- */

static inline void log_ptr(struct line *l, const char *name, t_ptr v)
{
	add(l, ",\"%s\":\"0x%" PRIxPTR "\"", name, (uintptr_t)v);
}

static inline void log_u64(struct line *l, const char *name, t_u64 v)
{
	add(l, ",\"%s\":%" PRIu64, name, v);
}

static inline void log_u32(struct line *l, const char *name, t_u32 v)
{
	log_u64(l, name, v);
}

static inline void log_s32(struct line *l, const char *name, t_s32 v)
{
	add(l, ",\"%s\":%" PRId32, name, v);
}

static inline void log_str(struct line *l, const char *name, t_str v)
{
	add(l, ",\"%s\":\"%s\"", name, v);
}

static inline void log_u8(struct line *l, const char *name, t_u8 v)
{
	log_u64(l, name, v);
}

static inline void log_f64(struct line *l, const char *name, t_f64 v)
{
	add(l, ",\"%s\":%g", name, v);
}

static inline void log_dtype(struct line *l, const char *name, t_dtype v)
{
	static const char *const names[ncclNumTypes] = {
		[ncclInt8] = "int8",
		[ncclUint8] = "uint8",
		[ncclInt32] = "int32",
		[ncclUint32] = "uint32",
		[ncclInt64] = "int64",
		[ncclUint64] = "uint64",
		[ncclFloat16] = "float16",
		[ncclFloat32] = "float32",
		[ncclFloat64] = "float64",
		[ncclBfloat16] = "bfloat16",
		[ncclFloat8e4m3] = "float8e4m3",
		[ncclFloat8e5m2] = "float8e5m2",
	};

	if (v < ncclNumTypes)
		log_str(l, name, names[v]);
	else
		log_u32(l, name, v);
}

static inline void log_redop(struct line *l, const char *name, t_redop v)
{
	static const char *const names[ncclNumOps] = {
		[ncclSum] = "sum",
		[ncclProd] = "prod",
		[ncclMax] = "max",
		[ncclMin] = "min",
		[ncclAvg] = "avg",
	};

	if (v < ncclNumOps)
		log_str(l, name, names[v]);
	else
		log_u32(l, name, v);
}

static inline void log_unique(struct line *l, const char *name, t_unique v)
{
	uintptr_t first; /* of which the preset has as much as a number */

	memcpy(&first, v.internal, sizeof(first));
	log_ptr(l, name, (t_ptr)first);
}

static inline void log_unused(struct line *l, const char *name, t_unused v)
{
	(void)l, (void)name, (void)v;
}

static inline void log_three(struct line *l, const char *name, t_u32 x, t_u32 y, t_u32 z)
{
	add(l, ",\"%s_x\":%u,\"%s_y\":%u,\"%s_z\":%u", name, x, name, y, name, z);
}

static inline void log_cu_config(struct line *l, const char *name, t_cu_config c)
{
	(void)name;
	log_three(l, "grid", c->gridDimX, c->gridDimY, c->gridDimZ);
	log_three(l, "block", c->blockDimX, c->blockDimY, c->blockDimZ);
	log_u32(l, "shared", c->sharedMemBytes);
	log_ptr(l, "stream_handle", c->hStream);
}

static inline void log_copy2d(struct line *l, const char *name, t_copy2d c)
{
	(void)name;
	log_u64(l, "width", c->WidthInBytes);
	log_u64(l, "height", c->Height);
}

static inline void log_copy3d(struct line *l, const char *name, t_copy3d c)
{
	(void)name;
	log_u64(l, "width", c->WidthInBytes);
	log_u64(l, "height", c->Height);
	log_u64(l, "depth", c->Depth);
}

/* ---- the functions ---- */

/* Some waits sleep, as with cudaDeviceScheduleBlockingSync; the others spin. */
static inline void gpu_wait(const char *function)
{
	uint64_t start = clock_ns(CLOCK_BOOTTIME), ns = start * 2654435761 % WAIT_MAX_NS, end;
	struct line l = {};

	if (ns & 1) {
		sleep_for(ns);
	} else {
		while (clock_ns(CLOCK_BOOTTIME) < start + ns)
			;
	}
	end = clock_ns(CLOCK_BOOTTIME);
	add(&l, "{\"tid\":%d,\"wait\":\"%s\",\"start\":%" PRIu64 ",\"end\":%" PRIu64 "}\n",
		gettid(), function, start, end);
	put(&l);
}

/* clang-format off */
#define PARAM(type, name) t_##type name
#define DECLARE(name, family) int name(FAM_##family(PARAM, COMMA));
FUNCTIONS_cuda(DECLARE, DECLARE)
FUNCTIONS_nccl(DECLARE, DECLARE)
FUNCTIONS_vllm(DECLARE, DECLARE)

#define LOG(type, name) log_##type(&l, #name, name)
#define DEFINE(function, family, then) \
	int function(FAM_##family(PARAM, COMMA)) \
	{ \
		struct line l = {}; \
\
		add(&l, "{\"tid\":%d,\"name\":\"" #function "\",\"args\":{\"\":0", gettid()); \
		FAM_##family(LOG, ;); \
		add(&l, "}}\n"); \
		put(&l); \
		then; \
		return 0; \
	}
#define DEFINE_F(function, family) DEFINE(function, family, (void)0)
#define DEFINE_W(function, family) DEFINE(function, family, gpu_wait(#function))
CAT(FUNCTIONS_, FAKE_LIB)(DEFINE_F, DEFINE_W)
