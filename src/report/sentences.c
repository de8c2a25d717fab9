// SPDX-License-Identifier: BSD-2-Clause
#include "report/sentences.h"

#include <stdio.h>
#include <string.h>

#include "util/names.h"

#define NAME_MAX_SHOWN 48
#define SHORT_NAME(m, name) text_printable((char[NAME_MAX_SHOWN]){ 0 }, NAME_MAX_SHOWN, model_text(m, name))
#define PARTS_SHOWN 4

const char *words_duration(char buf[DURATION_MAX], int64_t ns)
{
	static const struct {
		double ns;
		const char *name;
	} units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" }, { 1, "ns" } };
	double v, abs_ns = ns < 0 ? -(double)ns : (double)ns;
	size_t u = 0;

	/* 999.5 us are shown as 1 ms already: three digits */
	while (u + 1 < sizeof(units) / sizeof(units[0]) && abs_ns < units[u].ns * 0.9995)
		u++;
	v = (double)ns / units[u].ns;
	abs_ns /= units[u].ns;
	snprintf(buf, DURATION_MAX, "%.*f %s",
		units[u].ns == 1 ? 0
		: abs_ns < 9.995 ? 2
		: abs_ns < 99.95 ? 1
				 : 0,
		v, units[u].name);
	return buf;
}

const char *words_rate(char buf[DURATION_MAX], double per_s)
{
	snprintf(buf, DURATION_MAX, per_s < 999.5 ? "%.3g" : "%.0f", per_s);
	return buf;
}

const char *words_state(unsigned int state)
{
	if (state == STATE_NONE)
		return "none";
	return state == STATE_OTHER ? "(other)" : time_state_name((enum time_state)state);
}

/* Words for more time in a state, with %D for the duration; and in short. */
static const struct {
	const char *longer, *shortly;
} phrases[STATES] = {
	[ST_CPU] = { "computed %D longer", "computed longer" },
	[ST_BARRIER] = { "waited %D longer at barriers for the other threads", "waited at barriers for the other threads" },
	[ST_GPU_WAIT] = { "waited %D longer for the GPU", "waited for the GPU" },
	[ST_GC] = { "collected garbage for %D", "collected garbage" },
	[ST_SYSCALL] = { "spent %D more in system calls", "system calls" },
	[ST_FAULT] = { "spent %D more on page faults", "page faults" },
	[ST_IRQ] = { "was held up for %D by interrupts", "interrupts" },
	[ST_RUNNABLE] = { "waited %D for a CPU", "waited for a CPU" },
	[ST_BLOCKED_FUTEX] = { "waited %D for a lock", "waited for a lock" },
	[ST_BLOCKED_GIL] = { "waited %D for the GIL", "waited for the GIL" },
	[ST_BLOCKED_IO] = { "waited %D for a disk", "waited for a disk" },
	[ST_BLOCKED_NET] = { "waited %D for the network", "waited for the network" },
	[ST_BLOCKED_IPC] = { "waited %D for a pipe or a UNIX socket", "waited for a pipe or a UNIX socket" },
	[ST_BLOCKED_POLL] = { "waited %D in poll or select", "waited in poll or select" },
	[ST_BLOCKED_SLEEP] = { "slept for %D", "slept" },
	[ST_BLOCKED_FAULT] = { "waited %D for pages to be read in", "waited for pages to be read in" },
	[ST_BLOCKED_GPU] = { "waited %D in the GPU's driver", "waited in the GPU's driver" },
	[ST_BLOCKED_OTHER] = { "was blocked in the kernel for %D", "blocked in the kernel" },
	[ST_STOPPED] = { "was stopped for %D by a signal or a debugger", "stopped by a signal or a debugger" },
	[STATE_OTHER] = { "spent %D more in states that this version does not know", "states that this version does not know" },
};

/* What ran instead, if it was not a thread: see behind1_by in docs/profile-schema.md. */
enum nobody {
	SOMEBODY,
	NOBODY_IDLE,  /* its CPU had nothing to do */
	NOBODY_LIMIT, /* a limit of its cgroup held the thread back */
};

