// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program with CUDA that would hold up whoever brings the agent into it:
 *
 *   hostile_target calls      its dlopen() never returns, but makes system calls
 *   hostile_target signals    its dlopen() never returns, but handles signals
 *   hostile_target again      the entry of what its dlopen() gives says -EAGAIN, which it prints each time
 *   hostile_target punch      it allocates and frees the memory of each file in memory that it gets
 *   hostile_target ring       the same with the ring that it gets as an agent does
 *   hostile_target full       its ring is always full, of records that are none, and all counters are as large as can be
 *   hostile_target head       its ring has a head that cannot be
 *   hostile_target flood PID  makes 100 connections to the socket for agents of that recorder, and says nothing
 *   hostile_target small      means no harm: 300 threads, whose stacks are small, and 30,000 mappings
 *
 * It prints "ready".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../src/gpu/hand_over.h"

#define THREADS 300
#define MAPPINGS 30000
#define STACK (32u << 10)
#define PUNCHERS 8
#define CONNECTIONS 100

static const char *mode;

/* From now on each call of the function is one of another. */
static void replace(const void *function, const void *by)
{
#ifdef __x86_64__
	uint8_t code[12] = { 0x48, 0xb8, [10] = 0xff, 0xe0 }; /* movabs $by, %rax; jmp *%rax */
	const size_t at = 2;
#else
	uint8_t code[16] = { 0x50, 0x00, 0x00, 0x58, 0x00, 0x02, 0x1f, 0xd6 }; /* ldr x16, #8; br x16 */
	const size_t at = 8;
#endif
	uintptr_t page = (uintptr_t)function & ~(uintptr_t)4095;

	memcpy(code + at, &by, sizeof(by));
	if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
		exit(1);
	memcpy((void *)(uintptr_t)function, code, sizeof(code));
	__builtin___clear_cache((char *)(uintptr_t)function, (char *)(uintptr_t)function + sizeof(code));
}

static void on_signal(int number)
{
}

static void *no_dlopen(const char *name, int flags)
{
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } };

	if (!strcmp(mode, "signals")) {
		signal(SIGALRM, on_signal);
		setitimer(ITIMER_REAL, &often, NULL);
	}
	for (;;) {
		if (!strcmp(mode, "signals"))
			pause();
		else
			getppid();
	}
	return NULL;
}

static void *punch_all(void *unused);
static void start(size_t n, void *(*what)(void *), size_t stack);

static void forge(volatile struct gpu_ring *r)
{
	const uint64_t much = UINT64_C(1) << 63;
	volatile struct gpu_ring_writer *w = &r->writer;

	w->records = w->dropped_ring = w->dropped_cupti = w->dropped_clock = w->dropped_memory = w->unknown = w->own_ns = w->waited_ns = much;
	w->on_since = w->off_since = r->clock.residual_ns = r->clock.bend_ns = much;
	w->state = GPU_STATE_ON;
	for (;;)
		w->head = r->reader.tail + r->fixed.capacity + !strcmp(mode, "head");
}

/* Connects as an agent does, and keeps the ring. */
static int get_ring(const char *name)
{
	const struct gpu_hello hello = { GPU_HAND_OVER_MAGIC, GPU_HAND_OVER_VERSION, sizeof(struct gpu_record), 1 };
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char control[CMSG_SPACE(sizeof(int))];
	struct gpu_welcome w;
	struct iovec iov = { &w, sizeof(w) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	memcpy(to.sun_path + 1, name + 1, strlen(name) - 1);
	if (connect(fd, (void *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))) ||
		send(fd, &hello, sizeof(hello), 0) < 0 || recvmsg(fd, &m, 0) < 0)
		return -errno;
	puts("has the ring");
	fflush(stdout);
	if (!strcmp(mode, "ring"))
		start(PUNCHERS, punch_all, 0);
	else
		forge(mmap(NULL, GPU_RING_HEAD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, *(int *)CMSG_DATA((struct cmsghdr *)control), 0));
	return 0;
}

static bool gets_ring(void)
{
	return !strcmp(mode, "ring") || !strcmp(mode, "full") || !strcmp(mode, "head");
}

