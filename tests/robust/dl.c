// SPDX-License-Identifier: BSD-2-Clause
/*
 * Libraries that come and go.
 *
 *   dl cycle LIB N         maps LIB and calls it, N times
 *   dl deleted LIB         deletes LIB as soon as it is mapped
 *   dl replaced LIB OTHER  after LIB has gone, OTHER takes its name
 *   dl reused JUNK LIB     after JUNK has gone, LIB is made of it, in the same inode if possible
 *
 * Each time the probe on dl_work is waited for (its code differs from the file's), then dl_work is
 * called CALLS times. Prints one JSON line: the calls, and the longest wait for a probe.
 */
#include "../program.h"

#include <inttypes.h>

#define CALLS 10
#define CODE_BYTES 16
#define WAIT_MS 10000
#define TRIES 200
#define SLACK_US 100000

static long calls, longest_us;

static int64_t now_us(void)
{
	return (int64_t)clock_ns(CLOCK_MONOTONIC) / 1000;
}

/* Reads the file's bytes at an address of the process, through the mapping: the file may be deleted. */
static void read_file_at(uintptr_t addr, unsigned char code[CODE_BYTES])
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[4096], path[128];
	uint64_t start, end, offset;
	int fd;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &start, &end, &offset) != 3 || addr < start || addr >= end)
			continue;
		fclose(f);
		snprintf(path, sizeof(path), "/proc/self/map_files/%" PRIx64 "-%" PRIx64, start, end);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		must(fd >= 0 && pread(fd, code, CODE_BYTES, (off_t)(addr - start + offset)) == CODE_BYTES, path);
		close(fd);
		return;
	}
	die("/proc/self/maps");
}

static void *map(const char *lib, int (**ret_work)(int))
{
	void *handle = dlopen(lib, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		die(dlerror());
	*(void **)ret_work = dlsym(handle, "dl_work");
	must(*ret_work, "dl_work");
	return handle;
}

static void work(int (*dl_work)(int))
{
	unsigned char code[CODE_BYTES];
	int64_t start = now_us(), waited;
	unsigned int slack = 0; /* entry and return are not probed at the same moment */

	read_file_at((uintptr_t)dl_work, code);
	while (!memcmp(code, *(void **)&dl_work, CODE_BYTES)) {
		slack = SLACK_US;
		if (now_us() - start > WAIT_MS * 1000)
			break; /* the calls will be missing in the trace */
		usleep(200);
	}
	waited = now_us() - start;
	usleep(slack);
	if (waited > longest_us)
		longest_us = waited;
	for (int i = 0; i < CALLS; i++)
		calls += dl_work(1);
}

static void run(const char *lib, bool delete)
{
	int (*dl_work)(int);
	void *handle = map(lib, &dl_work);

	must(!delete || !unlink(lib), lib);
	work(dl_work);
	dlclose(handle);
}

/* A file with the inode that was last freed, or, where that fails, with another. */
static int create_with_inode(const char *path, ino_t wanted)
{
	char other[TRIES][64];
	struct stat st;
	int fd = -1, n;

	for (n = 0; n < TRIES; n++) {
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
		must(fd >= 0 && !fstat(fd, &st), path);
		if (st.st_ino == wanted || n + 1 == TRIES)
			break;
		close(fd);
		snprintf(other[n], sizeof(other[n]), "%s.%d", path, n);
		rename(path, other[n]);
	}
	while (n--)
		unlink(other[n]);
	return fd;
}

static bool remake(const char *from, const char *to)
{
	char buf[1 << 16];
	struct stat st, new;
	ssize_t n;
	int in, out;

	in = open(from, O_RDONLY | O_CLOEXEC);
	must(in >= 0 && !fstat(in, &st), from);
	n = read(in, buf, sizeof(buf));
	unlink(from);
	close(in);
	out = create_with_inode(to, st.st_ino);
	must(n > 0 && n < (ssize_t)sizeof(buf) && write(out, buf, (size_t)n) == n && !fstat(out, &new), to);
	close(out);
	return new.st_ino == st.st_ino;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "", *lib = argv[2];
	int (*dl_work)(int);
	bool reused = false;
	void *handle;

	if (!strcmp(mode, "cycle") && argc > 3) {
		for (int i = 0; i < atoi(argv[3]); i++)
			run(lib, false);
	} else if (!strcmp(mode, "deleted")) {
		run(lib, true);
	} else if (!strcmp(mode, "replaced") && argc > 3) {
		run(lib, false);
		must(!rename(argv[3], lib), argv[3]);
		run(lib, false);
	} else if (!strcmp(mode, "reused") && argc > 3) {
		handle = map(lib, &dl_work);
		usleep(100000); /* the recorder looks at it */
		dlclose(handle);
		reused = remake(lib, argv[3]);
		run(argv[3], false);
	} else {
		fprintf(stderr, "dl: wrong arguments\n");
		return 2;
	}
	printf("{\"calls\":%ld,\"longest_us\":%ld,\"reused\":%s}\n", calls, longest_us, reused ? "true" : "false");
	return 0;
}
