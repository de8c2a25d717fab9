// SPDX-License-Identifier: BSD-2-Clause
/*
 * Chrome trace JSON, the array form, streamed: opens in Perfetto and chrome://tracing at
 * every moment. Each event is one line, formatted from integers without stdio.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io/writer.h"
#include "sink/arrows.h"
#include "sink/sink.h"
#include "util/fmt.h"
#include "util/names.h"

/* Pseudo processes: above every real pid (PID_MAX_LIMIT is 4194304). */
#define PID_CPUS 4194305
#define PID_INFTRACE 4194306
/* Pseudo threads of a process for its steps: one more lane for each step that overlaps. */
#define TID_STEPS 4194307
#define STEP_LANES 16

/* struct task.sink_flags */
#define NAMED_THREAD 0x1

#define CPUS_MAX 1024

/* Which processes have their metadata, and where their step lanes end. */
struct process {
	uint32_t tgid;
	char comm[TASK_COMM_LEN]; /* as written */
	unsigned int lanes;
	uint64_t lane_end[STEP_LANES];
};

struct chrome_sink {
	struct sink sink;
	struct writer *w;
	struct recording rec;
	struct process *processes;
	size_t n_processes;
	uint8_t cpu_named[CPUS_MAX];
	uint64_t flow_id;
	bool begun; /* the opening bracket is written */
	bool loss_named;
	struct arrows *arrows;
};

static char *event_begin(struct chrome_sink *c)
{
	char *p = writer_reserve(c->w);

	if (!c->begun) {
		c->begun = true;
		return fmt_lit(p, "[\n");
	}
	return fmt_lit(p, ",\n");
}

static void event_end(struct chrome_sink *c, char *p)
{
	*p++ = '}';
	writer_commit(c->w, p);
}

/* Records from before the start (in flight when the window opened) begin with it. */
static char *fmt_ts(const struct chrome_sink *c, char *p, uint64_t boot_ns)
{
	return fmt_us(p, boot_ns > c->rec.start_boot_ns ? boot_ns - c->rec.start_boot_ns : 0);
}

static char *fmt_string(char *p, const char *s)
{
	return fmt_json_str(p, s, strlen(s));
}

static char *fmt_track(char *p, uint32_t pid, uint32_t tid)
{
	p = fmt_lit(p, ",\"pid\":");
	p = fmt_u32(p, pid);
	p = fmt_lit(p, ",\"tid\":");
	return fmt_u32(p, tid);
}

/* ---- metadata ---- */

static void metadata(struct chrome_sink *c, const char *what, uint32_t pid, uint32_t tid, const char *name)
{
	char *p = event_begin(c);

	p = fmt_lit(p, "{\"ph\":\"M\",\"name\":");
	p = fmt_string(p, what);
	p = fmt_track(p, pid, tid);
	p = fmt_lit(p, ",\"args\":{\"name\":");
	p = fmt_string(p, name);
	*p++ = '}';
	event_end(c, p);
}

static void sort_index(struct chrome_sink *c, const char *what, uint32_t pid, uint32_t tid, int64_t index)
{
	char *p = event_begin(c);

	p = fmt_lit(p, "{\"ph\":\"M\",\"name\":");
	p = fmt_string(p, what);
	p = fmt_track(p, pid, tid);
	p = fmt_lit(p, ",\"args\":{\"sort_index\":");
	p = fmt_s64(p, index);
	*p++ = '}';
	event_end(c, p);
}

static void name_pseudo_process(struct chrome_sink *c, uint32_t pid, const char *name, int64_t index)
{
	metadata(c, "process_name", pid, 0, name);
	sort_index(c, "process_sort_index", pid, 0, index);
}

static struct process *process_get(struct chrome_sink *c, uint32_t tgid)
{
	struct process *list;
	struct task *t;

