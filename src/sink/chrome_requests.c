// SPDX-License-Identifier: BSD-2-Clause
/* Chrome trace JSON: requests on sockets, on a track of their own. */
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
