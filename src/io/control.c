// SPDX-License-Identifier: BSD-2-Clause
#include "io/control.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "io/control_socket.h"
#include "util/fmt.h"
#include "util/json_scan.h"
#include "util/log.h"

#define NSEC_PER_SEC UINT64_C(1000000000)
#define ACCEPT_MAX 16 /* at a time */

enum client_state {
	CLIENT_ASKING,   /* its request is not complete */
	CLIENT_WAITING,  /* control_done() is to follow */
	CLIENT_ANSWERED, /* it has not taken all of the answer */
};

struct client {
	int fd; /* -1: nobody */
	enum client_state state;
	uint64_t id;          /* of its request, never the same again */
	uint64_t deadline_ns; /* 0: none */
	size_t len;
	char line[CONTROL_REQUEST_MAX];
	char *out;
	size_t out_len, out_sent;
};

struct control {
	const struct control_ops *ops;
	void *arg;
	struct control_socket socket;
	int epoll_fd, timer_fd;
	uint64_t listen_paused_ns; /* until when nobody is accepted; 0: not paused */
	uint64_t last_id;
	struct client clients[CONTROL_CLIENTS_MAX];
};

/* epoll_data of the sockets that are no client's; clients have their index. */
enum {
	EVENT_LISTEN = CONTROL_CLIENTS_MAX,
	EVENT_TIMER,
	EVENTS_MAX,
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* ---- lines ---- */

static bool only_space(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!strchr(" \t\r\n", text[i]) || !text[i])
			return false;
	}
	return true;
}

/* json-c takes more for JSON than JSON is. */
static int check_line(const char *text, size_t len, char msg[CONTROL_MSG_MAX])
{
	struct json_scan scan;
	size_t used;
	int ret;

	json_scan_init(&scan);
	ret = json_scan_feed(&scan, (const unsigned char *)text, len, &used);
	if (ret < 0) {
		snprintf(msg, CONTROL_MSG_MAX, "no JSON at byte %zu: %s", used, scan.error);
		return ret;
	}
	if (!ret && json_scan_end(&scan) < 0) {
		snprintf(msg, CONTROL_MSG_MAX, "the JSON is not complete");
		return -EBADMSG;
	}
	if (ret && !only_space(text + used, len - used)) {
		snprintf(msg, CONTROL_MSG_MAX, "more than one JSON value on the line");
		return -EBADMSG;
	}
	return 0;
}

int control_parse_line(
	const char *text, size_t len, struct json_object **ret_object, char msg[CONTROL_MSG_MAX])
{
	struct json_tokener *tokener;
	struct json_object *object;
	int err;

	err = check_line(text, len, msg);
	if (err)
		return err;
	tokener = json_tokener_new_ex(JSON_DEPTH_MAX + 1);
	if (!tokener)
		return -ENOMEM;
	object = json_tokener_parse_ex(tokener, text, (int)len);
	json_tokener_free(tokener);
	if (!json_object_is_type(object, json_type_object)) {
		json_object_put(object);
		snprintf(msg, CONTROL_MSG_MAX, "no JSON object");
		return -EBADMSG;
	}
	*ret_object = object;
	return 0;
}

/* Names of files may be anything, JSON may not. */
static size_t copy_utf8(char *out, const char *text, size_t len)
{
	char *p = out;
	int n;

	for (size_t i = 0; i < len; i += (size_t)abs(n)) {
		n = fmt_utf8_scan((const unsigned char *)text + i, len - i);
		p = n > 0 ? fmt_str(p, text + i, (size_t)n) : fmt_lit(p, "\xef\xbf\xbd");
	}
	return (size_t)(p - out);
}

/* ---- clients ---- */

static void client_close(struct control *c, struct client *cl)
{
	/* by hand: a child that was forked and has not called exec yet holds the file as well */
	epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, cl->fd, NULL);
	close(cl->fd);
	free(cl->out);
	memset(cl, 0, sizeof(*cl));
	cl->fd = -1;
}

static void client_watch(struct control *c, struct client *cl)
{
	struct epoll_event ev = { .data.u32 = (uint32_t)(cl - c->clients) };

	/* what nobody will read now must not keep the poll awake; that it hung up is told always */
	if (cl->out_len)
		ev.events = EPOLLOUT;
	else if (cl->state == CLIENT_ASKING)
		ev.events = EPOLLIN;
	if (epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, cl->fd, &ev))
		client_close(c, cl);
}

