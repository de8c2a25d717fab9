// SPDX-License-Identifier: BSD-2-Clause
/* The control socket: what a recording makes of its clients, of the hostile and the slow, too. */
#include <sys/resource.h>

#include "cases.h"
#include "control.h"

static void test_commands(void **state)
{
	struct recording *r = *state;
	struct json_object *reply;

	open_control(r);
	expect(r, ask_text(STATUS), STATUS_EMPTY);
	expect(r, ask_text("{\"command\":\"start\"}\n"),
		TAKEN "{\"ok\":true,\"message\":\"window 1 is open\"}\n");
	expect(r, ask_text("{\"command\":\"stop\"}\n"),
		TAKEN "{\"ok\":false,\"error\":\"no window is open\"}\n");
	/* no reason from the op */
	expect(r, ask_text(DUMP), TAKEN "{\"ok\":false,\"error\":\"No space left on device\"}\n");
	assert_string_equal(r->reason, "");

	r->in_progress = true;
	int fd = ask_text(
		" {\"reason\":\"p99 \\\"x\\\" \\u00e9\",\"command\":\"dump\",\"more\":[1]}\r\n");

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
	assert_int_equal(r->starts + r->stops + r->statuses, 3);
}

static void test_bad_requests(void **state)
{
	static const struct {
		const char *text, *error;
	} bad[] = {
		{ "\n", "the JSON is not complete" },
		{ "hello\n", "no JSON at byte 0" },
		{ "{\"command\":\"sta\n", "not complete" },
		{ "{\"command\":\"stop\"\n", "not complete" },
		{ "{\"command\":\"stop\"} {}\n", "more than one JSON value" },
		{ "{'command':'stop'}\n", "no JSON at byte 1" },
		{ "{\"command\":\"stop\",}\n", "no JSON at byte" },
		{ "[\"stop\"]\n", "no JSON object" },
		{ "null\n", "no JSON object" },
		{ "7\n", "no JSON object" },
		{ "{}\n", "\\\"command\\\" is missing" },
		{ "{\"command\":7}\n", "\\\"command\\\" is not a string" },
		{ "{\"command\":null}\n", "\\\"command\\\" is not a string" },
		{ "{\"command\":\"stop\\u0000x\"}\n", "\\\"command\\\" is not a string" },
		{ "{\"command\":\"\"}\n", "no such command" },
		{ "{\"command\":\"STOP\"}\n", "no such command" },
		{ "{\"command\":\"%s%n\"}\n", "no such command" },
		{ "{\"command\":\"dump\",\"reason\":[]}\n", "\\\"reason\\\" is not a string" },
		{ "{\"command\":\"\xff\"}\n", "no JSON at byte" },
		{ "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "no JSON at byte 0" },
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
	expect_part(r, fd, "no JSON at byte");
	/* a byte NUL */
	fd = join();
	say(fd, "{\"command\":\0\"stop\"}\n", 20);
	expect_part(r, fd, "no JSON at byte 11");
	n = snprintf(line, sizeof(line), "{\"command\":\"dump\",\"reason\":\"%0*d\"}\n",
		CONTROL_REASON_MAX, 0);
	assert_true(n < CONTROL_REQUEST_MAX);
	expect_part(r, ask_text(line), "the reason is longer than 255 bytes");
	assert_int_equal(r->starts + r->stops + r->dumps + r->statuses, 0);
}

static void test_length(void **state)
{
	struct recording *r = *state;
	char line[CONTROL_REQUEST_MAX + 1];
	int fd;

	open_control(r);
	memset(line, ' ', sizeof(line));
	memcpy(line, STATUS, strlen(STATUS) - 1);
	line[CONTROL_REQUEST_MAX - 1] = '\n';
	fd = join();
	say(fd, line, CONTROL_REQUEST_MAX);
	expect(r, fd, STATUS_EMPTY);
	/* a byte more, and two: no end, whatever may follow */
	line[CONTROL_REQUEST_MAX - 1] = ' ';
	line[CONTROL_REQUEST_MAX] = '\n';
	fd = join();
	say(fd, line, CONTROL_REQUEST_MAX);
	expect_part(r, fd, "longer than 4096 bytes");
	fd = join();
	say(fd, line, CONTROL_REQUEST_MAX + 1);
	expect_part(r, fd, "longer than 4096 bytes");
	/* in pieces */
	fd = join();
	for (const char *p = STATUS; *p; p++) {
		say(fd, p, 1);
		settle(r);
	}
	expect(r, fd, STATUS_EMPTY);
	/* a request is a line: one that breaks off is none */
	fd = ask_text("{\"command\":\"stop\"}");
	shutdown(fd, SHUT_WR);
	expect_part(r, fd, "does not end with a newline");
	assert_int_equal(r->stops, 0);
	assert_int_equal(r->statuses, 2);
}

static void test_too_many(void **state)
{
	struct recording *r = *state;
	int idle[CONTROL_CLIENTS_MAX], before;

	open_control(r);
	before = count_fds();
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		idle[i] = join();
		settle(r);
	}
	expect_part(r, ask_text(STATUS), "talks to 8 clients already; try again in a moment");
	expect_part(r, join(), "talks to 8 clients already");
	close(idle[3]);
	settle(r);
	expect(r, ask_text(STATUS), STATUS_EMPTY);
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		if (i != 3)
			close(idle[i]);
	}
	settle(r);
	assert_int_equal(count_fds(), before);
	/* so many at once: none has to wait for long, and none is refused */
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
		idle[i] = ask_text(STATUS);
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
		close(join());
	expect(r, ask_text(STATUS), STATUS_EMPTY);
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
		expect(r, idle[i], STATUS_EMPTY);
	/* a flood of such that leave at once */
	for (int i = 0; i < 2000; i++) {
		int fd = dial(socket_of(getpid()));

		if (fd >= 0)
			close(fd);
		if (i % 10 == 0 || fd < 0)
			control_serve(r->control);
	}
	settle(r);
	assert_int_equal(count_fds(), before);
	expect(r, ask_text(STATUS), STATUS_EMPTY);
}

