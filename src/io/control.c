// SPDX-License-Identifier: BSD-2-Clause
/* The control socket: messages, the recorder's side of it, and the clients'. */
#include "io/control.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "record.h"
#include "target/process.h"
#include "util/clock.h"
#include "util/list.h"
#include "util/log.h"
#include "util/passing.h"
#include "util/text.h"

#define TURNS_MAX 16 /* requests served before control returns to the recording */
#define DEPTH_MAX 8  /* nesting of JSON objects and arrays */
#define BACKLOG 16   /* clients the kernel queues until they are accepted */
#define DIRECTORY_MODE 0700
#define SOCKET_MODE 0600
#define CONTROL_SERVICE_SOCKETS CONTROL_SERVICE_RUNTIME "/inftrace" /* control_directory() there */
#define TARGETS_NAMED 8
#define PEERS_MAX 256  /* recordings of a user that are asked, at most */
#define MESSAGES_MAX 8 /* before the answer, at most */

struct client {
	int fd; /* -1: unused */
	uint64_t id;
};

struct control {
	control_run_fn run;
	void *arg;
	int fd, dir_fd; /* the socket, and the directory it is in */
	char name[32];  /* of the socket there; "": there is none */
	int epoll_fd;
	struct client asking; /* connected, request not received yet */
	uint64_t deadline_ns; /* for its request */
	uint64_t paused_ns;   /* no client is accepted until then; 0: not paused */
	uint64_t last_id;
	struct client waiting[CONTROL_WAITING_MAX];
};

