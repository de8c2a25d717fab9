/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads profiles while they grow: named files, and the profiles in directories, where windows come and go.
 *
 * A file is known by its inode number, not by its name, so that a window's file that is renamed when it closes is not read
 * twice. Only whole lines are read. Nothing is kept open between two calls.
 */
#ifndef INFTRACE_EXPORT_TAIL_H
#define INFTRACE_EXPORT_TAIL_H

#include <stdint.h>

#include "read/profile.h"

#define TAIL_FILES_MAX 16384 /* at a time; beyond them files are left out */
#define TAIL_BLOCK (1 << 20) /* read at a time */
#define TAIL_LINE_MAX (16 << 20)

struct tail_counts {
	uint64_t files;      /* known at present */
	uint64_t files_read; /* ever */
	uint64_t files_left_out;
	uint64_t lines, bytes;
	uint64_t bad_lines;
	uint64_t unread; /* bytes that are there and not read yet, of lines that are not too long */
	uint64_t errors; /* files that could not be read */
};

struct tail;

/* Each path is a profile or a directory; they must outlive this. Prints why and returns -errno if one cannot be used. */
int tail_new(char *const *paths, size_t n, struct tail **ret);
void tail_free(struct tail *t);

/*
 * Reads what is new, for at most `max` bytes (and a line) and half a second, and passes the lines to take() with the printable
 * path of their file; line->number counts from the beginning of the file. Bad lines and files that cannot be read are counted,
 * and the first few are printed. A file with much to read does not keep others from their turn.
 */
typedef void (*tail_take_fn)(void *ctx, const struct profile_line *line, const char *path);
void tail_read(struct tail *t, uint64_t max, tail_take_fn take, void *ctx);

const struct tail_counts *tail_counts(const struct tail *t);

#endif
