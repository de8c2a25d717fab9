// SPDX-License-Identifier: BSD-2-Clause
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/control.h"
#include "record.h"
#include "target/process.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/text.h"

#define CONTROL_SERVICE_SOCKETS CONTROL_SERVICE_RUNTIME "/inftrace" /* control_directory() there */
#define TARGETS_NAMED 8
#define PEERS_MAX 256  /* recordings of a user that are asked, at most */
#define MESSAGES_MAX 8 /* before the answer, at most */

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

/* ---- one question ---- */

/*
 * A user's directory can hold anything that the user puts there: what is named like a socket may be a link to
 * one that we should not talk to, or the socket of another process. So the file must be a socket (no link) of
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
		connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
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

/* Returns -EAGAIN if it is not the answer. */
static int take_message(struct ask *a, const char *text, size_t len)
{
	struct json_object *object, *value;
	int err;

	err = control_parse(text, len, &object, a->msg);
	if (err)
		return err == -EBADMSG ? -EPROTO : err;
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

static int read_message(struct ask *a, int fd, char *buf)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { buf, CONTROL_REPLY_MAX };
	/* not the whole buffer: its padding would leave room for a second descriptor */
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = CMSG_LEN(sizeof(int)) };
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&m) : NULL;
	int passed = -1, err = -EMSGSIZE;

	/* the kernel closes descriptors that do not fit */
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&passed, CMSG_DATA(c), sizeof(int));
	if (n <= 0)
		err = n < 0 && errno != ECONNRESET ? -errno : -ESRCH;
	else if (!(m.msg_flags & MSG_TRUNC))
		err = take_message(a, buf, (size_t)n);
	if (!err && !(m.msg_flags & MSG_CTRUNC))
		a->passed = passed;
	else if (passed >= 0)
		close(passed);
	return err;
}

