// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/record_flight.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/flight.h"
#include "capture/trigger.h"
#include "cmd/record_control.h"
#include "cmd/record_exports.h"
#include "cmd/record_run.h"
#include "io/control.h"
#include "util/log.h"

#define BYTES_MAX (UINT64_C(1) << 30)
#define REQUESTS_MAX 16
#define REASON_MAX 256
#define LOSSES_MAX 64
#define SLICE_RECORDS 1024	   /* of a dump, at a time: about 0.5 ms */
#define ROUND_NS (5 * NSEC_PER_MSEC) /* then the rings have their turn */
#define PENDING_MAX (1u << 20)	   /* bytes that may wait for a slow disk; what more there is stays in the store */
#define SETTLED_NS NSEC_PER_SEC	   /* longer than records stay in the rings */
#define DRAINS_MAX 32		   /* all that the rings can hold, and more */

struct request {
	char reason[REASON_MAX];
	uint64_t id; /* of the client that waits for it; 0: none */
	uint64_t at_ns;
};

/* Spans that are still open, as records with their sizes. */
struct open_spans {
	char *data;
	size_t len, cap;
	int err;
};

struct recorder {
	struct run *r;
	struct flight *flight;
	struct request requests[REQUESTS_MAX]; /* the first is under way while `dumping` */
	size_t n_requests;
	struct loss losses[LOSSES_MAX]; /* the newest, a ring */
	uint64_t n_losses;
	/* of the dump under way */
	bool dumping;
	struct flight_dump dump;
	struct recording rec;
	struct exports *exports;
	struct window_totals totals;
	struct open_spans open;
	uint64_t begun_ns;
	uint64_t newest_ns, settled_ns;
	uint32_t dumps, failed;
};

/* What a time takes is not known: at most this. */
static uint64_t memory_share(void)
{
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 8;

	return bytes < BYTES_MAX ? bytes : BYTES_MAX;
}

int recorder_new(struct run *r, struct recorder **ret_recorder)
{
	struct recorder *rec = calloc(1, sizeof(*rec));
	const struct record_options *o = r->o;
	uint64_t bytes = o->flight_bytes ? o->flight_bytes : memory_share();
	int err;

	if (!rec)
		return -ENOMEM;
	/* what a dump needs is given back behind it, and not kept for the next */
	mallopt(M_MMAP_THRESHOLD, 64 << 10);
	rec->r = r;
	err = flight_new(bytes, o->flight_ns, r->tasks, &rec->flight);
	if (err)
		log_error("--flight-recorder: cannot have %.0f MB of memory: %s", (double)bytes / 1e6, strerror(-err));
	else if (o->triggers)
		err = trigger_start(o->triggers, &r->probes, o->trigger_cooldown_ns, o->max_dumps);
	if (err) {
		recorder_free(rec);
		return err;
	}
	*ret_recorder = rec;
	return 0;
}

void recorder_free(struct recorder *rec)
{
	if (!rec)
		return;
	exports_close(rec->exports, NULL, NULL, NULL);
	flight_free(rec->flight);
	free(rec->open.data);
	free(rec);
}

/* ---- asking for a dump ---- */

static int request(struct recorder *rec, const char *reason, uint64_t id, uint64_t at_ns)
{
	struct request *q = &rec->requests[rec->n_requests];

	if (rec->n_requests == REQUESTS_MAX)
		return -EBUSY;
	*q = (struct request){ .id = id, .at_ns = at_ns };
	snprintf(q->reason, sizeof(q->reason), "%s", reason);
	rec->n_requests++;
	return 0;
}

int recorder_request(struct recorder *rec, const char *reason, uint64_t id)
{
	return request(rec, reason, id, clock_ns(CLOCK_BOOTTIME));
}

static void fire(struct recorder *rec, const struct trigger_hit *hit)
{
	if (hit && request(rec, hit->reason, 0, hit->ns))
		log_warn("too many dumps wait already; none for %s", hit->reason);
}

void recorder_record(struct recorder *rec, const struct rec_hdr *h, size_t size)
{
	struct trigger_set *triggers = rec->r->o->triggers;

	flight_append(rec->flight, h, size);
	if (triggers && (h->kind == REC_STEP || h->kind == REC_TASK || h->kind == REC_REQUEST))
		fire(rec, trigger_record(triggers, h));
}

void recorder_settled(struct recorder *rec)
{
	if (rec->r->o->triggers)
		fire(rec, trigger_settled(rec->r->o->triggers));
}

void recorder_loss(struct recorder *rec, const struct loss *l)
{
	struct trigger_set *triggers = rec->r->o->triggers;

	rec->losses[rec->n_losses++ % LOSSES_MAX] = *l;
	if (triggers)
		fire(rec, trigger_loss(triggers, total_of(rec->r->w.totals.lost), l->to_ns));
}

/* ---- spans in flight ---- */

