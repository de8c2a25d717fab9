// SPDX-License-Identifier: BSD-2-Clause
/* ZIP files: what is written can be read back, and damage is detected. */
#include <zlib.h>

#include "cases.h"
#include "io/zip_writer.h"
#include "read/zip.h"
#include "unit.h"

#define LONG_BYTES 300000
/* APPNOTE.TXT 6.3 of PKWARE, chapter 4 */
#define LOCAL_BYTES 30 /* of a header before a member */
#define ENTRY_BYTES 46 /* of a member, in the directory */
#define END_BYTES 22   /* after the directory */

static char long_text[LONG_BYTES];
static char path[64];

static uint32_t number(const uint8_t *p, unsigned int bytes)
{
	uint32_t v = 0;

	for (unsigned int i = 0; i < bytes; i++)
		v |= (uint32_t)p[i] << 8 * i;
	return v;
}

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

/* A text, a file, and one that is compressed; the small archive has a few bytes of each. */
static FILE *archive(size_t len)
{
	FILE *out = tmpfile(), *plain = file_of(long_text, len), *packed = gzip_of(long_text, len);
	char why[ZIP_WHY_MAX];
	struct zip_writer *zip;

	zip = zip_writer_new(fileno(out));
	assert_int_equal(zip_writer_text(zip, "first", "{}", 2, 0, why), 0);
	assert_int_equal(zip_writer_file(zip, "a/plain.json", fileno(plain), 1795147200, why), 0);
	assert_int_equal(zip_writer_file(zip, "packed.json.gz", fileno(packed), 1795147200, why), 0);
	assert_int_equal(zip_writer_finish(zip, why), 0);
	zip_writer_free(zip);
	fclose(plain);
	fclose(packed);
	return out;
}

/* Returns 0 and whether the content is unchanged, or the error of reading. */
static int read_member(struct zip *zip, size_t i, const char *wanted, size_t len, bool *ret_same)
{
	struct json_source source;
	size_t n = 0;
	int ret;

	*ret_same = true;
	ret = zip_member(zip, i, &source);
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

static struct zip *open_zip(FILE *f, size_t members)
{
	char why[ZIP_ERROR_MAX];
	struct zip *zip;
	size_t n;

	assert_int_equal(zip_read(path_of(f), &zip, &n, why), 0);
	assert_int_equal(n, members);
	return zip;
}

TEST(test_round_trip)
{
	static const char *const names[] = { "first", "a/plain.json", "packed.json.gz" };
	FILE *f = archive(LONG_BYTES);
	struct zip *zip = open_zip(f, 3);
	struct zip_stat st[3];
	bool same;

	assert_true(zip_is(path_of(f)));
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(zip_name(zip, i), names[i]);
		assert_int_equal(read_member(zip, i, i ? long_text : "{}", i ? LONG_BYTES : 2, &same), 0);
		assert_true(same);
		assert_int_equal(zip_stat_index(zip, i, 0, &st[i]), 0);
	}
	/* what is compressed already is stored, so that its bytes equal the file's */
	assert_int_equal(st[1].comp_method, ZIP_CM_DEFLATE);
	assert_int_equal(st[2].comp_method, ZIP_CM_STORE);
	assert_true(st[1].comp_size < LONG_BYTES / 3 * 2);
	zip_discard(zip);
	fclose(f);
}

/* Perfetto reads the local headers, not the directory. */
TEST(test_local_headers)
{
	FILE *f = archive(5000);
	struct zip *zip = open_zip(f, 3);
	uint8_t head[LOCAL_BYTES];
	struct zip_stat st;
	uint64_t at = 0;

	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(zip_stat_index(zip, i, 0, &st), 0);
		assert_int_equal(pread(fileno(f), head, sizeof(head), (off_t)at), sizeof(head));
		assert_memory_equal(head, "PK\3\4", 4);
		assert_int_equal(number(head + 4, 2), 20); /* version */
		assert_int_equal(number(head + 6, 2), 0);  /* flags */
		assert_int_equal(number(head + 14, 4), st.crc);
		assert_int_equal(number(head + 18, 4), st.comp_size);
		assert_int_equal(number(head + 22, 4), st.size);
		assert_int_equal(number(head + 26, 2), strlen(st.name));
		assert_int_equal(number(head + 28, 2), 0);
		at += LOCAL_BYTES + strlen(st.name) + st.comp_size;
	}
	zip_discard(zip);
	fclose(f);
}