const char *const control_commands[CONTROL_COMMANDS] = {
	[CONTROL_START] = "start",
	[CONTROL_STOP] = "stop",
	[CONTROL_DUMP] = "dump",
	[CONTROL_STATUS] = "status",
	[CONTROL_OPEN] = "open",
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

int control_parse(const char *text, size_t len, struct json_object **ret_object, char msg[CONTROL_MSG_MAX])
{
	struct json_tokener *tokener = json_tokener_new_ex(DEPTH_MAX);
	enum json_tokener_error why;
	struct json_object *object;
	int err = 0;

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

static int control_fail(char msg[CONTROL_MSG_MAX], int err, const char *what)
{
	return control_refuse(msg, err, "%s: %s", what, strerror(-err));
}

/* Halves the longest list of an answer that is too long for a message. Returns false if there is none. */
static bool answer_shorten(struct json_object *answer)
{
	struct json_object *longest = NULL;
	size_t n = 1;

	json_object_object_foreach(answer, key, value)
	{
		(void)key;
		if (json_object_is_type(value, json_type_array) && json_object_array_length(value) > n) {
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

char *control_text(struct json_object *object, size_t *ret_len)
{
	size_t len;
	const char *text = json_object_to_json_string_length(object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &len);
	char *out = xmalloc(TEXT_JSON_MAX(len) + 1), *end = text_json(out, text, len);

	*end = 0;
	*ret_len = (size_t)(end - out);
	return out;
}

/* Sends one message, with a descriptor unless that is -1. A client that cannot take it at once loses it. */
static void send_text(int fd, const char *text, size_t len, int passed)
{
	int err = passing_send(fd, text, len, &passed, passed >= 0, MSG_DONTWAIT);

	if (err)
		log_debug("a client of the control socket left: %s", strerror(-err));
}

static void control_send_answer(int fd, int err, struct json_object *reply, const char *msg, int passed)
{
	static const char unfit[] = "{\"ok\":false,\"error\":\"the answer does not fit a message\"}";
	struct json_object *answer = json_object_new_object();
	char *text;
	size_t len;

	json_object_object_add(answer, "ok", json_object_new_boolean(!err));
	if (err) {
		json_object_object_add(answer, "error", json_object_new_string(msg && *msg ? msg : strerror(-err)));
	} else if (reply) {
		json_object_object_foreach(reply, key, value)
		{
			if (strcmp(key, "ok"))
				json_object_object_add(answer, key, json_object_get(value));
		}
	}
	text = control_text(answer, &len);
	while (len > CONTROL_REPLY_MAX && answer_shorten(answer)) {
		free(text);
		text = control_text(answer, &len);
	}
	if (len > CONTROL_REPLY_MAX)
		send_text(fd, unfit, strlen(unfit), passed);
	else
		send_text(fd, text, len, passed);
	free(text);
	json_object_put(answer);
}

/* ---- requests ---- */

/* A string of the request; NULL if it is not there. -EBADMSG. */
static int request_string(struct json_object *request, const char *key, const char **ret, char msg[CONTROL_MSG_MAX])
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

static int request_parse(const char *text, size_t len, struct json_object **ret_object, struct control_request *rq,
	char msg[CONTROL_MSG_MAX])
{
	const char *command = NULL, *last = NULL;
	int err;

	if (len > CONTROL_REQUEST_MAX)
		return control_refuse(msg, -E2BIG, "the request is longer than %d bytes", CONTROL_REQUEST_MAX);
	err = control_parse(text, len, ret_object, msg)
		      ?: request_string(*ret_object, "command", &command, msg)
			 ?
		 : request_string(*ret_object, "reason", &rq->reason, msg)
			 ?
			 : request_string(*ret_object, "last", &last, msg);
	if (!err && last && parse_last(last, &rq->last))
		err = control_refuse(msg, -EBADMSG, "\"last\" is not a number or time");
	rq->reason = rq->reason ?: "";
	if (!err && strlen(rq->reason) >= CONTROL_REASON_MAX)
		err = control_refuse(msg, -E2BIG, "the reason is longer than %d bytes", CONTROL_REASON_MAX - 1);
	if (!err && !command)
		err = control_refuse(msg, -EBADMSG, "\"command\" is missing");
	for (rq->command = 0; !err && rq->command < CONTROL_COMMANDS; rq->command++) {
		if (!strcmp(command, control_commands[rq->command]))
			return 0;
	}
	return err ?: control_refuse(msg, -EINVAL, "no such command; there are start, stop, dump, status and open");
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
	struct client none = { .fd = -1 }, *place = &none, *cl = &c->asking;
	struct json_object *request = NULL, *reply = json_object_new_object();
	struct control_request rq = { .id = cl->id, .fd = -1 };
	char msg[CONTROL_MSG_MAX] = "";
	int err;

	for (int i = 0; i < CONTROL_WAITING_MAX; i++)
		place = c->waiting[i].fd < 0 ? &c->waiting[i] : place;
	err = request_parse(text, len, &request, &rq, msg);
	if (!err && place == &none && rq.command == CONTROL_DUMP)
		err = control_refuse(msg, -EBUSY, "%d dumps are waiting already; try again in a moment", CONTROL_WAITING_MAX);
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
		control_send_answer(cl->fd, err, reply, msg, rq.fd);
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
		return control_fail(why, -errno, "cannot tell who is asking");
	if (!peer.uid || peer.uid == geteuid())
		return 0;
	return control_refuse(why, -EACCES, "user %u may not control a recording of user %u", peer.uid, geteuid());
}

static void control_watch_fd(struct control *c, int op, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events };

	epoll_ctl(c->epoll_fd, op, fd, &ev);
}

/* Returns whether there is a client whose request is to be read. */
static bool control_accept_client(struct control *c)
{
	int fd;

	fd = accept4(c->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return false;
		/* out of files or memory: clients in the queue would keep waking the poll for nothing */
		c->paused_ns = clock_mono_ns() + NSEC_PER_SEC;
		control_watch_fd(c, EPOLL_CTL_MOD, c->fd, 0);
		return false;
	}
	c->asking = (struct client){ .fd = fd, .id = ++c->last_id };
	c->deadline_ns = clock_mono_ns() + CONTROL_CLIENT_S * NSEC_PER_SEC;
	return true;
}

/* Returns false if the request has not arrived yet. */
static bool control_read_request(struct control *c)
{
	char text[CONTROL_REQUEST_MAX + 1], why[CONTROL_MSG_MAX];
	ssize_t n;

	n = recv(c->asking.fd, text, sizeof(text), MSG_DONTWAIT);
	/* only now: closing a socket with an unread request would discard the answer */
	if (n > 0 && may_control(c->asking.fd, why)) {
		control_send_answer(c->asking.fd, -EACCES, NULL, why, -1);
		client_close(&c->asking);
	} else if (n > 0) {
		client_request(c, text, (size_t)n);
	} else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		if (clock_mono_ns() < c->deadline_ns)
			return false;
		control_send_answer(c->asking.fd, -ETIMEDOUT, NULL, "no request came", -1);
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
		control_watch_fd(c, EPOLL_CTL_MOD, c->fd, EPOLLIN);
	}
	for (int i = 0; i < TURNS_MAX && !c->paused_ns; i++) {
		bool known = c->asking.fd >= 0;

		if (!known && !control_accept_client(c))
			return;
		if (c->asking.fd >= 0 && !control_read_request(c)) {
			/* further clients wait for their turn */
			if (!known) {
				control_watch_fd(c, EPOLL_CTL_MOD, c->fd, 0);
				control_watch_fd(c, EPOLL_CTL_ADD, c->asking.fd, EPOLLIN);
			}
			return;
		}
		if (known)
			control_watch_fd(c, EPOLL_CTL_MOD, c->fd, EPOLLIN);
	}
}

void control_done(struct control *c, uint64_t id, int err, struct json_object *reply, const char *msg)
{
	for (int i = 0; c && i < CONTROL_WAITING_MAX; i++) {
		struct client *cl = &c->waiting[i];

		if (cl->fd >= 0 && cl->id == id) {
			control_send_answer(cl->fd, err, reply, msg, -1);
			client_close(cl);
			break;
		}
	}
	json_object_put(reply);
}

/* ---- the socket ---- */

/*
 * Where the sockets of a user are: /run/inftrace for root; otherwise $XDG_RUNTIME_DIR/inftrace if
 * the user is the caller and that is set, else /run/user/UID/inftrace. -ENAMETOOLONG.
 */
static int control_directory(uid_t uid, char *buf, size_t size)
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

static int control_open_directory(const char *directory, int *ret_fd, char msg[CONTROL_MSG_MAX])
{
	struct stat st;
	int fd, err = 0;

	if (mkdir(directory, DIRECTORY_MODE) && errno != EEXIST)
		return control_fail(msg, -errno, "cannot create the directory");
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return control_refuse(msg, -ENOTDIR, "not a directory (links are not followed); remove it");
	if (fd < 0)
		return control_fail(msg, -errno, "cannot open the directory");
	if (fstat(fd, &st))
		err = control_fail(msg, -errno, "cannot look at the directory");
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

/* The address goes through the descriptor of the checked directory, which also allows long names
 * (sun_path has 108 bytes). */
static void socket_address_in(int dir_fd, const char *name, struct sockaddr_un *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%.32s", dir_fd, name);
}

/* Whether it is a socket that nobody listens on any more. */
static bool socket_is_left_behind(int dir_fd, const char *name)
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
	socket_address_in(dir_fd, name, &sa);
	/* EPROTOTYPE: of another version, which may be running */
	dead = connect(fd, (struct sockaddr *)&sa, sizeof(sa)) && errno == ECONNREFUSED;
	close(fd);
	return dead;
}

/* Returns the PID in the name; 0: the file is not one of ours. */
static pid_t socket_name_pid(const char *name)
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
		pid_t pid = socket_name_pid(d->d_name);

		if (!pid || (pid != getpid() && (!kill(pid, 0) || errno != ESRCH)))
			continue;
		if (socket_is_left_behind(dir_fd, d->d_name))
			unlinkat(dir_fd, d->d_name, 0);
	}
	closedir(dir);
}

/* The socket is bound under another name and renamed once it listens, so that whoever finds it can connect. */
static int control_open_socket(struct control *c, char msg[CONTROL_MSG_MAX])
{
	struct sockaddr_un sa;
	char name[32], new_name[32];
	int err;

	snprintf(name, sizeof(name), "%d" CONTROL_SUFFIX, getpid());
	snprintf(new_name, sizeof(new_name), ".%d.new", getpid());
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return control_fail(msg, -errno, "socket");
	/* the file gets the mode of the socket, less the umask, so it never has any other
	 * (net/unix/af_unix.c, unix_bind_bsd()) */
	if (fchmod(c->fd, SOCKET_MODE))
		return control_fail(msg, -errno, "fchmod");
	socket_address_in(c->dir_fd, new_name, &sa);
	if (bind(c->fd, (struct sockaddr *)&sa, sizeof(sa)))
		return control_fail(msg, -errno, "bind");
	if (listen(c->fd, BACKLOG)) {
		err = control_fail(msg, -errno, "listen");
	} else if (renameat2(c->dir_fd, new_name, c->dir_fd, name, RENAME_NOREPLACE)) {
		err = control_fail(msg, errno == EEXIST ? -EADDRINUSE : -errno, name);
	} else {
		memcpy(c->name, name, sizeof(name));
		return 0;
	}
	unlinkat(c->dir_fd, new_name, 0);
	return err;
}

/* ---- start and end ---- */

int control_new(control_run_fn run, void *arg, const char *directory, struct control **ret_control)
{
	char usual[PATH_MAX] = "", msg[CONTROL_MSG_MAX] = "";
	struct control *c = xcalloc(1, sizeof(*c));
	int err = 0;

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
		control_refuse(msg, err, "%s", strerror(-err));
	else
		err = control_open_directory(directory, &c->dir_fd, msg);
	if (!err) {
		remove_left_behind(c->dir_fd);
		err = control_open_socket(c, msg);
	}
	if (!err) {
		c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		err = c->epoll_fd < 0 ? control_fail(msg, -errno, "epoll") : 0;
	}
	if (err) {
		log_warn("no control socket in %s: %s; inftrace start, stop, dump and status do not reach this recording", directory, msg);
		control_free(c);
		return err;
	}
	control_watch_fd(c, EPOLL_CTL_ADD, c->fd, EPOLLIN);
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
	control_send_answer(cl->fd, -ESRCH, NULL, "the recording has ended", -1);
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

/* One question and its answer. */
struct ask {
	const struct control_peer *peer;
	const char *request;
	pthread_t thread;
	bool taken; /* the recorder has said that work has begun */
	struct json_object *reply;
	int passed; /* the descriptor that came with the answer, or -1 */
	int err;
	char msg[CONTROL_MSG_MAX]; /* with -EREMOTEIO and -EPROTO */
};

/* ---- clients: one question ---- */

/*
 * A user's directory can hold anything that the user puts there: a name like a socket's may be a link to another
 * socket, which must not be contacted, or the socket of another process. So the file must be a socket (no link) of
 * that user, and the process that listens must be the one in the name, running as that user.
 */
static int connect_peer(const struct control_peer *peer, int *ret_fd)
{
	const struct timeval limit = { CONTROL_ANSWER_MS / 1000, CONTROL_ANSWER_MS % 1000 * 1000 };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int file, fd = -1, err = 0;
	struct ucred cred;
	socklen_t len = sizeof(cred);
	struct stat st;

	file = open(peer->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (file < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	if (fstat(file, &st) || !S_ISSOCK(st.st_mode) || st.st_uid != peer->uid) {
		err = -EACCES;
		goto out;
	}
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d", file);
	/* while it has no room for another client, connect() waits for as long as send() may: unix(7) */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) ||
		TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&sa, sizeof(sa))))
		err = errno == ECONNREFUSED ? -ESRCH : -errno;
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		err = -errno;
	else if (cred.uid != peer->uid || cred.pid != peer->pid)
		err = -EACCES;
	if (err == -EAGAIN)
		err = -ETIMEDOUT;
out:
	close(file);
	if (err && fd >= 0)
		close(fd);
	if (!err)
		*ret_fd = fd;
	return err;
}

