// SPDX-License-Identifier: BSD-2-Clause
/*
 * An engine whose steps one thread calls, and another one orders. Before each step something is in the way:
 *
 *	gaps N [within] PLANT...
 *	gaps orders
 *
 * N rounds of each plant, in turn; with `within` in the steps themselves, on the thread that calls them. Prints a line for each
 * step: the plant, the thread that was in the way, and for how long it was by its own clock, in ns; for a CPU limit also the most
 * that it may have been; and the peer of its socket. Or another process orders the steps (api_gaps.py, node_gaps.mjs): one for each
 * byte on stdin, and a byte on stdout when it is over.
 */
#include "../program.h"

#include <inttypes.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/un.h>

#define PLANT_NS (10 * MS)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ordered = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static int orders;
static bool ending;

static struct {
	pid_t tid;
	uint64_t ns, most; /* most: 0: ns */
	const char *peer;
} truth;

void step(int n_tokens);

static void (*planted)(void); /* within the next step */

__attribute__((noipa)) void step(int n_tokens)
{
	(void)n_tokens;
	spin_for(CLOCK_MONOTONIC, MS);
	if (planted)
		planted();
}

static void *worker(void *arg)
{
	pthread_mutex_lock(&lock);
	while (!ending) {
		if (!orders) {
			pthread_cond_wait(&ordered, &lock);
			continue;
		}
		pthread_mutex_unlock(&lock);
		step(1);
		pthread_mutex_lock(&lock);
		orders = 0;
		pthread_cond_signal(&done);
	}
	pthread_mutex_unlock(&lock);
	return arg;
}

static void order(void)
{
	pthread_mutex_lock(&lock);
	orders = 1;
	pthread_cond_signal(&ordered);
	while (orders)
		pthread_cond_wait(&done, &lock);
	pthread_mutex_unlock(&lock);
}

static void orders_serve(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1) {
		step(1);
		byte_send(STDOUT_FILENO);
	}
}