static enum nobody who_ran(const struct model *m, uint8_t state, uint32_t by, bool by_task)
{
	if (state != ST_RUNNABLE || !by)
		return SOMEBODY;
	if (!strcmp(model_text(m, by), "cpu.max"))
		return NOBODY_LIMIT;
	return !by_task && !strcmp(model_text(m, by), "idle") ? NOBODY_IDLE : SOMEBODY;
}

static void text_add_phrase(struct text *t, const char *phrase, int64_t ns)
{
	const char *where = strstr(phrase, "%D");

	text_add(t, "%.*s%s%s", (int)(where - phrase), phrase, DURATION(ns), where + 2);
}

const char *words_phrase(char buf[PHRASE_MAX], unsigned int state, int64_t ns)
{
	struct text t = text_in(buf, PHRASE_MAX);

	text_add_phrase(&t, phrases[state].longer, ns);
	return buf;
}

static void text_add_name(struct text *t, const struct model *m, uint32_t name)
{
	text_add(t, "`%s`", SHORT_NAME(m, name));
}

/* Who ran instead, or was in the way, and what that one did. */
static void text_add_culprit(struct text *t, const struct model *m, const struct process *p, const struct cause *c)
{
	bool own = c->n_behind && c->behind[0].pid == p->pid;

	if (c->wait)
		text_add(t, ", %s of it %s `%s`", DURATION(c->wait_ns), c->by_tid ? "by" : "in", GAP_NAME(m, c->wait));
	if ((!c->by && !c->by_tid) || (c->state != ST_RUNNABLE && c->state != ST_STOPPED))
		return;
	text_add(t, c->state == ST_RUNNABLE ? " behind " : ", until it was continued by ");
	if (c->by_tid)
		text_add(t, "%s %u%s", own ? "its own thread" : "pid", c->by_tid, c->by ? " " : "");
	if (c->by)
		text_add_name(t, m, c->by);
}

/* "139 ms behind pid 990 `cc1plus`", or "behind its own thread 990 `server`" */
static void text_add_behind(struct text *t, const struct model *m, const struct process *p, const struct behind_info *row, bool first)
{
	enum nobody nobody = who_ran(m, ST_RUNNABLE, row->by, row->tid != 0);

	text_add(t, "%s%s ", first ? "" : ", ", DURATION(row->ns));
	if (nobody == NOBODY_LIMIT) {
		text_add(t, "held back by a CPU limit (cgroup cpu.max)");
	} else if (nobody == NOBODY_IDLE) {
		text_add(t, "while it was idle");
	} else {
		text_add(t, "behind ");
		if (row->tid)
			text_add(t, "%s %u ", row->pid == p->pid ? "its own thread" : "pid", row->tid);
		text_add_name(t, m, row->by);
	}
}

/* Several threads were in the way, one after another. */
static void text_add_all_behind(struct text *t, const struct model *m, const struct process *p, const struct cause *c)
{
	int64_t others = c->behind_whole;
	uint32_t i;

	text_add(t, c->behind_all ? " (all workers: " : ": ");
	for (i = 0; i < c->n_behind && i < PARTS_SHOWN; i++) {
		const struct behind_info *row = &c->behind[i];

		if (i && row->ns < c->behind_whole / BEHIND_LEAST)
			break;
		text_add_behind(t, m, p, row, !i);
		others -= row->ns;
	}
	if (others >= c->behind_whole / BEHIND_LEAST)
		text_add(t, ", %s behind others", DURATION(others));
	if (c->behind_all)
		text_add(t, ")");
}

/* Whether naming one of the threads that ran meanwhile is enough. */
static bool cause_has_one_culprit(const struct cause *c)
{
	return !c->n_behind || (double)c->behind[0].ns >= BEHIND_ALONE * (double)c->behind_whole;
}

