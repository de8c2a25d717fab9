// SPDX-License-Identifier: BSD-2-Clause
/*
 * Loaded into the engine (../engines/hook.h): plants what must happen within a step, and writes for
 * each step what the kernel says about its threads, a line of JSON in PLANT_DIR/steps:
 *
 *   {"step":7,"n_tokens":1,"nvcsw":0,"majflt":0,"packets":0,
 *    "threads":[{"tid":4711,"cpu_ns":1,"delay_ns":0,"start_ns":1,"end_ns":2}, ...]}
 *
 * cpu_ns is the thread's clock, delay_ns its time in the run queue (/proc/PID/task/TID/schedstat);
 * the first thread is the one that calls the step; majflt is that of all threads, packets are those
 * that its CPU has received (/proc/net/softnet_stat). The system calls that read them are outside
 * of start_ns to end_ns, since a CPU limit takes effect at the end of a system call.
 */
#include "../program.h"

#include "plant.h"

#include "../engines/hook.h"

#include <dirent.h>
#include <sys/un.h>

#define THREADS_MAX 16
#define FORK_BYTES ((size_t)1 << 30)
#define FORK_PAGES 100 /* of them written after the fork, in less time than that takes: a hypervisor can make a fault dear */
#define PAGE 4096
#define CHUNK (16 << 20)

struct evidence {
	uint64_t at_ns, cpu_ns, delay_ns;
};

struct thread {
	int tid, fd;
	struct evidence begin, end;
};

static struct {
	struct plant_shared *shared;
	FILE *steps;
	struct thread threads[THREADS_MAX];
	unsigned int n_threads;
	struct rusage usage, process;
	unsigned int packets;
	int n_tokens;
	uint32_t planted;    /* number of the last wish */
	int peer;            /* pipe or socket */
	int file, file_sync; /* the same */
	char *memory, *chunk;
	pid_t child;
	int child_pipe[2];
	pthread_mutex_t lock;
	uint32_t hold, held; /* numbers of wishes, futexes */
	uint64_t freed_ns;
} hook = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- evidence ---- */

static void delay_read(const struct thread *t, struct evidence *e)
{
	char buf[128] = "";
	ssize_t n = pread(t->fd, buf, sizeof(buf) - 1, 0);

	if (n > 0)
		sscanf(buf, "%*u %lu", &e->delay_ns);
}

static void cpu_read(const struct thread *t, struct evidence *e)
{
	/* the clock of a thread, as in pthread_getcpuclockid(3) */
	e->cpu_ns = clock_ns((clockid_t)(~(unsigned int)t->tid << 3 | 6));
}

/* Packets received on this CPU so far; 0 when none are planted. */
static unsigned int packets_read(void)
{
	unsigned int packets = 0, n = 0, cpu, here = (unsigned int)sched_getcpu();
	char line[256];
	FILE *f;

	if (hook.shared->cause != PLANT_softirq)
		return 0;
	f = fopen("/proc/net/softnet_stat", "re");
	while (f && fgets(line, sizeof(line), f)) {
		cpu = n++; /* where the line does not say (before 5.10) */
		sscanf(line, "%x %*x %*x %*x %*x %*x %*x %*x %*x %*x %*x %*x %x", &packets, &cpu);
		if (cpu == here)
			break;
	}
	if (f)
		fclose(f);
	return packets;
}

/* The thread that calls the step is read last, closest to the step. */
static void evidence_begin(void)
{
	for (unsigned int i = hook.n_threads; i--;) {
		struct thread *t = &hook.threads[i];

		delay_read(t, &t->begin);
		cpu_read(t, &t->begin);
		t->begin.at_ns = clock_ns(CLOCK_BOOTTIME);
	}
}

static void evidence_end(void)
{
	for (unsigned int i = 0; i < hook.n_threads; i++) {
		struct thread *t = &hook.threads[i];

		t->end.at_ns = clock_ns(CLOCK_BOOTTIME);
		cpu_read(t, &t->end);
		delay_read(t, &t->end);
	}
}

