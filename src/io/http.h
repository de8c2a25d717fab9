/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `inftrace serve` answers, without any I/O: for one file that whoever may see it may only read.
 *
 * The server listens on the loopback address, where every page in a browser on this machine can
 * reach it. So a request is answered only when it names this machine (a page that had its own name
 * resolved to 127.0.0.1 says that name), and when the page it comes from, if one, is the Perfetto
 * UI or one on this machine.
 */
#ifndef INFTRACE_HTTP_H
#define INFTRACE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_NAME_MAX 128 /* of the file, with the NUL */
#define HTTP_UI "https://ui.perfetto.dev"

/* What counts of a request. NULL: it has none. */
struct http_request {
	const char *method;
	const char *target; /* as sent, without the query */
	const char *host, *origin, *range;
	bool twice; /* a header that may come once */
};

/* Its status but for the range: 200, 204, 400, 403, 404, 405. `name`: of the file. */
int http_status(const struct http_request *r, const char *name);

/* 206 with the range, 416, or 200 where there is none, none that makes sense, or several. */
int http_range(const char *range, uint64_t size, uint64_t *ret_first, uint64_t *ret_end);

/* The last part of a path with anything but letters, digits and "._-" replaced by '_', so that it
 * stands in a URL and in the URL of a URL as it is. Cut in front, so that the suffix stays. */
void http_name(const char *path, char ret_name[HTTP_NAME_MAX]);

#endif