	for (size_t i = 0; i < c->n_processes; i++) {
		if (c->processes[i].tgid == tgid)
			return &c->processes[i];
	}
	list = realloc(c->processes, (c->n_processes + 1) * sizeof(*list));
	if (!list)
		return NULL;
	c->processes = list;
	list[c->n_processes] = (struct process){ .tgid = tgid };
	t = tasks_get(c->rec.tasks, tgid, tgid);
	metadata(c, "process_name", tgid, tgid, t && t->comm[0] ? t->comm : "?");
	sort_index(c, "process_sort_index", tgid, tgid, tgid);
	if (t)
		memcpy(list[c->n_processes].comm, t->comm, TASK_COMM_LEN);
	return &list[c->n_processes++];
}

/* Writes a thread's name before its first event, and again after it has changed. */
static struct task *thread_get(struct chrome_sink *c, uint32_t tgid, uint32_t tid)
{
	struct task *t = tasks_get(c->rec.tasks, tgid, tid);
	struct process *pr;

	if (!t || t->sink_flags & NAMED_THREAD)
		return t;
	pr = process_get(c, tgid);
	/* which may have made the table grow */
	t = tasks_get(c->rec.tasks, tgid, tid);
	if (!t)
		return NULL;
	if (pr && tid == tgid && strcmp(pr->comm, t->comm)) {
		metadata(c, "process_name", tgid, tgid, t->comm);
		memcpy(pr->comm, t->comm, TASK_COMM_LEN);
	}
	metadata(c, "thread_name", tgid, tid, t->comm[0] ? t->comm : "?");
	t->sink_flags |= NAMED_THREAD;
	return t;
}

static void cpu_get(struct chrome_sink *c, uint32_t cpu)
{
	char name[32], *p;

	if (cpu >= CPUS_MAX || c->cpu_named[cpu])
		return;
	if (!memchr(c->cpu_named, 1, sizeof(c->cpu_named)))
		name_pseudo_process(c, PID_CPUS, "CPUs", -2);
	c->cpu_named[cpu] = 1;
	p = fmt_u32(fmt_lit(name, "CPU "), cpu);
	*p = 0;
	metadata(c, "thread_name", PID_CPUS, cpu, name);
	sort_index(c, "thread_sort_index", PID_CPUS, cpu, cpu);
}

static char *fmt_clock(char *p, const char *name, uint64_t ns)
{
	p = fmt_string(p, name);
	p = fmt_lit(p, ":\"");
	p = fmt_u64(p, ns);
	return fmt_lit(p, "\"");
}

static void clock_instant(struct chrome_sink *c, uint64_t boot, uint64_t mono, uint64_t real)
{
	char *p = event_begin(c);

	p = fmt_lit(p, "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"inftrace_clock\",\"cat\":\"inftrace\"");
	p = fmt_track(p, PID_INFTRACE, PID_INFTRACE);
	p = fmt_lit(p, ",\"ts\":");
	p = fmt_ts(c, p, boot);
	p = fmt_lit(p, ",\"args\":{");
	p = fmt_clock(p, "boottime_ns", boot);
	*p++ = ',';
	p = fmt_clock(p, "monotonic_ns", mono);
	*p++ = ',';
	p = fmt_clock(p, "realtime_ns", real);
	*p++ = '}';
	event_end(c, p);
}

/* ---- spans ---- */

/* Up to and including the name; the caller adds cat and args. */
static char *span_begin(struct chrome_sink *c, const struct rec_hdr *h, uint32_t pid, uint32_t tid)
{
	char *p = event_begin(c);
	uint64_t start = h->start_ns, end = h->start_ns + h->dur_ns;

	if (start < c->rec.start_boot_ns)
		start = c->rec.start_boot_ns;
	p = fmt_lit(p, "{\"ph\":\"X\"");
	p = fmt_track(p, pid, tid);
	p = fmt_lit(p, ",\"ts\":");
	p = fmt_us(p, start - c->rec.start_boot_ns);
	p = fmt_lit(p, ",\"dur\":");
	p = fmt_us(p, end > start ? end - start : 0);
	return fmt_lit(p, ",\"name\":");
}

