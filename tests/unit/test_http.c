// SPDX-License-Identifier: BSD-2-Clause
/* Requests of HTTP as browsers and attackers send them, and the answers to them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/http.h"

#define NOW 784111777 /* Sun, 06 Nov 1994 08:49:37 GMT, as in RFC 9110, section 5.6.7 */
#define HOST "Host: 127.0.0.1:9001\r\n"
#define UI "Origin: https://ui.perfetto.dev\r\n"

static const struct http_file file = {
	.name = "t.json.gz", .type = "application/gzip", .size = 1000
};

static struct http_answer answer;
static struct http_request request;

/* A copy of the exact size: sanitizers see any byte that is read behind it. */
static int parse_exactly(const char *text, size_t len)
{
	static char *copy;

	free(copy);
	copy = malloc(len ? len : 1);
	assert_non_null(copy);
	memcpy(copy, text, len);
	return http_parse(copy, len, &request);
}

/* The status of the answer. */
static int ask(const char *text)
{
	size_t len = strlen(text);
	int ret = parse_exactly(text, len);

	memset(&answer, 'x', sizeof(answer));
	if (ret < 0) {
		http_refuse(ret, NOW, &answer);
	} else {
		assert_int_equal(ret, len);
		http_answer(&request, &file, NOW, &answer);
	}
	assert_true(answer.len < sizeof(answer.text));
	answer.text[answer.len] = 0;
	return answer.status;
}

static bool says(const char *line)
{
	char with_ends[300];

	snprintf(with_ends, sizeof(with_ends), "\r\n%s\r\n", line);
	return strstr(answer.text, with_ends);
}

static const char *body(void)
{
	return strstr(answer.text, "\r\n\r\n") + 4;
}

static void test_get(void **state)
{
	(void)state;
	assert_int_equal(ask("GET /t.json.gz HTTP/1.1\r\n" HOST "\r\n"), 200);
	assert_string_equal(answer.text, "HTTP/1.1 200 OK\r\n"
					 "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
					 "Connection: keep-alive\r\n"
					 "Cache-Control: no-store\r\n"
					 "X-Content-Type-Options: nosniff\r\n"
					 "Cross-Origin-Resource-Policy: same-origin\r\n"
					 "Vary: Origin\r\n"
					 "Accept-Ranges: bytes\r\n"
					 "Content-Type: application/gzip\r\n"
					 "Content-Length: 1000\r\n\r\n");
	assert_int_equal(answer.first, 0);
	assert_int_equal(answer.end, 1000);
	assert_true(answer.keep_alive);

	assert_int_equal(ask("HEAD /t.json.gz HTTP/1.1\r\n" HOST "\r\n"), 200);
	assert_true(says("Content-Length: 1000"));
	assert_string_equal(body(), "");
	assert_int_equal(answer.end - answer.first, 0);
	/* a range is of GET alone */
	assert_int_equal(ask("HEAD /t.json.gz HTTP/1.1\r\n" HOST "Range: bytes=0-9\r\n\r\n"), 200);
	assert_true(says("Content-Length: 1000"));
}

