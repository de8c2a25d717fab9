// SPDX-License-Identifier: BSD-2-Clause
/*
 * Spends time in every state of a thread, one state per call of work(), and prints for each call the
 * least time that it was in that state, as another thread saw it.
 *
 *	states FILE
 *
 * The other thread waits until /proc says that the first one is off CPU, reads the clock, waits
 * HOLD_MS, reads the clock again, and makes sure that the first was asleep all along. FILE is created
 * for locks.
 */
#include "section.h"

#include <arpa/inet.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>

#define HOLD_MS 15
#define SLEEP_MS 50 /* with HOLD_MS in its middle */
#define SPIN_NS 20000000
#define TRIES 20

/* X(KIND, its name, the state that the thread is then in) */
#define EACH_KIND(X)                         \
	X(SLEEP, "sleep", "blocked_sleep")   \
	X(FUTEX, "futex", "blocked_futex")   \
	X(PIPE, "pipe", "blocked_ipc")       \
	X(EVENTFD, "eventfd", "blocked_ipc") \
	X(UNIX, "unix", "blocked_ipc")       \
	X(TCP, "tcp", "blocked_net")         \
	X(POLL, "poll", "blocked_poll")      \
	X(EPOLL, "epoll", "blocked_poll")    \
	X(LOCK, "lock", "blocked_io")        \
	X(CHILD, "child", "blocked_other")   \
	X(FAULT, "fault", "blocked_fault")   \
	X(STOP, "stop", "stopped")           \
	X(GPU, "gpu", "gpu_wait")            \
	X(BARRIER, "barrier", "barrier")     \
	X(CPU, "cpu", "cpu")                 \
	X(CALL, "call", "syscall")           \
	X(CONTENDED, "contended", "runnable") /* the last: on one CPU from here on */

#define KIND(kind, name, state) kind,
#define KIND_NAMES(kind, name, state) { name, state },
enum kind { EACH_KIND(KIND) KINDS };
static const struct {
	const char *name, *state;
} kinds[] = { EACH_KIND(KIND_NAMES) };

/* Shared by main, which is watched, its watcher thread, and the child that stops both. */
static struct shared {
	atomic_int doing;    /* 0: nothing yet; 1: main is at it; 2: it is done */
	atomic_int released; /* of a spinning main */
	atomic_long held_ns; /* -1: not known yet; 0: it was on CPU at some time */
} * shared;

static int main_tid, pipes[2], events, unixes[2], tcps[2], locks[2], epoll, uffd = -1;
static size_t page;
static char *fault_page, *random_area;
static pid_t child;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t inner_ns, cpu_ns, delay_ns;
static int schedstat_fd;

void work(int kind, int seq);
void gpu_sync(void);
void barrier_spin(void);

/* Reads a byte, or the eight of an eventfd. */
static void data_read(int fd)
{
	char c[8];

	must(read(fd, c, sizeof(c)) > 0, "read");
}

/* ---- what main does ---- */

static void poll_pipe(void)
{
	struct pollfd pfd = { .fd = pipes[0], .events = POLLIN };

	must(ppoll(&pfd, 1, NULL, NULL) == 1, "ppoll");
}

__attribute__((noipa)) void gpu_sync(void)
{
	poll_pipe();
}

__attribute__((noipa)) void barrier_spin(void)
{
	/* before the loop, so that it does not jump back to the function's first instruction */
	atomic_int *released = &shared->released;

	shared->doing = 1;
	while (!*released)
		;
}

