// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes a known number of system calls of many kinds, and prints how many (section.h).
 *
 *	syscalls single | threads | signals | spawn [-w]
 *
 * single: every call from the main thread, most kinds of results and errors
 * threads: four threads at once, with a hand-over between them in every round
 * signals: calls that a signal interrupts, with and without restart; a stop and a continue
 * spawn: children by vfork, posix_spawn and fork, and an exec by a thread other than the first
 *
 * A second run makes the same calls, except for those that poll for another thread or process: they
 * are printed as "variable". -w waits for a line on stdin first.
 */
#include "section.h"

#include <linux/futex.h>
#include <poll.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>

#define THREADS 4
#define ROUNDS 50
#define CROWD 20 /* children at once */
#define NO_SUCH_CALL 999

static const struct timespec ms = { .tv_nsec = 1000000 };

/* Calls whose number depends on timing, in all processes, and the progress of the awaited one. */
static struct shared {
	atomic_long pread64, nanosleep, tgkill;
	atomic_int stage;
} * shared;
static pid_t pid;

static void pause_counted(void)
{
	shared->nanosleep++;
	syscall(SYS_nanosleep, &ms, NULL);
}

static char state_counted(int status_fd)
{
	struct usage u;

	shared->pread64++;
	return status_read(status_fd, &u);
}

/* Waits until a thread that has announced its sleep is asleep. */
static void sleep_wait(int status_fd)
{
	while (state_counted(status_fd) != 'S')
		pause_counted();
}

/* ---- single ---- */

static void files_call(struct section *s)
{
	struct iovec iov[2];
	struct stat st;
	char buf[64] = "";
	int fd, copy, i;

	fd = (int)CALL(s, openat, AT_FDCWD, "/dev/zero", O_RDWR | O_CLOEXEC);
	for (i = 0; i < 20; i++) {
		CALL(s, read, fd, buf, sizeof(buf));
		CALL(s, write, fd, buf, 40);
	}
	iov[0] = iov[1] = (struct iovec){ .iov_base = buf, .iov_len = 32 };
	CALL(s, readv, fd, iov, 2);
	CALL(s, writev, fd, iov, 2);
	CALL(s, pread64, fd, buf, 8, 0);
	CALL(s, pwrite64, fd, buf, 8, 0);
	CALL(s, lseek, fd, 0, SEEK_SET);
	CALL(s, fcntl, fd, F_GETFD);
	CALL(s, ioctl, fd, 0x5401 /* TCGETS: not a terminal */, buf);
	CALL(s, fstat, fd, &st);
	copy = (int)CALL(s, dup, fd);
	CALL(s, close, copy);
	CALL(s, close, fd);
	CALL(s, read, fd, buf, 1);
	CALL(s, close, -1);
	for (i = 0; i < 3; i++)
		CALL(s, openat, AT_FDCWD, "/nonexistent", O_RDONLY);
	CALL(s, faccessat, AT_FDCWD, "/", R_OK);
	CALL(s, readlinkat, AT_FDCWD, "/", buf, sizeof(buf));
	CALL(s, newfstatat, AT_FDCWD, "/nonexistent", &st, 0);
	CALL(s, getdents64, -1, buf, sizeof(buf));
}

