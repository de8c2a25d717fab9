// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program that uses HIP (tests/gpu/mock_hip.c) as it is told to, as mock_driver.c uses CUDA: by its arguments or, without any, by
 * lines of its standard input; each line is answered by "ok" once it has been carried out.
 *
 *   init               hipInit, two streams, eight kernels
 *   kernel-ns N        how long kernels take from now on
 *   launch N           N kernels, on two streams and the default one, by the three functions that launch one
 *   names N            N kernels, each of another name, one of them very long
 *   copies N           N copies and sets, of which one in five is made by the CPU
 *   graph N            N launches of a graph of five kernels, which is captured before the first one
 *   threads M N        M threads with N kernels each, at the same time and on the same stream
 *   step N NS          N kernels of one stream, NS of CPU time after each, then waits for them: mock_step()
 *   steps M N NS       M such steps
 *   sync               waits for all
 *   truth              the file of the truth is complete up to here
 *   fork COMMAND...    the rest of the line is carried out by a child, which ends then
 *   exec               executes itself anew, reading its standard input
 *   close-all          closes all descriptors but the standard ones, and opens others in their places
 *   sleep MS, exit
 */
#define _GNU_SOURCE
#include "mock.h"
#include "mock_commands.h"

#include <pthread.h>

#define NAMES 8
#define MEMORY (1u << 20)
#define THREADS_MAX 64

struct dim3 {
	uint32_t x, y, z;
};

extern void __hipRegisterFunction(void **modules, const void *host, char *device, const char *name, unsigned int threads, void *tid,
	void *bid, void *block, void *grid, int *warp);
extern int hipInit(unsigned int flags);
extern int hipStreamCreate(void **ret);
extern int hipModuleGetFunction(void **ret, void *module, const char *name);
extern int hipLaunchKernel(const void *host, struct dim3 grid, struct dim3 block, void **args, size_t shared, void *s);
extern int hipModuleLaunchKernel(void *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
	unsigned int bz, unsigned int shared, void *s, void **params, void **extra);
extern int hipExtModuleLaunchKernel(void *f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t lx, uint32_t ly, uint32_t lz,
	size_t shared, void *s, void **params, void **extra, void *before, void *after, uint32_t flags);
extern int hipMemcpy(void *to, const void *from, size_t bytes, int kind);
extern int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *s);
extern int hipMemsetAsync(void *to, int value, size_t bytes, void *s);
extern int hipStreamBeginCapture(void *s, int mode);
extern int hipStreamEndCapture(void *s, void **ret);
extern int hipGraphLaunch(void *exec, void *s);
extern int hipStreamSynchronize(void *s);
extern int hipDeviceSynchronize(void);
extern void mock_hip_kernel_ns(uint64_t ns);
extern void mock_hip_flush(void);

static const char *const names[NAMES] = {
	"_Z7rmsnormPKfS0_Pfif", "_ZN7cutlass6KernelINS_4gemm6kernel4GemmEEEvNT_6ParamsE", "Cijk_Ailk_Bljk_HB_MT64x64x32_SN", "k2",
	"_Z13mul_mat_vec_qILi4EEvPKvS1_Pfiii", "triton_poi_fused_add_0", "k", "_Z4ropePfi"
};

static char host[NAMES]; /* what stands for each in the program */
static void *functions[NAMES], *streams[2], *graph;
static char *memory;

static void init(void)
{
	if (memory)
		return;
	hipInit(0);
	memory = calloc(3, MEMORY);
	for (int i = 0; i < NAMES; i++) {
		__hipRegisterFunction(NULL, &host[i], NULL, names[i], 0, NULL, NULL, NULL, NULL, NULL);
		hipModuleGetFunction(&functions[i], NULL, names[i]);
	}
	hipStreamCreate(&streams[0]);
	hipStreamCreate(&streams[1]);
}

static void launch(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++) {
		void *s = i / 16 % 3 == 2 ? NULL : streams[i / 16 % 3];
		uint32_t k = (uint32_t)i % NAMES, x = 1 + (uint32_t)i % 1000;

		if (i % 3 == 0)
			hipLaunchKernel(&host[k], (struct dim3){ x, 4, 2 }, (struct dim3){ 64, 2, 1 }, NULL, i % 7, s);
		else if (i % 3 == 1)
			hipModuleLaunchKernel(functions[k], x, 1, 1, 128, 1, 1, 512, s, NULL, NULL);
		else
			hipExtModuleLaunchKernel(functions[k], x * 32, 3, 1, 32, 1, 1, 0, s, NULL, NULL, NULL, NULL, 0);
	}
}

