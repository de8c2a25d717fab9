/* SPDX-License-Identifier: BSD-2-Clause */
/* ZIP files of any origin: their members, each as a stream. Not those with ZIP64, encryption, or several parts. */
#ifndef INFTRACE_READ_ZIP_H
#define INFTRACE_READ_ZIP_H

#include <stdbool.h>

#include "read/json_source.h"

#define ZIP_ERROR_MAX 192

struct zip_member {
	char *name; /* as it is in the file: of any bytes, and as a path it may lead anywhere */
	uint64_t at, packed, size;
	uint32_t crc;
	uint16_t method, flags;
};

struct zip {
	int fd;
	struct zip_member *members;
	size_t n;
	char error[ZIP_ERROR_MAX]; /* why the last call failed, fit to print */
};

/* Whether the file begins as one. Files that cannot be read do not. */
bool zip_is(const char *path);

/* Reads the directory. Returns 0 or -errno with zip->error set; call zip_close in both cases. */
int zip_open(struct zip *zip, const char *path);
void zip_close(struct zip *zip);

/*
 * Opens a member, which must not outlive the zip. Returns 0 or -errno with source->error set; call json_source_close in
 * both cases. Reading fails with -EBADMSG at the end if the size or the checksum is not that of the directory.
 */
int zip_source(const struct zip *zip, const struct zip_member *m, struct json_source *source);

#endif
