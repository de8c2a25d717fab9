// SPDX-License-Identifier: BSD-2-Clause
/* Perfetto trace: the records that become slices, instants and counters on tracks of their own. */
#include "engine/check.h"
#include "engine/rows.h"
#include "engine/spec.h"
#include "sink/counts.h"
#include "sink/ipc.h"
#include "sink/left_out.h"
#include "sink/message.h"
#include "sink/perfetto.h"
#include "util/fmt.h"
#include "util/names.h"

static void add_string(struct event *e, const char *name, const char *text)
{
	event_add_text(e, name, text, strlen(text));
}

static void begin(struct event *e, struct perfetto_sink *s, const struct rec_hdr *h,
	enum track_kind track, const char *category, const char *name)
{
	event_init(e, s, perfetto_row(s, h->tgid, h->tid, track), category, name);
}

/* With a name that may not stay where it is. */
static void begin_copy(struct event *e, struct perfetto_sink *s, const struct rec_hdr *h,
	enum track_kind track, const char *category, const char *name)
{
	event_init_copy(e, s, perfetto_row(s, h->tgid, h->tid, track), category, name);
}

static uint64_t double_bits(uint64_t bits, unsigned int size)
{
	uint32_t half = (uint32_t)bits;
	double d;
	float f;

	if (size != sizeof(f))
		return bits;
	memcpy(&f, &half, sizeof(f));
	d = f;
	memcpy(&bits, &d, sizeof(bits));
	return bits;
}

static void add_value(struct event *e, const struct probe_arg *a, uint64_t v)
{
	if (a->names && v < a->names->n && a->names->names[v])
		event_add_word(e, a->name, a->names->names[v]);
	else if (a->is_pointer)
		event_add(e, a->name, VALUE_POINTER, v);
	else if (a->is_float)
		event_add(e, a->name, VALUE_DOUBLE, double_bits(v, a->size));
	else
		event_add(e, a->name, a->is_signed ? VALUE_INT : VALUE_UINT, v);
}

static void add_args(
	struct event *e, const struct rec_hdr *h, const uint64_t *vals, const char *strs)
{
	const struct recording *rec = &e->s->rec;
	const struct probe_spec *s = &rec->probes->specs[h->id];
	uint64_t bytes;

	for (unsigned int i = 0; i < s->nargs; i++) {
		const struct probe_arg *a = &s->args[i];
		const char *str = strs, *name = NULL;

		strs += a->is_string ? FUNC_STR_LEN : 0;
		if (!check_shown(s, i, vals) ||
			(s->fetch[i].flags & FETCH_F_LATE && h->flags & REC_F_OPEN_END))
			continue;
		if (a->is_handle && rec->handles)
			name = handles_get(rec->handles, h->tgid, vals[i]);
		if (a->is_string)
			event_add_text(e, a->name, str, strnlen(str, FUNC_STR_LEN));
		else if (name)
			add_string(e, a->name, name);
		else
			add_value(e, a, vals[i]);
	}
	if (bytes_of_call(s, vals, &bytes))
		event_add(e, "bytes", VALUE_UINT, bytes);
}

/* n NULL: nothing was counted. */
static void add_counts(struct event *e, const uint64_t *n)
{
	const struct counters *c = &e->s->rec.counters;
	uint64_t ipc, bits;
	double d;

	for (unsigned int i = 0; n && i < PMU_MAX; i++) {
		if (counters_have(c, i))
			event_add(e, counter_name(c->set, i), VALUE_UINT, n[i]);
	}
	if (n && counts_ipc(c, n, &ipc)) {
		d = (double)ipc / 1000;
		memcpy(&bits, &d, sizeof(bits));
		event_add(e, "ipc", VALUE_DOUBLE, bits);
	}
}