/* Returns -EAGAIN if the message is not the answer yet. */
static int ask_take_message(struct ask *a, const char *text, size_t len)
{
	struct json_object *object, *value;
	int err = 0;

	if (control_parse(text, len, &object, a->msg))
		return -EPROTO;
	if (!json_object_object_get_ex(object, "ok", &value)) {
		a->taken = true;
		err = -EAGAIN;
	} else if (json_object_get_boolean(value)) {
		a->reply = json_object_get(object);
	} else {
		json_object_object_get_ex(object, "error", &value);
		snprintf(a->msg, sizeof(a->msg), "%s", value ? json_object_get_string(value) : "no reason given");
		err = -EREMOTEIO;
	}
	json_object_put(object);
	return err;
}

static int ask_read_message(struct ask *a, int fd, char *buf)
{
	int passed, flags, err = -EMSGSIZE;
	ssize_t n = passing_receive(fd, buf, CONTROL_REPLY_MAX, &passed, 1, MSG_DONTWAIT, &flags);

	if (n <= 0)
		err = n < 0 && n != -ECONNRESET ? (int)n : -ESRCH;
	else if (!(flags & MSG_TRUNC))
		err = ask_take_message(a, buf, (size_t)n);
	if (!err && !(flags & MSG_CTRUNC))
		a->passed = passed;
	else if (passed >= 0)
		close(passed);
	return err;
}

