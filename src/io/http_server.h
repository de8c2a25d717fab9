/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One file, or one text that is made for each request, over HTTP for readers that may be slow, broken or hostile. It
 * never waits: the caller polls.
 *
 * libmicrohttpd speaks HTTP; who gets a place, and for how long, is decided here, since the library can
 * neither limit the time of a whole request nor tell a slow reader from a silent one.
 *
 * The file may grow meanwhile. Each answer has the size of the file at the time of the request; if
 * the file gets smaller before all of it is sent, the connection is closed early.
 */
#ifndef INFTRACE_HTTP_SERVER_H
#define INFTRACE_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define HTTP_CONNS_MAX 16

#define HTTP_HEAD_MS 10000  /* for a request, since the connection or the last answer */
#define HTTP_STALL_MS 60000 /* for a reader that takes nothing */
#define HTTP_DRAIN_MS 2000  /* for a client that does not close */

/* When all places are taken, a new client gets the place of one that asks for nothing, or else of
 * the slowest reader, if that takes less than HTTP_SLOW_RATE bytes a second. Nobody loses a place
 * within HTTP_GRACE_MS. */
#define HTTP_SLOW_RATE (32 << 10)
#define HTTP_GRACE_MS 1000

struct http_server;

/*
 * Listens on 127.0.0.1; `port` 0: any free one. fd stays the caller's and must be a regular file,
 * open for reading; `name` is the name to serve it under (see http_name) and is copied; `type` is
 * the media type and is not copied. -EADDRINUSE, -EACCES, or another error of socket(2).
 */
int http_server_new(
	uint16_t port, int fd, const char *name, const char *type, struct http_server **ret_server);

/* A text that is made anew for each request. */
struct http_page {
	const char *name; /* it is at /name */
	/* accept: the header of the request, NULL: none. *ret_text is to be freed, *ret_type is not. Returns 0 or -errno,
	 * which is answered with 500. */
	int (*make)(void *ctx, const char *accept, char **ret_text, size_t *ret_len, const char **ret_type);
	void *ctx;
	bool any_host; /* by whatever name the client calls this machine; pages of browsers are refused in any case */
};

/* Listens on `addr`, which has the port; page is not copied. Otherwise as http_server_new(). */
int http_server_new_page(
	const struct sockaddr *addr, socklen_t len, const struct http_page *page, struct http_server **ret_server);

/* Closes all connections. */
void http_server_free(struct http_server *s);

uint16_t http_server_port(const struct http_server *s);

/* The descriptor to poll for POLLIN. */
int http_server_fd(const struct http_server *s);

/* The milliseconds after which http_server_work() must be called at the latest, -1: no limit.
 * `now_ms` is of a clock that does not jump. */
int http_server_timeout(const struct http_server *s, int64_t now_ms);

/* Does everything that can be done without waiting. */
void http_server_work(struct http_server *s, int64_t now_ms);

/* Whether an answer is on its way. */
bool http_server_busy(const struct http_server *s);

/* The size of the file when it was last sent completely; 0: never. */
uint64_t http_server_sent_whole(const struct http_server *s);

#endif
