// SPDX-License-Identifier: BSD-2-Clause
/* The control socket: how a recording handles its clients, including hostile and slow ones. */
#include <sys/resource.h>

#include "cases.h"
#include "control.h"

TEST_WITH(test_commands, setup, teardown)
{
	struct recording *r = *state;
	struct json_object *reply;

	open_control(r);
	expect(r, ask_text(STATUS), STATUS_EMPTY);
	expect(r, ask_text("{\"command\":\"start\"}\n"), TAKEN "{\"ok\":true,\"message\":\"window 1 is open\"}\n");
	expect(r, ask_text("{\"command\":\"stop\"}\n"), TAKEN "{\"ok\":false,\"error\":\"no window is open\"}\n");
	/* no reason from the op */
	expect(r, ask_text(DUMP), TAKEN "{\"ok\":false,\"error\":\"No space left on device\"}\n");
	assert_string_equal(r->reason, "");

	r->in_progress = true;
	int fd = ask_text(" {\"reason\":\"p99 \\\"x\\\" \\u00e9\",\"command\":\"dump\",\"more\":[1]}\r\n");

	settle(r);
	assert_int_equal(r->dumps, 2);
	assert_string_equal(r->reason, "p99 \"x\" \xc3\xa9");
	control_done(r->control, r->id + 1, -EIO, NULL, "of another");
	reply = json_object_new_object();
	json_object_object_add(reply, "message", json_object_new_string("3 MB/s"));
	control_done(r->control, r->id, 0, reply, NULL);
	expect(r, fd, TAKEN "{\"ok\":true,\"message\":\"3 MB/s\"}\n");
	control_done(r->control, r->id, 0, json_object_new_object(), "again");

	fd = ask_text(DUMP);
	settle(r);
	control_done(r->control, r->id, -EIO, NULL, "the disk is full");
	expect(r, fd, TAKEN "{\"ok\":false,\"error\":\"the disk is full\"}\n");

	r->done_within = true;
	expect(r, ask_text(DUMP), TAKEN "{\"ok\":true}\n");
	assert_false(r->last.n || r->last.ns);
	expect(r, ask_text("{\"command\":\"dump\",\"last\":\"1.5s\"}"), TAKEN "{\"ok\":true}\n");
	assert_true(!r->last.n && r->last.ns == 1500000000);
	expect(r, ask_text("{\"command\":\"dump\",\"last\":\"7\"}"), TAKEN "{\"ok\":true}\n");
	assert_true(r->last.n == 7 && !r->last.ns);
	assert_int_equal(r->starts + r->stops + r->statuses, 3);
}

