// SPDX-License-Identifier: BSD-2-Clause
/* The writer's thread with slow and stuck files; and packets, plain and in gzip members. */
#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "writer.h"

#define TEXT_MAX (64u << 20)
#define PIPE_SIZE (1u << 16)
#define THREAD_NAME "inftrace-write"

static char text[TEXT_MAX];

/* ---- lines: each has its number ---- */

static unsigned int put_line(struct writer *w, unsigned int number, size_t len)
{
	char *start = writer_reserve(w), *p = start;

	p += sprintf(p, "%u:", number);
	memset(p, 'x', len);
	p[len] = '\n';
	writer_commit(w, p + len + 1);
	return number + 1;
}

/* Checks whole lines in order, some of which may be missing. Returns how many there are. */
static unsigned int check_lines(const char *p, size_t len)
{
	const char *end = p + len;
	unsigned int n = 0, next = 0;

	while (p < end) {
		char *x;
		unsigned long number = strtoul(p, &x, 10);

		assert_true(number >= next);
		next = (unsigned int)number + 1;
		assert_int_equal(*x, ':');
		p = memchr(x, '\n', (size_t)(end - x));
		assert_non_null(p);
		if (p > ++x) {
			assert_int_equal(*x, 'x');
			assert_int_equal(memcmp(x, x + 1, (size_t)(p - x - 1)), 0);
		}
		p++;
		n++;
	}
	return n;
}

/* Reads the pipe to its end. */
static size_t read_all(int fd)
{
	size_t len = 0;
	ssize_t n;

	/* not into the whole remaining buffer, which valgrind checks for each call */
	while (len + PIPE_SIZE <= TEXT_MAX && (n = read(fd, text + len, PIPE_SIZE)) > 0)
		len += (size_t)n;
	assert_int_equal(n, 0);
	return len;
}

struct reader {
	pthread_t thread;
	int fd;
	unsigned int delay_ms;
	size_t len;
};

static void *read_slowly(void *arg)
{
	struct reader *r = arg;

	usleep(r->delay_ms * 1000);
	r->len = read_all(r->fd);
	return NULL;
}

static struct writer *open_pipe(int fds[2])
{
	struct writer *w;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	w = writer_new(fds[1], "the pipe", WRITER_LINES);
	return w;
}

/* ---- threads ---- */

/* Calls `look` for each live writer thread. Returns their number. */
static unsigned int each_thread(void (*look)(const char *status))
{
	static char status[8192];
	unsigned int n = 0;
	struct dirent *e;
	DIR *d = opendir("/proc/self/task");

	assert_non_null(d);
	while ((e = readdir(d))) {
		char path[300];
		ssize_t len;
		int fd;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
		fd = isdigit((unsigned char)e->d_name[0]) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		if (fd < 0)
			continue;
		len = read(fd, status, sizeof(status) - 1);
		close(fd);
		status[len > 0 ? len : 0] = 0;
		if (strncmp(status, "Name:\t" THREAD_NAME "\n", 7 + strlen(THREAD_NAME)) != 0)
			continue;
		n++;
		if (look)
			look(status);
	}
	closedir(d);
	return n;
}

/* ---- a pipe that nobody reads ---- */

/* Appending goes on within the memory limit, and once the pipe is read after all, everything is there. */
TEST(test_stalled)
{
	struct reader r = {};
	unsigned int n = 0, until_full;
	struct writer *w;
	int fds[2];

	w = open_pipe(fds);
	assert_false(writer_full(w));
	while (!writer_full(w)) {
		n = put_line(w, n, 100 + draw(200));
		if (n % 1000 == 0)
			assert_int_equal(writer_flush(w), 0);
		assert_true(n < 1000000);
	}
	until_full = n;
	assert_true(writer_pending(w) > (WRITER_LIMIT - WRITER_SLACK) / 10 * 9);
	assert_int_equal(writer_dropped(w), 0);
	/* nine tenths of the slack fit, in large and small pieces */
	for (size_t slack = 0; slack < WRITER_SLACK / 10 * 9; slack += 300) {
		n = put_line(w, n, 290);
		assert_int_equal(writer_flush(w), 0);
	}
	assert_int_equal(writer_dropped(w), 0);
	/* what does not fit is left out and counted */
	for (unsigned int i = 0; i < 10000; i++)
		n = put_line(w, n, 1000);
	writer_append(w, text, 100000);
	assert_true(writer_dropped(w) > 1000);
	assert_true(writer_pending(w) <= WRITER_LIMIT);
	assert_true(writer_bytes(w) <= PIPE_SIZE);

	r.fd = fds[0];
	assert_int_equal(pthread_create(&r.thread, NULL, read_slowly, &r), 0);
	assert_int_equal(writer_sync(w), 0);
	assert_int_equal(writer_pending(w), 0);
	assert_false(writer_full(w));
	/* there is room again */
	for (unsigned int i = 0; i < 1000; i++)
		n = put_line(w, n, 1000);
	until_full += n - (unsigned int)writer_dropped(w) + 1 - until_full;
	assert_int_equal(writer_close(w), 0);
	pthread_join(r.thread, NULL);
	assert_int_equal(check_lines(text, r.len), until_full);
	close(fds[0]);
}

