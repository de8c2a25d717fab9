// SPDX-License-Identifier: BSD-2-Clause
#include "io/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io/http.h"
#include "util/log.h"

#define ROUND_BYTES (1 << 20) /* for one connection, before it is another's turn */
#define SEND_BUFFER \
	(256 << 10)          /* so that a slow reader is seen to take something in HTTP_STALL_MS */
#define LOOK_MS 250          /* how often the file's size is looked at while it is being sent */
#define ACCEPT_PAUSE_MS 1000 /* when no more files can be opened */

enum conn_state {
	CONN_READING,
	CONN_SENDING,
	CONN_DRAINING, /* all is sent: the other side closes, or is closed */
};

struct conn {
	int fd; /* -1: none */
	enum conn_state state;
	int64_t deadline_ms;
	int64_t begun_ms; /* this state */
	char in[HTTP_HEAD_MAX];
	size_t in_len;
	size_t head_len; /* of the request that is being answered */
	struct http_answer answer;
	size_t sent;     /* of the answer's text */
	uint64_t offset; /* in the file */
	uint64_t size;   /* of the file, when it was asked for */
	char what[128];  /* the request, for the log */
};

struct http_server {
	int fd, file_fd;
	uint16_t port;
	struct http_file file;
	struct conn conns[HTTP_CONNS_MAX];
	int64_t accept_at_ms; /* not before */
	uint64_t sent_whole;
};

static int listen_loopback(uint16_t port, int *ret_fd, uint16_t *ret_port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int on = 1, buffer = SEND_BUFFER, err, fd;

	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* connections of a server that has ended do not keep its port */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) ||
		bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, SOMAXCONN) ||
		getsockname(fd, (struct sockaddr *)&addr, &len)) {
		err = -errno;
		close(fd);
		return err;
	}
	*ret_fd = fd;
	*ret_port = ntohs(addr.sin_port);
	return 0;
}

int http_server_new(
	uint16_t port, int fd, const char *name, const char *type, struct http_server **ret_server)
{
	struct http_server *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	err = listen_loopback(port, &s->fd, &s->port);
	if (err) {
		free(s);
		return err;
	}
	signal(SIGPIPE, SIG_IGN);
	s->file_fd = fd;
	snprintf(s->file.name, sizeof(s->file.name), "%s", name);
	s->file.type = type;
	for (size_t i = 0; i < HTTP_CONNS_MAX; i++)
		s->conns[i].fd = -1;
	*ret_server = s;
	return 0;
}

void http_server_free(struct http_server *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < HTTP_CONNS_MAX; i++) {
		if (s->conns[i].fd >= 0)
			close(s->conns[i].fd);
	}
	close(s->fd);
	free(s);
}

uint16_t http_server_port(const struct http_server *s)
{
	return s->port;
}

bool http_server_busy(const struct http_server *s)
{
	for (size_t i = 0; i < HTTP_CONNS_MAX; i++) {
		if (s->conns[i].fd >= 0 && s->conns[i].state == CONN_SENDING)
			return true;
	}
	return false;
}

uint64_t http_server_sent_whole(const struct http_server *s)
{
	return s->sent_whole;
}

/* ---- one connection ---- */

static void conn_close(struct conn *c)
{
	close(c->fd);
	c->fd = -1;
}

static void conn_wait(struct conn *c, enum conn_state state, int64_t now_ms, int64_t for_ms)
{
	c->state = state;
	c->begun_ms = now_ms;
	c->deadline_ms = now_ms + for_ms;
}

/* Bytes a second that the reader of an answer takes, those in our own buffer left out. */
static uint64_t conn_rate(const struct conn *c, int64_t now_ms)
{
	uint64_t bytes = c->sent + (c->offset - c->answer.first);
	int unsent = 0;

	if (!ioctl(c->fd, SIOCOUTQ, &unsent) && unsent > 0)
		bytes -= (uint64_t)unsent < bytes ? (uint64_t)unsent : bytes;
	return bytes * 1000 / (uint64_t)(now_ms - c->begun_ms + 1);
}

static void conn_begin(struct conn *c, size_t head_len, int64_t now_ms)
{
	c->head_len = head_len;
	c->sent = 0;
	c->offset = c->answer.first;
	conn_wait(c, CONN_SENDING, now_ms, HTTP_STALL_MS);
}

static void conn_refuse(struct conn *c, int err, int64_t now_ms)
{
	http_refuse(err, time(NULL), &c->answer);
	snprintf(c->what, sizeof(c->what), "a request");
	conn_begin(c, c->in_len, now_ms);
}