static pid_t gettid_now(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* ---- plants ---- */

static void plant_spin(void)
{
	uint64_t from = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	spin_for(CLOCK_THREAD_CPUTIME_ID, PLANT_NS);
	truth.tid = gettid_now();
	truth.ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - from;
}

static void plant_sleep(void)
{
	uint64_t from = clock_ns(CLOCK_MONOTONIC);

	sleep_for(PLANT_NS);
	truth.tid = gettid_now();
	truth.ns = clock_ns(CLOCK_MONOTONIC) - from;
}

static void plant_none(void)
{
	truth.tid = gettid_now();
	truth.ns = 0;
}

/* It touches memory for the first time. */
#define FAULT_BYTES (32u << 20)

static void plant_faults(void)
{
	uint64_t from = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	char *p = mmap(NULL, FAULT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(p != MAP_FAILED && !madvise(p, FAULT_BYTES, MADV_NOHUGEPAGE), "mmap");
	for (size_t i = 0; i < FAULT_BYTES; i += 4096)
		p[i] = 1;
	truth.tid = gettid_now();
	munmap(p, FAULT_BYTES);
	truth.ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - from;
	sleep_for(MS); /* faults are known of a run that is over */
}

/* Another thread holds a lock, and computes. */
static sem_t *holder_go, *holder_has;

static void *holder(void *arg)
{
	for (;;) {
		sem_wait(holder_go);
		pthread_mutex_lock(&held);
		sem_post(holder_has);
		plant_spin();
		pthread_mutex_unlock(&held);
	}
	return arg;
}

static void plant_lock(void)
{
	sem_post(holder_go);
	sem_wait(holder_has);
	pthread_mutex_lock(&held);
	pthread_mutex_unlock(&held);
}

/* Another process answers a message after a while: by a socket, or it reads a pipe late. */
#define READER_BUFFER (64 << 10) /* of a socket, about */

struct peer {
	int to, from;
	pid_t pid;
};

static void peer_serve(int in, int out)
{
	char c[4096];

	for (;;) {
		ssize_t n = read(in, c, 1);
		uint64_t from = clock_ns(CLOCK_MONOTONIC);

		if (n <= 0)
			exit(0);
		sleep_for(PLANT_NS);
		from = clock_ns(CLOCK_MONOTONIC) - from;
		must(write(out, &from, sizeof(from)) == sizeof(from), "write");
	}
}

static void plant_peer(struct peer *p)
{
	must(write(p->to, "x", 1) == 1, "write");
	must(read(p->from, &truth.ns, sizeof(truth.ns)) == sizeof(truth.ns), "read");
	truth.tid = p->pid;
}

static void connect_pair(int family, int pair[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int server, bytes = READER_BUFFER;

	if (family == AF_UNIX) {
		must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
		return;
	}
	server = socket(AF_INET, SOCK_STREAM, 0);
	must(server >= 0 && !setsockopt(server, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), "socket");
	must(!bind(server, (void *)&a, sizeof(a)) && !listen(server, 1) && !getsockname(server, (void *)&a, &len), "listen");
	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	must(pair[0] >= 0 && !setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), "socket");
	must(!connect(pair[0], (void *)&a, sizeof(a)), "connect");
	pair[1] = accept(server, NULL, NULL);
	must(pair[1] >= 0, "accept");
	close(server);
}

static struct peer peer_start(int family)
{
	struct peer p;
	int pair[2];

	connect_pair(family, pair);
	p = (struct peer){ pair[0], pair[0], fork() };
	must(p.pid >= 0, "fork");
	if (!p.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "upstream");
		close(pair[0]);
		peer_serve(pair[1], pair[1]);
	}
	close(pair[1]);
	return p;
}

static struct peer upstream, unix_peer;

static void plant_upstream(void)
{
	plant_peer(&upstream);
}

static void plant_unix(void)
{
	plant_peer(&unix_peer);
}

/* A pipe, or the connection to a client, is full, and its reader takes its time. */
#define PIPE_BYTES (65536 + 4096) /* a pipe holds 64 KB */
#define CLIENT_BYTES (1 << 20)    /* the two buffers of a connection hold less */

static struct peer late_reader, late_client;

/* fds: its end, and the writer's. */
static struct peer reader_start(const int fds[2], const char *name, size_t bytes)
{
	struct peer p = { .to = fds[1], .pid = fork() };
	static char c[65536];

	must(p.pid >= 0, "fork");
	if (p.pid) {
		close(fds[0]);
		return p;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, name);
	close(fds[1]);
	for (;;) {
		struct pollfd f = { fds[0], POLLIN, 0 };

		poll(&f, 1, -1);
		sleep_for(PLANT_NS);
		for (size_t left = bytes; left;) {
			ssize_t n = read(fds[0], c, sizeof(c) < left ? sizeof(c) : left);

			if (n <= 0)
				exit(0);
			left -= (size_t)n;
		}
	}
}

static void readers_start(void)
{
	int fds[2], pair[2];

	must(!pipe(fds), "pipe");
	late_reader = reader_start(fds, "late reader", PIPE_BYTES);
	connect_pair(AF_INET, pair);
	late_client = reader_start((const int[]){ pair[1], pair[0] }, "late client", CLIENT_BYTES);
}

static void plant_write(const struct peer *p, size_t bytes)
{
	static char c[CLIENT_BYTES];

	for (size_t left = bytes; left;) {
		ssize_t n = write(p->to, c, left);

		must(n > 0, "write");
		left -= (size_t)n;
	}
	truth.tid = p->pid;
	truth.ns = PLANT_NS; /* what it then takes to pass so much on is not its reader's */
}

static void plant_pipe(void)
{
	plant_write(&late_reader, PIPE_BYTES);
}

static void plant_client(void)
{
	plant_write(&late_client, CLIENT_BYTES);
}

/* A child computes, and is waited for. It is in the way from its birth to its end. */
static void plant_child(void)
{
	struct rusage u;

	truth.tid = fork();
	must(truth.tid >= 0, "fork");
	if (!truth.tid) {
		plant_spin();
		_exit(0);
	}
	must(wait4(truth.tid, NULL, 0, &u) == truth.tid, "wait4");
	truth.ns = (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 * MS + (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

/* Another process stops this one while it computes. */
static int stop_pipe[2];
static atomic_bool *stop_over;

static bool is_stopped(pid_t pid, pid_t tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	f = fopen(path, "r");
	must(f != NULL, path);
	must(fscanf(f, "%*d (%*[^)]) %c", &state) == 1, path);
	fclose(f);
	return state == 'T';
}

static void stopper_start(void)
{
	pid_t self = getpid(), pid, tid;

	stop_over = mmap(NULL, sizeof(*stop_over), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(stop_over != MAP_FAILED && !pipe(stop_pipe), "pipe");
	pid = fork();
	must(pid >= 0, "fork");
	if (pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "stopper");
	while (read(stop_pipe[0], &tid, sizeof(tid)) == sizeof(tid)) {
		kill(self, SIGSTOP);
		while (!is_stopped(self, tid)) /* while it waits for a CPU, it is not */
			sleep_for(MS / 10);
		sleep_for(PLANT_NS);
		kill(self, SIGCONT);
		*stop_over = true;
	}
	exit(0);
}

static void plant_stop(void)
{
	uint64_t last = clock_ns(CLOCK_MONOTONIC), now;
	bool over;

	truth.tid = gettid_now();
	truth.ns = 0;
	*stop_over = false;
	must(write(stop_pipe[1], &truth.tid, sizeof(truth.tid)) == sizeof(truth.tid), "write");
	do { /* the longest time in which it did not run */
		over = *stop_over;
		now = clock_ns(CLOCK_MONOTONIC);
		if (now - last > truth.ns)
			truth.ns = now - last;
		last = now;
	} while (!over);
}

/* It waits in vain for a peer's answer, until its own timeout: in turn one of these. Another process listens, or of a socketpair()
 * nobody knows who has the other end. */
static struct silent {
	int family, fd;
	char peer[64];
} silent[] = { { .family = AF_INET }, { .family = AF_UNIX }, {}, { .family = AF_INET6 } };

/* false: the machine has no such addresses. */
static bool silent_connect(struct silent *s)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	} a = { .any.sa_family = (sa_family_t)s->family };
	socklen_t len = sizeof(a);
	int server = socket(s->family, SOCK_STREAM, 0), ready[2];
	char c;
	pid_t pid;

	if (s->family == AF_INET)
		a.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (s->family == AF_INET6)
		a.in6.sin6_addr = in6addr_loopback;
	else
		len = (socklen_t)(sizeof(a.un.sun_family) + (size_t)sprintf(a.un.sun_path, "gaps-%d.sock", getpid()) + 1);
	if (bind(server, &a.any, len) && s->family == AF_INET6)
		return false;
	must(!getsockname(server, &a.any, &len) && !pipe(ready) && (pid = fork()) >= 0, "bind");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "silent \"peer\"");
		must(!listen(server, 1) && write(ready[1], "x", 1) == 1, "listen");
		for (;;)
			pause();
	}
	s->fd = socket(s->family, SOCK_STREAM, 0);
	must(read(ready[0], &c, 1) == 1 && !connect(s->fd, &a.any, len), "connect");
	if (s->family == AF_UNIX)
		sprintf(s->peer, "silent \"peer\" (%d) gaps-%d.sock", pid, getpid());
	else
		sprintf(s->peer, s->family == AF_INET ? "127.0.0.1:%u" : "[::1]:%u", ntohs(a.in.sin_port)); /* the port is at the same place */
	return true;
}

static void plant_silent(void)
{
	static size_t turn, of = LENGTH(silent);
	const struct timeval limit = { .tv_usec = PLANT_NS / 1000 };
	struct silent *s = &silent[turn++ % of];
	int pair[2];
	uint64_t from;
	char c;

	if (!s->fd && !s->family) {
		must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
		s->fd = pair[0];
	} else if (!s->fd && !silent_connect(s)) {
		of--; /* it is the last one */
		s = silent;
	}
	must(!setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), "SO_RCVTIMEO");
	from = clock_ns(CLOCK_MONOTONIC);
	must(recv(s->fd, &c, 1, 0) < 0 && errno == EAGAIN, "recv");
	truth.ns = clock_ns(CLOCK_MONOTONIC) - from;
	truth.tid = gettid_now();
	truth.peer = s->peer;
}

