// SPDX-License-Identifier: BSD-2-Clause
/*
 * maps FILE...: maps the files as code, prints "ready" and waits.
 *
 * maps -m N FILE: maps N pages of FILE as code, none next to another, and then one more again and
 * again.
 */
#include "../program.h"

#define PAGE 4096UL

static void *map(const char *file, void *at, int flags)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	void *p = fd < 0 ? MAP_FAILED : mmap(at, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | flags, fd, 0);

	must(p != MAP_FAILED, file);
	close(fd);
	return p;
}

int main(int argc, char **argv)
{
	unsigned long n;
	char *at;

	if (argc != 4 || strcmp(argv[1], "-m")) {
		for (int i = 1; i < argc; i++)
			map(argv[i], NULL, 0);
		say("ready");
		for (;;)
			pause();
	}
	n = strtoul(argv[2], NULL, 10);
	at = mmap(NULL, 2 * n * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return 1;
	for (unsigned long i = 0; i < n; i++)
		map(argv[3], at + 2 * i * PAGE, MAP_FIXED);
	say("ready");
	for (;; usleep(5000))
		munmap(map(argv[3], NULL, 0), PAGE);
}
