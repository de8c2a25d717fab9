// SPDX-License-Identifier: BSD-2-Clause
/*
 * Does with a function of a library whatever a program can do with it, while hooks are placed and removed.
 *
 *	hooked LIBRARY THREADS ROUNDS [wild|probed]	probed: it may have probes on returns, where backtraces end
 *		wild: likewise; without an end, also in handlers of signals that come at any time
 *
 * Prints how often it was called by the main program, and came back or was left by a longjmp(). Whatever goes wrong ends it with 1.
 */
#include "../program.h"

#include "hooked_lib.h"

#include <execinfo.h>
#include <setjmp.h>
#include <spawn.h>
#include <sys/time.h>

#define THREADS_MAX 64

static atomic_ulong calls;
static atomic_int stopped;
static unsigned long rounds;
static bool wild, probed;
static const char *there; /* the other library */
static __thread jmp_buf out;

void turn(unsigned long *done, int n);

static void expect_sums(struct sums s)
{
	must(s.x == 204 && s.n == 55, "a result is wrong");
}

static void call(struct place *p)
{
	struct sums s;

	errno = ERANGE;
	s = meet(p, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 7, 8);
	must(errno == ERANGE, "errno has changed");
	expect_sums(s);
}

static void jump_out(void *arg)
{
	longjmp(*(jmp_buf *)arg, 1);
}

static void exit_thread(void *arg)
{
	pthread_exit(arg);
}

static void nest(void *arg)
{
	struct place p = { NULL, NULL };

	(void)arg;
	call(&p);
	atomic_fetch_add(&calls, 1);
}

static void trace_back(void *arg)
{
	void *frames[64];

	(void)arg;
	int n = backtrace(frames, LENGTH(frames));

	/* a probe on a return, of any process, has it end in the kernel's trampoline, at the start of a page */
	if (n <= 4 && !probed && (n < 1 || (uintptr_t)frames[n - 1] % 4096)) {
		backtrace_symbols_fd(frames, n, STDERR_FILENO);
		die("a backtrace ends within a hook");
	}
}

static void raise_one(void *arg)
{
	(void)arg;
	raise(SIGUSR1);
}

static void on_signal(int sig)
{
	int before = errno;

	(void)sig;
	nest(NULL);
	errno = before;
}

static void fork_one(void)
{
	struct place p = { NULL, NULL };
	int status;
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (!pid) {
		alarm(10);
		for (int i = 0; i < 100; i++)
			call(&p);
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid && !status, "a forked child");
}

static void run_one(void)
{
	char *argv[] = { "true", NULL };
	int status;
	pid_t pid;

	must(!posix_spawn(&pid, "/bin/true", NULL, NULL, argv, NULL), "posix_spawn");
	must(waitpid(pid, &status, 0) == pid && !status, "a program that was run");
}

/* The other library comes and goes: what is placed in it goes with it. */
static void load_one(void)
{
	struct place p = { NULL, NULL };
	void *library = dlopen(there, RTLD_LAZY);
	struct sums (*function)(struct place *);

	must(library, "dlopen");
	function = (struct sums(*)(struct place *))dlsym(library, "meet_there");
	must(function, "dlsym");
	for (int i = 0; i < 10; i++)
		expect_sums(function(&p));
	dlclose(library);
}

/* A round of thread n. Returns whether the thread ends in it. */
static bool round_do(unsigned long i)
{
	struct place plain = { NULL, NULL }, p = { NULL, NULL };

	switch (i % 16) {
	case 0:
		p.within = i % 3 ? nest : trace_back;
		break;
	case 1:
		p.within = raise_one;
		break;
	case 2:
		p = (struct place){ jump_out, &out };
		if (!setjmp(out))
			call(&p);
		atomic_fetch_add(&calls, 1);
		return false;
	case 3:
		if (i % 256 == 3)
			fork_one();
		if (i % 256 == 19)
			run_one();
		if (wild && i % 64 == 35) /* it depends on the time which of these calls are seen */
			load_one();
		break;
	case 4:
		p = (struct place){ exit_thread, NULL };
		if (i % 128 == 4)
			call(&p);
		break;
	default:
		break;
	}
	call(p.within == exit_thread ? &plain : &p);
	atomic_fetch_add(&calls, 1);
	return false;
}

static void *thread_run(void *arg)
{
	unsigned long *i = arg;

	for (; (wild || *i < rounds) && !atomic_load(&stopped);)
		if (round_do((*i)++))
			break;
	return NULL;
}

__attribute__((noipa)) void turn(unsigned long *done, int n)
{
	pthread_t threads[THREADS_MAX];

	for (int k = 0; k < n; k++)
		threads[k] = thread_start(thread_run, &done[k]);
	threads_join(threads, (size_t)n);
}

static void on_stop(int sig)
{
	(void)sig;
	atomic_store(&stopped, 1);
}

int main(int argc, char **argv)
{
	static unsigned long done[THREADS_MAX];
	const struct itimerval timer = { { 0, 700 }, { 0, 700 } };
	bool more = true;
	int n;

	must(argc > 3, "hooked LIBRARY THREADS ROUNDS [wild|probed]");
	there = argv[1];
	n = atoi(argv[2]);
	rounds = strtoul(argv[3], NULL, 10);
	probed = argc > 4;
	wild = probed && !strcmp(argv[4], "wild");
	must(n > 0 && n <= THREADS_MAX, "THREADS");
	signal(SIGUSR1, on_signal);
	signal(SIGTERM, on_stop);
	line_wait();
	if (wild) {
		signal(SIGALRM, on_signal);
		setitimer(ITIMER_REAL, &timer, NULL);
	}
	/* threads that have exited within the function are replaced */
	while (more && !atomic_load(&stopped)) {
		turn(done, n);
		more = wild;
		for (int k = 0; k < n; k++)
			more |= done[k] < rounds;
	}
	printf("{\"calls\": %lu}\n", atomic_load(&calls));
	return 0;
}