/* Numbers that go with the state. */
static void text_add_counts(struct text *t, const struct step *s, const struct cause *c)
{
	if (c->where != WHERE_OWN)
		return;
	if (c->state == ST_SYSCALL && s->syscalls)
		text_add(t, " (%u of them)", s->syscalls);
	else if (c->state == ST_FAULT && (s->faults_minor || s->faults_major))
		text_add(t, " (%u minor, %u major)", s->faults_minor, s->faults_major);
	else if (c->state == ST_BLOCKED_FAULT && s->faults_major)
		text_add(t, " (%u major fault%s)", s->faults_major, s->faults_major == 1 ? "" : "s");
}

static void text_add_subject(struct text *t, const struct model *m, const struct step *s, const struct cause *c)
{
	if (c->where == WHERE_OWN) {
		text_add(t, "the calling thread ");
	} else if (c->where != WHERE_NONE && !c->tid) {
		text_add(t, "the workers ");
	} else if (c->where != WHERE_NONE) {
		text_add(t, "worker %u ", c->tid);
		if (s->straggler_comm && c->tid == s->straggler_tid) {
			text_add_name(t, m, s->straggler_comm);
			text_add(t, " ");
		}
	}
}

const char *words_function(const struct model *m, uint32_t function, uint32_t line, char buf[FUNCTION_MAX])
{
	const char *name = model_text(m, m->code.functions[function].name), *end;
	char with_line[CODE_NAME_MAX + 16];

	if (line && *name) {
		/* "(file.py)" */
		end = name + strlen(name) - 1;
		snprintf(with_line, sizeof(with_line), "%.*s:%u%s", (int)(end - name), name, line, end);
		name = with_line;
	}
	return text_printable(buf, FUNCTION_MAX, name);
}

/* The function that holds most of what the step took longer. second: in the state that comes second. */
static void text_add_code(struct text *t, const struct model *m, const struct process *p, const struct slow_step *slow, bool second)
{
	struct code_hot hot = code_find_hot(m, p, slow, second);

	if (!hot.of.function)
		return;
	text_add(t, ", %s%s of it in `%s`", hot.samples ? "about " : "", DURATION(hot.ns),
		FUNCTION(m, hot.of.function, hot.of.line));
	if (hot.of.caller)
		text_add(t, ", called from `%s`", FUNCTION(m, hot.of.caller, hot.of.caller_line));
	if (hot.of.user)
		text_add(t, ", for `%s`", FUNCTION(m, hot.of.user, hot.of.user_line));
	if (hot.samples)
		text_add(t, " (%llu sample%s, usually %.1f)", LLU(hot.samples), hot.samples == 1 ? "" : "s", hot.usual);
}

static void text_add_cause(struct text *t, const struct model *m, const struct process *p, const struct step *s, const struct slow_step *slow)
{
	const struct cause *c = &slow->cause;
	enum nobody nobody = cause_has_one_culprit(c) ? who_ran(m, c->state, c->by, c->by_tid != 0) : SOMEBODY;
	/* its threads spun for much of the time in which they did not wait for one another */
	bool spins = s->own[ST_BARRIER] + s->workers[ST_BARRIER] > (s->own[ST_RUNNABLE] + s->workers[ST_RUNNABLE]) / 4;
	uint32_t op;
	int64_t ns;

	if (c->crowded)
		text_add(t, "%u %s threads share %u allowed CPU%s: ", step_workers(s) + 1, spins ? "spinning" : "busy", s->cpus_allowed,
			s->cpus_allowed == 1 ? "" : "s");
	text_add_subject(t, m, s, c);
	if (nobody == NOBODY_LIMIT) {
		text_add(t, "was held back for %s by a CPU limit (cgroup cpu.max)", DURATION(c->part));
	} else if (nobody == NOBODY_IDLE) {
		text_add(t, "waited %s for a CPU while its own was idle", DURATION(c->part));
	} else if (c->state == ST_BARRIER && c->tid) {
		text_add_phrase(t, "waited %D longer at barriers for worker ", c->part);
		text_add(t, "%u", c->tid);
		if (c->by_tid != c->tid)
			text_add_culprit(t, m, p, c);
	} else {
		text_add_phrase(t, c->unseen ? "computed or waited at barriers, which were left out, %D longer" : phrases[c->state].longer, c->part);
		text_add_counts(t, s, c);
		if (cause_has_one_culprit(c))
			text_add_culprit(t, m, p, c);
		else
			text_add_all_behind(t, m, p, c);
	}
	text_add_code(t, m, p, slow, false);
	if (c->second != STATE_NONE) {
		text_add(t, ", and %s", c->where == WHERE_OWN ? "" : "the calling thread ");
		text_add_phrase(t, phrases[c->second].longer, c->second_part);
		text_add_code(t, m, p, slow, true);
	}
	if (c->state != ST_CPU && c->state != ST_BARRIER && c->state != ST_GPU_WAIT)
		return;
	ns = cause_op(p, s, &op);
	if (op && ns >= c->part / 10)
		text_add(t, " (%s %s more)", SHORT_NAME(m, op), DURATION(ns));
}

