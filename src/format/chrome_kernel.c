// SPDX-License-Identifier: BSD-2-Clause
/* Chrome trace JSON: what the kernel did for a thread, or to it. */
#include "format/chrome.h"
#include "format/derive.h"
#include "util/names.h"

static char *fmt_syscall_name(char *p, const struct rec_hdr *h)
{
	const struct syscall_quoted *name = h->flags & SYSCALL_F_COMPAT ? NULL : syscall_quoted(h->id);

	if (name) {
		memcpy(p, name->text, sizeof(name->text));
		return p + name->len;
	}
	p = h->flags & SYSCALL_F_COMPAT ? fmt_lit(p, "\"compat_") : fmt_lit(p, "\"syscall_");
	p = fmt_u32(p, h->id);
	return fmt_lit(p, "\"");
}

static char *fmt_ipc_args(char *p, const struct rec_hdr *h)
{
	p = fmt_lit(p, "\"syscall\":");
	p = fmt_syscall_name(p, h);
	p = fmt_lit(p, ",\"kind\":");
	p = fmt_string(p, ipc_kind_name(h));
	*p++ = ',';
	return p;
}

struct place chrome_syscall(struct chrome_sink *c, const struct rec_syscall *r)
{
	const char *err = r->ret < 0 && r->ret >= -4095 ? errno_name((int)-r->ret) : NULL;
	bool known = !(r->h.flags & SYSCALL_F_COMPAT);
	const char *ipc = ipc_name(&r->h);
	struct place at;
	char *p;

	at = chrome_place(c, &r->h);
	p = span_begin(c, &r->h, at.pid, at.tid);
	if (ipc) {
		p = fmt_string(p, ipc);
		p = fmt_lit(p, ",\"cat\":\"ipc\",\"args\":{");
		p = fmt_ipc_args(p, &r->h);
	} else {
		p = fmt_syscall_name(p, &r->h);
		p = fmt_lit(p, ",\"cat\":\"syscall\",\"args\":{");
	}
	if (r->h.flags & REC_F_OPEN_END) {
		p = fmt_open(p, r->h.flags, true);
	} else {
		p = fmt_lit(p, "\"ret\":");
		if (err) {
			*p++ = '"';
			p = fmt_str(p, err, strlen(err));
			*p++ = '"';
		} else if ((uint64_t)r->ret > 0xffffffffull && r->ret > 0) {
			/* addresses, and integers that do not fit a double */
			*p++ = '"';
			p = fmt_hex(p, (uint64_t)r->ret);
			*p++ = '"';
		} else {
			p = fmt_s64(p, r->ret);
		}
		p = fmt_u32(fmt_lit(p, ",\"cpu\":"), r->h.cpu);
		p = fmt_open(p, r->h.flags, false);
	}
	if (known && syscall_has_fd(r->h.id)) {
		p = fmt_lit(p, ",\"fd\":");
		p = fmt_s64(p, (int32_t)r->arg0);
	}
	if (known && r->ret > 0 && syscall_ret_is_bytes(r->h.id)) {
		p = fmt_lit(p, ",\"bytes\":");
		p = fmt_s64(p, r->ret);
	}
	if (r->h.flags & SYSCALL_F_BLOCKED && !ipc)
		p = fmt_lit(p, ",\"path\":\"slow\"");
	args_end(c, p, &at);
	return at;
}

struct place chrome_fault(struct chrome_sink *c, const struct rec_fault *r)
{
	struct place at;
	char *p;

	at = chrome_place(c, &r->h);
	p = r->h.flags & FAULT_F_KERNEL ? instant_begin(c, &r->h, &at) : span_begin(c, &r->h, at.pid, at.tid);
	p = r->h.flags & FAULT_F_MAJOR ? fmt_lit(p, "\"page_fault_major\"")
				     : fmt_lit(p, "\"page_fault_minor\"");
	p = fmt_lit(p, ",\"cat\":\"fault\",\"args\":{\"address\":\"");
	p = fmt_hex(p, r->addr);
	*p++ = '"';
	if (!(r->h.flags & REC_F_OPEN_END))
		p = fmt_u32(fmt_lit(p, ",\"cpu\":"), r->h.cpu);
	if (r->h.flags & FAULT_F_KERNEL)
		p = fmt_lit(p, ",\"kernel\":true");
	p = fmt_open(p, r->h.flags, false);
	args_end(c, p, &at);
	return at;
}

static void write_counter(struct chrome_sink *c, const struct rec_hdr *h, const char *name,
	const char *unit, uint64_t value)
{
	char *p = event_begin(c);

	p = fmt_lit(p, "{\"ph\":\"C\"");
	p = fmt_track(p, h->tgid, h->tid);
	p = fmt_lit(p, ",\"ts\":");
	p = fmt_ts(c, p, h->start_ns);
	p = fmt_lit(p, ",\"name\":");
	p = fmt_string(p, name);
	p = fmt_lit(p, ",\"cat\":\"memory\",\"args\":{");
	p = fmt_string(p, unit);
	*p++ = ':';
	p = fmt_u64(p, value);
	*p++ = '}';
	event_end(c, p);
}

void chrome_memory(struct chrome_sink *c, const struct rec_memory *r)
{
	chrome_place(c, &r->h);
	write_counter(c, &r->h, "rss", "bytes", r->rss_bytes);
	write_counter(c, &r->h, "pages_allocated", "pages", r->pages_allocated);
	write_counter(c, &r->h, "pages_freed", "pages", r->pages_freed);
}
