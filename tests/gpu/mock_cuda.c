// SPDX-License-Identifier: BSD-2-Clause
/* libcuda.so.1 of a GPU that does not exist: see mock.h. */
#define _GNU_SOURCE
#include "mock_cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define STREAMS_MAX 1024
#define STEPS_MAX 16

/* clang-format off */
struct context { uint32_t id, device; };
struct config { unsigned int grid[3], block[3], shared; struct stream *stream; void *attrs; unsigned int num; };
/* clang-format on */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t started = PTHREAD_ONCE_INIT;
static struct stream streams[STREAMS_MAX];
static uint32_t stream_count = 1, context_count, correlation;
static struct context *current, *primary;
static __thread struct stream *own_stream; /* of the thread */
static uint64_t kernel_ns, launch_ns, began;
static bool ready; /* cuInit() has been called */
static int64_t clock_offset;
static double clock_drift;
static struct {
	uint64_t at, by;
} clock_steps[STEPS_MAX];
static mock_sink_fn *sink;

bool mock_cuda_ready(void)
{
	return ready;
}

uint64_t mock_cuda_now(void)
{
	return mock_boot_ns();
}

uint64_t mock_cuda_clock(uint64_t boot_ns)
{
	uint64_t steps = 0;

	for (int i = 0; i < STEPS_MAX; i++) {
		uint64_t at = __atomic_load_n(&clock_steps[i].at, __ATOMIC_ACQUIRE);

		steps += at && boot_ns >= at ? clock_steps[i].by : 0;
	}
	return boot_ns + steps + (uint64_t)clock_offset + (uint64_t)(int64_t)((double)(int64_t)(boot_ns - began) * clock_drift);
}

void mock_cuda_listen(mock_sink_fn *to)
{
	pthread_mutex_lock(&lock);
	sink = to;
	pthread_mutex_unlock(&lock);
}

static void start(void)
{
	const char *injected = getenv("CUDA_INJECTION64_PATH");
	int (*initialize)(void);
	void *library;

	began = mock_cuda_now();
	launch_ns = mock_number_of("MOCK_LAUNCH_NS", 2000);
	kernel_ns = mock_number_of("MOCK_KERNEL_NS", 5000);
	clock_offset = (int64_t)mock_number_of("MOCK_CLOCK_OFFSET_NS", 0);
	clock_drift = getenv("MOCK_CLOCK_DRIFT_PPM") ? strtod(getenv("MOCK_CLOCK_DRIFT_PPM"), NULL) / 1e6 : 0;
	mock_truth_open();
	library = injected ? dlopen(injected, RTLD_NOW | RTLD_LOCAL) : NULL;
	initialize = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
	if (initialize)
		initialize();
	__atomic_store_n(&ready, true, __ATOMIC_RELEASE);
}

void mock_cuda_arch(int *ret_major, int *ret_minor)
{
	const char *arch = getenv("MOCK_ARCH");
	int major = 9, minor = 0;

	if (arch)
		sscanf(arch, "%d.%d", &major, &minor);
	if (ret_major)
		*ret_major = major;
	if (ret_minor)
		*ret_minor = minor;
}

/* How long kernels take from now on. For the driver program, like what follows. */
void mock_cuda_kernel_ns(uint64_t ns)
{
	kernel_ns = ns;
}

/* The clock is put forward from now on, or back. */
void mock_cuda_step_clock(int64_t by)
{
	for (int i = 0; i < STEPS_MAX; i++) {
		if (clock_steps[i].at)
			continue;
		clock_steps[i].by = (uint64_t)by;
		__atomic_store_n(&clock_steps[i].at, mock_cuda_now(), __ATOMIC_RELEASE);
		return;
	}
}

void mock_cuda_flush(void)
{
	pthread_mutex_lock(&lock);
	mock_truth_flush();
	pthread_mutex_unlock(&lock);
}

/* The same place for another text, as after a module is unloaded and another one is loaded. */
void mock_cuda_rename(struct function *f, const char *name)
{
	strncpy(f->name, name, strlen(f->name));
}

static struct stream *stream_new(void)
{
	struct stream *s;

	pthread_mutex_lock(&lock);
	s = stream_count < STREAMS_MAX ? &streams[stream_count] : NULL;
	if (s)
		s->id = stream_count++;
	pthread_mutex_unlock(&lock);
	return s;
}

struct stream *mock_stream(struct stream *handle)
{
	if (handle != STREAM_PER_THREAD)
		return handle && handle != STREAM_LEGACY ? handle : &streams[0];
	if (!own_stream)
		own_stream = stream_new();
	return own_stream ? own_stream : &streams[0];
}

