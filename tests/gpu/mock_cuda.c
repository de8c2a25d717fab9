// SPDX-License-Identifier: BSD-2-Clause
/* libcuda.so.1 of a GPU that does not exist: see mock.h. */
#define _GNU_SOURCE
#include "mock.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STREAMS_MAX 64

/* clang-format off */
typedef int CUresult;
struct function { char *name; };
struct stream { uint32_t id, context; uint64_t busy_until; };
struct context { uint32_t id; };
struct graph { uint32_t id, count; struct function *nodes[64]; uint64_t ns; };
struct config { unsigned int grid[3], block[3], shared; struct stream *stream; void *attrs; unsigned int num; };
/* clang-format on */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t started = PTHREAD_ONCE_INIT;
static struct stream streams[STREAMS_MAX];
static uint32_t stream_count = 1, context_count, graph_count, correlation;
static struct context *current;
static uint64_t kernel_ns = 5000, launch_ns, began;
static int64_t clock_offset;
static double clock_drift;
static FILE *truth;
static mock_sink_fn *sink;

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 10) : otherwise;
}

uint64_t mock_cuda_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t mock_cuda_clock(uint64_t boot_ns)
{
	return boot_ns + (uint64_t)clock_offset + (uint64_t)(int64_t)((double)(int64_t)(boot_ns - began) * clock_drift);
}

void mock_cuda_listen(mock_sink_fn *to)
{
	pthread_mutex_lock(&lock);
	sink = to;
	pthread_mutex_unlock(&lock);
}

static void start(void)
{
	const char *injected = getenv("CUDA_INJECTION64_PATH"), *file = getenv("MOCK_TRUTH");
	int (*initialize)(void);
	void *library;

	began = mock_cuda_now();
	launch_ns = number_of("MOCK_LAUNCH_NS", 2000);
	clock_offset = (int64_t)number_of("MOCK_CLOCK_OFFSET_NS", 0);
	clock_drift = getenv("MOCK_CLOCK_DRIFT_PPM") ? strtod(getenv("MOCK_CLOCK_DRIFT_PPM"), NULL) / 1e6 : 0;
	truth = file ? fopen(file, "we") : NULL;
	library = injected ? dlopen(injected, RTLD_NOW | RTLD_LOCAL) : NULL;
	initialize = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
	if (initialize)
		initialize();
}

/* How long kernels take from now on. For the driver program, like what follows. */
void mock_cuda_kernel_ns(uint64_t ns);
void mock_cuda_kernel_ns(uint64_t ns)
{
	kernel_ns = ns;
}

void mock_cuda_flush(void);
void mock_cuda_flush(void)
{
	if (truth)
		fflush(truth);
}

/* The same place for another text, as after a module is unloaded and another one is loaded. */
void mock_cuda_rename(struct function *f, const char *name);
void mock_cuda_rename(struct function *f, const char *name)
{
	strncpy(f->name, name, strlen(f->name));
}

static struct stream *stream_of(void *handle)
{
	return handle ? handle : &streams[0];
}

/* Decides when it runs: after what was launched to the stream before it. */
static void run(struct mock_work *w, struct stream *s, uint64_t ns)
{
	uint64_t now;

	pthread_mutex_lock(&lock);
	now = mock_cuda_now() + launch_ns;
	if (w->kind == MOCK_GRAPH) {
		w->end = s->busy_until; /* it has its start already */
	} else {
		w->start = now > s->busy_until ? now : s->busy_until;
		w->end = w->start + ns;
		__atomic_store_n(&s->busy_until, w->end, __ATOMIC_RELAXED);
	}
	w->context = current ? current->id : 0;
	w->stream = s->id;
	if (!w->correlation)
		w->correlation = ++correlation;
	if (sink)
		sink(w);
	if (truth) {
		struct mock_work said = *w;

		said.name = w->name ? (const char *)(uintptr_t)mock_hash(w->name, strnlen(w->name, MOCK_NAME_MAX)) : NULL;
		fwrite(&said, sizeof(said), 1, truth);
	}
	pthread_mutex_unlock(&lock);
}

static CUresult wait_until(uint64_t boot_ns)
{
	struct timespec ts = { .tv_sec = (time_t)(boot_ns / 1000000000u), .tv_nsec = (long)(boot_ns % 1000000000u) };

	while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
	return 0;
}

/* clang-format off */
#define API __attribute__((noinline)) CUresult
API cuInit(unsigned int flags);
API cuDeviceGet(int *ret, int ordinal);
API cuDeviceGetCount(int *ret);
API cuCtxCreate_v2(struct context **ret, unsigned int flags, int device);
API cuCtxDestroy_v2(struct context *c);
API cuCtxSynchronize(void);
API cuStreamCreate(struct stream **ret, unsigned int flags);
API cuStreamDestroy_v2(struct stream *s);
API cuStreamSynchronize(struct stream *s);
API cuModuleGetFunction(struct function **ret, void *module, const char *name);
API cuLaunchKernel(struct function *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
	unsigned int bz, unsigned int shared, struct stream *s, void **params, void **extra);
API cuLaunchKernelEx(const struct config *c, struct function *f, void **params, void **extra);
API cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t bytes);
API cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t bytes);
API cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, struct stream *s);
API cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, struct stream *s);
API cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t bytes, struct stream *s);
API cuMemsetD8Async(uint64_t dst, unsigned char value, size_t n, struct stream *s);
API cuMemsetD32Async(uint64_t dst, unsigned int value, size_t n, struct stream *s);
API cuGraphInstantiateWithFlags(struct graph **ret, void *graph, unsigned long long flags);
API cuGraphLaunch(struct graph *g, struct stream *s);
/* clang-format on */

