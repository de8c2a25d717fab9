// SPDX-License-Identifier: BSD-2-Clause
/*
 * libFuzzer target: any bytes as requests to `inftrace serve`.
 *
 *   clang -g -O1 -std=gnu11 -D_GNU_SOURCE -Isrc -fsanitize=fuzzer,address,undefined \
 *           tests/fuzz/fuzz_http.c src/io/http.c -o fuzz_http
 *   mkdir -p corpus && printf "GET /t.json HTTP/1.1\r\nHost: localhost\r\n\r\n" >corpus/get
 *   ./fuzz_http -max_total_time=120 -dict=tests/fuzz/http.dict corpus
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(x)               \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

static const struct http_file file = { .name = "t.json", .type = "application/json", .size = 1000 };

/* Headers without a control byte, each ended, and then what it says follows: so much of a text, or
 * of the file. */
static void check_answer(const struct http_answer *a)
{
	static char text[HTTP_ANSWER_MAX + 1];
	const char *body, *length;

	REQUIRE(a->len && a->len < sizeof(a->text));
	memcpy(text, a->text, a->len);
	text[a->len] = 0;
	REQUIRE(strlen(text) == a->len);
	body = strstr(text, "\r\n\r\n");
	REQUIRE(body);
	for (const char *p = text; p < body; p++)
		REQUIRE((*p >= ' ' && *p < 0x7f) || (p[0] == '\r' && p[1] == '\n') || p[0] == '\n');
	REQUIRE(a->first <= a->end && a->end <= file.size);
	REQUIRE(a->first == a->end || a->status == 200 || a->status == 206);
	REQUIRE(a->first == a->end || !body[4]);
	length = strstr(text, "\r\nContent-Length: ");
	REQUIRE(!length == (a->status == 204));
	if (a->first < a->end)
		REQUIRE(strtoull(length + 18, NULL, 10) == a->end - a->first);
	else if (body[4])
		REQUIRE(strtoull(length + 18, NULL, 10) == strlen(body + 4));
}

/* Nothing of the file for other names of this machine, other pages, other paths. */
static void check_allowed(const struct http_request *r, const struct http_answer *a)
{
	if (a->status == 400 || a->status == 403 || a->status == 404 || a->status == 405)
		return;
	REQUIRE(r->host.len >= 9 && r->host.len <= 15);
	REQUIRE(!memcmp(r->host.p, "127.0.0.1", 9) || (r->host.p[0] | 0x20) == 'l');
	REQUIRE(!r->origin.p || r->origin.len <= strlen("https://127.0.0.1:65535"));
	REQUIRE(r->path.len == 1 || (r->path.len == 7 && !memcmp(r->path.p, "/t.json", 7)));
	REQUIRE(r->path.len == 7 || a->first == a->end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct http_answer answer;
	struct http_request r;

	while (size) {
		/* of the exact size: any byte that is read behind it is seen */
		size_t len = size < HTTP_HEAD_MAX ? size : HTTP_HEAD_MAX;
		char *buf = malloc(len);
		int ret;

		REQUIRE(buf);
		memcpy(buf, data, len);
		ret = http_parse(buf, len, &r);
		REQUIRE(ret <= (int)len && (ret || len < HTTP_HEAD_MAX));
		if (ret > 0) {
			http_answer(&r, &file, 0, &answer);
			check_answer(&answer);
			check_allowed(&r, &answer);
			/* without its end it is none */
			REQUIRE(http_parse(buf, (size_t)ret - 1, &r) == 0);
		} else if (ret) {
			http_refuse(ret, 0, &answer);
			REQUIRE(answer.status >= 400 && !answer.keep_alive);
			check_answer(&answer);
		}
		free(buf);
		if (ret <= 0 || !answer.keep_alive)
			break;
		data += ret;
		size -= (size_t)ret;
	}
	return 0;
}