void mock_end_capture(const struct graph *g)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < stream_count; i++)
		if (streams[i].captured_by == g)
			streams[i].captured_by = NULL;
	pthread_mutex_unlock(&lock);
}

/* Decides when it runs: after what was launched to the stream before it. */
void mock_run(struct mock_work *w, struct stream *s, uint64_t ns)
{
	uint64_t now;

	pthread_mutex_lock(&lock);
	if (s->captured_by) {
		mock_graph_add(s->captured_by, w, ns);
		pthread_mutex_unlock(&lock);
		return;
	}
	now = mock_cuda_now() + launch_ns;
	if (w->kind == MOCK_GRAPH) {
		w->end = s->busy_until; /* it has its start already */
	} else {
		w->start = now > s->busy_until ? now : s->busy_until;
		w->end = w->start + ns;
		__atomic_store_n(&s->busy_until, w->end, __ATOMIC_RELAXED);
	}
	w->context = current ? current->id : 0;
	w->device = current ? current->device : 0;
	w->stream = s->id;
	if (!w->correlation)
		w->correlation = ++correlation;
	if (sink)
		sink(w);
	mock_truth_write(w);
	pthread_mutex_unlock(&lock);
}

CUresult mock_wait(uint64_t boot_ns)
{
	mock_cuda_flush(); /* the process may end without */
	mock_wait_until(boot_ns);
	return 0;
}

API cuInit(unsigned int flags)
{
	pthread_once(&started, start);
	return 0;
}

API cuCtxCreate_v2(struct context **ret, unsigned int flags, int device)
{
	struct context *c = calloc(1, sizeof(*c));

	if (!c)
		return OUT_OF_MEMORY;
	c->id = ++context_count;
	c->device = (uint32_t)device;
	current = c;
	*ret = c;
	return 0;
}

API cuCtxSynchronize(void)
{
	uint64_t last = 0;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < stream_count; i++)
		last = streams[i].busy_until > last ? streams[i].busy_until : last;
	pthread_mutex_unlock(&lock);
	return mock_wait(last);
}

API cuCtxDestroy_v2(struct context *c)
{
	cuCtxSynchronize();
	if (current == c)
		current = NULL;
	free(c);
	return 0;
}

API cuCtxSetCurrent(struct context *c)
{
	current = c;
	return 0;
}

API cuDevicePrimaryCtxRetain(struct context **ret, int device)
{
	if (!primary && cuCtxCreate_v2(&primary, 0, device))
		return OUT_OF_MEMORY;
	*ret = current = primary;
	return 0;
}

API cuDriverGetVersion(int *ret)
{
	*ret = 13000;
	return 0;
}

API cuGetErrorString(CUresult error, const char **ret)
{
	*ret = error == OUT_OF_MEMORY ? "out of memory" : "an error of the GPU that does not exist";
	return 0;
}

API cuStreamCreate(struct stream **ret, unsigned int flags)
{
	*ret = stream_new();
	return *ret ? 0 : OUT_OF_MEMORY;
}

STUB(cuStreamDestroy_v2, (struct stream *s))

API cuStreamSynchronize(struct stream *s)
{
	return mock_wait(__atomic_load_n(&mock_stream(s)->busy_until, __ATOMIC_RELAXED));
}

API cuModuleGetFunction(struct function **ret, void *module, const char *name)
{
	struct function *f = calloc(1, sizeof(*f));

	if (f)
		f->name = strdup(name);
	*ret = f;
	return f && f->name ? 0 : OUT_OF_MEMORY;
}

static CUresult launch(const struct function *f, const uint32_t grid[3], const uint32_t block[3], uint32_t shared, struct stream *s)
{
	struct mock_work w = { .kind = MOCK_KERNEL, .shared = shared, .name = f->name };

	memcpy(w.grid, grid, sizeof(w.grid));
	memcpy(w.block, block, sizeof(w.block));
	mock_run(&w, mock_stream(s), kernel_ns);
	return 0;
}

API cuLaunchKernel(struct function *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
	unsigned int bz, unsigned int shared, struct stream *s, void **params, void **extra)
{
	return launch(f, (uint32_t[]){ gx, gy, gz }, (uint32_t[]){ bx, by, bz }, shared, s);
}

API cuLaunchCooperativeKernel(struct function *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
	unsigned int by, unsigned int bz, unsigned int shared, struct stream *s, void **params)
{
	return launch(f, (uint32_t[]){ gx, gy, gz }, (uint32_t[]){ bx, by, bz }, shared, s);
}

API cuLaunchKernelEx(const struct config *c, struct function *f, void **params, void **extra)
{
	return launch(f, c->grid, c->block, c->shared, c->stream);
}
