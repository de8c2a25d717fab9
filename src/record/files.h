/* SPDX-License-Identifier: BSD-2-Clause */
/* The files of a window or a dump, for messages and for a client that waits for them. */
#ifndef INFTRACE_RECORD_FILES_H
#define INFTRACE_RECORD_FILES_H

#include <stdint.h>

struct json_object;

struct left_files {
	unsigned int n;
	uint64_t bytes;
	struct json_object *list; /* an array to add them to; NULL: nobody is waiting */
};

void left_files_add(struct left_files *f, const char *name, uint64_t bytes);

/* The path of a file for clients, which have other working directories. */
struct json_object *file_path_json(const char *name);

#endif
