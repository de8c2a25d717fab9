// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls a library as soon as it is there.
 *
 *   hold dlopen LIB N        maps LIB and calls its step N times at once
 *   hold thread LIB N        likewise in a thread, beside others that make system calls
 *   hold cycle LIB N         maps it, calls it once and unmaps it, N times
 *   hold until LIB FILE      cycles until FILE is there
 *   hold_linked linked N     is linked with it
 *   hold_static linked N     has the step in itself, and no loader
 *   hold wait FILE MODE ...  the rest once FILE is there
 *   hold MODE ... stay FILE  ends once FILE is there
 *
 * Prints how often the step was called, its constructor's calls included.
 */
#include "../program.h"

#define OTHERS 3

#ifdef LINKED
int hold_step(int n);
extern int hold_calls;
#else
static atomic_bool over;
static void *lib;

static void *find(const char *name)
{
	void *p = dlsym(lib, name);

	must(p, name);
	return p;
}

static int run(const char *path, int n)
{
	int (*step)(int);

	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	*(void **)&step = find("hold_step");
	for (int i = 0; i < n; i++)
		step(i);
	return *(int *)find("hold_calls");
}

struct job {
	const char *path;
	int n, calls;
};

static void *call_in_thread(void *arg)
{
	struct job *j = arg;

	j->calls = run(j->path, j->n);
	return NULL;
}

static void *make_calls(void *arg)
{
	while (!atomic_load(&over))
		usleep(100);
	return arg;
}

static int in_thread(const char *path, int n)
{
	struct job j = { path, n, 0 };
	pthread_t others[OTHERS];

	for (int i = 0; i < OTHERS; i++)
		others[i] = thread_start(make_calls, NULL);
	pthread_join(thread_start(call_in_thread, &j), NULL);
	atomic_store(&over, true);
	threads_join(others, OTHERS);
	return j.calls;
}
#endif

int main(int argc, char **argv)
{
	const char *mode, *stay = NULL;
	int calls = -1;

	if (argc > 3 && !strcmp(argv[1], "wait")) {
		while (access(argv[2], F_OK))
			usleep(1000);
		argv += 2;
		argc -= 2;
	}
	if (argc > 3 && !strcmp(argv[argc - 2], "stay")) {
		stay = argv[argc - 1];
		argc -= 2;
	}
	mode = argc > 2 ? argv[1] : "";
#ifdef LINKED
	if (!strcmp(mode, "linked")) {
		for (int i = 0; i < atoi(argv[2]); i++)
			hold_step(i);
		calls = hold_calls;
	}
#else
	if (!strcmp(mode, "dlopen") && argc > 3) {
		calls = run(argv[2], atoi(argv[3]));
	} else if (!strcmp(mode, "thread") && argc > 3) {
		calls = in_thread(argv[2], atoi(argv[3]));
	} else if (!strcmp(mode, "cycle") && argc > 3) {
		calls = 0;
		for (int i = 0; i < atoi(argv[3]); i++) {
			calls += run(argv[2], 1);
			dlclose(lib);
		}
	} else if (!strcmp(mode, "until") && argc > 3) {
		for (calls = 0; access(argv[3], F_OK);) {
			calls += run(argv[2], 1);
			dlclose(lib);
		}
	}
#endif
	if (calls < 0) {
		fprintf(stderr, "hold: wrong arguments\n");
		return 2;
	}
	while (stay && access(stay, F_OK))
		usleep(1000);
	printf("%d\n", calls);
	return 7;
}
