// SPDX-License-Identifier: BSD-2-Clause
#include "io/control_client.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "record.h"
#include "target/process.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/text.h"

#define CONTROL_SERVICE_SOCKETS CONTROL_SERVICE_RUNTIME "/inftrace" /* control_directory() there */
#define RETRY_MS 20 /* between attempts while a recorder has no room for another client */
#define TARGETS_NAMED 8
#define PEERS_MAX 256  /* recordings of a user that are asked, at most */
#define MESSAGES_MAX 8 /* before the answer, at most */

/* One question and its answer. */
struct ask {
	const struct control_peer *peer;
	int fd;  /* -1: not connected, or finished */
	int err; /* -EAGAIN: not finished */
	uint64_t deadline_ns;
	bool taken; /* the recorder has said that work has begun */
	unsigned int messages;
	struct json_object *reply;
	int passed;                /* the descriptor that came with the answer, or -1 */
	char msg[CONTROL_MSG_MAX]; /* with -EREMOTEIO and -EPROTO */
};

static void ask_end(struct ask *a, int err)
{
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
	a->err = err;
}

/* ---- one connection ---- */

/*
 * A user's directory can hold anything that the user puts there: what is named like a socket may be a link to
 * one that we should not talk to, or the socket of another process. So the file must be a socket (no link) of
 * that user, and the process that listens must be the one in the name, running as that user.
 */
static int connect_peer(const struct control_peer *peer, int *ret_fd)
{
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
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d", file);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		err = errno == ECONNREFUSED ? -ESRCH : -errno;
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		err = -errno;
	else if (cred.uid != peer->uid || cred.pid != peer->pid)
		err = -EACCES;
out:
	close(file);
	if (err && fd >= 0)
		close(fd);
	if (!err)
		*ret_fd = fd;
	return err;
}

static void ask_connect(struct ask *a, const char *request)
{
	int err = connect_peer(a->peer, &a->fd);

	if (err == -EAGAIN) /* it has no room for another client */
		return;
	/* a new connection always has room for a request; one that refused it holds an answer already */
	if (!err && send(a->fd, request, strlen(request), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
		errno != EPIPE && errno != ECONNRESET)
		err = -errno;
	if (err)
		ask_end(a, err);
}

static void ask_message(struct ask *a, const char *text, size_t len)
{
	struct json_object *object, *value;
	int err;

	err = control_parse(text, len, &object, a->msg);
	if (err) {
		ask_end(a, err == -EBADMSG ? -EPROTO : err);
		return;
	}
	if (!json_object_object_get_ex(object, "ok", &value)) {
		json_object_put(object);
		if (!a->taken)
			a->deadline_ns = clock_mono_ns() + CONTROL_FINISH_MS * NSEC_PER_MSEC;
		a->taken = true;
		return;
	}
	if (json_object_get_boolean(value)) {
		a->reply = object;
		ask_end(a, 0);
		return;
	}
	if (!json_object_object_get_ex(object, "error", &value))
		value = NULL;
	snprintf(a->msg, sizeof(a->msg), "%s",
		value ? json_object_get_string(value) : "no reason given");
	json_object_put(object);
	ask_end(a, -EREMOTEIO);
}

/* The descriptor that a message brought. The kernel closes those that do not fit. */
static int passed_with(struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

static void ask_read(struct ask *a)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_len = CONTROL_REPLY_MAX };
	/* not the whole buffer: its padding would leave room for a second descriptor */
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
		.msg_controllen = CMSG_LEN(sizeof(int)) };
	ssize_t n;
	int fd;

	iov.iov_base = malloc(CONTROL_REPLY_MAX);
	if (!iov.iov_base) {
		ask_end(a, -ENOMEM);
		return;
	}
	n = recvmsg(a->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	fd = n >= 0 ? passed_with(&m) : -1;
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		;
	} else if (n <= 0) {
		ask_end(a, n < 0 && errno != ECONNRESET ? -errno : -ESRCH);
	} else if (m.msg_flags & MSG_TRUNC || ++a->messages > MESSAGES_MAX) {
		snprintf(a->msg, sizeof(a->msg), "more than %d bytes or %d messages",
			CONTROL_REPLY_MAX, MESSAGES_MAX);
		ask_end(a, -EPROTO);
	} else {
		ask_message(a, iov.iov_base, (size_t)n);
	}
	if (a->reply && a->passed < 0 && !(m.msg_flags & MSG_CTRUNC)) {
		a->passed = fd;
		fd = -1;
	}
	if (fd >= 0)
		close(fd);
	free(iov.iov_base);
}

/* ---- all recordings at once ---- */

