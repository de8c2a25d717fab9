// SPDX-License-Identifier: BSD-2-Clause
/* inftrace record: the messages at its end. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/check.h"
#include "engine/spec.h"
#include "record/summary.h"

#include "capture/python.h"
#include "record/gpu.h"
#include "record/overhead.h"
#include "stack/python_name.h"
#include "stack/stack.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/names.h"
#include "util/text.h"

#define SAMPLE_LIMIT_TEXT "8 MB"
_Static_assert(SAMPLE_BYTES_PER_S == 8 << 20, "SAMPLE_LIMIT_TEXT says the same");
#define NEVER_HIT_NAMED 16 /* functions of a glob that are named individually */

static bool is_compressed(const struct record_options *o)
{
	for (size_t i = 0; i < o->n_outputs; i++) {
		if (text_has_suffix(o->outputs[i], ".gz"))
			return true;
	}
	for (size_t i = 0; i < o->n_formats; i++) {
		if (text_has_suffix(o->formats[i], ".gz"))
			return true;
	}
	return false;
}

/* What to do about lost records. */
static const char *lost_why(const struct windows *w, char *buf, size_t size)
{
	if (!w->in->dropped)
		return "a larger --ring-size or fewer -e keeps up";
	snprintf(buf, size, "a file was written or a pipe was read too slowly for %" PRIu64 " of them; %s", w->in->dropped,
		is_compressed(w->o) ? "fewer -e writes less, and without .gz nothing has to be compressed"
				    : ".gz or fewer -e writes less");
	return buf;
}

static void summarise_counts(const struct windows *w, uint64_t begun_ns)
{
	/* 0: no window was opened */
	uint64_t end = w->whole.close_ns ? w->whole.close_ns : clock_ns(CLOCK_BOOTTIME);
	char why[224];
	char line[512] = "";
	size_t n = 0;

	for (int k = 0; k < REC_KIND_MAX; k++) {
		if (w->whole.records[k] && k != REC_MAPPED)
			n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%" PRIu64 " %s", n ? ", " : "",
				w->whole.records[k], rec_kind_name((enum rec_kind)k));
	}
	log_info("%.1f s, %s", (double)(end - begun_ns) / 1e9,
		n ? line : "no records");
	n = 0;
	for (int k = 0; k < REC_KIND_MAX; k++) {
		if (w->whole.lost[k] && k != REC_GPU) /* gpu_summary() tells of those */
			n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%" PRIu64 " %s", n ? ", " : "",
				w->whole.lost[k], rec_kind_name((enum rec_kind)k));
	}
	if (n)
		log_warn("lost %s: %s", line, lost_why(w, why, sizeof(why)));
}

/* The places of a USDT probe are one probe, represented by the first of them. */
static bool never_hit(const struct capture *c, uint32_t i)
{
	const struct probe_spec *specs = c->probes.specs, *s = &specs[i];

	if (!s->attached || session_probe_hit(c->session, i))
		return false;
	for (uint32_t k = 0; k < c->probes.n; k++) {
		if (specs[k].from == i + 1 && session_probe_hit(c->session, k))
			return false;
	}
	for (uint32_t k = 0; s->is_usdt && k < c->probes.n; k++) {
		if (k != i && specs[k].from == s->from && !strcmp(specs[k].symbol, s->symbol) &&
			(k < i || session_probe_hit(c->session, k)))
			return false;
	}
	return true;
}

/* A preset has functions of many releases and ways to use an engine; those of the command line were asked for. */
static void (*say_unhit(const struct probe_spec *s))(const char *fmt, ...)
{
	return s->engine ? log_debug : log_info;
}

/* A glob may stand for thousands of functions, most of them unused. */
static void summarise_glob(const struct capture *c, uint32_t glob)
{
	const struct probe_spec *specs = c->probes.specs;
	void (*say)(const char *fmt, ...) = say_unhit(&specs[glob]);
	uint32_t never = 0;

	for (uint32_t i = 0; i < c->probes.n; i++)
		never += specs[i].from == glob + 1 && never_hit(c, i);
	if (never > NEVER_HIT_NAMED && log_level() < 1) {
		say("%s: %u functions attached, %u of them never hit; -v names them",
			specs[glob].symbol, specs[glob].attached, never);
		return;
	}
	for (uint32_t i = 0; i < c->probes.n; i++) {
		if (specs[i].from == glob + 1 && never_hit(c, i))
			say("%s: attached, never hit", specs[i].symbol);
	}
}

