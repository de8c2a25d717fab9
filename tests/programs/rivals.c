// SPDX-License-Identifier: BSD-2-Clause
/*
 * A leader and a worker that compute and meet at a spinning barrier, as engines do, and processes that get in
 * their way. Prints the tids of both and of the hogs.
 *
 *	rivals hogs-worker CPU STEPS MS	three hogs on the only CPU that the worker may run on
 *	rivals hogs-leader CPU STEPS MS	the same for the leader, which has no worker
 *	rivals share CPU STEPS MS	leader and worker may run on the same CPU only
 *	rivals pair CPU STEPS MS	leader and worker may run anywhere
 *
 * MS: the CPU time that each computes in a step.
 */
#include "../program.h"

#include "section.h"

#define HOGS 3
#define MEETINGS 8 /* per step */

struct team {
	int size;
	atomic_int here, meeting;
};

static struct team team;
static int cpu, steps;
static uint64_t compute_ns;
static bool worker_pinned;
static atomic_int step_number = -1, ended, worker_tid;

void work(int n_tokens, int number);
void meet(struct team *t);

__attribute__((noipa)) void meet(struct team *t)
{
	int meeting = atomic_load(&t->meeting);

	if (atomic_fetch_add(&t->here, 1) + 1 == t->size) {
		atomic_store(&t->here, 0);
		atomic_fetch_add(&t->meeting, 1);
		return;
	}
	while (atomic_load(&t->meeting) == meeting)
		;
}

static void take_part(void)
{
	for (int i = 0; i < MEETINGS; i++) {
		spin_for(CLOCK_THREAD_CPUTIME_ID, compute_ns / MEETINGS);
		meet(&team);
	}
}

__attribute__((noipa)) void work(int n_tokens, int number)
{
	(void)n_tokens;
	atomic_store(&step_number, number);
	take_part();
}

static void *worker_run(void *arg)
{
	(void)arg;
	if (worker_pinned)
		pin_to(cpu);
	atomic_store(&worker_tid, (int)gettid());
	for (int i = 0; i < steps; i++) {
		while (atomic_load(&step_number) < i)
			sched_yield();
		take_part();
		atomic_fetch_add(&ended, 1);
	}
	return NULL;
}

static int hog_start(int n)
{
	static const char *const names[HOGS] = { "hoga", "hogb", "hogc" };
	int pid = fork();

	must(pid >= 0, "fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, names[n]);
	pin_to(cpu);
	for (;;)
		;
}

int main(int argc, char **argv)
{
	int hogs[HOGS] = { 0 }, n_hogs;
	bool with_worker;
	pthread_t worker = 0;

	if (argc != 5)
		return 2;
	cpu = atoi(argv[2]);
	steps = atoi(argv[3]);
	compute_ns = (uint64_t)atoi(argv[4]) * MS;
	with_worker = strcmp(argv[1], "hogs-leader") != 0;
	n_hogs = strncmp(argv[1], "hogs", 4) ? 0 : HOGS;
	team.size = 1 + with_worker;
	if (!with_worker || !strcmp(argv[1], "share"))
		pin_to(cpu); /* before the worker is created, which inherits it */
	worker_pinned = n_hogs;
	if (with_worker)
		worker = thread_start(worker_run, NULL);
	while (with_worker && !atomic_load(&worker_tid))
		sched_yield();
	line_wait();
	for (int i = 0; i < n_hogs; i++)
		hogs[i] = hog_start(i);
	printf("{\"leader\": %d, \"worker\": %d, \"hogs\": [%d, %d, %d], \"cpu\": %d}\n", (int)gettid(),
		with_worker ? atomic_load(&worker_tid) : 0, hogs[0], hogs[1], hogs[2], cpu);
	fflush(stdout);
	for (int i = 0; i < steps; i++) {
		work(1, i);
		while (with_worker && atomic_load(&ended) <= i)
			sched_yield();
	}
	if (with_worker)
		pthread_join(worker, NULL);
	for (int i = 0; i < n_hogs; i++) {
		kill(hogs[i], SIGKILL);
		waitpid(hogs[i], NULL, 0);
	}
	return 0;
}
