/* SPDX-License-Identifier: BSD-2-Clause */
/* What a file is, by its content. */
#ifndef INFTRACE_READ_DETECT_H
#define INFTRACE_READ_DETECT_H

#include "read/json_source.h"

enum file_kind {
	FILE_OTHER, /* neither of the below */
	FILE_PROFILE,
	FILE_TRACE,
};

/* What the first buffer of a source holds. FILE_OTHER with *ret_why (static text or in buf). */
enum file_kind file_detect(
	const struct json_source *source, char *buf, size_t size, const char **ret_why);

#endif