#define NOBODY "inftrace: cannot write the pipe: nobody reads it; the file is valid up to here\n"

/* Closing it does not wait for ever. */
TEST(test_nobody_reads)
{
	struct writer *w;
	unsigned int n;
	int fds[2];

	w = open_pipe(fds);
	for (n = 0; n < 100000;)
		n = put_line(w, n, 100);
	assert_int_equal(writer_flush(w), 0);
	assert_int_equal(GRABBED(said, writer_close(w)), -ETIMEDOUT);
	assert_string_equal(said.text, NOBODY);
	assert_int_equal(each_thread(NULL), 0);
	close(fds[0]);
}

TEST(test_interrupted)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

	for (unsigned int i = 0; i < 3; i++) {
		sigset_t set, before, pending;
		struct writer *w;
		int fds[2], sig;

		sigemptyset(&set);
		sigaddset(&set, signals[i]);
		sigprocmask(SIG_BLOCK, &set, &before);
		w = open_pipe(fds);
		for (unsigned int n = 0; n < 100000;)
			n = put_line(w, n, 100);
		raise(signals[i]);
		assert_int_equal(GRABBED(said, writer_close(w)), -ETIMEDOUT);
		assert_string_equal(said.text, NOBODY);
		/* it stays pending for whoever waits for it */
		sigpending(&pending);
		assert_int_equal(sigismember(&pending, signals[i]), 1);
		sigwait(&set, &sig);
		sigprocmask(SIG_SETMASK, &before, NULL);
		close(fds[0]);
	}
}

/* A reader that comes in time gets everything. */
TEST(test_late_reader)
{
	struct reader r = { .delay_ms = 1500 };
	struct writer *w;
	unsigned int n;
	int fds[2];

	w = open_pipe(fds);
	for (n = 0; n < 50000;)
		n = put_line(w, n, 100);
	r.fd = fds[0];
	assert_int_equal(pthread_create(&r.thread, NULL, read_slowly, &r), 0);
	assert_int_equal(writer_close(w), 0);
	pthread_join(r.thread, NULL);
	assert_int_equal(check_lines(text, r.len), n);
	close(fds[0]);
}

TEST(test_reader_goes)
{
	struct writer *w;
	unsigned int n;
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	w = open_pipe(fds);
	for (n = 0; n < 10000;)
		n = put_line(w, n, 100);
	assert_int_equal(writer_flush(w), 0);
	assert_int_equal(poll(&(struct pollfd){ .fd = fds[0], .events = POLLIN }, 1, -1), 1);
	close(fds[0]);
	assert_int_equal(GRABBED(said, writer_close(w)), -EPIPE);
	assert_string_equal(said.text, "inftrace: cannot write the pipe: Broken pipe" VALID);
}

/* ---- the thread ---- */

static void blocks_signals(const char *status)
{
	const char *line = strstr(status, "\nSigBlk:\t");
	unsigned long long set = strtoull(line + 9, NULL, 16);

	for (int sig = 1; sig <= SIGSYS; sig++) {
		if (sig != SIGKILL && sig != SIGSTOP)
			assert_true(set >> (sig - 1) & 1);
	}
}

