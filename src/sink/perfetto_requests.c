// SPDX-License-Identifier: BSD-2-Clause
/* Perfetto trace: requests on sockets, on tracks of their process, and those of batches, in a process of their own. */
#include <stdio.h>

#include "sink/perfetto.h"
#include "sink/request.h"

void perfetto_request(struct perfetto_sink *s, const struct rec_request *r)
{
	uint64_t start = perfetto_ts(s, r->h.start_ns);
	char buf[REQUEST_NAME_LEN];
	struct event e;
	uint32_t row;

	perfetto_thread(s, r->h.tgid, r->h.tid);
	row = perfetto_lane(s, &r->h, TRACK_REQUESTS);
	if (!row)
		return;
	event_init_text(&e, s, row, "requests", request_name(r, buf)); /* clients can invent any number of them */
	event_add(&e, "thread", VALUE_UINT, r->h.tid);
	event_add(&e, "fd", VALUE_UINT, r->h.id);
	event_add(&e, "bytes_read", VALUE_UINT, r->bytes_read);
	event_add(&e, "bytes_written", VALUE_UINT, r->bytes_written);
	event_add(&e, "chunks", VALUE_UINT, r->chunks);
	if (r->h.flags & REQUEST_F_END_UNSEEN)
		event_add(&e, "end_not_seen", VALUE_BOOL, 1);
	event_add_open(&e, r->h.flags & REC_F_OPEN_END);
	event_write_span(&e, start, perfetto_ts(s, r->h.start_ns + r->h.dur_ns));
	if (r->first_chunk_ns) {
		event_init(&e, s, row, "requests", "ttft");
		event_write_span(&e, start, r->first_chunk_ns);
	}
}

/* ---- the process `requests` ---- */

static void add_request_arg(struct event *e, const struct request_arg *a)
{
	char name[32];

	switch (a->kind) {
	case REQUEST_ARG_NUMBER:
		event_add(e, a->name, VALUE_UINT, a->v);
		break;
	case REQUEST_ARG_POINTER:
		event_add(e, a->name, VALUE_POINTER, a->v);
		break;
	case REQUEST_ARG_TIME:
		snprintf(name, sizeof(name), "%s_ns", a->name);
		event_add_copy(e, name, VALUE_UINT, a->v);
		break;
	case REQUEST_ARG_FLAG:
		event_add(e, a->name, VALUE_BOOL, 1);
		break;
	}
}

static void write_slice(const struct request_slice *rs, void *arg)
{
	struct perfetto_sink *s = arg;
	uint32_t row = perfetto_request_row(s, rs->row);
	struct event e;
	char name[32];

	if (!row)
		return;
	if (rs->numbered) { /* not interned: each has a different name */
		snprintf(name, sizeof(name), "%s %llu", rs->name, (unsigned long long)rs->number);
		event_init_text(&e, s, row, "batch", name);
	} else {
		event_init(&e, s, row, "batch", rs->name);
	}
	for (size_t i = 0; i < rs->n_args; i++)
		add_request_arg(&e, &rs->args[i]);
	event_write_span(&e, perfetto_ts(s, rs->start), perfetto_ts(s, rs->end));
}

/* Between instants, like wake-ups. */
static void write_arrow(const struct request_arrow *a, void *arg)
{
	struct perfetto_sink *s = arg;
	uint32_t from = a->lane ? a->lane : perfetto_request_row(s, a->from_row), to = perfetto_request_row(s, a->row);
	struct event e;

	if (!from || !to)
		return;
	event_init(&e, s, from, "batch", a->name);
	event_add_flow(&e, EVENT_FLOW, ++s->flow);
	event_write_instant(&e, perfetto_ts(s, a->from_ns));
	event_init(&e, s, to, "batch", a->name);
	event_add_flow(&e, EVENT_FLOW_END, s->flow);
	event_write_instant(&e, perfetto_ts(s, a->ns));
}

static void write_counter(uint32_t group, enum request_counter counter, uint64_t ns, uint64_t value, void *arg)
{
	event_write_counter(arg, perfetto_request_counter(arg, group, counter), ns, value);
}

static const struct request_tracks_ops ops = {
	.slice = write_slice,
	.arrow = write_arrow,
	.counter = write_counter,
};

int perfetto_requests_new(struct perfetto_sink *s)
{
	return request_tracks_new(&s->rec, &ops, s, &s->requests);
}
