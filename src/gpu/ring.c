// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpu/info.h"
#include "util/alloc.h"
#include "util/clock.h"

#define SLACK_NS NSEC_PER_SEC         /* how far a start may lie before the ring was made */
#define AHEAD_NS (10 * NSEC_PER_MSEC) /* how far an end may lie after now, since clocks are compared only from time to time */
#define CLOCK_TRIES 4
#define COUNT_MAX (UINT64_C(1) << 50) /* cap of a counter: above any real value, yet sums do not overflow */
#define GPU_ERROR_OTHER_USER 39       /* CUPTI's number */

static int feed_map_ring(struct gpu_feed *f)
{
	f->fd = memfd_create("inftrace-gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (f->fd < 0 || ftruncate(f->fd, (off_t)f->size))
		return -errno;
	f->ring = mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (f->ring == MAP_FAILED) {
		f->ring = NULL;
		return -errno;
	}
	f->ring->fixed = (struct gpu_ring_fixed){
		.magic = GPU_HAND_OVER_MAGIC,
		.version = GPU_HAND_OVER_VERSION,
		.record_size = sizeof(struct gpu_record),
		.capacity = f->capacity,
	};
	/* if the process could shrink it, an access could kill inftrace by SIGBUS */
	return fcntl(f->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ? -errno : 0;
}

int gpu_feed_new(uint32_t capacity, uint64_t now_ns, struct gpu_feed **ret_feed)
{
	struct gpu_feed *f = xcalloc(1, sizeof(*f));
	int err;

	f->capacity = capacity;
	f->size = GPU_RING_SIZE(capacity);
	f->begun_ns = now_ns;
	err = feed_map_ring(f);
	if (err) {
		gpu_feed_free(f);
		return err;
	}
	*ret_feed = f;
	return 0;
}

void gpu_feed_free(struct gpu_feed *f)
{
	if (!f)
		return;
	if (f->ring)
		munmap(f->ring, f->size);
	if (f->fd >= 0)
		close(f->fd);
	free(f);
}

/* ---- records ---- */

/* Returns false if the piece belongs to no name. */
static bool feed_take_name(struct gpu_feed *f, const struct gpu_name *n, const struct gpu_feed_ops *ops, void *arg)
{
	uint32_t len;

	if (!n->id || n->length > GPU_NAME_MAX || n->offset % GPU_NAME_CHUNK || n->offset > n->length)
		return false;
	if (!n->offset) {
		f->name.id = n->id;
		f->name.length = n->length;
		f->name.have = 0;
	}
	if (f->name.id != n->id || f->name.length != n->length || f->name.have != n->offset)
		return false;
	len = n->length - n->offset < GPU_NAME_CHUNK ? n->length - n->offset : GPU_NAME_CHUNK;
	memcpy(f->name.text + n->offset, n->text, len);
	f->name.have += len;
	if (f->name.have < f->name.length)
		return true;
	f->name.text[f->name.length] = 0;
	f->name.id = 0;
	ops->name(n->id, f->name.text, arg);
	return true;
}

static bool feed_take_record(struct gpu_feed *f, struct gpu_record *r, uint64_t now_ns, const struct gpu_feed_ops *ops, void *arg)
{
	switch (r->kind) {
	case GPU_RECORD_KERNEL:
	case GPU_RECORD_COPY:
	case GPU_RECORD_SET:
	case GPU_RECORD_GRAPH:
		r->start += f->shift_ns;
		r->end += f->shift_ns;
		r->launched += r->launched ? f->shift_ns : 0;
		if (r->start > r->end || r->end > now_ns + AHEAD_NS || r->start + SLACK_NS < f->begun_ns || r->device >= GPU_DEVICES_MAX ||
			r->flags & GPU_RECORD_F_CLOCK)
			return false;
		ops->activity(r, arg);
		return true;
	case GPU_RECORD_NAME:
		return feed_take_name(f, &r->name, ops, arg);
	case GPU_RECORD_DEVICE:
		if (r->device >= GPU_DEVICES_MAX || !memchr(r->about.name, 0, sizeof(r->about.name)) ||
			!memchr(r->about.pci, 0, sizeof(r->about.pci)))
			return false;
		ops->device(r->device, &r->about, arg);
		return true;
	case GPU_RECORD_DROPPED: /* the counters say the same */
		return true;
	default:
		return false;
	}
}

bool gpu_feed_drain(struct gpu_feed *f, uint64_t now_ns, uint32_t max, const struct gpu_feed_ops *ops, void *arg)
{
	const struct gpu_record *records = GPU_RING_RECORDS(f->ring);
	uint64_t head = __atomic_load_n(&f->ring->writer.head, __ATOMIC_ACQUIRE), n = head - f->tail;

	if (f->broken || n > f->capacity) {
		f->broken = true;
		return false;
	}
	for (uint64_t i = 0; i < n && i < max; i++) {
		struct gpu_record r;

		memcpy(&r, &records[f->tail & (f->capacity - 1)], sizeof(r));
		__asm__ volatile(""
				 :
				 : "r"(&r)
				 : "memory"); /* the compiler must use the copy from here on */
		f->bad += !feed_take_record(f, &r, now_ns, ops, arg);
		f->tail++;
	}
	__atomic_store_n(&f->ring->reader.tail, f->tail, __ATOMIC_RELEASE);
	return n > max;
}

unsigned int gpu_feed_fill(const struct gpu_feed *f)
{
	uint64_t tail = __atomic_load_n(&f->ring->reader.tail, __ATOMIC_RELAXED);
	uint64_t n = __atomic_load_n(&f->ring->writer.head, __ATOMIC_RELAXED) - tail;

	return n < f->capacity ? (unsigned int)(n * 100 / f->capacity) : 100;
}

/* ---- the agent ---- */

static uint64_t load_u64(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static uint32_t load_u32(const void *p)
{
	return __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE);
}

/* 0: never */
static uint64_t feed_load_time(const struct gpu_feed *f, const uint64_t *p, uint64_t now_ns)
{
	uint64_t time = load_u64(p);

	time += time ? f->shift_ns : 0;
	return time < now_ns ? time : now_ns;
}

static void counter_raise(uint64_t *counter, uint64_t to)
{
	to = to < COUNT_MAX ? to : COUNT_MAX;
	if (to > *counter)
		*counter = to;
}

static uint64_t sum_capped(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Returns by how much a time may be off. */
static uint64_t clock_read_residual(const struct gpu_ring_clock *c)
{
	for (int i = 0; i < CLOCK_TRIES; i++) {
		uint32_t before = load_u32(&c->generation);
		uint64_t half = load_u64(&c->residual_ns), bend = load_u64(&c->bend_ns);

		if (!(before & 1) && load_u32(&c->generation) == before)
			return sum_capped(sum_capped(half, half), bend);
	}
	return 0; /* the caller keeps the old value */
}

/* The error of an agent that has left tells why it did not collect. */
static enum gpu_state feed_state_of(uint32_t state, int error, enum gpu_call call, enum gpu_vendor vendor)
{
	if (state >= GPU_STATE_MAX)
		return GPU_STATE_FAILED;
	if (state != GPU_STATE_GONE || !error)
		return (enum gpu_state)state;
	if (vendor == GPU_VENDOR_NVIDIA && error == GPU_ERROR_OTHER_USER)
		return GPU_STATE_OTHER_USER;
	return call == GPU_CALL_NONE ? GPU_STATE_NO_CUPTI : GPU_STATE_FAILED;
}

void gpu_feed_state(struct gpu_feed *f, uint64_t now_ns, struct gpu_feed_state *ret_state)
{
	const struct gpu_ring_writer *w = &f->ring->writer;
	struct gpu_feed_state *st = &f->state;
	uint64_t until = feed_load_time(f, &w->flushed_until, now_ns), ring = load_u64(&w->dropped_ring), cupti = load_u64(&w->dropped_cupti);
	uint32_t state = load_u32(&w->state), call = load_u32(&w->failed_call), vendor = load_u32(&w->vendor);

	st->off_since = feed_load_time(f, &w->off_since, now_ns); /* off_since first, in the order in which they are written */
	st->on_since = feed_load_time(f, &w->on_since, now_ns);
	st->settled = load_u32(&w->wanted_seen) == f->change || f->broken;
	st->failed_call = call < GPU_CALL_MAX ? (enum gpu_call)call : GPU_CALL_NONE;
	st->error = (int)load_u32(&w->error);
	st->version = load_u32(&w->version);
	st->vendor = vendor < GPU_VENDOR_MAX ? (enum gpu_vendor)vendor : GPU_VENDOR_NVIDIA;
	st->state = feed_state_of(state, st->error, st->failed_call, st->vendor);
	st->collected = load_u32(&w->collected) & GPU_WANT_ALL;
	counter_raise(&st->records, load_u64(&w->records));
	counter_raise(&st->dropped_cupti, cupti);
	counter_raise(&st->dropped, sum_capped(sum_capped(ring, cupti), sum_capped(load_u64(&w->dropped_clock), load_u64(&w->dropped_memory))));
	counter_raise(&st->unknown, load_u64(&w->unknown));
	counter_raise(&st->own_ns, load_u64(&w->own_ns));
	counter_raise(&st->waited_ns, load_u64(&w->waited_ns));
	st->flushed_until = until > st->flushed_until ? until : st->flushed_until;
	counter_raise(&st->residual_ns, clock_read_residual(&f->ring->clock));
	*ret_state = *st;
}

void gpu_feed_want(struct gpu_feed *f, uint32_t wanted, uint32_t flush_ms)
{
	struct gpu_ring_reader *r = &f->ring->reader;

	__atomic_store_n(&r->flush_ms, flush_ms, __ATOMIC_RELAXED);
	__atomic_store_n(&r->wanted, wanted, __ATOMIC_RELAXED);
	f->change++;
	__atomic_store_n(&r->wanted_change, f->change, __ATOMIC_RELEASE);
	syscall(SYS_futex, &r->wanted_change, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void gpu_feed_limits(struct gpu_feed *f, uint32_t ppm, uint32_t wait_ms)
{
	__atomic_store_n(&f->ring->reader.budget_ppm, ppm, __ATOMIC_RELAXED);
	__atomic_store_n(&f->ring->reader.wait_ms, wait_ms, __ATOMIC_RELAXED);
}
