// SPDX-License-Identifier: BSD-2-Clause
/*
 * Perfetto's own format, streamed: a sequence of packets, each written as a whole, in the order in which
 * their records arrived. A reader sorts by time, and tolerates a file whose last packet is torn.
 */
#include "sink/perfetto.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/fmt.h"
#include "util/host_id.h"
#include "util/names.h"
#include "util/version.h"

#define SNAPSHOT_NS UINT64_C(5000000000)

static char *put_clock(char *p, uint32_t id, uint64_t ns)
{
	char *mark;

	p = proto_open(p, 1 /* clocks */, &mark);
	p = proto_u64(p, 1 /* clock_id */, id);
	p = proto_u64(p, 2 /* timestamp */, ns);
	return proto_close(mark, p);
}

static void write_clocks(struct perfetto_sink *s, uint64_t boot, uint64_t mono, uint64_t real)
{
	char *packet, *clocks, *p = packet_begin(s, &packet);

	p = proto_u64(p, PACKET_TIMESTAMP, boot);
	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_FTRACE);
	p = proto_open(p, PACKET_CLOCKS, &clocks);
	p = put_clock(p, CLOCK_OF_BOOTTIME, boot);
	p = put_clock(p, CLOCK_OF_MONOTONIC, mono);
	p = put_clock(p, CLOCK_OF_REALTIME, real);
	p = proto_u64(p, 2 /* primary_trace_clock */, CLOCK_OF_BOOTTIME);
	packet_end(s, packet, proto_close(clocks, p));
	s->clock_ns = boot;
}

static void write_clocks_now(struct perfetto_sink *s)
{
	struct clock_reading now = clock_read();

	write_clocks(s, now.boot_ns, now.mono_ns, now.real_ns);
}

static void write_system(struct perfetto_sink *s)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	char *packet, *system, *mark, *p = packet_begin(s, &packet);
	static const char version[] = "inftrace " INFTRACE_VERSION;
	struct utsname u;

	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_FTRACE);
	p = proto_open(p, PACKET_SYSTEM, &system);
	if (!uname(&u)) {
		/* a reader derives the table of system calls from the machine, the task states from
		 * the release */
		p = proto_open(p, 1 /* utsname */, &mark);
		p = proto_text(p, 1, u.sysname, strlen(u.sysname));
		p = proto_text(p, 2, u.version, strlen(u.version));
		p = proto_text(p, 3, u.release, strlen(u.release));
		p = proto_text(p, 4, u.machine, strlen(u.machine));
		p = proto_close(mark, p);
	}
	p = proto_text(p, 4 /* tracing_service_version */, version, strlen(version));
	if (cpus > 0)
		p = proto_u64(p, 8 /* num_cpus */, (uint64_t)cpus);
	packet_end(s, packet, proto_close(system, p));
}

/* The name of a recording in Perfetto: how it was started. */
static void write_command_line(struct perfetto_sink *s)
{
	char *packet, *config, *p;

	if (!s->rec.command_line)
		return;
	p = packet_begin(s, &packet);
	p = proto_open(p, PACKET_CONFIG, &config);
	p = proto_text(p, 22 /* unique_session_name */, s->rec.command_line, strlen(s->rec.command_line));
	packet_end(s, packet, proto_close(config, p));
}

/* The machine, and what relates its clock to those of other recordings: Perfetto has no fields for them. An instant with the args that the JSON's
 * readings of the clocks have. */
static void write_host(struct perfetto_sink *s)
{
	const struct host_id *h = s->rec.host;
	char shift[24];
	struct event e;

	if (!h || !h->boot_id[0])
		return;
	event_init(&e, s, perfetto_own_row(s), "inftrace", "inftrace_clock");
	event_add_text(&e, "boot_id", h->boot_id, BOOT_ID_LEN);
	if (h->name[0])
		event_add_text(&e, "hostname", h->name, strlen(h->name));
	if (h->shift_ns)
		event_add_text(&e, "boottime_shift_ns", shift, (size_t)(fmt_s64(shift, h->shift_ns) - shift));
	event_write_instant(&e, s->clock_ns);
}

