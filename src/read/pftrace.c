// SPDX-License-Identifier: BSD-2-Clause
#include "read/pftrace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/perfetto_fields.h"
#include "util/clock.h"
#include "util/map.h"

/* Buffers at least len bytes. Returns 1; 0: the file ends before; -errno, reported. */
static int packets_need(struct packets *in, uint64_t len)
{
	struct json_source *source = in->source;
	int ret;

	while ((uint64_t)(source->end - source->pos) < len) {
		ret = json_source_fill(source);
		if (ret == 1)
			continue;
		if (ret < 0 && !in->failed)
			in->bad(in->ctx, in->at + (uint64_t)(source->end - source->pos), source->error);
		in->failed |= ret < 0;
		return ret;
	}
	return 1;
}

/* Skips a packet of any length without buffering it whole. */
static int packets_skip(struct packets *in, uint64_t len)
{
	uint64_t have;
	int ret;

	while (len) {
		ret = packets_need(in, 1);
		if (ret != 1)
			return ret;
		have = (uint64_t)(in->source->end - in->source->pos);
		have = have < len ? have : len;
		in->source->pos += have;
		len -= have;
	}
	return 1;
}

/* Reports an error in the last packet. */
static int packets_refuse(const struct packets *in, const char *why)
{
	in->bad(in->ctx, in->at, why);
	return -EBADMSG;
}

void *packets_keep(struct packets *in, size_t size)
{
	if (in->kept + size > in->kept_max)
		return NULL;
	in->kept += size;
	return xcalloc(1, size);
}

/* Returns 1, the length of the next packet and *ret_size of what precedes it; 0: the file ends; -EBADMSG: no packet begins here. */
static int read_head(struct packets *in, uint64_t *ret_len, size_t *ret_size)
{
	struct proto_bytes head;
	int ret;

	packets_need(in, 11); /* a key, and the longest length */
	head = (struct proto_bytes){ in->source->pos, in->source->end };
	if (head.p == head.end)
		return 0;
	if (*head.p++ != (TRACE_PACKET << 3 | 2))
		return packets_refuse(in, "no packet begins here");
	ret = proto_read_varint(&head, ret_len);
	*ret_size = (size_t)(head.p - in->source->pos);
	return ret < 0 ? packets_refuse(in, "the length of a packet is damaged") : ret;
}

/* Returns 1 and the next packet, with p NULL if it was too long and skipped; 0: the file ends; -errno. */
static int packet_next(struct packets *in, struct proto_bytes *ret)
{
	uint64_t len;
	size_t head;
	int err;

	err = packets_need(in, 1);
	if (err != 1)
		return err;
	err = read_head(in, &len, &head);
	in->torn = !err;
	if (err != 1)
		return err;
	*ret = (struct proto_bytes){ NULL, NULL };
	if (len > PACKET_BYTES_MAX) {
		in->bad(in->ctx, in->at, "a packet is longer than 16 MB, and left out");
		in->source->pos += head;
		err = packets_skip(in, len);
		in->torn = !err;
	} else {
		err = packets_need(in, head + len);
		in->torn = !err;
		if (err == 1) {
			in->source->pos += head + len;
			*ret = (struct proto_bytes){ in->source->pos - len, in->source->pos };
		}
	}
	in->len = head + len;
	return err;
}

int packets_each(struct packets *in, int (*packet)(void *arg, struct proto_bytes bytes), void *arg)
{
	struct proto_bytes bytes;
	int ret;

	do {
		in->at += in->len;
		in->len = 0;
		ret = packet_next(in, &bytes);
		if (ret == 1 && bytes.p)
			ret = packet(arg, bytes) ?: 1;
	} while (ret == 1);
	in->torn &= !in->failed;
	return ret;
}

