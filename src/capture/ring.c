// SPDX-License-Identifier: BSD-2-Clause
#include "capture/ring.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe.h"

#define TURN_RECORDS (1 << 14) /* a few milliseconds of formatting */

struct rings {
	struct ring_buffer *control, *data[RINGS_MAX];
	int fds[RINGS_MAX];
	unsigned int n;
	unsigned int turn; /* records that the ring in turn may still hand over */
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

static int on_sample(void *ctx, void *data, size_t size)
{
	struct rings *r = ctx;

	if (size >= sizeof(struct rec_hdr))
		r->cb(data, size, r->arg);
	/* this record is taken all the same, libbpf only stops behind it */
	return --r->turn ? 0 : -EAGAIN;
}

int rings_create(struct bpf_map *outer, int control_fd, unsigned int n, size_t bytes, record_cb cb,
	void *arg, struct rings **ret_rings)
{
	struct rings *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->cb = cb;
	r->arg = arg;
	r->control = ring_buffer__new(control_fd, on_sample, r, NULL);
	if (!r->control) {
		err = -errno;
		goto out;
	}
	for (uint32_t i = 0; i < n; i++) {
		int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, (uint32_t)bytes, NULL);

		if (fd < 0) {
			err = -errno;
			goto out;
		}
		r->fds[r->n++] = fd;
		err = bpf_map_update_elem(bpf_map__fd(outer), &i, &fd, BPF_ANY) ? -errno : 0;
		if (err)
			goto out;
		r->data[i] = ring_buffer__new(fd, on_sample, r, NULL);
		if (!r->data[i]) {
			err = -errno;
			goto out;
		}
	}
	*ret_rings = r;
	return 0;
out:
	rings_free(r);
	return err;
}

void rings_free(struct rings *r)
{
	if (!r)
		return;
	ring_buffer__free(r->control);
	for (unsigned int i = 0; i < r->n; i++) {
		ring_buffer__free(r->data[i]);
		close(r->fds[i]);
	}
	free(r);
}

static int drain_ring(struct rings *r, struct ring_buffer *ring)
{
	int n;

	r->turn = TURN_RECORDS;
	n = ring_buffer__consume(ring);
	if (n == -EAGAIN)
		return 1;
	return n < 0 ? n : 0;
}

int rings_drain_control(struct rings *r)
{
	unsigned int turn = r->turn;
	int more;

	if (r->in_control) /* from one of its own records: the rest follows behind that */
		return 0;
	r->in_control = true;
	more = drain_ring(r, r->control);
	r->in_control = false;
	r->turn = turn;
	return more;
}

int rings_drain(struct rings *r)
{
	int more, err;

	more = rings_drain_control(r);
	for (unsigned int i = 0; i < r->n && more >= 0; i++) {
		err = drain_ring(r, r->data[i]);
		more = err < 0 ? err : more | err;
	}
	return more;
}