static void write_uuid(struct perfetto_sink *s)
{
	uint64_t id[2] = { s->rec.start_boot_ns, s->rec.start_real_ns };
	char *packet, *uuid, *p = packet_begin(s, &packet);

	if (getrandom(id, sizeof(id), GRND_NONBLOCK) < 0)
		id[1] ^= (uint64_t)getpid() << 32;
	p = proto_open(p, PACKET_UUID, &uuid);
	p = proto_u64(p, 1 /* msb */, id[0]);
	p = proto_u64(p, 2 /* lsb */, id[1]);
	packet_end(s, packet, proto_close(uuid, p));
}

static void perfetto_record(struct sink *sink, const struct rec_hdr *rec, size_t size)
{
	struct perfetto_sink *s = (struct perfetto_sink *)sink;

	switch (rec->kind) {
	case REC_SYSCALL:
		if (rec->flags & SYSCALL_F_COMPAT)
			perfetto_compat_syscall(s, (const struct rec_syscall *)rec);
		else
			perfetto_syscall(s, (const struct rec_syscall *)rec);
		perfetto_ipc(s, (const struct rec_syscall *)rec);
		break;
	case REC_OFF_CPU:
		perfetto_off_cpu(s, (const struct rec_off_cpu *)rec);
		perfetto_waking(s, (const struct rec_off_cpu *)rec);
		break;
	case REC_ON_CPU:
		perfetto_on_cpu(s, (const struct rec_on_cpu *)rec);
		break;
	case REC_FAULT:
		perfetto_fault(s, (const struct rec_fault *)rec);
		break;
	case REC_FUNCTION:
		perfetto_function(s, (const struct rec_function *)rec);
		break;
	case REC_STEP:
		perfetto_step(s, (const struct rec_step *)rec, size);
		break;
	case REC_TASK:
		perfetto_task(s, (const struct rec_task *)rec);
		break;
	case REC_REQUEST:
		perfetto_request(s, (const struct rec_request *)rec);
		break;
	case REC_IRQ:
		perfetto_irq(s, (const struct rec_irq *)rec);
		break;
	case REC_HOLD:
		perfetto_hold(s, (const struct rec_hold *)rec);
		break;
	case REC_PLACED:
		perfetto_placed(s, (const struct rec_placed *)rec);
		break;
	case REC_MEMORY:
		perfetto_memory(s, (const struct rec_memory *)rec);
		break;
	case REC_GPU:
		perfetto_gpu(s, (const struct rec_gpu *)rec);
		break;
	case REC_GPU_STEP:
		perfetto_gpu_step(s, (const struct rec_gpu_step *)rec);
		break;
	case REC_GPU_LOAD:
		perfetto_gpu_load(s, (const struct rec_gpu_load *)rec);
		break;
	case REC_MESSAGE:
		perfetto_message(s, (const struct rec_message *)rec);
		break;
	case REC_STACK:
		perfetto_stack(s, (const struct rec_stack *)rec);
		break;
	}
}

static void perfetto_loss(struct sink *sink, const struct loss *l)
{
	struct perfetto_sink *s = (struct perfetto_sink *)sink;
	uint64_t sched = l->count[REC_ON_CPU] + l->count[REC_OFF_CPU] + l->count[REC_SYSCALL];
	struct event e;

	/* tells readers of the sequence to forget earlier names */
	interns_begin(s, true);
	perfetto_gpus_reset(s->gpus, true);
	perfetto_cpus_lost(s, sched);
	event_init(&e, s, perfetto_own_row(s), "loss", "lost records");
	for (int k = 0; k < REC_KIND_MAX; k++) {
		if (l->count[k])
			event_add(&e, rec_kind_name((enum rec_kind)k), VALUE_UINT, l->count[k]);
	}
	event_write_span(&e, perfetto_ts(s, l->from_ns), l->to_ns);
}

