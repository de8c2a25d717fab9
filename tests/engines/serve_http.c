// SPDX-License-Identifier: BSD-2-Clause
#include "../program.h"

#include "serve_http.h"

#include <arpa/inet.h>
#include <sys/uio.h>

#define INCOMING_MAX 1024
#define PIECE 16 /* of what is read; not less than the name of a request */
#define WAIT_NS 50000000 /* how long the decoding thread waits before it looks whether it is to end */

struct answer {
	pthread_mutex_t lock;
	pthread_cond_t more;
	int tokens, pad;
	bool over, gone;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static struct http_request incoming[INCOMING_MAX];
static unsigned int n_in, n_out;
static bool in_pieces;

static bool write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		data += n;
		size -= (size_t)n;
	}
	return true;
}

/* Each way to read no bytes: nothing happens. */
static void read_nothing(int fd)
{
	char text[1];
	struct iovec pieces[2] = { { text, 0 }, { text, 0 } };
	struct msghdr message = { .msg_iov = pieces, .msg_iovlen = 2 };

	if (read(fd, text, 0) || readv(fd, pieces, 2) || readv(fd, pieces, 0))
		abort();
	/* these would wait for something to be there */
	if (recv(fd, text, 0, MSG_DONTWAIT) > 0 || recvmsg(fd, &message, MSG_DONTWAIT) > 0)
		abort();
}

/* Up to the end of the header. */
static bool read_request(int fd, struct http_request *r, int *pad)
{
	char text[4096];
	size_t size = 0;

	r->waiting_ns = clock_ns(CLOCK_BOOTTIME);
	do {
		ssize_t n = recv(fd, text + size, in_pieces ? PIECE : sizeof(text) - 1 - size, 0);

		if (in_pieces)
			read_nothing(fd);

		if (n <= 0)
			return false;
		if (!size)
			r->read_ns = clock_ns(CLOCK_BOOTTIME);
		size += (size_t)n;
		text[size] = 0;
	} while (!strstr(text, "\r\n\r\n") && size < sizeof(text) - 1 - PIECE);
	*pad = 0;
	return sscanf(text, "GET /%d?prompt=%d&tokens=%d&pad=%d", &r->name, &r->prompt, &r->tokens, pad) >= 3 &&
		r->prompt > 0 && r->tokens > 0;
}

/* A token each, in one chunk of HTTP. */
static bool write_tokens(int fd, int from, int to, int pad)
{
	char *text = malloc((size_t)pad + 64);
	bool ok = true;

	for (; ok && from < to; from++) {
		int head = snprintf(text, 64, "%x\r\n", pad + 8);

		memset(text + head, 'x', (size_t)pad + 7);
		memcpy(text + head + pad + 7, "\n\r\n", 3);
		ok = write_all(fd, text, (size_t)(head + pad + 10));
	}
	free(text);
	return ok;
}

static bool serve_answer(int fd, struct answer *a)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
				   "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
	bool ok = true, over = false;
	int sent = 0, n;

	while (ok && !over) {
		pthread_mutex_lock(&a->lock);
		while (a->tokens == sent && !a->over)
			pthread_cond_wait(&a->more, &a->lock);
		n = a->tokens;
		over = a->over;
		pthread_mutex_unlock(&a->lock);
		if (!sent)
			ok = write_all(fd, head, sizeof(head) - 1);
		ok = ok && write_tokens(fd, sent, n, a->pad);
		sent = n;
	}
	return ok && write_all(fd, "0\r\n\r\n", 5);
}

static void answer_free(struct answer *a)
{
	pthread_cond_destroy(&a->more);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static void *connection(void *arg)
{
	int fd = (int)(long)arg;
	struct http_request r;
	struct answer *a = calloc(1, sizeof(*a));

	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->more, NULL);
	r.answer = a;
	if (!read_request(fd, &r, &a->pad)) {
		answer_free(a);
		close(fd);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	if (n_in - n_out < INCOMING_MAX) {
		incoming[n_in++ % INCOMING_MAX] = r;
		pthread_cond_signal(&arrived);
	} else {
		a->over = true;
	}
	pthread_mutex_unlock(&lock);
	if (!serve_answer(fd, a)) {
		pthread_mutex_lock(&a->lock);
		a->gone = true;
		while (!a->over)
			pthread_cond_wait(&a->more, &a->lock);
		pthread_mutex_unlock(&a->lock);
	}
	close(fd);
	answer_free(a);
	return NULL;
}

static void *acceptor(void *arg)
{
	int fd, listener = (int)(long)arg, small = 4096;
	pthread_t thread;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		/* a client that does not read holds its thread up soon */
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
		if (pthread_create(&thread, NULL, connection, (void *)(long)fd))
			close(fd);
		else
			pthread_detach(thread);
	}
	return NULL;
}

int http_start(bool pieces)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in address = loopback_bind(fd);

	in_pieces = pieces;
	must(!listen(fd, 256), "listen");
	thread_start(acceptor, (void *)(long)fd);
	return ntohs(address.sin_port);
}

bool http_take(struct http_request *ret, bool wait)
{
	struct timespec end;
	bool any;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += WAIT_NS;
	if (end.tv_nsec >= 1000000000) {
		end.tv_nsec -= 1000000000;
		end.tv_sec++;
	}
	pthread_mutex_lock(&lock);
	if (wait && n_in == n_out)
		pthread_cond_timedwait(&arrived, &lock, &end);
	any = n_in != n_out;
	if (any)
		*ret = incoming[n_out++ % INCOMING_MAX];
	pthread_mutex_unlock(&lock);
	return any;
}

void http_tokens(struct answer *a, int n)
{
	pthread_mutex_lock(&a->lock);
	a->tokens += n;
	pthread_cond_signal(&a->more);
	pthread_mutex_unlock(&a->lock);
}

bool http_gone(struct answer *a)
{
	bool gone;

	pthread_mutex_lock(&a->lock);
	gone = a->gone;
	pthread_mutex_unlock(&a->lock);
	return gone;
}

void http_end(struct answer *a)
{
	pthread_mutex_lock(&a->lock);
	a->over = true;
	pthread_cond_signal(&a->more);
	pthread_mutex_unlock(&a->lock);
}
