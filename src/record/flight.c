// SPDX-License-Identifier: BSD-2-Clause
#include "record/flight.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/calls.h"
#include "record/flight_store.h"
#include "record/gpu.h"
#include "record/limits.h"
#include "record/output.h"
#include "record/trigger.h"
#include "util/text.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"

#define BYTES_MAX (UINT64_C(1) << 30)
#define REQUESTS_MAX 16
#define REASON_MAX 256
#define LOSSES_MAX 64
#define SLICE_RECORDS 1024           /* of a dump at a time: about 0.5 ms */
#define ROUND_NS (5 * NSEC_PER_MSEC) /* then the rings are drained */
#define PENDING_MAX (1u << 20)       /* bytes that may wait for a slow disk; the rest stays in the store */
#define SETTLED_NS NSEC_PER_SEC      /* longer than records stay in the rings */
#define DRAINS_MAX 32                /* enough to empty the rings */
#define WAIT_US 1000                 /* for the disk */
#define STALLED_NS NSEC_PER_SEC      /* after a stop signal, how long to wait for a disk that takes nothing */
#define BATCH_MAX 64                 /* processes written at the same time */
#define BATCH_BYTES (10u << 20)      /* of memory for their outputs */

struct flight_request {
	char reason[REASON_MAX];
	uint64_t id; /* of the waiting client; 0: none */
	uint64_t at_ns;
	struct last last; /* steps, or time before at_ns */
};

struct recorder {
	struct sink sink; /* for the records of the window */
	const struct windows *w;
	recorder_done_cb done;
	void *done_arg;
	struct flight *flight;
	struct flight_request requests[REQUESTS_MAX]; /* the first is in progress while `dumping` */
	size_t n_requests;
	struct loss losses[LOSSES_MAX]; /* the newest, as a ring */
	uint64_t n_losses;
	uint64_t lost; /* records of all kinds */
	uint32_t dumps, failed;
	bool ending;   /* no more requests */
	bool given_up; /* the user has stopped waiting for the disk */
	/* of the current dump */
	bool dumping;
	struct flight_dump dump;
	struct recording rec;
	struct sink *out; /* of a batch of processes */
	struct left_files files;
	bool written; /* all of the batch but its totals was handed to `out` */
	uint32_t *tgids;
	size_t n_tgids;
	size_t *batches, n_batches, batch; /* each one's end in tgids */
	struct window_totals totals;
	struct in_flight *open; /* spans that are still open */
	bool looking;           /* stacks of waiting threads go to `open` */
	uint64_t begun_ns;
	uint64_t newest_ns, settled_ns;
};

/* ---- asking for a dump ---- */

static int recorder_add_request(struct recorder *rec, const char *reason, struct last last, uint64_t id, uint64_t at_ns)
{
	struct flight_request *q = &rec->requests[rec->n_requests];

	if (rec->n_requests == REQUESTS_MAX)
		return -EBUSY;
	*q = (struct flight_request){ .id = id, .at_ns = at_ns, .last = last };
	snprintf(q->reason, sizeof(q->reason), "%s", reason);
	rec->n_requests++;
	return 0;
}

int recorder_request(struct recorder *rec, const char *reason, struct last last, uint64_t id)
{
	return recorder_add_request(rec, reason, last, id, clock_boot_ns());
}

static void recorder_fire_trigger(struct recorder *rec, const struct trigger_hit *hit)
{
	if (hit && !rec->ending && recorder_add_request(rec, hit->reason, (struct last){ 0 }, 0, hit->ns))
		log_warn("too many dumps are waiting already; no dump for %s", hit->reason);
}

static void recorder_record(struct sink *s, const struct rec_hdr *h, size_t size)
{
	struct recorder *rec = (struct recorder *)s;
	struct trigger_set *triggers = rec->w->o->triggers;

	/* for this dump only: by the next one the wait is longer, or over */
	if (h->kind == REC_STACK && ((const struct rec_stack *)h)->flags & SAMPLE_F_LOOKED) {
		if (rec->looking)
			in_flight_add(h, size, rec->open);
		return;
	}
	flight_append(rec->flight, h, size);
	if (triggers && (h->kind == REC_STEP || h->kind == REC_TASK || h->kind == REC_REQUEST || h->kind == REC_GPU_STEP || h->kind == REC_GAP))
		recorder_fire_trigger(rec, trigger_record(triggers, h));
}

