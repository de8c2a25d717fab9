/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Serves one file, or one text made for each request, over HTTP to clients that may be slow, broken or hostile.
 * libmicrohttpd does everything but decide who is answered.
 *
 * The file may grow meanwhile. Each answer has the size of the file at the time of the request; if the file is found
 * smaller than that, the connection is closed early.
 *
 * The server listens on the loopback address, where every page in a browser on this machine can
 * reach it. So a request is answered only when it names this machine (a page whose own name was
 * made to resolve to 127.0.0.1 sends that name), and when it comes from the Perfetto UI, a page on
 * this machine, or no page.
 */
#ifndef INFTRACE_HTTP_SERVER_H
#define INFTRACE_HTTP_SERVER_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define HTTP_NAME_MAX 128 /* of the file, with the NUL */
#define HTTP_UI "https://ui.perfetto.dev"
#define HTTP_CONNS_MAX 64 /* further clients are turned away */
#define HTTP_HEAD_S 10    /* for a client that sends nothing */
#define HTTP_STALL_S 60   /* for one that reads nothing of an answer */

struct http_server;

/*
 * Listens on 127.0.0.1; `port` 0: any free one. fd stays the caller's and must be a regular file,
 * open for reading; `name` is the name to serve it under (see http_name) and is copied; `type` is
 * the media type and is not copied. -EADDRINUSE, -EACCES, or another error of socket(2).
 */
int http_server_new(uint16_t port, int fd, const char *name, const char *type, struct http_server **ret_server);

/* A text that is made anew for each request. */
struct http_page {
	const char *name; /* it is at /name */
	/* accept: the header of the request, NULL: none. Returns the text, which is to be freed; *ret_type is not. */
	char *(*make)(void *ctx, const char *accept, size_t *ret_len, const char **ret_type);
	void *ctx;
	bool any_host; /* answers under any name for this machine, but no pages of browsers */
};

/* Listens on `addr`, which has the port; page is not copied. Otherwise as http_server_new(). */
int http_server_new_page(
	const struct sockaddr *addr, socklen_t len, const struct http_page *page, struct http_server **ret_server);

/* Closes all connections. */
void http_server_free(struct http_server *s);

uint16_t http_server_port(const struct http_server *s);

/*
 * Like poll(2) for POLLIN, and serves clients; returns after each step of serving. ms -1: no time limit. s NULL: only
 * polls. Returns 0 or -errno.
 */
int http_server_poll(struct http_server *s, struct pollfd *fds, nfds_t n, int64_t ms);

/* Whether an answer is on its way. */
bool http_server_busy(const struct http_server *s);

/* The size of the file when it was last sent completely; 0: never. */
uint64_t http_server_sent_whole(const struct http_server *s);

/* The last part of a path, with anything but letters, digits and "._-" replaced by '_', so that it needs
 * no escapes in a URL, or in a URL within a URL. Shortened at the front, so that the suffix stays. */
void http_name(const char *path, char ret_name[HTTP_NAME_MAX]);

#endif