static void text_add_step(struct text *t, const struct model *m, const struct process *p, const struct step *s)
{
	if (p->recordings > 1)
		text_add(t, "recording %u, ", s->recording + 1);
	text_add(t, "step %u", s->number);
	if (s->n_tokens > 1)
		text_add(t, " (%s of %u tokens)", SHORT_NAME(m, s->phase), s->n_tokens);
}

const char *words_slow(const struct model *m, const struct process *p, const struct slow_step *slow, char buf[SENTENCE_MAX])
{
	struct text t = text_in(buf, SENTENCE_MAX);
	const struct step loaded = steps_load(&p->steps, slow->step), *s = &loaded;
	const struct cause *c = &slow->cause;

	if (slow->gap) {
		text_add(&t, "before ");
		text_add_step(&t, m, p, s);
		if (slow->waiting)
			text_add(&t, ", no step for %s, for %s of which %u request%s waited", DURATION(s->gap),
				DURATION(c->excess), slow->waiting, slow->waiting == 1 ? "" : "s");
		else
			text_add(&t, ", %s instead of %s outside of the engine's steps", DURATION(s->gap),
				DURATION(c->typical));
		if (slow->call) {
			text_add(&t, ", %s of it in ", DURATION(slow->call_ns));
			text_add_name(&t, m, slow->call);
		}
		if (s->gap_by.name)
			text_add(&t, ", %s of it by `%s`", DURATION(s->gap_by.ns), GAP_NAME(m, s->gap_by.name));
		return buf;
	}
	text_add_step(&t, m, p, s);
	text_add(&t, ", %s", DURATION(s->total));
	if (c->compared)
		text_add(&t, " instead of %s", DURATION(c->typical));
	text_add(&t, ": ");
	text_add_cause(&t, m, p, s, slow);
	if (s->lost)
		text_add(&t, " (%u records lost meanwhile)", s->lost);
	return buf;
}

const char *words_cause(const struct model *m, const struct cause_sum *cause, char buf[SENTENCE_MAX])
{
	enum nobody nobody = who_ran(m, cause->state, cause->by, cause->by_task);
	struct text t = text_in(buf, SENTENCE_MAX);

	text_add(&t, "%s", cause->where == WHERE_OWN ? "" : "workers: ");
	if (cause->crowded) {
		text_add(&t, "waited for a CPU behind one another: more threads than allowed CPUs");
	} else if (cause->others) {
		text_add(&t, "waited for a CPU behind others");
	} else if (nobody == NOBODY_LIMIT) {
		text_add(&t, "held back by a CPU limit (cgroup cpu.max)");
	} else if (nobody == NOBODY_IDLE) {
		text_add(&t, "waited for a CPU while their own was idle");
	} else {
		text_add(&t, "%s", phrases[cause->state].shortly);
		if (cause->by) {
			text_add(&t, cause->state == ST_RUNNABLE ? " behind " : cause->state == ST_STOPPED ? ", until it was continued by "
														    : ", for ");
			text_add_name(&t, m, cause->by);
		}
	}
	return buf;
}

