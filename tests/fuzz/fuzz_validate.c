// SPDX-License-Identifier: BSD-2-Clause
/*
 * libFuzzer target for the readers behind `inftrace validate`: any bytes, as a file.
 *
 *   clang -g -O1 -std=gnu11 -D_GNU_SOURCE -Isrc -fsanitize=fuzzer,address,undefined \
 *           tests/fuzz/fuzz_validate.c $(ls src/validate/?*.c src/read/?*.c src/util/json.c) \
 *           src/util/text.c src/util/fmt.c -ljson-c -lz -lzip -o fuzz_validate
 *   mkdir corpus && ./fuzz_validate -max_total_time=120 -timeout=10 -rss_limit_mb=1024 \
 *           -dict=tests/fuzz/validate.dict corpus tests/golden
 */
#include "fuzz.h"

#include "read/detect.h"
#include "validate/check.h"

static void problem(void *ctx, const char *text)
{
	size_t *longest = ctx, len = strlen(text);

	check_line(text);
	if (len > *longest)
		*longest = len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const required[] = { "token_prof", "op_prof" };
	size_t longest = 0, summary_len = 0;
	struct check_report report = { .problem = problem, .ctx = &longest };
	struct json_source source;
	const char *why = NULL;
	enum file_kind kind;
	char buf[160], *summary = NULL;
	FILE *out;

	out = open_memstream(&summary, &summary_len);
	REQUIRE(out);
	if (!json_source_open_mem(&source, data, size)) {
		kind = file_detect(&source, buf, sizeof(buf), &why);
		switch (kind) {
		case FILE_OTHER:
			REQUIRE(why);
			break;
		case FILE_PROFILE:
			check_profile(&source, "file", required, 2, &report, out);
			break;
		case FILE_TRACE:
			check_trace(&source, "file", &report, out);
			break;
		default:
			check_execution_trace(&source, kind, "file", &report, out);
			break;
		}
	}
	json_source_close(&source);
	fclose(out);
	/* an invalid file is never silent, a valid one always has its line */
	REQUIRE(why || source.error[0] || report.problems || summary_len);
	REQUIRE(!memchr(summary, '\n', summary_len) || (char *)memchr(summary, '\n', summary_len) == summary + summary_len - 1);
	free(summary);
	return 0;
}
