// SPDX-License-Identifier: BSD-2-Clause
#include "io/http_server.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/log.h"

#define BLOCK (128 << 10)       /* read at a time */
#define SEND_BUFFER (256 << 10) /* small enough that a slow reader takes something within HTTP_STALL_S */
#define HEAD_MEMORY (16 << 10)  /* for a connection: fits a request with 8 KB of headers and the answer */

struct http_server {
	struct MHD_Daemon *mhd;
	int file_fd;
	uint16_t port;
	char name[HTTP_NAME_MAX];
	const char *type;
	const struct http_page *page; /* NULL: it is a file */
	size_t answering;             /* requests */
	uint64_t sent_whole;
};

struct answer {
	int fd; /* the server's */
	int status;
	uint64_t first, end, size; /* the part of the file, of its size at the time of the request */
	char *text;                /* of a page; the library frees it */
	bool body;                 /* the request had one */
	char method[16], target[104];
};

uint16_t http_server_port(const struct http_server *s)
{
	return s->port;
}

bool http_server_busy(const struct http_server *s)
{
	return s->answering;
}

uint64_t http_server_sent_whole(const struct http_server *s)
{
	return s->sent_whole;
}

/* The parts of a request that matter. NULL: not in the request. */
struct http_request {
	const char *method;
	const char *target; /* as sent, without the query */
	const char *host, *origin, *range;
	const char *site; /* Sec-Fetch-Site: whose page it comes from, if a browser says so */
	const char *accept;
	bool twice;    /* a header that may come only once came twice */
	bool any_host; /* as in struct http_page */
};

/* Ignores case. */
static bool skip_prefix(const char **s, const char *prefix)
{
	size_t n = strlen(prefix);

	if (strncasecmp(*s, prefix, n))
		return false;
	*s += n;
	return true;
}

/* ---- who may ask ---- */

/* "127.0.0.1:9001", "localhost". Any port, since it may have been forwarded from another one (ssh
 * -L). The name is what tells this machine from a page that only resolves to it. */
static bool is_this_machine(const char *host, size_t len)
{
	const char *end = host + len;

	if (!skip_prefix(&host, "127.0.0.1") && !skip_prefix(&host, "localhost"))
		return false;
	if (host >= end)
		return host == end;
	return *host == ':' && end - host > 1 && end - host <= 6 && host + 1 + strspn(host + 1, "0123456789") == end;
}

static bool is_allowed_origin(const char *origin)
{
	if (!strcmp(origin, HTTP_UI))
		return true;
	return (skip_prefix(&origin, "http://") || skip_prefix(&origin, "https://")) &&
	       is_this_machine(origin, strlen(origin));
}

/* A page may embed what it cannot read, and then sends no Origin. */
static bool is_allowed_site(const struct http_request *r)
{
	return r->origin || !r->site || !strcmp(r->site, "none") || !strcmp(r->site, "same-origin") || (!r->any_host && !strcmp(r->site, "same-site"));
}

/* The status regardless of the range: 200, 204, 400, 403, 404, 405. `name`: of the file. */
static int http_status(const struct http_request *r, const char *name)
{
	const char *path = r->target, *host = r->host;
	bool options = !strcmp(r->method, "OPTIONS");
	size_t host_len = host ? strlen(host) : 0;

	/* RFC 9112, section 3.2.2: the host in the target overrides the header */
	if (skip_prefix(&path, "http://")) {
		host = path;
		host_len = strcspn(host, "/");
		path += host_len;
	} else if (*path != '/' && !(options && !strcmp(path, "*"))) {
		return 400;
	}
	if (r->twice || !host)
		return 400;
	while (host_len && strchr(" \t", host[host_len - 1])) /* the library keeps white space after a value */
		host_len--;
	if (!r->any_host && !is_this_machine(host, host_len))
		return 403;
	if ((r->origin && (r->any_host || !is_allowed_origin(r->origin))) || !is_allowed_site(r))
		return 403;
	if (!options && strcmp(r->method, "GET") && strcmp(r->method, "HEAD"))
		return 405;
	if (!strcmp(path, "*"))
		return 204;
	if (*path != '/' || strcmp(path + 1, name))
		return 404;
	return options ? 204 : 200;
}

/* ---- ranges: RFC 9110, section 14 ---- */

