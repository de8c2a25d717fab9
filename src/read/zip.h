/* SPDX-License-Identifier: BSD-2-Clause */
/* ZIP files of any origin, by libzip: their members, each as a stream. */
#ifndef INFTRACE_READ_ZIP_H
#define INFTRACE_READ_ZIP_H

#include <stdbool.h>
#include <zip.h>

#include "read/json_source.h"

#define ZIP_ERROR_MAX 192

/* Whether the file begins like a ZIP file; false if it cannot be read. */
bool zip_is(const char *path);

/* Opens an archive of *ret_n members. Returns 0, or -errno with the reason in why, fit to print. Close it with zip_discard(). */
int zip_read(const char *path, struct zip **ret_zip, size_t *ret_n, char why[ZIP_ERROR_MAX]);

/* The name as stored: any bytes, and as a path it may lead anywhere. */
const char *zip_name(struct zip *zip, size_t i);

/*
 * Opens a member, which must not outlive the zip. Returns 0 or -errno with source->error set; call json_source_close in
 * both cases. Reading fails with -EBADMSG at the end if size or checksum differ from the directory.
 */
int zip_member(struct zip *zip, size_t i, struct json_source *source);

#endif
