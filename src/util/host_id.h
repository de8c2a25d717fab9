/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which boot of which machine a recording is of, and by which of its clocks.
 *
 * Containers of one machine have names of their own, but the kernel's boot id and its CLOCK_BOOTTIME. A time namespace has the boot id, too, and
 * adds to the clock.
 */
#ifndef INFTRACE_UTIL_HOST_ID_H
#define INFTRACE_UTIL_HOST_ID_H

#include <stdint.h>

#include "util/fmt.h"

#define BOOT_ID_LEN 36   /* 8-4-4-4-12 hexadecimal digits */
#define HOST_NAME_LEN 64 /* as in Linux */

/* All zero: nothing is known. */
struct host_id {
	char boot_id[BOOT_ID_LEN + 1]; /* of the kernel: another one after each boot; "": unknown */
	char name[HOST_NAME_LEN + 1];  /* as the recorder's container has it; "": unknown */
	int64_t shift_ns;              /* what the recorder's time namespace adds to CLOCK_BOOTTIME */
};

struct json_node;

/* Of this process. */
void host_id_read(struct host_id *ret);

#define HOST_ID_JSON_MAX (FMT_JSON_STR_MAX(HOST_NAME_LEN) + BOOT_ID_LEN + 96)

/* Its members of a JSON object, each behind a comma: at most HOST_ID_JSON_MAX bytes, none of what is unknown. Returns the end. */
char *host_id_fmt(char *p, const struct host_id *h);

/* What a file says of it, as text; NULL: nothing. The name may be unprintable. All is unknown if the boot id or the shift is damaged. */
void host_id_parse(struct host_id *ret, const char *boot_id, const char *name, const char *shift_ns);
/* The same of the members that host_id_fmt() writes; NULL, or no object: nothing. */
void host_id_from_json(struct host_id *ret, const struct json_node *object);

#endif
