// SPDX-License-Identifier: BSD-2-Clause
#include "io/control.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/log.h"
#include "util/text.h"

#define TURNS_MAX 16 /* requests served before control returns to the recording */
#define DEPTH_MAX 8  /* nesting of JSON objects and arrays */
#define BACKLOG 16   /* clients the kernel queues until they are accepted */
#define DIRECTORY_MODE 0700
#define SOCKET_MODE 0600

struct client {
	int fd; /* -1: unused */
	uint64_t id;
};

struct control {
	control_run_fn run;
	void *arg;
	int fd, dir_fd;        /* the socket, and the directory it is in */
	char name[32];         /* of the socket there; "": there is none */
	int epoll_fd;
	struct client asking; /* connected, request not received yet */
	uint64_t deadline_ns; /* for its request */
	uint64_t paused_ns;   /* no client is accepted until then; 0: not paused */
	uint64_t last_id;
	struct client waiting[CONTROL_WAITING_MAX];
};

/* ---- messages ---- */

int control_refuse(char msg[CONTROL_MSG_MAX], int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, CONTROL_MSG_MAX, fmt, ap);
	va_end(ap);
	return err;
}

int control_parse(
	const char *text, size_t len, struct json_object **ret_object, char msg[CONTROL_MSG_MAX])
{
	struct json_tokener *tokener = json_tokener_new_ex(DEPTH_MAX);
	enum json_tokener_error why;
	struct json_object *object;
	int err = 0;

	if (!tokener)
		return -ENOMEM;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	object = json_tokener_parse_ex(tokener, text, (int)len);
	why = json_tokener_get_error(tokener);
	if (why != json_tokener_success)
		err = control_refuse(msg, -EBADMSG, "not JSON: %s", json_tokener_error_desc(why));
	else if (!json_object_is_type(object, json_type_object))
		err = control_refuse(msg, -EBADMSG, "not a JSON object");
	else
		*ret_object = json_object_get(object);
	json_object_put(object);
	json_tokener_free(tokener);
	return err;
}

