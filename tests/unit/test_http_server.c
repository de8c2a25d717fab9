// SPDX-License-Identifier: BSD-2-Clause
/* One file over real sockets, to clients that are slow, hostile, or gone. The clock is the tests'.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cases.h"
#include "io/http.h"
#include "io/http_server.h"

#define HOST "Host: 127.0.0.1:9001\r\n"
#define UI "Origin: https://ui.perfetto.dev\r\n"
#define GET "GET /t.json HTTP/1.1\r\n" HOST "\r\n"
#define LARGE (24 << 20) /* more than the buffers of a connection take */
#define GIVE_UP_S 30

static struct http_server *server;
static int64_t now_ms;
static int file_fd;
static char *content; /* of LARGE bytes */

static int setup(void **state)
{
	uint32_t x = 1;

	(void)state;
	content = malloc(LARGE);
	if (!content)
		return -1;
	for (size_t i = 0; i < LARGE; i++) {
		x = x * 1664525 + 1013904223; /* Numerical Recipes, section 7.1 */
		content[i] = (char)(x >> 24);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(content);
	return 0;
}

static void write_file(size_t from, size_t to)
{
	while (from < to) {
		ssize_t n = pwrite(file_fd, content + from, to - from, (off_t)from);

		assert_true(n > 0);
		from += (size_t)n;
	}
}

static int begin(void **state)
{
	(void)state;
	now_ms = 1000000;
	file_fd = memfd_create("t", MFD_CLOEXEC);
	assert_true(file_fd >= 0);
	assert_int_equal(http_server_new(0, file_fd, "t.json", "application/json", &server), 0);
	assert_true(http_server_port(server) > 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	http_server_free(server);
	close(file_fd);
	return 0;
}

/* One turn of the server; waits for something to do for 10 ms at most. */
static void turn(void)
{
	struct pollfd fd = { .fd = http_server_fd(server), .events = POLLIN };

	poll(&fd, 1, 10);
	http_server_work(server, now_ms);
}

static time_t give_up(void)
{
	return time(NULL) + GIVE_UP_S;
}

/* Time passes, and the server gets to know. */
static void pass(int64_t ms)
{
	now_ms += ms;
	turn();
}

static const struct sockaddr *address(void)
{
	static struct sockaddr_in addr;

	addr = (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_port = htons(http_server_port(server)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	return (const struct sockaddr *)&addr;
}

static int connect_to(int buffer)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (buffer)
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)), 0);
	assert_int_equal(connect(fd, address(), sizeof(struct sockaddr_in)), 0);
	turn();
	return fd;
}

static void say_n(int fd, const char *text, size_t len)
{
	int unheard = 1;

	assert_int_equal(send(fd, text, len, MSG_NOSIGNAL), len);
	/* until the other socket has it, and the server has looked */
	for (int i = 0; i < 100 && unheard; i++) {
		assert_int_equal(ioctl(fd, SIOCOUTQ, &unheard), 0);
		turn();
	}
}

static void say(int fd, const char *text)
{
	say_n(fd, text, strlen(text));
}

/* Up to `max` bytes, as far as they come; fewer only when the server closed: *ret_errno is 0 then,
 * or ECONNRESET. */
