// SPDX-License-Identifier: BSD-2-Clause
/* The client of control sockets, against recorders that are processes. */
#include <sys/prctl.h>
#include <sys/wait.h>

#include "control.h"
#include "stderr.h"

static struct stderr_grab said;

#define NO_PID 4194304 /* PID_MAX_LIMIT: no process has it */

/* ---- recorders that are processes ---- */

static void server_run(struct recording *r)
{
	struct pollfd p = { .events = POLLIN };
	int rounds = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (control_new(run_request, r, directory, &r->control))
		_exit(1);
	p.fd = control_fd(r->control);
	for (;;) {
		poll(&p, 1, 10);
		control_serve(r->control);
		if (r->id && rounds++ == 5) {
			struct json_object *reply = json_object_new_object();

			json_object_object_add(reply, "message", json_object_new_string(r->reason));
			control_done(r->control, r->id, 0, reply, NULL);
			r->id = 0;
			rounds = 0;
		}
	}
}

static bool is_up(pid_t pid)
{
	return !access(socket_of(pid), F_OK);
}

/* target: the pid that it records; 0: none; -1: all */
static pid_t server_start(int target)
{
	struct recording r = { .in_progress = true, .status = json_object_new_object() };
	struct json_object *targets = json_object_new_array(), *outputs = json_object_new_array();
	pid_t pid;

	if (target > 0)
		json_object_array_add(targets, json_object_new_int(target));
	json_object_array_add(outputs, json_object_new_string("/tmp/x.json"));
	json_object_object_add(r.status, "targets", targets);
	json_object_object_add(r.status, "outputs", outputs);
	json_object_object_add(r.status, "all", json_object_new_boolean(target < 0));
	pid = fork();
	if (!pid)
		server_run(&r);
	assert_true(pid > 0);
	json_object_put(r.status);
	for (int i = 0; !is_up(pid); i++) {
		assert_true(i < WAIT_MS);
		usleep(1000);
	}
	return pid;
}

static void server_end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static const struct control_where *here(void)
{
	static struct control_where where;

	where = (struct control_where){ .uid = geteuid(), .directory = directory };
	return &where;
}

/* Each returns the client's result; what it prints is in `said`. */
static int find(pid_t pid, struct control_peer *peer)
{
	return GRABBED(said, control_find(here(), pid, peer));
}

static int ask(const struct control_peer *peer, enum control_command command, const char *reason, struct json_object **reply)
{
	return GRABBED(said, control_ask(peer, command, reason, NULL, reply, NULL));
}

/* Expects this answer; NULL: any. */
static void expect_answer(const struct control_peer *peer, enum control_command command, const char *reason, const char *message)
{
	struct json_object *reply = NULL;

	assert_int_equal(ask(peer, command, reason, &reply), 0);
	assert_string_equal(said.text, "");
	if (message)
		assert_string_equal(json_object_get_string(json_object_object_get(reply, "message")), message);
	json_object_put(reply);
}

/* Expects failure, with this text printed. */
static void expect_failed(const struct control_peer *peer, enum control_command command, const char *reason, int err, const char *why)
{
	struct json_object *reply = NULL;
	int got = ask(peer, command, reason, &reply);

	if (!strstr(said.text, why))
		assert_string_equal(said.text, why);
	assert_int_equal(got, err);
	assert_null(reply);
}

static void expect_found(pid_t pid, pid_t recorder)
{
	struct control_peer peer;

	assert_int_equal(find(pid, &peer), 0);
	assert_string_equal(said.text, "");
	assert_int_equal(peer.pid, recorder);
	assert_non_null(peer.status);
	control_peer_free(&peer);
}

static void expect_not_found(pid_t pid, int err, const char *why)
{
	struct control_peer peer;
	int got = find(pid, &peer);

	if (!strstr(said.text, why))
		assert_string_equal(said.text, why);
	assert_int_equal(got, err);
}