/* As much as it takes. It may be gone afterwards. */
static void client_send(struct control *c, struct client *cl)
{
	ssize_t n;

	while (cl->out_sent < cl->out_len) {
		n = send(cl->fd, cl->out + cl->out_sent, cl->out_len - cl->out_sent,
			MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			client_watch(c, cl);
			return;
		}
		if (n < 0) {
			client_close(c, cl);
			return;
		}
		cl->out_sent += (size_t)n;
	}
	cl->out_len = cl->out_sent = 0;
	if (cl->state == CLIENT_ANSWERED)
		client_close(c, cl);
	else
		client_watch(c, cl);
}

static void client_say(struct control *c, struct client *cl, struct json_object *object)
{
	const char *text;
	size_t len;
	char *out;

	text = object ? json_object_to_json_string_length(object,
				JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &len)
		      : NULL;
	out = text ? realloc(cl->out, cl->out_len + 3 * len + 1) : NULL;
	if (!out) {
		client_close(c, cl);
		return;
	}
	cl->out = out;
	cl->out_len += copy_utf8(out + cl->out_len, text, len);
	out[cl->out_len++] = '\n';
	client_send(c, cl);
}

static struct json_object *answer_new(int err, struct json_object *reply, const char *msg)
{
	struct json_object *answer = json_object_new_object();

	if (!answer)
		return NULL;
	json_object_object_add(answer, "ok", json_object_new_boolean(!err));
	if (err) {
		json_object_object_add(answer, "error",
			json_object_new_string(msg && *msg ? msg : strerror(-err)));
	} else if (reply) {
		json_object_object_foreach(reply, key, value)
		{
			if (strcmp(key, "ok"))
				json_object_object_add(answer, key, json_object_get(value));
		}
	}
	return answer;
}

static void client_answer(
	struct control *c, struct client *cl, int err, struct json_object *reply, const char *msg)
{
	struct json_object *answer = answer_new(err, reply, msg);

	cl->state = CLIENT_ANSWERED;
	cl->deadline_ns = now_ns() + CONTROL_CLIENT_S * NSEC_PER_SEC;
	client_say(c, cl, answer);
	json_object_put(answer);
}

static void client_taken(struct control *c, struct client *cl)
{
	struct json_object *taken = json_object_new_object();

	if (taken)
		json_object_object_add(taken, "taken", json_object_new_boolean(true));
	cl->state = CLIENT_WAITING;
	cl->deadline_ns = 0;
	client_say(c, cl, taken);
	json_object_put(taken);
}

/* A string of the request; NULL: there is none. -EBADMSG. */
static int request_string(
	struct json_object *request, const char *key, const char **ret, char msg[CONTROL_MSG_MAX])
{
	struct json_object *value;
	const char *text;

	*ret = NULL;
	if (!json_object_object_get_ex(request, key, &value))
		return 0;
	text = json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
	if (!text || strlen(text) != (size_t)json_object_get_string_len(value)) {
		snprintf(msg, CONTROL_MSG_MAX, "\"%s\" is not a string", key);
		return -EBADMSG;
	}
	*ret = text;
	return 0;
}

static int request_run(struct control *c, struct client *cl, const char *command,
	const char *reason, struct json_object *reply, char msg[CONTROL_MSG_MAX])
{
	uint64_t id = cl->id;

	if (!strcmp(command, "status")) {
		c->ops->status(c->arg, reply);
		return 0;
	}
	if (strcmp(command, "start") && strcmp(command, "stop") && strcmp(command, "dump")) {
		snprintf(msg, CONTROL_MSG_MAX,
			"no such command; there are start, stop, dump and status");
		return -EINVAL;
	}
	client_taken(c, cl);
	if (!strcmp(command, "start"))
		return c->ops->start(c->arg, reply, msg);
	if (!strcmp(command, "stop"))
		return c->ops->stop(c->arg, reply, msg);
	return c->ops->dump(c->arg, id, reason ? reason : "", reply, msg);
}

static void client_request(struct control *c, struct client *cl, size_t len)
{
	struct json_object *request = NULL, *reply = NULL;
	const char *command = NULL, *reason = NULL;
	uint64_t id = cl->id;
	char msg[CONTROL_MSG_MAX] = "";
	int err;

	err = control_parse_line(cl->line, len, &request, msg);
	if (!err)
		err = request_string(request, "command", &command, msg);
	if (!err)
		err = request_string(request, "reason", &reason, msg);
	if (!err && !command) {
		snprintf(msg, sizeof(msg), "\"command\" is missing");
		err = -EBADMSG;
	}
	if (!err && reason && strlen(reason) >= CONTROL_REASON_MAX) {
		snprintf(msg, sizeof(msg), "the reason is longer than %d bytes",
			CONTROL_REASON_MAX - 1);
		err = -E2BIG;
	}
	if (!err) {
		reply = json_object_new_object();
		err = reply ? request_run(c, cl, command, reason, reply, msg) : -ENOMEM;
	}
	/* it may have left, or got its answer from control_done() already */
	if (err != -EINPROGRESS && cl->fd >= 0 && cl->id == id && cl->state != CLIENT_ANSWERED)
		client_answer(c, cl, err, reply, msg);
	json_object_put(reply);
	json_object_put(request);
}