void perfetto_function(struct perfetto_sink *s, const struct rec_function *r)
{
	const struct probe_spec *spec;
	enum held_kind kind;
	struct event e;

	if (r->h.id >= s->rec.probes->n)
		return;
	spec = &s->rec.probes->specs[r->h.id];
	begin(&e, s, &r->h, TRACK_CALLS, probe_role_name(spec->role),
		probe_spec_name(spec, r->vals));
	add_args(&e, &r->h, r->vals, probe_record_strings(spec, r));
	add_counts(&e, probe_record_counts(spec, r));
	event_add_open(&e, r->h.flags);
	kind = spec->flags & PROBE_F_BEGIN ? HELD_PAIR
	       : spec->flags & PROBE_F_END ? HELD_END
					   : HELD_PLAIN;
	if (spec->flags & PROBE_F_INSTANT)
		event_write_instant(&e, perfetto_ts(s, r->h.start_ns));
	else
		event_write_record(&e, &r->h, kind);
}

static void add_states(struct event *e, const char *prefix, const uint64_t *ns)
{
	char key[64];

	for (int i = 0; i < ST_MAX; i++) {
		const char *name = time_state_name((enum time_state)i);

		if (!ns[i])
			continue;
		*fmt_str(fmt_str(key, prefix, strlen(prefix)), name, strlen(name)) = 0;
		event_add_copy(e, key, VALUE_UINT, ns[i]);
	}
}

void perfetto_step(struct perfetto_sink *s, const struct rec_step *r, size_t size)
{
	char text[PARTS_TEXT_MAX], off[SHED_TEXT_MAX];
	const struct probe_spec *spec;
	struct event e;
	uint32_t lane;
	size_t len;

	if (r->h.id >= s->rec.probes->n)
		return;
	spec = &s->rec.probes->specs[r->h.id];
	begin(&e, s, &r->h, TRACK_CALLS, "step", probe_spec_name(spec, r->vals));
	add_args(&e, &r->h, r->vals, r->strs[0]);
	if (r->n_parts > 1 && (len = parts_text(r, size, text)))
		event_add_text(&e, "batch", text, len);
	event_add(&e, "step", VALUE_UINT, r->number);
	add_states(&e, "breakdown_ns.", r->ns);
	add_states(&e, "before_ns.", r->before_ns);
	add_counts(&e, r->counted == COUNTED ? r->counts : NULL);
	if (r->lost)
		event_add(&e, "lost_records", VALUE_UINT, r->lost);
	if (spec->stand_in)
		event_add_word(&e, "stand_in", spec->symbol);
	if (r->left_out)
		event_add_word(&e, "left_out", shed_text(r->left_out, off));
	event_add_open(&e, r->h.flags);
	event_write_record(&e, &r->h, spec->flags & PROBE_F_END ? HELD_END : HELD_PLAIN);
	/* if there are more at once than lanes they are only on their threads' tracks */
	lane = perfetto_lane(s, &r->h, TRACK_STEPS);
	event_again(&e, lane);
	event_add(&e, "thread", VALUE_UINT, r->h.tid);
	event_write_span(&e, perfetto_ts(s, r->h.start_ns), r->h.start_ns + r->h.dur_ns);
	request_tracks_step(s->requests, r, lane);
}

void perfetto_fault(struct perfetto_sink *s, const struct rec_fault *r)
{
	struct event e;

	begin(&e, s, &r->h, TRACK_CALLS, "fault",
		r->h.flags & FAULT_F_MAJOR ? "page_fault_major" : "page_fault_minor");
	event_add(&e, "address", VALUE_POINTER, r->addr);
	if (r->h.flags & FAULT_F_KERNEL)
		event_add(&e, "kernel", VALUE_BOOL, 1);
	event_add_open(&e, r->h.flags);
	if (r->h.flags & FAULT_F_KERNEL)
		event_write_instant(&e, perfetto_ts(s, r->h.start_ns));
	else
		event_write_record(&e, &r->h, HELD_PLAIN);
}

