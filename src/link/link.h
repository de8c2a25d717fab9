/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One timeline for several files: how their clocks relate, to what accuracy, and an archive that tells Perfetto.
 *
 *     link_add() each file, link_relate(), then link_tell() and link_write().
 */
#ifndef INFTRACE_LINK_LINK_H
#define INFTRACE_LINK_LINK_H

#include <stdio.h>

#include "link/hosts.h"
#include "link/match.h"

#define LINK_FILES_MAX 256
#define LINK_ERROR_MAX 1024
#define LINK_NO_HOST UINT32_MAX

enum link_by {
	LINK_BY_ITSELF,   /* its clock is the timeline's, or of the same boot of the same host */
	LINK_BY_WALL,     /* by the wall clocks, which nothing has checked */
	LINK_BY_CALLS,    /* by calls that both recordings have */
	LINK_BY_MESSAGES, /* by messages between hosts */
	LINK_BY_NOTHING,  /* it is on no timeline */
};

/* A file, and its place on the timeline. */
struct linked {
	struct link_file file;
	unsigned int host; /* LINK_NO_HOST: not placed yet, or of none */
	enum link_by by;
	size_t to;           /* LINK_BY_CALLS: the file it was compared with; for an ET: its Kineto trace */
	struct match match;  /* with that file */
	int64_t ahead_ns;    /* its wall clock - the wall clock of the file it was compared with, or of the reference */
	int64_t residual_ns; /* the uncertainty of ahead_ns; -1: unknown */
	int64_t spread_ns;   /* by how much the wall clock was set meanwhile */
	struct et_check et;
	bool et_compared;
	char member[512]; /* its name in the archive */
};

struct link {
	struct linked *list[LINK_FILES_MAX];
	size_t n, reference; /* the file whose clock is the timeline's */
	char hosts[LINK_FILES_MAX][64];
	struct link_host placed[LINK_FILES_MAX]; /* by host */
	unsigned int n_hosts, n_unnamed;         /* n_unnamed: those called "host N" */
	char error[LINK_ERROR_MAX];              /* why the last call failed: one printable line */
};

/* Reads a file. host: NULL or the name of the machine it is from; path and host must outlive l. 0 or -errno with l->error set. */
int link_add(struct link *l, const char *path, const char *host, bool is_et);
void link_clear(struct link *l);

/* Relates their clocks. -errno with l->error set: they are not of one run, or contradict each other. */
int link_relate(struct link *l);

/* Prints a line for each file: its host and time, how it was related, and what checked that. */
void link_tell(const struct link *l, FILE *out);

/* Returns the manifest (https://perfetto.dev/docs/reference/perfetto-manifest), which the caller frees. */
char *link_manifest(const struct link *l);

/* Writes the archive: the manifest, then the files as they are. 0 or -errno with l->error set; *ret_bytes: its size. */
int link_write(struct link *l, const char *path, uint64_t *ret_bytes);

/* For the parts of link: sets l->error, and returns err. */
int link_fail(struct link *l, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* For messages: "3.000 ms". Returns buf. */
const char *link_time_text(char buf[32], int64_t ns);
/* "2026-11-20 04:14:50.921". Returns buf. */
const char *link_date_text(char buf[40], int64_t real_ns);

#endif
