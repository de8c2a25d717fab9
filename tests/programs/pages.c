// SPDX-License-Identifier: BSD-2-Clause
/*
 * Allocates and frees a known number of pages, and reports at each plateau what the kernel says about it.
 *
 *	pages [-w|-i]       -w: prints "ready" first and waits for a line; -i: at the end
 *
 * One line of JSON for each plateau: its time (CLOCK_BOOTTIME), the resident set from
 * /proc/self/statm, the highest from getrusage(2), and the pages touched and given back so far.
 */
#include "../program.h"

#include "section.h"

enum {
	SMALL = 4000, /* pages one by one */
	HUGE = 8,     /* regions of 2 MB, as huge pages where the kernel has them */
	REGION = 2 << 20,
};

static long touched, freed;

static void nap(void)
{
	sleep_for(100 * MS);
}

static void plateau(const char *name)
{
	uint64_t from, to;
	struct rusage ru;
	long size, rss;
	char text[128];
	ssize_t n;
	int fd;

	nap();
	from = clock_ns(CLOCK_BOOTTIME);
	fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	n = read(fd, text, sizeof(text) - 1);
	must(n > 0, "/proc/self/statm");
	close(fd);
	text[n] = '\0';
	must(sscanf(text, "%ld %ld", &size, &rss) == 2 && !getrusage(RUSAGE_SELF, &ru), "statm");
	nap();
	to = clock_ns(CLOCK_BOOTTIME);
	printf("{\"plateau\":\"%s\",\"from_ns\":%lu,\"to_ns\":%lu,\"rss\":%ld,\"maxrss\":%ld,"
	       "\"touched\":%ld,\"freed\":%ld,\"page\":%ld}\n",
		name, (unsigned long)from, (unsigned long)to, rss * sysconf(_SC_PAGESIZE), ru.ru_maxrss * 1024, touched, freed,
		sysconf(_SC_PAGESIZE));
	fflush(stdout);
	/* A recorder takes the time just before it reads the value, and on a busy machine something may come in between. */
	nap();
}

static char *map(size_t size)
{
	char *p = pages_map(size + REGION, MAP_PRIVATE);

	return (char *)(((uintptr_t)p + REGION - 1) & ~(uintptr_t)(REGION - 1));
}

static void touch(char *p, size_t size)
{
	long page = sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < size; i += (size_t)page)
		((volatile char *)p)[i] = 1;
	touched += (long)size / page;
}

static void give_back(char *p, size_t size)
{
	must(!madvise(p, size, MADV_DONTNEED), "madvise");
	freed += (long)size / sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
	size_t small = SMALL * (size_t)sysconf(_SC_PAGESIZE), huge = HUGE * (size_t)REGION;
	const char *option = argc == 2 ? argv[1] : "";
	char *a = map(small), *b = map(huge);

	must(!madvise(a, small, MADV_NOHUGEPAGE), "madvise");
	madvise(b, huge, MADV_HUGEPAGE); /* a kernel without huge pages gives small ones */
	plateau("before");               /* from now on the memory for printing is allocated */
	if (!strcmp(option, "-w"))
		line_wait();
	plateau("start");
	touch(a, small);
	plateau("small");
	touch(b, huge);
	plateau("huge");
	give_back(a, small);
	plateau("given back");
	give_back(b, huge);
	plateau("end");
	if (!strcmp(option, "-i"))
		line_wait();
	return 0;
}