static void keep_open(const struct rec_hdr *h, size_t size, void *arg)
{
	struct open_spans *o = arg;
	uint64_t head = size;

	if (o->len + sizeof(head) + size > o->cap) {
		char *data = realloc(o->data, 2 * o->cap + 65536);

		if (!data) {
			o->err = -ENOMEM;
			return;
		}
		o->data = data;
		o->cap = 2 * o->cap + 65536;
	}
	memcpy(o->data + o->len, &head, sizeof(head));
	memcpy(o->data + o->len + sizeof(head), h, size);
	o->len += sizeof(head) + size;
}

static void each_open(const struct recorder *rec, record_cb cb, void *arg)
{
	const char *p = rec->open.data, *end = p + rec->open.len;

	while (p < end) {
		uint64_t size;

		memcpy(&size, p, sizeof(size));
		cb((const struct rec_hdr *)(p + sizeof(size)), size, arg);
		p += sizeof(size) + size;
	}
}

/* Drops those that have ended since, and are in the store. */
static void drop_ended(struct recorder *rec, uint64_t since_ns)
{
	char *from = rec->open.data, *to = from, *end = from + rec->open.len;

	while (from < end) {
		uint64_t size;

		memcpy(&size, from, sizeof(size));
		if (!flight_dump_has(rec->flight, (const struct rec_hdr *)(from + sizeof(size)), since_ns)) {
			memmove(to, from, sizeof(size) + size);
			to += sizeof(size) + size;
		}
		from += sizeof(size) + size;
	}
	rec->open.len = (size_t)(to - rec->open.data);
}

/* ---- a dump ---- */

static void on_dump(const struct rec_hdr *h, size_t size, void *arg)
{
	struct recorder *rec = arg;
	uint64_t end = h->start_ns + h->dur_ns;

	h = run_whole(rec->r, h, size);
	rec->totals.records[h->kind]++;
	rec->totals.steps += h->kind == REC_STEP;
	exports_record(rec->exports, h);
	if (end > rec->newest_ns)
		rec->newest_ns = end;
	if (rec->newest_ns - rec->settled_ns < SETTLED_NS)
		return;
	exports_settled(rec->exports);
	rec->settled_ns = rec->newest_ns;
}

/* The dump's clocks: its zero is the horizon. */
static void set_recording(struct recorder *rec)
{
	const struct recording *run = &rec->r->w.rec;
	uint64_t start = rec->dump.horizon_ns, later;

	if (start < run->start_boot_ns)
		start = run->start_boot_ns;
	later = start - run->start_boot_ns;
	rec->rec = *run;
	rec->rec.start_boot_ns = start;
	rec->rec.start_mono_ns += later;
	rec->rec.start_real_ns += later;
	rec->rec.window = rec->dumps;
	rec->rec.name_real_ns = clock_ns(CLOCK_REALTIME);
	rec->rec.tasks = rec->dump.names;
	rec->totals = (struct window_totals){ .open_ns = start };
	rec->newest_ns = rec->settled_ns = start;
}

static void write_losses(struct recorder *rec)
{
	uint64_t first = rec->n_losses > LOSSES_MAX ? rec->n_losses - LOSSES_MAX : 0;

	for (uint64_t i = first; i < rec->n_losses; i++) {
		const struct loss *l = &rec->losses[i % LOSSES_MAX];

		if (l->to_ns <= rec->rec.start_boot_ns)
			continue;
		for (int k = 0; k < REC_KIND_MAX; k++)
			rec->totals.lost[k] += l->count[k];
		rec->totals.lost_ns += l->to_ns - l->from_ns;
		exports_loss(rec->exports, l);
	}
}

/* What is in the rings belongs to the time before the trigger. */
static int drain_all(struct recorder *rec)
{
	int more = 1;

	for (int i = 0; i < DRAINS_MAX && more > 0; i++)
		more = session_drain(rec->r->session);
	return more < 0 ? more : 0;
}

static int begin(struct recorder *rec)
{
	struct run *r = rec->r;
	uint64_t now = clock_ns(CLOCK_BOOTTIME);
	int err;

	rec->open.len = 0;
	err = session_peek(r->session, keep_open, &rec->open) ?: rec->open.err;
	if (err)
		log_warn("spans that are still open are missing in the dump: %s", strerror(-err));
	err = drain_all(rec);
	if (err)
		return err;
	err = flight_dump_begin(rec->flight, rec->requests[0].at_ns, r->tasks, &rec->dump);
	if (err)
		return err;
	drop_ended(rec, now);
	set_recording(rec);
	err = exports_open(r->o, &rec->rec, 0, true, &rec->exports);
	if (err) {
		flight_dump_end(rec->flight);
		return err;
	}
	rec->totals.open_cost_ns = clock_ns(CLOCK_BOOTTIME) - now;
	rec->totals.close_ns = now;
	rec->dumping = true;
	rec->begun_ns = now;
	write_losses(rec);
	return 0;
}

static void add_file(const char *name, uint64_t bytes, void *arg)
{
	struct run *r = arg;

	r->w.files++;
	r->w.file_bytes += bytes;
	log_debug("wrote %s (%.1f MB)", name, (double)bytes / 1e6);
	run_file(r, name, bytes);
}