API cuInit(unsigned int flags)
{
	(void)flags;
	pthread_once(&started, start);
	return 0;
}

API cuDeviceGet(int *ret, int ordinal)
{
	*ret = ordinal;
	return 0;
}

API cuDeviceGetCount(int *ret)
{
	*ret = 1;
	return 0;
}

API cuCtxCreate_v2(struct context **ret, unsigned int flags, int device)
{
	struct context *c = calloc(1, sizeof(*c));

	(void)flags, (void)device;
	if (!c)
		return 2;
	c->id = ++context_count;
	current = c;
	*ret = c;
	return 0;
}

API cuCtxDestroy_v2(struct context *c)
{
	cuCtxSynchronize();
	if (current == c)
		current = NULL;
	free(c);
	return 0;
}

API cuCtxSynchronize(void)
{
	uint64_t last = 0;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < stream_count; i++)
		last = streams[i].busy_until > last ? streams[i].busy_until : last;
	pthread_mutex_unlock(&lock);
	return wait_until(last);
}

API cuStreamCreate(struct stream **ret, unsigned int flags)
{
	(void)flags;
	pthread_mutex_lock(&lock);
	*ret = stream_count < STREAMS_MAX ? &streams[stream_count] : NULL;
	if (*ret)
		(*ret)->id = stream_count++;
	pthread_mutex_unlock(&lock);
	return *ret ? 0 : 2;
}

API cuStreamDestroy_v2(struct stream *s)
{
	(void)s;
	return 0;
}

API cuStreamSynchronize(struct stream *s)
{
	return wait_until(__atomic_load_n(&stream_of(s)->busy_until, __ATOMIC_RELAXED));
}

API cuModuleGetFunction(struct function **ret, void *module, const char *name)
{
	struct function *f = calloc(1, sizeof(*f));

	(void)module;
	if (f)
		f->name = strdup(name);
	*ret = f;
	return f && f->name ? 0 : 2;
}

API cuLaunchKernel(struct function *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
	unsigned int bz, unsigned int shared, struct stream *s, void **params, void **extra)
{
	struct mock_work w = { .kind = MOCK_KERNEL, .grid = { gx, gy, gz }, .block = { bx, by, bz }, .shared = shared, .name = f->name };

	(void)params, (void)extra;
	run(&w, stream_of(s), kernel_ns);
	return 0;
}

API cuLaunchKernelEx(const struct config *c, struct function *f, void **params, void **extra)
{
	struct mock_work w = { .kind = MOCK_KERNEL, .shared = c->shared, .name = f->name };

	(void)params, (void)extra;
	memcpy(w.grid, c->grid, sizeof(w.grid));
	memcpy(w.block, c->block, sizeof(w.block));
	run(&w, stream_of(c->stream), kernel_ns);
	return 0;
}

static CUresult copy(uint32_t kind, size_t bytes, struct stream *s, int wait)
{
	struct mock_work w = { .kind = MOCK_COPY, .bytes = bytes, .copy_kind = kind };

	run(&w, stream_of(s), 1000 + bytes / 16); /* 16 GB/s */
	return wait ? cuStreamSynchronize(s) : 0;
}

API cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t bytes)
{
	(void)dst, (void)src;
	return copy(1, bytes, NULL, 1);
}

API cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t bytes)
{
	(void)dst, (void)src;
	return copy(2, bytes, NULL, 1);
}

API cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, struct stream *s)
{
	(void)dst, (void)src;
	return copy(1, bytes, s, 0);
}

API cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, struct stream *s)
{
	(void)dst, (void)src;
	return copy(2, bytes, s, 0);
}

API cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t bytes, struct stream *s)
{
	(void)dst, (void)src;
	return copy(8, bytes, s, 0);
}

static CUresult set(unsigned int value, size_t bytes, struct stream *s)
{
	struct mock_work w = { .kind = MOCK_SET, .bytes = bytes, .copy_kind = value };

	run(&w, stream_of(s), 1000 + bytes / 64);
	return 0;
}

API cuMemsetD8Async(uint64_t dst, unsigned char value, size_t n, struct stream *s)
{
	(void)dst;
	return set(value, n, s);
}

API cuMemsetD32Async(uint64_t dst, unsigned int value, size_t n, struct stream *s)
{
	(void)dst;
	return set(value, 4 * n, s);
}

/* graph: an array of functions, with NULL at its end, in place of a graph that was captured */
API cuGraphInstantiateWithFlags(struct graph **ret, void *graph, unsigned long long flags)
{
	struct graph *g = calloc(1, sizeof(*g));
	struct function **from = graph;

	(void)flags;
	if (!g)
		return 2;
	g->id = ++graph_count;
	while (g->count < 64 && from[g->count]) {
		g->nodes[g->count] = from[g->count];
		g->count++;
	}
	*ret = g;
	return 0;
}

API cuGraphLaunch(struct graph *g, struct stream *s)
{
	struct mock_work w = { .kind = MOCK_KERNEL, .grid = { 1, 1, 1 }, .block = { 32, 1, 1 }, .graph = g->id };
	struct mock_work whole = { .kind = MOCK_GRAPH, .graph = g->id };
	uint64_t first = 0;

	for (uint32_t i = 0; i < g->count; i++) {
		w.name = g->nodes[i]->name;
		w.graph_node = (uint64_t)g->id << 32 | (i + 1);
		run(&w, stream_of(s), kernel_ns);
		first = first ? first : w.start;
	}
	/* as a whole: from the start of its first node to the end of its last, which it does not extend */
	whole.correlation = w.correlation;
	whole.start = first;
	run(&whole, stream_of(s), 0);
	return 0;
}