/* Sets a->err, a->reply, a->passed and a->msg. */
static void *ask(void *arg)
{
	struct ask *a = arg;
	uint64_t until = clock_mono_ns() + CONTROL_ANSWER_MS * NSEC_PER_MSEC;
	char *buf = malloc(CONTROL_REPLY_MAX);
	struct pollfd p = { .fd = -1, .events = POLLIN };
	int err = buf ? connect_peer(a->peer, &p.fd) : -ENOMEM;

	a->passed = -1;
	/* a recorder that refuses a connection holds an answer already */
	if (!err && send(p.fd, a->request, strlen(a->request), MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		err = -errno;
	for (unsigned int n = 0; !err; n++) {
		uint64_t now = clock_mono_ns();
		bool taken = a->taken;

		err = poll(&p, 1, until > now ? (int)((until - now) / NSEC_PER_MSEC) + 1 : 0) ? read_message(a, p.fd, buf) : -ETIMEDOUT;
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

/* Asks all at once, so that one that is stopped holds up nobody. -ENOMEM. */
static int ask_all(struct ask *asks, size_t n, const char *command, const char *reason, const char *last)
{
	char *request = request_new(command, reason, last);

	for (size_t i = 0; i < n && request; i++) {
		asks[i].request = request;
		if (pthread_create(&asks[i].thread, NULL, ask, &asks[i])) {
			asks[i].thread = pthread_self();
			ask(&asks[i]);
		}
	}
	for (size_t i = 0; i < n && request; i++) {
		if (!pthread_equal(asks[i].thread, pthread_self()))
			pthread_join(asks[i].thread, NULL);
	}
	free(request);
	return request ? 0 : -ENOMEM;
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
	int err = ask_all(&a, 1, command, reason, last);

	a.err = err ?: a.err;
	if (a.err) {
		ask_explain(&a, msg);
		log_error("%s: %s", command, msg);
		return a.err;
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

/* Only if the directory belongs to the user, since in any other directory somebody else decides
 * what is there. A directory that does not exist, or that we may not read, holds no recordings. */
static int peers_in(struct peers *p, const char *directory, uid_t uid)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), err = 0;
	DIR *dir = NULL;
	struct dirent *d;
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && st.st_uid == uid && !(st.st_mode & 022))
		dir = fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while (!err && (d = readdir(dir))) {
		int pid = 0, end = 0;

		if (*d->d_name >= '0' && *d->d_name <= '9' &&
			sscanf(d->d_name, "%d" CONTROL_SUFFIX "%n", &pid, &end) == 1 && end &&
			!d->d_name[end] && pid > 0)
			err = peers_add(p, directory, d->d_name, pid, uid);
	}
	closedir(dir);
	return err;
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

/* Asks for the status of each; leaves out recordings that have ended. */
static int ask_peers(struct peers *p)
{
	struct ask *asks = calloc(p->n + 1, sizeof(*asks));
	size_t n = 0;
	int err;

	if (!asks)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++)
		asks[i].peer = &p->list[i];
	err = ask_all(asks, p->n, "status", NULL, NULL);
	for (size_t i = 0; i < p->n && !err; i++) {
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
	p->n = err ? p->n : n;
	free(asks);
	return err;
}

/* ---- choosing one ---- */

/* The length of an array in its status. */
static size_t list_of(
	const struct control_peer *peer, const char *key, struct json_object **ret_list)
{
	if (!json_object_object_get_ex(peer->status, key, ret_list) ||
		!json_object_is_type(*ret_list, json_type_array))
		return 0;
	return json_object_array_length(*ret_list);
}

static bool records_all(const struct control_peer *peer)
{
	struct json_object *all;

	return json_object_object_get_ex(peer->status, "all", &all) && json_object_get_boolean(all);
}

#define FITS_NOT 4

/* How well it fits -p PID: the smaller, the better. */
static int fit(const struct control_peer *peer, pid_t pid)
{
	struct json_object *pids;

	if (peer->pid == pid)
		return 0;
	for (size_t i = 0; i < list_of(peer, "targets", &pids); i++) {
		if (json_object_get_int64(json_object_array_get_idx(pids, i)) == pid)
			return 1;
	}
	return records_all(peer) ? 2 : peer->status ? FITS_NOT
						     : 3;
}

/* Keeps only those that fit best, if any fits. */
static void peers_keep(struct peers *p, pid_t pid)
{
	int best = FITS_NOT - 1;
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		best = fit(&p->list[i], pid) < best ? fit(&p->list[i], pid) : best;
	for (size_t i = 0; i < p->n; i++) {
		if (fit(&p->list[i], pid) == best)
			p->list[n++] = p->list[i];
		else
			control_peer_free(&p->list[i]);
	}
	p->n = n;
}

static int by_pid(const void *a, const void *b)
{
	const struct control_peer *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

int control_list(const struct control_where *where, pid_t pid, struct control_peer **ret_peers,
	size_t *ret_n)
{
	struct peers p = { 0 };
	int err;

	err = find_peers(where, &p);
	if (!err && pid)
		peers_keep(&p, pid); /* none but the recorder with that PID, if there is one */
	if (!err)
		err = ask_peers(&p);
	if (err) {
		control_peers_free(p.list, p.n);
		return err;
	}
	if (pid)
		peers_keep(&p, pid);
	if (p.n)
		qsort(p.list, p.n, sizeof(*p.list), by_pid);
	*ret_peers = p.list;
	*ret_n = p.n;
	return 0;
}

void control_print_targets(FILE *out, const struct control_peer *peer)
{
	struct json_object *pids;
	char comm[TASK_COMM_LEN], printable[64];
	size_t n = list_of(peer, "targets", &pids);

	if (records_all(peer))
		fputs("all processes", out);
	else if (!n)
		fputs("no process", out);
	for (size_t i = 0; i < n && i < TARGETS_NAMED && !records_all(peer); i++) {
		pid_t pid = json_object_get_int(json_object_array_get_idx(pids, i));

		fprintf(out, "%s%s (%d)", i ? ", " : "",
			process_comm(pid, comm) ? "exited" : text_printable(printable, sizeof(printable), comm), pid);
	}
	if (n > TARGETS_NAMED && !records_all(peer))
		fprintf(out, " and %zu more", n - TARGETS_NAMED);
}

/* "  -p 4800: llama-server (4711) into /a.json, /b.pftrace" */
static void describe(const struct control_peer *peer)
{
	struct json_object *files;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return;
	if (peer->status)
		control_print_targets(out, peer);
	else
		fputs(peer->error, out);
	for (size_t i = 0; i < list_of(peer, "outputs", &files); i++)
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
		log_error("no recording of process %d%s is running that you may control%s; "
			  "inftrace status lists those that are",
			pid, of, others);
	else
		log_error("no recording%s is running that you may control%s; inftrace record "
			  "starts one",
			of, others);
}

int control_take_user(const char *text, struct control_where *ret)
{
	const struct passwd *pw = NULL;
	uint32_t uid;

	if (parse_u32(text, &uid) || uid == (uid_t)-1) {
		pw = getpwnam(text);
		if (!pw) {
			log_error("--user: no such user: %.32s", text);
			return -EINVAL;
		}
	}
	ret->service = false;
	ret->uid = pw ? pw->pw_uid : uid;
	return 0;
}

int control_take_pid(const char *text, pid_t *ret)
{
	uint32_t pid;

	if (parse_u32(text, &pid) || !pid || pid > INT_MAX) {
		log_error("-p: not the PID of a process: %.32s", text);
		return -EINVAL;
	}
	*ret = (pid_t)pid;
	return 0;
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
		if (pid)
			log_error("%zu recordings of process %d are running; choose one:", n, pid);
		else
			log_error("%zu recordings are running; choose one:", n);
		for (size_t i = 0; i < n; i++)
			describe(&peers[i]);
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
