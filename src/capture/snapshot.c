// SPDX-License-Identifier: BSD-2-Clause
#include "capture/snapshot.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe.h"

#define PEEK_TRIES 3
#define PEEK_READ (1 << 16)

/* Returns a file descriptor whose reading runs the program. */
static int open_iterator(struct bpf_program *prog)
{
	struct bpf_link *link = bpf_program__attach_iter(prog, NULL);
	int fd;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	if (fd < 0)
		fd = -errno;
	bpf_link__destroy(link); /* the file holds a reference of its own */
	return fd;
}

int snapshot_run(struct bpf_program *prog)
{
	int fd = open_iterator(prog);
	char buf[64];
	ssize_t n;

	if (fd < 0)
		return fd;
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		;
	n = n < 0 ? -errno : 0;
	close(fd);
	return (int)n;
}

int snapshot_waiting(struct bpf_program *prog, volatile uint64_t *until, uint64_t boot_ns)
{
	if (!bpf_program__autoload(prog))
		return 0;
	*until = boot_ns;
	return snapshot_run(prog);
}

static int read_all(int fd, char **ret_data, size_t *ret_len)
{
	char *data = NULL, *grown;
	size_t len = 0;
	ssize_t n;

	do {
		grown = realloc(data, len + PEEK_READ);
		if (!grown) {
			free(data);
			return -ENOMEM;
		}
		data = grown;
		n = read(fd, data + len, PEEK_READ);
		len += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	if (n < 0) {
		n = -errno;
		free(data);
		return (int)n;
	}
	*ret_data = data;
	*ret_len = len;
	return 0;
}

struct done {
	uint32_t *tids;
	size_t n, cap;
};

static bool is_done(const struct done *d, uint32_t tid)
{
	for (size_t i = 0; i < d->n; i++) {
		if (d->tids[i] == tid)
			return true;
	}
	return false;
}

static int add_done(struct done *d, uint32_t tid)
{
	uint32_t *tids;

	if (d->n == d->cap) {
		tids = realloc(d->tids, (2 * d->cap + 64) * sizeof(*tids));
		if (!tids)
			return -ENOMEM;
		d->tids = tids;
		d->cap = 2 * d->cap + 64;
	}
	d->tids[d->n++] = tid;
	return 0;
}

static uint64_t word_at(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Passes on the records of one thread, up to its end. */
static void hand_over(const char *from, const char *to, record_cb cb, void *arg)
{
	while (from < to) {
		uint64_t size = word_at(from);

		cb((const struct rec_hdr *)(from + sizeof(size)), size, arg);
		from += sizeof(size) + size;
	}
}

/* Returns how many threads were torn, or an error. All sizes are multiples of 8. */
static int parse(const char *data, size_t len, struct done *d, record_cb cb, peek_cb thread_cb, void *arg)
{
	const char *p = data, *end = data + len, *first = data;
	struct peek_end thread;
	int torn = 0;

	while ((size_t)(end - p) >= sizeof(uint64_t)) {
		uint64_t size = word_at(p);

		if (size != PEEK_WHOLE && size != PEEK_TORN) {
			if (size < sizeof(struct rec_hdr) || size > (size_t)(end - p) - sizeof(size))
				return -EPROTO;
			p += sizeof(size) + size;
			continue;
		}
		if ((size_t)(end - p) < sizeof(thread))
			return -EPROTO;
		memcpy(&thread, p, sizeof(thread));
		if (!is_done(d, thread.tid)) {
			if (size == PEEK_TORN) {
				torn++;
			} else if (add_done(d, thread.tid)) {
				return -ENOMEM;
			} else {
				hand_over(first, p, cb, arg);
				thread_cb(thread.tid, thread.at_ns, arg);
			}
		}
		p += sizeof(thread);
		first = p;
	}
	return torn;
}

int snapshot_peek(struct bpf_program *prog, record_cb cb, peek_cb thread_cb, void *arg)
{
	struct done d = { 0 };
	int torn = 1;

	for (int i = 0; i < PEEK_TRIES && torn > 0; i++) {
		char *data = NULL;
		size_t len = 0;
		int fd = open_iterator(prog), err;

		err = fd < 0 ? fd : read_all(fd, &data, &len);
		torn = err ? err : parse(data, len, &d, cb, thread_cb, arg);
		free(data);
		if (fd >= 0)
			close(fd);
	}
	free(d.tids);
	return torn < 0 ? torn : 0;
}
