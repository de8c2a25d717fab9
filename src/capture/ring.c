// SPDX-License-Identifier: BSD-2-Clause
#include "capture/ring.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe.h"

struct rings {
	struct ring_buffer *control, *data;
	int fds[RINGS_MAX];
	unsigned int n;
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
	return 0;
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
		if (!r->data) {
			r->data = ring_buffer__new(fd, on_sample, r, NULL);
			err = r->data ? 0 : -errno;
		} else {
			err = ring_buffer__add(r->data, fd, on_sample, r);
		}
		if (err)
			goto out;
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
	ring_buffer__free(r->data);
	ring_buffer__free(r->control);
	for (unsigned int i = 0; i < r->n; i++)
		close(r->fds[i]);
	free(r);
}

int rings_drain(struct rings *r)
{
	int control = ring_buffer__consume(r->control);
	int data = control < 0 ? control : ring_buffer__consume(r->data);

	return data < 0 ? data : control + data;
}