static void recorder_settled(struct sink *s)
{
	struct recorder *rec = (struct recorder *)s;

	if (rec->w->o->triggers)
		recorder_fire_trigger(rec, trigger_settled(rec->w->o->triggers));
}

static void recorder_loss(struct sink *s, const struct loss *l)
{
	struct recorder *rec = (struct recorder *)s;
	struct trigger_set *triggers = rec->w->o->triggers;

	rec->losses[rec->n_losses++ % LOSSES_MAX] = *l;
	rec->lost += total_of(l->count);
	if (triggers && l->count[REC_STEP])
		trigger_lost_steps(triggers, l->count[REC_STEP]);
	if (triggers)
		recorder_fire_trigger(rec, trigger_loss(triggers, rec->lost, l->to_ns));
}

/* The window closes; what was kept is freed by recorder_free(). */
static int recorder_close(struct sink *s, const struct window_totals *t)
{
	(void)s;
	(void)t;
	return 0;
}

static const struct sink_ops recorder_ops = {
	.record = recorder_record,
	.loss = recorder_loss,
	.settled = recorder_settled,
	.close = recorder_close,
};

/* ---- creation and removal ---- */

int recorder_new(struct windows *w, recorder_done_cb done, void *arg, struct recorder **ret_recorder)
{
	struct recorder *rec = xcalloc(1, sizeof(*rec));
	const struct record_options *o = w->o;
	/* a time limit implies no size, so cap the memory */
	uint64_t share = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 8;
	uint64_t bytes = o->flight_bytes ?: share < BYTES_MAX ? share
							      : BYTES_MAX;
	int err;

	/* memory for a dump is returned after it, and not kept for the next */
	mallopt(M_MMAP_THRESHOLD, 64 << 10);
	rec->sink.ops = &recorder_ops;
	rec->w = w;
	rec->done = done;
	rec->done_arg = arg;
	err = flight_new(bytes, o->flight_ns, w->c->tasks, &rec->flight);
	if (err) {
		log_error("--flight-recorder: cannot allocate %.0f MB of memory: %s", (double)bytes / 1e6, strerror(-err));
		recorder_free(rec);
		return err;
	}
	if (o->triggers)
		trigger_start(o->triggers, &w->c->probes, o->trigger_cooldown_ns, o->max_dumps);
	w->recorder = &rec->sink;
	*ret_recorder = rec;
	return 0;
}

void recorder_free(struct recorder *rec)
{
	if (!rec)
		return;
	sink_close(rec->out, NULL);
	flight_free(rec->flight);
	in_flight_free(rec->open);
	free(rec->tgids);
	free(rec->batches);
	free(rec);
}

/* ---- spans in flight ---- */

static void keep_open_span(const struct rec_hdr *h, size_t size, void *arg)
{
	struct rec_request waits;

	/* a request would end where it was last seen, but this one still waits for an answer: extends it to now */
	if (h->kind == REC_REQUEST && h->flags & REC_F_OPEN_END && size <= sizeof(waits)) {
		memcpy(&waits, h, size);
		waits.h.dur_ns = clock_boot_ns() - h->start_ns;
		h = &waits.h;
	}
	in_flight_add(h, size, arg);
}

/* Drops an open request that has ended since, as its record is in the store. There are few. */
static void drop_ended_request(const struct rec_hdr *h, size_t size, void *arg)
{
	struct recorder *rec = arg;

	(void)size;
	if (h->kind == REC_REQUEST)
		in_flight_drop(rec->open, is_same_span, (void *)h);
}

/* ---- batches ---- */

/* The memory that a process's outputs take, which limits how many are written at a time. least: the pages that few records
 * touch; most: as measured. */