static void ipc_call(struct section *s)
{
	struct sockaddr_un nobody = { .sun_family = AF_UNIX, .sun_path = "\0inftrace-nobody" };
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd pfd = { .events = POLLIN };
	uint64_t one = 1;
	int p[2], fd, i;
	char c = 0;

	CALL(s, pipe2, p, O_NONBLOCK | O_CLOEXEC);
	for (i = 0; i < 5; i++) {
		CALL(s, write, p[1], &c, 1);
		CALL(s, read, p[0], &c, 1);
	}
	CALL(s, read, p[0], &c, 1); /* EAGAIN */
	CALL(s, write, p[0], &c, 1);
	pfd.fd = p[0];
	CALL(s, ppoll, &pfd, 1, &ms, NULL, 8);
	fd = (int)CALL(s, epoll_create1, EPOLL_CLOEXEC);
	CALL(s, epoll_ctl, fd, EPOLL_CTL_ADD, p[0], &ev);
	CALL(s, epoll_ctl, fd, EPOLL_CTL_ADD, p[0], &ev); /* EEXIST */
	CALL(s, epoll_pwait, fd, &ev, 1, 1, NULL, 8);
	CALL(s, close, fd);
	CALL(s, close, p[0]);
	CALL(s, write, p[1], &c, 1); /* EPIPE: SIGPIPE is ignored */
	CALL(s, close, p[1]);
	fd = (int)CALL(s, eventfd2, 0, 0);
	CALL(s, write, fd, &one, 8);
	CALL(s, read, fd, &one, 8);
	CALL(s, close, fd);
	CALL(s, socketpair, AF_UNIX, SOCK_STREAM, 0, p);
	CALL(s, sendto, p[0], &c, 1, 0, NULL, 0);
	CALL(s, recvfrom, p[1], &c, 1, 0, NULL, NULL);
	CALL(s, close, p[0]);
	CALL(s, close, p[1]);
	fd = (int)CALL(s, socket, AF_UNIX, SOCK_STREAM, 0);
	CALL(s, connect, fd, &nobody, sizeof(nobody)); /* ECONNREFUSED */
	CALL(s, close, fd);
}

static void others_call(struct section *s)
{
	static uint32_t word = 1;
	struct utsname name;
	unsigned int cpu;
	void *page;
	int i;

	for (i = 0; i < 500; i++)
		CALL(s, getppid);
	for (i = 0; i < 7; i++)
		CALL(s, sched_yield);
	for (i = 0; i < 3; i++) {
		CALL(s, nanosleep, &ms, NULL);
		CALL(s, clock_nanosleep, CLOCK_MONOTONIC, 0, &ms, NULL);
		CALL(s, futex, &word, FUTEX_WAKE_PRIVATE, 1);
		CALL(s, futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL); /* EAGAIN */
		CALL(s, futex, &word, FUTEX_WAIT_PRIVATE, 1, &ms);  /* ETIMEDOUT */
	}
	page = pages_map(4096, MAP_PRIVATE);
	section_did(s, "mmap", -2); /* an address is not a byte count */
	CALL(s, mprotect, page, 4096, PROT_READ);
	CALL(s, madvise, page, 4096, MADV_DONTNEED);
	CALL(s, munmap, page, 4096);
	CALL(s, munmap, (char *)page + 1, 4096); /* EINVAL */
	CALL(s, getcpu, &cpu, NULL, NULL);
	CALL(s, uname, &name);
	CALL(s, rt_sigprocmask, SIG_BLOCK, NULL, NULL, 8);
	CALL(s, getpriority, 0, 0);
	section_did(s, "syscall_999", syscall(NO_SUCH_CALL)); /* ENOSYS */
}

static void single_run(void)
{
	static struct section s;

	section_begin(&s, 1);
	files_call(&s);
	ipc_call(&s);
	others_call(&s);
	section_end(&s);
	section_print(&s);
}

/* ---- threads ---- */

static int rings[THREADS][2]; /* thread i reads rings[i][0] and writes to the ring of thread i + 1 */
static int done[2];
static struct section sections[THREADS];
static atomic_int tids[THREADS];

static void *ring_run(void *arg)
{
	int i = (int)(intptr_t)arg, round, k;
	struct section *s = &sections[i];
	static __thread char c;

	tids[i] = gettid();
	section_begin(s, 10 + i);
	for (round = 0; round < ROUNDS; round++) {
		CALL(s, read, rings[i][0], &c, 1);
		for (k = 0; k <= i; k++)
			CALL(s, getppid);
		CALL(s, write, rings[(i + 1) % THREADS][1], &c, 1);
	}
	section_end(s);
	byte_send(done[1]);
	/* Not by the C library, in which threads that end at the same time may wait for a lock. */
	syscall(SYS_exit, 0);
	return NULL;
}

static void detached_start(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;

	/* Detached: the futex calls of a join depend on who comes first. */
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	must(!pthread_create(&thread, &attr, run, arg), "pthread_create");
	pthread_attr_destroy(&attr);
}

