// SPDX-License-Identifier: BSD-2-Clause
#include "io/http_post.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/parse.h"

static int copy_part(char *to, size_t size, const char *from, size_t len)
{
	if (len >= size)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		/* nothing that would end a line of the request */
		if (from[i] <= ' ' || from[i] >= 0x7f)
			return -EINVAL;
	}
	memcpy(to, from, len);
	to[len] = 0;
	return 0;
}

int http_url_parse(const char *text, const char *default_port, struct http_url *ret)
{
	const char *host, *end, *colon;
	size_t len;
	uint32_t port;

	if (!strncasecmp(text, "https://", 8))
		return -EPROTONOSUPPORT;
	if (strncasecmp(text, "http://", 7))
		return -EINVAL;
	host = text + 7;
	end = host + strcspn(host, "/");
	len = strlen(end);
	while (len && end[len - 1] == '/')
		len--;
	if (strpbrk(text, "?#@") || copy_part(ret->path, sizeof(ret->path), end, len))
		return -EINVAL;
	colon = memrchr(host, ':', (size_t)(end - host));
	if (*host == '[') {
		const char *close = memchr(host, ']', (size_t)(end - host));

		if (!close || (close + 1 != end && close[1] != ':'))
			return -EINVAL;
		if (copy_part(ret->host, sizeof(ret->host), host + 1, (size_t)(close - host - 1)))
			return -EINVAL;
		colon = close + 1 == end ? NULL : close + 1;
	} else if (copy_part(ret->host, sizeof(ret->host), host, (size_t)((colon ? colon : end) - host))) {
		return -EINVAL;
	}
	if (colon ? copy_part(ret->port, sizeof(ret->port), colon + 1, (size_t)(end - colon - 1))
		  : copy_part(ret->port, sizeof(ret->port), default_port, strlen(default_port)))
		return -EINVAL;
	return !*ret->host || parse_u32(ret->port, &port) || !port || port > UINT16_MAX ? -EINVAL : 0;
}

static int connect_any(const struct http_url *url, unsigned int ms, int *ret_fd)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG }, *list;
	struct timeval limit = { ms / 1000, (suseconds_t)(ms % 1000) * 1000 };
	int fd, err = -EHOSTUNREACH;

	/* AI_ADDRCONFIG leaves out the loopback addresses of a machine without others */
	if (getaddrinfo(url->host, url->port, &hints, &list)) {
		hints.ai_flags = AI_NUMERICSERV;
		if (getaddrinfo(url->host, url->port, &hints, &list))
			return -EHOSTUNREACH;
	}
	for (const struct addrinfo *a = list; a && err; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0) {
			err = -errno;
			continue;
		}
		/* the limit for sending is that for connecting, too: socket(7) */
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		err = connect(fd, a->ai_addr, a->ai_addrlen) ? -errno : 0;
		if (err == -EINPROGRESS)
			err = -ETIMEDOUT;
		if (err)
			close(fd);
		else
			*ret_fd = fd;
	}
	freeaddrinfo(list);
	return err;
}

static int send_all(int fd, const char *data, size_t len, uint64_t until)
{
	ssize_t n;

	while (len) {
		n = clock_mono_ns() < until ? send(fd, data, len, MSG_NOSIGNAL) : 0;
		if (!n || (n < 0 && errno == EAGAIN))
			return -ETIMEDOUT;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Reads until the first line of the answer is there. */
static int read_status(int fd, uint64_t until, int *ret_status)
{
	char head[64] = "";
	size_t len = 0;
	ssize_t n;

	while (len < sizeof(head) - 1 && !memchr(head, '\n', len)) {
		n = clock_mono_ns() < until ? recv(fd, head + len, sizeof(head) - 1 - len, 0) : -1;
		if (n < 0)
			return errno == EAGAIN || clock_mono_ns() >= until ? -ETIMEDOUT : -errno;
		if (!n)
			break;
		len += (size_t)n;
		head[len] = 0;
	}
	return sscanf(head, "HTTP/1.%*1[01] %3d", ret_status) == 1 ? 0 : -EPROTO;
}

int http_post(const struct http_url *url, const char *path, const char *type, const void *body, size_t len, unsigned int ms,
	int *ret_status)
{
	bool v6 = strchr(url->host, ':');
	uint64_t limit = ms * NSEC_PER_MSEC;
	char *head;
	int fd = -1, err, n;

	err = connect_any(url, ms, &fd);
	if (err)
		return err;
	n = asprintf(&head,
		"POST %s%s HTTP/1.1\r\nHost: %s%s%s:%s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", url->path,
		path, v6 ? "[" : "", url->host, v6 ? "]" : "", url->port, type, len);
	err = n < 0 ? -ENOMEM : send_all(fd, head, (size_t)n, clock_mono_ns() + limit);
	if (n >= 0)
		free(head);
	if (!err)
		err = send_all(fd, body, len, clock_mono_ns() + limit);
	if (!err)
		err = read_status(fd, clock_mono_ns() + limit, ret_status);
	close(fd);
	return err;
}