TEST(test_signals)
{
	sigset_t before, after;
	struct writer *w;
	int fds[2];

	sigprocmask(SIG_SETMASK, NULL, &before);
	w = open_pipe(fds);
	assert_int_equal(writer_flush(w), 0);
	assert_int_equal(each_thread(NULL), 0); /* nothing to write yet */
	put_line(w, 0, 10);
	assert_int_equal(writer_sync(w), 0);
	assert_int_equal(each_thread(blocks_signals), 1);
	sigprocmask(SIG_SETMASK, NULL, &after);
	for (int sig = 1; sig <= SIGSYS; sig++)
		assert_int_equal(sigismember(&before, sig), sigismember(&after, sig));
	assert_int_equal(writer_close(w), 0);
	assert_int_equal(each_thread(NULL), 0);
	close(fds[0]);
}

/*
 * The kernel does not return from a write, whatever poll(2) had said: the writer is abandoned with it. An eventfd takes
 * eight bytes as a number, and blocks while the sum would be too large.
 */
TEST(test_stuck)
{
	uint64_t high = UINT64_MAX - 10, sum;
	sigset_t set, before;
	struct writer *w;
	int fd, sig, err;

	fd = eventfd(0, EFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, &high, sizeof(high)), sizeof(high));
	w = writer_new(dup(fd), "it", WRITER_LINES);
	assert_false(writer_stalls(w));
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, &before);
	put_line(w, 0, 5);
	assert_false(writer_stalls(w)); /* nothing was flushed yet */
	assert_int_equal(writer_flush(w), 0);
	for (int i = 0; i < 10000 && !writer_stalls(w); i++)
		usleep(1000);
	assert_true(writer_stalls(w));
	raise(SIGINT);
	err = GRABBED(said, writer_close(w));
	sigwait(&set, &sig);
	sigprocmask(SIG_SETMASK, &before, NULL);
	assert_int_equal(err, -ETIMEDOUT);
	assert_string_equal(said.text, "inftrace: cannot write it: nobody reads it" VALID);
	assert_int_equal(each_thread(NULL), 1);
	/* once released the thread ends, and frees everything */
	assert_int_equal(read(fd, &sum, sizeof(sum)), sizeof(sum));
	assert_int_equal(sum, high);
	for (int i = 0; i < 10000 && each_thread(NULL); i++)
		usleep(1000);
	assert_int_equal(each_thread(NULL), 0);
	close(fd);
}

/* Many at once, each with its own file. */
TEST(test_many)
{
	static struct writer *w[100];
	static int fds[100];

	for (unsigned int i = 0; i < 100; i++) {
		fds[i] = memfd_create("file", MFD_CLOEXEC);
		assert_true(fds[i] >= 0);
		w[i] = writer_new(dup(fds[i]), "file", WRITER_LINES);
	}
	for (unsigned int n = 0; n < 200; n++) {
		for (unsigned int i = 0; i < 100; i++) {
			put_line(w[i], n, i);
			if (!draw(10))
				assert_int_equal(writer_flush(w[i]), 0);
		}
	}
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(writer_flush(w[i]), 0);
	assert_true(each_thread(NULL) > 1);
	for (unsigned int i = 0; i < 100; i++) {
		ssize_t len;

		assert_int_equal(writer_close(w[i]), 0);
		len = pread(fds[i], text, 1 << 20, 0);
		assert_true(len > 0);
		assert_int_equal(check_lines(text, (size_t)len), 200);
		close(fds[i]);
	}
	assert_int_equal(each_thread(NULL), 0);
}

/* ---- packets ---- */

struct packets {
	int fd;
	struct writer *w;
	char *all; /* in the order they were appended */
	size_t len;
	unsigned int n;
};

static void put_packet(struct packets *f, size_t size)
{
	char *start = writer_reserve(f->w), *p = start;

	*p++ = '\n'; /* field 1, of bytes */
	if (size >= 128)
		*p++ = (char)(size | 0x80);
	*p++ = (char)(size >= 128 ? size >> 7 : size);
	for (size_t i = 0; i < size; i++)
		*p++ = (char)(draw(4) ? i : draw(256));
	memcpy(f->all + f->len, start, (size_t)(p - start));
	f->len += (size_t)(p - start);
	f->n++;
	writer_commit(f->w, p);
}

static void packets_open(struct packets *f, enum writer_mode mode)
{
	*f = (struct packets){ .fd = memfd_create("file", MFD_CLOEXEC), .all = malloc(TEXT_MAX) };
	assert_non_null(f->all);
	f->w = writer_new(dup(f->fd), "the file", mode);
}