/* Returns the ns that the thread has waited for a CPU: the second number of schedstat. */
static uint64_t run_delay(void)
{
	char text[128];
	unsigned long long on = 0, delay = 0;
	ssize_t n = pread(schedstat_fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	sscanf(text, "%llu %llu", &on, &delay);
	return delay;
}

static void spin(void)
{
	uint64_t delay = run_delay(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	spin_for(CLOCK_MONOTONIC, SPIN_NS);
	cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	delay_ns = run_delay() - delay;
}

static void kind_do(enum kind kind)
{
	struct epoll_event ev;

	switch (kind) {
	case SLEEP:
		sleep_for(SLEEP_MS * MS);
		break;
	case FUTEX:
		pthread_mutex_lock(&mutex);
		break;
	case PIPE:
		data_read(pipes[0]);
		break;
	case EVENTFD:
		data_read(events);
		break;
	case UNIX:
		data_read(unixes[0]);
		break;
	case TCP:
		data_read(tcps[0]);
		break;
	case POLL:
		poll_pipe();
		break;
	case EPOLL:
		must(epoll_wait(epoll, &ev, 1, -1) == 1, "epoll_wait");
		break;
	case LOCK:
		must(!flock(locks[0], LOCK_EX), "flock");
		break;
	case CHILD:
		must(waitpid(child, NULL, 0) == child, "waitpid");
		break;
	case FAULT:
		*(volatile char *)fault_page = 1;
		break;
	case STOP:
		while (!shared->released)
			;
		break;
	case BARRIER:
		barrier_spin();
		break;
	case GPU:
		gpu_sync();
		break;
	case CPU:
	case CONTENDED:
		spin();
		break;
	case CALL:
		must(getrandom(random_area, 4 << 20, 0) > 0, "getrandom");
		break;
	default:
		break;
	}
}

__attribute__((noipa)) void work(int kind, int seq)
{
	uint64_t start = clock_ns(CLOCK_BOOTTIME);

	__asm__ volatile("" : : "r"(seq));
	if (kind != BARRIER) /* a barrier is watched from within its function */
		shared->doing = 1;
	kind_do((enum kind)kind);
	inner_ns = clock_ns(CLOCK_BOOTTIME) - start;
}

/* ---- what the watcher does ---- */

/* Ends what main waits for. */
static void release(enum kind kind)
{
	struct uffdio_zeropage z = { .range = { .start = (uintptr_t)fault_page, .len = page } };
	const uint64_t one = 1;
	int fd = -1;

	switch (kind) {
	case FUTEX:
		pthread_mutex_unlock(&mutex);
		return;
	case PIPE:
	case POLL:
	case EPOLL:
	case GPU:
	case CHILD:
		fd = pipes[1];
		break;
	case EVENTFD:
		fd = events;
		break;
	case UNIX:
		fd = unixes[1];
		break;
	case TCP:
		fd = tcps[1];
		break;
	case LOCK:
		flock(locks[1], LOCK_UN);
		return;
	case FAULT:
		must(!ioctl(uffd, UFFDIO_ZEROPAGE, &z), "UFFDIO_ZEROPAGE");
		return;
	case STOP:
		kill(getppid(), SIGCONT);
		shared->released = 1;
		return;
	default:
		return;
	}
	must(write(fd, &one, sizeof(one)) == sizeof(one), "write");
}

/* Waits until main's state is one of these letters; returns how long it was certainly off CPU. */
static long hold(int status_fd, const char *letters)
{
	struct usage before, after;
	uint64_t start, end;

	while (!strchr(letters, status_read(status_fd, &before)) && shared->doing == 1)
		sched_yield();
	start = clock_ns(CLOCK_BOOTTIME);
	sleep_for(HOLD_MS * MS);
	end = clock_ns(CLOCK_BOOTTIME);
	if (!strchr(letters, status_read(status_fd, &after)) ||
		after.voluntary != before.voluntary || after.involuntary != before.involuntary)
		return 0;
	return (long)(end - start);
}

/* For a spinning main: it is held from its begin until it is released. */
static long hold_spinning(void)
{
	uint64_t start = clock_ns(CLOCK_BOOTTIME);
	long held;

	sleep_for(HOLD_MS * MS);
	held = (long)(clock_ns(CLOCK_BOOTTIME) - start);
	shared->released = 1;
	return held;
}

static void compete(void)
{
	while (shared->doing == 1)
		;
}

static void *watcher_run(void *arg)
{
	enum kind kind = *(enum kind *)arg;
	int status_fd = status_open(main_tid);
	long held = 0;

	while (!shared->doing)
		sched_yield();
	if (kind == BARRIER) {
		held = hold_spinning();
	} else if (kind == CONTENDED) {
		compete();
	} else if (kind != CPU && kind != CALL && kind != STOP) {
		held = hold(status_fd, "SD");
		release(kind);
	}
	if (kind != STOP)
		shared->held_ns = held;
	close(status_fd);
	return NULL;
}

/* A process of its own: SIGSTOP stops the watcher as well. */
static void stopper_run(void)
{
	int fd = status_open(getppid());

	while (!shared->doing)
		sched_yield();
	kill(getppid(), SIGSTOP);
	shared->held_ns = hold(fd, "T");
	release(STOP);
	_exit(0);
}

/* ---- preparation ---- */

/* Makes faults on fault_page wait until somebody fills it. False: not allowed here. */
static bool uffd_open(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd < 0)
		return false;
	reg.range.start = (uintptr_t)fault_page;
	reg.range.len = page;
	return !ioctl(uffd, UFFDIO_API, &api) && !ioctl(uffd, UFFDIO_REGISTER, &reg);
}

static void prepare(const char *path)
{
	struct epoll_event ev = { .events = EPOLLIN };

	main_tid = getpid();
	page = (size_t)sysconf(_SC_PAGESIZE);
	fault_page = pages_map(page, MAP_PRIVATE);
	random_area = pages_map(4 << 20, MAP_PRIVATE | MAP_POPULATE);
	shared = pages_map(sizeof(*shared), MAP_SHARED);
	events = eventfd(0, EFD_CLOEXEC);
	locks[0] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	locks[1] = open(path, O_RDWR | O_CLOEXEC);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	if (pipe2(pipes, O_CLOEXEC) || events < 0 || locks[0] < 0 || locks[1] < 0 || epoll < 0 ||
		socketpair(AF_UNIX, SOCK_STREAM, 0, unixes) ||
		epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &ev))
		die("files");
	tcp_pair(tcps);
}

