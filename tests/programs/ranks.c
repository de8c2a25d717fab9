// SPDX-License-Identifier: BSD-2-Clause
/*
 * A rank of a group that computes together, each on its own host:
 *
 *	ranks NCCL RANK RANKS ADDRESS PORT STEPS [STEP:CAUSE=MS ...]
 *
 * Rank 0 listens and the others connect to it; then each prints "ready", and begins at a line of input. In each step a rank
 * works for 2 ms, calls ncclAllReduce and ncclAllGather of the library NCCL, and then waits until all ranks have done so, as a
 * program waits for its GPU. In the steps given it takes MS longer before the first call, by CAUSE:
 *
 *	cpu	it computes
 *	sleep	it sleeps in a system call
 *	fault	it touches memory that is not present
 *	hog	a process of a higher priority has its CPU
 *
 * Prints the CLOCK_BOOTTIME of each call of a collective.
 */
#include "../program.h"

#include "section.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>

#define RANKS_MAX 8
#define BLOCK (1 << 22)

struct id {
	char bytes[128];
};

struct plan {
	int step, ms;
	const char *cause;
};

static struct {
	int (*init)(void **comm, int ranks, struct id id, int rank);
	int (*all_reduce)(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream);
	int (*all_gather)(const void *from, void *to, size_t count, int type, void *comm, void *stream);
} nccl;

static int rank, ranks, peers[RANKS_MAX];
static void *comm;

void rank_step(int n_tokens, const struct plan *plan);

static void load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&nccl.init = dlsym(library, "ncclCommInitRank");
	*(void **)&nccl.all_reduce = dlsym(library, "ncclAllReduce");
	*(void **)&nccl.all_gather = dlsym(library, "ncclAllGather");
}

/* ---- between ranks ---- */

static void meet(const char *address, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int one = 1, listener;

	inet_pton(AF_INET, address, &a.sin_addr);
	if (rank) {
		for (;;) {
			peers[0] = socket(AF_INET, SOCK_STREAM, 0);
			if (!connect(peers[0], (struct sockaddr *)&a, sizeof(a)))
				break;
			close(peers[0]);
			usleep(20000);
		}
		setsockopt(peers[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		return;
	}
	listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	a.sin_addr.s_addr = htonl(INADDR_ANY);
	must(!bind(listener, (struct sockaddr *)&a, sizeof(a)) && !listen(listener, RANKS_MAX), "listen");
	for (int i = 1; i < ranks; i++) {
		peers[i] = accept(listener, NULL, NULL);
		setsockopt(peers[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
}

/* A barrier: all leave it after all have entered. */
static void wait_for_all(void)
{
	if (rank) {
		byte_send(peers[0]);
		byte_receive(peers[0]);
		return;
	}
	for (int i = 1; i < ranks; i++)
		byte_receive(peers[i]);
	for (int i = 1; i < ranks; i++)
		byte_send(peers[i]);
}

/* ---- what takes longer ---- */

static void fault(uint64_t ns)
{
	uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
	char *p = pages_map(BLOCK, MAP_PRIVATE);

	madvise(p, BLOCK, MADV_NOHUGEPAGE);
	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
		for (size_t i = 0; i < BLOCK; i += 4096)
			p[i] = 1;
		madvise(p, BLOCK, MADV_DONTNEED);
	}
	munmap(p, BLOCK);
}

/* The child has the CPU of this thread before it ends its own wait. */
static void hog(uint64_t ns)
{
	struct sched_param high = { .sched_priority = 1 };
	cpu_set_t all;
	int ready[2];
	pid_t child;

	sched_getaffinity(0, sizeof(all), &all);
	pin_to(sched_getcpu());
	must(!pipe(ready), "pipe");
	child = fork();
	if (!child) {
		prctl(PR_SET_NAME, "hog");
		must(!sched_setscheduler(0, SCHED_FIFO, &high), "sched_setscheduler");
		byte_send(ready[1]);
		spin_for(CLOCK_MONOTONIC, ns);
		_exit(0);
	}
	byte_receive(ready[0]);
	waitpid(child, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	sched_setaffinity(0, sizeof(all), &all);
}

static void delay(const struct plan *p)
{
	uint64_t ns = (uint64_t)p->ms * MS;

	if (!strcmp(p->cause, "cpu"))
		spin_for(CLOCK_THREAD_CPUTIME_ID, ns);
	else if (!strcmp(p->cause, "sleep"))
		sleep_for(ns);
	else if (!strcmp(p->cause, "fault"))
		fault(ns);
	else
		hog(ns);
}

/* ---- steps ---- */

static void called(int step, int which, uint64_t ns)
{
	printf("%d %d %llu\n", step, which, (unsigned long long)ns);
}

__attribute__((noipa)) void rank_step(int n_tokens, const struct plan *plan)
{
	static int step;
	static char data[64];
	uint64_t first, second;

	spin_for(CLOCK_THREAD_CPUTIME_ID, 2 * MS);
	if (plan)
		delay(plan);
	first = clock_ns(CLOCK_BOOTTIME);
	nccl.all_reduce(data, data, 4096 * (size_t)n_tokens, 6, 0, comm, NULL);
	second = clock_ns(CLOCK_BOOTTIME);
	nccl.all_gather(data, data, 512 * (size_t)n_tokens, 6, comm, NULL);
	wait_for_all();
	called(step, 0, first);
	called(step++, 1, second);
}

static struct plan parse_plan(char *text)
{
	char *cause = strchr(text, ':'), *ms = cause ? strchr(cause, '=') : NULL;

	if (!ms) {
		fprintf(stderr, "ranks: STEP:CAUSE=MS, not %s\n", text);
		exit(2);
	}
	*cause = *ms = '\0';
	return (struct plan){ atoi(text), atoi(ms + 1), cause + 1 };
}

int main(int argc, char **argv)
{
	struct id id = { "the same in all of them" };
	struct plan plans[64];
	int n = 0, steps;

	if (argc < 7 || argc > 7 + 64)
		return 2;
	rank = atoi(argv[2]);
	ranks = atoi(argv[3]);
	steps = atoi(argv[6]);
	for (int i = 7; i < argc; i++)
		plans[n++] = parse_plan(argv[i]);
	load(argv[1]);
	meet(argv[4], atoi(argv[5]));
	line_wait();
	nccl.init(&comm, ranks, id, rank);
	wait_for_all();
	for (int i = 0; i < steps; i++) {
		const struct plan *plan = NULL;

		for (int k = 0; k < n; k++)
			plan = plans[k].step == i ? &plans[k] : plan;
		rank_step(1, plan);
	}
	return 0;
}
