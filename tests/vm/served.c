// SPDX-License-Identifier: BSD-2-Clause
/*
 * A server and its client: SERVED requests of HTTP on one connection, each answered in CHUNKS
 * parts.
 */
#include "../program.h"

#include <sys/un.h>

enum {
	SERVED = 3,
	CHUNKS = 4,
};

static const struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "/tmp/served" };

static void send_text(int fd, const char *text)
{
	must(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "write");
}

/* Reads until the received text ends in `end`. */
static void read_until(int fd, const char *end)
{
	char buf[4096];
	size_t len = 0, n = strlen(end);

	while (len < n || memcmp(buf + len - n, end, n)) {
		ssize_t got = read(fd, buf + len, sizeof(buf) - len);

		must(got > 0, "read");
		len += (size_t)got;
	}
}

static void *ask(void *arg)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)arg;
	must(fd >= 0 && !connect(fd, (const struct sockaddr *)&address, sizeof(address)), "connect");
	for (int i = 0; i < SERVED; i++) {
		send_text(fd, "POST /vm HTTP/1.1\r\nHost: x\r\n\r\n");
		read_until(fd, "\r\n0\r\n\r\n");
	}
	close(fd);
	return NULL;
}

static void answer(int fd)
{
	read_until(fd, "\r\n\r\n");
	send_text(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < CHUNKS; i++) {
		sleep_for(2 * MS);
		send_text(fd, "5\r\ntoken\r\n");
	}
	send_text(fd, "0\r\n\r\n");
}

int main(void)
{
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), fd;
	pthread_t client;

	unlink(address.sun_path);
	must(listener >= 0 && !bind(listener, (const struct sockaddr *)&address, sizeof(address)) && !listen(listener, 1), "listen");
	client = thread_start(ask, NULL);
	fd = accept(listener, NULL, NULL);
	must(fd >= 0, "accept");
	for (int i = 0; i < SERVED; i++)
		answer(fd);
	pthread_join(client, NULL);
	close(fd);
	return 0;
}