/* Tells the client, if one waits, and goes on to the next request. */
static void answer(struct recorder *rec, int err)
{
	struct run *r = rec->r;
	struct request *q = &rec->requests[0];
	struct json_object *reply = NULL;
	char text[REASON_MAX + 128];

	if (err) {
		rec->failed++;
		snprintf(text, sizeof(text), "the dump could not be written: %s", strerror(-err));
		log_error("%s (%s)", text, q->reason);
	} else {
		snprintf(text, sizeof(text),
			"dump %u (%s): the last %.1f s, %" PRIu64 " records, %u files in %s (%.1f MB), written in %.1f s",
			rec->dumps, q->reason, (double)(rec->totals.close_ns - rec->totals.open_ns) / 1e9,
			total_of(rec->totals.records), r->w.files, r->o->output_dir, (double)r->w.file_bytes / 1e6,
			(double)(clock_ns(CLOCK_BOOTTIME) - rec->begun_ns) / 1e9);
		log_info("%s", text);
	}
	if (q->id && !err) {
		reply = json_object_new_object();
		json_object_object_add(reply, "message", json_object_new_string(text));
		json_object_object_add(reply, "files", r->files);
	} else {
		json_object_put(r->files);
	}
	r->files = NULL;
	if (q->id)
		control_done(r->control, q->id, err, reply, err ? text : NULL);
	rec->n_requests--;
	memmove(rec->requests, rec->requests + 1, rec->n_requests * sizeof(*rec->requests));
}

static void finish(struct recorder *rec)
{
	struct run *r = rec->r;
	struct mark m = {
		.name = "trigger",
		.ns = rec->requests[0].at_ns,
		.number = rec->dumps,
		.reason = rec->requests[0].reason,
	};
	uint64_t before = clock_ns(CLOCK_BOOTTIME);
	int err;

	each_open(rec, on_dump, rec);
	/* twice: the first says that what was sent before the one before it is here */
	exports_settled(rec->exports);
	exports_settled(rec->exports);
	exports_mark(rec->exports, &m);
	r->w.files = 0;
	r->w.file_bytes = 0;
	r->files = json_object_new_array();
	rec->totals.close_cost_ns = clock_ns(CLOCK_BOOTTIME) - before;
	err = exports_close(rec->exports, &rec->totals, add_file, r);
	rec->exports = NULL;
	flight_dump_end(rec->flight);
	rec->dumping = false;
	free(rec->open.data);
	rec->open = (struct open_spans){ 0 };
	malloc_trim(0);
	answer(rec, err);
	rec->dumps += !err;
}

/* Up to `until`, as far as the disk keeps up. */
static void work(struct recorder *rec, uint64_t until)
{
	int more = 1;

	while (more > 0 && clock_ns(CLOCK_BOOTTIME) < until && exports_pending(rec->exports) < PENDING_MAX) {
		more = flight_dump_next(rec->flight, on_dump, rec, SLICE_RECORDS);
		if (exports_flush(rec->exports))
			more = 0; /* the disk is full: closing will tell */
	}
	if (more <= 0)
		finish(rec);
}

int recorder_round(struct recorder *rec, uint64_t now_ns)
{
	int err;

	flight_expire(rec->flight, now_ns);
	if (!rec->n_requests)
		return 0;
	if (!rec->dumping) {
		err = begin(rec);
		if (err) {
			answer(rec, err);
			return 0;
		}
	}
	work(rec, now_ns + ROUND_NS);
	return 0;
}

bool recorder_busy(const struct recorder *rec)
{
	return rec->n_requests && (!rec->dumping || exports_pending(rec->exports) < PENDING_MAX);
}

bool recorder_waits(const struct recorder *rec)
{
	return rec->dumping && !recorder_busy(rec);
}

void recorder_finish(struct recorder *rec)
{
	while (rec->n_requests)
		recorder_round(rec, clock_ns(CLOCK_BOOTTIME));
	if (rec->r->o->triggers)
		trigger_summary(rec->r->o->triggers);
}

void recorder_status(const struct recorder *rec, struct json_object *reply)
{
	struct json_object *o = json_object_new_object();
	uint64_t now = clock_ns(CLOCK_BOOTTIME), from = rec->r->w.rec.start_boot_ns;
	struct flight_stats st;

	flight_get_stats(rec->flight, &st);
	if (st.horizon_ns > from)
		from = st.horizon_ns;
	json_object_object_add(o, "bytes", json_object_new_int64((int64_t)st.used_bytes));
	json_object_object_add(o, "records", json_object_new_int64((int64_t)st.kept));
	json_object_object_add(o, "horizon_s", json_object_new_double((double)(now - from) / 1e9));
	json_object_object_add(o, "dumps", json_object_new_int64(rec->dumps));
	json_object_object_add(reply, "recorder", o);
}

unsigned int recorder_failed(const struct recorder *rec)
{
	return rec->failed;
}
