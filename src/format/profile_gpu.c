// SPDX-License-Identifier: BSD-2-Clause
/* What the GPU did in a step, in the line of the step; and which GPUs there were. */
#include "format/profile_line.h"

#include <stdio.h>

#include "format/derive.h"
#include "format/stack_text.h"
#include "util/names.h"

#define GAP_MIN_NS 1000 /* shorter ones, if they are the longest, are not worth a cause */

void profile_gpu_keep(struct profile_gpu_step *s, const struct rec_step *r)
{
	s->tid = r->h.tid;
	s->is_whole = !r->lost && !(r->left_out & (1u << SHED_SYSCALLS | 1u << SHED_TIMELINE));
	s->stall = r->stall;
}

static char *add_by(char *p, const char *prefix, const char *by, size_t max, uint32_t tid)
{
	p = profile_add_key(p, prefix, "_by");
	p = fmt_json_str(p, by, strnlen(by, max));
	return fmt_u64(profile_add_key(p, prefix, "_by_tid"), tid);
}

/* The step's longest stall names who was in the way, if it is what the gap was for. */
static char *add_runner(char *p, const char *prefix, const struct profile_gpu_step *s, const struct gpu_gap *g, uint64_t ns)
{
	const struct stall *st = &s->stall;
	uint64_t from = st->start_ns > g->start_ns ? st->start_ns : g->start_ns;
	uint64_t to = st->start_ns + st->dur_ns < g->start_ns + g->dur_ns ? st->start_ns + st->dur_ns : g->start_ns + g->dur_ns;

	if (g->tid != s->tid || st->state != ST_RUNNABLE || st->flags & STALL_F_UNNAMED || to <= from || to - from < ns / 2)
		return p;
	if (st->flags & STALL_F_THROTTLED)
		return add_by(p, prefix, "cpu.max", sizeof("cpu.max"), 0);
	return st->by_tid ? add_by(p, prefix, st->by, sizeof(st->by), st->by_tid) : add_by(p, prefix, "idle", sizeof("idle"), 0);
}

static char *add_waker(char *p, const char *prefix, const struct recording *rec, uint32_t tid)
{
	const struct task *t = tid ? tasks_find(rec->tasks, tid) : NULL;

	return t && t->comm[0] ? add_by(p, prefix, t->comm, sizeof(t->comm), tid) : p;
}

static char *add_function(char *p, const char *prefix, const struct recording *rec, uint32_t stack)
{
	const struct frame *f = rec->stacks ? stack_subject(rec->stacks, stack) : NULL;
	char text[STACK_TEXT_MAX];
	size_t len = f ? stack_text(f, text) : 0;

	return len ? fmt_json_str(profile_add_key(p, prefix, "_in"), text, len) : p;
}

static char *add_cause(char *p, const char *prefix, const struct recording *rec, const struct profile_gpu_step *s,
	const struct gpu_gap *g, const struct gap_cause *c)
{
	const char *state = time_state_name(c->state), *call = c->syscall == SYSCALL_NONE ? NULL : syscall_name(c->syscall);
	char key[48];

	p = fmt_json_str(profile_add_key(p, prefix, "_state"), state, strlen(state));
	for (int i = 0; i < ST_MAX; i++) {
		if (!c->ns[i])
			continue;
		snprintf(key, sizeof(key), "_%s_us", time_state_name((enum time_state)i));
		p = fmt_us(profile_add_key(p, prefix, key), c->ns[i]);
	}
	if (c->state == ST_RUNNABLE)
		return add_runner(p, prefix, s, g, c->ns[c->state]);
	if (c->state == ST_CPU)
		return add_function(p, prefix, rec, c->stack);
	if (call && (c->state == ST_SYSCALL || c->state > ST_RUNNABLE))
		p = fmt_json_str(profile_add_key(p, prefix, "_call"), call, strlen(call));
	return c->state > ST_RUNNABLE ? add_waker(p, prefix, rec, c->waker_tid) : p;
}

static char *add_gap(char *p, unsigned int number, const struct recording *rec, const struct gpu_gaps *gaps, const struct profile_gpu_step *s,
	const struct gpu_gap *g)
{
	struct gap_cause c;
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "gpu_gap%u", number);
	p = fmt_us(PUT_KEY_N(p, gpu_gapN_us, number), g->dur_ns);
	p = fmt_us(PUT_KEY_N(p, gpu_gapN_ts_us, number), profile_since(rec, g->start_ns));
	p = fmt_u64(PUT_KEY_N(p, gpu_gapN_tid, number), g->tid);
	if (gaps && s->is_whole && gpu_gaps_cause(gaps, g->tid, g->start_ns, g->start_ns + g->dur_ns, &c))
		p = add_cause(p, prefix, rec, s, g, &c);
	return p;
}

/* What one of several devices did: the parts that are not 0. */
static char *add_device(char *p, const struct gpu_step_device *d)
{
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "gpu_device%u_", d->device);
	p = fmt_u64(PUT_KEY_N(p, gpu_deviceN_kernels, d->device), d->kernels);
	p = fmt_u64(PUT_KEY_N(p, gpu_deviceN_copies, d->device), d->copies);
	for (int i = 0; i < GPU_PART_MAX; i++) {
		if (d->ns[i])
			p = fmt_us(profile_add_key(p, prefix, gpu_part_key(i) + strlen("gpu_")), d->ns[i]);
	}
	return d->after_ns ? fmt_us(PUT_KEY_N(p, gpu_deviceN_after_us, d->device), d->after_ns) : p;
}

char *profile_gpu_add(
	char *p, const struct recording *rec, const struct gpu_gaps *gaps, const struct profile_gpu_step *s, const struct rec_gpu_step *r)
{
	if (r->h.flags & GPU_STEP_F_LOST)
		return PUT(p, gpu_lost, true);
	p = PUT(p, gpu_device, r->device);
	p = PUT(p, gpu_kernels, r->kernels);
	p = PUT(p, gpu_copies, r->copies);
	for (int i = 0; i < GPU_PART_MAX; i++) {
		if (!r->ns[i] && i == GPU_PART_COLLECTIVE) /* most programs have none */
			continue;
		p = fmt_us(profile_add_key(p, gpu_part_key(i), ""), r->ns[i]);
	}
	p = PUT_NONZERO(p, gpu_after_us, r->after_ns);
	p = PUT(p, gpu_residual_us, r->residual_ns);
	if (r->n_devices > 1) {
		p = PUT(p, gpu_devices, r->n_devices);
		for (uint32_t i = 0; i < gpu_step_devices(r); i++)
			p = add_device(p, &r->devices[i]);
	}
	for (unsigned int i = 0; i < GPU_GAPS && r->gaps[i].dur_ns >= GAP_MIN_NS; i++)
		p = add_gap(p, i + 1, rec, gaps, s, &r->gaps[i]);
	return p;
}

char *profile_gpu_add_devices(char *p, const struct gpu_info *info)
{
	for (uint32_t i = 0; info && i < GPU_DEVICES_MAX; i++) {
		const struct gpu_identity *is = gpu_info_is_used(info, i) ? gpu_info_device(info, i) : NULL;

		if (!is)
			continue;
		if (is->name[0])
			p = fmt_json_str(PUT_KEY_N(p, gpu_deviceN_name, i), is->name, strlen(is->name));
		if (is->pci[0])
			p = fmt_json_str(PUT_KEY_N(p, gpu_deviceN_pci, i), is->pci, strlen(is->pci));
		if (is->uuid[0])
			p = fmt_json_str(PUT_KEY_N(p, gpu_deviceN_uuid, i), is->uuid, strlen(is->uuid));
	}
	return p;
}