/* It reads a file that is not in the page cache; from a disk, or else it takes hardly any time. */
#define FILE_BYTES (16u << 20)

static int cold = -1;

static void cold_start(void)
{
	static char c[FILE_BYTES];
	char name[] = "gaps-XXXXXX";

	cold = mkstemp(name);
	must(cold >= 0 && !unlink(name) && write(cold, c, sizeof(c)) == sizeof(c) && !fsync(cold), "a file here");
}

static void plant_cold(void)
{
	static char c[1 << 20];
	uint64_t from, cpu;

	must(!posix_fadvise(cold, 0, 0, POSIX_FADV_DONTNEED) && !lseek(cold, 0, SEEK_SET), "posix_fadvise");
	from = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	while (read(cold, c, sizeof(c)) > 0)
		;
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	truth.tid = gettid_now();
	truth.ns = clock_ns(CLOCK_MONOTONIC) - from - cpu;
}

/*
 * It computes in a cgroup with a CPU limit: GAPS_LIMITED is its directory, GAPS_FREE that of one without. How long it was held
 * back is in the kernel's own statistics; after that it may wait for a CPU that others have.
 */
static void enter(const char *name)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", getenv(name));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	must(fd >= 0 && write(fd, "0", 1) == 1, path);
	close(fd);
}