static void summarise_probes(const struct capture *c)
{
	for (uint32_t i = 0; i < c->probes.n; i++) {
		const struct probe_spec *s = &c->probes.specs[i];

		if (s->from)
			continue;
		if (s->attached && (s->is_glob || s->is_usdt))
			summarise_glob(c, i);
		else if (never_hit(c, i) && s->is_python)
			log_warn("--py-step %s: no call of it began; its file's or module's name may be another one", s->symbol);
		else if (never_hit(c, i))
			say_unhit(s)("%s: attached, never hit", s->symbol);
		else if (!s->attached && s->is_python && !s->refused)
			log_warn("--py-step %s: no target ran Python 3", s->symbol);
		else if (!s->attached && !s->engine && !s->refused)
			log_warn("%s: no file that the targets mapped has this %s", s->span_name ? s->span_name : s->symbol,
				s->is_usdt ? "probe" : "function");
		else if (!s->attached && s->engine && s->engine->matched)
			log_debug("%s: not attached", s->symbol);
	}
}

/* Functions without a stack protector: what their times cost, or why they have none. */
static void summarise_ends(const struct capture *c)
{
	uint64_t ns = c->prices.ns[HIT_STEPPED], dear = 0, none = 0, calls = 0;

	for (uint32_t i = 0; i < c->probes.n; i++) {
		const struct probe_spec *s = &c->probes.specs[i];

		if (!s->exits || !s->records)
			continue;
		if (s->dear_ends) {
			dear++;
			calls += s->records;
		}
		none += s->from && s->flags & PROBE_F_INSTANT;
	}
	if (dear && c->weighs)
		log_info("%" PRIu64 " operators without a stack protector: the end of each of %" PRIu64 " calls took some %.1f us", dear, calls,
			(double)ns / 1e3);
	if (none)
		log_info("%" PRIu64 " operators have no time, since where they end is not known%s", none,
			c->probes.dear_ends ? "" : ", or seeing it is dear: with --budget they may have one");
}

static void summarise_oddities(const struct capture *c)
{
	const volatile struct inf_stats *st = session_stats(c->session);
	const struct {
		uint64_t n;
		const char *text;
	} odd[] = {
		{ st->no_storage, "threads could not be traced: no memory" },
		{ st->step_mismatch, "steps did not add up" },
		{ st->account_retries, "changes of state were preempted in every try" },
		{ st->frames_stale, "functions were left without a return (longjmp, exception)" },
		{ st->frames_full, "calls were nested too deep for a span" },
		{ st->workers_full, "workers of a step are not in its sums: too many threads or groups" },
		{ st->faults_open, "page faults ended in a signal" },
		{ st->faults_missed, "page faults are among the lost, since this kernel preempts programs (preempt=full): they are counted and have no time; "
				     "further ones, within the kernel, may be missing (see docs/deploy.md)" },
		{ st->syscalls_short, "short system calls left out" },
		{ st->irqs_full, "interrupts were nested too deep for a span" },
		{ st->irqs_left, "threads were switched within an interrupt; the rest of it is in other states" },
		{ st->counters_shared, "steps and operators without counts: others used the CPU's counters, too" },
		{ st->counters_unread, "steps and operators without counts: they began before the window, were on a CPU without counters, or "
				       "the kernel did not report a switch" },
		{ st->sums_full, "calls or pages found no room in the sums per process of the profile" },
	};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		if (odd[i].n)
			log_info("%" PRIu64 " %s", odd[i].n, odd[i].text);
	}
	if (st->missed_switches)
		log_debug("%" PRIu64 " times a thread came back onto a CPU without the kernel reporting it: the time stays with the state before "
			"(see \"Switches that were not reported\" in docs/trace-format.md)",
			(uint64_t)st->missed_switches);
}

