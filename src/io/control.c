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
#include <time.h>
#include <unistd.h>

#include "io/control_socket.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/text.h"

#define TURNS_MAX 16 /* requests served before control returns to the recording */

struct client {
	int fd; /* -1: unused */
	uint64_t id;
};

struct control {
	const struct control_ops *ops;
	void *arg;
	struct control_socket socket;
	int epoll_fd;
	struct client asking; /* connected, request not received yet */
	uint64_t deadline_ns; /* for its request */
	uint64_t paused_ns;   /* no client is accepted until then; 0: not paused */
	uint64_t last_id;
	struct client waiting[CONTROL_WAITING_MAX];
};

/* ---- messages ---- */

int control_parse(
	const char *text, size_t len, struct json_object **ret_object, char msg[CONTROL_MSG_MAX])
{
	struct json_tokener *tokener = json_tokener_new_ex(CONTROL_DEPTH_MAX);
	enum json_tokener_error why;
	struct json_object *object;
	int err = -EBADMSG;

	if (!tokener)
		return -ENOMEM;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	object = json_tokener_parse_ex(tokener, text, (int)len);
	why = json_tokener_get_error(tokener);
	if (why != json_tokener_success) {
		snprintf(msg, CONTROL_MSG_MAX, "not JSON: %s", json_tokener_error_desc(why));
	} else if (!json_object_is_type(object, json_type_object)) {
		snprintf(msg, CONTROL_MSG_MAX, "not a JSON object");
	} else {
		*ret_object = object;
		object = NULL;
		err = 0;
	}
	json_object_put(object);
	json_tokener_free(tokener);
	return err;
}

/* Halves the longest list of an answer that is too long for a message. Returns false if there is none. */
static bool shorten(struct json_object *answer)
{
	struct json_object *longest = NULL;
	size_t n = 1;

	json_object_object_foreach(answer, key, value)
	{
		(void)key;
		if (json_object_is_type(value, json_type_array) &&
			json_object_array_length(value) > n) {
			longest = value;
			n = json_object_array_length(value);
		}
	}
	if (!longest)
		return false;
	json_object_array_del_idx(longest, n / 2, n - n / 2);
	json_object_object_add(answer, "shortened", json_object_new_boolean(true));
	return true;
}

/* Returns the text of a message, to be freed; NULL without memory, or when it cannot be made to fit. */
static char *render(struct json_object *answer, size_t *ret_len)
{
	const char *text;
	size_t len;
	char *out;

	do {
		text = json_object_to_json_string_length(
			answer, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &len);
		out = text ? malloc(TEXT_JSON_MAX(len) + 1) : NULL;
		if (!out)
			return NULL;
		*ret_len = (size_t)(text_json(out, text, len) - out);
		if (*ret_len <= CONTROL_REPLY_MAX)
			return out;
		free(out);
	} while (shorten(answer));
	return NULL;
}

/* Sends one message, with a descriptor unless that is -1. A client that cannot take it at once loses it. */
static void send_message(int fd, struct json_object *answer, int passed)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { 0 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	char *text = answer ? render(answer, &iov.iov_len) : NULL;

	if (!text) {
		text = strdup("{\"ok\":false,\"error\":\"the answer does not fit a message\"}");
		iov.iov_len = text ? strlen(text) : 0;
	}
	if (!text)
		return;
	iov.iov_base = text;
	if (passed >= 0) {
		m.msg_control = control.buf;
		m.msg_controllen = sizeof(control.buf);
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &passed, sizeof(int));
	}
	if (sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("a client of the control socket left: %s", strerror(errno));
	free(text);
}

static void send_answer(
	int fd, int err, struct json_object *reply, const char *msg, int passed)
{
	struct json_object *answer = json_object_new_object();

	if (!answer)
		return;
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
	send_message(fd, answer, passed);
	json_object_put(answer);
}

static void send_taken(int fd)
{
	struct json_object *taken = json_object_new_object();

	if (taken)
		json_object_object_add(taken, "taken", json_object_new_boolean(true));
	send_message(fd, taken, -1);
	json_object_put(taken);
}

/* ---- requests ---- */

/* A string of the request; NULL if it is not there. -EBADMSG. */
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