/* Sets a->err, a->reply, a->passed and a->msg. */
static void *ask_one_peer(void *arg)
{
	struct ask *a = arg;
	uint64_t until = clock_mono_ns() + CONTROL_ANSWER_MS * NSEC_PER_MSEC;
	char *buf = xmalloc(CONTROL_REPLY_MAX);
	struct pollfd p = { .fd = -1, .events = POLLIN };
	int err = connect_peer(a->peer, &p.fd);

	a->passed = -1;
	/* a recorder that refuses a connection holds an answer already */
	if (!err && send(p.fd, a->request, strlen(a->request), MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		err = -errno;
	for (unsigned int n = 0; !err; n++) {
		uint64_t now = clock_mono_ns();
		bool taken = a->taken;

		err = poll(&p, 1, until > now ? (int)((until - now) / NSEC_PER_MSEC) + 1 : 0) ? ask_read_message(a, p.fd, buf) : -ETIMEDOUT;
		if (a->taken && !taken)
			until = clock_mono_ns() + CONTROL_FINISH_MS * NSEC_PER_MSEC;
		if (err == -EAGAIN && n < MESSAGES_MAX)
			err = 0;
		else if (!err)
			break;
	}
	if (err == -EMSGSIZE || err == -EAGAIN) {
		snprintf(a->msg, sizeof(a->msg), "more than %d bytes or %d messages", CONTROL_REPLY_MAX, MESSAGES_MAX);
		err = -EPROTO;
	}
	a->err = err;
	free(buf);
	if (p.fd >= 0)
		close(p.fd);
	return NULL;
}

/* Asks all at once, so that a stopped recorder does not hold up the others. */
static void ask_all(struct ask *asks, size_t n, enum control_command command, const char *reason, const char *last)
{
	struct json_object *request = json_object_new_object();
	const char *text;

	json_object_object_add(request, "command", json_object_new_string(control_commands[command]));
	if (reason)
		json_object_object_add(request, "reason", json_object_new_string(reason));
	if (last)
		json_object_object_add(request, "last", json_object_new_string(last));
	text = json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN);
	for (size_t i = 0; i < n; i++) {
		asks[i].request = text;
		if (pthread_create(&asks[i].thread, NULL, ask_one_peer, &asks[i])) {
			asks[i].thread = pthread_self();
			ask_one_peer(&asks[i]);
		}
	}
	for (size_t i = 0; i < n; i++) {
		if (!pthread_equal(asks[i].thread, pthread_self()))
			pthread_join(asks[i].thread, NULL);
	}
	json_object_put(request);
}

/* Says in words why it failed. */
static void ask_explain(const struct ask *a, char msg[CONTROL_MSG_MAX])
{
	pid_t pid = a->peer->pid;
	char said[CONTROL_MSG_MAX - 64];

	text_printable(said, sizeof(said), a->msg);
	if (a->err == -EREMOTEIO)
		control_refuse(msg, 0, "%s", said);
	else if (a->err == -EPROTO)
		control_refuse(msg, 0, "recorder %d gave an invalid answer: %s", pid, said);
	else if (a->err == -ESRCH)
		control_refuse(msg, 0, "the recording of recorder %d has ended", pid);
	else if (a->err == -EPROTOTYPE)
		control_refuse(msg, 0, "recorder %d is another version of inftrace", pid);
	else if (a->err == -ETIMEDOUT)
		control_refuse(msg, 0, "recorder %d %s", pid,
			a->taken ? "has not finished yet; inftrace status shows its progress" : "does not answer; is it stopped, or still starting?");
	else
		control_refuse(msg, 0, "cannot talk to recorder %d: %s", pid, strerror(-a->err));
}

int control_ask(const struct control_peer *peer, enum control_command command, const char *reason, const char *last,
	struct json_object **ret_reply, int *ret_fd)
{
	struct ask a = { .peer = peer };
	char msg[CONTROL_MSG_MAX];

	ask_all(&a, 1, command, reason, last);
	if (a.err) {
		ask_explain(&a, msg);
		return log_fail(a.err, "%s: %s", control_commands[command], msg);
	}
	*ret_reply = a.reply;
	if (ret_fd)
		*ret_fd = a.passed;
	else if (a.passed >= 0)
		close(a.passed);
	return 0;
}

/* ---- which recordings there are ---- */

void control_peer_free(struct control_peer *peer)
{
	free(peer->path);
	json_object_put(peer->status);
	memset(peer, 0, sizeof(*peer));
}

void control_peers_free(struct control_peer *peers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		control_peer_free(&peers[i]);
	free(peers);
}

struct peers {
	struct control_peer *list;
	size_t n, size;
};

/* Reads only a directory of the user's own, since in any other somebody else decides what is
 * there. A directory that is missing or unreadable holds no recordings. */
static void peers_add_directory(struct peers *p, const char *directory, uid_t uid)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = NULL;
	struct dirent *d;
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && st.st_uid == uid && !(st.st_mode & 022))
		dir = fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((d = readdir(dir)) && p->n < PEERS_MAX) {
		pid_t pid = *d->d_name >= '0' && *d->d_name <= '9' ? socket_name_pid(d->d_name) : 0;

		if (pid)
			*list_push(p->list, p->n, p->size) = (struct control_peer){ .pid = pid, .uid = uid, .path = xasprintf("%s/%s", directory, d->d_name) };
	}
	closedir(dir);
}

