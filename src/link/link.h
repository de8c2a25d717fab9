/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One timeline of several files: how their clocks relate, to within what, and an archive that says so to Perfetto.
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
	LINK_BY_WALL,     /* by what wall clocks say, which nothing has checked */
	LINK_BY_CALLS,    /* by calls that both recordings have */
	LINK_BY_MESSAGES, /* its host's clock is known by messages between hosts */
	LINK_BY_NOTHING,  /* it is on no timeline */
};

/* A file, and how it lies on the timeline. */
struct linked {
	struct link_file file;
	unsigned int host; /* LINK_NO_HOST: not placed yet, or of none */
	enum link_by by;
	size_t to;           /* LINK_BY_CALLS: the file it was compared with; of an ET: its Kineto trace */
	struct match match;  /* with that file */
	int64_t ahead_ns;    /* its wall clock - that of the file it was compared with, or of the reference */
	int64_t residual_ns; /* what is unknown of that; -1: nothing is known */
	int64_t spread_ns;   /* how much the wall clock was set meanwhile */
	struct et_check et;
	bool et_compared;
	char member[512]; /* its name in the archive */
};

struct link {
	struct linked *list[LINK_FILES_MAX];
	size_t n, reference; /* the file whose clock is the timeline's */
	char hosts[LINK_FILES_MAX][64];
	struct link_host placed[LINK_FILES_MAX]; /* by host */
	unsigned int n_hosts, n_unnamed;         /* of which are numbered */
	char error[LINK_ERROR_MAX];              /* why the last call failed: one printable line */
};

/* Reads a file. host: NULL or the name of the machine it is from; both must outlive l. 0 or -errno with l->error set. */
int link_add(struct link *l, const char *path, const char *host, bool is_et);
void link_clear(struct link *l);

/* Relates their clocks. -errno with l->error set: they are not of one run, or contradict each other. */
int link_relate(struct link *l);

/* A line for each file: its host and time, how it was related, and what that was checked by. */
void link_tell(const struct link *l, FILE *out);

/* The manifest, see https://perfetto.dev/docs/reference/perfetto-manifest. To be freed. */
char *link_manifest(const struct link *l);

/* Writes the archive: the manifest, then the files as they are. 0 or -errno with l->error set; *ret_bytes: its size. */
int link_write(struct link *l, const char *path, uint64_t *ret_bytes);

/* For its parts: sets l->error, and returns err. */
int link_fail(struct link *l, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* For messages: "3.000 ms". Returns buf. */
const char *link_time_text(char buf[32], int64_t ns);
/* "2026-11-20 04:14:50.921". Returns buf. */
const char *link_date_text(char buf[40], int64_t real_ns);

#endif
