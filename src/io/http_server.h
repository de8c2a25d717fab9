/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One file over HTTP on the loopback address, for readers that may be slow, broken or hostile. It
 * never waits: the caller polls, together with what else it waits for.
 *
 * libmicrohttpd speaks HTTP; who has a place, and for how long, is decided here, since the library knows
 * no limit on the time of a whole request and none to tell a slow reader from a silent one.
 *
 * The file may grow meanwhile. Each answer is of the size that the file has when it is asked for;
 * when the file gets smaller before all of that is sent, the connection is closed early.
 */
#ifndef INFTRACE_HTTP_SERVER_H
#define INFTRACE_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_CONNS_MAX 16

#define HTTP_HEAD_MS 10000  /* for a request, from the connection or the last answer on */
#define HTTP_STALL_MS 60000 /* for a reader that takes nothing */
#define HTTP_DRAIN_MS 2000  /* for one that does not close */

/* When all places are taken, a new client gets the place of one that asks for nothing, or else of
 * the reader that takes the least, if that is less than HTTP_SLOW_RATE bytes a second. None loses
 * its place within HTTP_GRACE_MS. */
#define HTTP_SLOW_RATE (32 << 10)
#define HTTP_GRACE_MS 1000

struct http_server;

/*
 * Listens on 127.0.0.1. `port` 0: any that is free. fd stays the caller's, and must be one of a
 * regular file, open for reading; `name` is the name to serve it under (see http_name) and is
 * copied; `type` is the media type and is not. -EADDRINUSE, -EACCES, and what else socket(2) says.
 */
int http_server_new(
	uint16_t port, int fd, const char *name, const char *type, struct http_server **ret_server);

/* Closes all connections. */
void http_server_free(struct http_server *s);

uint16_t http_server_port(const struct http_server *s);

/* To poll for POLLIN. */
int http_server_fd(const struct http_server *s);

/* After how many milliseconds to come back at the latest, -1: no limit. `now_ms` is of a clock that
 * does not jump. */
int http_server_timeout(const struct http_server *s, int64_t now_ms);

/* Does what can be done by now. */
void http_server_work(struct http_server *s, int64_t now_ms);

/* Whether an answer is on its way. */
bool http_server_busy(const struct http_server *s);

/* How many bytes were in the file when it was last sent whole; 0: never. */
uint64_t http_server_sent_whole(const struct http_server *s);

#endif
