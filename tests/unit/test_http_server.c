// SPDX-License-Identifier: BSD-2-Clause
/* One file over real sockets, to clients that are slow, hostile, or gone. */
#include "http_server.h"
#include "util/alloc.h"

#include <sys/resource.h>

static void get_file(int fd, size_t size)
{
	say(fd, GET);
	hear_file(fd, 200, 0, size);
}

/* A client with a small buffer that has read the head of an answer of LARGE bytes. */
static int connect_slow_reader(void)
{
	int fd = connect_to(4096);
	uint64_t length;

	say(fd, GET);
	assert_int_equal(hear_head(fd, &length), 200);
	assert_int_equal(length, LARGE);
	return fd;
}

static void assert_status(const char *request, int status)
{
	int fd = connect_to(0);

	say(fd, request);
	assert_int_equal(hear_head(fd, NULL), status);
	close(fd);
}

TEST_WITH(test_kept_connection, begin, end)
{
	int fd = connect_to(0);

	write_file(0, 5000);
	for (int i = 0; i < 3; i++) {
		get_file(fd, 5000);
		pass(HTTP_HEAD_S - 1);
	}
	say(fd, "GET /t.json HTTP/1.1\r\n" HOST "Range: bytes=1000-\r\n\r\n");
	hear_file(fd, 206, 1000, 5000);
	say(fd, "GET /t.json HTTP/1.0\r\n" HOST "\r\n");
	hear_file(fd, 200, 0, 5000);
	assert_true(is_closed(fd));
	close(fd);
}

TEST_WITH(test_pipelined, begin, end)
{
	int fd = connect_to(0);

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

TEST_WITH(test_byte_by_byte, begin, end)
{
	int fd = connect_to(0);

	write_file(0, 10);
	for (const char *p = GET; *p; p++) {
		assert_true(is_silent(fd));
		say_n(fd, p, 1);
	}
	hear_file(fd, 200, 0, 10);
	close(fd);
}

TEST_WITH(test_slow_reader, begin, end)
{
	char *body = xmalloc(LARGE);
	size_t done = 0;
	int fd, err;

	write_file(0, LARGE);
	fd = connect_slow_reader();
	while (done < LARGE) {
		size_t n = LARGE - done < 700000 ? LARGE - done : 700000;

		assert_true(http_server_busy(server) || LARGE - done < 4 << 20);
		assert_int_equal(hear(fd, body + done, n, &err), n);
		done += n;
		pass(HTTP_STALL_S - 1);
	}
	assert_memory_equal(body, content, LARGE);
	assert_int_equal(http_server_sent_whole(server), LARGE);
	free(body);
	close(fd);
}

TEST_WITH(test_growing_file, begin, end)
{
	int fd = connect_to(0), other = connect_to(0);
	size_t n = 0, before = 0;

	assert_int_equal(http_server_sent_whole(server), 0);
	get_file(fd, 0);
	while (n < LARGE / 2) {
		n = 2 * n + 1;
		write_file(before, n);
		say(fd, GET);
		/* new data is for new requests */
		write_file(n, n + 1000);
		hear_file(fd, 200, 0, n);
		assert_int_equal(http_server_sent_whole(server), n);
		get_file(other, n + 1000);
		before = n += 1000;
	}
	close(fd);
	close(other);
}

TEST_WITH(test_shrinking_file, begin, end)
{
	char *body = xmalloc(LARGE);
	size_t n;
	int err;

	/* to nothing; to less than was sent; to less than was requested, but more than was sent */
	for (size_t left = 0; left < LARGE; left += LARGE / 2 - 1) {
		int fd;

		write_file(0, LARGE);
		fd = connect_slow_reader();
		assert_int_equal(hear(fd, body, 1000, &err), 1000);
		assert_int_equal(ftruncate(file_fd, (off_t)left), 0);
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

TEST_WITH(test_killed_client, begin, end)
{
	struct linger reset = { .l_onoff = 1 };
	time_t until = give_up();

	write_file(0, LARGE);
	for (int i = 0; i < 2 * HTTP_CONNS_MAX; i++) {
		int fd = connect_slow_reader();

		assert_true(http_server_busy(server));
		if (i % 3 == 1) /* it ends with EPIPE and a signal then, not ECONNRESET */
			shutdown(fd, SHUT_WR);
		if (i % 2)
			assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
		close(fd);
		while (http_server_busy(server)) {
			assert_true(time(NULL) < until);
			turn();
		}
	}
	assert_int_equal(http_server_sent_whole(server), 0);
}

/* Further clients are refused until one leaves or times out. */
TEST_WITH(test_crowd, begin, end)
{
	int fds[HTTP_CONNS_MAX], late;

	write_file(0, LARGE);
	for (int i = 0; i < HTTP_CONNS_MAX; i++)
		fds[i] = i % 2 ? connect_slow_reader() : connect_to(0);
	for (int i = 0; i < 3; i++) {
		late = connect_to(0);
		assert_true(is_closed(late));
		close(late);
	}
	close(fds[0]);
	for (int i = 0; i < 3; i++)
		turn();
	fds[0] = connect_to(0);
	get_file(fds[0], LARGE);
	pass(HTTP_STALL_S + 1);
	for (int i = 0; i < 3; i++)
		turn();
	for (int i = 0; i < HTTP_CONNS_MAX; i++) {
		close(fds[i]);
		fds[i] = connect_to(0);
		say(fds[i], "HEAD /t.json HTTP/1.1\r\n" HOST "\r\n");
		assert_int_equal(hear_head(fds[i], NULL), 200);
	}
	assert_false(http_server_busy(server));
	for (int i = 0; i < HTTP_CONNS_MAX; i++)
		close(fds[i]);
}

TEST_WITH(test_slow_request, begin, end)
{
	int idle = connect_to(0), tls = connect_to(0), fd = connect_to(0);

	write_file(0, 10);
	say(tls, "\x16\x03\x01\x02");
	say(fd, "GET /t.json HTTP/1.1\r\n");
	pass(HTTP_HEAD_S - 1);
	assert_true(is_silent(fd));
	assert_true(is_silent(tls));
	assert_true(is_silent(idle));
	pass(2);
	assert_true(is_closed(fd));
	assert_true(is_closed(tls));
	assert_true(is_closed(idle));
	close(fd);
	close(tls);
	close(idle);
}

TEST_WITH(test_stalled_reader, begin, end)
{
	int fd;

	write_file(0, LARGE);
	fd = connect_slow_reader();
	for (int i = 0; i < 10; i++)
		turn();
	pass(HTTP_STALL_S - 1);
	assert_true(http_server_busy(server));
	/* where the buffers between the two only now take something more, it waits anew */
	for (int i = 0; i < 20 && http_server_busy(server); i++)
		pass(HTTP_STALL_S + 1);
	assert_false(http_server_busy(server));
	assert_int_equal(http_server_sent_whole(server), 0);
	close(fd);
}

/* The answer is complete although the client sent more than is read. */
TEST_WITH(test_unwanted_bytes, begin, end)
{
	static char junk[100000];
	int fd, err;

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
		close(fd);
	}
}

TEST_WITH(test_half_closed, begin, end)
{
	int fd = connect_to(0);

	write_file(0, 1 << 20);
	say(fd, GET);
	shutdown(fd, SHUT_WR);
	hear_file(fd, 200, 0, 1 << 20);
	assert_true(is_closed(fd));
	close(fd);
}

TEST_WITH(test_sent_whole, begin, end)
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

	write_file(0, 10);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "%s\r\n" HOST "%s\r\n", cases[i].line, cases[i].headers);
		say(fd, text);
		hear_head(fd, &length);
		if (*cases[i].line != 'H')
			hear(fd, body, length, &err);
		assert_int_equal(http_server_sent_whole(server), cases[i].whole ? 10 : 0);
	}
	close(fd);
}

