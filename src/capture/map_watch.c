// SPDX-License-Identifier: BSD-2-Clause
#include "capture/map_watch.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* On many CPUs each makes fewer events; all rings together stay at 4 MB. */
#define RING_BYTES (64u << 10)
#define RINGS_BYTES (4u << 20)
#define RING_LEAST (16u << 10)

/* perf_event_open(2): what precedes the path of a PERF_RECORD_MMAP */
struct mmap_head {
	struct perf_event_header h;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
};

struct lost_record {
	struct perf_event_header h;
	uint64_t id, lost;
};

struct map_ring {
	int fd;
	struct perf_event_mmap_page *page; /* the data follows */
};

struct map_watch {
	size_t page_bytes, ring_bytes;
	uint64_t lost;
	unsigned char record[sizeof(struct mmap_head) + PATH_MAX + 1]; /* the newest one, in one piece */
	size_t n;
	struct map_ring rings[];
};

static int open_event(int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1, /* of executable pages only, without mmap_data */
		.watermark = 1,
		.wakeup_watermark = UINT32_MAX, /* nobody waits */
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_ring(struct map_watch *w, int cpu)
{
	struct map_ring *r = &w->rings[w->n];
	int err;

	r->fd = open_event(cpu);
	if (r->fd < 0)
		return r->fd == -ENODEV ? 0 : r->fd; /* the CPU is offline */
	r->page = mmap(NULL, w->page_bytes + w->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (r->page == MAP_FAILED) {
		err = -errno;
		close(r->fd);
		return err;
	}
	w->n++;
	return 0;
}

int map_watch_new(struct map_watch **ret_watch)
{
	int cpus = libbpf_num_possible_cpus(), err = cpus < 0 ? cpus : 0;
	struct map_watch *w = err ? NULL : calloc(1, sizeof(*w) + (size_t)cpus * sizeof(w->rings[0]));

	if (!w)
		return err ? err : -ENOMEM;
	w->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	w->ring_bytes = RING_BYTES;
	while (w->ring_bytes > RING_LEAST && w->ring_bytes * (size_t)cpus > RINGS_BYTES)
		w->ring_bytes /= 2;
	if (w->ring_bytes < w->page_bytes)
		w->ring_bytes = w->page_bytes;
	for (int cpu = 0; cpu < cpus && !err; cpu++)
		err = open_ring(w, cpu);
	if (err) {
		map_watch_free(w);
		return err;
	}
	*ret_watch = w;
	return 0;
}

void map_watch_free(struct map_watch *w)
{
	for (size_t i = 0; w && i < w->n; i++) {
		munmap(w->rings[i].page, w->page_bytes + w->ring_bytes);
		close(w->rings[i].fd);
	}
	free(w);
}

/* Copies bytes at a position of the ring, which they may wrap around. */
static void copy_out(const struct map_watch *w, const struct map_ring *r, uint64_t at, void *to, size_t n)
{
	const unsigned char *data = (const unsigned char *)r->page + w->page_bytes;
	size_t from = (size_t)(at & (w->ring_bytes - 1)), first = w->ring_bytes - from;

	if (first > n)
		first = n;
	memcpy(to, data + from, first);
	memcpy((unsigned char *)to + first, data, n - first);
}

static void take(struct map_watch *w, size_t n, map_watch_cb cb, void *arg)
{
	const struct mmap_head *m = (const void *)w->record;
	const struct lost_record *l = (const void *)w->record;

	if (m->h.type == PERF_RECORD_LOST && n >= sizeof(*l)) {
		w->lost += l->lost;
	} else if (m->h.type == PERF_RECORD_MMAP && n > sizeof(*m) && (m->h.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER) {
		w->record[n] = 0;
		cb((pid_t)m->pid, (const char *)(m + 1), arg);
	}
}

static void drain_ring(struct map_watch *w, struct map_ring *r, map_watch_cb cb, void *arg)
{
	uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE), tail = r->page->data_tail;

	while (tail < head) {
		struct perf_event_header h;
		size_t n;

		copy_out(w, r, tail, &h, sizeof(h));
		if (h.size < sizeof(h) || h.size > head - tail) /* cannot be */
			break;
		n = h.size < sizeof(w->record) ? h.size : sizeof(w->record) - 1;
		copy_out(w, r, tail, w->record, n);
		take(w, n, cb, arg);
		tail += h.size;
	}
	__atomic_store_n(&r->page->data_tail, tail < head ? head : tail, __ATOMIC_RELEASE);
}

void map_watch_drain(struct map_watch *w, map_watch_cb cb, void *arg)
{
	for (size_t i = 0; i < w->n; i++)
		drain_ring(w, &w->rings[i], cb, arg);
}

uint64_t map_watch_lost(const struct map_watch *w)
{
	return w->lost;
}