static size_t hear(int fd, char *buf, size_t max, int *ret_errno)
{
	time_t until = give_up();
	size_t len = 0;

	*ret_errno = -1;
	while (len < max) {
		ssize_t n = recv(fd, buf + len, max - len, MSG_DONTWAIT);

		if (n > 0) {
			len += (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			assert_true(time(NULL) < until);
			turn();
		} else {
			*ret_errno = n ? errno : 0;
			break;
		}
	}
	return len;
}

static bool is_closed(int fd)
{
	char byte;
	int err;

	return !hear(fd, &byte, 1, &err);
}

static bool is_silent(int fd)
{
	char byte;

	for (int i = 0; i < 3; i++)
		turn();
	return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* Status line and headers, and where asked for the length of the body. Returns the status. */
static int hear_head(int fd, uint64_t *ret_length)
{
	static char head[4096];
	size_t n = 0;
	const char *length;
	int err;

	do {
		assert_true(n < sizeof(head) - 1);
		assert_int_equal(hear(fd, head + n, 1, &err), 1);
		head[++n] = 0;
	} while (n < 4 || strcmp(head + n - 4, "\r\n\r\n"));
	assert_memory_equal(head, "HTTP/1.1 ", 9);
	length = strstr(head, "\r\nContent-Length: ");
	if (ret_length)
		*ret_length = length ? strtoull(length + 18, NULL, 10) : 0;
	return atoi(head + 9);
}

/* The answer to GET: the file from `from` to `to`. */
static void hear_file(int fd, int status, size_t from, size_t to)
{
	char *body = malloc(to - from + 1);
	uint64_t length;
	int err;

	assert_non_null(body);
	assert_int_equal(hear_head(fd, &length), status);
	assert_int_equal(length, to - from);
	assert_int_equal(hear(fd, body, length, &err), length);
	assert_memory_equal(body, content + from, length);
	free(body);
}

static void test_kept_connection(void **state)
{
	int fd = connect_to(0);

	(void)state;
	write_file(0, 5000);
	for (int i = 0; i < 3; i++) {
		say(fd, GET);
		hear_file(fd, 200, 0, 5000);
		pass(9000);
	}
	say(fd, "GET /t.json HTTP/1.1\r\n" HOST "Range: bytes=1000-\r\n\r\n");
	hear_file(fd, 206, 1000, 5000);
	say(fd, "GET /t.json HTTP/1.0\r\n" HOST "\r\n");
	hear_file(fd, 200, 0, 5000);
	assert_true(is_closed(fd));
	close(fd);
}

static void test_pipelined(void **state)
{
	int fd = connect_to(0);

	(void)state;
	write_file(0, 100000);
	for (int i = 0; i < 50; i++)
		say(fd, i % 7 ? GET : "HEAD /t.json HTTP/1.1\r\n" HOST "\r\n");
	say(fd, "GET /t.json HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n" GET);
	for (int i = 0; i < 50; i++) {
		if (i % 7)
			hear_file(fd, 200, 0, 100000);
		else
			assert_int_equal(hear_head(fd, NULL), 200);
	}
	hear_file(fd, 200, 0, 100000);
	assert_true(is_closed(fd));
	close(fd);
}

static void test_byte_by_byte(void **state)
{
	int fd = connect_to(0);

	(void)state;
	write_file(0, 10);
	for (const char *p = GET; *p; p++) {
		assert_true(is_silent(fd));
		say_n(fd, p, 1);
	}
	hear_file(fd, 200, 0, 10);
	close(fd);
}

static void test_slow_reader(void **state)
{
	char *body = malloc(LARGE);
	int fd = connect_to(4096), err;
	uint64_t length;
	size_t done = 0;

	(void)state;
	assert_non_null(body);
	write_file(0, LARGE);
	say(fd, GET);
	assert_int_equal(hear_head(fd, &length), 200);
	assert_int_equal(length, LARGE);
	while (done < LARGE) {
		size_t n = LARGE - done < 700000 ? LARGE - done : 700000;

		assert_true(http_server_busy(server) || LARGE - done < 4 << 20);
		assert_int_equal(hear(fd, body + done, n, &err), n);
		done += n;
		pass(HTTP_STALL_MS - 1);
	}
	assert_memory_equal(body, content, LARGE);
	assert_int_equal(http_server_sent_whole(server), LARGE);
	free(body);
	close(fd);
}

static void test_growing_file(void **state)
{
	int fd = connect_to(0), other = connect_to(0);
	size_t n = 0, before = 0;

	(void)state;
	assert_int_equal(http_server_sent_whole(server), 0);
	say(fd, GET);
	hear_file(fd, 200, 0, 0);
	while (n < LARGE / 2) {
		n = 2 * n + 1;
		write_file(before, n);
		say(fd, GET);
		/* what comes now is for those who ask now */
		write_file(n, n + 1000);
		hear_file(fd, 200, 0, n);
		assert_int_equal(http_server_sent_whole(server), n);
		say(other, GET);
		hear_file(other, 200, 0, n + 1000);
		before = n += 1000;
	}
	close(fd);
	close(other);
}

static void test_shrinking_file(void **state)
{
	char *body = malloc(LARGE);
	uint64_t length;
	size_t n;
	int err;

	(void)state;
	assert_non_null(body);
	/* to nothing; to less than was sent; to less than was asked for, behind what was sent */
	for (size_t left = 0; left < LARGE; left += LARGE / 2 - 1) {
		int fd = connect_to(4096);

		write_file(0, LARGE);
		say(fd, GET);
		assert_int_equal(hear_head(fd, &length), 200);
		assert_int_equal(length, LARGE);
		assert_int_equal(hear(fd, body, 1000, &err), 1000);
		assert_int_equal(ftruncate(file_fd, (off_t)left), 0);
		pass(1);
		n = 1000 + hear(fd, body + 1000, LARGE - 1000, &err);
		assert_true(err == 0 || err == ECONNRESET);
		assert_true(n < LARGE);
		assert_memory_equal(body, content, n);
		assert_false(http_server_busy(server));
		assert_int_equal(http_server_sent_whole(server), 0);
		close(fd);
	}
	free(body);
}

/* As when a recording into the same file begins anew: what it writes is not mixed with what was
 * sent. */
static void test_file_written_anew(void **state)
{
	char *body = malloc(LARGE);
	uint64_t length;
	size_t n;
	int err;

	(void)state;
	assert_non_null(body);
	for (off_t left = 0; left < LARGE; left += LARGE - 1) {
		int fd = connect_to(4096);

		write_file(0, LARGE);
		say(fd, GET);
		assert_int_equal(hear_head(fd, &length), 200);
		/* nobody reads, so nothing tells the server: it looks by itself */
		for (int i = 0; i < 50; i++)
			turn();
		assert_int_equal(ftruncate(file_fd, left), 0);
		pass(250);
		for (off_t at = left; at < LARGE; at += 4096)
			assert_int_equal(pwrite(file_fd, "anew", 4, at), 4);
		n = hear(fd, body, LARGE, &err);
		assert_true(n < LARGE);
		assert_memory_equal(body, content, n);
		close(fd);
	}
	free(body);
}

static void test_killed_client(void **state)
{
	struct linger reset = { .l_onoff = 1 };
	time_t until = give_up();

	(void)state;
	write_file(0, LARGE);
	for (int i = 0; i < 2 * HTTP_CONNS_MAX; i++) {
		int fd = connect_to(4096);
		uint64_t length;

		say(fd, GET);
		assert_int_equal(hear_head(fd, &length), 200);
		assert_true(http_server_busy(server));
		if (i % 3 == 1) /* it ends with EPIPE and a signal then, not ECONNRESET */
			shutdown(fd, SHUT_WR);
		if (i % 2)
			assert_int_equal(
				setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
		close(fd);
		while (http_server_busy(server)) {
			assert_true(time(NULL) < until);
			turn();
		}
	}
	assert_int_equal(http_server_sent_whole(server), 0);
}

static void test_crowd(void **state)
{
	int fds[HTTP_CONNS_MAX], late;

	(void)state;
	write_file(0, 10);
	for (int i = 0; i < HTTP_CONNS_MAX; i++) {
		fds[i] = connect_to(0);
		/* each has its place before the next one comes */
		say(fds[i], GET);
		hear_file(fds[i], 200, 0, 10);
	}
	for (int i = 0; i < 3; i++) {
		late = connect_to(0);
		assert_int_equal(hear_head(late, NULL), 503);
		close(late);
	}
	close(fds[5]);
	for (int i = 0; i < 3; i++)
		turn();
	fds[5] = connect_to(0);
	for (int i = 0; i < HTTP_CONNS_MAX; i++) {
		say(fds[i], GET);
		hear_file(fds[i], 200, 0, 10);
		close(fds[i]);
	}
}

/* Those who keep all places for themselves lose one to each who comes. */
static void test_slow_crowd(void **state)
{
	int fds[HTTP_CONNS_MAX], newer[HTTP_CONNS_MAX + 1], late;
	uint64_t length;

	(void)state;
	write_file(0, LARGE);
	for (int i = 0; i < HTTP_CONNS_MAX; i++) {
		fds[i] = connect_to(4096);
		if (i == 3)
			continue; /* asks for nothing */
		say(fds[i], GET);
		assert_int_equal(hear_head(fds[i], &length), 200);
	}
	late = connect_to(0);
	assert_int_equal(hear_head(late, NULL), 503); /* they have just come */
	close(late);
	for (int i = 0; i < 20; i++)
		turn();
	now_ms += HTTP_HEAD_MS - 1;
	/* first the place of the idle one, then those of readers that take nothing */
	for (int i = 0; i <= HTTP_CONNS_MAX; i++) {
		newer[i] = connect_to(0);
		say(newer[i], "HEAD /t.json HTTP/1.1\r\n" HOST "\r\n");
		assert_int_equal(hear_head(newer[i], NULL), 200);
		if (!i)
			assert_true(is_closed(fds[3]));
		if (!i) /* the buffers fill faster than that rate; the one that has just come is
			 * closed for its silence meanwhile */
			now_ms += HTTP_STALL_MS / 2;
	}
	assert_false(http_server_busy(server));
	for (int i = 0; i <= HTTP_CONNS_MAX; i++) {
		if (i < HTTP_CONNS_MAX)
			close(fds[i]);
		close(newer[i]);
	}
}

static void test_slow_request(void **state)
{
	int idle = connect_to(0), fd = connect_to(0);
	time_t until = give_up();

	(void)state;
	write_file(0, 10);
	say(fd, "GET /t.json HTTP/1.1\r\n");
	assert_true(is_silent(fd));
	/* one more header every now and then does not help */
	for (int i = 0; i < 9; i++) {
		pass(1000);
		say(fd, "X: y\r\n");
		turn();
	}
	assert_true(is_silent(fd));
	assert_true(is_silent(idle));
	pass(HTTP_HEAD_MS - 9000);
	assert_true(is_closed(idle));
	assert_int_equal(hear_head(fd, NULL), 408);
	/* and is not waited for when it does not close */
	shutdown(fd, SHUT_RD);
	pass(HTTP_DRAIN_MS);
	while (send(fd, "x", 1, MSG_NOSIGNAL) > 0) {
		assert_true(time(NULL) < until);
		turn();
	}
	close(idle);
	close(fd);
}

static void test_stalled_reader(void **state)
{
	int fd = connect_to(4096);
	uint64_t length;

	(void)state;
	write_file(0, LARGE);
	say(fd, GET);
	assert_int_equal(hear_head(fd, &length), 200);
	for (int i = 0; i < 10; i++)
		turn();
	pass(HTTP_STALL_MS - 1);
	assert_true(http_server_busy(server));
	pass(1);
	assert_false(http_server_busy(server));
	close(fd);
}

/* The answer is read in full although there is more that nobody reads. */
static void test_unwanted_bytes(void **state)
{
	static char junk[100000];
	int fd, err;

	(void)state;
	memset(junk, 'x', sizeof(junk));
	write_file(0, 10);
	fd = connect_to(0);
	say(fd, "POST /t.json HTTP/1.1\r\n" HOST "Content-Length: 100000\r\n\r\n");
	say_n(fd, junk, sizeof(junk));
	assert_int_equal(hear_head(fd, NULL), 405);
	hear(fd, junk, sizeof(junk), &err);
	assert_int_equal(err, 0);
	close(fd);

	/* a line without end, and a header */
	for (int i = 0; i < 2; i++) {
		memset(junk, 'x', sizeof(junk));
		fd = connect_to(0);
		if (i)
			say(fd, "GET /t.json HTTP/1.1\r\n" HOST "X: ");
		say_n(fd, junk, sizeof(junk));
		assert_int_equal(hear_head(fd, NULL), i ? 431 : 414);
		hear(fd, junk, sizeof(junk), &err);
		assert_int_equal(err, 0);
		close(fd);
	}

	fd = connect_to(0);
	say(fd, "\x16\x03\x01\x02");
	assert_int_equal(hear_head(fd, NULL), 400);
	close(fd);
}

static void test_half_closed(void **state)
{
	int fd = connect_to(0);

	(void)state;
	write_file(0, 1 << 20);
	say(fd, GET);
	shutdown(fd, SHUT_WR);
	hear_file(fd, 200, 0, 1 << 20);
	assert_true(is_closed(fd));
	close(fd);
}

static void test_sent_whole(void **state)
{
	static const struct {
		const char *line, *headers;
		bool whole;
	} cases[] = {
		{ "HEAD /t.json HTTP/1.1", "", false },
		{ "GET /x.json HTTP/1.1", "", false },
		{ "OPTIONS /t.json HTTP/1.1", "", false },
		{ "GET /t.json HTTP/1.1", "Range: bytes=1-\r\n", false },
		{ "GET /t.json HTTP/1.1", "Range: bytes=0-8\r\n", false },
		{ "GET /t.json HTTP/1.1", "Range: bytes=10-\r\n", false },
		{ "GET /t.json HTTP/1.1", "Origin: http://evil.example\r\n", false },
		{ "GET /t.json HTTP/1.1", "Range: bytes=0-\r\n", true },
	};
	char text[300], body[300];
	int fd = connect_to(0), err;
	uint64_t length;

	(void)state;
	write_file(0, 10);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "%s\r\n" HOST "%s\r\n", cases[i].line,
			cases[i].headers);
		say(fd, text);
		hear_head(fd, &length);
		if (*cases[i].line != 'H')
			hear(fd, body, length, &err);
		assert_int_equal(http_server_sent_whole(server), cases[i].whole ? 10 : 0);
	}
	close(fd);
}

static void test_no_more_files(void **state)
{
	struct rlimit before, few = { .rlim_cur = 64 };
	int fd = connect_to(0), second, filled[64], n = 0;

	(void)state;
	if (RUNNING_ON_VALGRIND)
		SKIP("valgrind accepts and closes what is over the limit of files");
	write_file(0, 10);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(second >= 0);
	while ((filled[n] = dup(file_fd)) >= 0)
		n++;
	assert_int_equal(connect(second, address(), sizeof(struct sockaddr_in)), 0);
	turn();
	/* it does not turn round and round meanwhile, and serves those who are there */
	turn();
	assert_int_equal(http_server_timeout(server, now_ms), 1000);
	assert_int_equal(poll(&(struct pollfd){ .fd = http_server_fd(server), .events = POLLIN }, 1, 0), 0);
	say(fd, GET);
	hear_file(fd, 200, 0, 10);
	while (n)
		close(filled[--n]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	now_ms += 1000;
	say(second, GET);
	hear_file(second, 200, 0, 10);
	close(fd);
	close(second);
}

static void test_timeout(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(http_server_timeout(server, now_ms), -1);
	fd = connect_to(0);
	say(fd, GET);
	hear_file(fd, 200, 0, 0);
	assert_int_equal(http_server_timeout(server, now_ms), HTTP_HEAD_MS);
	assert_int_equal(http_server_timeout(server, now_ms + HTTP_HEAD_MS + 5), 0);
	close(fd);
}

/* ---- what is answered to whom ---- */

static char answer[8192];

/* The status of the answer to a request of its own connection, which is in answer[]. */
static int ask(const char *fmt, ...)
{
	char text[600];
	va_list ap;
	size_t n = 0;
	int fd = connect_to(0), err;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say(fd, text);
	shutdown(fd, SHUT_WR);
	n = hear(fd, answer, sizeof(answer) - 1, &err);
	memset(answer + n, 0, sizeof(answer) - n);
	close(fd);
	assert_int_equal(err, 0);
	assert_memory_equal(answer, "HTTP/1.", 7);
	return atoi(answer + 9);
}

static bool says(const char *line)
{
	char with_ends[300];

	snprintf(with_ends, sizeof(with_ends), "\r\n%s\r\n", line);
	return strcasestr(answer, with_ends);
}

static const char *body(void)
{
	return strstr(answer, "\r\n\r\n") + 4;
}

static void test_headers(void **state)
{
	static const char *const lines[] = { "Cache-Control: no-store", "X-Content-Type-Options: nosniff",
		"Cross-Origin-Resource-Policy: same-origin", "Vary: Origin", "Accept-Ranges: bytes",
		"Content-Type: application/json", "Content-Length: 1000" };

	(void)state;
	write_file(0, 1000);
	assert_int_equal(ask("GET /t.json HTTP/1.1\r\n" HOST "\r\n"), 200);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_true(says(lines[i]));
	assert_memory_equal(body(), content, 1000);
	assert_int_equal(ask("HEAD /t.json HTTP/1.1\r\n" HOST "\r\n"), 200);
	assert_true(says("Content-Length: 1000"));
	assert_string_equal(body(), "");
	/* a range is of GET alone */
	assert_int_equal(ask("HEAD /t.json HTTP/1.1\r\n" HOST "Range: bytes=0-9\r\n\r\n"), 200);
	assert_true(says("Content-Length: 1000"));
}

static void test_paths(void **state)
{
	static const struct {
		const char *line;
		int status;
	} rows[] = {
		{ "GET /t.json HTTP/1.1", 200 },
		{ "GET /t.json?x=/y HTTP/1.1", 200 },
		{ "GET /t.json? HTTP/1.1", 200 },
		{ "GET http://127.0.0.1:9001/t.json HTTP/1.1", 200 },
		{ "GET HTTP://localhost/t.json HTTP/1.1", 200 },
		{ "GET http://evil.example/t.json HTTP/1.1", 403 }, /* not what the header says */
		{ "GET http://127.0.0.1 HTTP/1.1", 404 },
		{ "GET http:///t.json HTTP/1.1", 403 },
		{ "GET https://127.0.0.1/t.json HTTP/1.1", 400 },
		{ "GET / HTTP/1.1", 404 },
		{ "GET /t.jso HTTP/1.1", 404 },
		{ "GET /t.jsonn HTTP/1.1", 404 },
		{ "GET //t.json HTTP/1.1", 404 },
		{ "GET /./t.json HTTP/1.1", 404 },
		{ "GET /../t.json HTTP/1.1", 404 },
		{ "GET /%74.json HTTP/1.1", 404 },
		{ "GET /../../etc/passwd HTTP/1.1", 404 },
		{ "GET /..%2f..%2fetc%2fpasswd HTTP/1.1", 404 },
		{ "GET t.json HTTP/1.1", 400 },
		{ "GET * HTTP/1.1", 400 },
		{ "GET /t.json HTTP/1.0", 200 },
		{ "GET /t.json HTTP/2.0", 505 },
		{ "GET /t.json http/1.1", 400 },
		{ "OPTIONS * HTTP/1.1", 204 },
		{ "OPTIONS /t.json HTTP/1.1", 204 },
		{ "OPTIONS /x HTTP/1.1", 404 },
		{ "POST /t.json HTTP/1.1", 405 },
		{ "POST /status HTTP/1.1", 405 },
		{ "PUT /t.json HTTP/1.1", 405 },
		{ "DELETE /t.json HTTP/1.1", 405 },
		{ "TRACE /t.json HTTP/1.1", 405 },
		{ "get /t.json HTTP/1.1", 405 },
		{ "CONNECT 127.0.0.1:9001 HTTP/1.1", 400 },
	};

	(void)state;
	write_file(0, 1000);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int status = ask("%s\r\n" HOST "\r\n", rows[i].line);

		if (status != rows[i].status)
			fail_msg("%s: %d, not %d", rows[i].line, status, rows[i].status);
		if (status == 405)
			assert_true(says("Allow: GET, HEAD, OPTIONS"));
		if (status != 200)
			assert_null(memmem(answer, sizeof(answer), content, 100));
	}
}

static void test_hosts(void **state)
{
	static const struct {
		const char *headers;
		int status;
	} rows[] = {
		{ "Host: 127.0.0.1:9001", 200 },
		{ "host:localhost:9001", 200 },
		{ "HOST: \t LocalHost:9001 \t", 200 },
		{ "Host: 127.0.0.1", 200 },
		{ "Host: localhost:19001", 200 }, /* forwarded */
		{ "X: y", 400 },
		{ "Host:", 403 },
		{ "Host: evil.example:9001", 403 },
		{ "Host: localhost.evil.example:9001", 403 },
		{ "Host: 127.0.0.1.evil.example", 403 },
		{ "Host: localhost:", 403 },
		{ "Host: localhost:x", 403 },
		{ "Host: localhost:123456", 403 },
		{ "Host: localhost:1@evil.example", 403 },
		{ "Host: user@localhost", 403 },
		{ "Host: localhost/", 403 },
		{ "Host: 127.0.0.2", 403 },
		{ "Host: [::1]:9001", 403 },
		{ "Host: 2130706433", 403 },
		{ "Host: localhost\r\nHost: localhost", 400 },
		{ "Host: localhost\r\nHost: evil.example", 400 },
		{ "Host: localhost\r\nno colon", 400 },
		{ "Host: localhost\r\nX: \x80\xff\ty", 200 },
	};

	(void)state;
	write_file(0, 1000);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int status = ask("GET /t.json HTTP/1.1\r\n%s\r\n\r\n", rows[i].headers);

		if (status != rows[i].status)
			fail_msg("%s: %d, not %d", rows[i].headers, status, rows[i].status);
	}
	assert_int_equal(ask("GET /t.json HTTP/1.0\r\n\r\n"), 400);
}

