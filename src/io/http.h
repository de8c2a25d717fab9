/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `inftrace serve` and the endpoint of `inftrace export` answer, without any I/O. There is one file, for reading only.
 *
 * The server listens on the loopback address, where every page in a browser on this machine can
 * reach it. So a request is answered only when it names this machine (a page whose own name was
 * made to resolve to 127.0.0.1 sends that name), and when it comes from the Perfetto UI, a page on
 * this machine, or no page.
 */
#ifndef INFTRACE_HTTP_H
#define INFTRACE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_NAME_MAX 128 /* of the file, with the NUL */
#define HTTP_UI "https://ui.perfetto.dev"

/* The parts of a request that matter. NULL: not in the request. */
struct http_request {
	const char *method;
	const char *target; /* as sent, without the query */
	const char *host, *origin, *range;
	const char *site; /* Sec-Fetch-Site: of whose page it comes, if a browser says so */
	const char *accept;
	bool twice;    /* a header that may come only once came twice */
	bool any_host; /* for whatever name of this machine, and for no page of a browser */
};

/* The status regardless of the range: 200, 204, 400, 403, 404, 405. `name`: of the file. */
int http_status(const struct http_request *r, const char *name);

/* 206 with the range; 416; or 200 if there is no range, no valid one, or several. */
int http_range(const char *range, uint64_t size, uint64_t *ret_first, uint64_t *ret_end);

/* The last part of a path, with anything but letters, digits and "._-" replaced by '_', so that it needs
 * no escapes in a URL, or in a URL within a URL. Shortened at the front, so that the suffix stays. */
void http_name(const char *path, char ret_name[HTTP_NAME_MAX]);

#endif
