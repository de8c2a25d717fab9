// SPDX-License-Identifier: BSD-2-Clause
#include "io/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/http.h"
#include "util/log.h"

#define BLOCK (128 << 10)       /* read at a time */
#define SEND_BUFFER (256 << 10) /* small enough that a slow reader is seen to take something within HTTP_STALL_MS */
#define HEAD_MEMORY (16 << 10)  /* for a connection: fits a request with 8 KB of headers and the answer */
#define LOOK_MS 250             /* how often the size of the file is checked while it is being sent */
#define ACCEPT_PAUSE_MS 1000    /* when no more files can be opened */
#define ENDING_MAX 64           /* connections that the library has yet to close */

enum conn_state {
	CONN_READING,
	CONN_SENDING,
	CONN_DRAINING, /* all sent: waiting for the other side to close */
	CONN_ENDING,   /* shut down by us: the library closes it at its next turn */
};

/* The library has a descriptor of its own, so ours stays open until the other side has read everything. */
struct conn {
	struct conn *next;
	struct http_server *server;
	int fd;
	enum conn_state state;
	int64_t begun_ms;    /* when this state began */
	int64_t progress_ms; /* when the reader last took something */
	uint64_t first, end; /* the part of the file that the answer has */
	uint64_t given;      /* of that, passed to the library */
	uint64_t taken;      /* as of the last look */
	uint64_t size;       /* of the file at the time of the request */
	int status;
	char *text;                   /* what a page is at the time of the request */
	bool body;                    /* the request had one */
	bool heard;                   /* its first byte has arrived */
	char method[16], target[104]; /* of the request, for the log; empty until its first line has arrived */
};

struct http_server {
	struct MHD_Daemon *mhd;
	int fd, file_fd, epoll;
	uint16_t port;
	char name[HTTP_NAME_MAX];
	const char *type;
	const struct http_page *page; /* NULL: it is a file */
	struct conn *conns, *adding;
	size_t n_conns;
	int64_t now_ms, accept_at_ms; /* accept_at_ms: accept nothing before */
	uint64_t sent_whole;
};

uint16_t http_server_port(const struct http_server *s)
{
	return s->port;
}

int http_server_fd(const struct http_server *s)
{
	return s->epoll;
}

bool http_server_busy(const struct http_server *s)
{
	for (const struct conn *c = s->conns; c; c = c->next) {
		if (c->state == CONN_SENDING)
			return true;
	}
	return false;
}

uint64_t http_server_sent_whole(const struct http_server *s)
{
	return s->sent_whole;
}

/* ---- one connection ---- */

static void conn_free(struct conn *c)
{
	struct conn **p = &c->server->conns;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	c->server->n_conns--;
	close(c->fd);
	free(c->text);
	free(c);
}

static void conn_wait(struct conn *c, enum conn_state state)
{
	struct epoll_event e = { .events = state == CONN_SENDING ? EPOLLOUT : EPOLLIN };

	c->state = state;
	c->begun_ms = c->progress_ms = c->server->now_ms;
	epoll_ctl(c->server->epoll, EPOLL_CTL_MOD, c->fd, &e);
}

static void conn_log(const struct conn *c, const char *cut)
{
	if (cut)
		log_debug("%s %s: %d, cut after %" PRIu64 " of %" PRIu64 " bytes: %s", c->method, c->target, c->status,
			c->given, c->end - c->first, cut);
	else
		log_debug("%s %s: %d, %" PRIu64 " bytes", c->method, c->target, c->status, c->given);
}

static void conn_end(struct conn *c, const char *why)
{
	if (c->state == CONN_SENDING)
		conn_log(c, why);
	conn_wait(c, CONN_ENDING);
	shutdown(c->fd, SHUT_RDWR);
}

/* A file that got smaller may be a different one by now: the rest of the answer would not match. */
static bool file_shrank(const struct conn *c)
{
	struct stat st;

	return !c->text && c->first < c->end && (fstat(c->server->file_fd, &st) || (uint64_t)st.st_size < c->size);
}

