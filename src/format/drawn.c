// SPDX-License-Identifier: BSD-2-Clause
#include "format/drawn.h"

#include <stdio.h>
#include <string.h>

#include "requests/request_feed.h"

#define REASON_MAX 256 /* bytes shown */

void drawn_add(struct drawn *d, const char *name, enum drawn_kind kind, uint64_t v)
{
	if (d->n < DRAWN_ARGS_MAX)
		d->args[d->n++] = (struct drawn_arg){ .name = name, .kind = kind, .v = v };
}

void drawn_add_text(struct drawn *d, const char *name, const char *text, size_t max)
{
	if (d->n < DRAWN_ARGS_MAX)
		d->args[d->n++] = (struct drawn_arg){ .name = name, .kind = DRAWN_TEXT, .v = strnlen(text, max), .text = text };
}

static void drawn_add_word(struct drawn *d, const char *name, const char *text)
{
	d->args[d->n++] = (struct drawn_arg){ .name = name, .kind = DRAWN_WORD, .v = strlen(text), .text = text };
}

void drawn_begin(struct drawn *d, const char *category, const char *name, enum drawn_as as, uint64_t ns)
{
	d->category = category;
	d->name = name;
	d->names = DRAWN_NAME_STAYS;
	d->as = as;
	d->ns = ns;
	d->flags = 0;
	d->n = 0;
}

static bool draw_task(struct drawn *d, const struct rec_task *r)
{
#define TASK_NAME(event, name) name,
	static const char *const names[] = { TASK_EVENTS(TASK_NAME) };

	if (r->h.id >= sizeof(names) / sizeof(names[0]))
		return false;
	drawn_begin(d, "task", names[r->h.id], DRAWN_INSTANT, r->h.start_ns);
	drawn_add_text(d, "comm", r->comm, sizeof(r->comm));
	if (r->h.id == TASK_FORK)
		drawn_add(d, "parent", DRAWN_NUMBER, r->arg);
	else if (r->h.id == TASK_EXIT)
		drawn_add(d, "code", DRAWN_NUMBER, r->arg);
	return true;
}

static void draw_irq(struct drawn *d, const struct rec_irq *r, struct irq_names **irqs)
{
	const char *type, *name = irq_record_name(irqs, r, d->texts[0], &type);

	drawn_begin(d, "irq", name, DRAWN_SPAN, 0);
	d->names = DRAWN_NAME_RECURS;
	d->flags = r->h.flags;
	drawn_add_word(d, "type", type);
	if (!(r->h.flags & IRQ_F_VECTOR))
		drawn_add(d, "number", DRAWN_NUMBER, r->h.id);
	drawn_add(d, "cpu", DRAWN_NUMBER, r->h.cpu);
}

static void draw_message(struct drawn *d, const struct rec_message *r)
{
	drawn_begin(d, "message", message_name(r), DRAWN_INSTANT, r->h.start_ns + r->h.dur_ns);
	drawn_add_word(d, "local", message_address(d->texts[0], r->local, r->local_port));
	drawn_add_word(d, "peer", message_address(d->texts[1], r->peer, r->peer_port));
	drawn_add(d, "bytes", DRAWN_NUMBER, r->bytes);
	drawn_add(d, "position", DRAWN_NUMBER, r->position);
	drawn_add(d, "sequence", DRAWN_NUMBER, r->sequence);
	drawn_add(d, "call_ns", DRAWN_NUMBER, r->h.dur_ns);
}