/* Once for each time that the poll says so: nobody keeps the recorder busy. */
static void client_read(struct control *c, struct client *cl)
{
	char *end, msg[CONTROL_MSG_MAX];
	ssize_t n;

	n = recv(cl->fd, cl->line + cl->len, sizeof(cl->line) - cl->len, MSG_DONTWAIT);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0) {
		client_close(c, cl);
		return;
	}
	end = memchr(cl->line + cl->len, '\n', (size_t)n);
	cl->len += (size_t)n;
	if (end) {
		client_request(c, cl, (size_t)(end - cl->line));
	} else if (!n) {
		client_answer(c, cl, -EBADMSG, NULL, "the request does not end with a newline");
	} else if (cl->len == sizeof(cl->line)) {
		snprintf(msg, sizeof(msg), "the request is longer than %d bytes",
			CONTROL_REQUEST_MAX);
		client_answer(c, cl, -E2BIG, NULL, msg);
	}
}

static void client_event(struct control *c, struct client *cl, uint32_t events)
{
	if (cl->fd < 0)
		return;
	if (cl->state == CLIENT_ASKING)
		client_read(c, cl);
	else if (events & (EPOLLHUP | EPOLLERR))
		client_close(c, cl);
	else
		client_send(c, cl);
}

/* ---- who comes ---- */

/* Without a place for it: one try to tell why. */
static void refuse(int fd, const char *why)
{
	struct json_object *answer = answer_new(-EBUSY, NULL, why);
	char line[CONTROL_MSG_MAX + 64];
	int len;

	len = snprintf(line, sizeof(line), "%s\n",
		json_object_to_json_string_ext(answer, JSON_C_TO_STRING_PLAIN));
	json_object_put(answer);
	if (send(fd, line, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("a client of the control socket left: %s", strerror(errno));
	close(fd);
}

static bool may_control(int fd, char why[CONTROL_MSG_MAX])
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len)) {
		snprintf(why, CONTROL_MSG_MAX, "cannot tell who asks: %s", strerror(errno));
		return false;
	}
	if (!peer.uid || peer.uid == geteuid())
		return true;
	snprintf(why, CONTROL_MSG_MAX, "user %u may not control a recording of user %u", peer.uid,
		geteuid());
	return false;
}

static struct client *free_client(struct control *c)
{
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		if (c->clients[i].fd < 0)
			return &c->clients[i];
	}
	return NULL;
}

static void client_add(struct control *c, int fd)
{
	struct client *cl = free_client(c);
	struct epoll_event ev = { .events = EPOLLIN };
	char why[CONTROL_MSG_MAX];

	if (!may_control(fd, why)) {
		refuse(fd, why);
		return;
	}
	if (!cl) {
		snprintf(why, sizeof(why),
			"the recording talks to %d clients already; try again in a moment",
			CONTROL_CLIENTS_MAX);
		refuse(fd, why);
		return;
	}
	ev.data.u32 = (uint32_t)(cl - c->clients);
	if (epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &ev)) {
		refuse(fd, "the recorder is out of memory");
		return;
	}
	cl->fd = fd;
	cl->state = CLIENT_ASKING;
	cl->id = ++c->last_id;
	cl->deadline_ns = now_ns() + CONTROL_CLIENT_S * NSEC_PER_SEC;
}

static void watch_listen(struct control *c, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u32 = EVENT_LISTEN };

	epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, c->socket.fd, &ev);
}

