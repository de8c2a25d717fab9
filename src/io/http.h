/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `inftrace serve` understands of HTTP/1.1 (RFC 9110, 9112), without any I/O: a request is
 * read from bytes, and the answer to it is made, for one file that whoever may see it may only
 * read.
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

#define HTTP_HEAD_MAX 8192   /* request line and headers */
#define HTTP_ANSWER_MAX 1536 /* status line, headers and a body that is no file */
#define HTTP_NAME_MAX 128    /* of the file, with the NUL */
#define HTTP_UI "https://ui.perfetto.dev"

enum http_method {
	HTTP_GET,
	HTTP_HEAD,
	HTTP_OPTIONS,
	HTTP_OTHER,
};

/* Bytes of the request; p is NULL where it has none. */
struct http_text {
	const char *p;
	size_t len;
};

struct http_request {
	enum http_method method;
	struct http_text name;   /* of the method */
	struct http_text target; /* as sent */
	struct http_text path;   /* without the query; "*" with OPTIONS */
	struct http_text host, origin, range;
	bool keep_alive;
	bool body;            /* one follows; nothing here wants it */
	bool private_network; /* a preflight request that asks for Private Network Access */
};

/*
 * Reads the request at the beginning of `buf`. *ret_request points into it. Returns the length of
 * the request, 0 when more bytes are needed, -EBADMSG (malformed), -EMSGSIZE (over HTTP_HEAD_MAX),
 * or -EPROTONOSUPPORT (not HTTP/1).
 */
int http_parse(const char *buf, size_t len, struct http_request *ret_request);

struct http_file {
	char name[HTTP_NAME_MAX]; /* as http_name makes it */
	const char *type;         /* media type */
	uint64_t size;
};

struct http_answer {
	int status;
	char text[HTTP_ANSWER_MAX]; /* what goes out ahead of the file's bytes */
	size_t len;
	uint64_t first, end; /* the bytes of the file; equal: none */
	bool keep_alive;
};

/* The answer to a request for /NAME, or for something else. `now` is for the header Date. */
void http_answer(const struct http_request *request, const struct http_file *file, int64_t now,
	struct http_answer *ret_answer);

/* The answer to what is no request: of http_parse's errors, -ETIMEDOUT (408), -EBUSY (503). */
void http_refuse(int err, int64_t now, struct http_answer *ret_answer);

/* The last part of a path with anything but letters, digits and "._-" replaced by '_', so that it
 * stands in a URL and in the URL of a URL as it is. Cut in front, so that the suffix stays. */
void http_name(const char *path, char ret_name[HTTP_NAME_MAX]);

#endif
