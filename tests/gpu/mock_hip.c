// SPDX-License-Identifier: BSD-2-Clause
/* libamdhip64.so.6 of a GPU that does not exist: see mock_rocm.h. */
#define _GNU_SOURCE
#include "mock.h"
#include "mock_rocm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define API EXPORT __attribute__((noinline)) int
#define QUEUES 2
#define COPY_LANE QUEUES
#define KERNELS_MAX 8192
#define NODES_MAX 64
#define CPU_COPY_MAX 64		 /* bytes: up to that the CPU copies to the device */
#define BLIT_COPY_MAX (64 << 10) /* and up to that a kernel copies on it */

enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST, DEVICE_TO_DEVICE }; /* kinds of HIP's */

struct dim3 {
	uint32_t x, y, z;
};

struct stream {
	uint32_t queue;
	bool captured;
};

struct function {
	char *name;
	uint64_t id;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t started = PTHREAD_ONCE_INIT;
static struct stream null_stream;
static struct function kernels[KERNELS_MAX];
static const void *host_functions[KERNELS_MAX];
static uint32_t kernel_count, stream_count;
static uint64_t kernel_ns, launch_ns, busy_until[MOCK_ROCM_LANES];
static bool indirect;
static struct {
	const struct function *list[NODES_MAX];
	uint32_t count;
} graph;
static mock_rocm_launch_fn *tell_launch;
static mock_rocm_symbol_fn *tell_symbol;
static const struct function *fill_kernel, *copy_kernel;

/* A code object with one kernel is loaded. */
static struct function *add_kernel(const char *name)
{
	struct function *f;
	char *symbol;

	pthread_mutex_lock(&lock);
	f = kernel_count < KERNELS_MAX ? &kernels[kernel_count++] : NULL;
	pthread_mutex_unlock(&lock);
	if (!f || asprintf(&symbol, "%s.kd", name) < 0)
		return NULL;
	f->id = (uint64_t)(f - kernels) + 1;
	f->name = symbol;
	if (tell_symbol)
		tell_symbol(f->id, symbol);
	return f;
}

/* rocprofiler-sdk beside this library: with sanitizers it is not this library that calls dlopen(), so that its path would not count. */
static void *open_sdk(void)
{
	const char *slash;
	char path[4096];
	Dl_info self;

	if (!dladdr((void *)open_sdk, &self) || !(slash = strrchr(self.dli_fname, '/')))
		return NULL;
	snprintf(path, sizeof(path), "%.*s/librocprofiler-sdk.so.1", (int)(slash - self.dli_fname), self.dli_fname);
	return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

static void start(void)
{
	const char *tools = getenv("ROCP_TOOL_LIBRARIES");
	void *sdk = tools && *tools ? open_sdk() : NULL;

	launch_ns = mock_number_of("MOCK_LAUNCH_NS", 2000);
	kernel_ns = mock_number_of("MOCK_KERNEL_NS", 5000);
	indirect = mock_number_of("MOCK_INDIRECT", 0);
	mock_truth_open();
	if (sdk) {
		((mock_rocm_start_fn *)dlsym(sdk, "mock_rocm_start"))();
		tell_launch = (mock_rocm_launch_fn *)dlsym(sdk, "mock_rocm_launch");
		tell_symbol = (mock_rocm_symbol_fn *)dlsym(sdk, "mock_rocm_symbol");
	}
	fill_kernel = add_kernel("__amd_rocclr_fillBufferAligned");
	copy_kernel = add_kernel("__amd_rocclr_copyBuffer");
}

static uint32_t lane_of(const struct stream *s)
{
	return s ? s->queue - 1 : 0;
}

static void decide(struct mock_rocm_work *w)
{
	uint64_t now = mock_boot_ns() + launch_ns;

	w->start = now > busy_until[w->lane] ? now : busy_until[w->lane];
	w->end = w->start + (w->kernel ? kernel_ns : 2 * kernel_ns);
	__atomic_store_n(&busy_until[w->lane], w->end, __ATOMIC_RELAXED);
}

static void *enqueue(void *w)
{
	return (void *)(uintptr_t)tell_launch(w, decide);
}

/* Decides when it runs, tells rocprofiler, and writes the truth. */
static void run(struct mock_rocm_work *w, struct mock_work *truth)
{
	void *answer = NULL;
	pthread_t t;

	pthread_mutex_lock(&lock);
	w->agent = MOCK_ROCM_GPU;
	if (!tell_launch)
		decide(w);
	else if (indirect && !pthread_create(&t, NULL, enqueue, w))
		pthread_join(t, &answer);
	else
		answer = enqueue(w);
	truth->correlation = (uint32_t)(uintptr_t)answer;
	truth->start = w->start;
	truth->end = w->end;
	mock_truth_write(truth);
	pthread_mutex_unlock(&lock);
}

static void run_kernel(const struct function *f, const uint32_t grid[3], const uint32_t block[3], uint32_t shared, const struct stream *s)
{
	struct mock_rocm_work w = { .queue = lane_of(s) + 1, .kernel = f->id, .group_segment = shared, .lane = lane_of(s) };
	struct mock_work truth = { .kind = MOCK_KERNEL, .stream = lane_of(s) + 1, .shared = shared };

	if (s && s->captured) {
		graph.list[graph.count++ % NODES_MAX] = f;
		return;
	}
	for (int i = 0; i < 3; i++) {
		w.workgroup[i] = truth.block[i] = block[i];
		truth.grid[i] = grid[i];
		w.grid[i] = grid[i] * block[i];
	}
	truth.name = f->name;
	run(&w, &truth);
}

static void run_copy(uint64_t bytes, uint32_t kind)
{
	static const uint32_t operations[] = { 0, 2, 3, 4 }, copy_kinds[] = { 0, 1, 2, 8 };
	struct mock_rocm_work w = { .bytes = bytes, .operation = operations[kind], .lane = COPY_LANE };
	struct mock_work truth = { .kind = MOCK_COPY, .bytes = bytes, .copy_kind = copy_kinds[kind] };

	run(&w, &truth);
}

EXPORT void mock_hip_kernel_ns(uint64_t ns)
{
	kernel_ns = ns;
}

EXPORT void mock_hip_flush(void)
{
	pthread_mutex_lock(&lock);
	mock_truth_flush();
	pthread_mutex_unlock(&lock);
}

static int wait_until(uint64_t boot_ns)
{
	mock_hip_flush();
	mock_wait_until(boot_ns);
	return 0;
}

API hipInit(unsigned int flags)
{
	pthread_once(&started, start);
	null_stream.queue = 1;
	return 0;
}

/* Compiled code calls it for each kernel that it has. */
EXPORT void __hipRegisterFunction(void **modules, const void *host, char *device, const char *name, unsigned int threads, void *tid,
	void *bid, void *block, void *grid, int *warp)
{
	struct function *f = add_kernel(name);

	if (f)
		host_functions[f - kernels] = host;
}

API hipStreamCreate(struct stream **ret)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (s)
		s->queue = stream_count++ % QUEUES + 1;
	*ret = s;
	return s ? 0 : 2;
}

API hipModuleGetFunction(struct function **ret, void *module, const char *name)
{
	*ret = add_kernel(name);
	return *ret ? 0 : 2;
}

API hipLaunchKernel(const void *host, struct dim3 grid, struct dim3 block, void **args, size_t shared, struct stream *s)
{
	for (uint32_t i = 0; i < kernel_count; i++) {
		if (host_functions[i] != host)
			continue;
		run_kernel(&kernels[i], (uint32_t[]){ grid.x, grid.y, grid.z }, (uint32_t[]){ block.x, block.y, block.z }, (uint32_t)shared, s);
		return 0;
	}
	return 98;
}

API hipModuleLaunchKernel(struct function *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
	unsigned int bz, unsigned int shared, struct stream *s, void **params, void **extra)
{
	run_kernel(f, (uint32_t[]){ gx, gy, gz }, (uint32_t[]){ bx, by, bz }, shared, s);
	return 0;
}

/* The grid is in work items. */
API hipExtModuleLaunchKernel(struct function *f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t lx, uint32_t ly, uint32_t lz,
	size_t shared, struct stream *s, void **params, void **extra, void *before, void *after, uint32_t flags)
{
	run_kernel(f, (uint32_t[]){ gx / lx, gy / ly, gz / lz }, (uint32_t[]){ lx, ly, lz }, (uint32_t)shared, s);
	return 0;
}

API hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, struct stream *s)
{
	memmove(to, from, bytes);
	if (kind == HOST_TO_DEVICE && bytes <= CPU_COPY_MAX)
		return 0;
	if (kind == DEVICE_TO_DEVICE && bytes <= BLIT_COPY_MAX)
		run_kernel(copy_kernel, (uint32_t[]){ 4, 1, 1 }, (uint32_t[]){ 256, 1, 1 }, 0, s);
	else
		run_copy(bytes, (uint32_t)kind);
	return 0;
}