static int thread_add(int tid)
{
	struct thread *t = &hook.threads[hook.n_threads];
	char path[64];

	if (hook.n_threads == THREADS_MAX)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", tid);
	t->tid = tid;
	t->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (t->fd < 0)
		return plant_fail(path);
	hook.n_threads++;
	return 0;
}

/* The thread that calls the step, then those of its pool. */
static int threads_find(void)
{
	struct dirent *e;
	DIR *d = opendir("/proc/self/task");
	int err;

	if (!d)
		return plant_fail("/proc/self/task");
	err = thread_add(gettid());
	while (!err && (e = readdir(d))) {
		int tid = atoi(e->d_name);

		if (tid && tid != gettid())
			err = thread_add(tid);
	}
	closedir(d);
	return err;
}

static void step_print(unsigned int step)
{
	unsigned int packets = packets_read();
	struct rusage usage, process;

	getrusage(RUSAGE_THREAD, &usage);
	getrusage(RUSAGE_SELF, &process);
	fprintf(hook.steps, "{\"step\":%u,\"n_tokens\":%d,\"nvcsw\":%ld,\"majflt\":%ld,\"packets\":%u,\"threads\":[",
		step, hook.n_tokens, usage.ru_nvcsw - hook.usage.ru_nvcsw,
		process.ru_majflt - hook.process.ru_majflt, packets - hook.packets);
	for (unsigned int i = 0; i < hook.n_threads; i++) {
		const struct thread *t = &hook.threads[i];

		fprintf(hook.steps, "%s{\"tid\":%d,\"cpu_ns\":%lu,\"delay_ns\":%lu,\"start_ns\":%lu,\"end_ns\":%lu}", i ? "," : "",
			t->tid, t->end.cpu_ns - t->begin.cpu_ns, t->end.delay_ns - t->begin.delay_ns, t->begin.at_ns, t->end.at_ns);
	}
	fputs("]}\n", hook.steps);
}

/* ---- what is planted ---- */

static void *holder(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, "plant_holder");
	for (uint32_t wish = 1; !plant_wait(&hook.hold, wish); wish++) {
		pthread_mutex_lock(&hook.lock);
		plant_set(&hook.held, wish);
		sleep_for(hook.shared->size_ns);
		hook.freed_ns = clock_ns(CLOCK_BOOTTIME);
		pthread_mutex_unlock(&hook.lock);
	}
	return NULL;
}

static void plant_mutex(struct plant_shared *s)
{
	pthread_mutex_lock(&hook.lock);
	pthread_mutex_unlock(&hook.lock);
	s->end_ns = hook.freed_ns;
}

/* Written until the slow peer has read all. */
static void plant_pipe(void)
{
	for (size_t left = PIPE_BYTES; left;) {
		ssize_t n = write(hook.peer, hook.chunk, left);

		if (n < 0) {
			plant_fail("pipe");
			return;
		}
		left -= (size_t)n;
	}
}

static void plant_socket(void)
{
	char answer;

	if (send(hook.peer, "?", 1, 0) != 1 || recv(hook.peer, &answer, 1, 0) != 1)
		plant_fail("socket");
}

static void plant_fsync(const struct plant_shared *s)
{
	do {
		if (pwrite(hook.file_sync, hook.chunk, CHUNK, 0) < 0 ||
			pwrite(hook.file, hook.chunk, PAGE, CHUNK) < 0 || fsync(hook.file)) {
			plant_fail("fsync");
			return;
		}
	} while (clock_ns(CLOCK_BOOTTIME) - s->start_ns < s->size_ns);
}

static void plant_storm(const struct plant_shared *s)
{
	struct rusage usage;

	do {
		for (int i = 0; i < 1000; i++)
			getrusage(RUSAGE_SELF, &usage);
	} while (clock_ns(CLOCK_BOOTTIME) - s->start_ns < s->size_ns);
}

