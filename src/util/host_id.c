// SPDX-License-Identifier: BSD-2-Clause
#include "util/host_id.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/json.h"

/* Nine years; more is taken for damage, so that sums with times stay far from overflow. */
#define SHIFT_MAX (INT64_MAX / 32)

static bool is_boot_id(const char *text)
{
	for (size_t i = 0; i < BOOT_ID_LEN; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
			return false;
	}
	return !text[BOOT_ID_LEN];
}

void host_id_read(struct host_id *ret)
{
	char boot_id[BOOT_ID_LEN + 1] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	memset(ret, 0, sizeof(*ret));
	if (f && fgets(boot_id, sizeof(boot_id), f) && is_boot_id(boot_id))
		memcpy(ret->boot_id, boot_id, sizeof(boot_id));
	if (f)
		fclose(f);
	if (gethostname(ret->name, sizeof(ret->name) - 1))
		ret->name[0] = 0;
	ret->shift_ns = clock_shift_read().boot_ns;
}

char *host_id_fmt(char *p, const struct host_id *h)
{
	if (!h->boot_id[0])
		return p;
	p = fmt_lit(p, ",\"boot_id\":\"");
	p = fmt_str(p, h->boot_id, BOOT_ID_LEN);
	p = fmt_lit(p, "\"");
	if (h->name[0]) {
		p = fmt_lit(p, ",\"hostname\":");
		p = fmt_json_str(p, h->name, strlen(h->name));
	}
	if (!h->shift_ns)
		return p;
	p = fmt_lit(p, ",\"boottime_shift_ns\":\"");
	p = fmt_s64(p, h->shift_ns);
	return fmt_lit(p, "\"");
}

static bool read_shift(const char *text, int64_t *ret_ns)
{
	char *end;

	if ((*text < '0' || *text > '9') && *text != '-')
		return false;
	errno = 0;
	*ret_ns = strtoll(text, &end, 10);
	return !errno && !*end && end[-1] != '-' && *ret_ns >= -SHIFT_MAX && *ret_ns <= SHIFT_MAX;
}

void host_id_parse(struct host_id *ret, const char *boot_id, const char *name, const char *shift_ns)
{
	memset(ret, 0, sizeof(*ret));
	if (!boot_id || !is_boot_id(boot_id) || (shift_ns && !read_shift(shift_ns, &ret->shift_ns))) {
		ret->shift_ns = 0;
		return;
	}
	memcpy(ret->boot_id, boot_id, sizeof(ret->boot_id));
	snprintf(ret->name, sizeof(ret->name), "%s", name ? name : "");
}

void host_id_from_json(struct host_id *ret, const struct json_node *object)
{
	host_id_parse(ret, node_string(node_get(object, "boot_id")), node_string(node_get(object, "hostname")),
		node_string(node_get(object, "boottime_shift_ns")));
}
