// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes its threads switch in every way, and prints what the kernel counted (section.h).
 *
 *	switches [-w]
 *
 * Pairs of threads, each a section: a hand-over through pipes and one through a futex, on any CPU
 * and on one CPU; two that compute on one CPU; two that yield to each other; short sleeps; threads
 * whose switches are counted from their birth. -w waits for a line on stdin first.
 */
#include "section.h"

#include <linux/futex.h>

#define ROUNDS 150
#define YIELDS 300
#define SLEEPS 20
#define COMPUTE_NS 60000000
#define BIRTHS 8

struct pair {
	int id; /* of the sections: id and id + 1 */
	void (*run)(struct section *s, struct pair *p, int side);
	bool one_cpu;
	int pipes[2][2];
	uint32_t turn;
	atomic_int running; /* of those that compute or yield */
	struct section sections[2];
};

static void pipe_run(struct section *s, struct pair *p, int side)
{
	char c = 0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		if (side)
			CALL(s, read, p->pipes[1][0], &c, 1);
		CALL(s, write, p->pipes[1 - side][1], &c, 1);
		if (!side)
			CALL(s, read, p->pipes[0][0], &c, 1);
	}
}

static void futex_run(struct section *s, struct pair *p, int side)
{
	uint32_t seen, mine;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		mine = (uint32_t)(2 * i + side);
		while ((seen = __atomic_load_n(&p->turn, __ATOMIC_SEQ_CST)) != mine)
			CALL(s, futex, &p->turn, FUTEX_WAIT_PRIVATE, seen, NULL);
		__atomic_store_n(&p->turn, mine + 1, __ATOMIC_SEQ_CST);
		CALL(s, futex, &p->turn, FUTEX_WAKE_PRIVATE, 1);
	}
}

/* Both must run at once, or there is nothing to switch to. */
static void both_wait(struct pair *p)
{
	p->running++;
	while (p->running < 2)
		;
}

static void compute_run(struct section *s, struct pair *p, int side)
{
	(void)side;
	both_wait(p);
	s->skip_calls = true; /* this clock needs no system call on most machines */
	spin_for(CLOCK_MONOTONIC, COMPUTE_NS);
}

static void yield_run(struct section *s, struct pair *p, int side)
{
	int i;

	(void)side;
	both_wait(p);
	for (i = 0; i < YIELDS; i++)
		CALL(s, sched_yield);
}

static void sleep_run(struct section *s, struct pair *p, int side)
{
	struct timespec t = { .tv_nsec = side ? 200000 : 1000 };
	int i;

	(void)p;
	for (i = 0; i < SLEEPS; i++)
		CALL(s, nanosleep, &t, NULL);
}

static void side_run(struct pair *p, int side)
{
	struct section *s = &p->sections[side];

	if (p->one_cpu)
		pin_thread();
	section_begin(s, p->id + side);
	p->run(s, p, side);
	section_end(s);
}

static void *first_run(void *arg)
{
	side_run(arg, 0);
	return NULL;
}

static void *second_run(void *arg)
{
	side_run(arg, 1);
	return NULL;
}

static void pair_run(struct pair *p)
{
	pthread_t threads[2];

	must(!pipe2(p->pipes[0], O_CLOEXEC) && !pipe2(p->pipes[1], O_CLOEXEC), "pipe2");
	threads[0] = thread_start(first_run, p);
	threads[1] = thread_start(second_run, p);
	threads_join(threads, 2);
	section_print(&p->sections[0]);
	section_print(&p->sections[1]);
}

static void *birth_run(void *arg)
{
	struct section *s = arg;
	int i, id = s->id;

	for (i = 0; i < id % 4; i++)
		sleep_for(MS / 10);
	section_begin(s, id);
	section_end(s);
	s->from_birth = true;
	return NULL;
}

/* New threads compete for the CPU from their first instant. */
static void births_run(int id)
{
	static struct section sections[BIRTHS];
	pthread_t threads[BIRTHS];
	int i;

	for (i = 0; i < BIRTHS; i++) {
		sections[i].id = id + i;
		threads[i] = thread_start(birth_run, &sections[i]);
	}
	for (i = 0; i < BIRTHS; i++) {
		pthread_join(threads[i], NULL);
		section_print(&sections[i]);
	}
}

int main(int argc, char **argv)
{
	static struct pair pairs[] = {
		{ .id = 1, .run = pipe_run },
		{ .id = 3, .run = pipe_run, .one_cpu = true },
		{ .id = 5, .run = futex_run },
		{ .id = 7, .run = futex_run, .one_cpu = true },
		{ .id = 9, .run = compute_run, .one_cpu = true },
		{ .id = 11, .run = yield_run, .one_cpu = true },
		{ .id = 13, .run = sleep_run },
	};
	size_t i;

	if (argc > 1 && !strcmp(argv[1], "-w"))
		line_wait();
	for (i = 0; i < LENGTH(pairs); i++)
		pair_run(&pairs[i]);
	births_run(20);
	return 0;
}