TEST_WITH(test_no_more_files, begin, end)
{
	struct rlimit before, few = { .rlim_cur = 64 };
	int fd = connect_to(0), second, filled[64], n = 0;

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
	/* present clients are served meanwhile */
	get_file(fd, 10);
	assert_true(is_silent(second));
	while (n)
		close(filled[--n]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	get_file(second, 10);
	close(fd);
	close(second);
}

TEST_WITH(test_port_taken, begin, end)
{
	struct http_server *second = NULL;

	assert_int_equal(http_server_new(http_server_port(server), file_fd, "t.json", "x/y", &second), -EADDRINUSE);
	assert_null(second);
}

static char *make_page(void *ctx, const char *accept, size_t *ret_len, const char **ret_type)
{
	char *text = xmalloc(LARGE);
	static int made;

	memcpy(text, content, LARGE);
	*text = accept ? (char)('0' + made++ % 10) : '-';
	*ret_len = *(size_t *)ctx;
	*ret_type = "text/plain";
	return text;
}

/* A text made for each request, also for slow readers and for those that leave in the middle. */
TEST_WITH(test_page, begin, end)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	size_t len = LARGE;
	struct http_page page = { .name = "t.json", .make = make_page, .ctx = &len };
	struct http_server *file_server = server;
	char first, second, none[8];
	int fd, gone, err;

	assert_int_equal(http_server_new_page((struct sockaddr *)&addr, sizeof(addr), &page, &server), 0);
	gone = connect_to(4096);
	say(gone, "GET /t.json HTTP/1.1\r\n" HOST "Accept: x\r\n\r\n");
	assert_int_equal(hear_head(gone, NULL), 200);
	close(gone);
	fd = connect_to(0);
	for (char *at = &first; at; at = at == &first ? &second : NULL) {
		uint64_t length;
		char *body;

		say(fd, "GET /t.json HTTP/1.1\r\n" HOST "Accept: x\r\nRange: bytes=1-2\r\n\r\n");
		assert_int_equal(hear_head(fd, &length), 200);
		assert_int_equal(length, len);
		body = xmalloc(len);
		assert_int_equal(hear(fd, body, len, &err), len);
		assert_memory_equal(body + 1, content + 1, len - 1);
		*at = *body;
		free(body);
		len = 5;
	}
	assert_int_not_equal(first, second);
	say(fd, GET);
	assert_int_equal(hear_head(fd, NULL), 200);
	assert_int_equal(hear(fd, none, len, &err), len);
	assert_int_equal(*none, '-');
	close(fd);
	assert_status("GET /t.json HTTP/1.1\r\nHost: node7\r\nAccept: x\r\n\r\n", 403);
	page.any_host = true;
	assert_status("GET /t.json HTTP/1.1\r\nHost: node7\r\nAccept: x\r\n\r\n", 200);
	assert_status("GET /t.json HTTP/1.1\r\n" HOST UI "Accept: x\r\n\r\n", 403);
	http_server_free(server);
	server = file_server;
}

RUN_TESTS(setup, teardown)
