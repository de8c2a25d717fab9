// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls a function of a library as it is told on its standard input, a line each, and says
 * how often:
 *
 *	load FILE         dlopen; the calls that follow are of its called()
 *	unload
 *	call N
 *	threads T N       N calls in each of T threads, all at once
 *	loop T            T threads that call, some 100,000 times a second each, until "stop"
 *	stop
 *	fork MS N         a child that sleeps, then makes N calls
 *	family MS N K     K of them at the same time
 *	vfork MS N FILE   this program again, in a child: loads the file, and as above
 *	exec MS N FILE    the same in this process; the last command
 *	execthread ...    the same, by another thread than the main one
 *	leave             the main thread exits, and another one goes on
 *	quit
 *
 * It begins with "ready". Each line is answered by "ok PID CALLS" when it is done: the calls of the command, in PID.
 * Before that, or before an exec, come the same lines of children with "child" in front.
 */
#include "../program.h"

#define THREADS_MAX 16
#define PAUSE 5000

/* The words of a line behind the first, and the first two as numbers. */
struct args {
	char word[3][256];
	uint64_t n[2];
};

static int (*called)(uint64_t n);
static void *library;
static volatile bool looping;
static pthread_t threads[THREADS_MAX];
static uint64_t counts[THREADS_MAX];
static int n_threads;
static uint64_t calls_each;
static char *self;

static void answer(const char *who, pid_t pid, uint64_t calls)
{
	printf("%s %d %llu\n", who, (int)pid, (unsigned long long)calls);
	fflush(stdout);
}

static uint64_t call_times(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		called(i);
	return n;
}

/* ---- in this process ---- */

static uint64_t load(struct args *a)
{
	library = dlopen(a->word[0], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		die(dlerror());
	*(void **)&called = dlsym(library, "called");
	must(called, "no called()");
	return 0;
}

static uint64_t unload(struct args *a)
{
	(void)a;
	dlclose(library);
	return 0;
}

static uint64_t call(struct args *a)
{
	return call_times(a->n[0]);
}

static void *thread_run(void *arg)
{
	uint64_t *count = arg, n = call_times(calls_each);

	while (looping) {
		called(n++);
		for (volatile int i = 0; i < PAUSE; i++)
			;
	}
	*count = n;
	return NULL;
}

static void threads_start(uint64_t n, uint64_t each)
{
	must(n >= 1 && n <= THREADS_MAX, "threads: 1 to 16");
	n_threads = (int)n;
	calls_each = each;
	for (int i = 0; i < n_threads; i++)
		threads[i] = thread_start(thread_run, &counts[i]);
}

static uint64_t stop(struct args *a)
{
	uint64_t n = 0;

	(void)a;
	looping = false;
	for (int i = 0; i < n_threads; i++) {
		pthread_join(threads[i], NULL);
		n += counts[i];
	}
	n_threads = 0;
	return n;
}

static uint64_t call_threads(struct args *a)
{
	threads_start(a->n[0], a->n[1]);
	return stop(a);
}

static uint64_t loop(struct args *a)
{
	looping = true;
	threads_start(a->n[0], 0);
	return 0;
}

/* ---- in others, and in another image of this one ---- */

static void child_start(const struct args *a)
{
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (!pid) {
		sleep_for(a->n[0] * MS);
		call_times(a->n[1]);
		_exit(0);
	}
	answer("child", pid, a->n[1]);
}

static void child_wait(void)
{
	int status;

	must(wait(&status) >= 0 && !status, "a child failed");
}

static uint64_t fork_child(struct args *a)
{
	child_start(a);
	child_wait();
	return 0;
}

static uint64_t fork_family(struct args *a)
{
	unsigned long k = strtoul(a->word[2], NULL, 10);

	for (unsigned long i = 0; i < k; i++)
		child_start(a);
	for (unsigned long i = 0; i < k; i++)
		child_wait();
	return 0;
}

static void *exec_self(void *arg)
{
	struct args *a = arg;
	char *argv[] = { self, a->word[0], a->word[1], a->word[2], NULL };

	execv(self, argv);
	_exit(127);
}

static uint64_t vfork_child(struct args *a)
{
	pid_t pid = vfork();

	if (!pid)
		exec_self(a);
	child_wait();
	answer("child", pid, a->n[1]);
	return 0;
}

static uint64_t exec_here(struct args *a)
{
	answer("child", getpid(), a->n[1]);
	exec_self(a);
	return 0;
}

static uint64_t exec_thread(struct args *a)
{
	answer("child", getpid(), a->n[1]);
	pthread_join(thread_start(exec_self, a), NULL);
	return 0;
}

static uint64_t quit(struct args *a)
{
	(void)a;
	exit(0);
}

static const struct {
	const char *name;
	uint64_t (*run)(struct args *a);
} commands[] = {
	{ "load", load },
	{ "unload", unload },
	{ "call", call },
	{ "threads", call_threads },
	{ "loop", loop },
	{ "stop", stop },
	{ "fork", fork_child },
	{ "family", fork_family },
	{ "vfork", vfork_child },
	{ "exec", exec_here },
	{ "execthread", exec_thread },
	{ "quit", quit },
};

static bool run(const char *name, struct args *a)
{
	for (size_t i = 0; i < LENGTH(commands); i++) {
		if (strcmp(commands[i].name, name))
			continue;
		answer("ok", getpid(), commands[i].run(a));
		return true;
	}
	return false;
}

/* arg: NULL on the main thread. */
static void *obey(void *arg)
{
	char line[1024], name[32] = "";
	struct args a;

	while (fgets(line, sizeof(line), stdin)) {
		memset(&a, 0, sizeof(a));
		sscanf(line, "%31s %255s %255s %255s", name, a.word[0], a.word[1], a.word[2]);
		for (int i = 0; i < 2; i++)
			a.n[i] = strtoull(a.word[i], NULL, 10);
		if (!strcmp(name, "leave") && !arg)
			return NULL;
		if (!run(name, &a))
			die(line);
	}
	exit(0);
}

int main(int argc, char **argv)
{
	struct args a = { 0 };

	self = argv[0];
	if (argc == 4) { /* the image of vfork and exec */
		snprintf(a.word[0], sizeof(a.word[0]), "%s", argv[3]);
		load(&a);
		sleep_for(strtoull(argv[1], NULL, 10) * MS);
		call_times(strtoull(argv[2], NULL, 10));
		return 0;
	}
	say("ready");
	obey(NULL);
	answer("ok", getpid(), 0);
	thread_start(obey, argv);
	pthread_exit(NULL);
}
