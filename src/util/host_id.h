/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells which boot of which machine a recording is from, and which clock it uses.
 *
 * Containers of one machine have host names of their own, but share the kernel's boot id and CLOCK_BOOTTIME. A time namespace has the same boot
 * id, and adds to the clock.
 */
#ifndef INFTRACE_UTIL_HOST_ID_H
#define INFTRACE_UTIL_HOST_ID_H

#include <stdint.h>

#include "util/fmt.h"

#define BOOT_ID_LEN 36   /* 8-4-4-4-12 hexadecimal digits */
#define HOST_NAME_LEN 64 /* as in Linux */

/* All zero: nothing is known. */
struct host_id {
	char boot_id[BOOT_ID_LEN + 1]; /* of the kernel, new at each boot; "": unknown */
	char name[HOST_NAME_LEN + 1];  /* in the recorder's container; "": unknown */
	int64_t shift_ns;              /* what the recorder's time namespace adds to CLOCK_BOOTTIME */
};

struct json_node;

/* Reads this process's own. */
void host_id_read(struct host_id *ret);

#define HOST_ID_JSON_MAX (FMT_JSON_STR_MAX(HOST_NAME_LEN) + BOOT_ID_LEN + 96)

/* Writes the known parts as members of a JSON object, each after a comma: at most HOST_ID_JSON_MAX bytes. Returns the end. */
char *host_id_fmt(char *p, const struct host_id *h);

/* Parses what a file has as text; NULL: absent. The name may be unprintable. All is unknown if the boot id or the shift is damaged. */
void host_id_parse(struct host_id *ret, const char *boot_id, const char *name, const char *shift_ns);
/* The same for the members that host_id_fmt() writes. All is unknown if object is NULL or no object. */
void host_id_from_json(struct host_id *ret, const struct json_node *object);

#endif