TEST_WITH(test_bad_requests, setup, teardown)
{
	static const struct {
		const char *text, *error;
	} bad[] = {
		{ "\n", "not JSON" },
		{ "hello\n", "not JSON" },
		{ "{\"command\":\"sta\n", "not JSON" },
		{ "{\"command\":\"stop\"\n", "not JSON" },
		{ "{\"command\":\"stop\"} {}\n", "not JSON" },
		{ "{'command':'stop'}\n", "not JSON" },
		{ "{\"command\":\"stop\",}\n", "not JSON" },
		{ "[\"stop\"]\n", "not a JSON object" },
		{ "null\n", "not " },
		{ "7", "not JSON" },
		{ "{}\n", "\\\"command\\\" is missing" },
		{ "{\"command\":7}\n", "\\\"command\\\" is not a string" },
		{ "{\"command\":null}\n", "\\\"command\\\" is not a string" },
		{ "{\"command\":\"stop\\u0000x\"}\n", "\\\"command\\\" is not a string" },
		{ "{\"command\":\"\"}\n", "no such command" },
		{ "{\"command\":\"STOP\"}\n", "no such command" },
		{ "{\"command\":\"%s%n\"}\n", "no such command" },
		{ "{\"command\":\"dump\",\"reason\":[]}\n", "\\\"reason\\\" is not a string" },
		{ "{\"command\":\"dump\",\"last\":2}\n", "\\\"last\\\" is not a string" },
		{ "{\"command\":\"dump\",\"last\":\"0\"}\n", "\\\"last\\\" is not a number or time" },
		{ "{\"command\":\"dump\",\"last\":\"2 s\"}\n", "\\\"last\\\" is not a number or time" },
		{ "{\"command\":\"\xff\"}\n", "not JSON" },
		{ "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "not JSON" },
	};
	struct recording *r = *state;
	char line[CONTROL_REQUEST_MAX + 1];
	int fd, n;

	open_control(r);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_part(r, ask_text(bad[i].text), bad[i].error);
	/* nested as deep as fits */
	memset(line, '[', sizeof(line));
	line[CONTROL_REQUEST_MAX - 1] = '\n';
	fd = join();
	say(fd, line, CONTROL_REQUEST_MAX);
	expect_part(r, fd, "not JSON");
	/* a byte NUL */
	fd = join();
	say(fd, "{\"command\":\0\"stop\"}\n", 20);
	expect_part(r, fd, "not JSON");
	n = snprintf(line, sizeof(line), "{\"command\":\"dump\",\"reason\":\"%0*d\"}\n", CONTROL_REASON_MAX, 0);
	assert_true(n < CONTROL_REQUEST_MAX);
	expect_part(r, ask_text(line), "the reason is longer than 255 bytes");
	assert_int_equal(r->starts + r->stops + r->dumps + r->statuses, 0);
}

TEST_WITH(test_length, setup, teardown)
{
	struct recording *r = *state;
	char text[CONTROL_REQUEST_MAX + 1];
	int fd;

	open_control(r);
	memset(text, ' ', sizeof(text));
	memcpy(text, STATUS, strlen(STATUS));
	fd = join();
	say(fd, text, CONTROL_REQUEST_MAX);
	expect(r, fd, STATUS_EMPTY);
	fd = join();
	say(fd, text, CONTROL_REQUEST_MAX + 1);
	expect_part(r, fd, "longer than 4096 bytes");
	/* a request is one message */
	fd = ask_text("{\"command\":");
	say(fd, "\"stop\"}", 7);
	free(hear(r, fd, NULL));
	assert_int_equal(r->stops, 0);
	assert_int_equal(r->statuses, 1);
}

/* A silent client blocks others for a bounded time; one that leaves or does not read, not at all. */
TEST_WITH(test_one_at_a_time, setup, teardown)
{
	struct recording *r = *state;
	int idle[4], fd, before;

	open_control(r);
	before = count_fds();
	for (int i = 0; i < 4; i++) {
		idle[i] = join();
		settle(r);
	}
	fd = ask_text(STATUS);
	assert_int_equal(count_fds(), before + 6); /* one of them is accepted */
	for (int i = 1; i < 4; i++)
		close(idle[i]);
	expect_part(r, idle[0], "no request came");
	expect(r, fd, STATUS_EMPTY);
	assert_int_equal(count_fds(), before);
	/* a flood of clients that leave at once */
	for (int i = 0; i < 2000; i++) {
		fd = dial(socket_of(getpid()));
		if (fd >= 0)
			close(fd);
		if (i % 10 == 0 || fd < 0)
			control_serve(r->control);
	}
	settle(r);
	assert_int_equal(count_fds(), before);
	/* a client that does not read, with the longest possible answer */
	r->status_len = CONTROL_REPLY_MAX - 64;
	fd = ask_text(STATUS);
	settle(r);
	assert_int_equal(count_fds(), before + 1);
	r->status_len = 0;
	expect(r, ask_text(STATUS), STATUS_EMPTY);
	close(fd);
}

TEST_WITH(test_killed_clients, setup, teardown)
{
	struct recording *r = *state;
	int fd, before;

	open_control(r);
	r->in_progress = true;
	before = count_fds();
	/* before, within and after the request */
	close(join());
	close(ask_text("{\"comm"));
	settle(r);
	assert_int_equal(r->dumps, 0);
	close(ask_text(DUMP));
	settle(r);
	assert_int_equal(r->dumps, 1);
	control_done(r->control, r->id, 0, NULL, NULL);
	assert_int_equal(count_fds(), before);
	/* while the dump is written */
	fd = ask_text(DUMP);
	settle(r);
	close(fd);
	settle(r);
	control_done(r->control, r->id, 0, NULL, NULL);
	assert_int_equal(count_fds(), before);
	/* the slot has another client now, which must not get the answer */
	uint64_t id = r->id;

	fd = ask_text(DUMP);
	settle(r);
	control_done(r->control, id, -EIO, NULL, "of the one before");
	control_done(r->control, r->id, 0, NULL, NULL);
	expect(r, fd, TAKEN "{\"ok\":true}\n");
}

TEST_WITH(test_waiting, setup, teardown)
{
	struct recording *r = *state;
	int fds[CONTROL_WAITING_MAX];
	uint64_t ids[CONTROL_WAITING_MAX];
	int fd;

	open_control(r);
	r->in_progress = true;
	for (int i = 0; i < CONTROL_WAITING_MAX; i++) {
		fds[i] = ask_text(DUMP);
		settle(r);
		ids[i] = r->id;
	}
	expect_part(r, ask_text(DUMP), "16 dumps are waiting already; try again in a moment");
	expect(r, ask_text(STATUS), STATUS_EMPTY);
	/* more than a request: nobody reads it, and it causes no wake-up */
	fd = ask_text(DUMP);
	say(fd, DUMP, strlen(DUMP));
	settle(r);
	close(fd);
	for (int i = CONTROL_WAITING_MAX - 1; i >= 0; i--) {
		control_done(r->control, ids[i], 0, NULL, NULL);
		expect(r, fds[i], TAKEN "{\"ok\":true}\n");
	}
	assert_int_equal(r->dumps, CONTROL_WAITING_MAX);
}

/* The answer is one message: lists that do not fit are truncated. */
TEST_WITH(test_long_answers, setup, teardown)
{
	struct json_object *list = json_object_new_array(), *answer;
	struct recording *r = *state;
	char msg[CONTROL_MSG_MAX], *text;
	size_t len, n;

	for (int i = 0; i < 100000; i++)
		json_object_array_add(list, json_object_new_int(i));
	r->status = json_object_new_object();
	json_object_object_add(r->status, "targets", list);
	open_control(r);
	text = hear(r, ask_text(STATUS), &len);
	assert_int_equal(control_parse(text, len - 1, &answer, msg), 0);
	free(text);
	n = json_object_array_length(json_object_object_get(answer, "targets"));
	assert_in_range(n, 10000, 99999);
	assert_true(json_object_get_boolean(json_object_object_get(answer, "shortened")));
	json_object_put(answer);
	json_object_put(r->status);
	r->status = NULL;
	r->status_len = CONTROL_REPLY_MAX;
	expect_part(r, ask_text(STATUS), "\"ok\":false,\"error\":\"the answer does not fit");
}

TEST_WITH(test_open, setup, teardown)
{
	char buf[64], control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { buf, sizeof(buf) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct recording *r = *state;
	int before, fd, passed;

	open_control(r);
	before = count_fds();
	expect(r, ask_text("{\"command\":\"open\"}"), "{\"ok\":false,\"error\":\"no trace\"}\n");
	r->trace = "/proc/self/exe";
	fd = ask_text("{\"command\":\"open\"}");
	settle(r);
	assert_true(recvmsg(fd, &m, MSG_CMSG_CLOEXEC) > 0);
	assert_int_equal(CMSG_FIRSTHDR(&m)->cmsg_type, SCM_RIGHTS);
	memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(passed));
	assert_int_equal(read(passed, buf, 4), 4);
	assert_memory_equal(buf, "\177ELF", 4);
	close(passed);
	close(fd);
	assert_int_equal(count_fds(), before);
}

TEST_WITH(test_no_files_left, setup, teardown)
{
	struct recording *r = *state;
	struct pollfd p = { .events = POLLIN };
	struct rlimit limit, less;
	int fd;

	if (RUNNING_ON_VALGRIND)
		SKIP("valgrind accepts and closes what is over the limit of files");
	open_control(r);
	p.fd = control_fd(r->control);
	fd = ask_text(STATUS);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	less = (struct rlimit){ .rlim_cur = (rlim_t)fd + 1, .rlim_max = limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
	settle(r);
	assert_int_equal(r->statuses, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int waited = 0; !r->statuses; waited += 50) {
		assert_true(waited < WAIT_MS);
		poll(&p, 1, 50);
		control_serve(r->control);
	}
	expect(r, fd, STATUS_EMPTY);
}

/* Names may be anything; what drives a terminal does not get into the answer. */
TEST_WITH(test_names, setup, teardown)
{
	struct recording *r = *state;

	r->status = json_object_new_object();
	json_object_object_add(r->status, "file",
		json_object_new_string("/a\xff/\xc3\xa9\n\x1b\x7f\xc2\x9b\xe2\x80\xae.json"));
	open_control(r);
	expect(r, ask_text(STATUS),
		"{\"ok\":true,\"file\":\"/a\xef\xbf\xbd/\xc3\xa9\\n\\u001b\\u007f\\u009b\\u202e.json\",\"text\":\"\"}\n");
}

TEST_WITH(test_end, setup, teardown)
{
	struct recording *r = *state;
	char text[256];
	int waiting, idle, late;
	ssize_t n;

	open_control(r);
	r->in_progress = true;
	waiting = ask_text(DUMP);
	idle = join();
	settle(r);
	late = join();
	assert_int_equal(access(socket_of(getpid()), F_OK), 0);
	control_free(r->control);
	r->control = NULL;
	assert_int_equal(access(socket_of(getpid()), F_OK), -1);
	assert_int_equal(recv(waiting, text, sizeof(text), 0), strlen(TAKEN) - 1);
	n = recv(waiting, text, sizeof(text) - 1, 0);
	assert_true(n > 0);
	text[n] = 0;
	assert_string_equal(text, "{\"ok\":false,\"error\":\"the recording has ended\"}");
	assert_true(recv(idle, text, sizeof(text), 0) > 0);
	assert_true(recv(late, text, sizeof(text), 0) <= 0);
	close(waiting);
	close(idle);
	close(late);
	/* without one */
	assert_int_equal(control_fd(NULL), -1);
	control_serve(NULL);
	control_done(NULL, 1, 0, json_object_new_object(), NULL);
	control_free(NULL);
}

RUN_TESTS(make_top, remove_top)