/* Digits only, UINT64_MAX if the number does not fit. Returns the text after them, NULL if there are none. */
static const char *parse_position(const char *s, uint64_t *ret)
{
	char *end;

	*ret = strtoull(s, &end, 10);
	return isdigit((unsigned char)*s) ? end : NULL;
}

/* 206 with the range; 416; or 200 if there is no range, no valid one, or several. */
static int http_range(const char *range, uint64_t size, uint64_t *ret_first, uint64_t *ret_end)
{
	uint64_t first = 0, last = UINT64_MAX;
	bool suffix;

	if (!range || !skip_prefix(&range, "bytes="))
		return 200;
	range += strspn(range, " \t");
	suffix = *range == '-'; /* the last N bytes */
	if (!suffix)
		range = parse_position(range, &first);
	if (!range || *range++ != '-')
		return 200;
	if (*range || suffix)
		range = parse_position(range, &last);
	if (!range || *range || (!suffix && first > last))
		return 200;
	if (suffix ? !last || !size : first >= size)
		return 416;
	if (suffix) {
		first = last < size ? size - last : 0;
		last = size;
	}
	*ret_first = first;
	*ret_end = last < size ? last + 1 : size;
	return 206;
}

/* ---- one answer ---- */

static const char *http_status_text(int status)
{
	switch (status) {
	case 204:
		return "";
	case 400:
		return "not an HTTP/1.1 request\n";
	case 403:
		return "only for 127.0.0.1 and localhost, and for pages from these and from " HTTP_UI "\n";
	case 405:
		return "GET, HEAD and OPTIONS only\n";
	case 416:
		return "the range is beyond the end of the file\n";
	default:
		return "only one file is served here\n";
	}
}

/* Lets pages of an allowed origin read the answer and ask for ranges. */
static void add_cors(struct MHD_Response *r, const struct http_request *rq, struct MHD_Connection *mhd)
{
	const char *private;

	MHD_add_response_header(r, "Access-Control-Allow-Origin", rq->origin);
	if (strcmp(rq->method, "OPTIONS")) {
		MHD_add_response_header(r, "Access-Control-Expose-Headers", "Accept-Ranges, Content-Range");
		return;
	}
	MHD_add_response_header(r, "Access-Control-Allow-Methods", "GET, HEAD, OPTIONS");
	MHD_add_response_header(r, "Access-Control-Allow-Headers", "Range, Cache-Control, Pragma");
	MHD_add_response_header(r, "Access-Control-Max-Age", "60");
	private = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, "Access-Control-Request-Private-Network");
	if (private && !strcmp(private, "true"))
		MHD_add_response_header(r, "Access-Control-Allow-Private-Network", "true");
}

static void add_headers(const struct http_server *s, const struct answer *a, const char *type, const struct http_request *rq,
	struct MHD_Connection *mhd, struct MHD_Response *r)
{
	bool served = a->status == 200 || a->status == 206;
	char text[80];

	MHD_add_response_header(r, "Cache-Control", "no-store");
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	/* nor can pages embed it without CORS, in which case they send no Origin */
	MHD_add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
	MHD_add_response_header(r, "Vary", "Origin");
	if (rq->origin && !s->page && a->status != 400 && a->status != 403)
		add_cors(r, rq, mhd);
	if (a->status == 405 || a->status == 204)
		MHD_add_response_header(r, "Allow", "GET, HEAD, OPTIONS");
	if (a->status == 206)
		snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, a->first, a->end - 1, a->size);
	else
		snprintf(text, sizeof(text), "bytes */%" PRIu64, a->size);
	if (a->status == 206 || a->status == 416)
		MHD_add_response_header(r, "Content-Range", text);
	if (served && !s->page)
		MHD_add_response_header(r, "Accept-Ranges", "bytes");
	if (a->status != 204)
		MHD_add_response_header(r, "Content-Type", served ? type : "text/plain; charset=utf-8");
	if (a->body || a->status == 400)
		MHD_add_response_header(r, "Connection", "close");
}

static enum MHD_Result take_header(void *arg, enum MHD_ValueKind kind, const char *key, const char *value)
{
	struct http_request *rq = arg;
	const char **once = !strcasecmp(key, "Host") ? &rq->host : !strcasecmp(key, "Origin")   ? &rq->origin
							   : !strcasecmp(key, "Sec-Fetch-Site") ? &rq->site
												: NULL;

