// SPDX-License-Identifier: BSD-2-Clause
#include "record/capture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "capture/calibrate.h"
#include "capture/python.h"
#include "engine/engine.h"
#include "engine/inspect.h"
#include "engine/python_steps.h"
#include "engine/sites.h"
#include "stack/python_name.h"
#include "stack/stack.h"
#include "util/log.h"
#include "util/names.h"

int capture_check(struct capture *c)
{
	struct features *f = &c->features;
	char why[512];
	int err;

	err = features_probe(f, true);
	if (!err)
		err = features_require(f, why, sizeof(why));
	else
		snprintf(why, sizeof(why), "cannot examine the kernel: %s", strerror(-err));
	if (!err)
		return 0;
	return log_fail(err == -EPERM ? err : -EOPNOTSUPP, "%s", why);
}

/* library: a part of the library's name; NULL: any. */
static bool has_role(const struct capture *c, enum probe_role role, const char *library)
{
	for (size_t i = 0; i < c->probes.n; i++) {
		const struct probe_spec *s = &c->probes.specs[i];

		if (s->role == role && (!library || (s->library && strstr(s->library, library))))
			return true;
	}
	return false;
}

static int load_presets(struct capture *c, const struct record_options *o)
{
	static const char *const gpu[][2] = { { "cuda", "libcuda" }, { "hip", "libamdhip" } };
	struct probe_table *pt = &c->probes;
	bool all = !o->n_engines;
	int err = 0;

	for (size_t i = 0; i < o->n_engines && !err; i++) {
		if (!strcmp(o->engines[i], "auto"))
			all = true;
		else if (strcmp(o->engines[i], "none"))
			err = engine_load(pt, o->engines[i]);
		if (!err && pt->n_engines && engine_is_named(pt, pt->n_engines - 1, pt->engines[pt->n_engines - 1]->name)) {
			log_error("--engine: the preset %s has the name of another one that is given", o->engines[i]);
			err = -EINVAL;
		}
	}
	if (!err && all)
		err = engine_load_all(pt);
	/* GPU work is attributed to the call that launched it: --gpu needs the presets of those calls */
	for (size_t i = 0; i < sizeof(gpu) / sizeof(gpu[0]) && o->gpu && !all && !err; i++) {
		if (!engine_is_named(pt, pt->n_engines, gpu[i][0]) && !has_role(c, ROLE_LAUNCH, gpu[i][1]))
			err = engine_load(pt, gpu[i][0]);
	}
	return err;
}

static int load_probes(struct capture *c, const struct record_options *o)
{
	int err = 0;

	c->probes.op_detail = o->op_detail;
	c->probes.dear_ends = o->has_budget; /* --budget can turn them off */
	c->probes.nodes = record_wants_nodes(o, false);
	c->probes.declared = record_wants_declared(o);
	if (o->events & EVENT_FUNCTIONS || record_wants_profile(o))
		err = load_presets(c, o);
	for (size_t i = 0; i < o->n_uprobes && !err; i++)
		err = probe_table_add_option(&c->probes, o->uprobes[i]);
	for (size_t i = 0; i < o->n_py_steps && !err; i++)
		err = probe_table_add_python(&c->probes, o->py_steps[i], ROLE_STEP);
	for (size_t i = 0; i < o->n_py_spans && !err; i++) {
		const struct probe_spec *s;

		err = probe_table_add_python(&c->probes, o->py_spans[i], ROLE_OTHER);
		s = err ? NULL : &c->probes.specs[c->probes.n - 1];
		if (s && s->role != ROLE_OP && !record_wants_trace(o))
			err = log_fail(-EINVAL, "--py-span %s: without a trace, operators only are recorded: write @op behind it, or -o FILE", s->symbol);
	}
	return err;
}

/* --budget needs steps, since the cost of inftrace is known for nothing else; -e pmu counts steps and operators. */
static int check_steps(const struct capture *c, const struct record_options *o)
{
	if (o->has_budget && !has_role(c, ROLE_STEP, NULL))
		return log_fail(-EINVAL, "--budget: the cost of inftrace is only known for steps, and nothing here is one; give an "
					 "--engine, or a function as @step with -u");
	if (o->has_budget && c->features.pid_ns)
		return log_fail(-EOPNOTSUPP, "--budget: in a pid namespace inftrace does not know what it costs; run it in that of the host");
	if (o->events & EVENT_PMU && !has_role(c, ROLE_STEP, NULL) && !has_role(c, ROLE_OP, NULL))
		return log_fail(-EINVAL, "-e pmu: steps and operators are counted, and nothing here is one; give an --engine, or a function as @step or @op "
					 "with -u");
	return 0;
}

/* Goes on without faults if need be: for a service, they are all that Debian and Ubuntu forbid. */
static void check_faults(struct capture *c, const struct record_options *o)
{
	struct features *f = &c->features;
	char why[256];

	if (!record_wants_faults(o))
		return;
	c->fault_ends = features_fault_ends(f);
	c->lacks_faults = c->fault_ends == FAULT_ENDS_NONE;
	if (c->fault_ends == FAULT_ENDS_EVENTS)
		return;
	features_remedy(f, f->err[FEATURE_FAULTS_MINOR] ? FEATURE_FAULTS_MINOR : FEATURE_FAULTS_MAJOR, why, sizeof(why));
	if (c->lacks_faults)
		log_warn("page faults are not recorded, and their time counts as that of what they interrupt, since the kernel does not "
			 "show them: %s",
			why);
	else
		log_debug("page faults end at the return of " FAULT_RETURN_FUNCTION "(), since there are no perf events for them: %s", why);
}

