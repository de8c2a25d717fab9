// SPDX-License-Identifier: BSD-2-Clause
/* Pages of metrics: which values are read from them. */
#include "record/scrape.h"

#include "unit.h"
#include "util/clock.h"

struct got {
	char text[4096];
	size_t len, n;
};

static void take(const char *series, size_t len, double value, void *arg)
{
	struct got *g = arg;

	g->n++;
	if (g->len + len + 64 < sizeof(g->text))
		g->len += (size_t)snprintf(g->text + g->len, sizeof(g->text) - g->len, "%.*s=%.17g;", (int)len, series, value);
}

/* From memory that ends with it, so that a sanitizer sees what reads on. */
static void parse(const char *page, size_t len, struct got *ret)
{
	char *copy = malloc(len + !len);

	memcpy(copy, page, len);
	*ret = (struct got){ .n = 0 };
	scrape_parse(copy, len, take, ret);
	free(copy);
}

TEST(test_pages)
{
	static const struct {
		const char *page, *values;
	} cases[] = {
		{ "", "" },
		{ "\n\n\n", "" },
		{ "a 1", "a=1;" },
		{ "a 1\nb 2.5\n", "a=1;b=2.5;" },
		{ "a\t 1 1700000000000\r\n", "a=1;" },
		{ "a 1\r\nb 2\r\n", "a=1;b=2;" },
		{ "a -0.5e3", "a=-500;" },
		/* no values */
		{ "a", "" },
		{ "a ", "" },
		{ " 1", "" },
		{ "a x", "" },
		{ "a 1x", "" },
		{ "a NaN\na +Inf\na -Inf\na 1e999\nb 1", "b=1;" },
		{ "a 11111111111111111111111111111111111111111111111111111111111111111111111111111111", "" },
		/* labels */
		{ "a{} 1", "a{}=1;" },
		{ "a{b=\"c\"} 1", "a{b=\"c\"}=1;" },
		{ "a{b=\"c d}e\",f=\"\\\"}\\\\\"} 1", "a{b=\"c d}e\",f=\"\\\"}\\\\\"}=1;" },
		{ "a{b=\"c\"}1", "a{b=\"c\"}=1;" },
		{ "a{b=\"c 1\nx 1", "x=1;" },
		{ "a{b=\"\\", "" },
		{ "a{", "" },
		/* types */
		{ "# TYPE a gauge\na 1\n# TYPE b counter\nb 2\n# TYPE c untyped\nc 3\n# TYPE x unknown\nx 4", "a=1;b=2;c=3;x=4;" },
		{ "# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\nb 2", "b=2;" },
		{ "#\tTYPE  a  summary\na{quantile=\"0.5\"} 1\na_sum 1\n# HELP b of a\nb 2", "b=2;" },
		{ "# TYPE a histogram\na_sum 1\n# TYPE a_left gauge\na_left 1\n", "a_left=1;" },
		{ "# TYPE a_created gauge\na_created 1\na_created{b=\"c\"} 1\n_created 1\ncreated 1", "_created=1;created=1;" },
		{ "# TYPE\n# TYPE a\n# \n#\na 1\n# EOF", "a=1;" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct got g;

		parse(cases[i].page, strlen(cases[i].page), &g);
		if (strcmp(g.text, cases[i].values))
			fail_msg("%s: %s", cases[i].page, g.text);
	}
}

/* Pages that are cut off anywhere, and damaged ones. */
TEST(test_damaged)
{
	static const char page[] = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"a\\\"b\"} 3.0\n"
				   "# TYPE e2e histogram\ne2e_bucket{le=\"0.5\"} 1\nvllm:kv_cache_usage_perc 0.25 17\n";
	static const char special[] = "\n\"{}# \\\t";
	char damaged[sizeof(page)];
	uint64_t seed = clock_mono_ns() | 1;
	struct got g;

	print_message("seed %" PRIu64 "\n", seed);
	for (size_t len = 0; len < sizeof(page); len++) {
		parse(page, len, &g);
		assert_true(g.n <= 2);
	}
	for (int i = 0; i < 20000; i++) {
		memcpy(damaged, page, sizeof(page));
		for (uint64_t k = next_random(&seed) % 8 + 1; k; k--)
			damaged[next_random(&seed) % sizeof(page)] = next_random(&seed) % 4 ? (char)next_random(&seed) : special[next_random(&seed) % 8];
		parse(damaged, sizeof(page), &g);
		assert_true(g.n <= sizeof(page) / 3);
	}
}

TEST(test_where)
{
	static const char *const refused[] = { "", "a", "ftp://a", "https://a", "http://", "http://a b", "http://u@a", "http://a:70000", "70000", "-1", "1 " };

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct scrape *s = NULL;

		if (scrape_new(refused[i], &s) != -EINVAL || s)
			fail_msg("'%s' was not refused", refused[i]);
	}
}

RUN_TESTS(NULL, NULL)