/*
 * Only root can put anything into /run, even a link, so the service's directory there is the one that systemd made for it,
 * and its owner is the user that root lets it run as.
 */
static void peers_of_service(struct peers *p, const struct control_where *where)
{
	struct stat run, st;

	if (stat("/run", &run) || run.st_uid || run.st_mode & 022)
		return;
	if (stat(CONTROL_SERVICE_RUNTIME, &st) || st.st_mode & 022)
		return;
	if (where->service || st.st_uid == where->uid)
		peers_add_directory(p, CONTROL_SERVICE_SOCKETS, st.st_uid);
}

struct control_where control_where_own(void)
{
	return (struct control_where){ .uid = geteuid(), .service = !geteuid() };
}

static void find_peers(const struct control_where *where, struct peers *p)
{
	char usual[PATH_MAX] = "";

	if (where->directory) {
		peers_add_directory(p, where->directory, where->uid);
		return;
	}
	/* where the name is too long, no recorder could have made a socket either */
	if (!control_directory(where->uid, usual, sizeof(usual)))
		peers_add_directory(p, usual, where->uid);
	if (strcmp(usual, CONTROL_SERVICE_SOCKETS))
		peers_of_service(p, where);
}

/* Asks for the status of each; leaves out recordings that have ended. */
static void ask_peers(struct peers *p)
{
	struct ask *asks = xcalloc(p->n + 1, sizeof(*asks));
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		asks[i].peer = &p->list[i];
	ask_all(asks, p->n, CONTROL_STATUS, NULL, NULL);
	for (size_t i = 0; i < p->n; i++) {
		struct control_peer *peer = &p->list[i];

		if (asks[i].err == -ESRCH || asks[i].err == -EACCES) {
			control_peer_free(peer);
			continue;
		}
		peer->status = asks[i].reply;
		if (asks[i].passed >= 0)
			close(asks[i].passed);
		if (asks[i].err)
			ask_explain(&asks[i], peer->error);
		p->list[n++] = *peer;
	}
	p->n = n;
	free(asks);
}

