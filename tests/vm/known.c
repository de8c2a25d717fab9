// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program that knows exactly what it did, for comparison with a trace.
 *
 *	known OUT GO HOLD
 *	known spin OUT
 *	known call OUT
 *	known steps IN OUT
 *
 * Two threads, main and peer. Each brackets its work with two system calls that it uses for nothing
 * else, getpgid and getsid: the last of each on its thread bounds the stretch that OUT is about.
 * OUT has one line per count: THREAD WHAT NAME COUNT. GO and HOLD are FIFOs that are waited for
 * before the work and after it, "-" for no waiting. Exits with 7, so that a tracer's passing on of
 * the exit code shows. Before the work it calls each of its many functions MANY_CALLS times.
 *
 * With "spin" it calls leaf() until it is killed, and OUT has the address of that; with "call" it sleeps for most of the
 * time, and still calls it some thousand times a second.
 *
 * With "steps" it does what the bytes from the FIFO IN say, and answers each with a byte to the FIFO OUT:
 * 's', a step of 10 getppid; 'b', the beginning of one, with 10; 'e', its end, with 5 more.
 */
#include "../program.h"

enum {
	STEPS = 12,
	LEAVES = 3,     /* per step: calls of leaf() */
	GETPPIDS = 50,  /* per step */
	SLEEPS = 2,     /* per step */
	PINGS = 10,     /* per step: a byte to peer and one back */
	PAGES = 8,      /* per step: fresh pages written from user code */
	BAD_CLOSES = 1, /* per step: close(-1) */
	MARK_TRIES = 1000,
	MANY_CALLS = 3,
	SPIN_PAUSE = 1000,
	BURST = 200, /* calls, after each of which "call" sleeps */
	BURST_PAUSE_NS = 10000000,
	STEP_GETPPIDS = 10,
	END_GETPPIDS = 5,
	EXIT_CODE = 7,
};

/* The kernel's own counts for one thread over its bracketed stretch. */
struct stretch {
	struct rusage begin, end;
	int tid;
	int end_tries;
};

static int to_peer[2], to_main[2], ready[2];
static char *pages;
static long page_size;

void work(int n);
int leaf(int n);
void step_short(void);
void step_long(int in, int out);

/* many_00() to many_79(): with their returns more than single links are created for. */
#define FOR_TEN(do, tens)                                                                     \
	do                                                                                    \
	(tens##0) do(tens##1) do(tens##2) do(tens##3) do(tens##4) do(tens##5) do(tens##6) do( \
		tens##7) do(tens##8) do(tens##9)
#define FOR_MANY(do)                                                                              \
	FOR_TEN(do, 0)                                                                            \
	FOR_TEN(do, 1) FOR_TEN(do, 2) FOR_TEN(do, 3) FOR_TEN(do, 4) FOR_TEN(do, 5) FOR_TEN(do, 6) \
		FOR_TEN(do, 7)
#define DEFINE(n)                                     \
	int many_##n(int a);                          \
	__attribute__((noinline)) int many_##n(int a) \
	{                                             \
		__asm__ volatile("" : "+r"(a));       \
		return a;                             \
	}
#define CALL(n) many_##n(0);
FOR_MANY(DEFINE)

static void usage_read(struct rusage *ru)
{
	must(!syscall(SYS_getrusage, RUSAGE_THREAD, ru), "getrusage");
}

static bool usage_equal(const struct rusage *a, const struct rusage *b)
{
	return a->ru_nvcsw == b->ru_nvcsw && a->ru_nivcsw == b->ru_nivcsw &&
	       a->ru_minflt == b->ru_minflt && a->ru_majflt == b->ru_majflt;
}

/*
 * The counts at the marker system call. A switch or fault between a read and the marker might
 * belong to either side, so that attempt does not count.
 */
static int mark(long marker, struct rusage *ret_usage)
{
	struct rusage before = { 0 }, after = { 0 };
	int tries = 0;

	do {
		usage_read(&before);
		syscall(marker, 0);
		usage_read(&after);
		if (++tries == MARK_TRIES) {
			fputs("known: no marker without a switch or fault beside it\n", stderr);
			exit(1);
		}
	} while (!usage_equal(&before, &after));
	*ret_usage = before;
	return tries;
}

__attribute__((noinline)) int leaf(int n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}

__attribute__((noinline)) void work(int n)
{
	const struct timespec nap = { .tv_nsec = 200000 };
	char *page = pages + (size_t)n * (PAGES + 1) * page_size;

	for (int i = 0; i < LEAVES; i++)
		leaf(i);
	for (int i = 0; i < GETPPIDS; i++)
		syscall(SYS_getppid);
	for (int i = 0; i < SLEEPS; i++)
		syscall(SYS_nanosleep, &nap, NULL);
	for (int i = 0; i < BAD_CLOSES; i++)
		syscall(SYS_close, -1);
	for (int i = 0; i < PAGES; i++, page += page_size)
		*(volatile char *)page = 1;
	for (int i = 0; i < PINGS; i++) {
		byte_send(to_peer[1]);
		/* the first answer lands in a fresh page: a fault taken inside the kernel */
		if (i)
			byte_receive(to_main[0]);
		else
			must(read(to_main[0], page, 1) == 1, "read");
	}
}

static void *peer_run(void *arg)
{
	struct stretch *s = arg;

	s->tid = (int)syscall(SYS_gettid);
	mark(SYS_getpgid, &s->begin);
	byte_send(ready[1]);
	for (int i = 0; i < STEPS * PINGS; i++) {
		byte_receive(to_peer[0]);
		byte_send(to_main[1]);
	}
	s->end_tries = mark(SYS_getsid, &s->end);
	return NULL;
}

static void fifo_wait(const char *path)
{
	char byte;
	int fd;

	if (!strcmp(path, "-"))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0, path);
	while (read(fd, &byte, 1) > 0)
		;
	close(fd);
}

