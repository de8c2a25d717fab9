// SPDX-License-Identifier: BSD-2-Clause
#include "../program.h"

#include "external.h"

#include <dirent.h>
#include <netinet/udp.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define TASKS_MAX 64
#define DATAGRAM 500

static int file_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return plant_fail(path);
	n = write(fd, text, strlen(text));
	if (n < 0)
		plant_fail(path);
	close(fd);
	return n < 0 ? -1 : 0;
}

/* ---- children that take a CPU ---- */

struct rival {
	uint32_t wanted, begun, done; /* futexes */
	uint64_t size_ns, start_ns, end_ns;
	int pid;
	int out; /* socket */
};

static void spin(struct rival *r)
{
	while (clock_ns(CLOCK_BOOTTIME) - r->start_ns < r->size_ns)
		;
}

/*
 * Datagrams that nobody reads. They are sent 64 at a time and taken apart where they are received:
 * their cost is in that softirq, and little of it in the interrupts that lead to it.
 */
static void flood_open(struct rival *r)
{
	int in = socket(AF_INET, SOCK_DGRAM, 0), size = 1, segment = DATAGRAM;
	struct sockaddr_in addr = loopback_bind(in);

	r->out = socket(AF_INET, SOCK_DGRAM, 0);
	setsockopt(in, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(r->out, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	must(!connect(r->out, (struct sockaddr *)&addr, sizeof(addr)), "connect");
}

static void flood(struct rival *r)
{
	static char data[64 * DATAGRAM];

	while (clock_ns(CLOCK_BOOTTIME) - r->start_ns < r->size_ns)
		send(r->out, data, sizeof(data), MSG_DONTWAIT);
}

static void rival_main(struct rival *r, enum plant_cause cause, int cpu)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, cause == PLANT_hog ? "plant_hog" : "plant_flood");
	pin_to(cpu);
	if (cause == PLANT_softirq)
		flood_open(r);
	for (uint32_t n = 1;; n++) {
		while (plant_wait(&r->wanted, n))
			;
		r->start_ns = clock_ns(CLOCK_BOOTTIME);
		plant_set(&r->begun, n);
		cause == PLANT_hog ? spin(r) : flood(r);
		r->end_ns = clock_ns(CLOCK_BOOTTIME);
		plant_set(&r->done, n);
	}
}

struct rival *rival_start(enum plant_cause cause, const struct target *t)
{
	struct rival *r = pages_map(sizeof(*r), MAP_SHARED);
	pid_t pid = fork();

	if (!pid)
		rival_main(r, cause, cause == PLANT_hog ? t->cpu : t->other_cpu);
	if (pid < 0) {
		plant_fail("fork");
		munmap(r, sizeof(*r));
		return NULL;
	}
	r->pid = pid; /* by the parent only: they share this */
	return r;
}

int rival_run(struct rival *r, uint64_t size_ns, uint64_t *ret_start, uint64_t *ret_end)
{
	uint32_t n = r->wanted + 1;

	r->size_ns = size_ns;
	plant_set(&r->wanted, n);
	if (plant_wait(&r->done, n))
		return -1;
	*ret_start = r->start_ns;
	*ret_end = r->end_ns;
	return 0;
}

void rival_stop(struct rival *r)
{
	if (!r)
		return;
	kill(r->pid, SIGKILL);
	waitpid(r->pid, NULL, 0);
	munmap(r, sizeof(*r));
}

/* ---- limits, signals, debuggers ---- */

/* For the given time the engine gets a fifth of a CPU. */
int quota_plant(const struct target *t, uint64_t size_ns, uint64_t *ret_start, uint64_t *ret_end)
{
	char path[PATH_MAX];
	bool v2;
	int err;

	snprintf(path, sizeof(path), "%s/cpu.max", t->cgroup);
	v2 = !access(path, W_OK);
	if (!v2)
		snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", t->cgroup);
	*ret_start = clock_ns(CLOCK_BOOTTIME);
	err = file_write(path, v2 ? "20000 100000" : "20000");
	sleep_for(size_ns);
	err |= file_write(path, v2 ? "max 100000" : "-1");
	*ret_end = clock_ns(CLOCK_BOOTTIME);
	return err;
}

int stop_plant(const struct target *t, uint64_t size_ns, uint64_t *ret_start, uint64_t *ret_end)
{
	*ret_start = clock_ns(CLOCK_BOOTTIME);
	if (kill(t->pid, SIGSTOP))
		return plant_fail("SIGSTOP");
	sleep_for(size_ns);
	*ret_end = clock_ns(CLOCK_BOOTTIME);
	return kill(t->pid, SIGCONT) ? plant_fail("SIGCONT") : 0;
}

static int tasks_list(int pid, int *tids)
{
	struct dirent *e;
	char path[64];
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	if (!d)
		return plant_fail(path);
	while ((e = readdir(d)) && n < TASKS_MAX) {
		if (atoi(e->d_name))
			tids[n++] = atoi(e->d_name);
	}
	closedir(d);
	return n;
}

/* As gdb -p does: all threads are stopped, inspected and released. */
int debugger_plant(const struct target *t, uint64_t size_ns, uint64_t *ret_start, uint64_t *ret_end)
{
	int tids[TASKS_MAX], n = tasks_list(t->pid, tids), status, err = 0;

	if (n < 0)
		return -1;
	*ret_start = clock_ns(CLOCK_BOOTTIME);
	for (int i = 0; i < n; i++) {
		if (ptrace(PTRACE_SEIZE, tids[i], 0, 0) || ptrace(PTRACE_INTERRUPT, tids[i], 0, 0))
			err = plant_fail("ptrace");
	}
	for (int i = 0; i < n && !err; i++)
		waitpid(tids[i], &status, __WALL);
	sleep_for(size_ns);
	*ret_end = clock_ns(CLOCK_BOOTTIME);
	for (int i = 0; i < n; i++) {
		if (ptrace(PTRACE_DETACH, tids[i], 0, 0))
			err = plant_fail("ptrace");
	}
	return err;
}

/* ---- memory ---- */

int caches_drop(void)
{
	return file_write("/proc/sys/vm/drop_caches", "1");
}

/* ---- interrupts ---- */

#define RPS_CPUS "/sys/class/net/lo/queues/rx-0/rps_cpus"

/* The engine's CPU handles what arrives on the loopback interface. */
int softirq_plant(const struct target *t, struct rival *r, uint64_t size_ns, uint64_t *ret_start, uint64_t *ret_end)
{
	char mask[64];
	int err;

	if (t->cpu > 31) {
		errno = EINVAL;
		return plant_fail(RPS_CPUS);
	}
	snprintf(mask, sizeof(mask), "%x", 1u << t->cpu);
	if (file_write(RPS_CPUS, mask))
		return -1;
	err = rival_run(r, size_ns, ret_start, ret_end);
	return file_write(RPS_CPUS, "0") ?: err;
}