static void test_paths(void **state)
{
	static const struct {
		const char *line;
		int status;
	} cases[] = {
		{ "GET /t.json.gz HTTP/1.1", 200 },
		{ "GET /t.json.gz?x=/y HTTP/1.1", 200 },
		{ "GET /t.json.gz? HTTP/1.1", 200 },
		{ "GET http://127.0.0.1:9001/t.json.gz HTTP/1.1", 200 },
		{ "GET HTTP://localhost/t.json.gz HTTP/1.1", 200 },
		{ "GET http://evil.example/t.json.gz HTTP/1.1",
			403 }, /* not what the header says */
		{ "GET http://127.0.0.1 HTTP/1.1", 404 },
		{ "GET http:///t.json.gz HTTP/1.1", 403 },
		{ "GET https://127.0.0.1/t.json.gz HTTP/1.1", 400 },
		{ "GET / HTTP/1.1", 404 },
		{ "GET /t.json HTTP/1.1", 404 },
		{ "GET /t.json.gzz HTTP/1.1", 404 },
		{ "GET //t.json.gz HTTP/1.1", 404 },
		{ "GET /./t.json.gz HTTP/1.1", 404 },
		{ "GET /../t.json.gz HTTP/1.1", 404 },
		{ "GET /%74.json.gz HTTP/1.1", 404 },
		{ "GET /etc/passwd HTTP/1.1", 404 },
		{ "GET /../../etc/passwd HTTP/1.1", 404 },
		{ "GET /..%2f..%2fetc%2fpasswd HTTP/1.1", 404 },
		{ "GET t.json.gz HTTP/1.1", 400 },
		{ "GET * HTTP/1.1", 400 },
		{ "GET  /t.json.gz HTTP/1.1", 400 },
		{ "GET /t.json.gz  HTTP/1.1", 400 },
		{ "GET /t.json.gz HTTP/1.1 ", 400 },
		{ "GET /t json.gz HTTP/1.1", 400 },
		{ "GET /t.json.gz\tHTTP/1.1", 400 },
		{ "GET /\xc3\xa9 HTTP/1.1", 400 },
		{ " GET /t.json.gz HTTP/1.1", 400 },
		{ "GET /t.json.gz", 400 },
		{ "GET /t.json.gz HTTP/1.0", 200 },
		{ "GET /t.json.gz HTTP/1.7", 200 },
		{ "GET /t.json.gz HTTP/2.0", 505 },
		{ "GET /t.json.gz HTTP/0.9", 505 },
		{ "GET /t.json.gz HTTP/11", 400 },
		{ "GET /t.json.gz http/1.1", 400 },
		{ "PRI * HTTP/2.0", 505 },
		{ "OPTIONS * HTTP/1.1", 204 },
		{ "OPTIONS /t.json.gz HTTP/1.1", 204 },
		{ "OPTIONS /x HTTP/1.1", 404 },
		{ "POST /t.json.gz HTTP/1.1", 405 },
		{ "POST /status HTTP/1.1", 405 },
		{ "PUT /t.json.gz HTTP/1.1", 405 },
		{ "DELETE /t.json.gz HTTP/1.1", 405 },
		{ "TRACE /t.json.gz HTTP/1.1", 405 },
		{ "get /t.json.gz HTTP/1.1", 405 },
		{ "CONNECT 127.0.0.1:9001 HTTP/1.1", 400 },
	};
	char text[300];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "%s\r\n" HOST "\r\n", cases[i].line);
		if (ask(text) != cases[i].status)
			fail_msg("%s: %d, not %d", cases[i].line, answer.status, cases[i].status);
		if (answer.status == 405)
			assert_true(says("Allow: GET, HEAD, OPTIONS"));
		if (answer.status >= 400)
			assert_int_equal(answer.end - answer.first, 0);
	}
}

static void test_hosts(void **state)
{
	static const struct {
		const char *headers;
		int status;
	} cases[] = {
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
		{ "Host : localhost", 400 },
		{ " Host: localhost", 400 },
		{ "Host: localhost\r\n folded", 400 },
		{ "Host: localhost\r\nno colon", 400 },
		{ "Host: localhost\r\n: no name", 400 },
		{ "Host: localhost\r\nX: a\nb", 400 },
		{ "Host: localhost\r\nX: a\rb", 400 },
		{ "Host: localhost\r\nX: \x7f", 400 },
		{ "Host: localhost\r\nX\x80: y", 400 },
		{ "Host: localhost\r\nX: \x80\xff\ty", 200 },
	};
	static const char with_nul[] = "GET / HTTP/1.1\r\nX: a\0b\r\n\r\n";
	char text[300];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "GET /t.json.gz HTTP/1.1\r\n%s\r\n\r\n",
			cases[i].headers);
		if (ask(text) != cases[i].status)
			fail_msg(
				"%s: %d, not %d", cases[i].headers, answer.status, cases[i].status);
	}
	assert_int_equal(parse_exactly(with_nul, sizeof(with_nul) - 1), -EBADMSG);
	assert_int_equal(ask("GET /t.json.gz HTTP/1.0\r\n\r\n"), 400);
}

static void test_origins(void **state)
{
	static const struct {
		const char *origin;
		bool allowed;
	} cases[] = {
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
	char text[300], line[200];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text),
			"GET /t.json.gz HTTP/1.1\r\n" HOST "Origin: %s\r\n\r\n", cases[i].origin);
		ask(text);
		if (answer.status != (cases[i].allowed ? 200 : 403))
			fail_msg("%s: %d", cases[i].origin, answer.status);
		snprintf(line, sizeof(line), "Access-Control-Allow-Origin: %s", cases[i].origin);
		assert_int_equal(says(line), cases[i].allowed);
		assert_int_equal(!!strstr(answer.text, "Access-Control"), cases[i].allowed);
		assert_true(says("Vary: Origin"));
	}
	/* no page at all: curl */
	ask("GET /t.json.gz HTTP/1.1\r\n" HOST "\r\n");
	assert_null(strstr(answer.text, "Access-Control"));
	assert_int_equal(
		ask("GET /t.json.gz HTTP/1.1\r\n" HOST UI "Origin: http://evil.example\r\n\r\n"),
		400);
	/* what the UI does first: it is told that this is no trace_processor, and may know that */
	assert_int_equal(ask("POST /status HTTP/1.1\r\n" HOST UI "Content-Length: 0\r\n\r\n"), 405);
	assert_true(says("Access-Control-Allow-Origin: https://ui.perfetto.dev"));
	assert_true(answer.keep_alive);
}

