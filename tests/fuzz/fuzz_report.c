// SPDX-License-Identifier: BSD-2-Clause
/*
 * libFuzzer target for `inftrace report`: any bytes, as a file, through all that it writes. An archive whose members are stored (zip -0) is a
 * good start for what it reads of traces.
 *
 *   clang -g -O1 -std=gnu11 -D_GNU_SOURCE -Isrc -DENGINES_DIR='""' -fsanitize=fuzzer,address,undefined \
 *           tests/fuzz/fuzz_report.c src/schema/left_out.c $(ls src/{report,read,util,engine,target}/?*.c) src/link/{collectives,ranks,clock,spans}.c \
 *           -ljson-c -lelf -lz -lzip -lcapstone -lcrypto -lm -o fuzz_report
 *   mkdir corpus && ./fuzz_report -max_total_time=120 -timeout=10 -rss_limit_mb=1024 \
 *           -dict=tests/fuzz/validate.dict corpus tests/golden
 */
#include "fuzz.h"

#include "report/report.h"

static void problem(void *ctx, const char *text)
{
	(void)ctx;
	check_line(text);
}

static void check_text(const struct report *r)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	REQUIRE(out);
	report_text(r, 20, out);
	if (fclose(out))
		abort();
	for (size_t i = 0; i < len; i++)
		REQUIRE(((unsigned char)text[i] >= 0x20 || text[i] == '\n') && text[i] != 0x7f);
	free(text);
}

static void check_json(const struct report *r)
{
	struct json_object *o;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	REQUIRE(out);
	report_json(r, 20, true, out);
	if (fclose(out))
		abort();
	o = json_tokener_parse(text);
	REQUIRE(o);
	json_object_put(o);
	free(text);
}

/* One script with the data in it, and one that shows it. */
static void check_html(const struct report *r)
{
	size_t len, scripts = 0;
	char *page = report_html(r, 20, &len);

	for (size_t i = 0; i + 8 <= len; i++)
		scripts += !memcmp(page + i, "<script", 7);
	REQUIRE(scripts == 2);
	free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct report r;
	const char *path = path_of(data, size);

	report_make(&r, &path, 1, problem, NULL, NULL);
	report_slo(&r, &(struct slo){ .ttft = 1000000, .tpot = 1000000 });
	check_text(&r);
	check_json(&r);
	check_html(&r);
	report_free(&r);
	return 0;
}
