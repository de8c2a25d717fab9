// SPDX-License-Identifier: BSD-2-Clause
/* ZIP files: what is written can be read back, and what is damaged is told from it. */
#include <zlib.h>

#include "cases.h"
#include "io/zip_writer.h"
#include "read/zip.h"
#include "unit.h"
#include "util/zip_format.h"

#define LONG_BYTES 300000

static char long_text[LONG_BYTES];
static char path[64];

static const char *path_of(FILE *f)
{
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(f));
	return path;
}

static FILE *file_of(const void *bytes, size_t len)
{
	FILE *f = tmpfile();

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	rewind(f);
	return f;
}

static FILE *gzip_of(const char *text, size_t len)
{
	static unsigned char out[LONG_BYTES + 1024];
	z_stream z = { .next_in = (unsigned char *)text, .avail_in = (unsigned int)len, .next_out = out, .avail_out = sizeof(out) };

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return file_of(out, z.total_out);
}

/* A text, a file, and one that is compressed; the small one has a few bytes of each. */
static FILE *archive(size_t len)
{
	FILE *out = tmpfile(), *plain = file_of(long_text, len), *packed = gzip_of(long_text, len);
	char why[ZIP_WHY_MAX];
	struct zip_writer *zip;

	assert_int_equal(zip_writer_new(fileno(out), &zip), 0);
	assert_int_equal(zip_writer_text(zip, "first", "{}", 2, 0, why), 0);
	assert_int_equal(zip_writer_file(zip, "a/plain.json", fileno(plain), 1795147200, why), 0);
	assert_int_equal(zip_writer_file(zip, "packed.json.gz", fileno(packed), 1795147200, why), 0);
	assert_int_equal(zip_writer_finish(zip, why), 0);
	zip_writer_free(zip);
	fclose(plain);
	fclose(packed);
	return out;
}

/* Returns 0 and whether the content is as it was, or the error of reading. */
static int read_member(const struct zip *zip, size_t i, const char *wanted, size_t len, bool *ret_same)
{
	struct json_source source;
	size_t n = 0;
	int ret;

	*ret_same = true;
	ret = zip_source(zip, &zip->members[i], &source);
	while (ret >= 0) {
		size_t have = (size_t)(source.end - source.pos);

		if (n + have > len || memcmp(source.pos, wanted + n, have))
			*ret_same = false;
		n += have;
		source.pos = source.end;
		ret = json_source_fill(&source);
		if (!ret)
			break;
	}
	if (ret < 0)
		assert_true(source.error[0]);
	*ret_same &= n == len;
	json_source_close(&source);
	return ret;
}

TEST(test_round_trip)
{
	static const char *const names[] = { "first", "a/plain.json", "packed.json.gz" };
	FILE *f = archive(LONG_BYTES);
	struct zip zip;
	bool same;

	assert_true(zip_is(path_of(f)));
	assert_int_equal(zip_open(&zip, path_of(f)), 0);
	assert_int_equal(zip.n, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(zip.members[i].name, names[i]);
		assert_int_equal(zip.members[i].flags, 0);
		assert_int_equal(read_member(&zip, i, i ? long_text : "{}", i ? LONG_BYTES : 2, &same), 0);
		assert_true(same);
	}
	/* what is compressed already is stored as it is, so that its bytes are those of the file */
	assert_int_equal(zip.members[1].method, ZIP_DEFLATED);
	assert_int_equal(zip.members[2].method, ZIP_STORED);
	assert_true(zip.members[1].packed < LONG_BYTES / 3 * 2);
	zip_close(&zip);
	fclose(f);
}

