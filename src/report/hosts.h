/* SPDX-License-Identifier: BSD-2-Clause */
/* The hosts of an archive of inftrace link: how their clocks relate, and what their recordings have of collectives. */
#ifndef INFTRACE_REPORT_HOSTS_H
#define INFTRACE_REPORT_HOSTS_H

#include "link/host_clock.h"
#include "link/ranks.h"
#include "read/json_source.h"
#include "util/json_node.h"

#define ARCHIVE_HOSTS_MAX 256
#define ARCHIVE_FILES_MAX 1024

struct model;

struct archive_host {
	uint32_t name; /* of the model's; never 0 */
	bool known;    /* its clock is, to within the residual: that of the timeline's own host is, to within 0 */
	int64_t residual_ns;
};

struct archive_hosts {
	struct archive_host list[ARCHIVE_HOSTS_MAX];
	uint32_t n;
	struct archive_file {
		char *path; /* of the member */
		uint32_t host;
		struct host_place place;
		bool has_boot;
		struct boot boot;
	} files[ARCHIVE_FILES_MAX];
	uint32_t n_files;
	struct ranks ranks;
};

/* What the manifest (a JSON value of any origin) says. *ret is to be freed. -ENOMEM. */
int archive_hosts_new(struct model *m, const struct json_node *manifest, struct archive_hosts **ret);
void archive_hosts_free(struct archive_hosts *h);

/* The trace of this path; NULL: it is none, or of no host. */
struct archive_file *archive_file(struct archive_hosts *h, const char *path);

/*
 * Reads what a trace has of collectives. Returns 0, -ENOMEM, or another -errno with the reason in `why`, printable;
 * *ret_calls: how many calls there were.
 */
int archive_hosts_read(
	struct archive_hosts *h, struct archive_file *file, struct json_source *source, size_t *ret_calls, char why[COLLECTIVES_WHY_MAX]);

/* The host that a profile is of, by its traces; n: of none of them, or it may be of several. */
uint32_t archive_host_of(const struct archive_hosts *h, const struct boot *profile);

#endif