static uint64_t held_back(void)
{
	uint64_t n = 0;
	char line[512];
	FILE *f;

	snprintf(line, sizeof(line), "%s/cpu.stat", getenv("GAPS_LIMITED"));
	f = fopen(line, "re");
	must(f != NULL, line);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "throttled_time %" SCNu64, &n) == 1) /* version 1 of cgroups: ns */
			break;
		if (sscanf(line, "throttled_usec %" SCNu64, &n) == 1) {
			n *= 1000;
			break;
		}
	}
	must(!feof(f), "cpu.stat");
	fclose(f);
	return n;
}

static void plant_limit(void)
{
	uint64_t from, cpu, before = held_back();

	enter("GAPS_LIMITED"); /* which itself may take a while */
	from = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	spin_for(CLOCK_THREAD_CPUTIME_ID, PLANT_NS);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	truth.most = clock_ns(CLOCK_MONOTONIC) - from - cpu;
	enter("GAPS_FREE");
	truth.ns = held_back() - before;
	truth.tid = gettid_now();
}

/* It sleeps, and then waits for a chain of threads that wake one another. */
#define CHAIN 10000
static sem_t chain[CHAIN + 1];

static void *chain_link(void *arg)
{
	for (sem_t *from = arg;; sem_post(from + 1))
		sem_wait(from);
	return NULL;
}

static void chain_start(void)
{
	pthread_attr_t small;
	pthread_t t;

	must(!pthread_attr_init(&small) && !pthread_attr_setstacksize(&small, 64 << 10), "pthread_attr_init");
	for (size_t i = 0; i <= CHAIN; i++)
		must(!sem_init(&chain[i], 0, 0), "sem_init");
	for (size_t i = 0; i < CHAIN; i++)
		must(!pthread_create(&t, &small, chain_link, &chain[i]), "pthread_create");
}

static void plant_chain(void)
{
	truth.tid = gettid_now();
	truth.ns = 30 * PLANT_NS;
	sleep_for(truth.ns);
	sem_post(&chain[0]);
	sem_wait(&chain[CHAIN]);
}

static const struct {
	const char *name;
	void (*plant)(void);
} plants[] = {
	{ "none", plant_none },
	{ "spin", plant_spin },
	{ "sleep", plant_sleep },
	{ "lock", plant_lock },
	{ "upstream", plant_upstream },
	{ "unix", plant_unix },
	{ "pipe", plant_pipe },
	{ "client", plant_client },
	{ "child", plant_child },
	{ "stop", plant_stop },
	{ "faults", plant_faults },
	{ "silent", plant_silent },
	{ "chain", plant_chain },
	{ "cold", plant_cold },
	{ "limit", plant_limit },
};

int main(int argc, char **argv)
{
	static sem_t go, has;
	bool within = argc > 2 && !strcmp(argv[2], "within");
	char **first = argv + (within ? 3 : 2);
	pthread_t t;

	if (argc == 2 && !strcmp(argv[1], "orders")) {
		orders_serve();
		return 0;
	}
	must(argc > 2, "gaps N PLANT...");
	setvbuf(stdout, NULL, _IOLBF, 0);
	sem_init(holder_go = &go, 0, 0);
	sem_init(holder_has = &has, 0, 0);
	upstream = peer_start(AF_INET);
	unix_peer = peer_start(AF_UNIX);
	readers_start();
	stopper_start();
	for (char **a = first; *a && cold < 0; a++) {
		if (!strcmp(*a, "cold"))
			cold_start();
	}
	if (!strcmp(*first, "chain"))
		chain_start();
	must(!pthread_create(&t, NULL, holder, NULL), "pthread_create");
	pthread_setname_np(t, "holder");
	must(!pthread_create(&t, NULL, worker, NULL), "pthread_create");
	pthread_setname_np(t, "worker");
	sleep_for(500 * MS); /* on a slow machine its functions may have no probes once its loader no longer waits for them */
	order();	     /* nothing comes before the first step */
	for (int i = 0; i < atoi(argv[1]); i++) {
		for (char **a = first; *a; a++) {
			size_t n = 0;

			while (n < LENGTH(plants) && strcmp(plants[n].name, *a))
				n++;
			must(n < LENGTH(plants), *a);
			truth.most = 0;
			truth.peer = "";
			if (within)
				planted = plants[n].plant;
			else
				plants[n].plant();
			order();
			printf("%s %d %" PRIu64 " %" PRIu64 " %s\n", *a, truth.tid, truth.ns, truth.most ? truth.most : truth.ns, truth.peer);
		}
	}
	ending = true;
	return 0;
}
