// SPDX-License-Identifier: BSD-2-Clause
/* Where events end, in texts with known ends. */
#include "io/writer.h"
#include "unit.h"

#define EVENTS 40

static char text[EVENTS * 400];
static size_t ends[EVENTS], len;
static unsigned int n;

/* xorshift64 (Marsaglia, 2003): the same on every machine */
static unsigned int draw(unsigned int below)
{
	static uint64_t seed = 88172645463325252ull;

	return (unsigned int)(next_random(&seed) % below);
}

static void put(const char *bytes, size_t size)
{
	memcpy(text + len, bytes, size);
	len += size;
}

/* Writes bytes, including all with a meaning, but no ",
 * ". */
static void put_noise(size_t size, const char *without)
{
	static const char odd[] = "\n,[]{}\x80\x0a\xff";

	for (char last = 0; size; size--) {
		char c = draw(2) ? odd[draw(sizeof(odd) - 1)] : (char)draw(256);

		if (strchr(without, c) || (last == ',' && c == '\n'))
			c = 'x';
		put(&c, 1);
		last = c;
	}
	if (text[len - 1] == ',')
		text[len - 1] = '.';
}

static void put_json(bool padded)
{
	put(n ? ",\n" : "[\n", 2);
	put_noise(1 + draw(60), "\n");
	if (padded && !draw(3))
		put("\n\n\n\n\n", 5);
}

static void put_packet(void)
{
	size_t size = draw(4) ? draw(100) : 100 + draw(200);
	char head[3] = { '\n', (char)size };

	if (size >= 128) {
		head[1] = (char)(size | 0x80);
		head[2] = (char)(size >> 7);
	}
	put(head, size < 128 ? 2 : 3);
	if (size)
		put_noise(size, "");
}

static void make(enum writer_mode mode)
{
	len = 0;
	for (n = 0; n < 1 + draw(EVENTS - 1); n++) {
		if (mode == WRITER_PLAIN || mode == WRITER_GZIP) {
			put_json(mode == WRITER_PLAIN);
		} else if (mode == WRITER_LINES || mode == WRITER_LINES_GZIP) {
			put_noise(1 + draw(60), "\n");
			put("\n", 1);
		} else {
			put_packet();
		}
		ends[n] = len;
	}
}

static size_t wanted(size_t limit)
{
	size_t best = ends[0];

	for (unsigned int i = 0; i < n; i++) {
		if (ends[i] <= limit)
			best = ends[i];
	}
	return best;
}

TEST(test_all)
{
	static const enum writer_mode modes[] = { WRITER_PLAIN, WRITER_GZIP, WRITER_LINES, WRITER_LINES_GZIP, WRITER_PACKETS,
		WRITER_PACKETS_GZIP };

	for (unsigned int i = 0; i < 500; i++) {
		enum writer_mode mode = modes[i % 6];

		make(mode);
		for (size_t limit = 0; limit <= len + 1; limit++) {
			size_t got = framing_within(mode, text, len, limit);

			if (got != wanted(limit))
				fail_msg("mode %d, %zu of %zu: %zu, not %zu", mode, limit, len, got, wanted(limit));
		}
	}
}

RUN_TESTS(NULL, NULL)
