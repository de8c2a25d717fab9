/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file that a recording writes. Until it is complete it may have the name of a part, with ".part"
 * behind its own.
 */
#ifndef INFTRACE_RECORD_OUT_FILE_H
#define INFTRACE_RECORD_OUT_FILE_H

#include <limits.h>
#include <stdbool.h>

struct writer;

struct out_file {
	struct writer *w; /* what writes it; NULL: not yet */
	char *name;
	bool is_part;
	bool created; /* by us: removed again when nothing was recorded */
};

/* "-" */
bool out_file_is_stdout(const char *name);

/* Opens the file `name`; part: under the name of a part, which must not exist. Returns a descriptor, or
 * -EEXIST, or another error, of which one line has been printed. *ret_file is to be dropped in any case. */
int out_file_open(const char *name, int flags, bool part, struct out_file *ret_file);

/* Creates a file that is not yet complete. Returns its descriptor, or -EEXIST: the name is taken,
 * also by one of another recording that is not complete. Prints one line on any other failure. */
int out_file_create_part(const char *name, int flags);

/* A trace is written anew, by one recording at a time. Prints one line on failure. */
int out_file_claim(int fd, const char *name);

/* A run that was killed may have left half a line: what is appended begins a new one. -errno. */
int out_file_end_last_line(int fd);

/* The name that it has for now. */
const char *out_file_part_name(const struct out_file *f, char buf[PATH_MAX]);

/* It is complete, or whoever wrote it has said why not; keep false: it is not wanted. */
int out_file_finish(struct out_file *f, bool keep);

/* Closes the descriptor, if it is one, removes what was created, and frees the name. */
void out_file_drop(struct out_file *f, int fd);

#endif
