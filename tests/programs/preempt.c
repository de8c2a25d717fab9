// SPDX-License-Identifier: BSD-2-Clause
/*
 * Many threads that share few CPUs and may be preempted at any instruction: each keeps calling work()
 * while others compute, a real-time thread cuts in every 100 us, and signals arrive. Prints
 * what each thread did (section.h), and how often the functions were called in total.
 *
 *	preempt [THREADS [ROUNDS]]
 */
#include "section.h"

#define THREADS_MAX 64
#define HOGS 3
#define LEAVES 3
#define CALLS 4
#define PAGES 4        /* touched by instructions */
#define KERNEL_PAGES 2 /* filled by read(2) */
#define SPIN_NS 15000
#define PEST_SLEEP_NS 100000
#define PEST_SPIN_NS 20000

struct worker {
	struct section s;
	pthread_t thread;
	char *area;
	atomic_int tid; /* set while it takes signals */
	volatile long handled;
};

static struct worker workers[THREADS_MAX];
static int n_threads = 12, rounds = 100, zero;
static pid_t parent;
static size_t page;
static atomic_bool over;
static __thread struct worker *self;

void work(int round);
long leaf(long n);
void spin(void);

static void on_signal(int sig)
{
	(void)sig;
	leaf(1);
	syscall(SYS_getppid);
	self->handled++;
}

__attribute__((noipa)) long leaf(long n)
{
	return n + 1;
}

__attribute__((noipa)) void spin(void)
{
	spin_for(CLOCK_MONOTONIC, SPIN_NS);
}

__attribute__((noipa)) void work(int round)
{
	const struct timespec nap = { .tv_nsec = 30000 };
	struct worker *w = self;
	int i;

	for (i = 0; i < LEAVES; i++)
		leaf(i);
	for (i = 0; i < CALLS; i++)
		CALL(&w->s, getppid);
	CALL(&w->s, madvise, w->area, (PAGES + KERNEL_PAGES) * page, MADV_DONTNEED);
	spin();
	for (i = 0; i < PAGES; i++)
		((volatile char *)w->area)[(size_t)i * page] = 1;
	CALL(&w->s, read, zero, w->area + PAGES * page, KERNEL_PAGES * page);
	CALL(&w->s, close, -1);
	if (round % 4 == 0)
		CALL(&w->s, nanosleep, &nap, NULL);
	if (round % 4 == 1)
		CALL(&w->s, sched_yield);
}

static void *worker_run(void *arg)
{
	struct worker *w = self = arg;
	sigset_t set;
	int i;

	w->area = pages_map((PAGES + KERNEL_PAGES) * page, MAP_PRIVATE);
	must(!madvise(w->area, (PAGES + KERNEL_PAGES) * page, MADV_NOHUGEPAGE), "madvise");
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	section_begin(&w->s, (int)(w - workers) + 1);
	CALL(&w->s, rt_sigprocmask, SIG_UNBLOCK, &set, NULL, 8);
	w->tid = w->s.tid;
	for (i = 0; i < rounds; i++)
		work(i);
	w->tid = 0;
	CALL(&w->s, rt_sigprocmask, SIG_BLOCK, &set, NULL, 8);
	w->s.signals = (int)w->handled;
	for (i = 0; i < w->handled; i++) {
		section_did(&w->s, "getppid", parent);
		section_did(&w->s, "rt_sigreturn", -2);
	}
	section_end(&w->s);
	return NULL;
}

static void *hog_run(void *arg)
{
	setpriority(PRIO_PROCESS, (id_t)gettid(), (int)(intptr_t)arg);
	while (!over)
		;
	return NULL;
}

/* Cuts in, and interrupts the workers in turn. */
static void *pest_run(void *arg)
{
	const struct sched_param prio = { .sched_priority = 1 };
	int i, pid = getpid();

	(void)arg;
	if (sched_setscheduler(0, SCHED_FIFO, &prio))
		setpriority(PRIO_PROCESS, (id_t)gettid(), -20);
	for (i = 0; !over; i++) {
		int tid = workers[i / 4 % n_threads].tid;

		sleep_for(PEST_SLEEP_NS);
		spin_for(CLOCK_MONOTONIC, PEST_SPIN_NS);
		if (tid && i % 4 == 0)
			syscall(SYS_tgkill, pid, tid, SIGUSR1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	pthread_t hogs[HOGS], pest;
	long handled = 0;
	sigset_t set;
	int i;

	if (argc > 1)
		n_threads = atoi(argv[1]);
	if (argc > 2)
		rounds = atoi(argv[2]);
	if (n_threads < 1 || n_threads > THREADS_MAX)
		return 2;
	parent = getppid();
	page = (size_t)sysconf(_SC_PAGESIZE);
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	must(zero >= 0, "/dev/zero");
	sigaction(SIGUSR1, &sa, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	leaf(0); /* the first return through a probe takes page faults */
	pest = thread_start(pest_run, NULL);
	for (i = 0; i < HOGS; i++)
		hogs[i] = thread_start(hog_run, (void *)(intptr_t)(i * 9));
	for (i = 0; i < n_threads; i++)
		workers[i].thread = thread_start(worker_run, &workers[i]);
	for (i = 0; i < n_threads; i++) {
		pthread_join(workers[i].thread, NULL);
		handled += workers[i].handled;
	}
	over = true;
	pthread_join(pest, NULL);
	threads_join(hogs, HOGS);
	for (i = 0; i < n_threads; i++)
		section_print(&workers[i].s);
	printf("{\"functions\":{\"step\":{\"work\":%d},\"op\":{\"leaf\":%ld},\"barrier\":{\"spin\":%d}}}\n",
		n_threads * rounds, n_threads * rounds * LEAVES + handled + 1, n_threads * rounds);
	return 0;
}