void perfetto_irq(struct perfetto_sink *s, const struct rec_irq *r)
{
	char buf[IRQ_NAME_LEN];
	const char *name, *type;
	struct event e;

	name = irq_record_name(&s->irqs, r, buf, &type);
	begin_copy(&e, s, &r->h, TRACK_CALLS, "irq", name);
	event_add_word(&e, "type", type);
	if (!(r->h.flags & IRQ_F_VECTOR))
		event_add(&e, "number", VALUE_UINT, r->h.id);
	event_add(&e, "cpu", VALUE_UINT, r->h.cpu);
	event_add_open(&e, r->h.flags);
	event_write_record(&e, &r->h, HELD_PLAIN);
}

void perfetto_task(struct perfetto_sink *s, const struct rec_task *r)
{
	static const char *const names[] = {
		[TASK_FORK] = "fork",
		[TASK_EXEC] = "exec",
		[TASK_EXIT] = "exit",
		[TASK_COMM] = "rename",
	};
	struct event e;

	if (r->h.id >= sizeof(names) / sizeof(names[0]))
		return;
	begin(&e, s, &r->h, TRACK_CALLS, "task", names[r->h.id]);
	if (r->h.id == TASK_EXIT && e.row)
		s->rows[e.row].waits_ns = 0; /* whatever it was in has been sent */
	event_add_text(&e, "comm", r->comm, strnlen(r->comm, sizeof(r->comm)));
	if (r->h.id == TASK_FORK)
		event_add(&e, "parent", VALUE_UINT, r->arg);
	else if (r->h.id == TASK_EXIT)
		event_add(&e, "code", VALUE_UINT, r->arg);
	event_write_instant(&e, perfetto_ts(s, r->h.start_ns));
}

void perfetto_hold(struct perfetto_sink *s, const struct rec_hold *r)
{
	struct event e;

	begin(&e, s, &r->h, TRACK_CALLS, "inftrace", "waiting for probes");
	if (r->h.id == HOLD_EXPIRED)
		event_add(&e, "expired", VALUE_BOOL, 1);
	event_write_record(&e, &r->h, HELD_PLAIN);
}

void perfetto_message(struct perfetto_sink *s, const struct rec_message *r)
{
	char text[MESSAGE_ADDRESS_MAX];
	struct event e;

	begin(&e, s, &r->h, TRACK_CALLS, "message", message_name(r));
	event_add_word(&e, "local", message_address(text, r->local, r->local_port));
	event_add_word(&e, "peer", message_address(text, r->peer, r->peer_port));
	event_add(&e, "bytes", VALUE_UINT, r->bytes);
	event_add(&e, "position", VALUE_UINT, r->position);
	event_add(&e, "sequence", VALUE_UINT, r->sequence);
	event_add(&e, "call_ns", VALUE_UINT, r->h.dur_ns);
	event_write_instant(&e, perfetto_ts(s, r->h.start_ns + r->h.dur_ns));
}

/* An instant at the end of the interval, since several intervals overlap. */
void perfetto_placed(struct perfetto_sink *s, const struct rec_placed *r)
{
	struct event e;

	begin(&e, s, &r->h, TRACK_CALLS, "inftrace", "probes placed late");
	event_add_text(&e, "file", r->file, strnlen(r->file, sizeof(r->file)));
	event_add(&e, "after_ns", VALUE_UINT, r->h.dur_ns);
	event_write_instant(&e, perfetto_ts(s, r->h.start_ns + r->h.dur_ns));
}

void perfetto_memory(struct perfetto_sink *s, const struct rec_memory *r)
{
	const struct {
		enum track_kind kind;
		uint64_t value;
	} counters[] = {
		{ TRACK_RSS, r->rss_bytes },
		{ TRACK_ALLOCATED, r->pages_allocated },
		{ TRACK_FREED, r->pages_freed },
	};

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		uint32_t row = perfetto_counter(s, r->h.tgid, counters[i].kind);

		event_write_counter(s, row, r->h.start_ns, counters[i].value);
	}
}

