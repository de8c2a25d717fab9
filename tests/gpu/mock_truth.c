// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "mock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SPIN_NS 100000

static FILE *truth, *names;

void mock_truth_open(void)
{
	const char *file = getenv("MOCK_TRUTH");
	char *path = NULL;

	truth = file ? fopen(file, "we") : NULL;
	if (file && asprintf(&path, "%s.names", file) > 0)
		names = fopen(path, "we");
	free(path);
}

/* Whether this text has not been seen before; a few of many are forgotten, and are seen again. */
static bool first_time(const char *name)
{
	static uint64_t seen[4096];
	uint64_t h = mock_hash(name, strnlen(name, MOCK_NAME_MAX)), *at = &seen[h % 4096];

	if (*at == h)
		return false;
	*at = h;
	return true;
}

void mock_truth_write(const struct mock_work *w)
{
	struct mock_work said = *w;

	if (names && w->name && first_time(w->name))
		fprintf(names, "%.*s\n", MOCK_NAME_MAX, w->name);
	if (!truth)
		return;
	said.name = w->name ? (const char *)(uintptr_t)mock_hash(w->name, strnlen(w->name, MOCK_NAME_MAX)) : NULL;
	fwrite(&said, sizeof(said), 1, truth);
}

void mock_truth_flush(void)
{
	if (truth)
		fflush(truth);
	if (names)
		fflush(names);
}

void mock_wait_until(uint64_t boot_ns)
{
	uint64_t wake = boot_ns - SPIN_NS;
	struct timespec ts = { .tv_sec = (time_t)(wake / 1000000000u), .tv_nsec = (long)(wake % 1000000000u) };

	/* the kernel may wake it up that late */
	while (boot_ns > mock_boot_ns() + SPIN_NS && clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
	while (mock_boot_ns() < boot_ns)
		;
}
