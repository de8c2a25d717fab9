// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program that uses CUDA (tests/gpu/mock_cuda.c, by its name libcuda.so.1) as it is told to, by its arguments or,
 * without any, by lines of its standard input; each line is answered by "ok" once it has been carried out.
 *
 *   mock_driver [COMMAND]...
 *   mock_driver --truth FILE      prints the file of the truth (mock.h) as JSON, a line for each
 *
 *   init               cuInit, a context
 *   kernel-ns N        how long kernels take from now on
 *   launch N           N kernels, on two streams, of eight names
 *   names N            N kernels, each of another name, one of them very long
 *   rename             the same functions have other names at the same places from now on
 *   copies N           N copies and sets
 *   graph N            N launches of a graph of five kernels, which is captured before the first one
 *   graph-ops N        the same, of a graph that is captured in operators, those of ops
 *   big-graph M N       N launches of a graph of M kernels
 *   step N NS          N kernels of one stream, NS of CPU time after each, then waits for them: mock_step()
 *   parallel N M NS    N kernels on each of the devices 0 to M - 1 in turn, whose streams run side by side, NS of CPU time after each
 *                      turn, then waits for them: mock_parallel()
 *   ops N              N times an operator with two kernels of its own and one of an operator within it, and a kernel of none:
 *                      mock_ops() with mock_outer() and mock_inner()
 *   op-sleep MS        from now on an operator sleeps before it ends: what it launched is recorded before it
 *   nap MS             a step that sleeps between two kernels: mock_nap()
 *   steps M N NS       M such steps
 *   collectives N      N steps of a kernel, a group of two collectives (libnccl.so.2), and one of its own
 *   sync               waits for all
 *   device N           a context and streams of another device, which are used from now on
 *   context            destroys the context, and makes another one
 *   truth              the file of the truth is complete up to here
 *   fork COMMAND...    the rest of the line is carried out by a child, which ends then
 *   exec               executes itself anew, reading its standard input
 *   close-all          closes all descriptors but the standard ones, and opens others in their places
 *   attach LIBRARY SOCKET   as an injector would: opens the agent, and calls its entry
 *   step-clock NS      puts the clock of CUPTI forward, or back
 *   no-memory 0|1      the agent gets memory from now on, or does not
 *   cpu                prints its CPU time and the time since init, as JSON
 *   sleep MS, exit
 */
#define _GNU_SOURCE
#include "mock_cuda_api.h"
#include "mock_commands.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#define NAMES 8
#define DEVICES 16
#define MEMORY (1u << 20)

extern int ncclGroupStart(void);
extern int ncclGroupEnd(void);
extern int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream);
extern void mock_cuda_kernel_ns(uint64_t ns);
extern void mock_cuda_flush(void);
extern void mock_cuda_step_clock(int64_t by);
extern void mock_cuda_rename(void *f, const char *name);

static const char *const names[NAMES] = {
	"_Z7rmsnormPKfS0_Pfif", "_ZN7cutlass6KernelINS_4gemm6kernel4GemmEEEvNT_6ParamsE",
	"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::half_t>>(Flash_fwd_params)",
	"ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn", "_Z13mul_mat_vec_qILi4EEvPKvS1_Pfiii",
	"triton_poi_fused_add_0", "k", "rope_norm<float, true>"
};

static void *functions[NAMES], *context, *streams[2], *graph;
static uint64_t memory, began;

static void init(void)
{
	if (context)
		return;
	began = mock_cuda_now();
	cuInit(0);
	cuCtxCreate_v2(&context, 0, 0);
	for (int i = 0; i < NAMES; i++)
		cuModuleGetFunction(&functions[i], NULL, names[i]);
	cuStreamCreate(&streams[0], 0);
	cuStreamCreate(&streams[1], 0);
	cuMemAlloc_v2(&memory, 2 * MEMORY);
}

static void launch(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++) {
		void *f = functions[i % NAMES], *s = streams[i / 16 % 2];
		struct cu_config c = { { 8, 4, (unsigned int)i % 3 + 1 }, { 64, 2, 1 }, 512, s, NULL, 0 };

		if (i % 4)
			cuLaunchKernel(f, 1 + (unsigned int)i % 1000, 1, 1, 128, 1, 1, (unsigned int)i % 7, s, NULL, NULL);
		else
			cuLaunchKernelEx(&c, f, NULL, NULL);
	}
}