static const struct {
	const char *format;
	uint32_t least, most; /* bytes */
} outputs_cost[] = {
	{ "json", 64 << 10, 2560 << 10 },
	{ "json.gz", 768 << 10, 3584 << 10 },
	{ "pftrace", 192 << 10, 6 << 20 },
	{ "pftrace.gz", 896 << 10, 7 << 20 },
	{ "et", 64 << 10, 40 << 20 }, /* the nodes of incomplete steps */
	{ "et.json", 64 << 10, 40 << 20 },
	{ "kineto.json", 64 << 10, 2560 << 10 },
	{ "kineto.json.gz", 768 << 10, 3584 << 10 },
};

#define RECORD_COST 512 /* bytes for each record in each format */

static uint64_t estimate_dump_bytes(const struct record_options *o, uint64_t records)
{
	uint64_t sum = o->profile_format && text_has_suffix(o->profile_format, ".gz") ? 768 << 10 : 64 << 10; /* for the profile */

	for (size_t i = 0; i < o->n_formats; i++) {
		for (size_t k = 0; k < sizeof(outputs_cost) / sizeof(outputs_cost[0]); k++) {
			uint64_t bytes = outputs_cost[k].least + records * RECORD_COST;

			if (!strcmp(o->formats[i], outputs_cost[k].format))
				sum += bytes < outputs_cost[k].most ? bytes : outputs_cost[k].most;
		}
	}
	return sum;
}

static void add_live_process(struct task *t, void *arg)
{
	thread_map_get(arg, t->tgid);
}

static void add_span_process(const struct rec_hdr *h, size_t size, void *arg)
{
	(void)size;
	thread_map_get(arg, h->tgid);
}

/* Divides the dump's processes into batches, even those without a record. */
static void plan_batches(struct recorder *rec)
{
	struct thread_map processes = { .size = sizeof(struct flight_process) };
	const struct flight_process *p = NULL;
	size_t room, begin = 0;
	uint64_t bytes = 0;

	if (rec->w->o->all) {
		rec->n_batches = 1;
		return;
	}
	flight_dump_processes(rec->flight, &processes);
	tasks_each_process(rec->dump.names, add_live_process, &processes);
	in_flight_each(rec->open, add_span_process, &processes);
	room = HASH_COUNT(processes.first) + 1;
	rec->tgids = xcalloc(room, sizeof(*rec->tgids));
	rec->batches = xcalloc(room, sizeof(*rec->batches));
	while ((p = thread_map_next(&processes, p))) {
		uint64_t cost = estimate_dump_bytes(rec->w->o, p->records);

		if (rec->n_tgids > begin && (bytes + cost > BATCH_BYTES || rec->n_tgids - begin == BATCH_MAX)) {
			rec->batches[rec->n_batches++] = begin = rec->n_tgids;
			bytes = 0;
		}
		rec->tgids[rec->n_tgids++] = p->tgid.tid;
		bytes += cost;
	}
	rec->batches[rec->n_batches++] = rec->n_tgids;
	thread_map_clear(&processes, NULL);
	flight_dump_passes(rec->flight, (unsigned int)rec->n_batches);
}

static int open_batch(struct recorder *rec)
{
	size_t from = rec->batch ? rec->batches[rec->batch - 1] : 0;

	rec->rec.tasks = rec->dump.names;
	rec->newest_ns = rec->settled_ns = rec->rec.start_boot_ns;
	rec->written = false;
	if (rec->w->o->all)
		return outputs_open(rec->w->o, &rec->rec, NULL, 0, &rec->out);
	return outputs_open(rec->w->o, &rec->rec, rec->tgids + from, rec->batches[rec->batch] - from, &rec->out);
}

/* ---- a dump ---- */