/* ---- choosing one ---- */

/* Returns the length of an array in a recording's status; 0: there is none. */
static size_t peer_get_list(const struct control_peer *peer, const char *key, struct json_object **ret_list)
{
	if (!json_object_object_get_ex(peer->status, key, ret_list) ||
		!json_object_is_type(*ret_list, json_type_array))
		return 0;
	return json_object_array_length(*ret_list);
}

static bool peer_records_all(const struct control_peer *peer)
{
	struct json_object *all;

	return json_object_object_get_ex(peer->status, "all", &all) && json_object_get_boolean(all);
}

#define FITS_NOT 4

/* How well it fits -p PID: the smaller, the better. */
static int peer_fit_pid(const struct control_peer *peer, pid_t pid)
{
	struct json_object *pids;

	if (peer->pid == pid)
		return 0;
	for (size_t i = 0; i < peer_get_list(peer, "targets", &pids); i++) {
		if (json_object_get_int64(json_object_array_get_idx(pids, i)) == pid)
			return 1;
	}
	return peer_records_all(peer) ? 2 : peer->status ? FITS_NOT
							 : 3;
}

/* Keeps only the recordings that fit best, if any fits. */
static void peers_keep(struct peers *p, pid_t pid)
{
	int best = FITS_NOT - 1;
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		best = peer_fit_pid(&p->list[i], pid) < best ? peer_fit_pid(&p->list[i], pid) : best;
	for (size_t i = 0; i < p->n; i++) {
		if (peer_fit_pid(&p->list[i], pid) == best)
			p->list[n++] = p->list[i];
		else
			control_peer_free(&p->list[i]);
	}
	p->n = n;
}