static void many_names(unsigned long n)
{
	void *f;

	for (unsigned long i = 0; i < n; i++) {
		cuModuleGetFunction(&f, NULL, nth_name(i));
		cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	}
}

static void rename_all(void)
{
	static char text[256];

	for (int i = 0; i < NAMES; i++) {
		snprintf(text, sizeof(text), "%s", names[i]);
		text[strlen(text) / 2] ^= 1;
		mock_cuda_rename(functions[i], text);
	}
}

static void copies(unsigned long n)
{
	static char host[65536];

	for (unsigned long i = 0; i < n; i++) {
		switch (i % 4) {
		case 0:
			cuMemcpyHtoDAsync_v2(memory, host, (1000 + i) % sizeof(host), streams[0]);
			break;
		case 1:
			cuMemcpyDtoH_v2(host, memory, 256);
			break;
		case 2:
			cuMemcpyDtoDAsync_v2(memory, memory + MEMORY, MEMORY, streams[1]);
			break;
		case 3:
			cuMemsetD32Async(memory, (unsigned int)i, 4096, streams[0]);
		}
	}
}

/* The capture becomes a graph. */
static void *end_capture(void)
{
	void *captured, *executable;

	cuStreamEndCapture(streams[0], &captured);
	cuGraphInstantiateWithFlags(&executable, captured, 0);
	return executable;
}

static void launch_graph(void *executable, unsigned long n)
{
	while (n--)
		cuGraphLaunch(executable, streams[0]);
}

static void graphs(unsigned long n)
{
	static const int nodes[5] = { 0, 1, 2, 1, 4 };

	if (!graph) {
		cuStreamBeginCapture_v2(streams[0], 0);
		for (int i = 0; i < 5; i++)
			cuLaunchKernel(functions[nodes[i]], 1, 1, 1, 32, 1, 1, 0, streams[0], NULL, NULL);
		graph = end_capture();
	}
	launch_graph(graph, n);
}

static void burn(uint64_t ns)
{
	uint64_t until = mock_cuda_now() + ns;

	while (mock_cuda_now() < until)
		;
}

/* What a test may probe as its step. */
void __attribute__((noinline)) mock_step(unsigned long kernels, uint64_t cpu_ns)
{
	for (unsigned long i = 0; i < kernels; i++) {
		cuLaunchKernel(functions[i % NAMES], 4, 1, 1, 64, 1, 1, 0, streams[0], NULL, NULL);
		burn(cpu_ns);
	}
	cuStreamSynchronize(streams[0]);
}

/* The same, on several devices at once. The odd ones have half as much to do. */
void __attribute__((noinline)) mock_parallel(unsigned long kernels, unsigned long devices, uint64_t cpu_ns)
{
	static void *contexts[DEVICES], *of_device[DEVICES];

	for (unsigned long d = 0; d < devices && d < DEVICES; d++) {
		if (contexts[d])
			continue;
		cuCtxCreate_v2(&contexts[d], 0, (int)d);
		cuStreamCreate(&of_device[d], 0);
	}
	for (unsigned long i = 0; i < kernels; i++) {
		for (unsigned long d = 0; d < devices && d < DEVICES; d++) {
			if (d % 2 && i % 2)
				continue;
			cuCtxSetCurrent(contexts[d]);
			cuLaunchKernel(functions[i % NAMES], 4 + (unsigned int)d, 1, 1, 64, 1, 1, 0, of_device[d], NULL, NULL);
		}
		burn(cpu_ns);
	}
	for (unsigned long d = 0; d < devices && d < DEVICES; d++)
		cuStreamSynchronize(of_device[d]);
	cuCtxSetCurrent(context);
}

/* The same, without a use of the CPU. */
void __attribute__((noinline)) mock_nap(unsigned long ms)
{
	cuLaunchKernel(functions[0], 4, 1, 1, 64, 1, 1, 0, streams[0], NULL, NULL);
	usleep((unsigned int)ms * 1000);
	cuLaunchKernel(functions[0], 4, 1, 1, 64, 1, 1, 0, streams[0], NULL, NULL);
	cuStreamSynchronize(streams[0]);
}