int packet_parse(const struct packets *in, struct proto_bytes bytes, struct packet *ret)
{
	struct proto_field f;
	int err;

	*ret = (struct packet){ 0 };
	while ((err = proto_next(&bytes, &f)) == 1) {
		switch (f.number) {
		case PACKET_TIMESTAMP:
			ret->ts = f.value;
			ret->timed = true;
			break;
		case PACKET_CLOCK:
			ret->clock = f.value;
			break;
		case PACKET_SEQUENCE:
			ret->sequence = f.value;
			break;
		case PACKET_SEQUENCE_FLAGS:
			ret->flags |= f.value;
			break;
		case PACKET_CLEARED:
			ret->flags |= f.value ? SEQUENCE_F_CLEARED : 0;
			break;
		case PACKET_DROPPED:
			ret->dropped = f.value;
			break;
		case PACKET_INTERNED:
			ret->interned = f.bytes;
			break;
		case PACKET_DEFAULTS:
			ret->defaults = f.bytes;
			break;
		case PACKET_CLOCKS:
			ret->clocks = f.bytes;
			break;
		case PACKET_EVENT:
			ret->event = f.bytes;
			break;
		case PACKET_PERF_SAMPLE:
			ret->sample = f.bytes;
			break;
		case PACKET_PROCESS_TREE:
			ret->tree = f.bytes;
			break;
		case PACKET_TRACK:
			ret->track = f.bytes;
			break;
		case PACKET_COMPRESSED:
			return packets_refuse(in, "packets are compressed; `traceconv decompress_packets` makes a file without");
		}
	}
	return err ? packets_refuse(in, "a packet is damaged") : 0;
}

#define FULL "names and stacks take more memory than there is for them"
#define SEQUENCES_MAX (1 << 16) /* with stacks or samples */
#define PATH_TEXT_MAX 4096

struct intern_key {
	uint64_t field; /* of InternedData */
	uint64_t iid;
};

/* An entry of InternedData: its text or else its raw message, and what was decoded from it on first use. */
struct pftrace_entry {
	UT_hash_handle hh;
	struct intern_key key;
	void *made; /* one allocation: pftrace_frame, pftrace_stack, made_mapping, or a build ID as text */
	size_t made_size;
	size_t len;
	bool failed;          /* a stack that cannot be decoded */
	unsigned char data[]; /* len bytes and a NUL */
};

struct pftrace_sequence {
	UT_hash_handle hh;
	uint64_t id;
	bool missing; /* packets that others refer to were dropped */
	bool off_cpu;
	bool counts;        /* a sample's weight is what it adds to the counter */
	uint64_t period_ns; /* of samples; 0: unknown */
	uint64_t count;     /* of the timebase, at the last sample */
	struct pftrace_entry *entries;
};

struct pftrace_reader {
	struct packets in;
	const struct pftrace_ops *ops;
	void *ctx;
	struct pftrace_sequence *sequences;
};

/* ---- sequences ---- */

static void sequence_clear_entries(struct pftrace_reader *r, struct pftrace_sequence *q)
{
	struct pftrace_entry *e, *next;

	HASH_ITER(hh, q->entries, e, next)
	{
		HASH_DEL(q->entries, e);
		r->in.kept -= sizeof(*e) + e->len + 1 + e->made_size;
		free(e->made);
		free(e);
	}
}

static struct pftrace_sequence *sequence_find(struct pftrace_reader *r, uint64_t id)
{
	struct pftrace_sequence *q;

	HASH_FIND(hh, r->sequences, &id, sizeof(id), q);
	return q;
}

/* NULL: too many sequences, or over kept_max. */
static struct pftrace_sequence *samples_get_sequence(struct pftrace_reader *r, uint64_t id)
{
	struct pftrace_sequence *q = sequence_find(r, id);

	if (q)
		return q;
	if (HASH_COUNT(r->sequences) == SEQUENCES_MAX)
		return NULL;
	q = packets_keep(&r->in, sizeof(*q));
	if (!q)
		return NULL;
	q->id = id;
	HASH_ADD(hh, r->sequences, id, sizeof(q->id), q);
	return q;
}

static struct pftrace_entry *entry_find(const struct pftrace_sequence *q, uint64_t field, uint64_t iid)
{
	struct intern_key key = { field, iid };
	struct pftrace_entry *e;

