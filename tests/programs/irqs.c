// SPDX-License-Identifier: BSD-2-Clause
/*
 * Takes interrupts, and has the kernel count them independently, by perf_event_open(2) on tracepoints
 * for this thread.
 *
 *	irqs ROUNDS
 *
 * Each round sends datagrams to itself over the loopback, whose receive path is a soft interrupt
 * within sendto(2), maps and writes fresh pages, and computes, so that interrupts hit system calls,
 * faults, user code and each other. close(-1001) marks the beginning, close(-1002) the end; each is
 * repeated when an interrupt came in between, so the last ones count. Prints one line of JSON: the
 * counts in between, or {"skipped": why} if they are not available (the rounds are the same).
 */
#include "../program.h"

#include <arpa/inet.h>
#include <linux/perf_event.h>

#include "section.h"

enum {
	SENDS = 20,  /* per round */
	PAGES = 200, /* per round */
	SPIN = 2000000,
	MARK_TRIES = 10000,
};

static struct counter {
	const char *type; /* as in the trace */
	const char *tracepoint;
	int fd;
	uint64_t begin, end;
} counters[] = {
	{ .type = "handler", .tracepoint = "irq/irq_handler_entry" },
	{ .type = "softirq", .tracepoint = "irq/softirq_entry" },
	/* x86 only; elsewhere they are handlers */
	{ .type = "vector", .tracepoint = "irq_vectors/local_timer_entry" },
	{ .type = "vector", .tracepoint = "irq_vectors/reschedule_entry" },
	{ .type = "vector", .tracepoint = "irq_vectors/call_function_entry" },
	{ .type = "vector", .tracepoint = "irq_vectors/call_function_single_entry" },
	{ .type = "vector", .tracepoint = "irq_vectors/irq_work_entry" },
};
#define COUNTERS LENGTH(counters)

int work(int round);

static const char *skipped; /* why there are no counts */

static int tracepoint_id(const char *name)
{
	static const char *const roots[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	int id = -1;

	for (size_t i = 0; i < 2 && id < 0; i++) {
		char path[256];
		FILE *f;

		snprintf(path, sizeof(path), "%s/events/%s/id", roots[i], name);
		f = fopen(path, "re");
		if (f && fscanf(f, "%d", &id) != 1)
			id = -1;
		if (f)
			fclose(f);
	}
	return id;
}

static const char *counters_open(void)
{
	for (size_t i = 0; i < COUNTERS; i++) {
		struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr) };
		int id = tracepoint_id(counters[i].tracepoint);

		counters[i].fd = -1;
		if (id < 0 && i < 2)
			return "no tracefs with the tracepoints of interrupts";
		if (id < 0)
			continue;
		attr.config = (uint64_t)id;
		counters[i].fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		if (counters[i].fd < 0)
			return "perf_event_open does not count tracepoints here";
	}
	return NULL;
}

static void counters_read(uint64_t counts[COUNTERS])
{
	for (size_t i = 0; i < COUNTERS; i++) {
		counts[i] = 0;
		must(counters[i].fd < 0 || read(counters[i].fd, &counts[i], 8) == 8, "perf event");
	}
}

static void mark(int fd, uint64_t counts[COUNTERS])
{
	uint64_t after[COUNTERS];
	int tries = 0;

	if (skipped)
		return;
	do {
		counters_read(counts);
		syscall(SYS_close, fd);
		counters_read(after);
		if (++tries == MARK_TRIES)
			skipped = "interrupts all the time";
	} while (!skipped && memcmp(counts, after, sizeof(after)));
}

static int loopback;

static void loopback_open(void)
{
	struct sockaddr_in addr;

	loopback = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	addr = loopback_bind(loopback);
	must(!connect(loopback, (struct sockaddr *)&addr, sizeof(addr)), "loopback");
}

__attribute__((noinline)) int work(int round)
{
	volatile unsigned int x = (unsigned int)round;
	char buf[1400] = "";
	char *pages;

	for (int i = 0; i < SENDS; i++) {
		must(send(loopback, buf, sizeof(buf), 0) == sizeof(buf), "send");
		must(recv(loopback, buf, sizeof(buf), 0) == sizeof(buf), "recv");
	}
	pages = pages_map(PAGES * 4096, MAP_PRIVATE);
	for (int i = 0; i < PAGES; i++)
		((volatile char *)pages)[i * 4096] = 1;
	munmap(pages, PAGES * 4096);
	for (int i = 0; i < SPIN; i++)
		x = x * 1103515245 + 12345;
	return (int)x;
}

int main(int argc, char **argv)
{
	uint64_t begin[COUNTERS], end[COUNTERS];
	int rounds = argc == 2 ? atoi(argv[1]) : 0;

	if (rounds < 1) {
		fputs("Usage: irqs ROUNDS\n", stderr);
		return 2;
	}
	skipped = counters_open();
	loopback_open();
	work(0);
	mark(-1001, begin);
	for (int i = 0; i < rounds; i++)
		work(i);
	mark(-1002, end);
	if (skipped) {
		printf("{\"skipped\":\"%s\"}\n", skipped);
		return 0;
	}
	printf("{\"tid\":%d,\"sends\":%d", gettid(), rounds * SENDS);
	for (size_t i = 0; i < COUNTERS; i++)
		printf(",\"%s\":[\"%s\",%lu]", strchr(counters[i].tracepoint, '/') + 1,
			counters[i].type, (unsigned long)(end[i] - begin[i]));
	puts("}");
	return 0;
}