static unsigned int op_sleep_ms;

/* What a test may probe as operators. */
void __attribute__((noinline)) mock_inner(void)
{
	cuLaunchKernel(functions[1], 4, 1, 1, 64, 1, 1, 0, streams[0], NULL, NULL);
	burn(20000);
}

void __attribute__((noinline)) mock_outer(void)
{
	cuLaunchKernel(functions[0], 4, 1, 1, 64, 1, 1, 0, streams[0], NULL, NULL);
	mock_inner();
	cuLaunchKernel(functions[0], 4, 1, 1, 64, 1, 1, 0, streams[0], NULL, NULL);
	burn(20000);
	usleep(1000 * op_sleep_ms);
}

void __attribute__((noinline)) mock_ops(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++) {
		mock_outer();
		cuLaunchKernel(functions[2], 4, 1, 1, 64, 1, 1, 0, streams[0], NULL, NULL);
	}
	cuStreamSynchronize(streams[0]);
}

static void big_graphs(unsigned long nodes, unsigned long n)
{
	cuStreamBeginCapture_v2(streams[0], 0);
	for (unsigned long i = 0; i < nodes; i++)
		cuLaunchKernel(functions[i % NAMES], 1 + (unsigned int)i % 100, 1, 1, 32, 1, 1, 0, streams[0], NULL, NULL);
	launch_graph(end_capture(), n);
}

static void graphs_of_ops(unsigned long n)
{
	static void *executable;

	if (!executable) {
		cuStreamBeginCapture_v2(streams[0], 0);
		mock_outer();
		cuLaunchKernel(functions[2], 4, 1, 1, 64, 1, 1, 0, streams[0], NULL, NULL);
		executable = end_capture();
	}
	launch_graph(executable, n);
}

/* Another step that a test may probe. */
void __attribute__((noinline)) mock_collectives(void)
{
	cuLaunchKernel(functions[0], 4, 1, 1, 64, 1, 1, 0, streams[0], NULL, NULL);
	ncclGroupStart();
	ncclAllReduce(NULL, NULL, 1000, 6, 0, NULL, streams[0]);
	ncclAllReduce(NULL, NULL, 2000, 6, 0, NULL, streams[0]);
	ncclGroupEnd();
	ncclAllReduce(NULL, NULL, 3000, 6, 0, NULL, streams[0]);
	cuStreamSynchronize(streams[0]);
}

static void attach(const char *library, const char *name)
{
	void *l = dlopen(library, RTLD_NOW);
	int (*entry)(const char *) = l ? (int (*)(const char *))dlsym(l, "inftrace_gpu_attach") : NULL;

	if (!entry || entry(name))
		fprintf(stderr, "attach: %s\n", l ? "the entry failed" : dlerror());
}

static bool no_memory;

/* In place of libc's for all that is loaded: only the agent notices. */
void *mmap(void *at, size_t length, int prot, int flags, int fd, off_t offset)
{
	Dl_info who;

	if (__atomic_load_n(&no_memory, __ATOMIC_RELAXED) && dladdr(__builtin_return_address(0), &who) && strstr(who.dli_fname, "inftrace-gpu")) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, at, length, prot, flags, fd, offset);
}