	HASH_FIND(hh, q->entries, &key, sizeof(key), e);
	return e;
}

/* ---- entries, decoded on first use ---- */

/* The text of an entry; "" if it is not there. */
static const char *interned_text(const struct pftrace_sequence *q, uint64_t field, uint64_t iid)
{
	const struct pftrace_entry *e = iid ? entry_find(q, field, iid) : NULL;

	return e ? (const char *)e->data : "";
}

static struct proto_bytes entry_message(const struct pftrace_entry *e)
{
	return (struct proto_bytes){ e->data, e->data + e->len };
}

static void *entry_keep_made(struct pftrace_reader *r, struct pftrace_entry *e, size_t size)
{
	e->made = packets_keep(&r->in, size);
	e->made_size = e->made ? size : 0;
	return e->made;
}

static const char *decode_build_id(struct pftrace_reader *r, const struct pftrace_sequence *q, uint64_t iid)
{
	struct pftrace_entry *e = iid ? entry_find(q, INTERNED_BUILD_ID, iid) : NULL;
	char *text;

	if (!e || !e->len || e->len > 64)
		return "";
	text = e->made ? e->made : entry_keep_made(r, e, 2 * e->len + 1);
	for (size_t i = 0; text && i < e->len; i++)
		sprintf(text + 2 * i, "%02x", e->data[i]);
	return text ? text : "";
}

/* Appends a part as Perfetto does, but without a slash before a name in brackets, which is no path. Returns the new length. */
static size_t path_add_part(char *path, size_t n, const char *part)
{
	size_t len = strlen(part);
	bool slash = part[0] != '/' && (n || part[0] != '[');

	if (n + slash + len >= PATH_TEXT_MAX)
		return n;
	if (slash)
		path[n++] = '/';
	memcpy(path + n, part, len);
	return n + len;
}

struct made_mapping {
	const char *build_id;
	char path[];
};

/* NULL: no such mapping, or over kept_max. */
static const struct made_mapping *decode_mapping(struct pftrace_reader *r, const struct pftrace_sequence *q, uint64_t iid)
{
	struct pftrace_entry *e = iid ? entry_find(q, INTERNED_MAPPING, iid) : NULL;
	const char *build_id = "";
	struct made_mapping *made;
	char path[PATH_TEXT_MAX];
	struct proto_bytes in;
	struct proto_field f;
	size_t n = 0;

	if (!e || e->made)
		return e ? e->made : NULL;
	in = entry_message(e);
	while (proto_next(&in, &f) == 1) {
		if (f.number == 2)
			build_id = decode_build_id(r, q, f.value);
		else if (f.number == 7)
			n = path_add_part(path, n, interned_text(q, INTERNED_PATH, f.value));
	}
	made = entry_keep_made(r, e, sizeof(*made) + n + 1);
	if (!made)
		return NULL;
	made->build_id = build_id;
	memcpy(made->path, path, n);
	return made;
}

/* NULL: no such frame, or over kept_max. */
static const struct pftrace_frame *decode_frame(struct pftrace_reader *r, const struct pftrace_sequence *q, uint64_t iid)
{
	struct pftrace_entry *e = entry_find(q, INTERNED_FRAME, iid);
	const struct made_mapping *mapping = NULL;
	struct pftrace_frame *frame;
	struct proto_bytes in;
	struct proto_field f;

	if (!e || e->made)
		return e ? e->made : NULL;
	frame = entry_keep_made(r, e, sizeof(*frame));
	if (!frame)
		return NULL;
	frame->name = frame->mapping = frame->build_id = "";
	in = entry_message(e);
	while (proto_next(&in, &f) == 1) {
		if (f.number == 2)
			frame->name = interned_text(q, INTERNED_FUNCTION, f.value);
		else if (f.number == 3)
			mapping = decode_mapping(r, q, f.value);
		else if (f.number == 4)
			frame->rel_pc = f.value;
	}
	if (mapping) {
		frame->mapping = mapping->path;
		frame->build_id = mapping->build_id;
	}
	return frame;
}