static void test_preflight(void **state)
{
	static const char asks[] = "Access-Control-Request-Private-Network: true\r\n";
	char text[500];

	(void)state;
	for (int private = 0; private < 2; private ++) {
		snprintf(text, sizeof(text),
			"OPTIONS /t.json.gz HTTP/1.1\r\n" HOST UI
			"Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: "
			"range\r\n"
			"%s\r\n",
			private ? asks : "");
		assert_int_equal(ask(text), 204);
		assert_true(says("Access-Control-Allow-Origin: https://ui.perfetto.dev"));
		assert_true(says("Access-Control-Allow-Methods: GET, HEAD, OPTIONS"));
		assert_non_null(strstr(answer.text, "\r\nAccess-Control-Allow-Headers: Range"));
		assert_int_equal(says("Access-Control-Allow-Private-Network: true"), private);
		assert_string_equal(body(), "");
		assert_null(strstr(answer.text, "\r\nContent-Length")); /* RFC 9110, section 8.6 */
	}
	snprintf(text, sizeof(text),
		"OPTIONS /t.json.gz HTTP/1.1\r\n" HOST
		"Origin: https://evil.example\r\nAccess-Control-Request-Method: GET\r\n%s\r\n",
		asks);
	assert_int_equal(ask(text), 403);
	assert_null(strstr(answer.text, "Access-Control"));
	assert_int_equal(ask("OPTIONS /t.json.gz HTTP/1.1\r\n" HOST "\r\n"), 204);
	assert_null(strstr(answer.text, "Access-Control"));
}

static void test_ranges(void **state)
{
	static const struct {
		const char *range;
		int status;
		uint64_t first, end;
	} cases[] = {
		{ "bytes=0-0", 206, 0, 1 },
		{ "bytes=0-499", 206, 0, 500 },
		{ "bytes=500-", 206, 500, 1000 },
		{ "bytes=0-", 206, 0, 1000 },
		{ "bytes=-1", 206, 999, 1000 },
		{ "bytes=-1000", 206, 0, 1000 },
		{ "bytes=-5000", 206, 0, 1000 },
		{ "bytes=999-999", 206, 999, 1000 },
		{ "bytes=990-1000", 206, 990, 1000 },
		{ "bytes=990-5000", 206, 990, 1000 },
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
	char text[300], line[100];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "GET /t.json.gz HTTP/1.1\r\n" HOST "Range: %s\r\n\r\n",
			cases[i].range);
		ask(text);
		if (answer.status != cases[i].status || answer.first != cases[i].first ||
			answer.end != cases[i].end)
			fail_msg("%s: %d, %llu to %llu", cases[i].range, answer.status,
				(unsigned long long)answer.first, (unsigned long long)answer.end);
		snprintf(line, sizeof(line), "Content-Range: bytes %llu-%llu/1000",
			(unsigned long long)answer.first, (unsigned long long)answer.end - 1);
		assert_int_equal(says(line), answer.status == 206);
		assert_int_equal(says("Content-Range: bytes */1000"), answer.status == 416);
		snprintf(line, sizeof(line), "Content-Length: %llu",
			(unsigned long long)(answer.end - answer.first));
		assert_int_equal(says(line), answer.status != 416);
	}
}

static void test_empty_file(void **state)
{
	struct http_file empty = file;

	(void)state;
	empty.size = 0;
	ask("GET /t.json.gz HTTP/1.1\r\n" HOST "\r\n");
	http_answer(&request, &empty, NOW, &answer);
	assert_int_equal(answer.status, 200);
	assert_int_equal(answer.end, 0);
	ask("GET /t.json.gz HTTP/1.1\r\n" HOST "Range: bytes=0-\r\n\r\n");
	http_answer(&request, &empty, NOW, &answer);
	assert_int_equal(answer.status, 416);
	ask("GET /t.json.gz HTTP/1.1\r\n" HOST "Range: bytes=-1\r\n\r\n");
	http_answer(&request, &empty, NOW, &answer);
	assert_int_equal(answer.status, 416);
}

