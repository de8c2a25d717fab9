// SPDX-License-Identifier: BSD-2-Clause
#include "capture/ringbuf.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "probe.h"
#include "util/alloc.h"

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
	unsigned long *consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct ringbuf *r;
	char *p;
	int err;

	if (consumer == MAP_FAILED)
		return -errno;
	p = mmap(NULL, page + bytes, PROT_READ, MAP_SHARED, fd, (off_t)page);
	if (p == MAP_FAILED) {
		err = -errno;
		munmap(consumer, page);
		return err;
	}
	r = xmalloc(sizeof(*r) + longest);
	*r = (struct ringbuf){ consumer, (const unsigned long *)p, p + page, bytes, page, longest };
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

/* In percent; callable from any thread. */
static unsigned int ringbuf_fill(const struct ringbuf *r)
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
	size_t part = r->bytes / PUBLISH_SHARE < PUBLISH_MAX ? r->bytes / PUBLISH_SHARE : PUBLISH_MAX;
	unsigned long pos = *r->consumer, published = pos, end;
	bool busy = false;

	end = __atomic_load_n(r->producer, __ATOMIC_ACQUIRE);
	while (pos != end && max) {
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

#define TURN_RECORDS (1 << 14) /* takes a few milliseconds to format */

struct rings {
	struct ringbuf *control, *data[RINGS_MAX];
	unsigned int n;
	bool in_control;
	record_cb cb;
	void *arg;
};

unsigned int rings_count(unsigned int cpus, unsigned int *ret_shift)
{
	unsigned int shift = 0;

	while (((cpus - 1) >> shift) >= RINGS_MAX)
		shift++;
	*ret_shift = shift;
	return ((cpus - 1) >> shift) + 1;
}

int rings_set_template(struct bpf_map *outer)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, (uint32_t)sysconf(_SC_PAGESIZE), NULL);
	int err;

	if (fd < 0)
		return -errno;
	err = bpf_map__set_inner_map_fd(outer, fd);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

static void on_sample(const void *data, size_t size, void *arg)
{
	struct rings *r = arg;

	if (size >= sizeof(struct rec_hdr))
		r->cb(data, size, r->arg);
}

static int create_ring(struct rings *r, int outer_fd, uint32_t i, size_t bytes)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, (uint32_t)bytes, NULL);
	int err;

	if (fd < 0)
		return -errno;
	err = bpf_map_update_elem(outer_fd, &i, &fd, BPF_ANY) ? -errno : 0;
	if (!err)
		err = ringbuf_new(fd, bytes, REC_SENT_MAX, &r->data[i]);
	close(fd); /* the outer map and the mapping hold references */
	return err;
}

int rings_create(struct bpf_map *outer, struct bpf_map *control, unsigned int n, size_t bytes,
	record_cb cb, void *arg, struct rings **ret_rings)
{
	struct rings *r = xcalloc(1, sizeof(*r));
	int err;

	r->cb = cb;
	r->arg = arg;
	err = ringbuf_new(bpf_map__fd(control), bpf_map__max_entries(control), REC_SENT_MAX, &r->control);
	for (; r->n < n && !err; r->n++)
		err = create_ring(r, bpf_map__fd(outer), r->n, bytes);
	if (err) {
		rings_free(r);
		return err;
	}
	*ret_rings = r;
	return 0;
}

void rings_free(struct rings *r)
{
	if (!r)
		return;
	ringbuf_free(r->control);
	for (unsigned int i = 0; i < r->n; i++)
		ringbuf_free(r->data[i]);
	free(r);
}

int rings_drain_control(struct rings *r)
{
	int more;

	if (r->in_control) /* called from one of its own records: the rest follows after that */
		return 0;
	r->in_control = true;
	more = ringbuf_consume(r->control, TURN_RECORDS, on_sample, r);
	r->in_control = false;
	return more;
}

unsigned int rings_fill(const struct rings *r)
{
	unsigned int most = ringbuf_fill(r->control);

	for (unsigned int i = 0; i < r->n; i++) {
		unsigned int fill = ringbuf_fill(r->data[i]);

		most = fill > most ? fill : most;
	}
	return most;
}

int rings_drain(struct rings *r)
{
	int more = rings_drain_control(r);

	for (unsigned int i = 0; i < r->n; i++)
		more |= ringbuf_consume(r->data[i], TURN_RECORDS, on_sample, r);
	return more;
}
