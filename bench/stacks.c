// SPDX-License-Identifier: BSD-2-Clause
/*
 * What it costs to make a stack of a sample: stacks PID [SAMPLES [print]]. Stops the threads of the process in turns for copies of
 * their stacks, as the BPF programs would make them, and unwinds these: once, when everything has to be looked up, and
 * many times again. Prints microseconds of CPU per sample, how far the stacks go, and memory.
 */
#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define assert_int_equal(a, b) assert((a) == (b))
#define assert_true(a) assert(a)
#define assert_non_null(a) assert(a)
#include "../tests/unit/stack_sample.h"

#include "stack/stack.h"

#define THREADS_MAX 64
#define ROUNDS 50

struct sample {
	struct rec_sample *r;
	size_t size;
};

static double cpu_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static size_t list_threads(pid_t pid, pid_t tids[THREADS_MAX])
{
	struct dirent *d;
	char path[64];
	size_t n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && n < THREADS_MAX && (d = readdir(dir))) {
		if (d->d_name[0] != '.')
			tids[n++] = atoi(d->d_name);
	}
	if (dir)
		closedir(dir);
	return n;
}

static void take_all(struct stacks *s, const struct sample *samples, size_t n)
{
	for (size_t i = 0; i < n; i++)
		stacks_take(s, samples[i].r, samples[i].size);
}

int main(int argc, char **argv)
{
	pid_t pid = argc > 1 ? atoi(argv[1]) : 0, tids[THREADS_MAX];
	size_t n = argc > 2 ? (size_t)atoi(argv[2]) : 300, threads = list_threads(pid, tids), frames = 0, bytes = 0;
	const struct stacks_config config = { 0 };
	struct sample *samples = calloc(n, sizeof(*samples));
	struct stacks_stats st;
	struct stacks *s;
	double start, cold, warm;
	uint64_t cold_ns;

	if (!threads || !samples || stacks_new(&config, &s)) {
		fprintf(stderr, "usage: stacks PID [SAMPLES]\n");
		return 2;
	}
	for (size_t i = 0; i < n; i++) {
		do {
			threads = list_threads(pid, tids);
			if (!threads) {
				fprintf(stderr, "%d: ended after %zu samples\n", pid, i);
				return 1;
			}
			samples[i].r = sample_take(pid, tids[i % threads], &samples[i].size);
		} while (!samples[i].r);
		bytes += samples[i].r->stack_bytes;
		usleep(2000);
	}
	start = cpu_us();
	take_all(s, samples, n);
	cold = cpu_us() - start;
	stacks_stats(s, &st);
	cold_ns = st.ns;
	start = cpu_us();
	for (int i = 0; i < ROUNDS; i++)
		take_all(s, samples, n);
	warm = cpu_us() - start;
	for (size_t i = 0; i < n; i++) {
		const uint32_t *ids;

		frames += stacks_get(s, stacks_take(s, samples[i].r, samples[i].size), &ids);
	}
	stacks_stats(s, &st);
	printf("samples %zu of %zu threads, %.0f bytes each, %.1f frames each\n", n, threads, (double)bytes / (double)n,
		(double)frames / (double)n);
	printf("to the start of the thread %.2f %%, cut %.2f %%, broken %.2f %%\n", 100 * (double)st.complete / (double)st.user,
		100 * (double)st.cut / (double)st.user, 100 * (double)st.broken / (double)st.user);
	printf("first time %.1f us (by the clock, with the process that reads files, %.1f us), again %.2f us\n", cold / (double)n,
		(double)cold_ns / 1e3 / (double)n, warm / (double)n / ROUNDS);
	for (uint32_t i = 0; argc > 3 && i < st.stacks; i++) {
		const uint32_t *ids;
		unsigned int depth = stacks_get(s, i, &ids);

		for (unsigned int k = 0; k < depth; k++)
			printf("%s%s", k ? ";" : "", stacks_frame(s, ids[k])->name);
		printf("\n");
	}
	printf("files %lu (%lu could not be read), lookups %lu, stacks %u, frames %u, memory %zu KB\n", st.files, st.files_failed,
		st.lookups, st.stacks, st.frames, st.memory >> 10);
	printf("reader: ");
	fflush(stdout);
	if (system("grep -h VmRSS $(grep -lx 'Name:\tinftrace-stack' /proc/[0-9]*/status) | tr '\\n' ' '"))
		printf("?");
	printf("\n");
	stacks_free(s);
	return 0;
}