static void test_origins(void **state)
{
	static const struct {
		const char *origin;
		bool allowed;
	} rows[] = {
		{ "https://ui.perfetto.dev", true },
		{ "http://localhost:8000", true },
		{ "http://127.0.0.1:9001", true },
		{ "https://localhost", true },
		{ "http://ui.perfetto.dev", false },
		{ "https://ui.perfetto.dev:8443", false },
		{ "https://ui.perfetto.dev.evil.example", false },
		{ "https://evil.example/https://ui.perfetto.dev", false },
		{ "https://xui.perfetto.dev", false },
		{ "https://perfetto.dev", false },
		{ "http://localhost.evil.example", false },
		{ "http://localhost:80@evil.example", false },
		{ "http://evil.example", false },
		{ "ftp://localhost", false },
		{ "null", false }, /* of a file, of a sandboxed frame */
		{ "", false },
		{ "*", false },
	};
	char line[200];

	(void)state;
	write_file(0, 1000);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int status = ask("GET /t.json HTTP/1.1\r\n" HOST "Origin: %s\r\n\r\n", rows[i].origin);

		if (status != (rows[i].allowed ? 200 : 403))
			fail_msg("%s: %d", rows[i].origin, status);
		snprintf(line, sizeof(line), "Access-Control-Allow-Origin: %s", rows[i].origin);
		assert_int_equal(says(line), rows[i].allowed);
		assert_int_equal(!!strstr(answer, "Access-Control"), rows[i].allowed);
		assert_true(says("Vary: Origin"));
	}
	/* no page at all: curl */
	ask("GET /t.json HTTP/1.1\r\n" HOST "\r\n");
	assert_null(strstr(answer, "Access-Control"));
	assert_int_equal(ask("GET /t.json HTTP/1.1\r\n" HOST UI "Origin: http://evil.example\r\n\r\n"), 400);
	/* what the UI does first: it is told that this is no trace_processor, and may know that */
	assert_int_equal(ask("POST /status HTTP/1.1\r\n" HOST UI "Content-Length: 0\r\n\r\n"), 405);
	assert_true(says("Access-Control-Allow-Origin: https://ui.perfetto.dev"));
}

