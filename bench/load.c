// SPDX-License-Identifier: BSD-2-Clause
/*
 * The program that the benchmarks trace. It prints "ready PID", then reads lines "WHAT COUNT",
 * does that, and answers each with "WALL_NS CPU_NS" (of the whole process) for all COUNT
 * operations:
 *
 * - getppid: the cheapest system call
 * - pread: 1 byte of a file that is in the page cache
 * - pingpong: a byte to another thread and one back, through pipes: four system calls, and two
 *   context switches when pinned to one CPU
 * - fault: the first write to a fresh page
 * - site_push: call of a function that starts with endbr64, push: a cheap probe site
 * - site_lea: call of one that realigns its stack first: every site is single-stepped
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FAULT_PAGES 4096

void site_push(void);
void site_lea(void);

#ifdef __x86_64__
/* by hand, so that no compiler decides what the sites are */
asm(".text\n"
    ".globl site_push\n.type site_push, @function\n"
    "site_push:\n"
    "	endbr64\n"
    "	push %rbp\n"
    "	mov %rsp, %rbp\n"
    "	pop %rbp\n"
    "	ret\n"
    ".size site_push, . - site_push\n"
    ".globl site_lea\n.type site_lea, @function\n"
    "site_lea:\n"
    "	endbr64\n"
    "	lea 8(%rsp), %r10\n"
    "	and $-64, %rsp\n"
    "	push -8(%r10)\n"
    "	push %rbp\n"
    "	mov %rsp, %rbp\n"
    "	push %r10\n"
    "	pop %r10\n"
    "	pop %rbp\n"
    "	lea -8(%r10), %rsp\n"
    "	ret\n"
    ".size site_lea, . - site_lea\n");
#else
__attribute__((noinline)) void site_push(void)
{
	asm volatile("");
}

__attribute__((noinline)) void site_lea(void)
{
	asm volatile("");
}
#endif

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct timing {
	uint64_t wall, cpu;
};

static void timing_start(struct timing *t)
{
	t->cpu -= clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	t->wall -= clock_ns(CLOCK_MONOTONIC);
}

static void timing_stop(struct timing *t)
{
	t->wall += clock_ns(CLOCK_MONOTONIC);
	t->cpu += clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void run_getppid(struct timing *t, uint64_t n)
{
	timing_start(t);
	while (n--)
		syscall(SYS_getppid);
	timing_stop(t);
}

static void run_pread(struct timing *t, uint64_t n)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char c;

	if (fd < 0)
		die("/proc/self/exe");
	timing_start(t);
	while (n--) {
		if (pread(fd, &c, 1, 0) != 1)
			die("pread");
	}
	timing_stop(t);
	close(fd);
}

static void move_byte(int from, int to)
{
	char c;

	if (from >= 0 && read(from, &c, 1) != 1)
		die("read");
	if (to >= 0 && write(to, "", 1) != 1)
		die("write");
}

struct peer {
	int from, to;
	uint64_t n;
};

static void *peer_main(void *arg)
{
	struct peer *p = arg;

	for (uint64_t i = 0; i <= p->n; i++)
		move_byte(p->from, p->to);
	return NULL;
}

static void run_pingpong(struct timing *t, uint64_t n)
{
	int there[2], back[2];
	struct peer p = { .n = n };
	pthread_t thread;

	if (pipe2(there, O_CLOEXEC) || pipe2(back, O_CLOEXEC))
		die("pipe2");
	p.from = there[0];
	p.to = back[1];
	errno = pthread_create(&thread, NULL, peer_main, &p);
	if (errno)
		die("pthread_create");
	/* the first one waits for the thread to start */
	move_byte(-1, there[1]);
	move_byte(back[0], -1);
	timing_start(t);
	while (n--) {
		move_byte(-1, there[1]);
		move_byte(back[0], -1);
	}
	timing_stop(t);
	pthread_join(thread, NULL);
	close(there[0]);
	close(there[1]);
	close(back[0]);
	close(back[1]);
}

static void run_fault(struct timing *t, uint64_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = FAULT_PAGES * page;
	char *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		die("mmap");
	madvise(mem, size, MADV_NOHUGEPAGE); /* fails where the kernel has no huge pages, which does as well */
	while (n) {
		uint64_t now = n < FAULT_PAGES ? n : FAULT_PAGES;

		timing_start(t);
		for (uint64_t i = 0; i < now; i++)
			((volatile char *)mem)[i * page] = 1;
		timing_stop(t);
		if (madvise(mem, size, MADV_DONTNEED))
			die("madvise");
		n -= now;
	}
	munmap(mem, size);
}

static void run_calls(struct timing *t, uint64_t n, void (*function)(void))
{
	void (*volatile f)(void) = function;

	timing_start(t);
	while (n--)
		f();
	timing_stop(t);
}

int main(void)
{
	unsigned long long n;
	char what[32];

	printf("ready %d\n", getpid());
	fflush(stdout);
	while (scanf("%31s %llu", what, &n) == 2) {
		struct timing t = {};

		if (!strcmp(what, "getppid"))
			run_getppid(&t, n);
		else if (!strcmp(what, "pread"))
			run_pread(&t, n);
		else if (!strcmp(what, "pingpong"))
			run_pingpong(&t, n);
		else if (!strcmp(what, "fault"))
			run_fault(&t, n);
		else if (!strcmp(what, "site_push"))
			run_calls(&t, n, site_push);
		else if (!strcmp(what, "site_lea"))
			run_calls(&t, n, site_lea);
		else
			return 2;
		printf("%llu %llu\n", (unsigned long long)t.wall, (unsigned long long)t.cpu);
		fflush(stdout);
	}
	return 0;
}
