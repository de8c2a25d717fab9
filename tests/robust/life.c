// SPDX-License-Identifier: BSD-2-Clause
/*
 * What can happen in the life of a traced process, one case a run:
 *
 *   life stop                 a child stops and continues it
 *   life exec | exec-thread   from its only thread; from another than the leader, while more run
 *   life churn N | crowd N    N threads one after the other; at the same time
 *   life leader               its main thread ends first
 *   life tree DEPTH FANOUT    processes that fork
 *   life daemon FILE          ends with 7 in the foreground, continues in the background and creates FILE at its end
 *   life die SIGNAL           kills itself
 *   life handler | altstack   a signal handler interrupts probed functions, on their stack or not
 *   life longjmp N            leaves probed functions N times without a return
 *   life recurse N            a probed function calls itself N deep
 *
 * Each thread and process makes CALLS getppid calls. Those that can print one JSON line about
 * what they did.
 */
#include "../program.h"

#include <setjmp.h>
#include <sys/time.h>

#define CALLS 10
#define SIGNALS 200

static void make_calls(void)
{
	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
}

/* ---- functions to probe: not inlined, not merged, and no call in tail position ---- */

static jmp_buf back;
static volatile bool jump;
static volatile long outer_calls, inner_calls, leaf_calls;

static __attribute__((noinline, noipa)) int life_leaf(int n)
{
	leaf_calls++;
	return n;
}

static __attribute__((noinline, noipa)) int life_inner(int n)
{
	inner_calls++;
	if (jump)
		longjmp(back, 1);
	for (volatile int i = 0; i < 5000; i++)
		n += i;
	return n;
}

static __attribute__((noinline, noipa)) int life_outer(int n)
{
	outer_calls++;
	return life_inner(n) + life_inner(n);
}

static __attribute__((noinline, noipa)) int life_recurse(int n)
{
	volatile int below = n > 1 ? life_recurse(n - 1) : 0; /* or it becomes a loop */

	return below + 1;
}

/* ---- stopped ---- */

static bool is_stopped(pid_t pid)
{
	char path[64], text[256] = "", *state;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY);
	must(fd >= 0 && read(fd, text, sizeof(text) - 1) >= 0, path);
	close(fd);
	state = strrchr(text, ')');
	return state && state[2] == 'T';
}

static pid_t fork_off(void)
{
	pid_t child = fork();

	must(child >= 0, "fork");
	return child;
}

static int do_stop(void)
{
	struct shared {
		atomic_bool done;
		uint64_t stop[2], cont[2];
	} *s = pages_map(sizeof(*s), MAP_SHARED);
	pid_t me = getpid(), child = fork_off();

	if (!child) {
		s->stop[0] = clock_ns(CLOCK_BOOTTIME);
		kill(me, SIGSTOP);
		while (!is_stopped(me))
			usleep(1000);
		s->stop[1] = clock_ns(CLOCK_BOOTTIME);
		usleep(100000);
		s->cont[0] = clock_ns(CLOCK_BOOTTIME);
		kill(me, SIGCONT);
		s->cont[1] = clock_ns(CLOCK_BOOTTIME);
		s->done = true;
		_exit(0);
	}
	while (!s->done)
		make_calls();
	waitpid(child, NULL, 0);
	printf("{\"tid\":%d,\"stop\":[%lu,%lu],\"cont\":[%lu,%lu]}\n", me, s->stop[0], s->stop[1], s->cont[0], s->cont[1]);
	return 0;
}

/* ---- exec ---- */

static char **self;

static void exec_self(void)
{
	execl("/proc/self/exe", self[0], "after-exec", (char *)NULL);
	die("exec");
}

static void *call_for_ever(void *arg)
{
	for (;;)
		make_calls();
	return arg;
}

static void *exec_later(void *arg)
{
	usleep(20000);
	make_calls();
	exec_self();
	return arg;
}

static void do_exec_thread(void)
{
	thread_start(call_for_ever, NULL);
	thread_start(call_for_ever, NULL);
	thread_start(exec_later, NULL);
	for (;;)
		life_outer(1);
}

/* ---- threads ---- */

static pthread_barrier_t all_there;

static void *thread_calls(void *arg)
{
	if (arg)
		pthread_barrier_wait(arg);
	make_calls();
	return NULL;
}

static int do_churn(long n)
{
	for (long i = 0; i < n; i++)
		pthread_join(thread_start(thread_calls, NULL), NULL);
	printf("{\"threads\":%ld,\"calls\":%ld}\n", n, n * CALLS);
	return 0;
}