static int compare_peer_pids(const void *a, const void *b)
{
	const struct control_peer *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

void control_list(const struct control_where *where, pid_t pid, struct control_peer **ret_peers, size_t *ret_n)
{
	struct peers p = { 0 };

	find_peers(where, &p);
	if (pid)
		peers_keep(&p, pid); /* only the recorder with that PID, if there is one */
	ask_peers(&p);
	if (pid)
		peers_keep(&p, pid);
	list_sort(p.list, p.n, compare_peer_pids);
	*ret_peers = p.list;
	*ret_n = p.n;
}

void control_print_targets(FILE *out, const struct control_peer *peer)
{
	struct json_object *pids;
	char comm[TASK_COMM_LEN], printable[64];
	size_t n = peer_get_list(peer, "targets", &pids);

	if (peer_records_all(peer))
		fputs("all processes", out);
	else if (!n)
		fputs("no process", out);
	for (size_t i = 0; i < n && i < TARGETS_NAMED && !peer_records_all(peer); i++) {
		pid_t pid = json_object_get_int(json_object_array_get_idx(pids, i));

		fprintf(out, "%s%s (%d)", i ? ", " : "",
			process_comm(pid, comm) ? "exited" : text_printable(printable, sizeof(printable), comm), pid);
	}
	if (n > TARGETS_NAMED && !peer_records_all(peer))
		fprintf(out, " and %zu more", n - TARGETS_NAMED);
}

/* "  -p 4800: llama-server (4711) into /a.json, /b.pftrace" */
static void peer_print(const struct control_peer *peer)
{
	struct json_object *files;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		out_of_memory();
	if (peer->status)
		control_print_targets(out, peer);
	else
		fputs(peer->error, out);
	for (size_t i = 0; i < peer_get_list(peer, "outputs", &files); i++)
		fprintf(out, "%s%s", i ? ", " : " into ", json_object_get_string(json_object_array_get_idx(files, i)) ?: "");
	fclose(out);
	log_error("  -p %d: %.500s", peer->pid, text);
	free(text);
}

void control_say_none(const struct control_where *where, pid_t pid)
{
	const char *others = "";
	char of[48] = "";

	if (geteuid() && (!access("/run/inftrace", F_OK) || !access(CONTROL_SERVICE_RUNTIME, F_OK)))
		others = "; those of root and of the service need sudo";
	else if (!geteuid() && !where->uid)
		others = "; one of another user needs --user";
	if (where->uid != geteuid())
		snprintf(of, sizeof(of), " by user %u", where->uid);
	if (pid)
		log_error("no recording of process %d%s is running that you may control%s; inftrace status lists those that are", pid, of, others);
	else
		log_error("no recording%s is running that you may control%s; inftrace record starts one", of, others);
}

int control_take_user(const char *text, struct control_where *ret)
{
	const struct passwd *pw = NULL;
	uint32_t uid;

	if (parse_u32(text, &uid) || uid == (uid_t)-1) {
		pw = getpwnam(text);
		if (!pw)
			return log_fail(-EINVAL, "--user: no such user: %.32s", text);
	}
	ret->service = false;
	ret->uid = pw ? pw->pw_uid : uid;
	return 0;
}

int control_take_pid(const char *text, pid_t *ret)
{
	uint32_t pid;

	if (parse_u32(text, &pid) || !pid || pid > INT_MAX)
		return log_fail(-EINVAL, "-p: not the PID of a process: %.32s", text);
	*ret = (pid_t)pid;
	return 0;
}

int control_find(const struct control_where *where, pid_t pid, struct control_peer *ret_peer)
{
	struct control_peer *peers;
	size_t n;
	int err;

	control_list(where, pid, &peers, &n);
	if (!n) {
		control_say_none(where, pid);
		err = -ENOENT;
	} else if (n > 1) {
		if (pid)
			log_error("%zu recordings of process %d are running; choose one:", n, pid);
		else
			log_error("%zu recordings are running; choose one:", n);
		for (size_t i = 0; i < n; i++)
			peer_print(&peers[i]);
		err = -ENOTUNIQ;
	} else if (!peers[0].status) {
		log_error("%s", peers[0].error);
		err = -ETIMEDOUT;
	} else {
		*ret_peer = peers[0];
		free(peers);
		return 0;
	}
	control_peers_free(peers, n);
	return err;
}
