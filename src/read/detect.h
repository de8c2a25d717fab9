/* SPDX-License-Identifier: BSD-2-Clause */
/* Determines the kind of a file from its content. */
#ifndef INFTRACE_READ_DETECT_H
#define INFTRACE_READ_DETECT_H

#include "read/json_source.h"

enum file_kind {
	FILE_OTHER, /* neither of the others */
	FILE_PROFILE,
	FILE_TRACE,
	FILE_EXECUTION_TRACE, /* which its name tells, not file_detect() */
};

/* The kind of file, from the first buffer of a source. FILE_OTHER with *ret_why (static text or in buf). */
enum file_kind file_detect(
	const struct json_source *source, char *buf, size_t size, const char **ret_why);

#endif
