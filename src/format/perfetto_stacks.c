// SPDX-License-Identifier: BSD-2-Clause
/*
 * Perfetto trace: samples and the stacks of waits.
 *
 * All versions of Perfetto read PerfSample with interned stacks, which its UI shows as flame graphs and SQL as perf_sample.
 * Samples and waits have a sequence of packets each, and so a session each, which keeps their flame graphs apart. A sample's
 * weight is what it adds to the counter of its timebase, the only way for a PerfSample to have one.
 *
 * A wait is a slice as well, on a track below the thread's time off the CPU: named after the function that waited, with the
 * stack (TrackEvent.callstack_iid), and of the same length. The slice `blocked: ...` itself was written before its stack was
 * known.
 */
#include <stdio.h>
#include <stdlib.h>

#include "format/perfetto.h"
#include "format/stack_text.h"
#include "util/bytes.h"
#include "util/map.h"
#include "util/names.h"

#define PATH_LEN_MAX 1024 /* of a longer path, the end is kept */

/* TrackEvent and DebugAnnotation */
#define EVENT_CATEGORY_TEXT 22
#define EVENT_NAME_TEXT 23
#define EVENT_STACK_IID 56

/* Where a frame is from. Texts of frames are interned, so their addresses tell them apart. */
struct mapping_key {
	const char *file, *build_id;
	uint64_t kind;
};

struct perfetto_mapping {
	UT_hash_handle hh;
	struct mapping_key key;
	uint32_t iid;
};

/* Numbers described in this file so far. */
struct perfetto_told {
	uint64_t *bits;
	uint32_t size; /* in numbers */
};

struct stream {
	uint32_t sequence;
	bool begun;     /* in this file */
	uint64_t count; /* of the timebase */
	struct perfetto_told stacks, frames;
	struct perfetto_mapping *mappings;
};

struct perfetto_stacks {
	struct stream streams[2]; /* on the CPU, and off */
};

static bool told_has(const struct perfetto_told *t, uint32_t number)
{
	return number < t->size && bit_is_set(t->bits, number);
}

static void told_add(struct perfetto_told *t, uint32_t number)
{
	if (number >= t->size) {
		uint32_t size = (number + 4096) & ~4095u;

		t->bits = xreallocarray(t->bits, size / 64, sizeof(*t->bits));
		memset(t->bits + t->size / 64, 0, (size - t->size) / 8);
		t->size = size;
	}
	bit_set(t->bits, number);
}

static void stream_reset(struct stream *st)
{
	struct perfetto_mapping *m, *next;

	HASH_ITER(hh, st->mappings, m, next)
	{
		HASH_DEL(st->mappings, m);
		free(m);
	}
	free(st->stacks.bits);
	free(st->frames.bits);
	*st = (struct stream){ .sequence = st->sequence };
}

void perfetto_stacks_reset(struct perfetto_stacks *ps)
{
	for (size_t i = 0; ps && i < 2; i++)
		stream_reset(&ps->streams[i]);
}

/* ---- packets ---- */

/* Writes the stream's first packet, which says what samples count. */
static bool stream_begin(struct perfetto_sink *s, struct stream *st)
{
	const char *name = st->sequence == SEQUENCE_WAITS ? TIMEBASE_OFF_CPU : TIMEBASE_ON_CPU;
	char *packet, *defaults, *perf, *timebase, *p;

	if (st->begun)
		return true;
	p = packet_of(s, st->sequence, SEQUENCE_F_CLEARED, &packet);
	p = proto_u64(p, PACKET_FIRST, 1);
	p = proto_open(p, PACKET_DEFAULTS, &defaults);
	p = proto_open(p, DEFAULTS_PERF_SAMPLE, &perf);
	p = proto_open(p, PERF_DEFAULTS_TIMEBASE, &timebase);
	/* only for its unit: the text below names it */
	p = proto_u64(p, TIMEBASE_COUNTER, st->sequence == SEQUENCE_SAMPLES ? COUNTER_CPU_CLOCK : COUNTER_TASK_CLOCK);
	p = proto_text(p, TIMEBASE_NAME, name, strlen(name));
	p = proto_close(perf, proto_close(timebase, p));
	p = proto_close(defaults, proto_u64(p, PACKET_CLOCK, CLOCK_OF_BOOTTIME));
	st->begun = packet_end(s, packet, p);
	return st->begun;
}