TEST_WITH(test_find, setup, teardown)
{
	pid_t a, b, all;
	char line[256];

	expect_not_found(0, -ENOENT, "no recording is running that you may control");
	assert_int_equal(mkdir(directory, 0700), 0);
	expect_not_found(0, -ENOENT, "no recording is running that you may control");
	leave_socket("4194304.sock");
	expect_not_found(0, -ENOENT, "no recording is running that you may control");
	expect_not_found(NO_PID, -ENOENT, "no recording of process 4194304 is running");

	a = server_start(1);
	expect_found(0, a);
	expect_found(1, a);
	expect_found(a, a);
	expect_not_found(getpid(), -ENOENT, "no recording of process");
	b = server_start(getpid());
	expect_found(1, a);
	expect_found(getpid(), b);
	expect_found(b, b);
	expect_not_found(0, -ENOTUNIQ, "2 recordings are running; choose one:\n");
	snprintf(line, sizeof(line), "\ninftrace:   -p %d: ", b);
	expect_not_found(0, -ENOTUNIQ, line);
	snprintf(line, sizeof(line), " (%d) into /tmp/x.json\n", getpid());
	expect_not_found(0, -ENOTUNIQ, line);
	all = server_start(-1);
	expect_found(1, a);
	expect_found(all, all);
	expect_found(NO_PID, all);
	snprintf(line, sizeof(line), "  -p %d: all processes into /tmp/x.json\n", all);
	expect_not_found(0, -ENOTUNIQ, line);
	server_end(a);
	server_end(all);
	expect_found(0, b);
	a = server_start(getpid());
	expect_not_found(getpid(), -ENOTUNIQ, "2 recordings of process");
	/* stopped: what it records is unknown */
	kill(a, SIGSTOP);
	expect_found(getpid(), b);
	expect_not_found(1, -ETIMEDOUT, "does not answer; is it stopped, or still starting?");
	server_end(a);
	server_end(b);
}

TEST_WITH(test_ask, setup, teardown)
{
	struct control_peer peer;
	pid_t pid;

	pid = server_start(1);
	assert_int_equal(find(0, &peer), 0);
	expect_answer(&peer, CONTROL_START, NULL, "window 1 is open");
	expect_answer(&peer, CONTROL_DUMP, "a \"reason\"\n\x1b[31m", "a \"reason\"\n\x1b[31m");
	expect_failed(&peer, CONTROL_STOP, NULL, -EREMOTEIO, "inftrace: stop: no window is open\n");
	expect_failed(&peer, CONTROL_STOP, "\xff", -EREMOTEIO, "not JSON");
	server_end(pid);
	expect_failed(&peer, CONTROL_STOP, NULL, -ESRCH, "has ended");
	assert_int_equal(unlink(socket_of(pid)), 0);
	expect_failed(&peer, CONTROL_STOP, NULL, -ESRCH, "has ended");
	control_peer_free(&peer);
}

/* Two recorders are stopped, one of them with no room for a client: the client waits for both at once. */
TEST_WITH(test_stopped, setup, teardown)
{
	struct control_peer peer, *peers;
	pid_t full, stopped, up;
	int fds[256], n = 0;
	size_t n_peers;

	/* before there are descriptors to inherit */
	full = server_start(1);
	stopped = server_start(1);
	up = server_start(1);
	kill(stopped, SIGSTOP);
	assert_int_equal(find(full, &peer), 0);
	kill(full, SIGSTOP);
	do {
		assert_true(n < 256);
		fds[n] = dial(socket_of(full));
	} while (fds[n++] >= 0);
	assert_int_equal(fds[--n], -EAGAIN);
	control_list(here(), 0, &peers, &n_peers);
	assert_int_equal(n_peers, 3);
	for (int i = 0; i < 3; i++) {
		if (peers[i].pid == up) {
			assert_non_null(peers[i].status);
			continue;
		}
		assert_null(peers[i].status);
		if (!strstr(peers[i].error, "does not answer; is it stopped, or still starting?"))
			fail_msg("%s", peers[i].error);
	}
	control_peers_free(peers, n_peers);
	/* continues while the client waits, after all earlier clients have left */
	while (n)
		close(fds[--n]);
	if (!fork()) {
		usleep(200000);
		kill(full, SIGCONT);
		_exit(0);
	}
	expect_answer(&peer, CONTROL_STATUS, NULL, NULL);
	control_peer_free(&peer);
	wait(NULL);
	server_end(full);
	server_end(stopped);
	server_end(up);
}

