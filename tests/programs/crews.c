// SPDX-License-Identifier: BSD-2-Clause
/*
 * Several crews at once in one process, each a leader and workers that meet at their own barrier. In
 * every round of a crew one worker sleeps and comes late. Prints for each round which one it was and
 * how long the leader waited.
 *
 *	crews CREWS WORKERS ROUNDS keep|renew	renew: the workers of each round are new threads
 */
#include "../program.h"

#include "section.h"

#include <linux/futex.h>

#define CREWS_MAX 8
#define WORKERS_MAX 8
#define MEETINGS 5 /* per round */

struct crew {
	int id;
	pthread_t leader;
	atomic_int here, meeting; /* of the barrier */
	atomic_int round, ended;  /* round: the one to work on; ended: workers that have finished it */
	atomic_int late_tid;
	uint64_t sleep_ns, slept_ns;
	struct worker {
		struct crew *crew;
		pthread_t thread;
		int n;
	} workers[WORKERS_MAX];
};

static struct crew crews[CREWS_MAX];
static int n_crews, n_workers, rounds;
static bool renew;

void work(struct crew *crew, int id, int round);
void meet(struct crew *crew);

/* Sleeps until the word may have changed: with more threads than CPUs, none should be in the way. */
static void wait_change(atomic_int *word, int from)
{
	while (atomic_load(word) == from)
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, from, NULL, NULL, 0);
}

static void add(atomic_int *word)
{
	atomic_fetch_add(word, 1);
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

__attribute__((noipa)) void meet(struct crew *crew)
{
	int meeting = atomic_load(&crew->meeting);

	if (atomic_fetch_add(&crew->here, 1) == n_workers) {
		atomic_store(&crew->here, 0);
		add(&crew->meeting);
		return;
	}
	wait_change(&crew->meeting, meeting);
}

/* What every thread of a crew does in a round. n: 0 for the leader. */
static void take_part(struct crew *crew, int round, int n)
{
	for (int i = 0; i < MEETINGS; i++) {
		if (i == 1 + round % (MEETINGS - 1) && n == 1 + round % n_workers) {
			uint64_t from = clock_ns(CLOCK_MONOTONIC);

			sleep_for(crew->sleep_ns);
			crew->slept_ns = clock_ns(CLOCK_MONOTONIC) - from;
			atomic_store(&crew->late_tid, (int)gettid());
		}
		meet(crew);
	}
}

static void *worker_run(void *arg)
{
	struct worker *w = arg;
	struct crew *crew = w->crew;
	int round = renew ? atomic_load(&crew->round) : 0;

	do {
		wait_change(&crew->round, round - 1);
		take_part(crew, round, w->n);
		add(&crew->ended);
	} while (++round < rounds && !renew);
	return NULL;
}

static void workers_start(struct crew *crew)
{
	for (int i = 0; i < n_workers; i++) {
		struct worker *w = &crew->workers[i];

		w->crew = crew;
		w->n = i + 1;
		w->thread = thread_start(worker_run, w);
	}
}

static void workers_join(struct crew *crew)
{
	for (int i = 0; i < n_workers; i++)
		pthread_join(crew->workers[i].thread, NULL);
}

__attribute__((noipa)) void work(struct crew *crew, int id, int round)
{
	(void)id;
	crew->sleep_ns = 5000000 + 1000000 * (uint64_t)(round % 7);
	atomic_store(&crew->ended, 0);
	add(&crew->round);
	if (renew)
		workers_start(crew);
	take_part(crew, round, 0);
	if (renew)
		workers_join(crew);
	for (int ended; (ended = atomic_load(&crew->ended)) < n_workers;)
		wait_change(&crew->ended, ended);
}

static void *leader_run(void *arg)
{
	struct crew *crew = arg;

	atomic_store(&crew->round, -1);
	if (!renew)
		workers_start(crew);
	for (int round = 0; round < rounds; round++) {
		char line[160];
		int n;

		work(crew, crew->id, round);
		n = snprintf(line, sizeof(line),
			"{\"crew\": %d, \"round\": %d, \"late\": %d, \"sleep_ns\": %llu, \"slept_ns\": %llu}\n",
			crew->id, round, atomic_load(&crew->late_tid), (unsigned long long)crew->sleep_ns,
			(unsigned long long)crew->slept_ns);
		must(write(STDOUT_FILENO, line, (size_t)n) == n, "write");
	}
	if (!renew)
		workers_join(crew);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	n_crews = atoi(argv[1]);
	n_workers = atoi(argv[2]);
	rounds = atoi(argv[3]);
	line_wait();
	renew = !strcmp(argv[4], "renew");
	if (n_crews < 1 || n_crews > CREWS_MAX || n_workers < 1 || n_workers > WORKERS_MAX)
		return 2;
	for (int i = 0; i < n_crews; i++) {
		crews[i].id = i;
		crews[i].leader = thread_start(leader_run, &crews[i]);
	}
	for (int i = 0; i < n_crews; i++)
		pthread_join(crews[i].leader, NULL);
	return 0;
}
