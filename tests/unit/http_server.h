/* SPDX-License-Identifier: BSD-2-Clause */
/* A server of one file, and clients over real sockets. The library uses the tests' clock. */
#ifndef INFTRACE_TEST_HTTP_SERVER_H
#define INFTRACE_TEST_HTTP_SERVER_H

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "cases.h"
#include "io/http_server.h"
#include "unit.h"
#include "util/alloc.h"

#define HOST "Host: 127.0.0.1:9001\r\n"
#define UI "Origin: https://ui.perfetto.dev\r\n"
#define GET "GET /t.json HTTP/1.1\r\n" HOST "\r\n"
#define LARGE (24 << 20) /* more than a connection's buffers hold */
#define GIVE_UP_S 30

static struct http_server *server;
static int64_t passed_s;
static int file_fd;
static char *content; /* of LARGE bytes */

/* Replaces libc's, for the library: only pass() lets its time pass, as a busy machine may take
 * seconds from one line of a test to the next. */
int clock_gettime(clockid_t id, struct timespec *ret);
int clock_gettime(clockid_t id, struct timespec *ret)
{
	(void)id;
	*ret = (struct timespec){ .tv_sec = 1000 + passed_s };
	return 0;
}

static inline int setup(void **state)
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

static inline int teardown(void **state)
{
	(void)state;
	free(content);
	return 0;
}

static inline void write_file(size_t from, size_t to)
{
	while (from < to) {
		ssize_t n = pwrite(file_fd, content + from, to - from, (off_t)from);

		assert_true(n > 0);
		from += (size_t)n;
	}
}

static inline int begin(void **state)
{
	(void)state;
	passed_s = 0;
	file_fd = memfd_create("t", MFD_CLOEXEC);
	assert_true(file_fd >= 0);
	assert_int_equal(http_server_new(0, file_fd, "t.json", "application/json", &server), 0);
	assert_true(http_server_port(server) > 0);
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	http_server_free(server);
	close(file_fd);
	return 0;
}

/* One turn of the server; waits at most 10 ms for something to do. */
static inline void turn(void)
{
	assert_int_equal(http_server_poll(server, NULL, 0, 10), 0);
}

static inline time_t give_up(void)
{
	return time(NULL) + GIVE_UP_S;
}

/* Lets time pass, and the server notice it. */
static inline void pass(int64_t s)
{
	passed_s += s;
	turn();
}

static inline const struct sockaddr *address(void)
{
	static struct sockaddr_in addr;

	addr = (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_port = htons(http_server_port(server)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	return (const struct sockaddr *)&addr;
}

static inline int connect_to(int buffer)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (buffer)
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)), 0);
	assert_int_equal(connect(fd, address(), sizeof(struct sockaddr_in)), 0);
	turn();
	return fd;
}

static inline void say_n(int fd, const char *text, size_t len)
{
	int unheard = 1;

	assert_int_equal(send(fd, text, len, MSG_NOSIGNAL), len);
	/* until the other socket has it and the server has looked */
	for (int i = 0; i < 100 && unheard; i++) {
		assert_int_equal(ioctl(fd, SIOCOUTQ, &unheard), 0);
		turn();
	}
}

static inline void say(int fd, const char *text)
{
	say_n(fd, text, strlen(text));
}

/* Reads up to `max` bytes; fewer only if the server closed: *ret_errno is 0 then, or ECONNRESET. */
static inline size_t hear(int fd, char *buf, size_t max, int *ret_errno)
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

static inline bool is_closed(int fd)
{
	char byte;
	int err;

	return !hear(fd, &byte, 1, &err);
}

static inline bool is_silent(int fd)
{
	char byte;

	for (int i = 0; i < 3; i++)
		turn();
	return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* Reads status line and headers, and the length of the body if wanted. Returns the status. */
static inline int hear_head(int fd, uint64_t *ret_length)
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

/* Expects the file from `from` to `to` as the answer to GET. */
static inline void hear_file(int fd, int status, size_t from, size_t to)
{
	char *body = xmalloc(to - from + 1);
	uint64_t length;
	int err;

	assert_int_equal(hear_head(fd, &length), status);
	assert_int_equal(length, to - from);
	assert_int_equal(hear(fd, body, length, &err), length);
	assert_memory_equal(body, content + from, length);
	free(body);
}

#endif
