/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends one body to an HTTP server, and waits for its status. TLS is not spoken: what leaves this machine should go
 * by a collector on it, which can.
 */
#ifndef INFTRACE_IO_HTTP_POST_H
#define INFTRACE_IO_HTTP_POST_H

#include <stddef.h>
#include <stdint.h>

struct http_url {
	char host[256], port[6], path[256]; /* path: without a slash at its end */
};

/* "http://HOST[:PORT][/PATH]", with an IPv6 address in brackets. Returns 0; -EPROTONOSUPPORT: https; -EINVAL. */
int http_url_parse(const char *text, const char *default_port, struct http_url *ret);

/*
 * POST to the URL's path and `path` behind it; takes some `ms` for each of connecting, sending and the answer. *ret_status:
 * of the answer. Returns 0 or -errno; -EHOSTUNREACH if the host has no address.
 */
int http_post(const struct http_url *url, const char *path, const char *type, const void *body, size_t len, unsigned int ms,
	int *ret_status);

#endif
