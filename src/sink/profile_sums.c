// SPDX-License-Identifier: BSD-2-Clause
#include "sink/profile_sums.h"

#include "sink/profile_line.h"
#include "util/names.h"

#define CALL_NAME_MAX 32
#define CALL_BYTES (2 * (CALL_NAME_MAX + 8) + FMT_U64_MAX + FMT_US_MAX)
/* More calls than exist. A program can invent numbers: calls that do not fit are left out of the
 * line. */
#define CALLS_MAX (PROFILE_SUMS_MAX / CALL_BYTES - 8)

static char *add_stage(char *p, const char *name, uint64_t ns)
{
	p = fmt_lit(p, ",\"");
	p = fmt_str(p, name, strlen(name));
	p = fmt_lit(p, "\":");
	return fmt_us(p, ns);
}

static char *shape_begin(char *p, const struct process_totals *t, const char *comm)
{
	p = add_u64(p, "\"pid\":", t->tgid);
	p = fmt_lit(p, ",\"comm\":");
	return fmt_json_str(p, comm, strlen(comm));
}

static char *fmt_call_name(char *p, uint32_t nr)
{
	const char *name = syscall_name(nr);

	if (name)
		return fmt_str(p, name, strnlen(name, CALL_NAME_MAX));
	p = nr & SYSCALL_SUM_COMPAT ? fmt_lit(p, "compat_") : fmt_lit(p, "syscall_");
	return fmt_u32(p, nr & ~SYSCALL_SUM_COMPAT);
}

static char *format_syscalls(char *p, const struct process_totals *t, const char *comm)
{
	size_t n = t->n_calls < CALLS_MAX ? t->n_calls : CALLS_MAX;
	uint64_t calls = 0, ns = 0;

	if (!n)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		calls += t->calls[i].sum.n;
		ns += t->calls[i].sum.ns;
	}
	p = shape_begin(p, t, comm);
	p = add_u64(p, ",\"calls\":", calls);
	for (size_t i = 0; i < n; i++) {
		p = fmt_lit(p, ",\"n_");
		p = fmt_call_name(p, t->calls[i].nr);
		p = add_u64(p, "\":", t->calls[i].sum.n);
	}
	p = add_us(p, PROFILE_STAGES "\"total\":", ns);
	for (size_t i = 0; i < n; i++) {
		p = fmt_lit(p, ",\"");
		p = fmt_call_name(p, t->calls[i].nr);
		p = add_us(p, "\":", t->calls[i].sum.ns);
	}
	return fmt_lit(p, "}");
}

static char *format_faults(char *p, const struct process_totals *t, const char *comm)
{
	const struct process_sums *s = &t->sums;

	p = shape_begin(p, t, comm);
	p = add_u64(p, ",\"n_minor\":", s->faults_minor);
	p = add_u64(p, ",\"n_major\":", s->faults_major);
	p = add_u64(p, ",\"n_kernel\":", s->faults_kernel);
	p = add_us(p, PROFILE_STAGES "\"total\":", s->fault_minor_ns + s->fault_major_ns);
	p = add_stage(p, "minor", s->fault_minor_ns);
	p = add_stage(p, "major", s->fault_major_ns);
	return fmt_lit(p, "}");
}

static char *format_sched(char *p, const struct process_totals *t, const char *comm)
{
	const struct process_sums *s = &t->sums;
	uint64_t total = 0;

	for (int i = 0; i < ST_MAX; i++)
		total += s->ns[i];
	p = shape_begin(p, t, comm);
	p = add_u64(p, ",\"switches_voluntary\":", s->switches_voluntary);
	p = add_u64(p, ",\"switches_involuntary\":", s->switches_involuntary);
	p = add_u64(p, ",\"threads\":", s->threads);
	p = add_us(p, PROFILE_STAGES "\"total\":", total);
	for (int i = 0; i < ST_MAX; i++) {
		if (s->ns[i])
			p = add_stage(p, time_state_name((enum time_state)i), s->ns[i]);
	}
	return fmt_lit(p, "}");
}

static char *format_memory(char *p, const struct process_totals *t, const char *comm)
{
	p = shape_begin(p, t, comm);
	if (t->lives)
		p = add_u64(p, ",\"rss_bytes\":", t->rss_bytes);
	if (t->rss_peak_bytes)
		p = add_u64(p, ",\"rss_peak_bytes\":", t->rss_peak_bytes);
	if (t->pages) {
		p = add_u64(p, ",\"pages_allocated\":", t->sums.pages_allocated);
		p = add_u64(p, ",\"pages_freed\":", t->sums.pages_freed);
	}
	return fmt_lit(p, PROFILE_STAGES "}");
}

const struct profile_family profile_sums[PROFILE_SUMS_FAMILIES] = {
	{ "syscall_prof", format_syscalls, false },
	{ "fault_prof", format_faults, true },
	{ "sched_prof", format_sched, false },
	{ "memory_prof", format_memory, false },
};
