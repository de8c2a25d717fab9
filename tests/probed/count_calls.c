// SPDX-License-Identifier: BSD-2-Clause
/*
 * Preloaded into a program that runs llama.cpp, counts the calls of two functions of its CPU
 * backend: the backend calls them through its PLT, where what is preloaded comes first. The counts
 * are 64-bit numbers in the file COUNT_CALLS, in the order of enum function: valid however the
 * program ends. The test engines find count_calls() and say how many calls each step made.
 */
#include "../program.h"

#include <link.h>

enum function {
	BARRIER,
	FORWARD,
	FUNCTIONS,
};

static const char *const names[FUNCTIONS] = { "ggml_barrier", "ggml_cpu_extra_compute_forward" };
static uint64_t own[FUNCTIONS], *counts = own;
static void *real[FUNCTIONS];

__attribute__((constructor)) static void map_counts(void)
{
	const char *path = getenv("COUNT_CALLS");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
	void *map;

	if (fd < 0 || ftruncate(fd, sizeof(own)))
		return;
	map = mmap(NULL, sizeof(own), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		counts = map;
}

const uint64_t *count_calls(void);
const uint64_t *count_calls(void)
{
	return counts;
}

static int find_backend(struct dl_phdr_info *info, size_t size, void *ret_path)
{
	const char *base = strrchr(info->dlpi_name, '/');

	(void)size;
	if (!base || strncmp(base, "/libggml-cpu", 12))
		return 0;
	*(const char **)ret_path = info->dlpi_name;
	return 1;
}

/* The backend is loaded with a scope of its own: RTLD_NEXT would not find it. */
static void *find_real(enum function f)
{
	const char *path = NULL;
	void *lib;

	dl_iterate_phdr(find_backend, &path);
	lib = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
	if (!lib) {
		fprintf(stderr, "count_calls: no libggml-cpu is loaded\n");
		abort();
	}
	return dlsym(lib, names[f]);
}

static void *counted(enum function f)
{
	void *function = __atomic_load_n(&real[f], __ATOMIC_RELAXED);

	__atomic_add_fetch(&counts[f], 1, __ATOMIC_RELAXED);
	if (!function) {
		function = find_real(f);
		__atomic_store_n(&real[f], function, __ATOMIC_RELAXED);
	}
	return function;
}

void ggml_barrier(void *threadpool);
void ggml_barrier(void *threadpool)
{
	((void (*)(void *))counted(BARRIER))(threadpool);
}

bool ggml_cpu_extra_compute_forward(void *params, void *tensor);
bool ggml_cpu_extra_compute_forward(void *params, void *tensor)
{
	return ((bool (*)(void *, void *))counted(FORWARD))(params, tensor);
}