static int do_crowd(long n)
{
	pthread_t *ids = calloc((size_t)n, sizeof(*ids));

	must(ids, "calloc");
	pthread_barrier_init(&all_there, NULL, (unsigned int)n);
	for (long i = 0; i < n; i++)
		ids[i] = thread_start(thread_calls, &all_there);
	threads_join(ids, (size_t)n);
	printf("{\"threads\":%ld,\"calls\":%ld}\n", n, n * CALLS);
	free(ids);
	return 0;
}

static void *end_last(void *arg)
{
	/* longer than the recorder takes to look whether its targets are alive */
	for (int i = 0; i < 15; i++)
		usleep(100000);
	make_calls();
	return arg;
}

static void do_leader(void)
{
	make_calls();
	thread_start(end_last, NULL);
	pthread_exit(NULL);
}

/* ---- processes ---- */

static void grow_tree(long depth, long fanout)
{
	make_calls();
	for (long i = 0; i < fanout && depth; i++) {
		if (!fork_off()) {
			grow_tree(depth - 1, fanout);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
}

static int do_tree(long depth, long fanout)
{
	long n = 1, level = 1;

	for (long i = 0; i < depth; i++) {
		level *= fanout;
		n += level;
	}
	grow_tree(depth, fanout);
	printf("{\"processes\":%ld,\"calls\":%ld}\n", n, n * CALLS);
	return 0;
}

static int do_daemon(const char *path)
{
	if (fork_off())
		return 7;
	setsid();
	if (fork())
		_exit(0);
	usleep(300000);
	make_calls();
	close(open(path, O_WRONLY | O_CREAT, 0666));
	return 0;
}

/* ---- functions that do not simply return ---- */

static volatile sig_atomic_t signals;

static void on_alarm(int sig)
{
	(void)sig;
	signals++;
	life_leaf(1);
}

static int do_handler(bool altstack)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval it = { { 0, 500 }, { 0, 500 } };

	if (altstack) {
		/* between the heap and the stack of the main thread: below every frame */
		stack_t st = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };

		must(st.ss_sp && !sigaltstack(&st, NULL), "sigaltstack");
		sa.sa_flags |= SA_ONSTACK;
	}
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
	while (signals < SIGNALS)
		life_outer(1);
	it = (struct itimerval){};
	setitimer(ITIMER_REAL, &it, NULL);
	return 0;
}

static int do_longjmp(long n)
{
	volatile long i;

	for (i = 0; i < n; i++) {
		jump = true;
		if (!setjmp(back))
			life_outer(1);
		jump = false;
		if (i % 3 == 0) /* now and then several are left before the next returns */
			life_outer(1);
	}
	life_leaf(1);
	return 0;
}

static int do_recurse(long n)
{
	for (int i = 0; i < CALLS; i++) {
		life_recurse((int)n);
		life_leaf(1);
	}
	return 0;
}

static int print_calls(int code)
{
	printf("{\"outer\":%ld,\"inner\":%ld,\"leaf\":%ld}\n", outer_calls, inner_calls, leaf_calls);
	return code;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	long n = argc > 2 ? atol(argv[2]) : 0;

	self = argv;
	if (!strcmp(mode, "stop"))
		return do_stop();
	if (!strcmp(mode, "after-exec")) {
		make_calls();
		return 0;
	}
	if (!strcmp(mode, "exec")) {
		make_calls();
		exec_self();
	}
	if (!strcmp(mode, "exec-thread"))
		do_exec_thread();
	if (!strcmp(mode, "churn"))
		return do_churn(n);
	if (!strcmp(mode, "crowd"))
		return do_crowd(n);
	if (!strcmp(mode, "leader"))
		do_leader();
	if (!strcmp(mode, "tree"))
		return do_tree(n, argc > 3 ? atol(argv[3]) : 1);
	if (!strcmp(mode, "daemon") && argc > 2)
		return do_daemon(argv[2]);
	if (!strcmp(mode, "die"))
		return raise((int)n);
	if (!strcmp(mode, "handler") || !strcmp(mode, "altstack"))
		return print_calls(do_handler(mode[0] == 'a'));
	if (!strcmp(mode, "longjmp"))
		return print_calls(do_longjmp(n));
	if (!strcmp(mode, "recurse"))
		return print_calls(do_recurse(n));
	fprintf(stderr, "life: no such case: %s\n", mode);
	return 2;
}
