// SPDX-License-Identifier: BSD-2-Clause
/* Which answer goes to whom: requests as browsers and attackers send them. */
#include "http_server.h"

static char answer[8192];

/* Returns the status of the answer to a request on its own connection; the answer is in answer[]. */
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

TEST_WITH(test_headers, begin, end)
{
	static const char *const lines[] = { "Cache-Control: no-store", "X-Content-Type-Options: nosniff",
		"Cross-Origin-Resource-Policy: same-origin", "Vary: Origin", "Accept-Ranges: bytes",
		"Content-Type: application/json", "Content-Length: 1000" };

	write_file(0, 1000);
	assert_int_equal(ask("GET /t.json HTTP/1.1\r\n" HOST "\r\n"), 200);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_true(says(lines[i]));
	assert_memory_equal(body(), content, 1000);
	assert_int_equal(ask("HEAD /t.json HTTP/1.1\r\n" HOST "\r\n"), 200);
	assert_true(says("Content-Length: 1000"));
	assert_string_equal(body(), "");
	/* ranges apply to GET alone */
	assert_int_equal(ask("HEAD /t.json HTTP/1.1\r\n" HOST "Range: bytes=0-9\r\n\r\n"), 200);
	assert_true(says("Content-Length: 1000"));
}

TEST_WITH(test_paths, begin, end)
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
		{ "GET http://evil.example/t.json HTTP/1.1", 403 }, /* not the host of the header */
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

TEST_WITH(test_hosts, begin, end)
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

	write_file(0, 1000);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int status = ask("GET /t.json HTTP/1.1\r\n%s\r\n\r\n", rows[i].headers);

		if (status != rows[i].status)
			fail_msg("%s: %d, not %d", rows[i].headers, status, rows[i].status);
	}
	assert_int_equal(ask("GET /t.json HTTP/1.0\r\n\r\n"), 400);
}

TEST_WITH(test_origins, begin, end)
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
	/* a page that embeds it, for which browsers send no origin */
	assert_int_equal(ask("GET /t.json HTTP/1.1\r\n" HOST "Sec-Fetch-Site: cross-site\r\n\r\n"), 403);
	assert_int_equal(ask("GET /t.json HTTP/1.1\r\n" HOST "Sec-Fetch-Site: x\r\n\r\n"), 403);
	assert_int_equal(ask("GET /t.json HTTP/1.1\r\n" HOST "Sec-Fetch-Site: same-site\r\n\r\n"), 200);
	assert_int_equal(ask("GET /t.json HTTP/1.1\r\n" HOST "Sec-Fetch-Site: none\r\n\r\n"), 200);
	assert_int_equal(ask("GET /t.json HTTP/1.1\r\n" HOST "Sec-Fetch-Site: cross-site\r\nOrigin: https://ui.perfetto.dev\r\n\r\n"), 200);
	/* not a page: curl */
	ask("GET /t.json HTTP/1.1\r\n" HOST "\r\n");
	assert_null(strstr(answer, "Access-Control"));
	assert_int_equal(ask("GET /t.json HTTP/1.1\r\n" HOST UI "Origin: http://evil.example\r\n\r\n"), 400);
	/* the UI's first request: it is told, and allowed to read, that this is no trace_processor */
	assert_int_equal(ask("POST /status HTTP/1.1\r\n" HOST UI "Content-Length: 0\r\n\r\n"), 405);
	assert_true(says("Access-Control-Allow-Origin: https://ui.perfetto.dev"));
}

TEST_WITH(test_preflight, begin, end)
{
	static const char asks[] = "Access-Control-Request-Private-Network: true\r\n";

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

TEST_WITH(test_ranges, begin, end)
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

TEST_WITH(test_empty_file, begin, end)
{
	assert_int_equal(ask(GET), 200);
	assert_true(says("Content-Length: 0"));
	assert_int_equal(ask("GET /t.json HTTP/1.1\r\n" HOST "Range: bytes=0-\r\n\r\n"), 416);
	assert_int_equal(ask("GET /t.json HTTP/1.1\r\n" HOST "Range: bytes=-1\r\n\r\n"), 416);
}

TEST(test_name)
{
	char name[HTTP_NAME_MAX], longer[300];

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

RUN_TESTS(setup, teardown)
