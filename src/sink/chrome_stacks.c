// SPDX-License-Identifier: BSD-2-Clause
/*
 * Chrome trace: where a thread waited, as an instant at the beginning of the wait. Its slice was written before, since the
 * stack is only known later. Samples are left out: the array form has no place for them.
 */
#include "sink/chrome.h"
#include "sink/stack_text.h"
#include "util/names.h"

#define REST_MAX (512 + FMT_JSON_STR_MAX(STACK_TEXT_MAX)) /* bytes of an event besides its name and frames */

/* The innermost first. What does not fit is cut at the outer end. */
static char *add_frames(char *p, const char *end, const struct stacks *s, uint32_t stack)
{
	char text[STACK_TEXT_MAX];
	const uint32_t *frames;
	unsigned int n = stacks_get(s, stack, &frames);

	for (unsigned int i = 0; i < n; i++) {
		const struct frame *f = stacks_frame(s, frames[i]);
		size_t len = f ? stack_text(f, text) : 0;

		if (!f)
			continue;
		if (p[-1] != '[')
			*p++ = ',';
		if (FMT_JSON_STR_MAX(len) > (size_t)(end - p))
			return fmt_lit(p, "\"[cut]\"");
		p = fmt_json_str(p, text, len);
	}
	return p;
}

void chrome_stack(struct chrome_sink *c, const struct rec_stack *r)
{
	const struct frame *f = c->rec.stacks ? stack_subject(c->rec.stacks, r->stack) : NULL, *waker;
	char text[STACK_TEXT_MAX], *begin, *p;
	struct rec_hdr h = r->h;
	struct place at;

	if (r->h.id != SAMPLE_OFF_CPU || !f || r->state >= ST_MAX)
		return;
	at = chrome_place(c, &h);
	if (h.start_ns < c->rec.start_boot_ns)
		h.start_ns = c->rec.start_boot_ns;
	begin = p = instant_begin(c, &h, &at);
	p = fmt_json_str(p, text, stack_text_name(f, text));
	p = fmt_lit(p, ",\"cat\":\"stack\",\"args\":{\"state\":");
	p = fmt_string(p, time_state_name((enum time_state)r->state));
	p = fmt_us(fmt_lit(p, ",\"wait_us\":"), r->h.dur_ns);
	waker = c->rec.stacks ? stack_subject(c->rec.stacks, r->waker_stack) : NULL;
	if (waker)
		p = fmt_json_str(fmt_lit(p, ",\"woken_by\":"), text, stack_text_name(waker, text));
	if (r->step)
		p = fmt_u32(fmt_lit(p, ",\"step\":"), r->step - 1);
	p = fmt_lit(p, ",\"stack\":[");
	p = add_frames(p, begin + WRITER_EVENT_MAX - REST_MAX, c->rec.stacks, r->stack);
	*p++ = ']';
	args_end(c, p, &at);
}