static void test_keep_alive(void **state)
{
	static const struct {
		const char *version, *headers;
		bool kept;
	} cases[] = {
		{ "1.1", "", true },
		{ "1.1", "Connection: close\r\n", false },
		{ "1.1", "Connection: Upgrade, CLOSE\r\n", false },
		{ "1.1", "Connection: keep-alive\r\nConnection: close\r\n", false },
		{ "1.1", "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n", true },
		{ "1.0", "", false },
		{ "1.1", "Content-Length: 0\r\n", true },
		{ "1.1", "Content-Length: 00\r\n", true },
		/* where the next request begins is not looked for */
		{ "1.1", "Content-Length: 5\r\n", false },
		{ "1.1", "Content-Length: 99999999999999999999999\r\n", false },
		{ "1.1", "Transfer-Encoding: chunked\r\n", false },
	};
	char text[300];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "GET /t.json.gz HTTP/%s\r\n" HOST "%s\r\n",
			cases[i].version, cases[i].headers);
		assert_int_equal(ask(text), 200);
		assert_int_equal(answer.keep_alive, cases[i].kept);
		assert_true(says(cases[i].kept ? "Connection: keep-alive" : "Connection: close"));
	}
	assert_int_equal(ask("GET /t.json.gz HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n"), 400);
	assert_int_equal(ask("GET /t.json.gz HTTP/1.1\r\n" HOST "Content-Length: 0\r\n"
			     "Content-Length: 5\r\n\r\n"),
		400);
	assert_false(answer.keep_alive);
}

/* A request that comes byte by byte, and one behind it. */
static void test_pieces(void **state)
{
	static const char text[] =
		"\r\n\r\nGET /a HTTP/1.1\r\n" HOST "\r\nHEAD /b HTTP/1.1\r\n\r\n";
	size_t len = strlen(text), first = len - strlen("HEAD /b HTTP/1.1\r\n\r\n");

	(void)state;
	for (size_t n = 0; n < first; n++)
		assert_int_equal(parse_exactly(text, n), 0);
	for (size_t n = first; n <= len; n++) {
		assert_int_equal(parse_exactly(text, n), first);
		assert_int_equal(request.method, HTTP_GET);
		assert_memory_equal(request.path.p, "/a", 2);
	}
	assert_int_equal(parse_exactly(text + first, len - first), len - first);
	assert_int_equal(request.method, HTTP_HEAD);
	/* what cannot become a request is not waited for */
	assert_int_equal(parse_exactly("\x16\x03\x01", 3), -EBADMSG); /* TLS */
	assert_int_equal(parse_exactly("\r\n\x01", 3), -EBADMSG);
	assert_int_equal(parse_exactly("\r", 1), 0);
}

static void test_size(void **state)
{
	static const char line[] = "GET /t.json.gz HTTP/1.1\r\n" HOST "X: ";
	char *text = malloc(HTTP_HEAD_MAX + 10);
	size_t n = strlen(line);

	(void)state;
	assert_non_null(text);
	memset(text, 'x', HTTP_HEAD_MAX + 10);
	assert_int_equal(parse_exactly(text, HTTP_HEAD_MAX - 1), 0);
	assert_int_equal(parse_exactly(text, HTTP_HEAD_MAX), -EMSGSIZE);
	memcpy(text, line, n);
	assert_int_equal(parse_exactly(text, HTTP_HEAD_MAX - 1), 0);
	assert_int_equal(parse_exactly(text, HTTP_HEAD_MAX), -EMSGSIZE);
	memcpy(text + HTTP_HEAD_MAX - 4, "\r\n\r\n", 4);
	assert_int_equal(parse_exactly(text, HTTP_HEAD_MAX), HTTP_HEAD_MAX);
	memset(text, '\r', HTTP_HEAD_MAX);
	for (size_t i = 1; i < HTTP_HEAD_MAX; i += 2)
		text[i] = '\n';
	assert_int_equal(parse_exactly(text, HTTP_HEAD_MAX), -EMSGSIZE);
	free(text);
}

static void test_refuse(void **state)
{
	static const struct {
		int err, status;
	} cases[] = { { -EBADMSG, 400 }, { -ETIMEDOUT, 408 }, { -EMSGSIZE, 431 }, { -EBUSY, 503 },
		{ -EPROTONOSUPPORT, 505 } };
	char line[100];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		http_refuse(cases[i].err, NOW, &answer);
		answer.text[answer.len] = 0;
		assert_int_equal(answer.status, cases[i].status);
		assert_true(says("Connection: close"));
		assert_false(answer.keep_alive);
		snprintf(line, sizeof(line), "Content-Length: %zu", strlen(body()));
		assert_true(says(line));
		assert_int_equal(answer.end - answer.first, 0);
	}
	ask("HEAD /x HTTP/1.1\r\n" HOST "\r\n");
	assert_string_equal(body(), "");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_get),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_origins),
		cmocka_unit_test(test_preflight),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_empty_file),
		cmocka_unit_test(test_keep_alive),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_refuse),
		cmocka_unit_test(test_name),
	};

	return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
