// SPDX-License-Identifier: BSD-2-Clause
/* Which URLs are valid for collectors, and the request that one gets. Its content is tested in tests/integration/fleet.sh. */
#include "export/otlp.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "unit.h"

TEST(test_urls)
{
	static const struct {
		const char *text;
		int err;
	} cases[] = {
		{ "http://a", 0 },
		{ "HTTP://a/", 0 },
		{ "http://127.0.0.1:80/x/y//", 0 },
		{ "http://[::1]", 0 },
		{ "http://[::1]:9/x", 0 },
		{ "https://a", 0 },
		{ "http://a:", 0 }, /* RFC 3986, section 3.2.3 */
		{ "a:4318", -EINVAL },
		{ "ftp://a", -EINVAL },
		{ "http://", -EINVAL },
		{ "http://:80", -EINVAL },
		{ "http://a:0", -EINVAL },
		{ "http://a:65536", -EINVAL },
		{ "http://a:-1", -EINVAL },
		{ "http://[::1", -EINVAL },
		{ "http://[::1]x", -EINVAL },
		{ "http://a\r\nb", -EINVAL },
		{ "http://a/\r\nHost: b", -EINVAL },
		{ "http://a b", -EINVAL },
		{ "http://u@a", -EINVAL },
		{ "http://a?b", -EINVAL },
		{ "http://a#b", -EINVAL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct otlp_sender *s = NULL;
		int err = otlp_sender_new(cases[i].text, &s);

		if (err != cases[i].err)
			fail_msg("%s: %d", cases[i].text, err);
		otlp_sender_free(s);
	}
}

/* A proxy named by the environment gets nothing, and a redirection is not followed. */
TEST(test_request)
{
	static const char answer[] = "HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
	char url[64], text[2048] = "", host[64];
	socklen_t len = sizeof(addr);
	struct otlp_sender *s;
	struct otlp_sent sent;
	size_t n = 0;

	setenv("http_proxy", "http://127.0.0.1:1", 1);
	assert_int_equal(bind(server, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(server, 1), 0);
	assert_int_equal(getsockname(server, (struct sockaddr *)&addr, &len), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/x/y//", ntohs(addr.sin_port));
	snprintf(host, sizeof(host), "\r\nHost: 127.0.0.1:%u\r\n", ntohs(addr.sin_port));
	assert_int_equal(otlp_sender_new(url, &s), 0);
	otlp_sender_pass(s, OTLP_TRACES, strdup("a body"), 6, 1);
	fd = accept(server, NULL, NULL);
	assert_true(fd >= 0);
	while (!strstr(text, "a body")) {
		ssize_t got = recv(fd, text + n, sizeof(text) - 1 - n, 0);

		assert_true(got > 0);
		n += (size_t)got;
	}
	assert_memory_equal(text, "POST /x/y/v1/traces HTTP/1.1\r\n", 30);
	assert_non_null(strstr(text, host));
	assert_non_null(strstr(text, "\r\nContent-Length: 6\r\n"));
	assert_non_null(strstr(text, "\r\nContent-Type: application/x-protobuf\r\n"));
	assert_int_equal(send(fd, answer, strlen(answer), 0), strlen(answer));
	while (!otlp_sender_ready(s, OTLP_TRACES))
		usleep(1000);
	otlp_sender_counts(s, &sent);
	assert_int_equal(sent.sent, 0);
	assert_int_equal(sent.failed, 1);
	assert_int_equal(sent.dropped, 1);
	otlp_sender_free(s);
	close(fd);
	close(server);
}

RUN_TESTS(NULL, NULL)