	value = value ? value : "";
	if (once) {
		rq->twice |= !!*once;
		*once = value;
	}
	/* several ranges count as none; If-Range asks for the whole file unless a tag matches, and no tag is
	 * ever sent */
	if (!strcasecmp(key, "Range"))
		rq->range = rq->range ? "" : value;
	if (!strcasecmp(key, "If-Range"))
		rq->range = "";
	/* a list may come in several headers, of which the first one decides */
	if (!strcasecmp(key, "Accept") && !rq->accept)
		rq->accept = value;
	return MHD_YES;
}

/* Finds what to send: the whole file, a part of it, or the page. Sets the status. */
static void answer_find_content(const struct http_server *s, const struct http_request *rq, struct answer *a, const char **ret_type)
{
	size_t len = 0;
	struct stat st;

	*ret_type = s->type;
	a->size = s->page || fstat(s->file_fd, &st) ? 0 : (uint64_t)st.st_size;
	a->fd = s->file_fd;
	a->status = http_status(rq, s->name);
	if (a->status == 200 && s->page) {
		a->text = s->page->make(s->page->ctx, rq->accept, &len, ret_type);
		a->size = len;
	}
	a->end = a->size;
	if (a->status == 200 && !s->page && !strcmp(rq->method, "GET"))
		a->status = http_range(rq->range, a->size, &a->first, &a->end);
}

static ssize_t answer_read_file(void *arg, uint64_t at, char *buf, size_t max)
{
	const struct answer *a = arg;
	ssize_t n = pread(a->fd, buf, max, (off_t)(a->first + at));
	struct stat st;

	/* a file that shrank may have other content by now: the rest of the answer would not match */
	return n <= 0 || fstat(a->fd, &st) || (uint64_t)st.st_size < a->size ? MHD_CONTENT_READER_END_WITH_ERROR : n;
}

static struct MHD_Response *new_response(struct answer *a)
{
	const char *text = http_status_text(a->status);

	if (a->status != 200 && a->status != 206)
		return MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);
	if (a->text)
		return MHD_create_response_from_buffer(a->size, a->text, MHD_RESPMEM_MUST_FREE);
	return MHD_create_response_from_callback(a->end - a->first, BLOCK, answer_read_file, a, NULL);
}

/* ---- callbacks of the library ---- */

static enum MHD_Result http_answer_request(void *arg, struct MHD_Connection *mhd, const char *target, const char *method,
	const char *version, const char *body, size_t *body_len, void **called)
{
	struct http_server *s = arg;
	struct http_request rq = { .method = method, .target = target, .any_host = s->page && s->page->any_host };
	struct answer *a = *called;
	struct MHD_Response *r;
	const char *type;
	enum MHD_Result ret;

	if (!a) {
		*called = xcalloc(1, sizeof(*a));
		return MHD_YES;
	}
	/* the answer comes after the body, if there is one: nothing here uses it */
	if (*body_len) {
		a->body = true;
		*body_len = 0;
		return MHD_YES;
	}
	MHD_get_connection_values(mhd, MHD_HEADER_KIND, take_header, &rq);
	answer_find_content(s, &rq, a, &type);
	snprintf(a->method, sizeof(a->method), "%s", method);
	snprintf(a->target, sizeof(a->target), "%s", target);
	r = new_response(a);
	if (!r)
		out_of_memory();
	add_headers(s, a, type, &rq, mhd, r);
	if (a->status >= 400 || strcmp(method, "GET"))
		a->first = a->end = 0;
	MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT, HTTP_STALL_S);
	ret = MHD_queue_response(mhd, (unsigned int)a->status, r);
	MHD_destroy_response(r);
	s->answering++;
	return ret;
}

static void request_ended(void *arg, struct MHD_Connection *mhd, void **called, enum MHD_RequestTerminationCode why)
{
	struct http_server *s = arg;
	struct answer *a = *called;
	bool whole = why == MHD_REQUEST_TERMINATED_COMPLETED_OK;

	if (a && *a->method) {
		log_debug("%s %s: %d, %" PRIu64 " bytes%s", a->method, a->target, a->status, a->end - a->first,
			whole ? "" : ", but the connection was closed before all were sent");
		if (whole && !a->first && a->end && a->end == a->size)
			s->sent_whole = a->size;
		s->answering--;
		if (whole) /* else it is being closed */
			MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT, HTTP_HEAD_S);
	}
	free(a);
	*called = NULL;
}

/* The name of the file needs no escapes, so no other spelling of it is served. */
static size_t leave_escaped(void *arg, struct MHD_Connection *mhd, char *text)
{
	return strlen(text);
}