/* Bytes that the reader has taken, without those in our own buffer. */
static uint64_t conn_taken(const struct conn *c)
{
	int unsent = 0;

	if (ioctl(c->fd, SIOCOUTQ, &unsent) || unsent < 0 || (uint64_t)unsent > c->given)
		return 0;
	return c->given - (uint64_t)unsent;
}

/* Closing a socket with unread bytes would reset the connection and lose the answer on the way. */
static bool is_drained(const struct conn *c)
{
	char buf[4096];
	ssize_t n = 1;

	for (int i = 0; i < 16 && n > 0; i++)
		n = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);
	return !n || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* Answers what the library has no answer for. */
static void conn_refuse(struct conn *c, const char *status)
{
	char text[128];
	int len = snprintf(text, sizeof(text), "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", status);

	send(c->fd, text, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
	conn_end(c, NULL);
}

/* Does not make TLS and the like wait for the end of a line that will not come. */
static void conn_hear(struct conn *c)
{
	unsigned char first;

	if (c->heard || c->state != CONN_READING || recv(c->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
		return;
	c->heard = true;
	if ((first <= ' ' && first != '\r' && first != '\n') || first >= 0x7f)
		conn_refuse(c, "400 Bad Request");
}

static void conn_look(struct conn *c)
{
	int64_t ms = c->server->now_ms - c->begun_ms;
	uint64_t taken;

	switch (c->state) {
	case CONN_READING:
		if (ms < HTTP_HEAD_MS)
			break;
		if (c->target[0])
			conn_refuse(c, "408 Request Timeout");
		else
			conn_end(c, NULL);
		break;
	case CONN_SENDING:
		taken = conn_taken(c);
		if (taken != c->taken)
			c->progress_ms = c->server->now_ms;
		c->taken = taken;
		if (file_shrank(c))
			conn_end(c, "the file got smaller");
		else if (c->server->now_ms - c->progress_ms >= HTTP_STALL_MS)
			conn_end(c, "the client does not read");
		break;
	case CONN_DRAINING:
		if (is_drained(c) || ms >= HTTP_DRAIN_MS)
			conn_free(c);
		break;
	case CONN_ENDING:
		break;
	}
}

static int64_t conn_next_ms(const struct conn *c)
{
	switch (c->state) {
	case CONN_READING:
		return c->begun_ms + HTTP_HEAD_MS;
	case CONN_SENDING:
		return c->server->now_ms + LOOK_MS;
	case CONN_DRAINING:
		return c->begun_ms + HTTP_DRAIN_MS;
	case CONN_ENDING:
		break;
	}
	return c->server->now_ms;
}

/* ---- callbacks of the library ---- */

static struct conn *conn_of(struct MHD_Connection *mhd)
{
	return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static ssize_t read_served(void *arg, uint64_t at, char *buf, size_t max)
{
	struct conn *c = arg;
	ssize_t n;

	if (c->text) {
		n = (ssize_t)(c->size - at < max ? c->size - at : max);
		memcpy(buf, c->text + at, (size_t)n);
		c->given = at + (uint64_t)n;
		return n;
	}
	n = pread(c->server->file_fd, buf, max, (off_t)(c->first + at));

	if (n <= 0 || file_shrank(c)) {
		conn_end(c, "the file got smaller");
		return MHD_CONTENT_READER_END_WITH_ERROR;
	}
	c->given = at + (uint64_t)n;
	return n;
}

static const char *text_of(int status)
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
	case 500:
		return "out of memory\n";
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

static void add_headers(struct conn *c, struct MHD_Response *r, const char *type, const struct http_request *rq,
	struct MHD_Connection *mhd)
{
	char text[80];

	MHD_add_response_header(r, "Cache-Control", "no-store");
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	/* nor can pages embed it without CORS, in which case they send no Origin */
	MHD_add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
	MHD_add_response_header(r, "Vary", "Origin");
	if (rq->origin && !c->server->page && c->status != 400 && c->status != 403)
		add_cors(r, rq, mhd);
	if (c->status == 405 || c->status == 204)
		MHD_add_response_header(r, "Allow", "GET, HEAD, OPTIONS");
	if (c->status == 206)
		snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, c->first, c->end - 1, c->size);
	else
		snprintf(text, sizeof(text), "bytes */%" PRIu64, c->size);
	if (c->status == 206 || c->status == 416)
		MHD_add_response_header(r, "Content-Range", text);
	if (c->status == 200 || c->status == 206) {
		if (!c->text)
			MHD_add_response_header(r, "Accept-Ranges", "bytes");
		MHD_add_response_header(r, "Content-Type", type);
	} else if (c->status != 204) {
		MHD_add_response_header(r, "Content-Type", "text/plain; charset=utf-8");
	}
}

static enum MHD_Result take_header(void *arg, enum MHD_ValueKind kind, const char *key, const char *value)
{
	struct http_request *rq = arg;
	const char **once = !strcasecmp(key, "Host") ? &rq->host : !strcasecmp(key, "Origin")   ? &rq->origin
							   : !strcasecmp(key, "Sec-Fetch-Site") ? &rq->site
												: NULL;

	(void)kind;
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

/* Finds what is to be sent: the whole file, a part of it, or the page. Sets the status. */
static void find_served(struct conn *c, const struct http_request *rq, const char **ret_type)
{
	struct http_server *s = c->server;
	size_t len = 0;
	struct stat st;

	*ret_type = s->type;
	free(c->text);
	c->text = NULL;
	c->size = s->page || fstat(s->file_fd, &st) ? 0 : (uint64_t)st.st_size;
	c->first = c->end = c->given = c->taken = 0;
	c->status = http_status(rq, s->name);
	if (c->status != 200)
		return;
	if (s->page) {
		if (s->page->make(s->page->ctx, rq->accept, &c->text, &len, ret_type))
			c->status = 500;
		c->size = len;
	} else if (!strcmp(rq->method, "GET")) {
		c->end = c->size;
		c->status = http_range(rq->range, c->size, &c->first, &c->end);
		return;
	}
	c->end = c->size;
}

static enum MHD_Result answer(void *arg, struct MHD_Connection *mhd, const char *target, const char *method,
	const char *version, const char *body, size_t *body_len, void **called)
{
	const struct http_server *s = arg;
	struct http_request rq = { .method = method, .target = target, .any_host = s->page && s->page->any_host };
	struct conn *c = conn_of(mhd);
	struct MHD_Response *r;
	const char *text, *type;
	enum MHD_Result ret;

	(void)version;
	(void)body;
	/* the answer comes after the body, if there is one: nothing here uses it */
	if (!*called || *body_len) {
		*called = c;
		c->body |= *body_len;
		*body_len = 0;
		return MHD_YES;
	}
	MHD_get_connection_values(mhd, MHD_HEADER_KIND, take_header, &rq);
	find_served(c, &rq, &type);
	text = text_of(c->status);
	if (c->status == 200 || c->status == 206)
		r = MHD_create_response_from_callback(c->end - c->first, BLOCK, read_served, c, NULL);
	else
		r = MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);
	if (!r)
		return MHD_NO;
	add_headers(c, r, type, &rq, mhd);
	if (c->body || c->status == 400)
		MHD_add_response_header(r, "Connection", "close");
	if (c->status >= 400 || strcmp(method, "GET"))
		c->first = c->end = 0;
	snprintf(c->method, sizeof(c->method), "%s", method);
	conn_wait(c, CONN_SENDING);
	ret = MHD_queue_response(mhd, (unsigned int)c->status, r);
	MHD_destroy_response(r);
	return ret;
}

static void *request_begins(void *arg, const char *target, struct MHD_Connection *mhd)
{
	struct conn *c = conn_of(mhd);

	(void)arg;
	snprintf(c->target, sizeof(c->target), "%s", target);
	return NULL;
}

static void request_ended(void *arg, struct MHD_Connection *mhd, void **called, enum MHD_RequestTerminationCode why)
{
	struct http_server *s = arg;
	struct conn *c = conn_of(mhd);

	(void)called;
	if (c->state != CONN_SENDING)
		return;
	conn_log(c, why == MHD_REQUEST_TERMINATED_COMPLETED_OK ? NULL : "the connection was closed");
	if (why == MHD_REQUEST_TERMINATED_COMPLETED_OK && !c->first && c->end && c->end == c->size)
		s->sent_whole = c->size;
	c->target[0] = 0;
	c->body = false;
	conn_wait(c, CONN_READING);
}

static void connection_changed(
	void *arg, struct MHD_Connection *mhd, void **context, enum MHD_ConnectionNotificationCode what)
{
	struct conn *c = *context;

	(void)mhd;
	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		*context = ((struct http_server *)arg)->adding;
		return;
	}
	if (c->state == CONN_ENDING) {
		conn_free(c);
		return;
	}
	shutdown(c->fd, SHUT_WR);
	conn_wait(c, CONN_DRAINING);
}

/* The name of the file needs no escapes, so no other spelling of it is served. */
static size_t leave_escaped(void *arg, struct MHD_Connection *mhd, char *text)
{
	(void)arg;
	(void)mhd;
	return strlen(text);
}

/* ---- all connections ---- */

/* Best effort, for clients that come when all places are taken. */
static void turn_away(int fd)
{
	static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
				   "Content-Type: text/plain\r\nContent-Length: 21\r\n\r\ntoo many connections\n";
	char buf[512];

	send(fd, busy, strlen(busy), MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	for (int i = 0; i < 16 && recv(fd, buf, sizeof(buf), 0) > 0; i++)
		;
	close(fd);
}

/* How easily a client can be dropped: most of all one that has not even sent a request. */
static uint64_t conn_excess(const struct conn *c)
{
	uint64_t ms = (uint64_t)(c->server->now_ms - c->begun_ms), rate;

	if (c->state == CONN_ENDING || ms < HTTP_GRACE_MS)
		return 0;
	if (c->state != CONN_SENDING)
		return HTTP_SLOW_RATE + ms;
	rate = conn_taken(c) * 1000 / ms;
	return rate < HTTP_SLOW_RATE ? HTTP_SLOW_RATE - rate : 0;
}

/* Returns whether a place is free, or could be freed. */
static bool make_place(struct http_server *s)
{
	struct conn *worst = NULL;
	size_t taken = 0;

	for (struct conn *c = s->conns; c; c = c->next) {
		taken += c->state != CONN_ENDING;
		if (conn_excess(c) > (worst ? conn_excess(worst) : 0))
			worst = c;
	}
	if (taken < HTTP_CONNS_MAX)
		return true;
	if (!worst)
		return false;
	if (worst->state == CONN_DRAINING)
		conn_free(worst);
	else
		conn_end(worst, "too slow while others wait");
	return true;
}

static int conn_add(struct http_server *s, int fd, const struct sockaddr *addr, socklen_t len)
{
	struct conn *c = calloc(1, sizeof(*c));
	struct epoll_event e = { 0 };

	if (!c)
		goto fail;
	c->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (c->fd < 0)
		goto fail;
	epoll_ctl(s->epoll, EPOLL_CTL_ADD, c->fd, &e);
	c->server = s;
	c->next = s->conns;
	s->conns = s->adding = c;
	s->n_conns++;
	conn_wait(c, CONN_READING);
	/* takes over fd even on failure */
	if (MHD_add_connection(s->mhd, fd, addr, len) == MHD_YES)
		return 0;
	conn_free(c);
	return -ENOMEM;
fail:
	free(c);
	close(fd);
	return -ENOMEM;
}

static void accept_more(struct http_server *s, bool on)
{
	struct epoll_event e = { .events = on ? EPOLLIN : 0 };

	epoll_ctl(s->epoll, EPOLL_CTL_MOD, s->fd, &e);
}

static void accept_all(struct http_server *s)
{
	if (s->accept_at_ms) {
		s->accept_at_ms = 0;
		accept_more(s, true);
	}
	/* bounded, so that those that are connected get their turn, too */
	for (int i = 0; i < 2 * HTTP_CONNS_MAX; i++) {
		struct sockaddr_storage addr;
		socklen_t len = sizeof(addr);
		int fd = accept4(s->fd, (struct sockaddr *)&addr, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
			return;
		if (fd >= 0 && (s->n_conns >= ENDING_MAX || !make_place(s))) {
			turn_away(fd);
			continue;
		}
		if (fd < 0 || conn_add(s, fd, (struct sockaddr *)&addr, len)) {
			s->accept_at_ms = s->now_ms + ACCEPT_PAUSE_MS;
			accept_more(s, false);
			return;
		}
	}
}

int http_server_timeout(const struct http_server *s, int64_t now_ms)
{
	int64_t next = s->accept_at_ms ? s->accept_at_ms : INT64_MAX;
	MHD_UNSIGNED_LONG_LONG ms;

	for (const struct conn *c = s->conns; c; c = c->next) {
		if (conn_next_ms(c) < next)
			next = conn_next_ms(c);
	}
	if (MHD_get_timeout(s->mhd, &ms) == MHD_YES && !ms)
		return 0;
	if (next == INT64_MAX)
		return -1;
	return next > now_ms ? (int)(next - now_ms) : 0;
}

void http_server_work(struct http_server *s, int64_t now_ms)
{
	struct conn *next;

	s->now_ms = now_ms;
	for (struct conn *c = s->conns; c; c = c->next)
		conn_hear(c);
	MHD_run(s->mhd);
	for (struct conn *c = s->conns; c; c = next) {
		next = c->next;
		conn_look(c);
	}
	if (now_ms >= s->accept_at_ms)
		accept_all(s);
	MHD_run(s->mhd);
}

/* ---- start and end ---- */

static int listen_at(const struct sockaddr *addr, socklen_t len, struct http_server *s)
{
	struct sockaddr_storage bound = { 0 };
	int on = 1, buffer = SEND_BUFFER;

	s->fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0)
		return -errno;
	/* connections of an earlier server must not block its port */
	if (setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
		setsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) || bind(s->fd, addr, len) ||
		listen(s->fd, SOMAXCONN))
		return -errno;
	len = sizeof(bound);
	if (getsockname(s->fd, (struct sockaddr *)&bound, &len))
		return -errno;
	/* both kinds of addresses have the port at the same place */
	s->port = ntohs(((struct sockaddr_in *)&bound)->sin_port);
	return 0;
}

static int start_library(struct http_server *s)
{
	struct epoll_event e = { .events = EPOLLIN };

	/* not MHD_USE_EPOLL: edge-triggered, 0.9.75 misses the end of a connection that comes with its last bytes */
	s->mhd = MHD_start_daemon(MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, answer, s,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned int)ENDING_MAX + 1, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)HEAD_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED, request_ended, s,
		MHD_OPTION_NOTIFY_CONNECTION, connection_changed, s, MHD_OPTION_URI_LOG_CALLBACK, request_begins, s,
		MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_END);
	if (!s->mhd)
		return -ENOMEM;
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->fd, &e))
		return -errno;
	return 0;
}