int capture_prepare(struct capture *c, const struct record_options *o)
{
	int err = load_probes(c, o);

	if (!err)
		err = check_steps(c, o);
	if (err)
		return err;
	check_faults(c, o);
	c->tasks = tasks_new();
	c->handles = handles_new(c->tasks);
	if (record_wants_profile(o))
		c->metadata = metadata_new(o, &c->probes);
	return 0;
}

static int name_python(void *arg, uint32_t tgid, uint64_t code, uint64_t instr, struct python_name *ret_name)
{
	return python_names_get(arg, tgid, code, instr, ret_name);
}

static void find_python(void *arg, uint32_t tgid, uint64_t self, struct python_found *ret_found)
{
	python_names_frames(arg, tgid, self, ret_found);
}

static const char *name_task(void *arg, uint32_t tgid, const struct python_task *task)
{
	return python_names_task(arg, tgid, task);
}

int capture_start_readers(struct capture *c, const struct record_options *o)
{
	struct stacks_config config = { .python = name_python, .python_frames = find_python, .python_task = name_task };
	int err = 0;

	if (c->probes.n || c->probes.n_engines || o->gpu_attach)
		err = inspector_new(&c->probes, &c->inspector);
	if (err)
		log_error("cannot start the process that reads symbols: %s", strerror(-err));
	if (!err)
		c->pythons = pythons_new();
	if (err || !(o->events & (EVENT_SAMPLES | EVENT_STACKS)))
		return err;
	config.python_arg = c->pythons->names;
	err = stacks_new(&config, &c->stacks);
	if (err)
		log_error("cannot start the process that reads how to unwind stacks: %s", strerror(-err));
	return err;
}

void capture_calibrated(struct capture *c)
{
	int err;

	if (!c->calibration)
		return;
	err = calibration_end(c->calibration, c->outside_ns);
	c->outside_ns[HIT_HOOK] = c->hook_ns;
	c->calibration = NULL;
	c->weighs = !err;
	if (err)
		log_debug("cannot measure what a hit costs: %s", strerror(-err));
	for (int k = 0; k < HIT_MAX && !err; k++)
		log_debug("to a program and back, %s: %" PRIu64 " ns", hit_kind_name((enum hit_kind)k), c->outside_ns[k]);
}

void capture_weigh(struct capture *c)
{
	const volatile struct inf_stats *st;
	struct hit_time times[HIT_MAX], counters;

	if (!c->weighs)
		return;
	st = session_stats(c->session);
	session_hits(c->session, times);
	counters = (struct hit_time){ .n = st->counters_time.n, .ns = st->counters_time.ns };
	probe_costs_make(&c->prices, times, session_counters(c->session).mask ? &counters : NULL, c->outside_ns);
	c->prices.sample_ns = session_sample_ns(c->session, &c->prices.sample_period_ns);
}

/* For how long loaders wait for the probes in what they map; 0: they do not. */
static uint32_t hold_ms(const struct record_options *o)
{
	if (o->command)
		return o->no_hold ? 0 : HOLD_COMMAND_MS;
	return o->hold ? HOLD_ATTACHED_MS : 0;
}

int capture_open(struct capture *c, const struct record_options *o, pid_t hold_pid, record_cb cb, void *arg)
{
	const struct features *f = &c->features;
	struct session_config config = {
		.cfg = {
			.trace_all = o->all,
			.watch_maps = !!c->probes.n,
			.hold = c->probes.n ? hold_ms(o) : 0,
			.min_syscall_ns = o->min_syscall_ns,
			.windows = record_by_time(o) && !record_is_flight(o),
			.max_steps = (uint32_t)o->max_steps,
			.budget = o->has_budget,
		},
		.hold_pid = hold_pid,
		.ring_bytes = o->ring_bytes,
		.fault_ends = c->fault_ends,
		.uprobe_multi = features_have(f, FEATURE_UPROBE_MULTI),
		/* in a pid namespace records have other pids than the links would need; and found callers become targets */
		.uprobe_multi_pid = features_have(f, FEATURE_UPROBE_MULTI_PID) && !f->pid_ns,
		.watchpoints = features_have(f, FEATURE_WATCHPOINTS),
		.finds = record_finds(o),
		.peek = record_is_flight(o),
		.probes = &c->probes,
		.inspector = c->inspector,
		.pythons = c->pythons,
		.cb = cb,
		.cb_arg = arg,
	};
	int err = 0;

	/* in a pid namespace inftrace cannot recognise itself among the processes that others waited behind */
	if (record_wants_profile(o) || o->view || o->has_budget)
		err = f->pid_ns ? -EOPNOTSUPP : calibration_start(config.uprobe_multi, c->fault_ends, &c->calibration);
	if (err)
		log_debug("cannot measure what a hit costs: %s", strerror(-err));
	events_configure(o, &c->probes, &config);
	err = session_open(&config, &c->session);
	if (err)
		return err;
	c->follow = follow_new(c->session, c->tasks, record_finds(o));
	c->misfits = misfits_new(session_engine_steps_fd(c->session), &c->probes, c->inspector);
	return 0;
}

void capture_close(struct capture *c)
{
	capture_calibrated(c);
	follow_free(c->follow);
	misfits_free(c->misfits);
	session_free(c->session);
	c->follow = NULL;
	c->misfits = NULL;
	c->session = NULL;
}

void capture_free(struct capture *c)
{
	inspector_free(c->inspector);
	tasks_free(c->tasks);
	handles_free(c->handles);
	stacks_free(c->stacks);
	pythons_free(c->pythons);
	metadata_free(c->metadata);
	probe_table_free(&c->probes);
}

bool capture_lacks_option(const struct capture *c)
{
	for (size_t i = 0; i < c->probes.n; i++) {
		const struct probe_spec *s = &c->probes.specs[i];

		if (!s->engine && !s->from && !s->attached && !s->refused)
			return true;
	}
	return false;
}