static int request_parse(const char *text, size_t len, struct json_object **ret_request,
	const char **ret_command, const char **ret_reason, struct last *ret_last, char msg[CONTROL_MSG_MAX])
{
	const char *last = NULL;
	int err;

	if (len > CONTROL_REQUEST_MAX) {
		snprintf(msg, CONTROL_MSG_MAX, "the request is longer than %d bytes",
			CONTROL_REQUEST_MAX);
		return -E2BIG;
	}
	err = control_parse(text, len, ret_request, msg);
	if (!err)
		err = request_string(*ret_request, "command", ret_command, msg);
	if (!err)
		err = request_string(*ret_request, "reason", ret_reason, msg);
	if (!err)
		err = request_string(*ret_request, "last", &last, msg);
	if (!err && last && parse_last(last, ret_last)) {
		snprintf(msg, CONTROL_MSG_MAX, "\"last\" is not a number or time");
		err = -EBADMSG;
	}
	if (!err && !*ret_command) {
		snprintf(msg, CONTROL_MSG_MAX, "\"command\" is missing");
		err = -EBADMSG;
	}
	if (!err && *ret_reason && strlen(*ret_reason) >= CONTROL_REASON_MAX) {
		snprintf(msg, CONTROL_MSG_MAX, "the reason is longer than %d bytes",
			CONTROL_REASON_MAX - 1);
		err = -E2BIG;
	}
	return err;
}

static int request_run(struct control *c, const char *command, const char *reason, struct last last, int *ret_passed,
	struct json_object *reply, char msg[CONTROL_MSG_MAX])
{
	struct client *cl = &c->asking;

	if (!strcmp(command, "status")) {
		c->ops->status(c->arg, reply);
		return 0;
	}
	if (!strcmp(command, "open"))
		return c->ops->open(c->arg, ret_passed, reply, msg);
	if (strcmp(command, "start") && strcmp(command, "stop") && strcmp(command, "dump")) {
		snprintf(msg, CONTROL_MSG_MAX,
			"no such command; there are start, stop, dump, status and open");
		return -EINVAL;
	}
	send_taken(cl->fd);
	if (!strcmp(command, "start"))
		return c->ops->start(c->arg, reply, msg);
	if (!strcmp(command, "stop"))
		return c->ops->stop(c->arg, reply, msg);
	return c->ops->dump(c->arg, cl->id, reason ? reason : "", last, reply, msg);
}

static struct client *free_place(struct control *c)
{
	for (int i = 0; i < CONTROL_WAITING_MAX; i++) {
		if (c->waiting[i].fd < 0)
			return &c->waiting[i];
	}
	return NULL;
}

static void client_close(struct client *cl)
{
	/* close() alone would leave the connection open as long as a child that has not called exec
	 * yet holds it */
	shutdown(cl->fd, SHUT_RDWR);
	close(cl->fd);
	cl->fd = -1;
}

static void client_request(struct control *c, const char *text, size_t len)
{
	const char *command = NULL, *reason = NULL;
	struct json_object *request = NULL, *reply = NULL;
	struct client none = { .fd = -1 }, *place = free_place(c) ?: &none, *cl = &c->asking;
	char msg[CONTROL_MSG_MAX] = "";
	struct last last = { 0 };
	int err, passed = -1;

	err = request_parse(text, len, &request, &command, &reason, &last, msg);
	if (!err && place == &none && !strcmp(command, "dump")) {
		snprintf(msg, sizeof(msg), "%d dumps are waiting already; try again in a moment",
			CONTROL_WAITING_MAX);
		err = -EBUSY;
	}
	if (!err) {
		reply = json_object_new_object();
		err = reply ? 0 : -ENOMEM;
	}
	if (!err) {
		*place = *cl; /* control_done() may be called within the op */
		err = request_run(c, command, reason, last, &passed, reply, msg);
		if (err == -EINPROGRESS || place->fd < 0)
			cl->fd = -1;
		else
			place->fd = -1;
	}
	if (cl->fd >= 0) {
		send_answer(cl->fd, err, reply, msg, passed);
		client_close(cl);
	}
	if (passed >= 0)
		close(passed);
	json_object_put(reply);
	json_object_put(request);
}

/* ---- new clients ---- */

static bool may_control(int fd, char why[CONTROL_MSG_MAX])
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len)) {
		snprintf(why, CONTROL_MSG_MAX, "cannot tell who is asking: %s", strerror(errno));
		return false;
	}
	if (!peer.uid || peer.uid == geteuid())
		return true;
	snprintf(why, CONTROL_MSG_MAX, "user %u may not control a recording of user %u", peer.uid,
		geteuid());
	return false;
}

static void watch(struct control *c, int op, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events };

	epoll_ctl(c->epoll_fd, op, fd, &ev);
}