/* Marks a span that starts before the dump, and unlinks a wake-up from a waker looked at before it: a dump can show neither. */
static const struct rec_hdr *record_fit_to_dump(const struct recorder *rec, const struct rec_hdr *h, size_t size)
{
	static union {
		struct rec_hdr h;
		struct rec_off_cpu off;
		char bytes[REC_SIZE_MAX];
	} marked;
	const struct rec_off_cpu *woken = h->kind == REC_OFF_CPU ? (const struct rec_off_cpu *)h : NULL;
	struct rec_off_cpu *off = &marked.off;
	bool begins = h->start_ns >= rec->rec.start_boot_ns || h->kind == REC_TASK || !h->dur_ns;
	bool unseen = woken && woken->waker_slice && woken->wake_ns > in_flight_at(rec->open, woken->waker_tid);

	if ((begins && !unseen) || size > sizeof(marked))
		return h;
	memcpy(&marked, h, size);
	if (!begins)
		marked.h.flags |= REC_F_OPEN_START;
	if (woken && !begins && off->wake_ns && off->wake_ns < rec->rec.start_boot_ns) {
		off->wake_ns = rec->rec.start_boot_ns;
		off->waker_slice = 0;
	}
	if (unseen)
		off->waker_slice = 0;
	return &marked.h;
}

static void recorder_write_record(struct recorder *rec, const struct rec_hdr *h, size_t size)
{
	uint64_t end = h->start_ns + h->dur_ns;

	if (!sink_wants(rec->out, h) || (h->kind == REC_TASK && h->id == TASK_STRANGER))
		return;
	h = record_fit_to_dump(rec, h, size);
	if (h->kind == REC_FUNCTION)
		h = with_strings(&rec->w->c->probes.specs[h->id], h, &size);
	probe_table_use(&rec->w->c->probes, h->tgid);
	rec->totals.records[h->kind]++;
	rec->totals.steps += h->kind == REC_STEP && !(h->flags & REC_F_OPEN_START);
	sink_record(rec->out, h, size);
	if (end > rec->newest_ns)
		rec->newest_ns = end;
	if (rec->newest_ns - rec->settled_ns < SETTLED_NS)
		return;
	sink_settled(rec->out);
	rec->settled_ns = rec->newest_ns;
}

static void dump_write_record(const struct rec_hdr *h, size_t size, void *arg)
{
	struct recorder *rec = arg;

	if (!in_flight_replaces(rec->open, h))
		recorder_write_record(rec, h, size);
}

static void recorder_add_file(const char *name, uint64_t bytes, void *arg)
{
	log_debug("wrote %s (%.1f MB)", name, (double)bytes / 1e6);
	left_files_add(&((struct recorder *)arg)->files, name, bytes);
}

/* Sets the clocks of the dump: its zero is the horizon. */
static void set_recording(struct recorder *rec)
{
	const struct recording *run = &rec->w->rec;
	uint64_t start = rec->dump.horizon_ns, later;

	if (start < run->start_boot_ns)
		start = run->start_boot_ns;
	later = start - run->start_boot_ns;
	rec->rec = *run;
	rec->rec.on_file = recorder_add_file;
	rec->rec.on_file_arg = rec;
	rec->rec.start_boot_ns = start;
	rec->rec.start_mono_ns += later;
	rec->rec.start_real_ns += later;
	rec->rec.window = rec->dumps;
	rec->rec.name_real_ns = clock_ns(CLOCK_REALTIME);
	rec->totals = (struct window_totals){ .open_ns = start };
}

/* Counts or writes the losses within the dump. */
static void recorder_add_losses(struct recorder *rec, bool write)
{
	uint64_t first = rec->n_losses > LOSSES_MAX ? rec->n_losses - LOSSES_MAX : 0;

	for (uint64_t i = first; i < rec->n_losses; i++) {
		const struct loss *l = &rec->losses[i % LOSSES_MAX];

		if (l->to_ns <= rec->rec.start_boot_ns || l->from_ns >= rec->totals.close_ns)
			continue;
		if (write)
			sink_loss(rec->out, l);
		for (int k = 0; k < REC_KIND_MAX && !write; k++)
			rec->totals.lost[k] += l->count[k];
		rec->totals.lost_ns += write ? 0 : l->to_ns - l->from_ns;
	}
}

/* Drains the rings: their records are from before the trigger. */
static int recorder_drain_rings(struct recorder *rec)
{
	int more = 1;

	for (int i = 0; i < DRAINS_MAX && more > 0; i++)
		more = session_drain(rec->w->c->session);
	return more < 0 ? more : 0;
}

