// SPDX-License-Identifier: BSD-2-Clause
#include "capture/ringbuf.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Space is given back in pieces, since the cache line of the position is shared with the programs' CPUs. */
#define PUBLISH_MAX (64 << 10)
#define PUBLISH_SHARE 16 /* for a small ring */

/* Positions count bytes since the ring was made. The layout (kernel/bpf/ringbuf.c): a page with the
 * consumer's position, one with the producers', then the data. */
struct ringbuf {
	unsigned long *consumer;
	const unsigned long *producer;
	const char *data;
	size_t bytes, page, longest;
	char wrapped[]; /* for a sample that wraps around the end of the data */
};

int ringbuf_new(int fd, size_t bytes, size_t longest, struct ringbuf **ret_ring)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct ringbuf *r = malloc(sizeof(*r) + longest);
	char *p;
	int err;

	if (!r)
		return -ENOMEM;
	*r = (struct ringbuf){ .bytes = bytes, .page = page, .longest = longest };
	r->consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (r->consumer == MAP_FAILED) {
		err = -errno;
		free(r);
		return err;
	}
	p = mmap(NULL, page + bytes, PROT_READ, MAP_SHARED, fd, (off_t)page);
	if (p == MAP_FAILED) {
		err = -errno;
		munmap(r->consumer, page);
		free(r);
		return err;
	}
	r->producer = (const unsigned long *)p;
	r->data = p + page;
	*ret_ring = r;
	return 0;
}

void ringbuf_free(struct ringbuf *r)
{
	if (!r)
		return;
	munmap((void *)(uintptr_t)r->producer, r->page + r->bytes);
	munmap(r->consumer, r->page);
	free(r);
}

unsigned int ringbuf_fill(const struct ringbuf *r)
{
	unsigned long begin = __atomic_load_n(r->consumer, __ATOMIC_RELAXED);
	unsigned long end = __atomic_load_n(r->producer, __ATOMIC_RELAXED);

	return (unsigned int)((uint64_t)(end - begin) * 100 / r->bytes);
}

static const char *sample_at(struct ringbuf *r, unsigned long pos, size_t len)
{
	size_t offset = pos & (r->bytes - 1), first = r->bytes - offset;

	if (len <= first)
		return r->data + offset;
	memcpy(r->wrapped, r->data + offset, first);
	memcpy(r->wrapped + first, r->data, len - first);
	return r->wrapped;
}

bool ringbuf_consume(struct ringbuf *r, unsigned int max, ringbuf_cb cb, void *arg)
{
	size_t part =
		r->bytes / PUBLISH_SHARE < PUBLISH_MAX ? r->bytes / PUBLISH_SHARE : PUBLISH_MAX;
	unsigned long pos = *r->consumer, published = pos, end;
	bool busy = false;

	end = __atomic_load_n(r->producer, __ATOMIC_ACQUIRE);
	while (pos != end && max && !busy) {
		const uint32_t *head = (const uint32_t *)(r->data + (pos & (r->bytes - 1)));
		uint32_t len = __atomic_load_n(head, __ATOMIC_ACQUIRE);
		size_t size = len & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

		busy = len & BPF_RINGBUF_BUSY_BIT;
		if (busy)
			break;
		if (!(len & BPF_RINGBUF_DISCARD_BIT) && size <= r->longest) {
			cb(sample_at(r, pos + BPF_RINGBUF_HDR_SZ, size), size, arg);
			max--;
		}
		pos += BPF_RINGBUF_HDR_SZ + (size + 7) / 8 * 8;
		if (pos - published >= part) {
			__atomic_store_n(r->consumer, pos, __ATOMIC_RELEASE);
			published = pos;
		}
		if (pos == end)
			end = __atomic_load_n(r->producer, __ATOMIC_ACQUIRE);
	}
	__atomic_store_n(r->consumer, pos, __ATOMIC_RELEASE);
	return pos != end && !busy;
}