static void gone_wait(int tid)
{
	for (;;) {
		shared->tgkill++;
		if (syscall(SYS_tgkill, pid, tid, 0))
			return;
		pause_counted();
	}
}

static void threads_run(void)
{
	int i;

	must(!pipe2(done, O_CLOEXEC), "pipe2");
	for (i = 0; i < THREADS; i++)
		must(!pipe2(rings[i], O_CLOEXEC), "pipe2");
	for (i = 0; i < THREADS; i++)
		detached_start(ring_run, (void *)(intptr_t)i);
	byte_send(rings[0][1]);
	for (i = 0; i < THREADS; i++)
		byte_receive(done[0]);
	for (i = 0; i < THREADS; i++)
		gone_wait(tids[i]);
	for (i = 0; i < THREADS; i++)
		section_print(&sections[i]);
}

/* ---- signals ---- */

static struct section *handled; /* whose calls the handler counts */
static int wakes[2];
static atomic_int interrupted_tid, handler_runs;
static uint32_t word = 1;

static void on_signal(int sig)
{
	(void)sig;
	CALL(handled, getppid);
	section_did(handled, "rt_sigreturn", -2);
	handler_runs++;
	handled->signals++;
}

/* Main interrupts each sleep of this thread, which it identifies by the stage. */
static void *interrupted_run(void *arg)
{
	struct section *s = arg;
	struct timespec minute = { .tv_sec = 60 };
	struct pollfd pfd = { .fd = wakes[0], .events = POLLIN };
	char c;

	interrupted_tid = gettid();
	section_begin(s, 20);
	shared->stage = 1;
	/* SIGUSR1 restarts it: the call is made twice, though the program sees one */
	CALL(s, read, wakes[0], &c, 1);
	section_did(s, "read", -1);
	shared->stage = 2;
	CALL(s, read, wakes[0], &c, 1); /* SIGUSR2 does not: EINTR */
	shared->stage = 3;
	CALL(s, nanosleep, &minute, NULL);
	shared->stage = 4;
	CALL(s, ppoll, &pfd, 1, NULL, NULL, 8);
	shared->stage = 5;
	CALL(s, futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL);
	section_did(s, "futex", -1);                    /* restarted as well */
	CALL(s, tgkill, pid, interrupted_tid, SIGUSR1); /* interrupts no call */
	section_end(s);
	shared->stage = 6;
	return NULL;
}

/* Interrupts the sleep of that stage with a signal. */
static void interrupt(int n, int sig, int status_fd)
{
	int runs = handler_runs;

	while (shared->stage != n)
		pause_counted();
	sleep_wait(status_fd);
	must(!syscall(SYS_tgkill, pid, interrupted_tid, sig), "tgkill");
	while (handler_runs == runs)
		pause_counted();
}

static void interrupts_send(void)
{
	int status_fd;

	while (!shared->stage)
		pause_counted();
	status_fd = status_open(interrupted_tid);
	interrupt(1, SIGUSR1, status_fd);
	byte_send(wakes[1]);
	interrupt(2, SIGUSR2, status_fd);
	interrupt(3, SIGUSR1, status_fd);
	interrupt(4, SIGUSR1, status_fd);
	interrupt(5, SIGUSR1, status_fd);
	sleep_wait(status_fd); /* in the second call */
	__atomic_store_n(&word, 0, __ATOMIC_SEQ_CST);
	must(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1) == 1, "futex");
	gone_wait(interrupted_tid);
	close(status_fd);
}

/* In a child: stops and continues the parent while it sleeps, then ends the sleep. */
static void parent_stop(pid_t parent)
{
	int fd = status_open(parent);

	while (shared->stage != 7)
		pause_counted();
	sleep_wait(fd);
	kill(parent, SIGSTOP);
	/* T, or t when a debugger keeps it stopped */
	while ((state_counted(fd) | 0x20) != 't')
		pause_counted();
	kill(parent, SIGCONT);
	sleep_wait(fd);
	kill(parent, SIGUSR1);
	_exit(0);
}