static int fail(char msg[CONTROL_MSG_MAX], int err, const char *what)
{
	return control_refuse(msg, err, "%s: %s", what, strerror(-err));
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
static void send_text(int fd, const char *text, size_t len, int passed)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { (char *)text, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

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
}

static void send_answer(
	int fd, int err, struct json_object *reply, const char *msg, int passed)
{
	static const char unfit[] = "{\"ok\":false,\"error\":\"the answer does not fit a message\"}";
	struct json_object *answer = json_object_new_object();
	char *text;
	size_t len;

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
	text = render(answer, &len);
	send_text(fd, text ? text : unfit, text ? len : strlen(unfit), passed);
	free(text);
	json_object_put(answer);
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
	if (!text || strlen(text) != (size_t)json_object_get_string_len(value))
		return control_refuse(msg, -EBADMSG, "\"%s\" is not a string", key);
	*ret = text;
	return 0;
}

static int request_command(const char *text, enum control_command *ret, char msg[CONTROL_MSG_MAX])
{
	static const char *const names[] = {
		[CONTROL_START] = "start",
		[CONTROL_STOP] = "stop",
		[CONTROL_DUMP] = "dump",
		[CONTROL_STATUS] = "status",
		[CONTROL_OPEN] = "open",
	};

	if (!text)
		return control_refuse(msg, -EBADMSG, "\"command\" is missing");
	for (*ret = 0; *ret < CONTROL_COMMANDS; ++*ret) {
		if (!strcmp(text, names[*ret]))
			return 0;
	}
	return control_refuse(msg, -EINVAL, "no such command; there are start, stop, dump, status and open");
}

static int request_parse(const char *text, size_t len, struct json_object **ret_object, struct control_request *rq,
	char msg[CONTROL_MSG_MAX])
{
	const char *command = NULL, *last = NULL;
	int err;

	if (len > CONTROL_REQUEST_MAX)
		return control_refuse(msg, -E2BIG, "the request is longer than %d bytes", CONTROL_REQUEST_MAX);
	err = control_parse(text, len, ret_object, msg);
	if (!err)
		err = request_string(*ret_object, "command", &command, msg);
	if (!err)
		err = request_string(*ret_object, "reason", &rq->reason, msg);
	if (!err)
		err = request_string(*ret_object, "last", &last, msg);
	if (!err && last && parse_last(last, &rq->last))
		err = control_refuse(msg, -EBADMSG, "\"last\" is not a number or time");
	rq->reason = rq->reason ?: "";
	if (!err && strlen(rq->reason) >= CONTROL_REASON_MAX)
		err = control_refuse(msg, -E2BIG, "the reason is longer than %d bytes", CONTROL_REASON_MAX - 1);
	return err ?: request_command(command, &rq->command, msg);
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
	static const char taken[] = "{\"taken\":true}";
	struct client none = { .fd = -1 }, *place = free_place(c) ?: &none, *cl = &c->asking;
	struct json_object *request = NULL, *reply = json_object_new_object();
	struct control_request rq = { .id = cl->id, .fd = -1 };
	char msg[CONTROL_MSG_MAX] = "";
	int err;

	err = request_parse(text, len, &request, &rq, msg);
	if (!err && place == &none && rq.command == CONTROL_DUMP)
		err = control_refuse(msg, -EBUSY, "%d dumps are waiting already; try again in a moment", CONTROL_WAITING_MAX);
	if (!err && !reply)
		err = -ENOMEM;
	if (!err) {
		if (rq.command <= CONTROL_DUMP)
			send_text(cl->fd, taken, strlen(taken), -1);
		*place = *cl; /* control_done() may be called meanwhile */
		err = c->run(c->arg, &rq, reply, msg);
		if (err == -EINPROGRESS || place->fd < 0)
			cl->fd = -1;
		else
			place->fd = -1;
	}
	if (cl->fd >= 0) {
		send_answer(cl->fd, err, reply, msg, rq.fd);
		client_close(cl);
	}
	if (rq.fd >= 0)
		close(rq.fd);
	json_object_put(reply);
	json_object_put(request);
}

/* ---- new clients ---- */

static int may_control(int fd, char why[CONTROL_MSG_MAX])
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return fail(why, -errno, "cannot tell who is asking");
	if (!peer.uid || peer.uid == geteuid())
		return 0;
	return control_refuse(why, -EACCES, "user %u may not control a recording of user %u", peer.uid, geteuid());
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

	fd = accept4(c->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return false;
		/* out of files or memory: clients in the queue would keep waking the poll for nothing */
		c->paused_ns = clock_mono_ns() + NSEC_PER_SEC;
		watch(c, EPOLL_CTL_MOD, c->fd, 0);
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
	if (n > 0 && may_control(c->asking.fd, why)) {
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
		watch(c, EPOLL_CTL_MOD, c->fd, EPOLLIN);
	}
	for (int i = 0; i < TURNS_MAX && !c->paused_ns; i++) {
		bool known = c->asking.fd >= 0;

		if (!known && !next_client(c))
			return;
		if (c->asking.fd >= 0 && !read_request(c)) {
			/* further clients wait for their turn */
			if (!known) {
				watch(c, EPOLL_CTL_MOD, c->fd, 0);
				watch(c, EPOLL_CTL_ADD, c->asking.fd, EPOLLIN);
			}
			return;
		}
		if (known)
			watch(c, EPOLL_CTL_MOD, c->fd, EPOLLIN);
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

/* ---- the socket ---- */

int control_directory(uid_t uid, char *buf, size_t size)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	int n;

	if (!uid)
		n = snprintf(buf, size, "/run/inftrace");
	else if (uid == geteuid() && runtime && *runtime == '/')
		n = snprintf(buf, size, "%s/inftrace", runtime);
	else
		n = snprintf(buf, size, "/run/user/%u/inftrace", uid);
	return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

static int open_directory(const char *directory, int *ret_fd, char msg[CONTROL_MSG_MAX])
{
	struct stat st;
	int fd, err = 0;

	if (mkdir(directory, DIRECTORY_MODE) && errno != EEXIST)
		return fail(msg, -errno, "cannot create the directory");
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return control_refuse(msg, -ENOTDIR, "not a directory (links are not followed); remove it");
	if (fd < 0)
		return fail(msg, -errno, "cannot open the directory");
	if (fstat(fd, &st))
		err = fail(msg, -errno, "cannot look at the directory");
	else if (st.st_uid != geteuid())
		err = control_refuse(msg, -EPERM, "the directory belongs to user %u", st.st_uid);
	else if (st.st_mode & 022)
		err = control_refuse(msg, -EPERM, "others may write to the directory; chmod 700 fixes that");
	if (err)
		close(fd);
	else
		*ret_fd = fd;
	return err;
}

/* Goes through the descriptor of the directory that was checked, which also allows long names
 * (sun_path has 108 bytes). */
static void address_of(int dir_fd, const char *name, struct sockaddr_un *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%.32s", dir_fd, name);
}

/* Whether it is a socket that nobody listens on any more. */
static bool is_left_behind(int dir_fd, const char *name)
{
	struct sockaddr_un sa;
	struct stat st;
	bool dead;
	int fd;

	/* connecting to something that is no socket is refused as well */
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISSOCK(st.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	address_of(dir_fd, name, &sa);
	/* EPROTOTYPE: of another version, which may be running */
	dead = connect(fd, (struct sockaddr *)&sa, sizeof(sa)) && errno == ECONNREFUSED;
	close(fd);
	return dead;
}

/* The process in the name; 0: the file is not one of ours. */
static pid_t pid_of(const char *name)
{
	int pid = 0, end = 0;

	if (sscanf(name, "%d" CONTROL_SUFFIX "%n", &pid, &end) != 1 &&
		sscanf(name, ".%d.new%n", &pid, &end) != 1)
		return 0;
	return pid > 0 && end && !name[end] ? pid : 0;
}

/*
 * Removes the sockets of recorders that were killed. Only names whose process is gone, or our own:
 * nobody can take such a name between the check and the removal.
 */
static void remove_left_behind(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((d = readdir(dir))) {
		pid_t pid = pid_of(d->d_name);

		if (!pid || (pid != getpid() && (!kill(pid, 0) || errno != ESRCH)))
			continue;
		if (is_left_behind(dir_fd, d->d_name))
			unlinkat(dir_fd, d->d_name, 0);
	}
	closedir(dir);
}

/* The socket is bound under another name and renamed once it listens, so that whoever finds it can connect. */
static int open_socket(struct control *c, char msg[CONTROL_MSG_MAX])
{
	struct sockaddr_un sa;
	char name[32], new_name[32];
	int err;

	snprintf(name, sizeof(name), "%d" CONTROL_SUFFIX, getpid());
	snprintf(new_name, sizeof(new_name), ".%d.new", getpid());
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return fail(msg, -errno, "socket");
	/* the file gets the mode of the socket, less the umask, so it never has any other
	 * (net/unix/af_unix.c, unix_bind_bsd()) */
	if (fchmod(c->fd, SOCKET_MODE))
		return fail(msg, -errno, "fchmod");
	address_of(c->dir_fd, new_name, &sa);
	if (bind(c->fd, (struct sockaddr *)&sa, sizeof(sa)))
		return fail(msg, -errno, "bind");
	if (listen(c->fd, BACKLOG)) {
		err = fail(msg, -errno, "listen");
	} else if (renameat2(c->dir_fd, new_name, c->dir_fd, name, RENAME_NOREPLACE)) {
		err = fail(msg, errno == EEXIST ? -EADDRINUSE : -errno, name);
	} else {
		memcpy(c->name, name, sizeof(name));
		return 0;
	}
	unlinkat(c->dir_fd, new_name, 0);
	return err;
}

/* ---- start and end ---- */

static int control_open(struct control *c, const char *directory, char msg[CONTROL_MSG_MAX])
{
	int err = open_directory(directory, &c->dir_fd, msg);

	if (err)
		return err;
	remove_left_behind(c->dir_fd);
	err = open_socket(c, msg);
	if (err)
		return err;
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (c->epoll_fd < 0)
		return fail(msg, -errno, "epoll");
	watch(c, EPOLL_CTL_ADD, c->fd, EPOLLIN);
	return 0;
}

int control_new(control_run_fn run, void *arg, const char *directory, struct control **ret_control)
{
	char usual[PATH_MAX] = "", msg[CONTROL_MSG_MAX] = "";
	struct control *c;
	int err = 0;

	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->run = run;
	c->arg = arg;
	c->epoll_fd = c->fd = c->dir_fd = c->asking.fd = -1;
	for (int i = 0; i < CONTROL_WAITING_MAX; i++)
		c->waiting[i].fd = -1;
	if (!directory) {
		err = control_directory(geteuid(), usual, sizeof(usual));
		directory = usual;
	}
	if (err)
		snprintf(msg, sizeof(msg), "%s", strerror(-err));
	else
		err = control_open(c, directory, msg);
	if (err) {
		log_warn("no control socket in %s: %s; inftrace start, stop, dump and status do "
			 "not reach this recording",
			directory, msg);
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
	if (c->name[0])
		unlinkat(c->dir_fd, c->name, 0);
	if (c->fd >= 0)
		close(c->fd);
	if (c->dir_fd >= 0)
		close(c->dir_fd);
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	free(c);
}