bool drawn_of(struct drawn *d, const struct rec_hdr *h, struct irq_names **irqs)
{
	const struct rec_placed *placed = (const struct rec_placed *)h;

	switch (h->kind) {
	case REC_TASK:
		return draw_task(d, (const struct rec_task *)h);
	case REC_IRQ:
		draw_irq(d, (const struct rec_irq *)h, irqs);
		return true;
	case REC_HOLD:
		drawn_begin(d, "inftrace", "waiting for probes", DRAWN_SPAN, 0);
		if (h->id == HOLD_EXPIRED)
			drawn_add(d, "expired", DRAWN_FLAG, 1);
		return true;
	case REC_PLACED: /* an instant at the end of the interval, since several intervals overlap */
		drawn_begin(d, "inftrace", "probes placed late", DRAWN_PROCESS_INSTANT, h->start_ns + h->dur_ns);
		drawn_add_text(d, "file", placed->file, sizeof(placed->file));
		drawn_add(d, "after", DRAWN_TIME, h->dur_ns);
		return true;
	case REC_MESSAGE:
		draw_message(d, (const struct rec_message *)h);
		return true;
	}
	return false;
}

void drawn_memory(struct drawn_counter d[MEMORY_COUNTERS], const struct rec_memory *r)
{
	d[0] = (struct drawn_counter){ "rss", "bytes", r->rss_bytes, false };
	d[1] = (struct drawn_counter){ "pages_allocated", "pages", r->pages_allocated, false };
	d[2] = (struct drawn_counter){ "pages_freed", "pages", r->pages_freed, false };
}

void drawn_metric(struct drawn_counter *d, const struct rec_metric *r)
{
	*d = (struct drawn_counter){ r->name, "value", r->value, true };
}

void drawn_loss(struct drawn *d, const struct loss *l)
{
	drawn_begin(d, "loss", "lost records", DRAWN_SPAN, 0);
	for (int k = 0; k < REC_KIND_MAX; k++) {
		if (l->count[k])
			drawn_add(d, rec_kind_name((enum rec_kind)k), DRAWN_NUMBER, l->count[k]);
	}
}

void drawn_mark(struct drawn *d, const struct mark *m)
{
	drawn_begin(d, "inftrace", m->name, DRAWN_GLOBAL_INSTANT, m->ns);
	d->names = DRAWN_NAME_RECURS;
	drawn_add(d, "number", DRAWN_NUMBER, m->number);
	drawn_add_text(d, "reason", m->reason, REASON_MAX);
}

void drawn_request(struct drawn *d, const struct rec_request *r)
{
	drawn_begin(d, "requests", request_name(r, d->texts[0]), DRAWN_SPAN, 0);
	d->names = DRAWN_NAME_OF_EACH; /* clients can invent any number of them */
	d->flags = r->h.flags & REC_F_OPEN_END;
	drawn_add(d, "thread", DRAWN_NUMBER, r->h.tid);
	drawn_add(d, "fd", DRAWN_NUMBER, r->h.id);
	drawn_add(d, "bytes_read", DRAWN_NUMBER, r->bytes_read);
	drawn_add(d, "bytes_written", DRAWN_NUMBER, r->bytes_written);
	drawn_add(d, "chunks", DRAWN_NUMBER, r->chunks);
	if (request_answer_id(r, d->texts[1]))
		drawn_add_text(d, "request_id", d->texts[1], FUNC_STR_LEN);
	if (r->h.flags & REQUEST_F_END_UNSEEN)
		drawn_add(d, "end_not_seen", DRAWN_FLAG, 1);
}

void drawn_gpu_step(struct drawn *d, const struct rec_gpu_step *r, const struct gpu_step_device *device)
{
	snprintf(d->texts[0], sizeof(d->texts[0]), "step %u", r->step);
	drawn_begin(d, "gpu_step", d->texts[0], DRAWN_SPAN, 0);
	d->names = DRAWN_NAME_OF_EACH;
	drawn_add(d, "step", DRAWN_NUMBER, r->step);
	drawn_add(d, "pid", DRAWN_NUMBER, r->h.tgid);
	drawn_add(d, "kernels", DRAWN_NUMBER, device->kernels);
	drawn_add(d, "copies", DRAWN_NUMBER, device->copies);
	for (int i = 0; i < GPU_PART_MAX; i++)
		drawn_add(d, gpu_part_name(i), DRAWN_TIME, device->ns[i]);
	drawn_add(d, "residual", DRAWN_TIME, r->residual_ns);
}