static void many_names(unsigned long n)
{
	void *f;

	for (unsigned long i = 0; i < n; i++) {
		hipModuleGetFunction(&f, NULL, nth_name(i));
		hipModuleLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	}
}

static void copies(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++) {
		switch (i % 5) {
		case 0:
			hipMemcpyAsync(memory, memory + 2 * MEMORY, 1000 + i, 1, streams[0]);
			break;
		case 1:
			hipMemcpy(memory + 2 * MEMORY, memory, 256, 2);
			break;
		case 2:
			hipMemcpyAsync(memory, memory + MEMORY, i % 2 ? MEMORY : 4096, 3, streams[1]);
			break;
		case 3:
			hipMemsetAsync(memory, (int)i, 4096, streams[0]);
			break;
		case 4:
			hipMemcpyAsync(memory, memory + 2 * MEMORY, 32, 1, streams[0]);
		}
	}
}

static void graphs(unsigned long n)
{
	static const int nodes[5] = { 0, 1, 2, 1, 4 };

	if (!graph) {
		hipStreamBeginCapture(streams[0], 0);
		for (int i = 0; i < 5; i++)
			hipModuleLaunchKernel(functions[nodes[i]], 1, 1, 1, 64, 1, 1, 0, streams[0], NULL, NULL);
		hipStreamEndCapture(streams[0], &graph);
	}
	while (n--)
		hipGraphLaunch(graph, streams[0]);
}

static void *one_thread(void *n)
{
	for (unsigned long i = 0; i < (unsigned long)(uintptr_t)n; i++)
		hipLaunchKernel(&host[i % NAMES], (struct dim3){ 2, 1, 1 }, (struct dim3){ 64, 1, 1 }, NULL, 0, streams[0]);
	return NULL;
}

static void many_threads(unsigned long n, unsigned long kernels)
{
	pthread_t list[THREADS_MAX];

	for (unsigned long i = 0; i < n && i < THREADS_MAX; i++)
		if (pthread_create(&list[i], NULL, one_thread, (void *)(uintptr_t)kernels))
			abort();
	for (unsigned long i = 0; i < n && i < THREADS_MAX; i++)
		pthread_join(list[i], NULL);
}

/* What a test may probe as its step. */
void __attribute__((noinline)) mock_step(unsigned long kernels, uint64_t cpu_ns)
{
	for (unsigned long i = 0; i < kernels; i++) {
		uint64_t until;

		hipLaunchKernel(&host[i % NAMES], (struct dim3){ 4, 1, 1 }, (struct dim3){ 64, 1, 1 }, NULL, 0, streams[0]);
		until = mock_boot_ns() + cpu_ns;
		while (mock_boot_ns() < until)
			;
	}
	hipStreamSynchronize(streams[0]);
}

static void carry_out(char *line)
{
	char *word = strtok(line, " \n"), *one = strtok(NULL, " \n"), *two = strtok(NULL, " \n"), *three = strtok(NULL, " \n");
	unsigned long n = one ? strtoul(one, NULL, 10) : 0, m = two ? strtoul(two, NULL, 10) : 0;

	if (!word || carry_out_common(word, one, two))
		return;
	init();
	if (!strcmp(word, "kernel-ns"))
		mock_hip_kernel_ns(n);
	else if (!strcmp(word, "launch"))
		launch(n);
	else if (!strcmp(word, "names"))
		many_names(n);
	else if (!strcmp(word, "copies"))
		copies(n);
	else if (!strcmp(word, "graph"))
		graphs(n);
	else if (!strcmp(word, "threads"))
		many_threads(n, m);
	else if (!strcmp(word, "step"))
		mock_step(n, m);
	else if (!strcmp(word, "steps"))
		for (; n; n--)
			mock_step(m, three ? strtoull(three, NULL, 10) : 0);
	else if (!strcmp(word, "sync"))
		hipDeviceSynchronize();
	else if (!strcmp(word, "truth"))
		mock_hip_flush();
}

int main(int argc, char **argv)
{
	return run_commands(argc, argv);
}