static int count_frames(struct proto_bytes in, size_t *ret_n)
{
	struct proto_bytes ids;
	struct proto_field f;
	uint64_t iid;
	size_t n = 0;

	while (proto_next(&in, &f) == 1) {
		if (f.number != 2)
			continue;
		ids = f.bytes;
		n += ids.p == ids.end; /* else they are packed */
		while (proto_read_varint(&ids, &iid) == 1)
			n++;
		if (n > PFTRACE_FRAMES_MAX)
			return -E2BIG;
	}
	*ret_n = n;
	return 0;
}

static int stack_add_frame(struct pftrace_reader *r, const struct pftrace_sequence *q, struct pftrace_stack *stack, uint64_t iid)
{
	stack->frames[stack->n] = decode_frame(r, q, iid);
	if (!stack->frames[stack->n])
		return -ENOENT;
	stack->n++;
	return 0;
}

static int fill_stack(struct pftrace_reader *r, const struct pftrace_sequence *q, struct proto_bytes in, struct pftrace_stack *stack)
{
	struct proto_bytes ids;
	struct proto_field f;
	uint64_t iid;
	int err = 0;

	while (!err && proto_next(&in, &f) == 1) {
		if (f.number != 2)
			continue;
		ids = f.bytes;
		if (ids.p == ids.end)
			err = stack_add_frame(r, q, stack, f.value);
		while (!err && proto_read_varint(&ids, &iid) == 1)
			err = stack_add_frame(r, q, stack, iid);
	}
	return err;
}

/* NULL: it cannot be decoded, which was reported. */
static struct pftrace_stack *decode_stack(struct pftrace_reader *r, const struct pftrace_sequence *q, uint64_t iid)
{
	struct pftrace_entry *e = entry_find(q, INTERNED_STACK, iid);
	struct pftrace_stack *stack;
	const char *why = NULL;
	char text[96];
	size_t n;

	if (e && e->made)
		return e->made;
	if (!e)
		why = "which is not there";
	else if (e->failed)
		why = "as one before, which could not be read";
	else if (count_frames(entry_message(e), &n))
		why = "which has too many frames";
	else if (!entry_keep_made(r, e, sizeof(*stack) + n * sizeof(stack->frames[0])))
		why = "for which there is no memory";
	if (!why) {
		stack = e->made;
		stack->frames = (const struct pftrace_frame **)(stack + 1);
		if (!fill_stack(r, q, entry_message(e), stack))
			return stack;
		r->in.kept -= e->made_size;
		e->made_size = 0;
		free(e->made);
		e->made = NULL;
		why = "of which frames are missing";
	}
	if (e)
		e->failed = true; /* not tried again for each sample */
	snprintf(text, sizeof(text), "a sample has stack %llu, %s", (unsigned long long)iid, why);
	packets_refuse(&r->in, text);
	return NULL;
}

/* ---- packets ---- */

static bool field_is_text(uint64_t field)
{
	return field == INTERNED_FUNCTION || field == INTERNED_BUILD_ID || field == INTERNED_PATH;
}

static int add_entry(struct pftrace_reader *r, struct pftrace_sequence *q, const struct proto_field *field)
{
	struct proto_bytes in = field->bytes, text = { in.p, in.p }, data;
	uint64_t iid = 0;
	struct proto_field f;
	struct pftrace_entry *e;
	int ret;

	while ((ret = proto_next(&in, &f)) == 1) {
		if (f.number == 1)
			iid = f.value;
		else if (f.number == 2)
			text = f.bytes;
	}
	if (ret)
		return packets_refuse(&r->in, "an interned name or stack is damaged");
	if (!iid || entry_find(q, field->number, iid))
		return 0;
	data = field_is_text(field->number) ? text : field->bytes;
	e = packets_keep(&r->in, sizeof(*e) + proto_len(data) + 1);
	if (!e)
		return packets_full(&r->in, FULL);
	e->key = (struct intern_key){ field->number, iid };
	e->len = proto_len(data);
	memcpy(e->data, data.p, e->len);
	HASH_ADD(hh, q->entries, key, sizeof(e->key), e);
	return 0;
}