static char *request_new(const char *command, const char *reason, const char *last)
{
	struct json_object *request = json_object_new_object();
	char *text = NULL;

	if (!request)
		return NULL;
	json_object_object_add(request, "command", json_object_new_string(command));
	if (reason)
		json_object_object_add(request, "reason", json_object_new_string(reason));
	if (last)
		json_object_object_add(request, "last", json_object_new_string(last));
	text = strdup(json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN));
	json_object_put(request);
	return text;
}

/* Milliseconds until something has to be done; -1: all have finished. */
static int ask_timeout(struct ask *asks, size_t n)
{
	uint64_t now = clock_mono_ns(), next = UINT64_MAX;

	for (size_t i = 0; i < n; i++) {
		struct ask *a = &asks[i];

		if (a->err == -EAGAIN && now >= a->deadline_ns)
			ask_end(a, -ETIMEDOUT);
		if (a->err != -EAGAIN)
			continue;
		if (a->deadline_ns < next)
			next = a->deadline_ns;
		if (a->fd < 0 && now + RETRY_MS * NSEC_PER_MSEC < next)
			next = now + RETRY_MS * NSEC_PER_MSEC;
	}
	return next == UINT64_MAX ? -1 : (int)((next - now) / NSEC_PER_MSEC) + 1;
}

/* Sets a->err, a->reply and a->msg of each. -ENOMEM. */
static int ask_all(struct ask *asks, size_t n, const char *command, const char *reason, const char *last)
{
	struct pollfd *fds = calloc(n, sizeof(*fds));
	char *request = request_new(command, reason, last);
	int timeout, err = 0;

	if (!request || !fds) {
		err = -ENOMEM;
		goto out;
	}
	for (size_t i = 0; i < n; i++) {
		asks[i].fd = asks[i].passed = -1;
		asks[i].err = -EAGAIN;
		asks[i].deadline_ns = clock_mono_ns() + CONTROL_ANSWER_MS * NSEC_PER_MSEC;
	}
	for (;;) {
		for (size_t i = 0; i < n; i++) {
			if (asks[i].err == -EAGAIN && asks[i].fd < 0)
				ask_connect(&asks[i], request);
			fds[i] = (struct pollfd){ .fd = asks[i].fd, .events = POLLIN };
		}
		timeout = ask_timeout(asks, n);
		if (timeout < 0)
			break;
		if (poll(fds, n, timeout) <= 0)
			continue;
		for (size_t i = 0; i < n; i++) {
			if (fds[i].revents && asks[i].fd >= 0)
				ask_read(&asks[i]);
		}
	}
out:
	free(request);
	free(fds);
	return err;
}

/* The outcome in words. */
static void ask_explain(const struct ask *a, char msg[CONTROL_MSG_MAX])
{
	pid_t pid = a->peer->pid;
	char said[CONTROL_MSG_MAX - 64];

	text_printable(said, sizeof(said), a->msg);
	switch (a->err) {
	case -EREMOTEIO:
		snprintf(msg, CONTROL_MSG_MAX, "%s", said);
		break;
	case -EPROTO:
		snprintf(msg, CONTROL_MSG_MAX, "recorder %d gave an invalid answer: %s", pid, said);
		break;
	case -ESRCH:
		snprintf(msg, CONTROL_MSG_MAX, "the recording of recorder %d has ended", pid);
		break;
	case -EPROTOTYPE:
		snprintf(msg, CONTROL_MSG_MAX, "recorder %d is another version of inftrace", pid);
		break;
	case -ETIMEDOUT:
		snprintf(msg, CONTROL_MSG_MAX, "recorder %d %s", pid,
			a->taken ? "has not finished yet; inftrace status shows its progress"
				 : "does not answer; is it stopped, or still starting?");
		break;
	default:
		snprintf(msg, CONTROL_MSG_MAX, "cannot talk to recorder %d: %s", pid,
			strerror(-a->err));
	}
}

int control_ask(const struct control_peer *peer, const char *command, const char *reason, const char *last,
	struct json_object **ret_reply, int *ret_fd)
{
	struct ask a = { .peer = peer };
	char msg[CONTROL_MSG_MAX];
	int err;

	err = ask_all(&a, 1, command, reason, last) ?: a.err;
	if (!err) {
		*ret_reply = a.reply;
		if (ret_fd)
			*ret_fd = a.passed;
		else if (a.passed >= 0)
			close(a.passed);
		return 0;
	}
	a.err = err;
	ask_explain(&a, msg);
	log_error("%s: %s", command, msg);
	return err;
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
	size_t n;
};