static void test_preflight(void **state)
{
	static const char asks[] = "Access-Control-Request-Private-Network: true\r\n";

	(void)state;
	for (int private = 0; private < 2; private ++) {
		assert_int_equal(ask("OPTIONS /t.json HTTP/1.1\r\n" HOST UI
				     "Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: range\r\n%s\r\n",
					 private ? asks : ""),
			204);
		assert_true(says("Access-Control-Allow-Origin: https://ui.perfetto.dev"));
		assert_true(says("Access-Control-Allow-Methods: GET, HEAD, OPTIONS"));
		assert_non_null(strstr(answer, "\r\nAccess-Control-Allow-Headers: Range"));
		assert_int_equal(says("Access-Control-Allow-Private-Network: true"), private);
		assert_string_equal(body(), "");
		assert_null(strstr(answer, "\r\nContent-Length")); /* RFC 9110, section 8.6 */
	}
	assert_int_equal(ask("OPTIONS /t.json HTTP/1.1\r\n" HOST "Origin: https://evil.example\r\n%s\r\n", asks), 403);
	assert_null(strstr(answer, "Access-Control"));
	assert_int_equal(ask("OPTIONS /t.json HTTP/1.1\r\n" HOST "\r\n"), 204);
	assert_null(strstr(answer, "Access-Control"));
}

