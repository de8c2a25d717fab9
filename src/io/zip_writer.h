/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes ZIP files for Perfetto's reader, which knows only a part of ZIP: version 2.0, no flags but those of deflate,
 * sizes before the data unless it is deflated, no ZIP64. So a file is at most 4 GB long. zlib packs; only the headers
 * are written here, since ZIP libraries choose versions, flags and the order of sizes themselves.
 */
#ifndef INFTRACE_IO_ZIP_WRITER_H
#define INFTRACE_IO_ZIP_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define ZIP_WHY_MAX 160
#define ZIP_MEMBERS_MAX 4096

/*
 * What inftrace puts into archives beside traces. Perfetto refuses an archive with a file of no format that it knows, or that
 * it takes for another format; it ignores files below a name with a dot in front (IsHiddenArchivePath in its sources).
 */
#define ARCHIVE_MANIFEST "perfetto_manifest.json"
#define ARCHIVE_BESIDE ".inftrace/" /* profiles and execution traces, below the name of their host where it was given */

struct zip_writer;

/* fd: an empty file that can be read back and is written from its beginning; it stays the caller's. */
struct zip_writer *zip_writer_new(int fd);
void zip_writer_free(struct zip_writer *zip);

/*
 * Adds a member: text, or all that can be read from `from`, stored as it is if it is gzip and deflated otherwise; either way
 * the member has the bytes of the file. Names are not checked. Returns 0, or -errno with the reason in `why`: then the
 * archive cannot be finished.
 */
int zip_writer_text(struct zip_writer *zip, const char *name, const char *text, size_t len, time_t when, char why[ZIP_WHY_MAX]);
int zip_writer_file(struct zip_writer *zip, const char *name, int from, time_t when, char why[ZIP_WHY_MAX]);

/* Writes the directory. Returns 0 or -errno with the reason in `why`. */
int zip_writer_finish(struct zip_writer *zip, char why[ZIP_WHY_MAX]);

#endif
