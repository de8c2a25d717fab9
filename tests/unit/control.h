/* SPDX-License-Identifier: BSD-2-Clause */
/* The control socket in tests: an idle recording, and clients that are bare sockets. Server and client share a process and
 * take turns. */
#ifndef INFTRACE_TEST_CONTROL_H
#define INFTRACE_TEST_CONTROL_H

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "io/control.h"
#include "unit.h"

#define WAIT_MS 60000 /* for what must arrive */

/* ---- a recording ---- */

struct recording {
	struct control *control;
	int starts, stops, dumps, statuses;
	char reason[CONTROL_REASON_MAX];
	uint64_t id;                /* of the last dump */
	struct last last;           /* as requested */
	bool in_progress;           /* returned by dump */
	bool done_within;           /* it calls control_done() itself */
	size_t status_len;          /* of a text in the status */
	struct json_object *status; /* or this instead */
	const char *trace;          /* the file that open() passes */
};

static inline void on_status(struct recording *r, struct json_object *reply)
{
	char *text = malloc(r->status_len + 1);

	r->statuses++;
	if (r->status) {
		json_object_object_foreach(r->status, key, value)
		{
			json_object_object_add(reply, key, json_object_get(value));
		}
	}
	memset(text, 'x', r->status_len);
	text[r->status_len] = 0;
	json_object_object_add(reply, "text", json_object_new_string(text));
	free(text);
}

static inline int run_request(void *arg, struct control_request *rq, struct json_object *reply, char msg[CONTROL_MSG_MAX])
{
	struct recording *r = arg;

	switch (rq->command) {
	case CONTROL_START:
		r->starts++;
		json_object_object_add(reply, "message", json_object_new_string("window 1 is open"));
		return 0;
	case CONTROL_STOP:
		json_object_object_add(reply, "message", json_object_new_string("not to be seen"));
		snprintf(msg, CONTROL_MSG_MAX, "no window is open");
		return r->stops++ ? -EBUSY : -EALREADY;
	case CONTROL_DUMP:
		r->dumps++;
		r->id = rq->id;
		r->last = rq->last;
		snprintf(r->reason, sizeof(r->reason), "%s", rq->reason);
		if (r->done_within)
			control_done(r->control, rq->id, 0, NULL, NULL);
		return r->in_progress ? -EINPROGRESS : -ENOSPC;
	case CONTROL_STATUS:
		on_status(r, reply);
		return 0;
	default:
		if (!r->trace) {
			snprintf(msg, CONTROL_MSG_MAX, "no trace");
			return -ENOENT;
		}
		rq->fd = open(r->trace, O_RDONLY | O_CLOEXEC);
		json_object_object_add(reply, "name", json_object_new_string("/a.json"));
		return rq->fd < 0 ? -errno : 0;
	}
}

/* ---- directories ---- */

static char top[] = "/tmp/test_control.XXXXXX";
static char directory[64]; /* for one test; does not exist yet */

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline int remove_all(const char *path)
{
	int err = nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);

	return err && errno != ENOENT ? err : 0;
}

static inline const char *path_of(const char *name)
{
	static char paths[2][256]; /* one for each side of a rename */
	static int i;

	i = !i;
	snprintf(paths[i], sizeof(paths[i]), "%s/%s", directory, name);
	return paths[i];
}

static inline const char *socket_of(pid_t pid)
{
	char name[32];

	snprintf(name, sizeof(name), "%d.sock", pid);
	return path_of(name);
}

static inline int setup(void **state)
{
	struct recording *r = calloc(1, sizeof(*r));

	snprintf(directory, sizeof(directory), "%s/run", top);
	*state = r;
	return r ? 0 : -1;
}

static inline int teardown(void **state)
{
	struct recording *r = *state;

	control_free(r->control);
	json_object_put(r->status);
	free(r);
	return remove_all(directory);
}

static inline void open_control(struct recording *r)
{
	assert_int_equal(control_new(run_request, r, directory, &r->control), 0);
}

/* ---- clients ---- */

/* path: of a socket, short enough for sun_path. */
static inline void set_path(struct sockaddr_un *sa, const char *path)
{
	*sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	assert_true(strlen(path) < sizeof(sa->sun_path));
	strcpy(sa->sun_path, path);
}

static inline int dial(const char *path)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_un sa;

	assert_true(fd >= 0);
	set_path(&sa, path);
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa))) {
		close(fd);
		return -errno;
	}
	return fd;
}

static inline int join(void)
{
	int fd = dial(socket_of(getpid()));

	assert_true(fd >= 0);
	return fd;
}

static inline void say(int fd, const char *text, size_t len)
{
	assert_int_equal(send(fd, text, len, MSG_NOSIGNAL), len);
}

static inline bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* Serves until there is nothing left to do for now. */
static inline void settle(struct recording *r)
{
	for (int i = 0; readable(control_fd(r->control)); i++) {
		assert_true(i < 1000); /* otherwise it would keep the recorder awake */
		control_serve(r->control);
	}
}

/* Returns the messages that the server sends until it closes the connection, each followed by a newline, with a NUL at the
 * end. Serves meanwhile. */
static inline char *hear(struct recording *r, int fd, size_t *ret_len)
{
	struct pollfd p[] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = control_fd(r->control), .events = POLLIN },
	};
	char *text = malloc(4 << 20);
	size_t len = 0;
	ssize_t n;

	for (int waited = 0;;) {
		waited += poll(p, 2, 50) <= 0 ? 50 : 0;
		assert_true(waited < WAIT_MS);
		control_serve(r->control);
		n = recv(fd, text + len, 1 << 20, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
		text[len++] = '\n';
		assert_true(len < 3 << 20);
	}
	close(fd);
	text[len] = 0;
	if (ret_len)
		*ret_len = len;
	return text;
}

static inline void expect(struct recording *r, int fd, const char *wanted)
{
	char *text = hear(r, fd, NULL);

	assert_string_equal(text, wanted);
	free(text);
}

static inline void expect_part(struct recording *r, int fd, const char *wanted)
{
	char *text = hear(r, fd, NULL);

	if (!strstr(text, wanted))
		assert_string_equal(text, wanted);
	free(text);
}

static inline int ask_text(const char *text)
{
	int fd = join();

	say(fd, text, strlen(text));
	return fd;
}

static inline int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

#define TAKEN "{\"taken\":true}\n"
#define DUMP "{\"command\":\"dump\"}"
#define STATUS "{\"command\":\"status\"}"
#define STATUS_EMPTY "{\"ok\":true,\"text\":\"\"}\n"

/* Leaves a socket without a listener. */
static inline void leave_socket(const char *name)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un sa;

	set_path(&sa, path_of(name));
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	close(fd);
}

static inline int make_top(void **state)
{
	(void)state;
	return mkdtemp(top) ? 0 : -1;
}

static inline int remove_top(void **state)
{
	(void)state;
	return remove_all(top);
}

#endif