static void perfetto_mark(struct sink *sink, const struct mark *m)
{
	struct perfetto_sink *s = (struct perfetto_sink *)sink;
	struct event e;

	event_init_copy(&e, s, perfetto_own_row(s), "inftrace", m->name);
	event_add(&e, "number", VALUE_UINT, m->number);
	event_add_text(&e, "reason", m->reason, strlen(m->reason));
	event_write_instant(&e, perfetto_ts(s, m->ns));
}

static void perfetto_settled(struct sink *sink)
{
	held_settled((struct perfetto_sink *)sink);
}

static int perfetto_flush(struct sink *sink)
{
	struct perfetto_sink *s = (struct perfetto_sink *)sink;

	perfetto_cpus_flush(s);
	if (clock_ns(CLOCK_BOOTTIME) - s->clock_ns >= SNAPSHOT_NS)
		write_clocks_now(s);
	return writer_flush(s->w);
}

static uint64_t perfetto_bytes(const struct sink *sink)
{
	return writer_bytes(((const struct perfetto_sink *)sink)->w);
}

static void sink_free(struct perfetto_sink *s)
{
	if (!s)
		return;
	irq_names_free(s->irqs);
	request_tracks_free(s->requests);
	interns_free(s->interns);
	held_free(s->held);
	perfetto_stacks_free(s->stacks);
	perfetto_gpus_free(s->gpus);
	perfetto_tracks_reset(s);
	free(s->processes.list);
	free(s->threads);
	free(s->rows);
	free(s);
}

static void write_first_process(struct task *t, void *arg)
{
	struct perfetto_sink *s = arg;

	if (!s->rec.tgid || s->rec.tgid == t->tgid)
		perfetto_process(s, t->tgid);
}

/* After its clocks. */
static void begin_file(struct perfetto_sink *s)
{
	write_uuid(s);
	write_system(s);
	write_command_line(s);
	interns_begin(s, false);
	write_host(s);
	tasks_each_process(s->rec.tasks, write_first_process, s);
}

static void end_file(struct perfetto_sink *s)
{
	held_close(s);
	perfetto_cpus_close(s);
	write_clocks_now(s);
}

static void perfetto_rotate(struct sink *sink, struct writer *w)
{
	struct perfetto_sink *s = (struct perfetto_sink *)sink;

	end_file(s);
	s->w = w;
	interns_reset(s->interns);
	perfetto_tracks_reset(s);
	perfetto_stacks_reset(s->stacks);
	perfetto_gpus_reset(s->gpus, false);
	request_tracks_rotate(s->requests);
	write_clocks_now(s);
	begin_file(s);
}

static size_t perfetto_held(const struct sink *sink)
{
	return held_bytes((const struct perfetto_sink *)sink);
}

static int perfetto_close(struct sink *sink, const struct window_totals *t)
{
	struct perfetto_sink *s = (struct perfetto_sink *)sink;
	int err;

	(void)t;
	request_tracks_finish(s->requests);
	end_file(s);
	err = writer_close(s->w);
	sink_free(s);
	return err;
}

static const struct sink_ops perfetto_ops = {
	.record = perfetto_record,
	.loss = perfetto_loss,
	.mark = perfetto_mark,
	.settled = perfetto_settled,
	.flush = perfetto_flush,
	.rotate = perfetto_rotate,
	.held = perfetto_held,
	.close = perfetto_close,
	.bytes = perfetto_bytes,
};

int perfetto_sink_new(struct writer *w, const struct recording *rec, struct sink **ret_sink)
{
	struct perfetto_sink *s = calloc(1, sizeof(*s));

	if (s)
		s->rec = *rec;
	if (!s || interns_new(&s->interns) || held_new(&s->held) || perfetto_requests_new(s)) {
		sink_free(s);
		writer_close(w);
		return -ENOMEM;
	}
	s->sink.ops = &perfetto_ops;
	s->processes.size = sizeof(struct perfetto_process);
	s->w = w;
	s->deltas_ns = rec->start_boot_ns;
	write_clocks(s, rec->start_boot_ns, rec->start_mono_ns, rec->start_real_ns);
	begin_file(s);
	*ret_sink = &s->sink;
	return 0;
}