static void test_ranges(void **state)
{
	static const struct {
		const char *range;
		int status;
		unsigned int first, end;
	} rows[] = {
		{ "bytes=0-0", 206, 0, 1 },
		{ "bytes=0-499", 206, 0, 500 },
		{ "bytes=500-", 206, 500, 1000 },
		{ "bytes=0-", 206, 0, 1000 },
		{ "bytes=-1", 206, 999, 1000 },
		{ "bytes=-1000", 206, 0, 1000 },
		{ "bytes=-5000", 206, 0, 1000 },
		{ "bytes=999-999", 206, 999, 1000 },
		{ "bytes=990-1000", 206, 990, 1000 },
		{ "bytes=990-18446744073709551615", 206, 990, 1000 },
		{ "bytes=990-99999999999999999999999", 206, 990, 1000 },
		{ "bytes=-99999999999999999999999", 206, 0, 1000 },
		{ "BYTES=1-2", 206, 1, 3 },
		{ "bytes= 1-2", 206, 1, 3 },
		{ "bytes=1000-", 416, 0, 0 },
		{ "bytes=1000-1001", 416, 0, 0 },
		{ "bytes=18446744073709551615-", 416, 0, 0 },
		{ "bytes=99999999999999999999999-", 416, 0, 0 },
		{ "bytes=-0", 416, 0, 0 },
		{ "bytes=2-1", 200, 0, 1000 },
		{ "bytes=1-2,4-5", 200, 0, 1000 },
		{ "bytes=1-2, -5", 200, 0, 1000 },
		{ "bytes=1-2,", 200, 0, 1000 },
		{ "bytes=", 200, 0, 1000 },
		{ "bytes=-", 200, 0, 1000 },
		{ "bytes=--1", 200, 0, 1000 },
		{ "bytes=1", 200, 0, 1000 },
		{ "bytes=+1-2", 200, 0, 1000 },
		{ "bytes=1 - 2", 200, 0, 1000 },
		{ "bytes=0x1-2", 200, 0, 1000 },
		{ "bytes 1-2", 200, 0, 1000 },
		{ "lines=1-2", 200, 0, 1000 },
		{ "", 200, 0, 1000 },
		{ "bytes=1-2\r\nRange: bytes=3-4", 200, 0, 1000 },
		{ "bytes=1-2\r\nIf-Range: \"tag\"", 200, 0, 1000 },
	};
	char line[100];

	(void)state;
	write_file(0, 1000);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int status = ask("GET /t.json HTTP/1.1\r\n" HOST "Range: %s\r\n\r\n", rows[i].range);

		if (status != rows[i].status)
			fail_msg("%s: %d", rows[i].range, status);
		snprintf(line, sizeof(line), "Content-Range: bytes %u-%u/1000", rows[i].first, rows[i].end - 1);
		assert_int_equal(says(line), status == 206);
		assert_int_equal(says("Content-Range: bytes */1000"), status == 416);
		if (status == 416)
			continue;
		snprintf(line, sizeof(line), "Content-Length: %u", rows[i].end - rows[i].first);
		assert_true(says(line));
		assert_memory_equal(body(), content + rows[i].first, rows[i].end - rows[i].first);
	}
}