/* Returns false when the request is not complete. */
static bool conn_next_request(struct http_server *s, struct conn *c, int64_t now_ms)
{
	struct http_request r;
	struct stat st;
	int len = http_parse(c->in, c->in_len, &r);

	if (!len)
		return false;
	if (len < 0) {
		conn_refuse(c, len, now_ms);
		return true;
	}
	s->file.size = c->size = fstat(s->file_fd, &st) ? 0 : (uint64_t)st.st_size;
	http_answer(&r, &s->file, time(NULL), &c->answer);
	snprintf(c->what, sizeof(c->what), "%.*s %.*s", (int)(r.name.len < 16 ? r.name.len : 16),
		r.name.p, (int)(r.target.len < 100 ? r.target.len : 100), r.target.p);
	conn_begin(c, (size_t)len, now_ms);
	return true;
}

/* A file that got smaller may be another one by now: what is left of the answer would not fit. */
static bool file_shrank(const struct http_server *s, const struct conn *c)
{
	struct stat st;

	return c->offset < c->answer.end &&
	       (fstat(s->file_fd, &st) || (uint64_t)st.st_size < c->size);
}

/* Sends what can be sent. Returns 1 when all is, 0 when the socket or this round is full. */
static int conn_send(struct http_server *s, struct conn *c, int64_t now_ms)
{
	const struct http_answer *a = &c->answer;
	size_t round = ROUND_BYTES;
	ssize_t n;

	if (file_shrank(s, c))
		return -ESTALE;
	while (c->sent < a->len) {
		n = send(c->fd, a->text + c->sent, a->len - c->sent,
			MSG_NOSIGNAL | (a->first < a->end ? MSG_MORE : 0));
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		c->sent += (size_t)n;
		c->deadline_ms = now_ms + HTTP_STALL_MS;
	}
	while (c->offset < a->end && round) {
		off_t offset = (off_t)c->offset;
		size_t part = a->end - c->offset < round ? (size_t)(a->end - c->offset) : round;

		n = sendfile(c->fd, s->file_fd, &offset, part);
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		if (!n)
			return -ESTALE;
		c->offset += (uint64_t)n;
		round -= (size_t)n;
		c->deadline_ms = now_ms + HTTP_STALL_MS;
	}
	return c->offset == a->end;
}

static void conn_log(const struct conn *c, int err)
{
	uint64_t body = c->offset - c->answer.first, all = c->answer.end - c->answer.first;

	if (err)
		log_debug("%s: %d, cut after %" PRIu64 " of %" PRIu64 " bytes: %s", c->what,
			c->answer.status, body, all,
			err == -ESTALE ? "the file got smaller" : strerror(-err));
	else
		log_debug("%s: %d, %" PRIu64 " bytes", c->what, c->answer.status, body);
}

/* All of an answer is sent. */
static void conn_sent(struct http_server *s, struct conn *c, int64_t now_ms)
{
	const struct http_answer *a = &c->answer;

	conn_log(c, 0);
	if (!a->first && a->end && a->end == c->size)
		s->sent_whole = c->size;
	c->in_len -= c->head_len;
	memmove(c->in, c->in + c->head_len, c->in_len);
	if (a->keep_alive) {
		conn_wait(c, CONN_READING, now_ms, HTTP_HEAD_MS);
		return;
	}
	/* closed with bytes unread, it would be reset, and the answer lost on the way */
	shutdown(c->fd, SHUT_WR);
	c->in_len = 0;
	conn_wait(c, CONN_DRAINING, now_ms, HTTP_DRAIN_MS);
}

/* Answers what has been read, request by request, as far as the socket takes it. */
static void conn_answer(struct http_server *s, struct conn *c, int64_t now_ms)
{
	int err;

	while (c->state == CONN_SENDING ||
		(c->state == CONN_READING && conn_next_request(s, c, now_ms))) {
		err = conn_send(s, c, now_ms);
		if (!err)
			return;
		if (err < 0) {
			conn_log(c, err);
			conn_close(c);
			return;
		}
		conn_sent(s, c, now_ms);
	}
}

static void conn_read(struct http_server *s, struct conn *c, int64_t now_ms)
{
	ssize_t n = recv(c->fd, c->in + c->in_len, sizeof(c->in) - c->in_len, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_close(c);
		return;
	}
	if (c->state == CONN_DRAINING)
		return;
	if (!c->in_len)
		c->deadline_ms = now_ms + HTTP_HEAD_MS;
	c->in_len += (size_t)n;
	conn_answer(s, c, now_ms);
}