/* Refuses only when all places were taken before: whoever came just now may be done in a moment. */
static void accept_clients(struct control *c)
{
	bool full = !free_client(c);

	for (int i = 0; i < ACCEPT_MAX && (full || free_client(c)); i++) {
		int fd = accept4(c->socket.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			client_add(c, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno == EAGAIN)
			return;
		/* no more files or memory: who waits would keep the poll awake for nothing */
		c->listen_paused_ns = now_ns() + NSEC_PER_SEC;
		watch_listen(c, 0);
		return;
	}
}

/* ---- time ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

static void set_timer(struct control *c)
{
	struct itimerspec when = { 0 };
	uint64_t next = c->listen_paused_ns;

	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
		next = earlier(next, c->clients[i].fd < 0 ? 0 : c->clients[i].deadline_ns);
	when.it_value.tv_sec = (time_t)(next / NSEC_PER_SEC);
	when.it_value.tv_nsec = (long)(next % NSEC_PER_SEC);
	timerfd_settime(c->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void check_deadlines(struct control *c)
{
	uint64_t now = now_ns();

	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		struct client *cl = &c->clients[i];

		if (cl->fd < 0 || !cl->deadline_ns || now < cl->deadline_ns)
			continue;
		if (cl->state == CLIENT_ASKING)
			client_answer(c, cl, -ETIMEDOUT, NULL, "no request came");
		else
			client_close(c, cl);
	}
	if (c->listen_paused_ns && now >= c->listen_paused_ns) {
		c->listen_paused_ns = 0;
		watch_listen(c, EPOLLIN);
	}
}

void control_serve(struct control *c)
{
	struct epoll_event events[EVENTS_MAX];
	bool come = false;
	int n;

	if (!c)
		return;
	n = epoll_wait(c->epoll_fd, events, EVENTS_MAX, 0);
	if (n <= 0)
		return;
	for (int i = 0; i < n; i++) {
		if (events[i].data.u32 < CONTROL_CLIENTS_MAX)
			client_event(c, &c->clients[events[i].data.u32], events[i].events);
		come |= events[i].data.u32 == EVENT_LISTEN;
	}
	check_deadlines(c);
	/* last: no event of another client that had the place before is left */
	if (come)
		accept_clients(c);
	set_timer(c);
}

void control_done(
	struct control *c, uint64_t id, int err, struct json_object *reply, const char *msg)
{
	for (int i = 0; c && i < CONTROL_CLIENTS_MAX; i++) {
		struct client *cl = &c->clients[i];

		if (cl->fd >= 0 && cl->id == id && cl->state == CLIENT_WAITING) {
			client_answer(c, cl, err, reply, msg);
			set_timer(c);
			break;
		}
	}
	json_object_put(reply);
}

/* ---- the whole ---- */

static int open_poll(struct control *c, char msg[CONTROL_MSG_MAX])
{
	struct epoll_event listen_ev = { .events = EPOLLIN, .data.u32 = EVENT_LISTEN };
	struct epoll_event timer_ev = { .events = EPOLLIN, .data.u32 = EVENT_TIMER };
	int err;

	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	c->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (c->epoll_fd < 0 || c->timer_fd < 0 ||
		epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->socket.fd, &listen_ev) ||
		epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->timer_fd, &timer_ev)) {
		err = -errno;
		snprintf(msg, CONTROL_MSG_MAX, "epoll: %s", strerror(-err));
		return err;
	}
	return 0;
}

int control_new(
	const struct control_ops *ops, void *arg, const char *folder, struct control **ret_control)
{
	char usual[PATH_MAX] = "", msg[CONTROL_MSG_MAX] = "";
	struct control *c;
	int err = 0;

	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->ops = ops;
	c->arg = arg;
	c->epoll_fd = c->timer_fd = c->socket.fd = -1;
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
		c->clients[i].fd = -1;
	if (!folder) {
		err = control_folder(usual, sizeof(usual));
		folder = usual;
	}
	if (err)
		snprintf(msg, sizeof(msg), "%s", strerror(-err));
	else
		err = control_socket_open(folder, &c->socket, msg);
	if (!err)
		err = open_poll(c, msg);
	if (err) {
		log_warn("no control socket in %s: %s; inftrace start, stop, dump and status do "
			 "not reach "
			 "this recording",
			folder, msg);
		control_free(c);
		return err;
	}
	*ret_control = c;
	return 0;
}

int control_fd(const struct control *c)
{
	return c ? c->epoll_fd : -1;
}

void control_free(struct control *c)
{
	if (!c)
		return;
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		struct client *cl = &c->clients[i];

		if (cl->fd >= 0 && cl->state != CLIENT_ANSWERED)
			client_answer(c, cl, -ESRCH, NULL, "the recording has ended");
		if (cl->fd >= 0)
			client_close(c, cl);
	}
	if (c->socket.fd >= 0)
		control_socket_close(&c->socket);
	if (c->timer_fd >= 0)
		close(c->timer_fd);
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	free(c);
}
