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
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "read/detect.h"
#include "validate/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void problem(void *ctx, const char *text)
{
	size_t *longest = ctx, len = strlen(text);

	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			abort(); /* every message is one line without control bytes */
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
	char buf[160], *summary = NULL;
	FILE *out;

	out = open_memstream(&summary, &summary_len);
	if (!out)
		abort();
	if (!json_source_open_mem(&source, data, size)) {
		switch (file_detect(&source, buf, sizeof(buf), &why)) {
		case FILE_OTHER:
			if (!why)
				abort();
			break;
		case FILE_PROFILE:
			check_profile(&source, "file", required, 2, &report, out);
			break;
		case FILE_TRACE:
			check_trace(&source, "file", &report, out);
			break;
		}
	}
	json_source_close(&source);
	fclose(out);
	/* an invalid file is never silent, a valid one always has its line */
	if (!why && !source.error[0] && !report.problems && !summary_len)
		abort();
	if (memchr(summary, '\n', summary_len) &&
		(char *)memchr(summary, '\n', summary_len) != summary + summary_len - 1)
		abort();
	free(summary);
	return 0;
}