static void summarise_stacks(const struct capture *c)
{
	const volatile struct inf_stats *st = session_stats(c->session);
	const char *limit = "since no more than " SAMPLE_LIMIT_TEXT " of stacks are copied in a second on each CPU";
	struct python_names_stats python;
	struct stacks_stats stacks;

	if (!c->stacks)
		return;
	stacks_stats(c->stacks, &stacks);
	if (st->samples_left)
		log_info("samples: %" PRIu64 " taken, %" PRIu64 " left out, %s", st->samples, st->samples_left, limit);
	else if (st->samples)
		log_info("samples: %" PRIu64 " taken", st->samples);
	if (st->waits_left)
		log_info("waits: %" PRIu64 " with their stack, %" PRIu64 " without: %s, or the end of their call was not seen",
			st->waits, st->waits_left, limit);
	else if (st->waits)
		log_info("waits: %" PRIu64 " with their stack", st->waits);
	if (st->wakers_left)
		log_info("wakers: %" PRIu64 " with their stack, %" PRIu64 " without: %s", st->wakers, st->wakers_left, limit);
	else if (st->wakers)
		log_info("wakers: %" PRIu64 " with their stack", st->wakers);
	if (stacks.user)
		log_info("stacks: %.1f %% of %" PRIu64 " unwound to the start of the thread; %" PRIu64 " were longer than their copy, "
			 "of %" PRIu64 " the way to a caller is not known",
			100 * (double)stacks.complete / (double)stacks.user, stacks.user, stacks.cut, stacks.broken);
	if (10 * stacks.made > stacks.places)
		log_info("stacks: %.0f %% of the places in programs are in code without names, made at run time; node --perf-basic-prof, "
			 "and python3 -X perf from 3.12 on, name it",
			100 * (double)stacks.made / (double)stacks.places);
	log_debug("stacks: %.1f MB copied, %" PRIu64 " ns a sample; unwinding took %.3f s and %.1f MB",
		(double)st->sample_bytes / 1e6, st->samples ? st->sample_ns / st->samples : 0, (double)stacks.ns / 1e9,
		(double)stacks.memory / 1e6);
	python_names_stats(pythons_names(c->pythons), &python);
	if (python.tasks_left)
		log_info("asyncio: %" PRIu64 " stacks are in [task]: more than %d names of tasks in a process", python.tasks_left,
			PYTHON_TASKS_MAX);
	if (stacks.no_memory)
		log_warn("stacks: %" PRIu64 " without names, since the memory for names is used up", stacks.no_memory);
	if (stacks.files_failed)
		log_info("stacks: %" PRIu64 " files could not be read", stacks.files_failed);
}

static void summarise_counters(const struct capture *c)
{
	const volatile struct inf_stats *st = session_stats(c->session);
	uint64_t n = st->counters_time.n;

	if (session_counters(c->session).mask)
		log_debug("counters: %" PRIu64 " ns at a switch, the mean of %" PRIu64 " that were timed", n ? st->counters_time.ns / n : 0, n);
}

void record_tell_steps(const struct windows *w)
{
	const struct probe_table *pt = &w->c->probes;
	const struct engine *engine = NULL;
	const char *attached = NULL;
	bool wanted = false;

	if (w->o->view || w->o->all || record_finds(w->o) || (!w->open && !w->recorder && !w->whole.close_ns))
		return;
	for (uint32_t i = 0; i < pt->n; i++) {
		const struct probe_spec *s = &pt->specs[i];

		if (s->role != ROLE_STEP)
			continue;
		if (session_probe_hit(w->c->session, i))
			return;
		wanted = true;
		if (s->attached && !s->stand_in && !attached)
			attached = s->engine || !s->span_name ? s->symbol : s->span_name;
	}
	for (size_t i = 0; i < pt->n_engines && !engine; i++)
		engine = pt->engines[i]->matched ? pt->engines[i] : NULL;
	if (attached)
		log_info("no step so far: %s has not been called, since the engine had nothing to do, or does it in another way "
			 "(inftrace engines -p PID --check 10s counts calls)",
			attached);
	else if (engine && wanted)
		log_info("no steps: the preset %s finds none here: --py-step FUNCTION or -u LIB:FUNCTION@step makes some%s%s", engine->name,
			engine->advice ? "; " : "", engine->advice ?: "");
	else if (wanted)
		log_info("no engine found, so there are no steps: none of the libraries that inftrace engines lists is in use; "
			 "--engine FILE, --py-step FUNCTION or -u LIB:FUNCTION@step makes some");
}

void record_summary(const struct windows *w, uint64_t begun_ns)
{
	const struct capture *c = w->c;

	summarise_counts(w, begun_ns);
	record_tell_steps(w);
	summarise_probes(c);
	summarise_ends(c);
	check_summary(&c->probes);
	summarise_oddities(c);
	summarise_stacks(c);
	summarise_counters(c);
	if (w->in->gpu)
		gpu_summary(w->in->gpu);
	overhead_summary(w->overhead, w->whole.open_ns, w->whole.close_ns);
	follow_summary(c->follow);
}