/* Reads all members of a damaged archive: each is intact or refused. */
static void read_damaged(const char *bytes, size_t len, size_t content)
{
	FILE *f = file_of(bytes, len);
	char why[ZIP_ERROR_MAX] = "";
	struct zip *zip;
	size_t n;
	bool same;

	fflush(f);
	if (!zip_read(path_of(f), &zip, &n, why)) {
		for (size_t i = 0; i < n; i++) {
			if (!read_member(zip, i, i ? long_text : "{}", i ? content : 2, &same))
				assert_true(same);
		}
		zip_discard(zip);
	} else {
		assert_true(why[0]);
	}
	fclose(f);
}

TEST(test_cut)
{
	FILE *f = archive(3000);
	static char bytes[20000];
	char why[ZIP_ERROR_MAX];
	struct zip *zip;
	size_t len, members;

	rewind(f);
	len = fread(bytes, 1, sizeof(bytes), f);
	for (size_t n = 0; n < len; n += 1 + len / cases(400, 20)) {
		FILE *cut = file_of(bytes, n);

		fflush(cut);
		assert_int_equal(zip_read(path_of(cut), &zip, &members, why), -EBADMSG);
		assert_non_null(strstr(why, "cut off"));
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
	static const char empty[END_BYTES] = { 'P', 'K', 5, 6 };
	FILE *f = file_of(empty, sizeof(empty)), *text = file_of("hello", 5);
	char damaged[END_BYTES], why[ZIP_ERROR_MAX];
	struct zip *zip;
	size_t n;

	zip_discard(open_zip(f, 0));
	assert_false(zip_is(path_of(text)));
	assert_false(zip_is("/dev/null"));
	assert_false(zip_is("/nowhere"));
	assert_true(zip_read(path_of(text), &zip, &n, why) < 0);
	assert_int_equal(zip_read("/nowhere", &zip, &n, why), -ENOENT);
	assert_string_equal(why, "cannot open: No such file or directory");
	fclose(f);
	/* a ZIP64 record that is missing */
	memcpy(damaged, empty, sizeof(damaged));
	memset(damaged + 8, 0xff, 12);
	f = file_of(damaged, sizeof(damaged));
	assert_int_equal(zip_read(path_of(f), &zip, &n, why), -EBADMSG);
	fclose(f);
	fclose(text);
}

/* More members than allowed, all of them the same. */
TEST(test_many)
{
	static uint8_t bytes[LOCAL_BYTES + (ZIP_MEMBERS_MAX + 1) * ENTRY_BYTES + END_BYTES] = "PK\3\4";
	uint8_t *p = bytes + LOCAL_BYTES;
	char why[ZIP_ERROR_MAX];
	struct zip *zip;
	size_t n;
	FILE *f;

	for (int i = 0; i < ZIP_MEMBERS_MAX; i++, p += ENTRY_BYTES)
		memcpy(p, "PK\1\2", 4);
	for (unsigned int more = 0; more <= 1; more++) {
		memcpy(p, "PK\1\2", 4 * more);
		memcpy(p + more * ENTRY_BYTES, (uint8_t[END_BYTES]){ 'P', 'K', 5, 6 }, END_BYTES);
		for (unsigned int i = 0; i < 2; i++) {
			p[more * ENTRY_BYTES + 8 + 2 * i] = (uint8_t)(ZIP_MEMBERS_MAX + more);
			p[more * ENTRY_BYTES + 9 + 2 * i] = (uint8_t)((ZIP_MEMBERS_MAX + more) >> 8);
		}
		for (unsigned int i = 0; i < 4; i++)
			p[more * ENTRY_BYTES + 12 + i] = (uint8_t)((ZIP_MEMBERS_MAX + more) * ENTRY_BYTES >> 8 * i);
		p[more * ENTRY_BYTES + 16] = LOCAL_BYTES;
		f = file_of(bytes, sizeof(bytes) - (1 - more) * ENTRY_BYTES);
		assert_int_equal(zip_read(path_of(f), &zip, &n, why), more ? -E2BIG : 0);
		if (!more)
			zip_discard(zip);
		fclose(f);
	}
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