static void conn_late(struct http_server *s, struct conn *c, int64_t now_ms)
{
	if (c->state == CONN_READING && c->in_len) {
		conn_refuse(c, -ETIMEDOUT, now_ms);
		conn_answer(s, c, now_ms);
		return;
	}
	if (c->state == CONN_SENDING)
		conn_log(c, -ETIMEDOUT);
	conn_close(c);
}

static void conn_work(struct http_server *s, struct conn *c, short revents, int64_t now_ms)
{
	if (c->state == CONN_SENDING && (revents || file_shrank(s, c)))
		conn_answer(s, c, now_ms);
	else if (c->state != CONN_SENDING && revents)
		conn_read(s, c, now_ms);
	if (c->fd >= 0 && now_ms >= c->deadline_ms)
		conn_late(s, c, now_ms);
}

/* ---- all of them ---- */

/* Best effort: whoever comes when all places are taken need not be served well. */
static void turn_away(int fd)
{
	struct http_answer a;
	char buf[512];

	http_refuse(-EBUSY, time(NULL), &a);
	send(fd, a.text, a.len, MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	for (int i = 0; i < 16 && recv(fd, buf, sizeof(buf), 0) > 0; i++)
		;
	close(fd);
}

/* How little a client would miss its place: the most for who has not even asked. */
static uint64_t conn_excess(const struct conn *c, int64_t now_ms)
{
	uint64_t rate;

	if (now_ms - c->begun_ms < HTTP_GRACE_MS)
		return 0;
	if (c->state != CONN_SENDING)
		return HTTP_SLOW_RATE + (uint64_t)(now_ms - c->begun_ms);
	rate = conn_rate(c, now_ms);
	return rate < HTTP_SLOW_RATE ? HTTP_SLOW_RATE - rate : 0;
}

/* A place that is free, or is made so. NULL: all are in use. */
static struct conn *free_conn(struct http_server *s, int64_t now_ms)
{
	struct conn *worst = NULL;
	uint64_t most = 0;

	for (size_t i = 0; i < HTTP_CONNS_MAX; i++) {
		struct conn *c = &s->conns[i];

		if (c->fd < 0)
			return c;
		if (conn_excess(c, now_ms) > most) {
			most = conn_excess(c, now_ms);
			worst = c;
		}
	}
	if (worst && worst->state == CONN_SENDING)
		conn_log(worst, -ETIMEDOUT);
	if (worst)
		conn_close(worst);
	return worst;
}

static void accept_all(struct http_server *s, int64_t now_ms)
{
	/* not for ever: those that are connected have their turn, too */
	for (int i = 0; i < 2 * HTTP_CONNS_MAX; i++) {
		int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct conn *c;

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
				errno == ENOBUFS)
				s->accept_at_ms = now_ms + ACCEPT_PAUSE_MS;
			return;
		}
		c = free_conn(s, now_ms);
		if (!c) {
			turn_away(fd);
			continue;
		}
		c->fd = fd;
		c->in_len = 0;
		conn_wait(c, CONN_READING, now_ms, HTTP_HEAD_MS);
	}
}

int http_server_prepare(struct http_server *s, struct pollfd fds[HTTP_FDS_MAX], int64_t now_ms)
{
	bool paused = now_ms < s->accept_at_ms;
	int64_t next = paused ? s->accept_at_ms : INT64_MAX;

	fds[0] = (struct pollfd){ .fd = paused ? -1 : s->fd, .events = POLLIN };
	for (size_t i = 0; i < HTTP_CONNS_MAX; i++) {
		const struct conn *c = &s->conns[i];
		int64_t at = c->deadline_ms;

		fds[i + 1] = (struct pollfd){ .fd = c->fd,
			.events = c->state == CONN_SENDING ? POLLOUT : POLLIN };
		if (c->fd < 0)
			continue;
		if (c->state == CONN_SENDING && now_ms + LOOK_MS < at)
			at = now_ms + LOOK_MS;
		if (at < next)
			next = at;
	}
	if (next == INT64_MAX)
		return -1;
	return next > now_ms ? (int)(next - now_ms) : 0;
}

void http_server_work(struct http_server *s, const struct pollfd fds[HTTP_FDS_MAX], int64_t now_ms)
{
	for (size_t i = 0; i < HTTP_CONNS_MAX; i++) {
		if (s->conns[i].fd >= 0)
			conn_work(s, &s->conns[i], fds[i + 1].revents, now_ms);
	}
	if (fds[0].revents)
		accept_all(s, now_ms);
}