static int peers_add(struct peers *p, const char *directory, const char *name, pid_t pid, uid_t uid)
{
	struct control_peer *list;
	char *path;

	if (p->n == PEERS_MAX)
		return 0;
	list = realloc(p->list, (p->n + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	p->list = list;
	if (asprintf(&path, "%s/%s", directory, name) < 0)
		return -ENOMEM;
	list[p->n++] = (struct control_peer){ .pid = pid, .uid = uid, .path = path };
	return 0;
}

/* Opens the directory only if it belongs to the user, since in any other directory somebody else decides
 * what is there. A directory that does not exist, or that we may not read, holds no recordings. */
static DIR *open_theirs(const char *directory, uid_t uid)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = NULL;
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && st.st_uid == uid && !(st.st_mode & 022))
		dir = fdopendir(fd);
	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

static int peers_in(struct peers *p, const char *directory, uid_t uid)
{
	DIR *dir = open_theirs(directory, uid);
	struct dirent *d;
	int err = 0;

	if (!dir)
		return 0;
	while (!err && (d = readdir(dir))) {
		int pid = 0, end = 0;

		if (isdigit((unsigned char)d->d_name[0]) &&
			sscanf(d->d_name, "%d" CONTROL_SUFFIX "%n", &pid, &end) == 1 && end &&
			!d->d_name[end] && pid > 0)
			err = peers_add(p, directory, d->d_name, pid, uid);
	}
	closedir(dir);
	return err;
}

/* Takes over the answers; leaves out recordings that have ended. */
static void peers_settle(struct peers *p, struct ask *asks)
{
	size_t n = 0;

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
}

static int by_pid(const void *a, const void *b)
{
	const struct control_peer *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/*
 * Nobody but root can put anything into /run, not even a link, so the service's directory there is the one that systemd has
 * made for it, and whoever owns it is the user that root lets it run as.
 */
static int peers_of_service(struct peers *p, const struct control_where *where)
{
	struct stat run, st;

	if (stat("/run", &run) || run.st_uid || run.st_mode & 022)
		return 0;
	if (stat(CONTROL_SERVICE_RUNTIME, &st) || st.st_mode & 022)
		return 0;
	if (!where->service && st.st_uid != where->uid)
		return 0;
	return peers_in(p, CONTROL_SERVICE_SOCKETS, st.st_uid);
}

struct control_where control_where_own(void)
{
	return (struct control_where){ .uid = geteuid(), .service = !geteuid() };
}

static int find_peers(const struct control_where *where, struct peers *p)
{
	char usual[PATH_MAX] = "";
	int err = 0;

	if (where->directory)
		return peers_in(p, where->directory, where->uid);
	err = control_directory(where->uid, usual, sizeof(usual));
	if (!err)
		err = peers_in(p, usual, where->uid);
	if (err == -ENAMETOOLONG) /* then no recorder could have made a socket there, either */
		err = 0;
	if (!err && strcmp(usual, CONTROL_SERVICE_SOCKETS))
		err = peers_of_service(p, where);
	return err;
}

static int ask_peers(struct peers *p)
{
	struct ask *asks = calloc(p->n + 1, sizeof(*asks));
	int err;

	if (!asks)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++)
		asks[i].peer = &p->list[i];
	err = ask_all(asks, p->n, "status", NULL, NULL);
	if (!err)
		peers_settle(p, asks);
	free(asks);
	return err;
}

/* ---- choosing one ---- */

static bool is_recorder(const struct control_peer *peer, pid_t pid)
{
	return peer->pid == pid;
}

/* The length of an array in its status. */
static size_t list_of(
	const struct control_peer *peer, const char *key, struct json_object **ret_list)
{
	if (!json_object_object_get_ex(peer->status, key, ret_list) ||
		!json_object_is_type(*ret_list, json_type_array))
		return 0;
	return json_object_array_length(*ret_list);
}

static bool records(const struct control_peer *peer, pid_t pid)
{
	struct json_object *pids;

	for (size_t i = 0; i < list_of(peer, "targets", &pids); i++) {
		if (json_object_get_int64(json_object_array_get_idx(pids, i)) == pid)
			return true;
	}
	return false;
}

static bool records_all(const struct control_peer *peer, pid_t pid)
{
	struct json_object *all;

	(void)pid;
	return json_object_object_get_ex(peer->status, "all", &all) && json_object_get_boolean(all);
}

static bool is_silent(const struct control_peer *peer, pid_t pid)
{
	(void)pid;
	return !peer->status;
}

/* Keeps only those that fit, if any does. */
static bool peers_keep(
	struct peers *p, bool (*fits)(const struct control_peer *peer, pid_t pid), pid_t pid)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += fits(&p->list[i], pid);
	if (!n)
		return false;
	n = 0;
	for (size_t i = 0; i < p->n; i++) {
		if (fits(&p->list[i], pid))
			p->list[n++] = p->list[i];
		else
			control_peer_free(&p->list[i]);
	}
	p->n = n;
	return true;
}

static void peers_drop(struct peers *p)
{
	control_peers_free(p->list, p->n);
	*p = (struct peers){ 0 };
}

