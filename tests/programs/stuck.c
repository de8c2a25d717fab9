// SPDX-License-Identifier: BSD-2-Clause
/*
 * An engine that makes steps until a line comes on stdin, and is then stuck, until the next line:
 *
 *	stuck lock	for a lock that another thread holds, which sleeps
 *	stuck within	the same, within a step
 *	stuck self	for a lock that it holds itself
 *	stuck fork	for a child, which waits for a lock that a thread of its parent held when it was forked
 *	stuck child	for a child that sleeps
 *	stuck peer	for the answer of another thread, through a socket, that has answered until then
 *	stuck stop	it has stopped itself
 *
 * Prints ready, and the number of the thread that is to blame, just before it is stuck.
 */
#include "../program.h"

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static volatile bool go, takes, late;
static volatile pid_t holder_tid, peer_tid;
static int pair[2];

void step(int n_tokens);

__attribute__((noipa)) void step(int n_tokens)
{
	(void)n_tokens;
	spin_for(CLOCK_MONOTONIC, MS);
	if (takes)
		pthread_mutex_lock(&held);
}

static void sleep_forever(void)
{
	for (;;)
		sleep_for(1000 * 1000 * MS);
}

static void *hold(void *arg)
{
	prctl(PR_SET_NAME, "holder");
	pthread_mutex_lock(&held);
	holder_tid = gettid();
	sleep_forever();
	return arg;
}

static void *answer(void *arg)
{
	prctl(PR_SET_NAME, "answers");
	peer_tid = gettid();
	for (;;) {
		byte_receive(pair[1]);
		if (late)
			sleep_forever();
		byte_send(pair[1]);
	}
	return arg;
}

static void blame(pid_t tid)
{
	printf("%d\n", tid);
	fflush(stdout);
}

static void wait_for_child(void (*run)(void))
{
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_NAME, "child");
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run();
	}
	blame(child);
	waitpid(child, NULL, 0);
}

static void take_lock(void)
{
	pthread_mutex_lock(&held);
}

static void get_stuck(const char *how)
{
	if (!strcmp(how, "child")) {
		wait_for_child(sleep_forever);
	} else if (!strcmp(how, "fork")) {
		thread_start(hold, NULL);
		while (!holder_tid)
			usleep(1000);
		wait_for_child(take_lock);
	} else if (!strcmp(how, "peer")) {
		late = true;
		blame(peer_tid);
		byte_send(pair[0]);
		byte_receive(pair[0]);
	} else if (!strcmp(how, "self")) {
		pthread_mutex_lock(&held);
		blame(gettid());
		pthread_mutex_lock(&held);
	} else if (!strcmp(how, "stop")) {
		blame(gettid());
		raise(SIGSTOP);
	} else {
		thread_start(hold, NULL);
		while (!holder_tid)
			usleep(1000);
		blame(holder_tid);
		takes = true;
		if (!strcmp(how, "within"))
			step(1);
		pthread_mutex_lock(&held);
	}
}

static void *make_steps(void *arg)
{
	prctl(PR_SET_NAME, "caller");
	while (!go) {
		step(1);
		if (!strcmp(arg, "peer")) {
			byte_send(pair[0]);
			byte_receive(pair[0]);
		}
		usleep(10000);
	}
	get_stuck(arg);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t caller;

	must(argc == 2, "usage: stuck HOW");
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	thread_start(answer, NULL);
	caller = thread_start(make_steps, argv[1]);
	line_wait();
	go = true;
	pthread_join(caller, NULL);
	return 0;
}