static void test_empty_file(void **state)
{
	(void)state;
	assert_int_equal(ask(GET), 200);
	assert_true(says("Content-Length: 0"));
	assert_int_equal(ask("GET /t.json HTTP/1.1\r\n" HOST "Range: bytes=0-\r\n\r\n"), 416);
	assert_int_equal(ask("GET /t.json HTTP/1.1\r\n" HOST "Range: bytes=-1\r\n\r\n"), 416);
}

static void test_name(void **state)
{
	char name[HTTP_NAME_MAX], longer[300];

	(void)state;
	http_name("t.json", name);
	assert_string_equal(name, "t.json");
	http_name("/a b/../Trace-1_2.json.gz", name);
	assert_string_equal(name, "Trace-1_2.json.gz");
	http_name("a b&c#d%20?\xc3\xa9\n.json", name);
	assert_string_equal(name, "a_b_c_d_20____.json");
	memset(longer, 'x', sizeof(longer));
	strcpy(longer + sizeof(longer) - 9, ".pftrace");
	http_name(longer, name);
	assert_int_equal(strlen(name), HTTP_NAME_MAX - 1);
	assert_string_equal(name + HTTP_NAME_MAX - 1 - 10, "xx.pftrace");
}

static void test_port_taken(void **state)
{
	struct http_server *second = NULL;

	(void)state;
	assert_int_equal(
		http_server_new(http_server_port(server), file_fd, "t.json", "x/y", &second),
		-EADDRINUSE);
	assert_null(second);
}

