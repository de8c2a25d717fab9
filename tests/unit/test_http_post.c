// SPDX-License-Identifier: BSD-2-Clause
/* URLs of collectors. What is sent, and to whom, is in tests/integration/fleet.sh. */
#include "io/http_post.h"
#include "unit.h"

static void test_urls(void **state)
{
	static const struct {
		const char *text;
		int err;
		const char *host, *port, *path;
	} cases[] = {
		{ "http://a", 0, "a", "4318", "" },
		{ "HTTP://a/", 0, "a", "4318", "" },
		{ "http://127.0.0.1:80/x/y//", 0, "127.0.0.1", "80", "/x/y" },
		{ "http://[::1]", 0, "::1", "4318", "" },
		{ "http://[::1]:9/x", 0, "::1", "9", "/x" },
		{ "https://a", -EPROTONOSUPPORT, NULL, NULL, NULL },
		{ "a:4318", -EINVAL, NULL, NULL, NULL },
		{ "http://", -EINVAL, NULL, NULL, NULL },
		{ "http://:80", -EINVAL, NULL, NULL, NULL },
		{ "http://a:", -EINVAL, NULL, NULL, NULL },
		{ "http://a:65536", -EINVAL, NULL, NULL, NULL },
		{ "http://a:-1", -EINVAL, NULL, NULL, NULL },
		{ "http://[::1", -EINVAL, NULL, NULL, NULL },
		{ "http://[::1]x", -EINVAL, NULL, NULL, NULL },
		{ "http://a\r\nb", -EINVAL, NULL, NULL, NULL },
		{ "http://a/\r\nHost: b", -EINVAL, NULL, NULL, NULL },
		{ "http://u@a", -EINVAL, NULL, NULL, NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct http_url url;

		assert_int_equal(http_url_parse(cases[i].text, "4318", &url), cases[i].err);
		if (cases[i].err)
			continue;
		assert_string_equal(url.host, cases[i].host);
		assert_string_equal(url.port, cases[i].port);
		assert_string_equal(url.path, cases[i].path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_urls),
	};

	return cmocka_run_group_tests_name("http_post", tests, NULL, NULL);
}
