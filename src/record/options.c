// SPDX-License-Identifier: BSD-2-Clause
#include "record/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/perf_events.h"
#include "capture/session.h"
#include "target/process.h"
#include "util/alloc.h"
#include "util/log.h"
#include "util/text.h"

/* inftrace record -e: the events, and what they need from the kernel. */

static const struct {
	const char *name;
	unsigned int bit;
} event_names[] = {
	{ "sched", EVENT_SCHED },
	{ "syscalls", EVENT_SYSCALLS },
	{ "faults", EVENT_FAULTS },
	{ "functions", EVENT_FUNCTIONS | EVENT_FUNCTIONS_NAMED },
	{ "ipc", EVENT_IPC },
	{ "memory", EVENT_MEMORY },
	{ "irq", EVENT_IRQ },
	{ "cpu", EVENT_CPU },
	{ "requests", EVENT_REQUESTS | EVENT_REQUESTS_LISTENING },
	{ "samples", EVENT_SAMPLES },
	{ "stacks", EVENT_STACKS },
	{ "pmu", EVENT_PMU },
	{ "messages", EVENT_MESSAGES },
};

int events_parse(const char *list, unsigned int *ret_events)
{
	unsigned int events = list[0] == '+' || list[0] == '-' ? EVENTS_DEFAULT : 0;
	char *text = xstrdup(list), *save = NULL;
	int err = 0;

	for (char *w = strtok_r(text, ",", &save); w && !err; w = strtok_r(NULL, ",", &save)) {
		char sign = *w == '+' || *w == '-' ? *w++ : '+';
		unsigned int bit = 0;

		for (size_t i = 0; i < sizeof(event_names) / sizeof(event_names[0]); i++) {
			if (!strcmp(w, event_names[i].name))
				bit = event_names[i].bit;
		}
		if (!bit) {
			log_error("-e: '%.40s' is not an event; known are sched, syscalls, faults, functions, ipc, memory, irq, cpu, "
				  "requests, samples, stacks, pmu, messages",
				w);
			err = -EINVAL;
		}
		events = sign == '-' ? events & ~bit : events | bit;
	}
	free(text);
	if (err)
		return err;
	if (!(events & ~EVENT_REQUESTS_LISTENING))
		return log_fail(-EINVAL, "-e: no events are left to record");
	*ret_events = events;
	return 0;
}

void events_listening(struct record_options *o)
{
	for (size_t i = 0; i < o->n_pids && o->events & EVENT_REQUESTS_LISTENING; i++) {
		if (process_listens(o->pids[i]))
			o->events |= EVENT_REQUESTS;
	}
}

bool output_is_et(const char *name)
{
	return text_has_suffix(name, ".et") || text_has_suffix(name, ".et.json");
}

bool record_wants_nodes(const struct record_options *o, bool only)
{
	size_t n = 0;

	for (size_t i = 0; i < o->n_outputs; i++)
		n += output_is_et(o->outputs[i]);
	for (size_t i = 0; i < o->n_formats; i++)
		n += !strncmp(o->formats[i], "et", 2);
	return only ? n && n == o->n_outputs + o->n_formats && !record_is_flight(o) : n;
}

bool record_wants_declared(const struct record_options *o)
{
	size_t n = 0;

	for (size_t i = 0; i < o->n_outputs; i++)
		n += text_has_suffix(o->outputs[i], ".kineto.json") || text_has_suffix(o->outputs[i], ".kineto.json.gz");
	for (size_t i = 0; i < o->n_formats; i++)
		n += !strncmp(o->formats[i], "kineto", 6);
	return n || o->op_detail || record_wants_nodes(o, false);
}

bool record_wants_presets(const struct record_options *o)
{
	if (!(o->events & EVENT_FUNCTIONS))
		return false;
	return record_wants_trace(o) || o->op_detail || o->gpu || o->events & EVENT_FUNCTIONS_NAMED;
}

int hooks_options_check(const struct record_options *o)
{
	if (!o->hooks)
		return 0;
#ifndef __x86_64__
	return log_fail(-EINVAL, "--hooks: not on this CPU architecture");
#endif
	if (!o->n_pids && !o->command)
		return log_fail(-EINVAL, "--hooks is for a COMMAND, or for processes that run already: -p PID");
	if (o->command && o->has_budget)
		return log_fail(-EINVAL, "--hooks of a COMMAND and --budget exclude each other");
	if (!record_wants_presets(o) && !record_wants_profile(o))
		return log_fail(-EINVAL, "--hooks is for barriers and operators: for --profile, or a trace with functions");
	if (record_wants_presets(o) && (record_is_flight(o) || record_wants_declared(o) || o->gpu || o->events & (EVENT_PMU | EVENT_SAMPLES | EVENT_STACKS)))
		return log_fail(-EINVAL, "--hooks says of calls only their times and names: it is not for --op-detail, execution traces, --gpu, counters, "
					 "samples, stacks or a flight recorder");
	return 0;
}