int http_server_poll(struct http_server *s, struct pollfd *fds, nfds_t n, int64_t ms)
{
	MHD_UNSIGNED_LONG_LONG library_ms;
	fd_set in, out, except;
	struct timeval tv;
	int last = -1;

	if (!s)
		return poll(fds, n, (int)ms) < 0 && errno != EINTR ? -errno : 0;
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&except);
	MHD_get_fdset(s->mhd, &in, &out, &except, &last);
	for (nfds_t i = 0; i < n; i++) {
		fds[i].revents = 0;
		if (fds[i].fd >= FD_SETSIZE)
			return -EMFILE;
		if (fds[i].fd >= 0)
			FD_SET(fds[i].fd, &in);
		if (fds[i].fd > last)
			last = fds[i].fd;
	}
	if (MHD_get_timeout(s->mhd, &library_ms) == MHD_YES && (ms < 0 || library_ms < (uint64_t)ms))
		ms = (int64_t)library_ms;
	tv = (struct timeval){ ms / 1000, ms % 1000 * 1000 };
	if (select(last + 1, &in, &out, &except, ms < 0 ? NULL : &tv) < 0)
		return errno == EINTR ? 0 : -errno;
	for (nfds_t i = 0; i < n; i++) {
		if (fds[i].fd >= 0 && FD_ISSET(fds[i].fd, &in))
			fds[i].revents = POLLIN;
	}
	MHD_run_from_select(s->mhd, &in, &out, &except);
	return 0;
}

/* ---- start and end ---- */

static int http_listen(const struct sockaddr *addr, socklen_t len, struct http_server *s, int *ret_fd)
{
	struct sockaddr_storage bound = { 0 };
	int on = 1, buffer = SEND_BUFFER, err = 0;
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	/* connections of an earlier server must not block its port */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) || bind(fd, addr, len) ||
		listen(fd, SOMAXCONN))
		err = -errno;
	len = sizeof(bound);
	if (!err && getsockname(fd, (struct sockaddr *)&bound, &len))
		err = -errno;
	/* both kinds of addresses have the port at the same place */
	s->port = ntohs(((struct sockaddr_in *)&bound)->sin_port);
	if (err)
		close(fd);
	else
		*ret_fd = fd;
	return err;
}

static int server_new(struct http_server with, const char *name, const struct sockaddr *addr, socklen_t len,
	struct http_server **ret_server)
{
	struct http_server *s = xmalloc(sizeof(*s));
	int fd = -1, err;

	*s = with;
	snprintf(s->name, sizeof(s->name), "%s", name);
	signal(SIGPIPE, SIG_IGN);
	err = http_listen(addr, len, s, &fd);
	/* not MHD_USE_EPOLL: edge-triggered, 0.9.75 misses the end of a connection that comes with its last bytes */
	if (!err)
		s->mhd = MHD_start_daemon(MHD_NO_FLAG, 0, NULL, NULL, http_answer_request, s, MHD_OPTION_LISTEN_SOCKET, fd,
			MHD_OPTION_CONNECTION_LIMIT, (unsigned int)HTTP_CONNS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
			(unsigned int)HTTP_HEAD_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_MEMORY,
			MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED, request_ended, s,
			MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_END);
	if (!err && !s->mhd)
		out_of_memory();
	if (err)
		free(s);
	else
		*ret_server = s;
	return err;
}

int http_server_new(uint16_t port, int fd, const char *name, const char *type, struct http_server **ret_server)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	return server_new((struct http_server){ .file_fd = fd, .type = type }, name, (struct sockaddr *)&addr, sizeof(addr), ret_server);
}

int http_server_new_page(
	const struct sockaddr *addr, socklen_t len, const struct http_page *page, struct http_server **ret_server)
{
	return server_new((struct http_server){ .file_fd = -1, .page = page }, page->name, addr, len, ret_server);
}

void http_server_free(struct http_server *s)
{
	if (!s)
		return;
	MHD_stop_daemon(s->mhd);
	free(s);
}

void http_name(const char *path, char ret_name[HTTP_NAME_MAX])
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t len = strlen(name);

	if (len >= HTTP_NAME_MAX)
		name += len - (HTTP_NAME_MAX - 1);
	snprintf(ret_name, HTTP_NAME_MAX, "%s", name);
	for (char *c = ret_name; *c; c++) {
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			*c = '_';
	}
}