/* The child waits, so that the pages stay shared. */
static void plant_fork(void)
{
	char byte;

	if (pipe(hook.child_pipe)) {
		plant_fail("pipe");
		return;
	}
	hook.child = fork();
	if (!hook.child) {
		close(hook.child_pipe[1]);
		_exit(read(hook.child_pipe[0], &byte, 1) != 0);
	}
	for (size_t i = 0; i < FORK_PAGES; i++)
		hook.memory[i * PAGE]++;
}

static void child_reap(void)
{
	if (!hook.child)
		return;
	close(hook.child_pipe[1]);
	close(hook.child_pipe[0]);
	if (hook.child > 0)
		waitpid(hook.child, NULL, 0);
	hook.child = 0;
}

static void plant(struct plant_shared *s)
{
	struct thread t = hook.threads[0];

	delay_read(&t, &t.begin);
	cpu_read(&t, &t.begin);
	s->start_ns = clock_ns(CLOCK_BOOTTIME);
	s->end_ns = 0;
	plant_set(&s->ready, s->wanted);
	switch (s->cause) {
	case PLANT_mutex:
		plant_mutex(s);
		break;
	case PLANT_pipe:
		plant_pipe();
		break;
	case PLANT_socket:
		plant_socket();
		break;
	case PLANT_sleep:
		sleep_for(s->size_ns);
		break;
	case PLANT_fsync:
		plant_fsync(s);
		break;
	case PLANT_storm:
		plant_storm(s);
		break;
	case PLANT_fork:
		plant_fork();
		break;
	default:
		break;
	}
	t.end.at_ns = clock_ns(CLOCK_BOOTTIME);
	if (!s->end_ns)
		s->end_ns = t.end.at_ns;
	cpu_read(&t, &t.end);
	delay_read(&t, &t.end);
	s->cpu_ns = t.end.cpu_ns - t.begin.cpu_ns;
	s->delay_ns = t.end.delay_ns - t.begin.delay_ns;
}

/* ---- called by the engine ---- */

static bool wanted(const struct plant_shared *s)
{
	return __atomic_load_n(&s->wanted, __ATOMIC_ACQUIRE) != hook.planted && s->step + 1 == s->begun;
}

/*
 * A part of the model is taken from memory, just before the step that then reads it again: by the
 * reclaim that would hit it when memory is short, or by a drop of the page cache, which leaves
 * alone what is mapped.
 */
static void pages_take(struct plant_shared *s)
{
	if (madvise((void *)s->from, s->length, s->cause == PLANT_drop ? MADV_DONTNEED : MADV_PAGEOUT))
		plant_fail("madvise");
	if (s->cause == PLANT_drop) {
		plant_set(&s->ready, s->wanted);
		plant_wait(&s->go, s->wanted);
	}
	s->start_ns = clock_ns(CLOCK_BOOTTIME);
}

static bool takes_pages(const struct plant_shared *s)
{
	return s->cause == PLANT_drop || s->cause == PLANT_evict;
}

static void on_step_begin(unsigned int step, int n_tokens)
{
	struct plant_shared *s = hook.shared;

	hook.n_tokens = n_tokens;
	__atomic_store_n(&s->begun, step + 1, __ATOMIC_SEQ_CST);
	if (wanted(s) && takes_pages(s))
		pages_take(s);
	if (wanted(s) && s->cause == PLANT_mutex) {
		plant_set(&hook.hold, s->wanted);
		plant_wait(&hook.held, s->wanted);
	}
	plant_set(&s->begun, step + 1);
	getrusage(RUSAGE_SELF, &hook.process);
	getrusage(RUSAGE_THREAD, &hook.usage);
	hook.packets = packets_read();
	evidence_begin();
}

static bool on_node(unsigned int node, bool ask)
{
	struct plant_shared *s = hook.shared;

	if (!wanted(s) || takes_pages(s))
		return !ask;
	if (ask)
		return node == s->node;
	plant(s);
	hook.planted = s->wanted;
	return true;
}