/* Called before the watcher starts. */
static void kind_prepare(enum kind kind)
{
	must(kind != LOCK || (!flock(locks[0], LOCK_UN) && !flock(locks[1], LOCK_EX)), "flock");
	must(kind != FAULT || !madvise(fault_page, page, MADV_DONTNEED), "madvise");
	if (kind == CONTENDED)
		pin_thread();
	if (kind != CHILD && kind != STOP)
		return;
	child = fork();
	if (child)
		return;
	if (kind == STOP)
		stopper_run();
	data_read(pipes[0]);
	_exit(0);
}

static void kind_clean(enum kind kind)
{
	if (kind == POLL || kind == EPOLL || kind == GPU)
		data_read(pipes[0]);
	if (kind == FUTEX)
		pthread_mutex_unlock(&mutex);
	if (kind == STOP)
		waitpid(child, NULL, 0);
}

/* Locks the mutex before it begins to watch. */
static void *locker_run(void *arg)
{
	pthread_mutex_lock(&mutex);
	shared->released = 1;
	return watcher_run(arg);
}

/* Returns whether the watcher is certain of what it saw. */
static bool kind_run(enum kind kind, int seq, uint64_t *ret_outer_ns)
{
	pthread_t watcher;
	uint64_t start;

	shared->doing = 0;
	shared->released = 0;
	shared->held_ns = -1;
	inner_ns = cpu_ns = delay_ns = 0;
	kind_prepare(kind);
	watcher = thread_start(kind == FUTEX ? locker_run : watcher_run, &kind);
	while (kind == FUTEX && !shared->released)
		sched_yield();
	start = clock_ns(CLOCK_BOOTTIME);
	work((int)kind, seq);
	*ret_outer_ns = clock_ns(CLOCK_BOOTTIME) - start;
	shared->doing = 2;
	pthread_join(watcher, NULL);
	kind_clean(kind);
	return shared->held_ns || kind == CPU || kind == CONTENDED || kind == CALL;
}

static void kind_print(enum kind kind, int seq, uint64_t outer_ns)
{
	printf("{\"kind\":\"%s\",\"seq\":%d,\"state\":\"%s\",\"held_ns\":%ld,\"inner_ns\":%lu,"
	       "\"outer_ns\":%lu,\"cpu_ns\":%lu,\"delay_ns\":%lu}\n",
		kinds[kind].name, seq, kinds[kind].state, shared->held_ns, inner_ns, outer_ns,
		cpu_ns, delay_ns);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	uint64_t outer_ns;
	int kind, seq = 0, tries;

	if (argc != 2) {
		fputs("Usage: states FILE\n", stderr);
		return 2;
	}
	prepare(argv[1]);
	/* the first return through a probe takes page faults */
	work(KINDS, seq++);
	for (kind = 0; kind < KINDS; kind++) {
		if (kind == FAULT && !uffd_open()) {
			printf("{\"skipped\":\"fault\",\"why\":\"userfaultfd: %s\"}\n",
				strerror(errno));
			continue;
		}
		for (tries = 0; tries < TRIES && !kind_run((enum kind)kind, seq, &outer_ns);
			tries++)
			seq++;
		if (tries == TRIES) {
			fprintf(stderr, "states: %s: never held\n", kinds[kind].name);
			return 1;
		}
		kind_print((enum kind)kind, seq++, outer_ns);
	}
	return 0;
}