static int recorder_begin_dump(struct recorder *rec)
{
	uint64_t now = clock_boot_ns();
	int err;

	rec->files = (struct left_files){ .list = json_object_new_array() };
	rec->open = in_flight_new();
	err = session_peek(rec->w->c->session, keep_open_span, in_flight_end_thread, rec->open);
	if (err)
		log_warn("spans that are still open are missing in the dump: %s", strerror(-err));
	in_flight_ready(rec->open);
	rec->looking = true;
	err = session_peek_waits(rec->w->c->session) ?: recorder_drain_rings(rec);
	if (!err)
		intake_finish_stacks(rec->w->in);
	rec->looking = false;
	if (err)
		return err;
	intake_check_loss(rec->w->in, clock_boot_ns());
	err = flight_dump_begin(rec->flight, rec->requests[0].at_ns, rec->w->c->tasks, &rec->dump);
	if (err)
		return err;
	rec->dumping = true;
	flight_dump_last(rec->flight, rec->requests[0].last, rec->requests[0].at_ns, &rec->dump);
	rec->begun_ns = now;
	flight_dump_since(rec->flight, now, drop_ended_request, rec);
	set_recording(rec);
	/* what was drained since may have taken all of the room */
	rec->totals.close_ns = rec->totals.open_ns < now ? now : clock_boot_ns();
	recorder_add_losses(rec, false);
	plan_batches(rec);
	err = open_batch(rec);
	rec->totals.open_cost_ns = clock_boot_ns() - now;
	return err;
}

/* Cleans up, whether or not the dump was written. */
static void recorder_end_dump(struct recorder *rec)
{
	sink_close(rec->out, NULL);
	rec->out = NULL;
	flight_dump_end(rec->flight);
	rec->dumping = rec->written = false;
	in_flight_free(rec->open);
	rec->open = NULL;
	free(rec->tgids);
	free(rec->batches);
	rec->tgids = NULL;
	rec->batches = NULL;
	rec->n_tgids = rec->n_batches = rec->batch = 0;
	malloc_trim(0);
}

/* Tells the client, if one is waiting, and goes on to the next request. */
static void recorder_answer(struct recorder *rec, int err)
{
	struct flight_request *q = &rec->requests[0];
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
			total_of(rec->totals.records), rec->files.n, rec->w->o->output_dir,
			(double)rec->files.bytes / 1e6, (double)(clock_boot_ns() - rec->begun_ns) / 1e9);
		log_info("%s", text);
	}
	if (q->id && !err) {
		reply = json_object_new_object();
		json_object_object_add(reply, "message", json_object_new_string(text));
		json_object_object_add(reply, "files", rec->files.list);
	} else {
		json_object_put(rec->files.list);
	}
	rec->files.list = NULL;
	if (q->id)
		rec->done(q->id, err, reply, err ? text : NULL, rec->done_arg);
	rec->n_requests--;
	memmove(rec->requests, rec->requests + 1, rec->n_requests * sizeof(*rec->requests));
}

static void write_open_span(const struct rec_hdr *h, size_t size, void *arg)
{
	struct recorder *rec = arg;

	/* drops a request that was answered long ago, but whose end nothing has reported */
	if (h->start_ns + h->dur_ns > rec->rec.start_boot_ns)
		recorder_write_record(rec, h, size);
}

static void recorder_write_end(struct recorder *rec)
{
	struct mark m = {
		.name = "trigger",
		.ns = rec->requests[0].at_ns,
		.number = rec->dumps,
		.reason = rec->requests[0].reason,
	};

	in_flight_each(rec->open, write_open_span, rec);
	recorder_add_losses(rec, true);
	/* twice, since sink_settled() covers what was sent before the previous call */
	sink_settled(rec->out);
	sink_settled(rec->out);
	sink_mark(rec->out, &m);
	overhead_marks(rec->rec.left_out, rec->out, rec->rec.start_boot_ns, rec->totals.close_ns);
	misfits_marks(rec->w->c->misfits, rec->out, rec->rec.start_boot_ns);
	rec->written = true;
}