const char *words_open(const struct model *m, const struct process *p, const struct slow_step *open, char buf[SENTENCE_MAX])
{
	struct text t = text_in(buf, SENTENCE_MAX);
	const struct step loaded = steps_load(&p->steps, open->step), *s = &loaded;

	text_add_step(&t, m, p, s);
	text_add(&t, " had not ended after %s", DURATION(s->total));
	if (open->cause.where != WHERE_NONE) {
		text_add(&t, ": ");
		text_add_cause(&t, m, p, s, open);
	}
	if (s->lost)
		text_add(&t, " (%u records lost meanwhile)", s->lost);
	return buf;
}

const char *words_crowd(const struct crowd *c, char buf[SENTENCE_MAX])
{
	struct text t = text_in(buf, SENTENCE_MAX);

	text_add(&t, "%u %s threads share %u allowed CPU%s: they waited %s for it behind one another, "
		     "%.1f %% of the time of all threads in steps",
		c->threads, c->spin ? "spinning" : "busy", c->cpus, c->cpus == 1 ? "" : "s",
		DURATION(c->waited), 100 * (double)c->waited / (double)c->total);
	return buf;
}

const char *words_limited(const struct summary *sum, char buf[SENTENCE_MAX])
{
	struct text t = text_in(buf, SENTENCE_MAX);
	const struct crowd *c = &sum->limited;

	if (c->threads == 1)
		text_add(&t, "1 thread has ");
	else
		text_add(&t, "%u%s threads share ", c->threads, c->spin ? " spinning" : "");
	if (sum->cpu_limit)
		text_add(&t, "%.3g CPU%s", (double)sum->cpu_limit / 1000, sum->cpu_limit == 1000 ? "" : "s");
	else
		text_add(&t, "a limit of CPU time");
	text_add(&t, " (cgroup cpu.max): held back for %s, %.1f %% of the time of all threads in steps",
		DURATION(c->waited), 100 * (double)c->waited / (double)c->total);
	return buf;
}

/* Adds ", 4 of 4 slots taken"; without `of`, ", 4 slots taken". */
static void text_add_share(struct text *t, uint32_t n, uint32_t of, const char *what)
{
	if (!n)
		return;
	text_add(t, "%s%u", t->len ? ", " : "", n - 1);
	if (of)
		text_add(t, " of %u", of - 1);
	text_add(t, " %s", what);
}

const char *words_scheduler(const uint32_t said[SCHEDULER_VALUES], char buf[PHRASE_MAX])
{
	struct text t = text_in(buf, PHRASE_MAX);

	text_add_share(&t, said[SCHEDULER_WAITING], 0, "wait");
	text_add_share(&t, said[SCHEDULER_RUNNING], said[SCHEDULER_SLOTS], "slots taken");
	text_add_share(&t, said[SCHEDULER_KV_FREE], said[SCHEDULER_KV_BLOCKS], "blocks of the KV cache free");
	return buf;
}

bool requests_left_out(const struct request_summary *rs, char text[REQUESTS_TEXT_MAX])
{
	struct text t = text_in(text, REQUESTS_TEXT_MAX);
	uint64_t least = rs->mixed > rs->max_sequences ? rs->mixed : rs->max_sequences;

	if (!rs->mixed && !rs->began_before && !rs->lost)
		return false;
	text_add(&t, "left out of these times:");
	if (rs->mixed && rs->shared_steps && !rs->by_lines)
		text_add(&t,
			" at least %llu requests, which shared %llu steps with others (up to %llu sequences in one)",
			LLU(least), LLU(rs->shared_steps), LLU(rs->max_sequences));
	else if (rs->mixed)
		text_add(&t, " %llu requests that cannot be told from others", LLU(rs->mixed));
	if (rs->began_before)
		text_add(&t, "%s of the first token's, %llu request%s that began before the recording",
			rs->mixed ? ";" : "", LLU(rs->began_before), rs->began_before == 1 ? "" : "s");
	if (rs->lost)
		text_add(&t, "%s %llu requests during which steps were lost", rs->mixed || rs->began_before ? ";" : "", LLU(rs->lost));
	return true;
}