/* ---- names, frames and stacks, before their first use ---- */

/* Writes a build ID as bytes. */
static char *put_build_id(char *p, uint32_t iid, const char *hex)
{
	unsigned char bytes[32];
	char *entry, *mark;
	size_t n = 0;

	while (n < sizeof(bytes) && sscanf(hex + 2 * n, "%2hhx", &bytes[n]) == 1)
		n++;
	p = proto_u64(proto_open(p, INTERNED_BUILD_ID, &entry), 1 /* iid */, iid);
	p = proto_open(p, 2 /* str */, &mark);
	p = proto_close(mark, fmt_str(p, (const char *)bytes, n));
	return proto_close(entry, p);
}

/* Path, build ID and mapping have the same iid. A reader puts a slash before the path. */
static char *put_mapping(char *p, uint32_t iid, const struct frame *f)
{
	char buf[STACK_TEXT_MAX], *entry;
	const char *path = stack_text_mapping(f, buf);
	size_t len;

	path += path[0] == '/';
	len = strlen(path);
	if (len > PATH_LEN_MAX) {
		path += len - PATH_LEN_MAX;
		len = PATH_LEN_MAX;
	}
	p = put_interned(p, INTERNED_PATH, iid, path, len);
	if (f->build_id)
		p = put_build_id(p, iid, f->build_id);
	p = proto_u64(proto_open(p, INTERNED_MAPPING, &entry), 1 /* iid */, iid);
	if (f->build_id)
		p = proto_u64(p, 2 /* build_id */, iid);
	return proto_close(entry, proto_u64(p, 7 /* path_string_ids */, iid));
}

/* *ret_new: it needs to be described. */
static struct perfetto_mapping *mapping_get(struct stream *st, const struct frame *f, bool *ret_new)
{
	/* those without a file of their own are told apart by the kind of frame */
	struct mapping_key key = { .file = f->file, .build_id = f->build_id };
	struct perfetto_mapping *m;

	key.kind = f->file && f->kind != FRAME_KERNEL && f->kind != FRAME_JIT ? 0 : 1 + (uint64_t)f->kind;
	HASH_FIND(hh, st->mappings, &key, sizeof(key), m);
	*ret_new = !m;
	if (m)
		return m;
	m = xcalloc(1, sizeof(*m));
	m->key = key;
	m->iid = HASH_COUNT(st->mappings) + 1;
	HASH_ADD(hh, st->mappings, key, sizeof(key), m);
	return m;
}

static bool stream_write_frame(struct perfetto_sink *s, struct stream *st, uint32_t number)
{
	const struct frame *f = stacks_frame(s->rec.stacks, number);
	char name[STACK_TEXT_MAX], *packet, *data, *entry, *p;
	struct perfetto_mapping *m;
	bool is_new;

	if (!f || told_has(&st->frames, number))
		return f;
	m = mapping_get(st, f, &is_new);
	p = packet_of(s, st->sequence, 0, &packet);
	p = proto_open(p, PACKET_INTERNED, &data);
	if (is_new)
		p = put_mapping(p, m->iid, f);
	p = put_interned(p, INTERNED_FUNCTION, number + 1, name, stack_text_name(f, name));
	p = proto_u64(proto_open(p, INTERNED_FRAME, &entry), 1 /* iid */, number + 1);
	p = proto_u64(p, 2 /* function_name_id */, number + 1);
	p = proto_u64(p, 3 /* mapping_id */, m->iid);
	p = proto_u64(p, 4 /* rel_pc */, f->rel_pc);
	p = proto_close(data, proto_close(entry, p));
	if (packet_end(s, packet, p)) {
		told_add(&st->frames, number);
		return true;
	}
	if (is_new) {
		HASH_DEL(st->mappings, m);
		free(m);
	}
	return false;
}