/* Whether a profile without a trace has lines for calls, which cost more than its steps: only on request. */
static bool wants_calls(const struct record_options *o, const struct probe_table *probes)
{
	if ((!record_wants_profile(o) && !o->view) || !(o->events & EVENT_FUNCTIONS))
		return false;
	for (size_t i = 0; i < probes->n; i++) {
		const struct probe_spec *s = &probes->specs[i];

		if (!s->engine && (s->role == ROLE_OP || s->role == ROLE_GRAPH || s->role == ROLE_SAMPLE))
			return true;
	}
	return record_wants_presets(o);
}

/* Stacks need them, too: each says what state its thread was in. */
static bool wants_states(const struct record_options *o)
{
	return record_wants_profile(o) || o->view || o->events & (EVENT_SAMPLES | EVENT_STACKS);
}

bool record_wants_faults(const struct record_options *o)
{
	return wants_states(o) || o->events & EVENT_FAULTS;
}

/* A profile needs thread states, and system calls and faults for its counts, whatever the trace shows. */
void events_configure(const struct record_options *o, const struct probe_table *probes, struct session_config *c)
{
	static const struct {
		unsigned int event, kinds;
	} kinds[] = {
		{ EVENT_SCHED, 1u << REC_OFF_CPU | 1u << REC_ON_CPU },
		{ EVENT_CPU, 1u << REC_ON_CPU },
		{ EVENT_SYSCALLS | EVENT_IPC, 1u << REC_SYSCALL },
		{ EVENT_FAULTS, 1u << REC_FAULT },
		{ EVENT_FUNCTIONS, 1u << REC_FUNCTION },
		{ EVENT_IRQ, 1u << REC_IRQ },
	};
	bool profile = record_wants_profile(o) || o->view, states = wants_states(o);
	unsigned int e = o->events;

	c->cfg.all_cpus = !!(e & EVENT_CPU);
	c->cfg.track_sched = states || o->has_budget || e & (EVENT_SCHED | EVENT_CPU | EVENT_IPC);
	c->cfg.track_syscalls = states || probes->n || e & (EVENT_SYSCALLS | EVENT_IPC | EVENT_REQUESTS | EVENT_MESSAGES);
	c->cfg.track_irq = !!(e & EVENT_IRQ);
	c->cfg.memory = !!(e & EVENT_MEMORY);
	c->requests = e & EVENT_REQUESTS;
	c->messages = e & EVENT_MESSAGES && record_wants_trace(o);
	if (e & EVENT_SAMPLES)
		c->sample_hz = o->sample_hz ? o->sample_hz : SAMPLE_HZ_DEFAULT;
	c->stacks = e & EVENT_STACKS;
	c->cfg.min_stack_ns = o->has_min_stack ? o->min_stack_ns : MIN_STACK_DEFAULT_NS;
	if (e & EVENT_PMU)
		c->counters = o->counters ? o->counters : COUNTERS_HARDWARE;
	c->cfg.sums = profile;
	c->cfg.sums_live = !!o->view;
	c->cfg.names = !o->no_names;
	c->cfg.ipc = record_wants_trace(o) && e & EVENT_IPC;
	c->cfg.ipc_only = !(e & EVENT_SYSCALLS);
	c->cfg.emit_mask = 1u << REC_TASK | 1u << REC_MAPPED | 1u << REC_STEP | 1u << REC_HOLD;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (record_wants_trace(o) && !record_wants_nodes(o, true) && e & kinds[i].event)
			c->cfg.emit_mask |= kinds[i].kinds;
	}
	if (o->gpu && record_wants_profile(o) && !record_wants_trace(o)) /* what a thread did while a GPU was idle */
		c->cfg.emit_mask |= 1u << REC_OFF_CPU | 1u << REC_SYSCALL | 1u << REC_FAULT;
	if (wants_calls(o, probes))
		c->cfg.emit_mask |= 1u << REC_FUNCTION;
	if (record_wants_nodes(o, false))
		c->cfg.emit_mask |= 1u << REC_FUNCTION | 1u << REC_NODE;
	if (c->requests)
		c->cfg.emit_mask |= 1u << REC_REQUEST | (record_wants_profile(o) ? 1u << REC_ANSWERED : 0);
	if (c->messages)
		c->cfg.emit_mask |= 1u << REC_MESSAGE;
	if (e & (EVENT_SAMPLES | EVENT_STACKS))
		c->cfg.emit_mask |= 1u << REC_SAMPLE;
	c->states_only = !record_wants_presets(o);
	c->cfg.hooks = o->hooks;
}