/* Closes the batch's files and begins the next batch. Returns 1 if there is none. */
static int close_batch(struct recorder *rec)
{
	int err;

	rec->totals.close_cost_ns = clock_boot_ns() - rec->begun_ns;
	left_out_times(rec->rec.left_out, rec->totals.open_ns, rec->totals.close_ns, rec->totals.left_out_ns);
	err = sink_close(rec->out, &rec->totals);
	rec->out = NULL;
	if (err)
		return err;
	if (++rec->batch == rec->n_batches)
		return 1;
	rec->dump.names = flight_dump_again(rec->flight);
	return open_batch(rec);
}

/* Writes more of the dump, until `until` and as far as the disk keeps up. Returns 1 when it is complete. Closing a file waits for
 * the disk, so little must be left to write by then. */
static int recorder_write_more(struct recorder *rec, uint64_t until)
{
	int err = rec->given_up ? -EINTR : rec->written ? sink_flush(rec->out)
							: 0;

	while (!rec->written && !err && clock_boot_ns() < until && sink_pending(rec->out) < PENDING_MAX) {
		if (!flight_dump_next(rec->flight, dump_write_record, rec, SLICE_RECORDS))
			recorder_write_end(rec);
		err = sink_flush(rec->out);
	}
	if (err) {
		rec->totals.cut = true;
		sink_close(rec->out, &rec->totals);
		rec->out = NULL;
		return err;
	}
	if (!rec->written || sink_pending(rec->out))
		return 0;
	return close_batch(rec);
}

void recorder_round(struct recorder *rec, uint64_t now_ns)
{
	int done = 0;

	flight_expire(rec->flight, now_ns);
	if (!rec->n_requests)
		return;
	if (!rec->dumping)
		done = recorder_begin_dump(rec);
	if (!done)
		done = recorder_write_more(rec, now_ns + ROUND_NS);
	if (!done)
		return;
	recorder_end_dump(rec);
	recorder_answer(rec, done < 0 ? done : 0);
	rec->dumps += done > 0;
}

bool recorder_busy(const struct recorder *rec)
{
	uint64_t pending = rec->out ? sink_pending(rec->out) : 0;

	return rec->n_requests && (rec->written ? !pending : pending < PENDING_MAX);
}

bool recorder_waits(const struct recorder *rec)
{
	return rec->dumping && !recorder_busy(rec);
}

unsigned int recorder_finish(struct recorder *rec)
{
	uint64_t pending, before = 0, moved_ns = clock_boot_ns(), now;
	sigset_t set;

	/* the end of the last target may be known from /proc while its record is still in a ring */
	recorder_drain_rings(rec);
	/* and what the GPU did, which triggers judge, may still be with its agent */
	if (rec->w->in->gpu)
		gpu_stop(rec->w->in->gpu, moved_ns);
	recorder_settled(&rec->sink);
	if (rec->w->o->triggers)
		recorder_fire_trigger(rec, trigger_finish(rec->w->o->triggers));
	rec->ending = true;
	while (rec->n_requests) {
		session_drain(rec->w->c->session);
		now = clock_boot_ns();
		recorder_round(rec, now);
		pending = rec->out ? sink_pending(rec->out) : 0;
		if (pending != before || !recorder_waits(rec))
			moved_ns = now;
		before = pending;
		if (!recorder_waits(rec))
			continue;
		/* signals are read elsewhere: checks whether another stop signal is pending */
		rec->given_up = now - moved_ns > STALLED_NS && !sigpending(&set) &&
				(sigismember(&set, SIGINT) == 1 || sigismember(&set, SIGTERM) == 1 || sigismember(&set, SIGHUP) == 1);
		usleep(WAIT_US);
	}
	if (rec->w->o->triggers)
		trigger_summary(rec->w->o->triggers);
	return rec->failed;
}

void recorder_status(const struct recorder *rec, struct json_object *reply)
{
	struct json_object *o = json_object_new_object();
	uint64_t now = clock_boot_ns(), from = rec->w->rec.start_boot_ns;
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