int control_list(const struct control_where *where, pid_t pid, struct control_peer **ret_peers,
	size_t *ret_n)
{
	struct peers p = { 0 };
	int err;

	err = find_peers(where, &p);
	if (!err) {
		if (pid)
			peers_keep(&p, is_recorder, pid);
		err = ask_peers(&p);
	}
	if (err) {
		peers_drop(&p);
		return err;
	}
	if (pid && !peers_keep(&p, is_recorder, pid) && !peers_keep(&p, records, pid) &&
		!peers_keep(&p, records_all, pid) && !peers_keep(&p, is_silent, pid))
		peers_drop(&p);
	if (p.n)
		qsort(p.list, p.n, sizeof(*p.list), by_pid);
	*ret_peers = p.list;
	*ret_n = p.n;
	return 0;
}

static size_t add_text(char *buf, size_t size, size_t len, const char *separator, const char *text)
{
	int n = len < size ? snprintf(buf + len, size - len, "%s%s", separator, text) : 0;

	return len + (n > 0 ? (size_t)n : 0);
}

const char *control_peer_targets(const struct control_peer *peer, char *buf, size_t size)
{
	struct json_object *pids;
	char comm[TASK_COMM_LEN], text[64];
	size_t n = list_of(peer, "targets", &pids), len = 0;

	if (records_all(peer, 0)) {
		snprintf(buf, size, "all processes");
		return buf;
	}
	for (size_t i = 0; i < n && i < TARGETS_NAMED; i++) {
		pid_t pid = json_object_get_int(json_object_array_get_idx(pids, i));

		snprintf(text, sizeof(text), "%s (%d)", process_comm(pid, comm) ? "exited" : comm,
			pid);
		len = add_text(buf, size, len, len ? ", " : "", text);
	}
	if (n > TARGETS_NAMED) {
		snprintf(text, sizeof(text), " and %zu more", n - TARGETS_NAMED);
		add_text(buf, size, len, "", text);
	}
	if (!n)
		snprintf(buf, size, "no process");
	return buf;
}

/* "-p 4800: llama-server (4711) into /a.json, /b.pftrace", cut to fit. */
static void describe(const struct control_peer *peer, char *buf, size_t size)
{
	size_t len = (size_t)snprintf(buf, size, "-p %d: ", peer->pid);
	struct json_object *files;

	if (!peer->status) {
		add_text(buf, size, len, "", peer->error);
		return;
	}
	control_peer_targets(peer, buf + len, size - len);
	len = strlen(buf);
	for (size_t i = 0; i < list_of(peer, "outputs", &files); i++) {
		const char *file = json_object_get_string(json_object_array_get_idx(files, i));

		len = add_text(buf, size, len, i ? ", " : " into ", file ? file : "");
	}
}

static bool is_there(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

void control_say_none(const struct control_where *where, pid_t pid)
{
	const char *others = "";
	char of[48] = "";

	if (geteuid() && (is_there("/run/inftrace") || is_there(CONTROL_SERVICE_RUNTIME)))
		others = "; those of root and of the service need sudo";
	else if (!geteuid() && !where->uid)
		others = "; one of another user needs --user";
	if (where->uid != geteuid())
		snprintf(of, sizeof(of), " by user %u", where->uid);
	if (pid)
		log_error("no recording of process %d%s is running that you may control%s; "
			  "inftrace status lists those that are",
			pid, of, others);
	else
		log_error("no recording%s is running that you may control%s; inftrace record "
			  "starts one",
			of, others);
}

int control_parse_user(const char *text, uid_t *ret_uid)
{
	const struct passwd *pw;
	uint32_t uid;

	if (!parse_u32(text, &uid) && uid != (uid_t)-1) {
		*ret_uid = uid;
		return 0;
	}
	pw = getpwnam(text);
	if (!pw)
		return -EINVAL;
	*ret_uid = pw->pw_uid;
	return 0;
}

static int say_several(pid_t pid, const struct control_peer *peers, size_t n)
{
	char line[512];

	if (pid)
		log_error("%zu recordings of process %d are running; choose one:", n, pid);
	else
		log_error("%zu recordings are running; choose one:", n);
	for (size_t i = 0; i < n; i++) {
		describe(&peers[i], line, sizeof(line));
		log_error("  %s", line);
	}
	return -ENOTUNIQ;
}

int control_find(const struct control_where *where, pid_t pid, struct control_peer *ret_peer)
{
	struct control_peer *peers;
	size_t n;
	int err;

	err = control_list(where, pid, &peers, &n);
	if (err) {
		log_error("cannot look for recordings: %s", strerror(-err));
		return err;
	}
	if (!n) {
		control_say_none(where, pid);
		err = -ENOENT;
	} else if (n > 1) {
		err = say_several(pid, peers, n);
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