/* Returns whether there is a client whose request is to be read. */
static bool next_client(struct control *c)
{
	int fd;

	fd = accept4(c->socket.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return false;
		/* out of files or memory: clients in the queue would keep waking the poll for nothing */
		c->paused_ns = clock_mono_ns() + NSEC_PER_SEC;
		watch(c, EPOLL_CTL_MOD, c->socket.fd, 0);
		return false;
	}
	c->asking = (struct client){ .fd = fd, .id = ++c->last_id };
	c->deadline_ns = clock_mono_ns() + CONTROL_CLIENT_S * NSEC_PER_SEC;
	return true;
}

/* Returns false if the request has not arrived yet. */
static bool read_request(struct control *c)
{
	char text[CONTROL_REQUEST_MAX + 1], why[CONTROL_MSG_MAX];
	ssize_t n;

	n = recv(c->asking.fd, text, sizeof(text), MSG_DONTWAIT);
	/* only now: closing a socket with an unread request would discard the answer */
	if (n > 0 && !may_control(c->asking.fd, why)) {
		send_answer(c->asking.fd, -EACCES, NULL, why, -1);
		client_close(&c->asking);
	} else if (n > 0) {
		client_request(c, text, (size_t)n);
	} else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		if (clock_mono_ns() < c->deadline_ns)
			return false;
		send_answer(c->asking.fd, -ETIMEDOUT, NULL, "no request came", -1);
		client_close(&c->asking);
	} else {
		client_close(&c->asking);
	}
	return true;
}

void control_serve(struct control *c)
{
	if (!c)
		return;
	if (c->paused_ns && clock_mono_ns() >= c->paused_ns) {
		c->paused_ns = 0;
		watch(c, EPOLL_CTL_MOD, c->socket.fd, EPOLLIN);
	}
	for (int i = 0; i < TURNS_MAX && !c->paused_ns; i++) {
		bool known = c->asking.fd >= 0;

		if (!known && !next_client(c))
			return;
		if (c->asking.fd >= 0 && !read_request(c)) {
			/* further clients wait for their turn */
			if (!known) {
				watch(c, EPOLL_CTL_MOD, c->socket.fd, 0);
				watch(c, EPOLL_CTL_ADD, c->asking.fd, EPOLLIN);
			}
			return;
		}
		if (known)
			watch(c, EPOLL_CTL_MOD, c->socket.fd, EPOLLIN);
	}
}

void control_done(
	struct control *c, uint64_t id, int err, struct json_object *reply, const char *msg)
{
	for (int i = 0; c && i < CONTROL_WAITING_MAX; i++) {
		struct client *cl = &c->waiting[i];

		if (cl->fd >= 0 && cl->id == id) {
			send_answer(cl->fd, err, reply, msg, -1);
			client_close(cl);
			break;
		}
	}
	json_object_put(reply);
}

/* ---- start and end ---- */

int control_new(const struct control_ops *ops, void *arg, const char *directory,
	struct control **ret_control)
{
	char usual[PATH_MAX] = "", msg[CONTROL_MSG_MAX] = "";
	struct control *c;
	int err = 0;

	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->ops = ops;
	c->arg = arg;
	c->epoll_fd = c->socket.fd = c->asking.fd = -1;
	for (int i = 0; i < CONTROL_WAITING_MAX; i++)
		c->waiting[i].fd = -1;
	if (!directory) {
		err = control_directory(geteuid(), usual, sizeof(usual));
		directory = usual;
	}
	if (err)
		snprintf(msg, sizeof(msg), "%s", strerror(-err));
	else
		err = control_socket_open(directory, &c->socket, msg);
	if (!err) {
		c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		if (c->epoll_fd < 0) {
			err = -errno;
			snprintf(msg, sizeof(msg), "epoll: %s", strerror(-err));
		}
	}
	if (err) {
		log_warn("no control socket in %s: %s; inftrace start, stop, dump and status do "
			 "not reach this recording",
			directory, msg);
		control_free(c);
		return err;
	}
	watch(c, EPOLL_CTL_ADD, c->socket.fd, EPOLLIN);
	*ret_control = c;
	return 0;
}

int control_fd(const struct control *c)
{
	return c ? c->epoll_fd : -1;
}

static void client_end(struct client *cl)
{
	if (cl->fd < 0)
		return;
	send_answer(cl->fd, -ESRCH, NULL, "the recording has ended", -1);
	client_close(cl);
}

void control_free(struct control *c)
{
	if (!c)
		return;
	client_end(&c->asking);
	for (int i = 0; i < CONTROL_WAITING_MAX; i++)
		client_end(&c->waiting[i]);
	if (c->socket.fd >= 0)
		control_socket_close(&c->socket);
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	free(c);
}
