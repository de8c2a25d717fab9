// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls the functions of the fake libraries (fake_cuda.h) with random arguments, from several
 * threads: each thread every function once, then a number of steps of random calls each.
 *
 *   fake_cuda_driver LIBDIR [THREADS [STEPS]]
 *
 * Loads the libraries, prints "ready" and begins when LIBDIR/go exists. Prints a JSON line for each
 * step: the thread, for how long it was in functions that wait for the GPU, and how often it launched
 * a CUDA graph.
 */
#include "../program.h"

#include "fake_cuda.h"

#include <inttypes.h>

#define CALLS_PER_STEP 20

static __thread uint64_t seed;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed * 2685821657736338717;
}

/* Of any size: 0, small numbers, all bits. */
static t_u64 random_u64(void)
{
	uint64_t v = next_random();
	unsigned int bits = v % 65;

	return bits == 64 ? next_random() : next_random() & ((UINT64_C(1) << bits) - 1);
}

static t_ptr random_ptr(void)
{
	return (t_ptr)(uintptr_t)random_u64();
}

static t_u8 random_u8(void)
{
	return (t_u8)random_u64();
}

static t_u32 random_u32(void)
{
	return (t_u32)random_u64();
}

static t_s32 random_s32(void)
{
	return (t_s32)random_u64();
}

static t_f64 random_f64(void)
{
	return (t_f64)(random_u64() >> 12);
}

static t_unused random_unused(void)
{
	return 0;
}

/* Sometimes longer than the kept part of a string. */
static t_str random_str(void)
{
	static __thread char text[100];
	size_t len = next_random() % sizeof(text);

	for (size_t i = 0; i < len; i++)
		text[i] = "abcdefghijklmnopqrstuvwxyz_0123456789"[next_random() % 37];
	text[len] = 0;
	return text;
}

static t_dtype random_dtype(void)
{
	return (t_dtype)(next_random() % (ncclNumTypes + 1));
}

static t_redop random_redop(void)
{
	return (t_redop)(next_random() % (ncclNumOps + 1));
}

static void random_fill(void *p, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((unsigned char *)p)[i] = (unsigned char)next_random();
}

static t_unique random_unique(void)
{
	t_unique v;

	random_fill(&v, sizeof(v));
	return v;
}

/* clang-format off */
#define RANDOM_STRUCT(type) \
	static t_##type random_##type(void) \
	{ \
		static __thread struct type v; \
\
		random_fill(&v, sizeof(v)); \
		return &v; \
	}
RANDOM_STRUCT(cu_config)
RANDOM_STRUCT(copy2d)
RANDOM_STRUCT(copy3d)

#define TYPE(type, name) t_##type
#define RANDOM(type, name) random_##type()
#define CALL(function, family) \
	static void call_##function(void *f) \
	{ \
		((int (*)(FAM_##family(TYPE, COMMA)))f)(FAM_##family(RANDOM, COMMA)); \
	}
FUNCTIONS_cuda(CALL, CALL)
FUNCTIONS_nccl(CALL, CALL)
FUNCTIONS_vllm(CALL, CALL)

static struct function {
	int library;
	const char *name;
	void (*call)(void *f);
	void *f;
} functions[] = {
#define ENTRY(function, family) { LIBRARY, #function, call_##function, NULL },
#define LIBRARY 0
	FUNCTIONS_cuda(ENTRY, ENTRY)
#undef LIBRARY
#define LIBRARY 1
	FUNCTIONS_nccl(ENTRY, ENTRY)
#undef LIBRARY
#define LIBRARY 2
	FUNCTIONS_vllm(ENTRY, ENTRY)
};
/* clang-format on */

#define N_FUNCTIONS LENGTH(functions)

static const char *const libraries[] = { "libcuda.so.1", "libnccl.so.2", "_C.abi3.so" };

static unsigned int n_steps = 50;
static __thread unsigned int graphs; /* launched in the step */

/* Returns for how long it was in functions that wait for the GPU. */
uint64_t fake_step(void);
uint64_t __attribute__((noinline)) fake_step(void)
{
	uint64_t waited = 0;

	graphs = 0;
	for (int i = 0; i < CALLS_PER_STEP; i++) {
		const struct function *f = &functions[next_random() % N_FUNCTIONS];
		uint64_t start = clock_ns(CLOCK_BOOTTIME);

		f->call(f->f);
		if (strstr(f->name, "Synchronize"))
			waited += clock_ns(CLOCK_BOOTTIME) - start;
		graphs += strstr(f->name, "GraphLaunch") != NULL;
	}
	return waited;
}

static void *run(void *arg)
{
	seed = 88172645463325252 + (uintptr_t)arg;
	for (size_t i = 0; i < N_FUNCTIONS; i++)
		functions[i].call(functions[i].f);
	for (unsigned int i = 0; i < n_steps; i++) {
		uint64_t waited = fake_step();

		printf("{\"tid\":%d,\"waited\":%" PRIu64 ",\"graphs\":%u}\n", gettid(), waited, graphs);
	}
	return NULL;
}

static void load(const char *folder)
{
	void *handles[LENGTH(libraries)];
	char path[4096];

	for (size_t i = 0; i < LENGTH(libraries); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, libraries[i]);
		handles[i] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!handles[i])
			die(dlerror());
	}
	for (size_t i = 0; i < N_FUNCTIONS; i++) {
		functions[i].f = dlsym(handles[functions[i].library], functions[i].name);
		must(functions[i].f, functions[i].name);
	}
}

int main(int argc, char **argv)
{
	unsigned int n_threads = argc > 2 ? (unsigned int)atoi(argv[2]) : 4;
	pthread_t threads[64];
	char go[4096];

	if (argc < 2 || argc > 4 || n_threads < 1 || n_threads > 64) {
		fprintf(stderr, "usage: fake_cuda_driver LIBDIR [THREADS [STEPS]]\n");
		return 2;
	}
	if (argc > 3)
		n_steps = (unsigned int)atoi(argv[3]);
	load(argv[1]);
	say("ready");
	snprintf(go, sizeof(go), "%s/go", argv[1]);
	while (access(go, F_OK))
		usleep(1000);
	for (uintptr_t i = 0; i < n_threads; i++)
		threads[i] = thread_start(run, (void *)i);
	threads_join(threads, n_threads);
	return 0;
}
