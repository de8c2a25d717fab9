// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that hang from the first line on stdin to the second. The program ends at the third.
 *
 *	hung_read	in read() of a pipe, called by outer() through inner()
 *	hung_step	within step(), for a mutex
 *	hung_spin	within spin(), on a CPU
 *	hung_ring	two threads that never rest for long: each wakes the other through a
 *			pipe, within pass()
 *
 * Prints ready, hung when all of them hang, and free when they have been released.
 */
#include "../program.h"

void step(int n_tokens);
int outer(int fd);
int inner(int fd);
void pass(int from, int to);
void spin(void);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int stuck[2], ring[2][2];
static volatile int tids[2], free_to_go;

__attribute__((noipa)) int inner(int fd)
{
	char c;

	return (int)read(fd, &c, 1);
}

__attribute__((noipa)) int outer(int fd)
{
	return inner(fd) + 1;
}

__attribute__((noipa)) void step(int n_tokens)
{
	(void)n_tokens;
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

__attribute__((noipa)) void pass(int from, int to)
{
	byte_receive(from);
	byte_send(to);
}

__attribute__((noipa)) void spin(void)
{
	while (!free_to_go)
		;
}

static void *hang_on_cpu(void *arg)
{
	prctl(PR_SET_NAME, "hung_spin");
	spin();
	return arg;
}

static void *hang_in_read(void *arg)
{
	prctl(PR_SET_NAME, "hung_read");
	tids[0] = gettid();
	outer(stuck[0]);
	return arg;
}

static void *hang_in_step(void *arg)
{
	prctl(PR_SET_NAME, "hung_step");
	tids[1] = gettid();
	step(1);
	return arg;
}

static void *go_round(void *arg)
{
	size_t i = (size_t)arg;

	prctl(PR_SET_NAME, "hung_ring");
	for (;;) {
		pass(ring[i][0], ring[1 - i][1]);
		usleep(50);
	}
	return arg;
}

/* Whether the thread sleeps: nothing else makes it wait. */
static int is_asleep(int tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = tid ? fopen(path, "r") : NULL;
	if (!f)
		return 0;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(f);
	return state == 'S';
}

static void say_and_wait(const char *word)
{
	say(word);
	while (getchar() != '\n')
		;
}

int main(void)
{
	pthread_t ids[3];

	if (pipe(stuck) || pipe(ring[0]) || pipe(ring[1]))
		return 1;
	say_and_wait("ready");
	pthread_mutex_lock(&mutex);
	ids[0] = thread_start(hang_in_read, NULL);
	ids[1] = thread_start(hang_in_step, NULL);
	ids[2] = thread_start(hang_on_cpu, NULL);
	thread_start(go_round, (void *)0);
	thread_start(go_round, (void *)1);
	byte_send(ring[0][1]);
	while (!is_asleep(tids[0]) || !is_asleep(tids[1]))
		usleep(1000);
	say_and_wait("hung");
	pthread_mutex_unlock(&mutex);
	free_to_go = 1;
	byte_send(stuck[1]);
	threads_join(ids, 3);
	say_and_wait("free");
	return 0;
}