/* ---- what only looks like a recorder ---- */

/* Sends `answer` `times` times, with n_fds descriptors of /dev/null. */
static void pass(int fd, const char *answer, int times, int n_fds)
{
	char control[CMSG_SPACE(8 * sizeof(int))] = { 0 };
	struct iovec iov = { (char *)answer, strlen(answer) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fds[8];

	for (int i = 0; i < n_fds; i++)
		fds[i] = open("/dev/null", O_RDONLY);
	if (n_fds) {
		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int));
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), fds, (size_t)n_fds * sizeof(int));
	}
	for (int i = 0; i < times; i++) {
		if (sendmsg(fd, &m, MSG_NOSIGNAL) < 0)
			break;
	}
	for (int i = 0; i < n_fds; i++)
		close(fds[i]);
}

/* name: the pid in the name of its socket; 0: its own */
static pid_t impostor_start(const char *answer, int times, int n_fds, pid_t name)
{
	pid_t pid = fork();
	struct sockaddr_un sa;
	int fd, listen_fd;
	char buf[256];

	if (pid) {
		assert_true(pid > 0);
		for (int i = 0; !is_up(name ? name : pid); i++) {
			assert_true(i < WAIT_MS);
			usleep(1000);
		}
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	listen_fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	set_path(&sa, path_of("new"));
	if (bind(listen_fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(listen_fd, 4) ||
		rename(sa.sun_path, socket_of(name ? name : getpid())))
		_exit(1);
	for (;;) {
		fd = accept(listen_fd, NULL, NULL);
		while (recv(fd, buf, sizeof(buf), 0) == sizeof(buf))
			;
		pass(fd, answer, times, n_fds);
		close(fd);
	}
}

TEST_WITH(test_wrong_answers, setup, teardown)
{
	static char long_text[CONTROL_REPLY_MAX + 2];
	const struct {
		const char *text, *error;
		int err, times;
	} wrong[] = {
		{ "x", "has ended", -ESRCH, 0 },
		{ "{\"ok\":true", "gave an invalid answer: not JSON", -EPROTO, 1 },
		{ "HTTP/1.1 400 \x1b[31m\r\n", "gave an invalid answer: not JSON", -EPROTO, 1 },
		{ "[]", "gave an invalid answer: not a JSON object", -EPROTO, 1 },
		{ "[[[[[[[[[[[[]]]]]]]]]]]]", "gave an invalid answer: not JSON", -EPROTO, 1 },
		{ "{\"taken\":true}", "has ended", -ESRCH, 1 },
		{ "{\"taken\":true}", "or 8 messages", -EPROTO, 1000000 },
		{ long_text, "more than 131072 bytes", -EPROTO, 1 },
		{ "{\"ok\":1,\"error\":7}{}", "gave an invalid answer: not JSON", -EPROTO, 1 },
		{ "{\"ok\":false}", "no reason given", -EREMOTEIO, 1 },
		{ "{\"ok\":false,\"error\":null}", "no reason given", -EREMOTEIO, 1 },
		{ "{\"ok\":false,\"error\":\"\\u001b[31m\\u202e%n\"}", "stop: \\x1b[31m\\u202e%n",
			-EREMOTEIO, 1 },
	};
	struct control_peer peer = { .uid = geteuid() };

	memset(long_text, ' ', sizeof(long_text) - 1);
	memcpy(long_text, "{\"ok\":true}", 11);
	assert_int_equal(mkdir(directory, 0700), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		peer.pid = impostor_start(wrong[i].text, wrong[i].times, 0, 0);
		peer.path = strdup(socket_of(peer.pid));
		expect_failed(&peer, CONTROL_STOP, NULL, wrong[i].err, wrong[i].error);
		free(peer.path);
		server_end(peer.pid);
	}
}

/* One descriptor is taken if one is wanted; all others are closed. */
TEST_WITH(test_descriptors, setup, teardown)
{
	struct control_peer peer = { .uid = geteuid() };
	struct json_object *reply;
	int before, fd;

	assert_int_equal(mkdir(directory, 0700), 0);
	before = count_fds();
	for (int n = 0; n <= 8; n++) {
		peer.pid = impostor_start("{\"ok\":true}", 1, n, 0);
		peer.path = strdup(socket_of(peer.pid));
		assert_int_equal(control_ask(&peer, CONTROL_OPEN, NULL, NULL, &reply, &fd), 0);
		assert_int_equal(fd >= 0, n == 1);
		json_object_put(reply);
		if (fd >= 0)
			close(fd);
		assert_int_equal(count_fds(), before);
		assert_int_equal(control_ask(&peer, CONTROL_STOP, NULL, NULL, &reply, NULL), 0);
		json_object_put(reply);
		assert_int_equal(count_fds(), before);
		free(peer.path);
		server_end(peer.pid);
	}
}

/* A socket named after another process is not accepted as that process. */
TEST_WITH(test_impostor, setup, teardown)
{
	struct control_peer peer = { .uid = geteuid(), .pid = getppid() };
	pid_t pid;

	assert_int_equal(mkdir(directory, 0700), 0);
	pid = impostor_start("{\"ok\":true,\"targets\":[1]}", 1, 0, peer.pid);
	expect_not_found(0, -ENOENT, "no recording is running");
	expect_not_found(peer.pid, -ENOENT, "no recording of process");
	peer.path = strdup(socket_of(peer.pid));
	expect_failed(&peer, CONTROL_STOP, NULL, -EACCES, "");
	free(peer.path);
	server_end(pid);
	/* a directory that others can write to is not trusted */
	pid = server_start(1);
	expect_found(0, pid);
	assert_int_equal(chmod(directory, 0770), 0);
	expect_not_found(0, -ENOENT, "no recording is running");
	server_end(pid);
}

/* A status with members of the wrong types. */
TEST_WITH(test_wrong_status, setup, teardown)
{
	static const char *const statuses[] = {
		"{\"ok\":true}\n",
		"{\"ok\":true,\"targets\":7,\"outputs\":{},\"all\":[]}\n",
		"{\"ok\":true,\"targets\":[{},null,\"x\",1e300],\"outputs\":[null,[1],\"\\u001b\"]}\n",
	};
	struct control_peer *peers;
	FILE *out = tmpfile();
	size_t n;

	assert_int_equal(mkdir(directory, 0700), 0);
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		pid_t one = impostor_start(statuses[i], 1, 0, 0),
		      two = impostor_start(statuses[i], 1, 0, 0);

		expect_not_found(0, -ENOTUNIQ, "2 recordings are running");
		control_list(here(), NO_PID, &peers, &n);
		assert_int_equal(n, 0);
		control_peers_free(peers, n);
		control_list(here(), 0, &peers, &n);
		assert_int_equal(n, 2);
		rewind(out);
		control_print_targets(out, &peers[0]);
		assert_true(ftell(out) > 0 && ftell(out) < 64);
		control_peers_free(peers, n);
		server_end(one);
		server_end(two);
	}
	fclose(out);
}

/* Names in another user's directory may lead to sockets that do not belong to that user. */
TEST_WITH(test_links, setup, teardown)
{
	struct control_peer peer = { .uid = geteuid() }, *peers;
	pid_t pid;
	size_t n;

	pid = server_start(1);
	assert_int_equal(symlink(socket_of(pid), path_of("link")), 0);
	assert_int_equal(rename(path_of("link"), socket_of(1)), 0);
	control_list(here(), 0, &peers, &n);
	assert_int_equal(n, 1);
	control_peers_free(peers, n);
	peer.path = strdup(socket_of(1));
	expect_failed(&peer, CONTROL_STOP, NULL, -EACCES, "");
	free(peer.path);
	peer.pid = pid;
	/* the right file, but not owned by the directory's owner */
	peer.path = strdup(socket_of(pid));
	expect_answer(&peer, CONTROL_START, NULL, NULL);
	peer.uid++;
	expect_failed(&peer, CONTROL_START, NULL, -EACCES, "");
	free(peer.path);
	server_end(pid);
}

RUN_TESTS(make_top, remove_top)