/* Where its first segment begins; the end of the gap if it has none. Within a step the thread also runs: all of them are there. */
static uint64_t gap_listed_since(const struct rec_gap *r)
{
	if (r->h.flags & GAP_F_WITHIN)
		return r->h.start_ns;
	return r->n ? r->seg[r->n_causes + r->n - 1].start_ns : r->h.start_ns + r->h.dur_ns;
}

unsigned int drawn_gap_slices(const struct rec_gap *r)
{
	if (r->n_causes > GAP_CAUSES_MAX || r->n > GAP_SEGMENTS_MAX)
		return 0;
	return r->n + (gap_listed_since(r) > r->h.start_ns);
}

static void draw_gap_segment(struct drawn *d, const struct recording *rec, const struct gap_segment *s)
{
	const char *state = time_state_name((enum time_state)s->state);
	const char *call = s->call == CALL_NONE ? NULL : syscall_name(s->call), *fd = gap_segment_fd(rec, s, d->fd);

	if (s->comm[0])
		snprintf(d->texts[0], sizeof(d->texts[0]), "%.*s: %s", TASK_COMM_LEN, s->comm, state);
	else
		snprintf(d->texts[0], sizeof(d->texts[0]), "%u: %s", s->tid, state);
	d->name = d->texts[0];
	d->names = DRAWN_NAME_OF_EACH; /* the threads of any process can be among them */
	drawn_add(d, "tid", DRAWN_NUMBER, s->tid);
	if (s->tgid)
		drawn_add(d, "pid", DRAWN_NUMBER, s->tgid);
	if (call)
		drawn_add_word(d, "call", call);
	if (fd)
		drawn_add_text(d, fd, d->fd, sizeof(d->fd));
	if (s->flags & GAP_SEGMENT_F_WAKES)
		drawn_add(d, "wakes", DRAWN_FLAG, 1);
	if (!gap_segment_has_behind(s))
		return;
	drawn_add_text(d, "behind", gap_segment_behind(s), sizeof(s->by));
	drawn_add(d, "behind_tid", DRAWN_NUMBER, s->by_tid);
}

void drawn_gap_slice(struct drawn *d, const struct recording *rec, const struct rec_gap *r, unsigned int nth, struct rec_hdr *ret_at)
{
	unsigned int back = drawn_gap_slices(r) - 1 - nth; /* the record has the last one first */
	const struct gap_segment *s = back < r->n ? &r->seg[r->n_causes + back] : NULL;

	*ret_at = r->h;
	ret_at->flags = 0;
	drawn_begin(d, "gap", s ? "unknown" : "earlier", DRAWN_SPAN, 0);
	if (s) {
		ret_at->start_ns = s->start_ns;
		ret_at->dur_ns = s->dur_ns;
	} else {
		ret_at->dur_ns = gap_listed_since(r) - r->h.start_ns;
	}
	if (s && s->state < ST_MAX)
		draw_gap_segment(d, rec, s);
	drawn_add(d, "step", DRAWN_NUMBER, r->step);
	if (r->h.flags & GAP_F_WITHIN)
		drawn_add(d, "within", DRAWN_FLAG, 1);
}

unsigned int drawn_gap_track(uint64_t *contexts, unsigned int *n, unsigned int max, uint64_t context)
{
	unsigned int i = 0;

	while (i < *n && contexts[i] != context)
		i++;
	if (i == *n && i < max)
		contexts[(*n)++] = context;
	return i;
}

const char *drawn_gap_track_name(unsigned int index, char buf[GAP_TRACK_NAME_MAX])
{
	snprintf(buf, GAP_TRACK_NAME_MAX, index ? "critical path %u" : "critical path", index + 1);
	return buf;
}
