/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file that a recording writes. Until it is complete it may have the name of a part: its own with
 * ".part" appended.
 */
#ifndef INFTRACE_RECORD_OUT_FILE_H
#define INFTRACE_RECORD_OUT_FILE_H

#include <limits.h>
#include <stdbool.h>

struct writer;

struct out_file {
	struct writer *w; /* its writer; NULL: not yet */
	char *name;
	bool is_part;
	bool created; /* by us: removed again if nothing was recorded */
};

/* "-" */
bool out_file_is_stdout(const char *name);

/* Opens the file `name`; part: under the name of a part, which must not exist. Returns a descriptor,
 * -EEXIST, or another error, for which one line has been printed. Drop *ret_file in any case. */
int out_file_open(const char *name, int flags, bool part, struct out_file *ret_file);

/* Creates a file that is not yet complete. Returns its descriptor, or -EEXIST: the name is taken,
 * perhaps by an incomplete file of another recording. Prints one line on any other failure. */
int out_file_create_part(const char *name, int flags);

/* Claims a trace, which is written from the beginning, by one recording at a time. Prints one line on failure. */
int out_file_claim(int fd, const char *name);

/* Makes appended lines begin on a new line, since a run that was killed may have left half a line. -errno. */
int out_file_end_last_line(int fd);

/* Its current name. */
const char *out_file_part_name(const struct out_file *f, char buf[PATH_MAX]);

/* The file is complete, or whoever wrote it has reported why not; keep false: it is not wanted. */
int out_file_finish(struct out_file *f, bool keep);

/* Closes the descriptor (if not -1), removes a file that was created, and frees the name. */
void out_file_drop(struct out_file *f, int fd);

#endif