static void put_packets(struct packets *f, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		put_packet(f, draw(50)  ? draw(400)
			      : draw(2) ? draw(WRITER_EVENT_MAX - 2)
					: WRITER_EVENT_MAX - 3);
		if (!draw(100))
			writer_flush(f->w);
	}
}

static size_t file_size(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (size_t)st.st_size;
}

/* Returns the end of the last whole packet. */
static size_t whole_packets(const char *p, size_t len)
{
	size_t at = 0, size, head;

	for (;; at += head + size) {
		head = len - at >= 2 && p[at + 1] & 0x80 ? 3 : 2;
		if (len - at < head)
			return at;
		size = p[at + 1] & 0x7f;
		if (head == 3)
			size |= (size_t)(uint8_t)p[at + 2] << 7;
		if (len - at < head + size)
			return at;
	}
}

/* Unpacks the first `len` bytes of the file: whole members, each with whole packets. */
static size_t unpack(const struct packets *f, size_t len)
{
	char *file = malloc(len + 1);
	size_t at = 0, all = 0, n;

	assert_int_equal(pread(f->fd, file, len, 0), len);
	while (at < len) {
		at += unpack_member(file + at, len - at, text + all, TEXT_MAX - all, &n);
		assert_int_equal(whole_packets(text + all, n), n);
		all += n;
	}
	free(file);
	return all;
}

static void packets_done(struct packets *f)
{
	free(f->all);
	close(f->fd);
}

TEST(test_packets)
{
	struct packets f;

	packets_open(&f, WRITER_PACKETS);
	put_packets(&f, 20000);
	assert_int_equal(writer_close(f.w), 0);
	assert_int_equal(pread(f.fd, text, TEXT_MAX, 0), f.len);
	assert_memory_equal(text, f.all, f.len);
	packets_done(&f);
}

TEST(test_packets_gzip)
{
	struct packets f;
	size_t size, n;

	packets_open(&f, WRITER_PACKETS_GZIP);
	/* readable after each flush */
	for (unsigned int i = 0; i < 10; i++) {
		put_packets(&f, 1 + draw(2000));
		assert_int_equal(writer_sync(f.w), 0);
		size = file_size(f.fd);
		assert_int_equal(writer_bytes(f.w), size);
		assert_int_equal(unpack(&f, size), f.len);
		assert_memory_equal(text, f.all, f.len);
	}
	assert_int_equal(writer_close(f.w), 0);
	packets_done(&f);

	/* also where a kill cuts it; packets larger than a page do not guarantee that */
	packets_open(&f, WRITER_PACKETS_GZIP);
	for (unsigned int i = 0; i < 20000; i++) {
		put_packet(&f, draw(500));
		if (!draw(500))
			writer_flush(f.w);
	}
	assert_int_equal(writer_close(f.w), 0);
	size = file_size(f.fd);
	for (size_t cut = PAGE; cut < size; cut += (1 + draw(cases(20, 200))) * PAGE) {
		n = unpack(&f, cut);
		assert_true(n > 0 && n < f.len);
		assert_memory_equal(text, f.all, n);
	}
	packets_done(&f);
}

/* No more is cut than necessary. */
TEST(test_packets_limit)
{
	for (unsigned int i = 0; i < cases(40, 6); i++) {
		enum writer_mode mode = i % 2 ? WRITER_PACKETS : WRITER_PACKETS_GZIP;
		size_t limit = 3 * PAGE + draw(40 * PAGE), n;
		struct packets f;
		int err;

		packets_open(&f, mode);
		stderr_grab_begin(&said);
		limit_files(limit);
		for (unsigned int k = 0; k < 4000; k++)
			put_packet(&f, draw(500));
		err = writer_close(f.w);
		limit_files(RLIM_INFINITY);
		stderr_grab_end(&said);
		assert_int_equal(err, -EFBIG);
		assert_string_equal(said.text, "inftrace: cannot write the file: File too large" VALID);
		if (mode == WRITER_PACKETS) {
			n = file_size(f.fd);
			assert_int_equal(n, whole_packets(f.all, limit));
			assert_int_equal(pread(f.fd, text, n, 0), n);
		} else {
			assert_true(file_size(f.fd) + PAGE > limit);
			n = unpack(&f, file_size(f.fd));
		}
		assert_true(n > 0);
		assert_memory_equal(text, f.all, n);
		packets_done(&f);
	}
}

RUN_TESTS(NULL, NULL)