static void on_step_end(unsigned int step)
{
	struct plant_shared *s = hook.shared;

	evidence_end();
	step_print(step);
	if (wanted(s) && takes_pages(s)) {
		s->end_ns = clock_ns(CLOCK_BOOTTIME);
		hook.planted = s->wanted;
	}
	child_reap();
	if (s->done != hook.planted)
		plant_set(&s->done, hook.planted);
	plant_set(&s->ended, step + 1);
}

static int peer_open(uint32_t cause, const char *dir)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	char path[PATH_MAX];

	if (cause == PLANT_pipe) {
		snprintf(path, sizeof(path), "%s/pipe", dir);
		hook.peer = open(path, O_WRONLY | O_CLOEXEC);
		return hook.peer < 0 ? plant_fail(path) : 0;
	}
	if ((size_t)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/socket", dir) >= sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		return plant_fail(dir);
	}
	hook.peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (hook.peer < 0 || connect(hook.peer, (struct sockaddr *)&addr, sizeof(addr)))
		return plant_fail(addr.sun_path);
	return 0;
}

static int file_open(void)
{
	const char *disk = getenv("PLANT_DISK");
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/written", disk ?: ".");
	hook.file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	/* with O_DIRECT it waits once for all, not for each page */
	hook.file_sync = open(path, O_WRONLY | O_DSYNC | O_DIRECT | O_CLOEXEC);
	if (hook.file_sync < 0)
		hook.file_sync = open(path, O_WRONLY | O_DSYNC | O_CLOEXEC);
	if (hook.file < 0 || hook.file_sync < 0)
		return plant_fail(path);
	/* blocks are found for it now */
	if (pwrite(hook.file, hook.chunk, CHUNK, 0) < 0 ||
		pwrite(hook.file, hook.chunk, PAGE, CHUNK) < 0 || fsync(hook.file))
		return plant_fail(path);
	return 0;
}

static int memory_touch(void)
{
	hook.memory = mmap(NULL, FORK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (hook.memory == MAP_FAILED)
		return plant_fail("memory");
	madvise(hook.memory, FORK_BYTES, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < FORK_BYTES; i += PAGE)
		hook.memory[i] = 1;
	return 0;
}

/* A short slice, so that whoever happens to run as the thread is woken does not keep it waiting (6.12). */
static void slice_shorten(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = { .size = sizeof(attr), .runtime = 100000 }; /* sched_setattr(2) */

	if (syscall(SYS_sched_setattr, 0, &attr, 0))
		plant_fail("sched_setattr");
}

static int on_init(void)
{
	const char *dir = getenv("PLANT_DIR");
	char path[PATH_MAX];
	pthread_t thread;
	uint32_t cause;

	hook.shared = plant_map(0);
	if (!hook.shared)
		return -1;
	cause = hook.shared->cause;
	hook.shared->tid = (uint32_t)gettid();
	snprintf(path, sizeof(path), "%s/steps", dir);
	hook.steps = fopen(path, "we");
	if (!hook.steps)
		return plant_fail(path);
	setvbuf(hook.steps, NULL, _IOFBF, CHUNK);
	hook.chunk = aligned_alloc(PAGE, CHUNK);
	if (!hook.chunk)
		return plant_fail("memory");
	memset(hook.chunk, 'x', CHUNK);
	if (threads_find())
		return -1;
	if ((cause == PLANT_pipe || cause == PLANT_socket) && peer_open(cause, dir))
		return -1;
	if (cause == PLANT_fsync && file_open())
		return -1;
	if (cause == PLANT_fork && memory_touch())
		return -1;
	if (cause != PLANT_hog && cause != PLANT_quota)
		slice_shorten();
	if (cause == PLANT_mutex) {
		errno = pthread_create(&thread, NULL, holder, NULL);
		if (errno)
			return plant_fail("thread");
	}
	return 0;
}

static int on_finish(void)
{
	return fclose(hook.steps) ? plant_fail("steps") : 0;
}

extern const struct engine_hook engine_hook;
const struct engine_hook engine_hook = {
	.init = on_init,
	.step_begin = on_step_begin,
	.node = on_node,
	.step_end = on_step_end,
	.finish = on_finish,
};
