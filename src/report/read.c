// SPDX-License-Identifier: BSD-2-Clause
#include "report/read.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "read/detect.h"
#include "read/zip.h"
#include "util/names.h"

/* Eighteen years: sums and differences of such values stay far from overflow. */
#define NS_MAX (INT64_MAX / 16)

void read_problem(struct read_problems *problems, const char *fmt, ...)
{
	va_list ap;

	if (problems->count++)
		return;
	va_start(ap, fmt);
	vsnprintf(problems->first, sizeof(problems->first), fmt, ap);
	va_end(ap);
}

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
	int ret = node_us_to_ns(value, &ns);

	if (ret < 0 || ns < 0)
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

int read_file(struct model *m, const char *path, struct read_problems *problems, struct read_notes *notes)
{
	enum file_kind kind = FILE_OTHER;
	struct json_source source;
	const char *why = NULL;
	char buf[160];
	int err = 0;

	if (zip_is(path))
		return read_archive(m, path, problems, notes);
	if (json_source_open(&source, path))
		why = source.error;
	else
		kind = file_detect(&source, buf, sizeof(buf), &why);
	switch (kind) {
	case FILE_PROFILE:
		err = read_profile(m, &source, path, problems);
		break;
	case FILE_TRACE:
		err = read_trace(m, &source, path, problems);
		break;
	default:
		read_problem(problems, "%s", why);
	}
	json_source_close(&source);
	return err;
}
