// SPDX-License-Identifier: BSD-2-Clause
#include "read/profile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/names.h"

#define KEY_NAME(name) #name,
static const char *const names[PROFILE_KEY_MAX] = { PROFILE_KEYS(KEY_NAME) };

const char *profile_key_name(enum profile_key key)
{
	return names[key];
}

/* Fills values; returns why the line cannot be used (static text or in buf), or NULL. */
static const char *line_values(const struct json_node *object, struct profile_line *line, char *buf, size_t size)
{
	if (!node_is(object, JSON_OBJECT))
		return "profile event must be a JSON object";
	line->object = object;
	node_members(object, names, PROFILE_KEY_MAX, line->values);
	for (unsigned int k = 0; k < PROFILE_REQUIRED; k++) {
		if (line->values[k])
			continue;
		snprintf(buf, size, "missing required field: %s", names[k]);
		return buf;
	}
	return NULL;
}

int profile_read(struct json_source *source, const struct profile_reader_ops *ops, void *ctx)
{
	const struct json_node *object;
	struct json_reader reader;
	struct profile_line line;
	char buf[64];
	const char *why;
	int err = 0;

	json_reader_init(&reader, source);
	while (!err) {
		err = json_reader_line(&reader, &object);
		if (err == -ENODATA)
			break;
		line.number = reader.value_line;
		if (err) {
			ops->bad(ctx, line.number, reader.error);
			/* the next line may well be good, unless the file itself is damaged */
			if ((err == -EBADMSG || err == -E2BIG) && !source->error[0])
				err = 0;
			continue;
		}
		why = line_values(object, &line, buf, sizeof(buf));
		if (why)
			ops->bad(ctx, line.number, why);
		else
			err = ops->line(ctx, &line);
	}
	json_reader_free(&reader);
	return err == -ENODATA ? 0 : err;
}

const char *profile_key_numbered(const char *key, const char *prefix, uint32_t *ret_number)
{
	size_t length = strlen(prefix), digits = 0;
	uint32_t n = 0;

	if (strncmp(key, prefix, length) != 0)
		return NULL;
	for (key += length; digits < 9 && key[digits] >= '0' && key[digits] <= '9'; digits++)
		n = 10 * n + (uint32_t)(key[digits] - '0');
	if (!digits || (key[0] == '0' && digits > 1) || key[digits] != '_')
		return NULL;
	*ret_number = n;
	return key + digits + 1;
}

/* ---- values ---- */

/* Eighteen years: sums and differences of such values stay far from overflow. */
#define NS_MAX (INT64_MAX / 16)

int read_state(const char *key, unsigned int *hint)
{
	for (unsigned int i = 0; i < ST_MAX; i++) {
		unsigned int k = (*hint + i) % ST_MAX;

		if (!strcmp(key, time_state_name((enum time_state)k))) {
			*hint = k + 1;
			return (int)k;
		}
	}
	return -1;
}

bool read_us(const struct json_node *value, int64_t *ret_ns)
{
	int64_t ns;

	if (node_us_to_ns(value, &ns) < 0 || ns < 0)
		return false;
	*ret_ns = ns < NS_MAX ? ns : NS_MAX;
	return true;
}

bool read_u32(const struct json_node *value, uint32_t *ret)
{
	int64_t v;

	if (!node_is(value, JSON_INT))
		return false;
	v = node_s64(value);
	if (v < 0)
		return false;
	*ret = v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
	return true;
}