/* The id of a stack in the file; 0: it has none, or cannot be described. */
static uint32_t stream_write_stack(struct perfetto_sink *s, struct stream *st, uint32_t stack)
{
	char *packet, *data, *entry, *p;
	const uint32_t *frames;
	unsigned int n = s->rec.stacks ? stacks_get(s->rec.stacks, stack, &frames) : 0;

	if (!n || told_has(&st->stacks, stack))
		return n ? stack + 1 : 0;
	for (unsigned int i = 0; i < n; i++) {
		if (!stream_write_frame(s, st, frames[i]))
			return 0;
	}
	p = packet_of(s, st->sequence, 0, &packet);
	p = proto_open(p, PACKET_INTERNED, &data);
	p = proto_u64(proto_open(p, INTERNED_STACK, &entry), 1 /* iid */, stack + 1);
	while (n)
		p = proto_u64(p, 2 /* frame_ids */, frames[--n] + 1);
	p = proto_close(data, proto_close(entry, p));
	if (!packet_end(s, packet, p))
		return 0;
	told_add(&st->stacks, stack);
	return stack + 1;
}

/* ---- records ---- */

static bool stack_is_in_kernel(const struct perfetto_sink *s, uint32_t stack)
{
	const struct frame *f = NULL;
	const uint32_t *frames;

	if (s->rec.stacks && stacks_get(s->rec.stacks, stack, &frames))
		f = stacks_frame(s->rec.stacks, frames[0]);
	return f && f->kind == FRAME_KERNEL;
}

static void stream_write_sample(struct perfetto_sink *s, struct stream *st, const struct rec_stack *r, uint32_t iid)
{
	char *packet, *sample, *p = packet_of(s, st->sequence, 0, &packet);

	st->count += r->weight_ns;
	p = proto_u64(p, PACKET_TIMESTAMP, perfetto_ts(s, r->h.start_ns));
	p = proto_open(p, PACKET_PERF_SAMPLE, &sample);
	if (r->h.id == SAMPLE_CPU)
		p = proto_u64(p, SAMPLE_CPU_FIELD, r->h.cpu);
	p = proto_u64(p, SAMPLE_PID, r->h.tgid);
	p = proto_u64(p, SAMPLE_TID, r->h.tid);
	if (iid)
		p = proto_u64(p, SAMPLE_STACK, iid);
	p = proto_u64(p, SAMPLE_MODE, stack_is_in_kernel(s, r->stack) ? SAMPLE_MODE_KERNEL : SAMPLE_MODE_USER);
	p = proto_u64(p, SAMPLE_COUNT, st->count);
	if (r->flags & SAMPLE_F_TRUNCATED)
		p = proto_u64(p, SAMPLE_UNWIND_ERROR, SAMPLE_UNWIND_MEMORY);
	if (!packet_end(s, packet, proto_close(sample, p)))
		st->count -= r->weight_ns;
}

static void stream_write_end(struct perfetto_sink *s, const struct stream *st, uint32_t row, uint64_t ns)
{
	char *packet, *event, *p = packet_of(s, st->sequence, 0, &packet);

	p = proto_u64(p, PACKET_TIMESTAMP, ns);
	p = proto_open(p, PACKET_EVENT, &event);
	p = proto_u64(p, 9 /* type */, EVENT_END);
	p = proto_close(event, proto_u64(p, 11 /* track_uuid */, row));
	packet_end(s, packet, p);
}