static void stretch_print(FILE *out, const char *who, const struct stretch *s)
{
	fprintf(out, "%s tid - %d\n", who, s->tid);
	fprintf(out, "%s fault minor %ld\n", who, s->end.ru_minflt - s->begin.ru_minflt);
	fprintf(out, "%s fault major %ld\n", who, s->end.ru_majflt - s->begin.ru_majflt);
	fprintf(out, "%s switch voluntary %ld\n", who, s->end.ru_nvcsw - s->begin.ru_nvcsw);
	fprintf(out, "%s switch involuntary %ld\n", who, s->end.ru_nivcsw - s->begin.ru_nivcsw);
	/* from the begin marker to the end marker that counted, see mark() */
	fprintf(out, "%s syscall getrusage %d\n", who, 2 * s->end_tries);
	fprintf(out, "%s syscall getsid %d\n", who, s->end_tries - 1);
}

static int counts_write(const char *path, const struct stretch *m, const struct stretch *p)
{
	FILE *out = fopen(path, "we");

	if (!out)
		return -1;
	stretch_print(out, "main", m);
	fprintf(out, "main step work %d\n", STEPS);
	fprintf(out, "main op leaf %d\n", STEPS * LEAVES);
	fprintf(out, "main syscall getppid %d\n", STEPS * GETPPIDS);
	fprintf(out, "main syscall nanosleep %d\n", STEPS * SLEEPS);
	fprintf(out, "main syscall close %d\n", STEPS * BAD_CLOSES);
	fprintf(out, "main syscall write %d\n", STEPS * PINGS);
	fprintf(out, "main syscall read %d\n", STEPS * PINGS);
	/* When the recording began it slept in read(2) of a FIFO (GO), or of the pipe on which
	 * a recorder holds its command back until everything is attached. */
	fprintf(out, "main began_before read 1\n");
	fprintf(out, "main began_before blocked:_ipc 1\n");
	/* for each line of the profile */
	fprintf(out, "step syscalls - %d\n", GETPPIDS + SLEEPS + BAD_CLOSES + 2 * PINGS);
	fprintf(out, "step faults_minor - %d\n", PAGES + 1);
	stretch_print(out, "peer", p);
	fprintf(out, "peer syscall read %d\n", STEPS * PINGS);
	fprintf(out, "peer syscall write %d\n", STEPS * PINGS + 1);
	return fclose(out);
}

static __attribute__((noreturn)) void spin(const char *path, bool sleeps)
{
	FILE *out = fopen(path, "we");

	must(out, path);
	fprintf(out, "%p\n", (void *)leaf);
	must(!fclose(out), path);
	for (int n = 0, calls = 1;; n = leaf(n) & 0xffff, calls++) {
		for (volatile int i = 0; i < SPIN_PAUSE && !sleeps; i++)
			;
		if (sleeps && calls % BURST == 0)
			sleep_for(BURST_PAUSE_NS);
	}
}

__attribute__((noinline)) void step_short(void)
{
	for (int i = 0; i < STEP_GETPPIDS; i++)
		syscall(SYS_getppid);
}

__attribute__((noinline)) void step_long(int in, int out)
{
	for (int i = 0; i < STEP_GETPPIDS; i++)
		syscall(SYS_getppid);
	byte_send(out);
	byte_receive(in);
	for (int i = 0; i < END_GETPPIDS; i++)
		syscall(SYS_getppid);
}

static int steps(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CLOEXEC);
	char byte;

	must(in >= 0 && out >= 0, "open");
	while (read(in, &byte, 1) == 1) {
		if (byte == 'b')
			step_long(in, out);
		else
			step_short();
		byte_send(out);
	}
	return EXIT_CODE;
}

int main(int argc, char **argv)
{
	struct stretch m = { 0 }, p = { 0 };
	pthread_t peer;
	size_t size;

	if (argc == 3 && (!strcmp(argv[1], "spin") || !strcmp(argv[1], "call")))
		spin(argv[2], argv[1][0] == 'c');
	if (argc == 4 && !strcmp(argv[1], "steps"))
		return steps(argv[2], argv[3]);
	if (argc != 4) {
		fputs("Usage: known OUT GO HOLD | known spin|call OUT | known steps IN OUT\n", stderr);
		return 2;
	}
	page_size = sysconf(_SC_PAGESIZE);
	size = (size_t)STEPS * (PAGES + 1) * page_size;
	pages = pages_map(size, MAP_PRIVATE);
	/* one fault per page, not one per huge page */
	must(!madvise(pages, size, MADV_NOHUGEPAGE), "madvise");
	must(!pipe(to_peer) && !pipe(to_main) && !pipe(ready), "pipe");
	fifo_wait(argv[2]);
	peer = thread_start(peer_run, &p);
	byte_receive(ready[0]);

	m.tid = getpid();
	for (int i = 0; i < MANY_CALLS; i++) {
		FOR_MANY(CALL)
	}
	/* the first return through a probe faults in the page that probes use */
	leaf(0);
	mark(SYS_getpgid, &m.begin);
	for (int i = 0; i < STEPS; i++)
		work(i);
	m.end_tries = mark(SYS_getsid, &m.end);

	pthread_join(peer, NULL);
	must(!counts_write(argv[1], &m, &p), argv[1]);
	fifo_wait(argv[3]);
	return EXIT_CODE;
}