/* -EBADMSG: a part is damaged; the others were taken. */
static int samples_read_interned(struct pftrace_reader *r, uint64_t sequence, struct proto_bytes in)
{
	struct pftrace_sequence *q = NULL;
	struct proto_field f;
	int ret, err = 0;

	while ((ret = proto_next(&in, &f)) == 1) {
		if (!field_is_text(f.number) && f.number != INTERNED_FRAME && f.number != INTERNED_STACK && f.number != INTERNED_MAPPING)
			continue;
		if (!q)
			q = samples_get_sequence(r, sequence);
		if (!q)
			return packets_full(&r->in, FULL);
		err = add_entry(r, q, &f);
		if (err && err != -EBADMSG)
			return err;
	}
	return ret ? packets_refuse(&r->in, "interned data is damaged") : err;
}

/* Reads what a sample stands for: a time or a step of a counter. */
static void read_timebase(struct pftrace_sequence *q, struct proto_bytes in)
{
	uint64_t period = 0, frequency = 0, counter = COUNTER_CPU_CLOCK;
	struct proto_bytes name = { in.p, in.p };
	struct proto_field f;

	while (proto_next(&in, &f) == 1) {
		if (f.number == TIMEBASE_PERIOD)
			period = f.value;
		else if (f.number == TIMEBASE_FREQUENCY)
			frequency = f.value;
		else if (f.number == TIMEBASE_COUNTER)
			counter = f.value;
		else if (f.number == TIMEBASE_TRACEPOINT || f.number == TIMEBASE_RAW)
			counter = 0;
		else if (f.number == TIMEBASE_NAME)
			name = f.bytes;
	}
	q->off_cpu = proto_is(name, TIMEBASE_OFF_CPU);
	q->counts = q->off_cpu || proto_is(name, TIMEBASE_ON_CPU);
	q->period_ns = frequency ? NSEC_PER_SEC / frequency : 0;
	if (period)
		q->period_ns = counter == COUNTER_CPU_CLOCK || counter == COUNTER_TASK_CLOCK ? period : 0;
}

static int samples_read_defaults(struct pftrace_reader *r, uint64_t sequence, struct proto_bytes in)
{
	struct proto_field f, inner;
	struct pftrace_sequence *q;

	while (proto_next(&in, &f) == 1) {
		if (f.number != DEFAULTS_PERF_SAMPLE)
			continue;
		q = samples_get_sequence(r, sequence);
		if (!q)
			return packets_full(&r->in, FULL);
		while (proto_next(&f.bytes, &inner) == 1) {
			if (inner.number == PERF_DEFAULTS_TIMEBASE)
				read_timebase(q, inner.bytes);
		}
	}
	return 0;
}

static int read_sample(struct pftrace_reader *r, const struct packet *p)
{
	struct pftrace_sequence *q = sequence_find(r, p->sequence);
	struct pftrace_sample s = { .ns = p->ts };
	struct proto_bytes in = p->sample;
	uint64_t stack = 0, count = 0;
	struct proto_field f;
	int ret;

	while ((ret = proto_next(&in, &f)) == 1) {
		switch (f.number) {
		case SAMPLE_PID:
			s.pid = (uint32_t)f.value;
			break;
		case SAMPLE_TID:
			s.tid = (uint32_t)f.value;
			break;
		case SAMPLE_STACK:
			stack = f.value;
			break;
		case SAMPLE_COUNT:
			count = f.value;
			break;
		case SAMPLE_KERNEL_LOST:
		case SAMPLE_SKIPPED:
		case SAMPLE_PRODUCER:
			return 0;
		}
	}
	if (ret)
		return packets_refuse(&r->in, "a sample is damaged");
	/* the data it refers to was overwritten or dropped */
	if (p->flags & SEQUENCE_F_NEEDS && q && q->missing)
		return 0;
	if (stack && q)
		s.stack = decode_stack(r, q, stack);
	else if (stack)
		packets_refuse(&r->in, "a sample has a stack, and its sequence of packets has none");
	s.off_cpu = q && q->off_cpu;
	s.weight_ns = q ? q->period_ns : 0;
	if (q && q->counts) {
		s.weight_ns = count - q->count <= INT64_MAX ? count - q->count : 0;
		q->count = count;
	}
	return r->ops->sample(r->ctx, &s);
}