/* Adds who ended the wait, and in which function. */
static char *put_waker(char *p, struct perfetto_sink *s, const struct rec_stack *r)
{
	const struct frame *f = s->rec.stacks ? stack_subject(s->rec.stacks, r->waker_stack) : NULL;
	const struct task *waker = r->waker_tid ? tasks_find(s->rec.tasks, r->waker_tid) : NULL;
	char name[STACK_TEXT_MAX];

	if (r->h.id != SAMPLE_OFF_CPU)
		return p;
	if (r->flags & SAMPLE_F_WOKEN_IRQ)
		p = put_annotation(p, "waker", VALUE_TEXT, 0, "interrupt");
	if (r->waker_tid)
		p = put_annotation(p, "waker_tid", VALUE_UINT, r->waker_tid, NULL);
	if (waker && waker->comm[0])
		p = put_annotation(p, "waker", VALUE_TEXT, 0, waker->comm);
	if (!f)
		return p;
	stack_text_name(f, name);
	return put_annotation(p, "woken_by", VALUE_TEXT, 0, name);
}

/* Writes a wait as a slice, and the stack of a waker as an instant. */
static void stream_write_slice(struct perfetto_sink *s, struct stream *st, const struct rec_stack *r, uint32_t iid)
{
	const struct frame *f = s->rec.stacks ? stack_subject(s->rec.stacks, r->stack) : NULL;
	uint32_t row = perfetto_row(s, r->h.tgid, r->h.tid, TRACK_STACKS);
	char name[STACK_TEXT_MAX + 8] = "[no stack]", *at = name, *packet, *event, *p;
	uint64_t end = r->h.start_ns + r->h.dur_ns;

	if (!row)
		return;
	if (r->h.id == SAMPLE_WAKER)
		at = stpcpy(name, "wakes: ");
	if (f)
		stack_text_name(f, at);
	p = packet_of(s, st->sequence, 0, &packet);
	p = proto_u64(p, PACKET_TIMESTAMP, perfetto_ts(s, r->h.start_ns));
	p = proto_open(p, PACKET_EVENT, &event);
	p = proto_u64(p, 9 /* type */, r->h.id == SAMPLE_OFF_CPU ? EVENT_BEGIN : EVENT_INSTANT);
	p = proto_u64(p, 11 /* track_uuid */, row);
	p = proto_text(p, EVENT_CATEGORY_TEXT, "stack", 5);
	p = proto_text(p, EVENT_NAME_TEXT, name, strlen(name));
	if (r->state < ST_MAX)
		p = put_annotation(p, "state", VALUE_TEXT, 0, time_state_name((enum time_state)r->state));
	if (r->step)
		p = put_annotation(p, "step", VALUE_UINT, r->step - 1, NULL);
	p = put_waker(p, s, r);
	if (iid)
		p = proto_u64(p, EVENT_STACK_IID, iid);
	if (packet_end(s, packet, proto_close(event, p)) && r->h.id == SAMPLE_OFF_CPU)
		stream_write_end(s, st, row, end > s->rec.start_boot_ns ? end : s->rec.start_boot_ns);
}

void perfetto_stack(struct perfetto_sink *s, const struct rec_stack *r)
{
	struct stream *st;
	uint32_t iid;

	if (!s->stacks) {
		s->stacks = xcalloc(1, sizeof(*s->stacks));
		s->stacks->streams[0].sequence = SEQUENCE_SAMPLES;
		s->stacks->streams[1].sequence = SEQUENCE_WAITS;
	}
	st = &s->stacks->streams[r->h.id != SAMPLE_CPU];
	if (!stream_begin(s, st))
		return;
	perfetto_thread(s, r->h.tgid, r->h.tid); /* it gets its name */
	iid = stream_write_stack(s, st, r->stack);
	if (r->h.id != SAMPLE_WAKER)
		stream_write_sample(s, st, r, iid);
	if (r->h.id != SAMPLE_CPU)
		stream_write_slice(s, st, r, iid);
}