static void stopped_run(struct section *s)
{
	struct timespec minute = { .tv_sec = 60 };
	pid_t parent = pid, child;

	child = fork();
	if (!child)
		parent_stop(parent);
	section_begin(s, 21);
	handled = s;
	shared->stage = 7;
	CALL(s, nanosleep, &minute, NULL);
	section_did(s, "restart_syscall", -1); /* after the stop; then EINTR */
	section_end(s);
	waitpid(child, NULL, 0);
}

static void signals_run(void)
{
	struct sigaction restart = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct sigaction interrupting = { .sa_handler = on_signal };
	static struct section s[2];

	must(!pipe2(wakes, O_CLOEXEC), "pipe2");
	sigaction(SIGUSR1, &restart, NULL);
	sigaction(SIGUSR2, &interrupting, NULL);
	handled = &s[0];
	detached_start(interrupted_run, &s[0]);
	interrupts_send();
	stopped_run(&s[1]);
	section_print(&s[0]);
	section_print(&s[1]);
}

/* ---- spawn ---- */

static int child_run(int id)
{
	static struct section s;
	int i;

	section_begin(&s, id);
	for (i = 0; i < 10 * id; i++)
		CALL(&s, getppid);
	section_end(&s);
	section_print(&s);
	return 0;
}

static void *exec_run(void *arg)
{
	int status_fd = status_open(getpid());

	while (shared->stage != 8)
		pause_counted();
	sleep_wait(status_fd);
	execv("/proc/self/exe", arg);
	die("execv");
}

/* The first thread waits for ever, and ends when the other one becomes the new program. */
static void exec_from_thread(char **argv)
{
	int p[2];

	must(!pipe2(p, O_CLOEXEC), "pipe2");
	detached_start(exec_run, argv);
	shared->stage = 8;
	byte_receive(p[0]);
}

/* All live until the last one is forked: under a debugger, a SIGCHLD during fork() makes the kernel
 * restart it. */
static void crowd_run(void)
{
	int p[2], i;
	char c;

	must(!pipe2(p, O_CLOEXEC), "pipe2");
	for (i = 0; i < CROWD; i++) {
		if (fork())
			continue;
		close(p[1]);
		must(!read(p[0], &c, 1), "read");
		_exit(0);
	}
	close(p[1]);
	for (i = 0; i < CROWD; i++)
		waitpid(-1, NULL, 0);
}

static void spawn_run(const char *program)
{
	char *argv[] = { (char *)program, "child", "31", NULL };
	pid_t child;

	child = vfork();
	if (!child) {
		syscall(SYS_execve, "/nonexistent", argv, environ);
		syscall(SYS_execve, program, argv, environ);
		_exit(127);
	}
	waitpid(child, NULL, 0);
	argv[2] = "32";
	must(!posix_spawn(&child, program, NULL, NULL, argv, environ), "posix_spawn");
	waitpid(child, NULL, 0);
	child = fork();
	if (!child)
		_exit(child_run(33));
	waitpid(child, NULL, 0);
	argv[2] = "34";
	child = fork();
	if (!child)
		exec_from_thread(argv);
	waitpid(child, NULL, 0);
	crowd_run();
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (argc == 3 && !strcmp(mode, "child"))
		return child_run(atoi(argv[2]));
	shared = pages_map(sizeof(*shared), MAP_SHARED);
	pid = getpid();
	signal(SIGPIPE, SIG_IGN);
	if (argc == 3 && !strcmp(argv[2], "-w"))
		line_wait();
	if (!strcmp(mode, "single")) {
		single_run();
	} else if (!strcmp(mode, "threads")) {
		threads_run();
	} else if (!strcmp(mode, "signals")) {
		signals_run();
	} else if (!strcmp(mode, "spawn")) {
		spawn_run(argv[0]);
	} else {
		fputs("Usage: syscalls single|threads|signals|spawn [-w]\n", stderr);
		return 2;
	}
	printf("{\"variable\":{\"pread64\":%ld,\"nanosleep\":%ld,\"tgkill\":%ld}}\n",
		shared->pread64, shared->nanosleep, shared->tgkill);
	return 0;
}