static void test_killed_clients(void **state)
{
	struct recording *r = *state;
	int fd, before;

	open_control(r);
	r->in_progress = true;
	before = count_fds();
	/* before, within and behind the request, and while the dump runs */
	close(join());
	close(ask_text("{\"comm"));
	settle(r);
	assert_int_equal(r->dumps, 0);
	close(ask_text(DUMP));
	settle(r);
	assert_int_equal(r->dumps, 1);
	assert_int_equal(count_fds(), before);
	control_done(r->control, r->id, 0, NULL, NULL);
	fd = ask_text(DUMP);
	settle(r);
	assert_int_equal(count_fds(), before + 2);
	close(fd);
	settle(r);
	assert_int_equal(count_fds(), before + 1 - 1);
	/* the place has another client now, which the answer is not for */
	uint64_t id = r->id;

	fd = ask_text(DUMP);
	settle(r);
	control_done(r->control, id, -EIO, NULL, "of the one before");
	control_done(r->control, r->id, 0, NULL, NULL);
	expect(r, fd, TAKEN "{\"ok\":true}\n");
	/* gone before an answer of several buffers */
	r->status_len = 1 << 20;
	close(ask_text(STATUS));
	settle(r);
	assert_int_equal(count_fds(), before);
}

static void test_talkative_clients(void **state)
{
	struct recording *r = *state;
	char junk[8192];
	int fd;

	open_control(r);
	r->in_progress = true;
	fd = ask_text(DUMP);
	settle(r);
	/* nobody reads this: settle() fails where it keeps the poll awake */
	memset(junk, '\n', sizeof(junk));
	say(fd, junk, sizeof(junk));
	settle(r);
	control_done(r->control, r->id, 0, NULL, NULL);
	expect(r, fd, TAKEN "{\"ok\":true}\n");
	/* says all it has to say, as nc -N does, and waits */
	fd = ask_text(DUMP);
	shutdown(fd, SHUT_WR);
	settle(r);
	control_done(r->control, r->id, 0, NULL, NULL);
	expect(r, fd, TAKEN "{\"ok\":true}\n");
	/* several requests: the first counts */
	fd = ask_text(STATUS STATUS DUMP);
	expect(r, fd, STATUS_EMPTY);
	assert_int_equal(r->dumps, 2);
}

/* A client that never asks and one that never reads: both are dropped, and nothing waits for them.
 */
static void test_slow_clients(void **state)
{
	struct recording *r = *state;
	struct pollfd p = { .events = POLLIN };
	int idle, deaf, before, fd;

	open_control(r);
	p.fd = control_fd(r->control);
	before = count_fds();
	idle = join();
	r->status_len = 4 << 20; /* more than any buffer */
	deaf = ask_text(STATUS);
	settle(r);
	assert_int_equal(r->statuses, 1);
	assert_int_equal(count_fds(), before + 4);
	r->status_len = 0;
	expect(r, ask_text(STATUS), STATUS_EMPTY);
	while (count_fds() > before + 2) {
		assert_int_equal(poll(&p, 1, WAIT_MS), 1);
		control_serve(r->control);
	}
	close(deaf);
	expect_part(r, idle, "no request came");
	/* one that is only slow gets all of it */
	size_t len;
	char *text;

	r->status_len = 2 << 20;
	fd = ask_text(STATUS);
	settle(r);
	text = hear(r, fd, &len);
	assert_int_equal(len, strlen(STATUS_EMPTY) + r->status_len);
	assert_string_equal(text + len - 5, "xx\"}\n");
	free(text);
}

static void test_no_files_left(void **state)
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
	while (!r->statuses) {
		assert_int_equal(poll(&p, 1, WAIT_MS), 1);
		control_serve(r->control);
	}
	expect(r, fd, STATUS_EMPTY);
}

static void test_names_that_are_no_utf8(void **state)
{
	struct recording *r = *state;

	r->status = json_object_new_object();
	json_object_object_add(r->status, "file", json_object_new_string("/a\xff/\xc3\xa9\n.json"));
	open_control(r);
	expect(r, ask_text(STATUS),
		"{\"ok\":true,\"file\":\"/a\xef\xbf\xbd/\xc3\xa9\\n.json\",\"text\":\"\"}\n");
}

static void test_end(void **state)
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
	n = recv(waiting, text, sizeof(text) - 1, 0);
	assert_true(n > 0);
	text[n] = 0;
	assert_string_equal(text, TAKEN "{\"ok\":false,\"error\":\"the recording has ended\"}\n");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_commands),
		TEST(test_bad_requests),
		TEST(test_length),
		TEST(test_too_many),
		TEST(test_killed_clients),
		TEST(test_talkative_clients),
		TEST(test_slow_clients),
		TEST(test_no_files_left),
		TEST(test_names_that_are_no_utf8),
		TEST(test_end),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