/* Perfetto reads the headers before the members, not the directory. */
TEST(test_local_headers)
{
	FILE *f = archive(5000);
	uint8_t head[ZIP_LOCAL_BYTES];
	struct zip zip;

	assert_int_equal(zip_open(&zip, path_of(f)), 0);
	for (size_t i = 0; i < zip.n; i++) {
		assert_int_equal(pread(fileno(f), head, sizeof(head), (off_t)zip.members[i].at), sizeof(head));
		assert_int_equal(zip_get(head, 4), ZIP_LOCAL);
		assert_int_equal(zip_get(head + 4, 2), 20); /* version */
		assert_int_equal(zip_get(head + 6, 2), 0);  /* flags */
		assert_int_equal(zip_get(head + 14, 4), zip.members[i].crc);
		assert_int_equal(zip_get(head + 18, 4), zip.members[i].packed);
		assert_int_equal(zip_get(head + 22, 4), zip.members[i].size);
		assert_int_equal(zip_get(head + 26, 2), strlen(zip.members[i].name));
	}
	zip_close(&zip);
	fclose(f);
}

/* Reads all members of a damaged archive: each is as it was, or refused. */
static void read_damaged(const char *bytes, size_t len, size_t content)
{
	FILE *f = file_of(bytes, len);
	struct zip zip;
	bool same;

	fflush(f);
	if (!zip_open(&zip, path_of(f))) {
		for (size_t i = 0; i < zip.n; i++) {
			if (!read_member(&zip, i, i ? long_text : "{}", i ? content : 2, &same))
				assert_true(same);
		}
	} else {
		assert_true(zip.error[0]);
	}
	zip_close(&zip);
	fclose(f);
}

TEST(test_cut)
{
	FILE *f = archive(3000);
	static char bytes[20000];
	struct zip zip;
	size_t len;

	rewind(f);
	len = fread(bytes, 1, sizeof(bytes), f);
	for (size_t n = 0; n < len; n += 1 + len / cases(400, 20)) {
		FILE *cut = file_of(bytes, n);

		fflush(cut);
		assert_int_equal(zip_open(&zip, path_of(cut)), -EBADMSG);
		assert_non_null(strstr(zip.error, "cut off"));
		zip_close(&zip);
		fclose(cut);
	}
	fclose(f);
}

TEST(test_damaged)
{
	FILE *f = archive(3000);
	static char bytes[20000];
	size_t len;

	rewind(f);
	len = fread(bytes, 1, sizeof(bytes), f);
	for (size_t i = 0; i < len; i += 1 + len / cases(2000, 40)) {
		bytes[i] ^= 0x55;
		read_damaged(bytes, len, 3000);
		bytes[i] ^= 0x55;
	}
	fclose(f);
}

TEST(test_refused)
{
	static const char empty[ZIP_END_BYTES] = { 'P', 'K', 5, 6 };
	FILE *f = file_of(empty, sizeof(empty)), *text = file_of("hello", 5);
	char zip64[ZIP_END_BYTES];
	struct zip zip;

	assert_int_equal(zip_open(&zip, path_of(f)), 0);
	assert_int_equal(zip.n, 0);
	zip_close(&zip);
	assert_false(zip_is(path_of(text)));
	assert_false(zip_is("/dev/null"));
	assert_false(zip_is("/nowhere"));
	assert_true(zip_open(&zip, path_of(text)) < 0);
	zip_close(&zip);
	assert_int_equal(zip_open(&zip, "/nowhere"), -ENOENT);
	zip_close(&zip);
	fclose(f);
	memcpy(zip64, empty, sizeof(zip64));
	memset(zip64 + 8, 0xff, 12);
	f = file_of(zip64, sizeof(zip64));
	assert_int_equal(zip_open(&zip, path_of(f)), -E2BIG);
	zip_close(&zip);
	fclose(f);
	fclose(text);
}

static int fill_text(void **state)
{
	uint32_t x = 1;

	for (size_t i = 0; i < LONG_BYTES; i++) {
		x = x * 1664525 + 1013904223;
		long_text[i] = "0123456789abcdef"[x >> 28];
	}
	return 0;
}

RUN_TESTS(fill_text, NULL)
