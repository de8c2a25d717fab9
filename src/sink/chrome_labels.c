// SPDX-License-Identifier: BSD-2-Clause
#include "sink/chrome.h"

void chrome_label_process(struct chrome_sink *c, uint32_t pid)
{
	const struct container *in = tasks_container(c->rec.tasks, pid);
	char text[CONTAINER_TEXT_MAX], *p;

	if (!in)
		return;
	p = event_begin(c);
	p = fmt_lit(p, "{\"ph\":\"M\",\"name\":\"process_labels\"");
	p = fmt_track(p, pid, pid);
	p = fmt_lit(p, ",\"args\":{\"labels\":");
	p = fmt_string(p, container_text(in, text));
	*p++ = '}';
	event_end(c, p);
}
