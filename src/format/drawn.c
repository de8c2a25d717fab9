// SPDX-License-Identifier: BSD-2-Clause
#include "format/drawn.h"

#include <stdio.h>
#include <string.h>

#include "format/gpu.h"

static void add(struct drawn *d, const char *name, enum drawn_kind kind, uint64_t v)
{
	d->args[d->n++] = (struct drawn_arg){ .name = name, .kind = kind, .v = v };
}

static void add_text(struct drawn *d, const char *name, const char *text, size_t max)
{
	d->args[d->n++] = (struct drawn_arg){ .name = name, .kind = DRAWN_TEXT, .v = strnlen(text, max), .text = text };
}

static void add_word(struct drawn *d, const char *name, const char *text)
{
	d->args[d->n++] = (struct drawn_arg){ .name = name, .kind = DRAWN_WORD, .v = strlen(text), .text = text };
}

static void begin(struct drawn *d, const char *category, const char *name, enum drawn_as as, uint64_t ns)
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
	static const char *const names[] = {
		[TASK_FORK] = "fork",
		[TASK_EXEC] = "exec",
		[TASK_EXIT] = "exit",
		[TASK_COMM] = "rename",
	};

	if (r->h.id >= sizeof(names) / sizeof(names[0]))
		return false;
	begin(d, "task", names[r->h.id], DRAWN_INSTANT, r->h.start_ns);
	add_text(d, "comm", r->comm, sizeof(r->comm));
	if (r->h.id == TASK_FORK)
		add(d, "parent", DRAWN_NUMBER, r->arg);
	else if (r->h.id == TASK_EXIT)
		add(d, "code", DRAWN_NUMBER, r->arg);
	return true;
}

static void draw_irq(struct drawn *d, const struct rec_irq *r, struct irq_names **irqs)
{
	const char *type, *name = irq_record_name(irqs, r, d->texts[0], &type);

	begin(d, "irq", name, DRAWN_SPAN, 0);
	d->names = DRAWN_NAME_RECURS;
	d->flags = r->h.flags;
	add_word(d, "type", type);
	if (!(r->h.flags & IRQ_F_VECTOR))
		add(d, "number", DRAWN_NUMBER, r->h.id);
	add(d, "cpu", DRAWN_NUMBER, r->h.cpu);
}

static void draw_message(struct drawn *d, const struct rec_message *r)
{
	begin(d, "message", message_name(r), DRAWN_INSTANT, r->h.start_ns + r->h.dur_ns);
	add_word(d, "local", message_address(d->texts[0], r->local, r->local_port));
	add_word(d, "peer", message_address(d->texts[1], r->peer, r->peer_port));
	add(d, "bytes", DRAWN_NUMBER, r->bytes);
	add(d, "position", DRAWN_NUMBER, r->position);
	add(d, "sequence", DRAWN_NUMBER, r->sequence);
	add(d, "call_ns", DRAWN_NUMBER, r->h.dur_ns);
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
		begin(d, "inftrace", "waiting for probes", DRAWN_SPAN, 0);
		if (h->id == HOLD_EXPIRED)
			add(d, "expired", DRAWN_FLAG, 1);
		return true;
	case REC_PLACED: /* an instant at the end of the interval, since several intervals overlap */
		begin(d, "inftrace", "probes placed late", DRAWN_PROCESS_INSTANT, h->start_ns + h->dur_ns);
		add_text(d, "file", placed->file, sizeof(placed->file));
		add(d, "after", DRAWN_TIME, h->dur_ns);
		return true;
	case REC_MESSAGE:
		draw_message(d, (const struct rec_message *)h);
		return true;
	}
	return false;
}

void drawn_memory(struct drawn_counter d[MEMORY_COUNTERS], const struct rec_memory *r)
{
	d[0] = (struct drawn_counter){ "rss", "bytes", r->rss_bytes };
	d[1] = (struct drawn_counter){ "pages_allocated", "pages", r->pages_allocated };
	d[2] = (struct drawn_counter){ "pages_freed", "pages", r->pages_freed };
}

void drawn_request(struct drawn *d, const struct rec_request *r)
{
	begin(d, "requests", request_name(r, d->texts[0]), DRAWN_SPAN, 0);
	d->names = DRAWN_NAME_OF_EACH; /* clients can invent any number of them */
	d->flags = r->h.flags & REC_F_OPEN_END;
	add(d, "thread", DRAWN_NUMBER, r->h.tid);
	add(d, "fd", DRAWN_NUMBER, r->h.id);
	add(d, "bytes_read", DRAWN_NUMBER, r->bytes_read);
	add(d, "bytes_written", DRAWN_NUMBER, r->bytes_written);
	add(d, "chunks", DRAWN_NUMBER, r->chunks);
	if (r->h.flags & REQUEST_F_END_UNSEEN)
		add(d, "end_not_seen", DRAWN_FLAG, 1);
}

void drawn_gpu_step(struct drawn *d, const struct rec_gpu_step *r, const struct gpu_step_device *device)
{
	snprintf(d->texts[0], sizeof(d->texts[0]), "step %u", r->step);
	begin(d, "gpu_step", d->texts[0], DRAWN_SPAN, 0);
	d->names = DRAWN_NAME_OF_EACH;
	add(d, "step", DRAWN_NUMBER, r->step);
	add(d, "pid", DRAWN_NUMBER, r->h.tgid);
	add(d, "kernels", DRAWN_NUMBER, device->kernels);
	add(d, "copies", DRAWN_NUMBER, device->copies);
	for (int i = 0; i < GPU_PART_MAX; i++)
		add(d, gpu_part_name(i), DRAWN_TIME, device->ns[i]);
	add(d, "residual", DRAWN_TIME, r->residual_ns);
}
