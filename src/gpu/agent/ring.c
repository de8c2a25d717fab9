// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/agent/agent.h"

#include <sys/mman.h>
#include <sys/stat.h>

#define MEMORY_PIECE (256u << 10)
#define NAME_PIECES ((GPU_NAME_MAX + GPU_NAME_CHUNK - 1) / GPU_NAME_CHUNK)
#define RECORD_ROOM (NAME_PIECES + 2) /* records: the longest name, its user, and a mark */

static void *map_pages(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

int ring_map(struct ring *r, int fd)
{
	struct gpu_ring *shared;
	struct gpu_ring_fixed fixed;
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_size < (off_t)GPU_RING_HEAD_SIZE)
		return -EPROTO;
	shared = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		return -errno;
	fixed = shared->fixed;
	if (fixed.magic != GPU_HAND_OVER_MAGIC || fixed.version != GPU_HAND_OVER_VERSION ||
		fixed.record_size != sizeof(struct gpu_record) || !fixed.capacity || fixed.capacity & (fixed.capacity - 1) ||
		GPU_RING_SIZE(fixed.capacity) != (uint64_t)st.st_size) {
		munmap(shared, (size_t)st.st_size);
		return -EPROTO;
	}
	r->shared = shared;
	r->records = GPU_RING_RECORDS(shared);
	r->capacity = fixed.capacity;
	r->generation++;
	r->head = r->tail = 0;
	r->marked_ring = r->marked_cupti = 0;
	memset(&r->said, 0, sizeof(r->said));
	return 0;
}

void ring_unmap(struct ring *r)
{
	if (r->shared)
		munmap(r->shared, GPU_RING_SIZE(r->capacity));
	r->shared = NULL;
}

static bool ring_has_room_for(struct ring *r, uint64_t records)
{
	uint64_t tail;

	if (r->capacity - (r->head - r->tail) >= records)
		return true;
	tail = __atomic_load_n(&r->shared->reader.tail, __ATOMIC_ACQUIRE);
	/* an impossible tail is ignored */
	if (r->head - tail <= r->capacity)
		r->tail = tail;
	return r->capacity - (r->head - r->tail) >= records;
}

bool ring_has_room(struct ring *r)
{
	return ring_has_room_for(r, RECORD_ROOM < r->capacity / 2 ? RECORD_ROOM : r->capacity / 2);
}

static void ring_write_record(struct ring *r, const struct gpu_record *rec)
{
	r->records[r->head & (r->capacity - 1)] = *rec;
	r->head++;
}

void ring_put(struct ring *r, const struct gpu_record *rec)
{
	if (ring_has_room_for(r, 1))
		ring_write_record(r, rec);
	else
		r->said.dropped_ring++;
}

void ring_show(struct ring *r)
{
	struct gpu_ring_writer *w = &r->shared->writer;
	struct gpu_record mark = { .kind = GPU_RECORD_DROPPED };

	mark.dropped.ring = r->said.dropped_ring - r->marked_ring;
	mark.dropped.cupti = r->said.dropped_cupti - r->marked_cupti;
	if ((mark.dropped.ring || mark.dropped.cupti) && ring_has_room_for(r, 1)) {
		ring_write_record(r, &mark);
		r->marked_ring = r->said.dropped_ring;
		r->marked_cupti = r->said.dropped_cupti;
	}
	__atomic_store_n(&w->records, r->said.records, __ATOMIC_RELAXED);
	__atomic_store_n(&w->dropped_ring, r->said.dropped_ring, __ATOMIC_RELAXED);
	__atomic_store_n(&w->dropped_cupti, r->said.dropped_cupti, __ATOMIC_RELAXED);
	__atomic_store_n(&w->dropped_clock, r->said.dropped_clock, __ATOMIC_RELAXED);
	__atomic_store_n(&w->dropped_memory, r->said.dropped_memory, __ATOMIC_RELAXED);
	__atomic_store_n(&w->unknown, r->said.unknown, __ATOMIC_RELAXED);
	__atomic_store_n(&w->own_ns, r->said.own_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&w->waited_ns, r->said.waited_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&w->head, r->head, __ATOMIC_RELEASE);
}

static uint32_t name_hash_text(const char *text, size_t length)
{
	uint64_t h = length, word;

	for (; length >= sizeof(word); text += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, text, sizeof(word));
		h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	for (; length; text++, length--)
		h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return (uint32_t)(h ^ h >> 32);
}

static const char *keep_text(struct names *n, const char *text, size_t length)
{
	char *at;

	if (n->bytes + length >= NAME_BYTES_MAX)
		return NULL;
	if (n->memory_size - n->memory_used <= length) {
		/* the rest of the previous piece stays unused */
		char *piece = map_pages(MEMORY_PIECE);

		if (!piece)
			return NULL;
		n->memory = piece;
		n->memory_size = MEMORY_PIECE;
		n->memory_used = 0;
	}
	at = n->memory + n->memory_used;
	memcpy(at, text, length);
	at[length] = '\0';
	n->memory_used += length + 1;
	n->bytes += length + 1;
	return at;
}