/*
 * A flow binds to slices or instants. An instant of the waker shows where it was at the wake-up, perhaps
 * in a system call, which is not one of our slices. And viewers draw a flow from the end of what it
 * leaves to the beginning of what it enters, but the time off CPU begins before the wake-up.
 */
static void write_wake_up(struct perfetto_sink *s, const struct rec_off_cpu *r, uint32_t waker_tgid)
{
	uint64_t end = r->h.start_ns + r->h.dur_ns - 1; /* as in the JSON: it is not running yet */
	struct event e;

	event_init(&e, s, perfetto_row(s, waker_tgid, r->waker_tid, TRACK_CALLS), "sched", "wake-up");
	if (!e.row)
		return;
	event_add_flow(&e, EVENT_FLOW, ++s->flow);
	event_write_instant(&e, perfetto_ts(s, r->wake_ns));
	begin(&e, s, &r->h, TRACK_OFF_CPU, "sched", "wake-up");
	event_add_flow(&e, EVENT_FLOW_END, s->flow);
	event_write_instant(&e, perfetto_ts(s, end > r->wake_ns ? end : r->wake_ns));
}

void perfetto_off_cpu(struct perfetto_sink *s, const struct rec_off_cpu *r)
{
	bool from_irq = r->h.flags & OFF_CPU_F_WAKER_IRQ || !r->waker_tid;
	uint64_t end = r->h.start_ns + r->h.dur_ns;
	uint32_t waker_tgid = 0;
	struct task *waker;
	struct event e;

	begin(&e, s, &r->h, TRACK_OFF_CPU, "sched", off_cpu_name((enum time_state)r->h.id));
	if (!e.row)
		return;
	event_add(&e, "cpu", VALUE_UINT, r->h.cpu);
	event_add(&e, "cpu_before", VALUE_UINT, r->cpu_from);
	if (r->h.flags & OFF_CPU_F_PREEMPT)
		event_add(&e, "preempted", VALUE_BOOL, 1);
	if (r->late)
		event_add(&e, "end_not_seen", VALUE_BOOL, 1);
	if (r->wake_ns)
		event_add(&e, "run_queue_ns", VALUE_UINT, end - off_cpu_runnable_ns(r));
	if (r->wake_ns && from_irq) {
		event_add_word(&e, "waker", "interrupt");
	} else if (r->wake_ns) {
		event_add(&e, "waker_tid", VALUE_UINT, r->waker_tid);
		waker = tasks_get_other(s->rec.tasks, r->waker_tid);
		waker_tgid = waker ? waker->tgid : 0;
		if (waker && waker->comm[0])
			event_add_word(&e, "waker", waker->comm);
	}
	event_add_open(&e, r->h.flags);
	event_write_record(&e, &r->h, HELD_PLAIN);
	if (off_cpu_has_arrow(r, &s->rec, waker_tgid))
		write_wake_up(s, r, waker_tgid);
}

/* Perfetto knows only the names of the 64-bit table. */
void perfetto_compat_syscall(struct perfetto_sink *s, const struct rec_syscall *r)
{
	struct event e;
	char name[32];

	*fmt_u32(fmt_lit(name, "compat_"), r->h.id) = 0;
	begin_copy(&e, s, &r->h, TRACK_CALLS, "syscall", name);
	if (!(r->h.flags & REC_F_OPEN_END))
		event_add(&e, "ret", VALUE_INT, (uint64_t)r->ret);
	event_add_open(&e, r->h.flags);
	event_write_record(&e, &r->h, HELD_PLAIN);
}

void perfetto_ipc(struct perfetto_sink *s, const struct rec_syscall *r)
{
	const char *name = ipc_name(&r->h);
	struct event e;

	if (!name)
		return;
	begin(&e, s, &r->h, TRACK_IPC, "ipc", name);
	event_add_word(&e, "kind", ipc_kind_name(&r->h));
	event_add_open(&e, r->h.flags);
	event_write_record(&e, &r->h, HELD_PLAIN);
}