API hipDeviceSynchronize(void)
{
	uint64_t last = 0;

	for (int i = 0; i < MOCK_ROCM_LANES; i++) {
		uint64_t end = __atomic_load_n(&busy_until[i], __ATOMIC_RELAXED);

		last = end > last ? end : last;
	}
	return wait_until(last);
}

API hipMemcpy(void *to, const void *from, size_t bytes, int kind)
{
	hipMemcpyAsync(to, from, bytes, kind, NULL);
	return hipDeviceSynchronize();
}

API hipMemsetAsync(void *to, int value, size_t bytes, struct stream *s)
{
	memset(to, value, bytes);
	run_kernel(fill_kernel, (uint32_t[]){ 2, 1, 1 }, (uint32_t[]){ 256, 1, 1 }, 0, s);
	return 0;
}

API hipStreamBeginCapture(struct stream *s, int mode)
{
	s->captured = true;
	return 0;
}

API hipStreamEndCapture(struct stream *s, void **ret)
{
	s->captured = false;
	*ret = &graph;
	return 0;
}

API hipGraphLaunch(void *exec, struct stream *s)
{
	for (uint32_t i = 0; i < graph.count && i < NODES_MAX; i++)
		run_kernel(graph.list[i], (uint32_t[]){ 1, 1, 1 }, (uint32_t[]){ 64, 1, 1 }, 0, s);
	return 0;
}

API hipStreamSynchronize(struct stream *s)
{
	uint64_t queue = __atomic_load_n(&busy_until[lane_of(s)], __ATOMIC_RELAXED), copies = __atomic_load_n(&busy_until[COPY_LANE], __ATOMIC_RELAXED);

	return wait_until(queue > copies ? queue : copies);
}