/* Marks of spans that were cut; writes a separator first when `first` is false. */
static char *fmt_open(char *p, uint8_t flags, bool first)
{
	if (flags & REC_F_OPEN_START) {
		if (!first)
			*p++ = ',';
		p = fmt_lit(p, "\"began_before\":true");
		first = false;
	}
	if (flags & REC_F_OPEN_END) {
		if (!first)
			*p++ = ',';
		p = fmt_lit(p, "\"unfinished\":true");
	}
	return p;
}

static char *fmt_syscall_name(char *p, const struct rec_hdr *h)
{
	const char *name = h->flags & REC_F_COMPAT ? NULL : syscall_name(h->id);

	if (name)
		return fmt_lit(fmt_str(fmt_lit(p, "\""), name, strlen(name)), "\"");
	p = h->flags & REC_F_COMPAT ? fmt_lit(p, "\"compat_") : fmt_lit(p, "\"syscall_");
	p = fmt_u32(p, h->id);
	return fmt_lit(p, "\"");
}

/* ---- wake-ups ---- */

static void write_arrow(struct chrome_sink *c, const struct arrow *a)
{
	uint64_t id = ++c->flow_id;
	char *p = event_begin(c);

	p = fmt_lit(p, "{\"ph\":\"s\",\"id\":");
	p = fmt_u64(p, id);
	p = fmt_track(p, a->waker_tgid, a->waker_tid);
	p = fmt_lit(p, ",\"ts\":");
	p = fmt_ts(c, p, a->wake_ns);
	p = fmt_lit(p, ",\"name\":\"wake-up\",\"cat\":\"sched\"");
	event_end(c, p);

	p = event_begin(c);
	p = fmt_lit(p, "{\"ph\":\"f\",\"bp\":\"e\",\"id\":");
	p = fmt_u64(p, id);
	p = fmt_track(p, a->tgid, a->tid);
	p = fmt_lit(p, ",\"ts\":");
	p = fmt_ts(c, p, a->end_ns);
	p = fmt_lit(p, ",\"name\":\"wake-up\",\"cat\":\"sched\"");
	event_end(c, p);
}

/* After a slice was written: the arrows that begin in it. */
static void write_arrows(struct chrome_sink *c, const struct rec_hdr *h)
{
	struct arrow a;

	if (!(h->flags & REC_F_WOKE))
		return;
	arrows_add_slice(c->arrows, h->tid, h->start_ns);
	while (arrows_take(c->arrows, h->tid, h->start_ns, &a))
		write_arrow(c, &a);
}

/* From the waker's thread at the wake-up to the woken thread when it runs: its last nanosecond off
 * the CPU, since an arrow must end inside a slice. */
static void make_arrow(struct chrome_sink *c, const struct rec_off_cpu *r, uint32_t waker_tgid)
{
	struct arrow a = {
		.waker_tgid = waker_tgid,
		.waker_tid = r->waker_tid,
		.tgid = r->h.tgid,
		.tid = r->h.tid,
		.slice_ns = r->waker_slice,
		.wake_ns = r->wake_ns,
		.end_ns = r->h.start_ns + r->h.dur_ns - 1,
	};

	if (a.end_ns < a.wake_ns)
		a.end_ns = a.wake_ns;
	if (arrows_add(c->arrows, &a))
		write_arrow(c, &a);
}

/* ---- records ---- */

