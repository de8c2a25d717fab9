// SPDX-License-Identifier: BSD-2-Clause
#include "read/json_reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "util/text.h"

void json_reader_init(struct json_reader *reader, struct json_source *source)
{
	memset(reader, 0, sizeof(*reader));
	reader->source = source;
	reader->line = 1;
}

void json_reader_free(struct json_reader *reader)
{
	json_nodes_free(&reader->nodes);
}

static int __attribute__((format(printf, 3, 4)))
reader_fail(struct json_reader *reader, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reader->error, sizeof(reader->error), fmt, ap);
	va_end(ap);
	return err;
}

static int too_big(struct json_reader *reader)
{
	return reader_fail(reader, -E2BIG, "larger than %u MB", JSON_TEXT_MAX >> 20);
}

/* Makes sure that there are more than `have` bytes at source->pos. */
static int reader_fill(struct json_reader *reader, size_t have)
{
	struct json_source *source = reader->source;
	int ret;

	if ((size_t)(source->end - source->pos) > have)
		return 0;
	ret = json_source_fill(source);
	if (ret < 0)
		return reader_fail(reader, ret, "%s", source->error);
	return ret ? 0 : -ENODATA;
}

/* Skips n bytes of the buffer. */
static void reader_advance(struct json_reader *reader, size_t n)
{
	const unsigned char *p = reader->source->pos, *end = p + n;

	reader->byte += n;
	reader->source->pos += n;
	while ((p = memchr(p, '\n', end - p))) {
		reader->line++;
		p++;
	}
}

int json_reader_peek(struct json_reader *reader)
{
	struct json_source *source = reader->source;
	int err;

	for (;;) {
		err = reader_fill(reader, 0);
		if (err)
			return err;
		switch (*source->pos) {
		case '\n':
			reader->line++;
			/* fallthrough */
		case ' ':
		case '\t':
		case '\r':
			source->pos++;
			reader->byte++;
			break;
		default:
			return *source->pos;
		}
	}
}

void json_reader_take(struct json_reader *reader)
{
	if (reader->source->pos < reader->source->end)
		reader_advance(reader, 1);
}

/* Returns the scanned text, whose nodes are complete, as a value. */
static int value_finish(struct json_reader *reader, const struct json_scan *scan,
	unsigned char *text, const struct json_node **ret_value)
{
	int err;

	reader->surrogate_escapes = scan->surrogate_escapes;
	if (!ret_value)
		return 0;
	err = json_nodes_finish(&reader->nodes, (char *)text);
	if (err == -ERANGE)
		return reader_fail(reader, -EBADMSG, "invalid JSON: a number out of range");
	if (err)
		return reader_fail(reader, err, "out of memory");
	*ret_value = reader->nodes.list;
	return 0;
}

/* Runs the scanner over one value. *ret_len bytes of it are at source->pos, unless it is skipped. */
static int value_scan(struct json_reader *reader, struct json_scan *scan, size_t *ret_len)
{
	struct json_source *source = reader->source;
	size_t used, len = 0;
	int ret;

	do {
		ret = reader_fill(reader, len);
		if (ret == -ENODATA) {
			ret = json_scan_end(scan);
			break;
		}
		if (ret)
			return ret;
		ret = json_scan_feed(
			scan, source->pos + len, (size_t)(source->end - source->pos) - len, &used);
		len += used;
		if (scan->nodes && len > JSON_TEXT_MAX)
			return too_big(reader);
		if (!scan->nodes && ret >= 0) {
			reader_advance(reader, len);
			len = 0;
		}
	} while (!ret);
	*ret_len = len;
	if (ret == 1 || ret == -ENODATA)
		return ret == 1 ? 0 : ret;
	reader_advance(reader, len);
	if (ret != -EBADMSG)
		return reader_fail(
			reader, ret, "%s", ret == -ENOMEM ? "out of memory" : scan->error);
	return reader_fail(reader, ret, "invalid JSON at line %llu (byte %llu): %s",
		(unsigned long long)reader->line, (unsigned long long)reader->byte, scan->error);
}

int json_reader_value(struct json_reader *reader, const struct json_node **ret_value)
{
	struct json_scan scan;
	unsigned char *text;
	size_t len = 0;
	int ret;

	ret = json_reader_peek(reader);
	if (ret < 0)
		return ret;
	reader->value_line = reader->line;
	json_scan_init(&scan);
	if (ret_value)
		json_scan_init_nodes(&scan, &reader->nodes);
	ret = value_scan(reader, &scan, &len);
	if (ret) {
		if (ret == -ENODATA)
			reader_advance(reader, len);
		return ret;
	}
	text = reader->source->pos;
	reader_advance(reader, len);
	return value_finish(reader, &scan, text, ret_value);
}

/*
 * Returns the text up to the next newline, which is consumed. It may be changed, and is valid until
 * the next call. -E2BIG: it is over the limit, and was skipped.
 */
static int line_read(struct json_reader *reader, unsigned char **ret_text, size_t *ret_len)
{
	struct json_source *source = reader->source;
	unsigned char *nl = NULL;
	bool big = false;
	size_t len = 0;
	int err;

	while (!nl) {
		err = reader_fill(reader, len);
		if (err == -ENODATA && (len || big))
			break;
		if (err)
			return err;
		nl = memchr(source->pos + len, '\n', (size_t)(source->end - source->pos) - len);
		len = (size_t)((nl ? nl : source->end) - source->pos);
		if (len > JSON_TEXT_MAX)
			big = true;
		if (big) {
			reader_advance(reader, len);
			len = 0;
		}
	}
	*ret_text = source->pos;
	*ret_len = len;
	source->pos += len;
	reader->byte += len;
	if (nl)
		json_reader_take(reader);
	return big ? too_big(reader) : 0;
}

/* Whether only JSON's white space is left. */
static bool text_ended(const unsigned char *text, size_t len)
{
	while (len && strchr(" \t\r\n", text[len - 1]) && text[len - 1])
		len--;
	return len == 0;
}

int json_reader_line(struct json_reader *reader, const struct json_node **ret_value)
{
	struct json_scan scan;
	size_t len, used = 0, before;
	unsigned char *text, *line;
	int ret;

	do {
		reader->value_line = reader->line;
		ret = line_read(reader, &text, &len);
		if (ret)
			return ret;
		line = text;
		text = (unsigned char *)text_trim((const char *)text, &len);
	} while (!len);
	before = (size_t)(text - line);

	json_scan_init_nodes(&scan, &reader->nodes);
	ret = json_scan_feed(&scan, text, len, &used);
	if (!ret)
		ret = json_scan_end(&scan);
	if (ret == -ENODATA)
		return reader_fail(
			reader, -EBADMSG, "invalid JSON: the line ends inside the value");
	if (ret == -EBADMSG)
		return reader_fail(
			reader, ret, "invalid JSON at column %zu: %s", before + used + 1, scan.error);
	if (ret < 0)
		return reader_fail(
			reader, ret, "%s", ret == -ENOMEM ? "out of memory" : scan.error);
	if (!text_ended(text + used, len - used))
		return reader_fail(reader, -EBADMSG,
			"invalid JSON: text after the value, at column %zu", before + used + 1);
	return value_finish(reader, &scan, text, ret_value);
}
