// SPDX-License-Identifier: BSD-2-Clause
#include "../program.h"

#include "plant.h"

#include <linux/futex.h>

static const char *const names[PLANT_MAX] = {
#define NAME(name, hook) [PLANT_##name] = #name,
	PLANT_CAUSES(NAME)
#undef NAME
};

int plant_fail(const char *what)
{
	fprintf(stderr, "plant: %s: %s\n", what, strerror(errno));
	return -1;
}

int plant_cause_find(const char *name)
{
	for (int i = 1; i < PLANT_MAX; i++) {
		if (!strcmp(names[i], name))
			return i;
	}
	return -1;
}

const char *plant_cause_name(unsigned int cause)
{
	return cause && cause < PLANT_MAX ? names[cause] : "none";
}

static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

void plant_set(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
	futex(word, FUTEX_WAKE, INT_MAX, NULL);
}

int plant_wait(uint32_t *word, uint32_t value)
{
	uint64_t end = clock_ns(CLOCK_BOOTTIME) + 60000000000ull;
	struct timespec second = { .tv_sec = 1 };

	for (;;) {
		uint32_t now = __atomic_load_n(word, __ATOMIC_SEQ_CST);

		if ((int32_t)(now - value) >= 0)
			return 0;
		if (clock_ns(CLOCK_BOOTTIME) > end) {
			errno = ETIMEDOUT;
			return plant_fail("the engine does not go on");
		}
		futex(word, FUTEX_WAIT, now, &second);
	}
}

struct plant_shared *plant_map(int create)
{
	const char *dir = getenv("PLANT_DIR");
	struct plant_shared *shared;
	char path[PATH_MAX];
	int fd;

	if (!dir) {
		errno = ENOENT;
		plant_fail("PLANT_DIR");
		return NULL;
	}
	snprintf(path, sizeof(path), "%s/shared", dir);
	fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_TRUNC : 0), 0600);
	if (fd < 0 || (create && ftruncate(fd, sizeof(*shared)))) {
		plant_fail(path);
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	close(fd);
	if (shared == MAP_FAILED) {
		plant_fail(path);
		return NULL;
	}
	return shared;
}

/* The largest mapping of a .gguf file. */
int plant_model_find(int pid, struct plant_range *ret_range)
{
	struct plant_range best = { 0 };
	unsigned long start, end;
	char path[64], line[4096];
	FILE *maps;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	else
		strcpy(path, "/proc/self/maps");
	maps = fopen(path, "re");
	if (!maps)
		return plant_fail(path);
	while (fgets(line, sizeof(line), maps)) {
		if (!strstr(line, ".gguf\n") || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		if (end - start > best.length)
			best = (struct plant_range){ .start = start, .length = end - start };
	}
	fclose(maps);
	if (!best.length) {
		errno = ENOENT;
		return plant_fail("the model's mapping");
	}
	*ret_range = best;
	return 0;
}
