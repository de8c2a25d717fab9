// SPDX-License-Identifier: BSD-2-Clause
/*
 * Takes page faults of known kinds, one kind per call of work(), and prints what getrusage(2)
 * counted within each call (section.h).
 *
 *	faults FILE [-w]
 *
 * FILE is created, and removed at the end; its pages are not in the page cache when it is read. -w
 * waits for a line on stdin first.
 */
#include "section.h"

#define PAGES 40
#define EVICT_TRIES 100

enum kind {
	WARM_UP,
	FRESH,       /* writes to untouched pages */
	ZERO,        /* reads of untouched pages */
	KERNEL,      /* read(2) into untouched pages */
	COPY,        /* writes to pages shared with a child */
	FILE_USER,   /* reads of a mapped file not in memory: major faults */
	FILE_KERNEL, /* write(2) from pages of such a file */
	POPULATED,   /* mmap(2) fills in the pages itself: no instruction takes a fault */
	HANDLED,     /* the first write to each page raises SIGSEGV, whose handler allows it */
	SHARED,      /* two threads, the same pages */
	KINDS,
};

static const char *const names[KINDS] = { "warm_up", "fresh", "zero", "kernel", "copy", "file_user",
	"file_kernel", "populated", "handled", "shared" };

static size_t page;
static char *areas[KINDS];
static int file, zero, sink;
static volatile char byte;
static pthread_barrier_t barrier;

void work(int kind);

static char *area_map(int prot, int flags, int fd)
{
	char *p = mmap(NULL, PAGES * page, prot, MAP_PRIVATE | flags, fd, 0);

	/* one fault per page: no huge pages, no read-ahead of neighbours in the file */
	must(p != MAP_FAILED && !madvise(p, PAGES * page, MADV_NOHUGEPAGE) && (fd < 0 || !madvise(p, PAGES * page, MADV_RANDOM)),
		"mmap");
	return p;
}

static void pages_write(char *area)
{
	int i;

	for (i = 0; i < PAGES; i++)
		((volatile char *)area)[(size_t)i * page] = 1;
}

static void pages_read(const char *area)
{
	int i;

	for (i = 0; i < PAGES; i++)
		byte = ((const volatile char *)area)[(size_t)i * page];
}

static void on_segv(int sig, siginfo_t *info, void *context)
{
	char *p = (char *)((uintptr_t)info->si_addr & ~(page - 1));

	(void)sig;
	(void)context;
	if (p < areas[HANDLED] || p >= areas[HANDLED] + PAGES * page ||
		mprotect(p, page, PROT_READ | PROT_WRITE))
		_exit(1);
}

static void *sharer_run(void *arg)
{
	static struct section s;

	section_begin(&s, 100);
	pthread_barrier_wait(&barrier);
	pages_write(arg);
	pthread_barrier_wait(&barrier);
	/* calls of a barrier, which are not counted */
	s.skip_calls = true;
	section_end(&s);
	section_print(&s);
	return NULL;
}

/* The step. noipa: so that its argument is where the calling convention puts it. */
__attribute__((noipa)) void work(int kind)
{
	char *area = areas[kind];
	int i;

	switch (kind) {
	case FRESH:
	case COPY:
	case HANDLED:
		pages_write(area);
		break;
	case ZERO:
	case FILE_USER:
		pages_read(area);
		break;
	case KERNEL:
		must(syscall(SYS_read, zero, area, PAGES * page) == (long)(PAGES * page), "read");
		break;
	case FILE_KERNEL:
		for (i = 0; i < PAGES; i++)
			must(syscall(SYS_write, sink, area + (size_t)i * page, 1) == 1, "write");
		break;
	case POPULATED:
		pages_map(PAGES * page, MAP_PRIVATE | MAP_POPULATE);
		break;
	case SHARED:
		pthread_barrier_wait(&barrier);
		pages_write(area);
		pthread_barrier_wait(&barrier);
		break;
	}
}

/* Waits until none of the file's pages is in memory: writing back and dropping them takes time. */
static void file_evict(void)
{
	unsigned char resident[PAGES];
	void *p;
	int i, k, n;

	p = mmap(NULL, PAGES * page, PROT_READ, MAP_PRIVATE, file, 0);
	must(p != MAP_FAILED, "mmap");
	for (i = 0; i < EVICT_TRIES; i++) {
		must(!fsync(file) && !posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) && !mincore(p, PAGES * page, resident), "file");
		for (k = n = 0; k < PAGES; k++)
			n += resident[k] & 1;
		if (!n)
			break;
		usleep(10000);
	}
	munmap(p, PAGES * page);
}

static void file_make(const char *path)
{
	char *buf = malloc(PAGES * page);

	must(buf, "malloc");
	memset(buf, 'x', PAGES * page);
	file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	must(file >= 0 && write(file, buf, PAGES * page) == (ssize_t)(PAGES * page), path);
	unlink(path);
	free(buf);
}

/* Shares the pages with a child, for as long as work() runs. */
static pid_t sharing_child(const char *area, int *ret_end)
{
	int p[2];
	pid_t child;
	char c;

	byte = area[0];
	must(!pipe2(p, O_CLOEXEC), "pipe2");
	child = fork();
	if (!child) {
		close(p[1]);
		_exit(read(p[0], &c, 1) != 0);
	}
	close(p[0]);
	*ret_end = p[1];
	return child;
}

static void kind_run(enum kind kind)
{
	static struct section s;
	pthread_t sharer = 0;
	pid_t child = 0;
	int end = -1;

	if (kind == COPY) {
		pages_write(areas[COPY]);
		child = sharing_child(areas[COPY], &end);
	}
	if (kind == FILE_USER || kind == FILE_KERNEL)
		file_evict();
	if (kind == SHARED)
		sharer = thread_start(sharer_run, areas[SHARED]);
	section_begin(&s, (int)kind);
	work((int)kind);
	s.skip_calls = true;
	s.populated = kind == POPULATED ? PAGES : 0;
	section_end(&s);
	if (kind == COPY) {
		close(end);
		waitpid(child, NULL, 0);
	}
	if (kind == SHARED)
		pthread_join(sharer, NULL);
	/* mapped pages would stay in memory */
	if (kind == FILE_USER)
		munmap(areas[FILE_USER], PAGES * page);
	if (kind == WARM_UP)
		return;
	section_print(&s);
	printf("{\"step\":\"%s\",\"kind\":%d,\"faults_minor\":%ld,\"faults_major\":%ld,\"pages\":%d}\n", names[kind],
		(int)kind, s.end.minor - s.begin.minor, s.end.major - s.begin.major, PAGES);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct sigaction segv = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO };
	int sinks[2], i;

	if (argc < 2) {
		fputs("Usage: faults FILE [-w]\n", stderr);
		return 2;
	}
	page = (size_t)sysconf(_SC_PAGESIZE);
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	must(zero >= 0 && !pipe2(sinks, O_CLOEXEC), "/dev/zero");
	sink = sinks[1];
	pthread_barrier_init(&barrier, NULL, 2);
	sigaction(SIGSEGV, &segv, NULL);
	file_make(argv[1]);
	for (i = 0; i < KINDS; i++) {
		if (i == FILE_USER || i == FILE_KERNEL)
			areas[i] = area_map(PROT_READ, 0, file);
		else
			areas[i] = area_map(i == HANDLED ? PROT_NONE : PROT_READ | PROT_WRITE,
				MAP_ANONYMOUS, -1);
	}
	if (argc > 2 && !strcmp(argv[2], "-w"))
		line_wait();
	for (i = 0; i < KINDS; i++)
		kind_run((enum kind)i);
	return 0;
}
