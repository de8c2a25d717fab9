// SPDX-License-Identifier: BSD-2-Clause
#include "capture/ring.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "capture/ringbuf.h"
#include "probe.h"

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
	struct rings *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->cb = cb;
	r->arg = arg;
	err = ringbuf_new(
		bpf_map__fd(control), bpf_map__max_entries(control), REC_SENT_MAX, &r->control);
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

static int drain_ring(struct rings *r, struct ringbuf *ring)
{
	return ringbuf_consume(ring, TURN_RECORDS, on_sample, r);
}

int rings_drain_control(struct rings *r)
{
	int more;

	if (r->in_control) /* called from one of its own records: the rest follows after that */
		return 0;
	r->in_control = true;
	more = drain_ring(r, r->control);
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
		more |= drain_ring(r, r->data[i]);
	return more;
}