static int server_start(struct http_server *s, const struct sockaddr *addr, socklen_t len, struct http_server **ret_server)
{
	int err;

	signal(SIGPIPE, SIG_IGN);
	err = listen_at(addr, len, s);
	if (!err)
		err = start_library(s);
	if (err) {
		http_server_free(s);
		return err;
	}
	*ret_server = s;
	return 0;
}

static struct http_server *server_alloc(const char *name)
{
	struct http_server *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->fd = s->epoll = s->file_fd = -1;
	snprintf(s->name, sizeof(s->name), "%s", name);
	return s;
}

int http_server_new(
	uint16_t port, int fd, const char *name, const char *type, struct http_server **ret_server)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct http_server *s = server_alloc(name);

	if (!s)
		return -ENOMEM;
	s->file_fd = fd;
	s->type = type;
	return server_start(s, (struct sockaddr *)&addr, sizeof(addr), ret_server);
}

int http_server_new_page(
	const struct sockaddr *addr, socklen_t len, const struct http_page *page, struct http_server **ret_server)
{
	struct http_server *s = server_alloc(page->name);

	if (!s)
		return -ENOMEM;
	s->page = page;
	return server_start(s, addr, len, ret_server);
}

void http_server_free(struct http_server *s)
{
	if (!s)
		return;
	if (s->mhd)
		MHD_stop_daemon(s->mhd);
	while (s->conns)
		conn_free(s->conns);
	if (s->epoll >= 0)
		close(s->epoll);
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}