#define SERVER_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVER_TEST(test_kept_connection),
		SERVER_TEST(test_pipelined),
		SERVER_TEST(test_byte_by_byte),
		SERVER_TEST(test_slow_reader),
		SERVER_TEST(test_growing_file),
		SERVER_TEST(test_shrinking_file),
		SERVER_TEST(test_file_written_anew),
		SERVER_TEST(test_killed_client),
		SERVER_TEST(test_crowd),
		SERVER_TEST(test_slow_crowd),
		SERVER_TEST(test_slow_request),
		SERVER_TEST(test_stalled_reader),
		SERVER_TEST(test_unwanted_bytes),
		SERVER_TEST(test_half_closed),
		SERVER_TEST(test_sent_whole),
		SERVER_TEST(test_no_more_files),
		SERVER_TEST(test_timeout),
		SERVER_TEST(test_port_taken),
		SERVER_TEST(test_headers),
		SERVER_TEST(test_paths),
		SERVER_TEST(test_hosts),
		SERVER_TEST(test_origins),
		SERVER_TEST(test_preflight),
		SERVER_TEST(test_ranges),
		SERVER_TEST(test_empty_file),
		cmocka_unit_test(test_name),
	};

	return cmocka_run_group_tests_name("http_server", tests, setup, teardown);
}