static void print_cpu(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	printf("{\"cpu_ns\":%" PRIu64 ",\"wall_ns\":%" PRIu64 "}\n", (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec,
		mock_cuda_now() - began);
}

static void carry_out(char *line)
{
	char *word = strtok(line, " \n"), *one = strtok(NULL, " \n"), *two = strtok(NULL, " \n"), *three = strtok(NULL, " \n");
	unsigned long n = one ? strtoul(one, NULL, 10) : 0;

	if (!word || carry_out_common(word, one, two))
		return;
	if (!strcmp(word, "step-clock") && one)
		mock_cuda_step_clock(strtoll(one, NULL, 10));
	else if (!strcmp(word, "no-memory"))
		__atomic_store_n(&no_memory, n, __ATOMIC_RELAXED);
	else if (!strcmp(word, "attach") && two)
		attach(one, two);
	else
		init();
	if (!strcmp(word, "kernel-ns"))
		mock_cuda_kernel_ns(n);
	else if (!strcmp(word, "launch"))
		launch(n);
	else if (!strcmp(word, "names"))
		many_names(n);
	else if (!strcmp(word, "rename"))
		rename_all();
	else if (!strcmp(word, "copies"))
		copies(n);
	else if (!strcmp(word, "graph"))
		graphs(n);
	else if (!strcmp(word, "big-graph"))
		big_graphs(n, two ? strtoul(two, NULL, 10) : 1);
	else if (!strcmp(word, "graph-ops"))
		graphs_of_ops(n);
	else if (!strcmp(word, "step"))
		mock_step(n, two ? strtoull(two, NULL, 10) : 0);
	else if (!strcmp(word, "op-sleep"))
		op_sleep_ms = (unsigned int)n;
	else if (!strcmp(word, "ops"))
		mock_ops(n);
	else if (!strcmp(word, "parallel"))
		mock_parallel(n, two ? strtoul(two, NULL, 10) : 2, three ? strtoull(three, NULL, 10) : 0);
	else if (!strcmp(word, "nap"))
		mock_nap(n);
	else if (!strcmp(word, "steps"))
		for (; n; n--)
			mock_step(two ? strtoul(two, NULL, 10) : 1, three ? strtoull(three, NULL, 10) : 0);
	else if (!strcmp(word, "collectives"))
		for (; n; n--)
			mock_collectives();
	else if (!strcmp(word, "sync"))
		cuCtxSynchronize();
	else if (!strcmp(word, "truth"))
		mock_cuda_flush();
	else if (!strcmp(word, "cpu"))
		print_cpu();
	else if (!strcmp(word, "device")) {
		cuCtxCreate_v2(&context, 0, (int)n);
		cuStreamCreate(&streams[0], 0);
		cuStreamCreate(&streams[1], 0);
	} else if (!strcmp(word, "context")) {
		cuCtxDestroy_v2(context);
		cuCtxCreate_v2(&context, 0, 0);
	}
}

/* The names of the kernels of a file of the truth, by their hashes */
static struct {
	uint64_t hash;
	char *text;
} known[1 << 17];

static size_t place_of(uint64_t hash)
{
	size_t i = hash % (sizeof(known) / sizeof(*known));

	while (known[i].text && known[i].hash != hash)
		i = (i + 1) % (sizeof(known) / sizeof(*known));
	return i;
}

static const char *name_of(uint64_t hash)
{
	return known[place_of(hash)].text;
}

static int read_names(const char *file)
{
	static char line[MOCK_NAME_MAX + 2];
	FILE *f;

	snprintf(line, sizeof(line), "%s.names", file);
	f = fopen(line, "re");
	while (f && fgets(line, sizeof(line), f)) {
		size_t i, n = strcspn(line, "\n");
		uint64_t hash = mock_hash(line, n);

		i = place_of(hash);
		if (known[i].text)
			continue;
		known[i].hash = hash;
		known[i].text = strndup(line, n);
	}
	if (f)
		fclose(f);
	return f ? 0 : 1;
}

static int print_truth(const char *file)
{
	static const char *const kinds[] = { "kernel", "copy", "set", "graph" };
	struct mock_work w;
	FILE *f = fopen(file, "re");

	if (!f || read_names(file))
		return 1;
	while (fread(&w, sizeof(w), 1, f) == 1) {
		const char *name = w.name ? name_of((uintptr_t)w.name) : NULL;

		printf("{\"kind\":\"%s\",\"start\":%" PRIu64 ",\"end\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"correlation\":%u,\"device\":%u"
		       ",\"context\":%u,\"stream\":%u,\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],\"copy_kind\":%u,\"graph\":%u"
		       ",\"graph_node\":%" PRIu64 ",\"name\":",
			kinds[w.kind], w.start, w.end, w.bytes, w.correlation, w.device, w.context, w.stream, w.grid[0], w.grid[1],
			w.grid[2], w.block[0], w.block[1], w.block[2], w.copy_kind, w.graph, w.graph_node);
		printf(name ? "\"%.200s\"}\n" : "null}\n", name);
	}
	fclose(f);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--truth"))
		return print_truth(argv[2]);
	return run_commands(argc, argv);
}