static void write_syscall(struct chrome_sink *c, const struct rec_syscall *r)
{
	const char *err = r->ret < 0 && r->ret >= -4095 ? errno_name((int)-r->ret) : NULL;
	bool known = !(r->h.flags & REC_F_COMPAT);
	char *p;

	thread_get(c, r->h.tgid, r->h.tid);
	p = span_begin(c, &r->h, r->h.tgid, r->h.tid);
	p = fmt_syscall_name(p, &r->h);
	p = fmt_lit(p, ",\"cat\":\"syscall\",\"args\":{");
	if (r->h.flags & REC_F_OPEN_END) {
		p = fmt_open(p, r->h.flags, true);
	} else {
		p = fmt_lit(p, "\"ret\":");
		if (err) {
			*p++ = '"';
			p = fmt_str(p, err, strlen(err));
			*p++ = '"';
		} else if ((uint64_t)r->ret > 0xffffffffull && r->ret > 0) {
			/* addresses, and integers that a double cannot hold */
			*p++ = '"';
			p = fmt_hex(p, (uint64_t)r->ret);
			*p++ = '"';
		} else {
			p = fmt_s64(p, r->ret);
		}
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
	if (r->h.flags & REC_F_BLOCKED)
		p = fmt_lit(p, ",\"path\":\"slow\"");
	*p++ = '}';
	event_end(c, p);
}


static void write_off_cpu(struct chrome_sink *c, const struct rec_off_cpu *r)
{
	const char *name = off_cpu_name((enum time_state)r->h.id);
	uint64_t end = r->h.start_ns + r->h.dur_ns;
	bool from_irq = r->h.flags & REC_F_WAKER_IRQ || !r->waker_tid;
	struct task *waker = NULL;
	char *p;

	thread_get(c, r->h.tgid, r->h.tid);
	if (r->wake_ns && !from_irq)
		waker = tasks_get_other(c->rec.tasks, r->waker_tid);
	p = span_begin(c, &r->h, r->h.tgid, r->h.tid);
	p = fmt_string(p, name);
	p = fmt_lit(p, ",\"cat\":\"sched\",\"args\":{\"cpu\":");
	p = fmt_u32(p, r->h.cpu);
	p = fmt_lit(p, ",\"cpu_before\":");
	p = fmt_u32(p, r->cpu_from);
	if (r->h.flags & REC_F_PREEMPT)
		p = fmt_lit(p, ",\"preempted\":true");
	if (r->late)
		p = fmt_lit(p, ",\"end_not_seen\":true");
	if (r->wake_ns) {
		p = fmt_lit(p, ",\"run_queue_us\":");
		p = fmt_us(p, end - r->wake_ns);
	}
	if (r->wake_ns && from_irq) {
		p = fmt_lit(p, ",\"waker\":\"interrupt\"");
	} else if (r->wake_ns) {
		p = fmt_lit(p, ",\"waker_tid\":");
		p = fmt_u32(p, r->waker_tid);
		if (waker && waker->comm[0]) {
			p = fmt_lit(p, ",\"waker\":");
			p = fmt_string(p, waker->comm);
		}
	}
	p = fmt_open(p, r->h.flags, false);
	*p++ = '}';
	event_end(c, p);
	if (waker && r->waker_slice && r->h.dur_ns && !(r->h.flags & REC_F_OPEN_END))
		make_arrow(c, r, waker->tgid);
}

static void write_on_cpu(struct chrome_sink *c, const struct rec_on_cpu *r)
{
	struct task *t = tasks_get(c->rec.tasks, r->h.tgid, r->h.tid);
	char *p;

	cpu_get(c, r->h.cpu);
	p = span_begin(c, &r->h, PID_CPUS, r->h.cpu);
	p = fmt_string(p, t && t->comm[0] ? t->comm : "?");
	p = fmt_lit(p, ",\"cat\":\"cpu\",\"args\":{\"pid\":");
	p = fmt_u32(p, r->h.tgid);
	p = fmt_lit(p, ",\"tid\":");
	p = fmt_u32(p, r->h.tid);
	p = fmt_open(p, r->h.flags, false);
	*p++ = '}';
	event_end(c, p);
}

static void write_fault(struct chrome_sink *c, const struct rec_fault *r)
{
	char *p;

	thread_get(c, r->h.tgid, r->h.tid);
	if (r->h.flags & REC_F_KERNEL) {
		p = event_begin(c);
		p = fmt_lit(p, "{\"ph\":\"i\",\"s\":\"t\"");
		p = fmt_track(p, r->h.tgid, r->h.tid);
		p = fmt_lit(p, ",\"ts\":");
		p = fmt_ts(c, p, r->h.start_ns);
		p = fmt_lit(p, ",\"name\":");
	} else {
		p = span_begin(c, &r->h, r->h.tgid, r->h.tid);
	}
	p = r->h.flags & REC_F_MAJOR ? fmt_lit(p, "\"page_fault_major\"") : fmt_lit(p, "\"page_fault_minor\"");
	p = fmt_lit(p, ",\"cat\":\"fault\",\"args\":{\"address\":\"");
	p = fmt_hex(p, r->addr);
	*p++ = '"';
	if (r->h.flags & REC_F_KERNEL)
		p = fmt_lit(p, ",\"kernel\":true");
	p = fmt_open(p, r->h.flags, false);
	*p++ = '}';
	event_end(c, p);
}

static char *fmt_value(char *p, const struct probe_arg *a, uint64_t v)
{
	if (a->names && v < a->names->n && a->names->names[v])
		return fmt_string(p, a->names->names[v]);
	if (a->is_pointer) {
		*p++ = '"';
		p = fmt_hex(p, v);
		*p++ = '"';
		return p;
	}
	if (a->is_signed)
		return fmt_s64(p, (int64_t)v);
	if (v <= INT64_MAX)
		return fmt_u64(p, v);
	*p++ = '"'; /* larger than a JSON reader's integers */
	p = fmt_u64(p, v);
	*p++ = '"';
	return p;
}

static char *fmt_args(
	char *p, const struct probe_spec *s, const uint64_t *vals, const char *strs, bool *first)
{
	for (size_t i = 0; i < s->nargs; i++) {
		const struct probe_arg *a = &s->args[i];

		if (!*first)
			*p++ = ',';
		*first = false;
		p = fmt_string(p, a->name);
		*p++ = ':';
		if (!a->is_string) {
			p = fmt_value(p, a, vals[i]);
			continue;
		}
		p = fmt_json_str(p, strs, strnlen(strs, FUNC_STR_LEN));
		strs += FUNC_STR_LEN;
	}
	return p;
}

static void write_function(struct chrome_sink *c, const struct rec_function *r)
{
	const struct probe_spec *s;
	bool first = true;
	char *p;

	if (r->h.id >= c->rec.probes->n)
		return;
	s = &c->rec.probes->specs[r->h.id];
	thread_get(c, r->h.tgid, r->h.tid);
	if (s->flags & PROBE_F_INSTANT) {
		p = event_begin(c);
		p = fmt_lit(p, "{\"ph\":\"i\",\"s\":\"t\"");
		p = fmt_track(p, r->h.tgid, r->h.tid);
		p = fmt_lit(p, ",\"ts\":");
		p = fmt_ts(c, p, r->h.start_ns);
		p = fmt_lit(p, ",\"name\":");
	} else {
		p = span_begin(c, &r->h, r->h.tgid, r->h.tid);
	}
	p = fmt_string(p, probe_spec_name(s, r->vals));
	p = fmt_lit(p, ",\"cat\":");
	p = fmt_string(p, probe_role_name(s->role));
	p = fmt_lit(p, ",\"args\":{");
	p = fmt_args(p, s, r->vals, probe_record_strings(s, r), &first);
	p = fmt_open(p, r->h.flags, first);
	*p++ = '}';
	event_end(c, p);
}

static void write_step_span(struct chrome_sink *c, const struct rec_step *r, uint32_t tid, bool own_track)
{
	const struct probe_spec *s = &c->rec.probes->specs[r->h.id];
	bool first = true;
	char *p;

	p = span_begin(c, &r->h, r->h.tgid, tid);
	p = fmt_string(p, probe_spec_name(s, r->vals));
	p = own_track ? fmt_lit(p, ",\"cat\":\"steps\",\"args\":{") : fmt_lit(p, ",\"cat\":\"step\",\"args\":{");
	p = fmt_args(p, s, r->vals, r->strs[0], &first);
	if (!first)
		*p++ = ',';
	p = fmt_lit(p, "\"step\":");
	p = fmt_u32(p, r->number);
	if (own_track) {
		p = fmt_lit(p, ",\"thread\":");
		p = fmt_u32(p, r->h.tid);
	}
	p = fmt_lit(p, ",\"breakdown_us\":{");
	first = true;
	for (int i = 0; i < ST_MAX; i++) {
		const char *name = time_state_name((enum time_state)i);

		if (!r->ns[i])
			continue;
		if (!first)
			*p++ = ',';
		p = fmt_string(p, name);
		*p++ = ':';
		p = fmt_us(p, r->ns[i]);
		first = false;
	}
	*p++ = '}';
	if (r->lost) {
		p = fmt_lit(p, ",\"lost_records\":");
		p = fmt_u32(p, r->lost);
	}
	p = fmt_open(p, r->h.flags, false);
	*p++ = '}';
	event_end(c, p);
}

/* The first lane on which the step overlaps with no other; steps arrive in the order of their ends. */
static int step_lane(struct process *pr, const struct rec_hdr *h)
{
	for (unsigned int i = 0; i < STEP_LANES; i++) {
		if (i >= pr->lanes || pr->lane_end[i] <= h->start_ns) {
			pr->lane_end[i] = h->start_ns + h->dur_ns;
			return (int)i;
		}
	}
	return -1;
}

static void write_step(struct chrome_sink *c, const struct rec_step *r)
{
	struct process *pr;
	uint32_t tid;
	int lane;

	if (r->h.id >= c->rec.probes->n)
		return;
	thread_get(c, r->h.tgid, r->h.tid);
	write_step_span(c, r, r->h.tid, false);
	pr = process_get(c, r->h.tgid);
	lane = pr ? step_lane(pr, &r->h) : -1;
	if (lane < 0)
		return; /* more at once than lanes: they are on their threads' tracks all the same */
	tid = TID_STEPS + (uint32_t)lane;
	if ((unsigned int)lane >= pr->lanes) {
		pr->lanes = (unsigned int)lane + 1;
		metadata(c, "thread_name", r->h.tgid, tid, "steps");
		sort_index(c, "thread_sort_index", r->h.tgid, tid, -2);
	}
	write_step_span(c, r, tid, true);
}

static void write_task(struct chrome_sink *c, const struct rec_task *r)
{
	static const char *const names[] = {
		[TASK_FORK] = "fork",
		[TASK_EXEC] = "exec",
		[TASK_EXIT] = "exit",
		[TASK_COMM] = "rename",
	};
	char *p;

	if (r->h.id >= sizeof(names) / sizeof(names[0]))
		return;
	thread_get(c, r->h.tgid, r->h.tid);
	p = event_begin(c);
	p = fmt_lit(p, "{\"ph\":\"i\",\"s\":\"t\"");
	p = fmt_track(p, r->h.tgid, r->h.tid);
	p = fmt_lit(p, ",\"ts\":");
	p = fmt_ts(c, p, r->h.start_ns);
	p = fmt_lit(p, ",\"name\":");
	p = fmt_string(p, names[r->h.id]);
	p = fmt_lit(p, ",\"cat\":\"task\",\"args\":{\"comm\":");
	p = fmt_json_str(p, r->comm, strnlen(r->comm, sizeof(r->comm)));
	if (r->h.id == TASK_FORK) {
		p = fmt_lit(p, ",\"parent\":");
		p = fmt_u32(p, r->arg);
	} else if (r->h.id == TASK_EXIT) {
		p = fmt_lit(p, ",\"code\":");
		p = fmt_u32(p, r->arg);
	}
	*p++ = '}';
	event_end(c, p);
}

static void chrome_record(struct sink *s, const struct rec_hdr *rec)
{
	struct chrome_sink *c = (struct chrome_sink *)s;

	switch (rec->kind) {
	case REC_SYSCALL:
		write_syscall(c, (const struct rec_syscall *)rec);
		write_arrows(c, rec);
		break;
	case REC_OFF_CPU:
		write_off_cpu(c, (const struct rec_off_cpu *)rec);
		break;
	case REC_ON_CPU:
		write_on_cpu(c, (const struct rec_on_cpu *)rec);
		break;
	case REC_FAULT:
		write_fault(c, (const struct rec_fault *)rec);
		write_arrows(c, rec);
		break;
	case REC_FUNCTION:
		write_function(c, (const struct rec_function *)rec);
		write_arrows(c, rec);
		break;
	case REC_STEP:
		write_step(c, (const struct rec_step *)rec);
		write_arrows(c, rec);
		break;
	case REC_TASK:
		write_task(c, (const struct rec_task *)rec);
		break;
	}
}

static void chrome_loss(struct sink *s, const struct loss *l)
{
	struct chrome_sink *c = (struct chrome_sink *)s;
	struct rec_hdr h = { .start_ns = l->from_ns, .dur_ns = l->to_ns - l->from_ns };
	bool first = true;
	char *p;

	if (!c->loss_named)
		metadata(c, "thread_name", PID_INFTRACE, PID_INFTRACE, "inftrace");
	c->loss_named = true;
	p = span_begin(c, &h, PID_INFTRACE, PID_INFTRACE);
	p = fmt_lit(p, "\"lost records\",\"cat\":\"loss\",\"args\":{");
	for (int k = 0; k < REC_KIND_MAX; k++) {
		if (!l->count[k])
			continue;
		if (!first)
			*p++ = ',';
		p = fmt_string(p, rec_kind_name((enum rec_kind)k));
		*p++ = ':';
		p = fmt_u64(p, l->count[k]);
		first = false;
	}
	*p++ = '}';
	event_end(c, p);
}

static int chrome_flush(struct sink *s)
{
	return writer_flush(((struct chrome_sink *)s)->w);
}

static uint64_t chrome_bytes(const struct sink *s)
{
	return writer_bytes(((const struct chrome_sink *)s)->w);
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void chrome_free(struct chrome_sink *c)
{
	arrows_free(c->arrows);
	free(c->processes);
	free(c);
}

static int chrome_close(struct sink *s, const struct window_totals *t)
{
	struct chrome_sink *c = (struct chrome_sink *)s;
	char *p;
	int err;

	(void)t;
	clock_instant(c, clock_ns(CLOCK_BOOTTIME), clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_REALTIME));
	p = writer_reserve(c->w);
	p = fmt_lit(p, "\n]\n");
	writer_commit(c->w, p);
	err = writer_close(c->w);
	chrome_free(c);
	return err;
}

static const struct sink_ops chrome_ops = {
	.record = chrome_record,
	.loss = chrome_loss,
	.flush = chrome_flush,
	.close = chrome_close,
	.bytes = chrome_bytes,
};

static void write_first_process(struct task *t, void *arg)
{
	process_get(arg, t->tgid);
}

int chrome_sink_new(struct writer *w, const struct recording *rec, struct sink **ret_sink)
{
	struct chrome_sink *c = calloc(1, sizeof(*c));

	if (!c || arrows_new(&c->arrows)) {
		free(c);
		writer_close(w);
		return -ENOMEM;
	}
	c->sink.ops = &chrome_ops;
	c->w = w;
	c->rec = *rec;
	tasks_each_process(rec->tasks, write_first_process, c);
	name_pseudo_process(c, PID_INFTRACE, "inftrace", -1);
	clock_instant(c, rec->start_boot_ns, rec->start_mono_ns, rec->start_real_ns);
	*ret_sink = &c->sink;
	return 0;
}