/* Reports the names of processes and threads in a track descriptor or a process tree. */
static int read_tasks(struct pftrace_reader *r, struct proto_bytes in, bool track)
{
	/* tid 0: a process */
	static const struct {
		bool track;
		uint64_t field, pid, tid, name;
	} kinds[] = { { false, 1, 1, 0, 3 /* cmdline */ }, { false, 2, 3 /* tgid */, 1, 2 }, { true, TRACK_PROCESS_FIELD, 1, 0, 6 }, { true, TRACK_THREAD_FIELD, 1, 2, 5 } };
	struct proto_field f, inner;
	int err = 0;

	while (!err && proto_next(&in, &f) == 1) {
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && !err; i++) {
			struct proto_bytes name = { NULL, NULL };
			uint64_t pid = 0, tid = 0;

			if (kinds[i].track != track || kinds[i].field != f.number)
				continue;
			while (proto_next(&f.bytes, &inner) == 1) {
				if (inner.number == kinds[i].pid)
					pid = inner.value;
				else if (kinds[i].tid && inner.number == kinds[i].tid)
					tid = inner.value;
				else if (inner.number == kinds[i].name && !proto_len(name))
					name = inner.bytes;
			}
			if (proto_len(name))
				err = r->ops->name(r->ctx, (uint32_t)pid, (uint32_t)tid, (const char *)name.p, proto_len(name));
		}
	}
	return err;
}

/* Resets the state of the packet's sequence if it was cleared or lost packets. */
static void samples_reset_state(struct pftrace_reader *r, const struct packet *p)
{
	bool cleared = p->flags & SEQUENCE_F_CLEARED;
	struct pftrace_sequence *q = sequence_find(r, p->sequence);

	if (!q || (!p->dropped && !cleared))
		return;
	sequence_clear_entries(r, q);
	q->missing = !cleared;
	q->off_cpu = q->counts = false;
	q->count = q->period_ns = 0;
}

/* Damaged packets do not stop the reading. */
static int samples_read_packet(void *arg, struct proto_bytes in)
{
	struct pftrace_reader *r = arg;
	struct packet p;
	int err = packet_parse(&r->in, in, &p);

	if (!err)
		samples_reset_state(r, &p);
	if (!err && p.interned.p)
		err = samples_read_interned(r, p.sequence, p.interned);
	if (!err && p.defaults.p)
		err = samples_read_defaults(r, p.sequence, p.defaults);
	if (!err && p.sample.p)
		err = read_sample(r, &p);
	if (!err && p.tree.p)
		err = read_tasks(r, p.tree, false);
	if (!err && p.track.p)
		err = read_tasks(r, p.track, true);
	return err == -EBADMSG ? 0 : err;
}

/* ---- the file ---- */

int pftrace_read(struct json_source *source, const struct pftrace_ops *ops, void *ctx, bool *ret_torn)
{
	struct pftrace_reader r = { .in = { .source = source, .bad = ops->bad, .ctx = ctx, .kept_max = PFTRACE_KEPT_MAX }, .ops = ops, .ctx = ctx };
	int ret = packets_each(&r.in, samples_read_packet, &r);
	struct pftrace_sequence *q, *next;

	HASH_ITER(hh, r.sequences, q, next)
	{
		sequence_clear_entries(&r, q);
		HASH_DEL(r.sequences, q);
		free(q);
	}
	*ret_torn = r.in.torn;
	return ret;
}