static void *connect_later(void *name)
{
	get_ring(name);
	return NULL;
}

static int entry(const char *name)
{
	static pthread_t t;

	puts("entered");
	fflush(stdout);
	if (!gets_ring())
		return -EAGAIN;
	return -pthread_create(&t, NULL, connect_later, strdup(name));
}

static void *any_dlopen(const char *name, int flags)
{
	return (void *)(uintptr_t)name;
}

static void *any_dlsym(void *handle, const char *name)
{
	return (void *)(uintptr_t)entry;
}

static void punch(const char *number)
{
	char path[300], file[300] = "";
	int fd = atoi(number);

	snprintf(path, sizeof(path), "/proc/self/fd/%s", number);
	if (readlink(path, file, sizeof(file) - 1) <= 0 || strncmp(file, "/memfd:", 7))
		return;
	fallocate(fd, 0, 0, 64 << 20);
	for (int i = 0; i < 100; i++) {
		fallocate(fd, 0, 0, 16 << 20);
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 64 << 20);
	}
}

static void *punch_all(void *unused)
{
	struct dirent *e;
	DIR *d;

	for (;;) {
		d = opendir("/proc/self/fd");
		while (d && (e = readdir(d)))
			punch(e->d_name);
		if (d)
			closedir(d);
	}
	return NULL;
}

/* In a call that an injection may choose. */
static void *wait_for_ever(void *unused)
{
	for (;;)
		pause();
	return NULL;
}

static void start(size_t n, void *(*what)(void *), size_t stack)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	if (stack)
		pthread_attr_setstacksize(&attr, stack);
	for (size_t i = 0; i < n; i++) {
		if (pthread_create(&t, &attr, what, NULL))
			exit(1);
	}
}

static void map_much(void)
{
	char *at = mmap(NULL, 2ul * MAPPINGS * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	for (size_t i = 0; i < MAPPINGS; i++) {
		if (at == MAP_FAILED || mprotect(at + 2 * i * 4096, 4096, PROT_READ | PROT_WRITE))
			exit(1);
	}
}

/* It is named after the recorder. */
static int flood(const char *pid)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char line[512], wanted[64], *at;
	FILE *f = fopen("/proc/net/unix", "re");
	size_t length = 0;

	snprintf(wanted, sizeof(wanted), "@inftrace-gpu-%s-", pid);
	while (f && !length && fgets(line, sizeof(line), f)) {
		at = strstr(line, wanted);
		length = at ? strcspn(at, "\n") : 0;
	}
	if (!length)
		return 1;
	memcpy(to.sun_path + 1, at + 1, length - 1);
	/* each waits if there is no room for it yet */
	for (int i = 0; i < CONNECTIONS; i++) {
		if (i == 30) {
			puts("ready");
			fflush(stdout);
		}
		if (connect(socket(AF_UNIX, SOCK_SEQPACKET, 0), (void *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)))
			return 1;
	}
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	static char bytes[1 << 20];
	int pipe_fds[2];

	mode = argc > 1 ? argv[1] : "";
	if (!strcmp(mode, "flood"))
		return flood(argv[2]);
	if (!dlopen("libcuda.so.1", RTLD_NOW))
		return 1;
	if (!strcmp(mode, "small")) {
		start(THREADS, wait_for_ever, STACK);
		map_much();
	} else if (!strcmp(mode, "punch")) {
		start(PUNCHERS, punch_all, 0);
	} else if (!strcmp(mode, "again") || gets_ring()) {
		void *sym = dlsym(RTLD_DEFAULT, "dlsym"), *open = dlsym(RTLD_DEFAULT, "dlopen");

		replace(open, any_dlopen);
		replace(sym, any_dlsym);
	} else {
		replace(dlsym(RTLD_DEFAULT, "dlopen"), no_dlopen);
	}
	puts("ready");
	fflush(stdout);
	if (strcmp(mode, "small"))
		wait_for_ever(NULL);
	/* the main thread has a large stack, but waits in a call that an injection does not choose */
	while (!pipe(pipe_fds) && write(pipe_fds[1], bytes, sizeof(bytes)) > 0)
		;
	return 1;
}
