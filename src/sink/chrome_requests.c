// SPDX-License-Identifier: BSD-2-Clause
/* Chrome trace JSON: requests on sockets, on a track of their own, and those of batches, in a process of their own. */
#include "sink/chrome.h"
#include "sink/request.h"

void chrome_request(struct chrome_sink *c, const struct rec_request *r)
{
	struct rec_hdr first = r->h;
	char buf[REQUEST_NAME_LEN];
	uint32_t tid;
	char *p;

	chrome_place(c, &r->h);
	tid = chrome_lane(c, &r->h, LANES_REQUESTS);
	if (!tid)
		return;
	p = span_begin(c, &r->h, r->h.tgid, tid);
	p = fmt_string(p, request_name(r, buf));
	p = fmt_lit(p, ",\"cat\":\"requests\",\"args\":{\"thread\":");
	p = fmt_u32(p, r->h.tid);
	p = fmt_lit(p, ",\"fd\":");
	p = fmt_u32(p, r->h.id);
	p = fmt_lit(p, ",\"bytes_read\":");
	p = fmt_u64(p, r->bytes_read);
	p = fmt_lit(p, ",\"bytes_written\":");
	p = fmt_u64(p, r->bytes_written);
	p = fmt_lit(p, ",\"chunks\":");
	p = fmt_u32(p, r->chunks);
	if (r->h.flags & REQUEST_F_END_UNSEEN)
		p = fmt_lit(p, ",\"end_not_seen\":true");
	p = fmt_open(p, r->h.flags & REC_F_OPEN_END, false);
	*p++ = '}';
	event_end(c, p);
	if (!r->first_chunk_ns)
		return;
	first.dur_ns = r->first_chunk_ns - r->h.start_ns;
	p = span_begin(c, &first, r->h.tgid, tid);
	p = fmt_lit(p, "\"ttft\",\"cat\":\"requests\"");
	event_end(c, p);
}

/* ---- the process `requests` ---- */

static uint32_t row_tid(uint32_t row)
{
	return REQUESTS_PID + 1 + row;
}

static void name_requests(struct chrome_sink *c)
{
	if (!c->requests_named)
		chrome_name_process(c, REQUESTS_PID, REQUESTS_NAME, 0);
	c->requests_named = true;
}

static void name_row(struct chrome_sink *c, uint32_t row)
{
	uint32_t *id = request_tracks_row_id(c->requests, row);
	char name[REQUEST_NAME_MAX];
	int64_t rank;

	if (*id)
		return;
	*id = 1;
	name_requests(c);
	request_tracks_row_name(c->requests, row, name, &rank);
	chrome_name_track(c, REQUESTS_PID, row_tid(row), name, rank);
}

static char *fmt_number(char *p, uint64_t v)
{
	if (v <= INT64_MAX)
		return fmt_u64(p, v);
	*p++ = '"'; /* too large for the integers of JSON readers */
	p = fmt_u64(p, v);
	*p++ = '"';
	return p;
}

static char *fmt_request_arg(char *p, const struct request_arg *a)
{
	*p++ = '"';
	p = fmt_str(p, a->name, strlen(a->name));
	switch (a->kind) {
	case REQUEST_ARG_NUMBER:
		return fmt_number(fmt_lit(p, "\":"), a->v);
	case REQUEST_ARG_POINTER:
		return fmt_lit(fmt_hex(fmt_lit(p, "\":\""), a->v), "\"");
	case REQUEST_ARG_TIME:
		return fmt_us(fmt_lit(p, "_us\":"), a->v);
	case REQUEST_ARG_FLAG:
		break;
	}
	return fmt_lit(p, "\":true");
}

static void write_request_slice(const struct request_slice *s, void *arg)
{
	const struct rec_hdr h = { .start_ns = s->start, .dur_ns = s->end - s->start };
	struct chrome_sink *c = arg;
	char *p;

	name_row(c, s->row);
	p = span_begin(c, &h, REQUESTS_PID, row_tid(s->row));
	*p++ = '"';
	p = fmt_str(p, s->name, strlen(s->name));
	if (s->numbered)
		p = fmt_u64(fmt_lit(p, " "), s->number);
	p = fmt_lit(p, "\",\"cat\":\"batch\",\"args\":{");
	for (size_t i = 0; i < s->n_args; i++) {
		if (i)
			*p++ = ',';
		p = fmt_request_arg(p, &s->args[i]);
	}
	*p++ = '}';
	event_end(c, p);
}

static char *arrow_end(struct chrome_sink *c, char *p, uint32_t pid, uint32_t tid, uint64_t ns, const char *name)
{
	p = fmt_u64(p, c->flow_id);
	p = fmt_track(p, pid, tid);
	p = fmt_ts(c, fmt_lit(p, ",\"ts\":"), ns);
	p = fmt_string(fmt_lit(p, ",\"name\":"), name);
	return fmt_lit(p, ",\"cat\":\"batch\"");
}

static void write_request_arrow(const struct request_arrow *a, void *arg)
{
	struct chrome_sink *c = arg;
	uint32_t pid = a->lane ? a->tgid : REQUESTS_PID, tid = a->lane ? a->lane : row_tid(a->from_row);

	c->flow_id++;
	event_end(c, arrow_end(c, fmt_lit(event_begin(c), "{\"ph\":\"s\",\"id\":"), pid, tid, a->from_ns, a->name));
	event_end(c, arrow_end(c, fmt_lit(event_begin(c), "{\"ph\":\"f\",\"bp\":\"e\",\"id\":"), REQUESTS_PID,
			     row_tid(a->row), a->ns, a->name));
}

static void write_request_counter(
	uint32_t group, enum request_counter counter, uint64_t ns, uint64_t value, void *arg)
{
	struct chrome_sink *c = arg;
	char name[REQUEST_NAME_MAX], *p;
	const char *unit;

	name_requests(c);
	request_tracks_counter_name(c->requests, group, counter, name, &unit);
	p = fmt_lit(event_begin(c), "{\"ph\":\"C\"");
	p = fmt_track(p, REQUESTS_PID, REQUESTS_PID);
	p = fmt_ts(c, fmt_lit(p, ",\"ts\":"), ns);
	p = fmt_string(fmt_lit(p, ",\"name\":"), name);
	p = fmt_string(fmt_lit(p, ",\"cat\":\"batch\",\"args\":{"), unit);
	*p++ = ':';
	p = fmt_number(p, value);
	*p++ = '}';
	event_end(c, p);
}

static const struct request_tracks_ops ops = {
	.slice = write_request_slice,
	.arrow = write_request_arrow,
	.counter = write_request_counter,
};

int chrome_requests_new(struct chrome_sink *c)
{
	return request_tracks_new(&c->rec, &ops, c, &c->requests);
}