/* Interns a name; returns its id; 0: no room. */
static uint32_t names_intern_text(struct names *n, const char *text, size_t length)
{
	uint32_t hash = name_hash_text(text, length), slot = hash, id;
	struct name *name;

	for (;; slot++) {
		id = n->by_hash[slot % (2 * NAMES_MAX)];
		if (!id)
			break;
		name = &n->list[id - 1];
		if (name->hash == hash && name->length == length && !memcmp(name->text, text, length))
			return id;
	}
	if (n->count == NAMES_MAX)
		return 0;
	name = &n->list[n->count];
	name->text = keep_text(n, text, length);
	if (!name->text)
		return 0;
	name->hash = hash;
	name->length = (uint32_t)length;
	id = ++n->count;
	n->by_hash[slot % (2 * NAMES_MAX)] = id;
	return id;
}

static bool make_names(struct names *n)
{
	if (!n->list)
		n->list = map_pages(NAMES_MAX * sizeof(*n->list));
	if (!n->by_hash)
		n->by_hash = map_pages(2 * NAMES_MAX * sizeof(*n->by_hash));
	if (!n->by_place)
		n->by_place = map_pages(NAMES_MAX * sizeof(*n->by_place));
	return n->list && n->by_hash && n->by_place;
}

static int write_name(struct ring *r, uint32_t id, struct name *name)
{
	struct gpu_record rec = { .kind = GPU_RECORD_NAME };
	uint32_t pieces = (name->length + GPU_NAME_CHUNK - 1) / GPU_NAME_CHUNK, offset = 0, length;

	pieces = pieces ? pieces : 1;
	/* room for all pieces, and a record that uses the name */
	if (!ring_has_room_for(r, pieces + 1))
		return -ENOBUFS;
	for (; pieces; pieces--, offset += GPU_NAME_CHUNK) {
		length = name->length - offset < GPU_NAME_CHUNK ? name->length - offset : GPU_NAME_CHUNK;
		rec.name.id = id;
		rec.name.length = (uint16_t)name->length;
		rec.name.offset = (uint16_t)offset;
		memset(rec.name.text, 0, sizeof(rec.name.text));
		memcpy(rec.name.text, name->text + offset, length);
		ring_write_record(r, &rec);
	}
	name->written_to = r->generation;
	return 0;
}

/* Whether the text is this name, which may have been cut. */
static bool same_text(const struct name *name, const char *text)
{
	return !strncmp(name->text, text, name->length) && (name->length == GPU_NAME_MAX || !text[name->length]);
}

/* Gives the id of a name, 0 if there is none, and writes the name to the ring if it is new there. -ENOBUFS: no room now. */
static int ring_name(struct ring *r, const char *text, uint32_t *ret_id)
{
	struct names *n = &r->names;
	struct name *name;
	uint32_t id, *guess;
	int err;

	*ret_id = 0;
	if (!text)
		return 0;
	if (!make_names(n)) {
		r->said.dropped_memory++;
		return 0;
	}
	/* CUPTI has one text for all records of a kernel, but the address may become another kernel's later */
	guess = &n->by_place[((uintptr_t)text >> 3 ^ (uintptr_t)text >> 17) % NAMES_MAX];
	id = *guess;
	if (!id || n->list[id - 1].seen_at != text || !same_text(&n->list[id - 1], text)) {
		id = names_intern_text(n, text, strnlen(text, GPU_NAME_MAX));
		if (!id) {
			r->said.dropped_memory++;
			return 0;
		}
		n->list[id - 1].seen_at = text;
		*guess = id;
	}
	name = &n->list[id - 1];
	if (name->written_to != r->generation) {
		err = write_name(r, id, name);
		if (err)
			return err;
	}
	*ret_id = id;
	return 0;
}

bool ring_device(struct ring *r, uint32_t device, const struct gpu_device *about)
{
	const struct gpu_record rec = { .kind = GPU_RECORD_DEVICE, .device = device, .about = *about };
	bool room = ring_has_room_for(r, 1);

	if (room)
		ring_write_record(r, &rec);
	return room;
}

const char *ring_keep(struct ring *r, const char *text)
{
	uint32_t id = make_names(&r->names) ? names_intern_text(&r->names, text, strnlen(text, GPU_NAME_MAX)) : 0;

	return id ? r->names.list[id - 1].text : NULL;
}

/* ---- converting records of a vendor's library to records of the ring ---- */

struct reading reading_begin(const struct clocks *clocks, bool stepped, struct ring *ring)
{
	/* a completed record has ended by now; a later end means that a clock was set back. 1 ms of slack: drift is no step. */
	return (struct reading){ .clocks = clocks, .ring = ring, .now = clocks_boot_ns() + 1000000, .stepped = stepped };
}

bool reading_span(struct gpu_record *rec, const struct reading *r, const struct span *s)
{
	bool sure, sure_end;

	if (r->forced && (!s->start || !s->end))
		return false;
	r->ring->said.records++;
	if (!s->start || !s->end || s->end < s->start) {
		r->ring->said.dropped_clock++;
		return false;
	}
	rec->start = clocks_convert(r->clocks, s->start, &sure);
	rec->end = clocks_convert(r->clocks, s->end, &sure_end);
	if (r->stepped || !sure || !sure_end || rec->end < rec->start || rec->end > r->now) {
		rec->flags |= GPU_RECORD_F_CLOCK;
		rec->end = rec->start + (s->end - s->start);
	}
	rec->device = s->device;
	rec->context = s->context;
	rec->stream = s->stream;
	rec->correlation = s->correlation;
	return true;
}

void reading_put_kernel(struct gpu_record *rec, const struct reading *r, const char *name)
{
	if (ring_name(r->ring, name, &rec->kernel.name))
		r->ring->said.dropped_ring++;
	else
		ring_put(r->ring, rec);
}
