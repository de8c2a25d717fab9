// SPDX-License-Identifier: BSD-2-Clause
#include "capture/follow.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/hold.h"
#include "capture/links.h"
#include "capture/python.h"
#include "capture/session.h"
#include "capture/watch.h"
#include "target/process.h"
#include "target/tasks.h"
#include "util/clock.h"
#include "util/list.h"
#include "util/log.h"

#define ROUNDS_MAX 8
#define PLACED_MAX 64 /* files with probes that one process maps at once */

/*
 * Scanning the mappings of a process usually takes 0.3 ms, and 20 ms if it has as many as it may. A process that maps
 * files all the time gets a tenth of a CPU, and all together a fifth; one that was scanned a moment ago has to wait. A
 * birth or an exec does not wait, since it costs the process at least as much work as inftrace. Nor does a held process.
 */
#define DEAR_NS 500000
#define DEBT_MAX_NS 5000000
#define ALL_DEBT_MAX_NS 20000000
#define SHARE 10
#define ALL_SHARE 5
#define DEBTORS 64

/* Each call costs another process a microsecond: at this rate, a thousandth of a CPU. */
#define STRANGERS_PER_SECOND 1000

/* Files that no target has mapped for UNUSED_NS lose their probes; a sweep of all targets looks for them each SWEEP_NS. */
#define UNUSED_NS (30 * NSEC_PER_SEC)
#define SWEEP_NS (10 * NSEC_PER_SEC)

struct follow_scan {
	uint32_t tgid;
	uint64_t since_ns;  /* when it was born or called exec; 0: it mapped a file */
	uint64_t mapped_ns; /* when it mapped the first file since the last look; 0: unknown */
	bool sweep;         /* a sweep waits for it */
};

/* The time that was spent on a process, less its allowance since then. */
struct debt {
	uint32_t tgid;
	uint64_t ns, at_ns;
};

struct follow {
	struct session *session;
	struct tasks *tasks;
	struct follow_scan *scans;      /* one for each process */
	size_t n_scans, cap_scans;
	bool scanning; /* follow_scan() is running; records arrive meanwhile */
	struct debt all, debts[DEBTORS];
	unsigned int next_debt;
	uint64_t strangers, strangers_ns; /* at the beginning of the second */
	struct {
		bool on;                    /* files lose their probes */
		bool failed;                /* some target could not be looked at: it may have mapped anything */
		uint64_t begun_ns, next_ns; /* begun_ns 0: no sweep is under way */
	} sweep;
	/* files in which the current look has placed probes */
	char placed[PLACED_MAX][PLACED_NAME_LEN];
	size_t n_placed;
};

static void note_placed(const char *file, void *arg)
{
	struct follow *f = arg;
	if (f->n_placed < PLACED_MAX)
		snprintf(f->placed[f->n_placed++], PLACED_NAME_LEN, "%s", basename(file));
}

struct follow *follow_new(struct session *s, struct tasks *ts, bool sweeps)
{
	struct follow *f = xcalloc(1, sizeof(*f));

	f->session = s;
	f->tasks = ts;
	f->sweep.on = sweeps;
	s->attach->placed = note_placed;
	s->attach->placed_arg = f;
	return f;
}

void follow_free(struct follow *f)
{
	if (f)
		free(f->scans);
	free(f);
}

static void debt_decay(struct debt *d, uint64_t share, uint64_t now)
{
	uint64_t right = (now - d->at_ns) / share;

	d->ns -= right < d->ns ? right : d->ns;
	d->at_ns = now;
}

static struct debt *debt_find(struct follow *f, uint32_t tgid)
{
	for (unsigned int i = 0; i < DEBTORS; i++) {
		if (f->debts[i].tgid == tgid)
			return &f->debts[i];
	}
	return NULL;
}

static bool may_scan(struct follow *f, const struct follow_scan *s, uint64_t now)
{
	struct debt *d = debt_find(f, s->tgid);

	if (s->since_ns || hold_waits(f->session->hold, (pid_t)s->tgid))
		return true;
	debt_decay(&f->all, ALL_SHARE, now);
	if (d)
		debt_decay(d, SHARE, now);
	return f->all.ns <= ALL_DEBT_MAX_NS && (!d || d->ns <= DEBT_MAX_NS);
}

static void add_debt(struct follow *f, uint32_t tgid, uint64_t ns, uint64_t now)
{
	struct debt *d = debt_find(f, tgid);

	f->all.ns += ns;
	if (!d && ns >= DEAR_NS) {
		d = &f->debts[f->next_debt];
		*d = (struct debt){ .tgid = tgid, .at_ns = now };
		f->next_debt = (f->next_debt + 1) % DEBTORS;
	}
	if (d)
		d->ns += ns;
}

/* Reports that calls of the process in these files may have been missed. */
static void report_placed(struct follow *f, const struct follow_scan *s)
{
	struct rec_placed r = {
		.h = { .kind = REC_PLACED, .start_ns = s->mapped_ns, .tgid = s->tgid, .tid = s->tgid },
	};
	size_t n = f->n_placed;

	r.h.dur_ns = clock_boot_ns() - s->mapped_ns;
	for (size_t i = 0; i < n; i++) {
		memcpy(r.file, f->placed[i], sizeof(r.file));
		f->session->cb(&r.h, sizeof(r), f->session->cb_arg);
	}
}

static void scan_process(struct follow *f, const struct follow_scan *s)
{
	pid_t pid = (pid_t)s->tgid;
	uint64_t begun = clock_ns(CLOCK_THREAD_CPUTIME_ID), ns, mapped = hold_begin(f->session->hold, pid);
	int sites;

	f->n_placed = 0;
	/* without its main thread a process seems to map nothing */
	f->sweep.failed |= s->sweep && process_exists(pid) && !process_main_thread_lives(pid);
	sites = attach_process(f->session->attach, pid, s->since_ns);
	pythons_look(f->session->pythons, pid);
	hold_end(f->session->hold, pid, mapped);
	f->sweep.failed |= s->sweep && sites < 0 && sites != -ESRCH;
	if (f->n_placed && s->mapped_ns && !hold_covers(f->session->hold, pid, mapped, s->mapped_ns))
		report_placed(f, s);
	ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
	/* placing probes is the purpose, and reading the files has a budget of its own */
	if (sites > 0 && ns > DEAR_NS)
		ns = DEAR_NS;
	add_debt(f, s->tgid, ns, clock_boot_ns());
}

static void add_scan(struct follow *f, const struct follow_scan *s)
{
	for (size_t i = 0; i < f->n_scans; i++) {
		struct follow_scan *old = &f->scans[i];

		if (old->tgid != s->tgid)
			continue;
		if (!old->since_ns)
			old->since_ns = s->since_ns;
		if (!old->mapped_ns || (s->mapped_ns && s->mapped_ns < old->mapped_ns))
			old->mapped_ns = s->mapped_ns;
		old->sweep |= s->sweep;
		return;
	}
	*list_push(f->scans, f->n_scans, f->cap_scans) = *s;
}

void follow_scan(struct follow *f)
{
	struct follow_scan *scans = f->scans;
	size_t n = f->n_scans;

	/* records that arrive meanwhile go into a new list, as do processes that have to wait */
	if (f->scanning || !n)
		return;
	f->scanning = true;
	f->scans = NULL;
	f->n_scans = f->cap_scans = 0;
	for (size_t i = 0; i < n; i++) {
		if (may_scan(f, &scans[i], clock_boot_ns()))
			scan_process(f, &scans[i]);
		else
			add_scan(f, &scans[i]);
	}
	free(scans);
	f->scanning = false;
}

static void follow_forget_process(struct follow *f, uint32_t tgid)
{
	links_drop_process(f->session->attach->links, (pid_t)tgid);
	hold_forget(f->session->hold, (pid_t)tgid);
	for (size_t i = 0; i < f->n_scans; i++) {
		if (f->scans[i].tgid != tgid)
			continue;
		f->session->attach->probed_late.never += f->scans[i].since_ns && links_state(f->session->attach->links) == LINKS_BY_PROCESS;
		f->scans[i--] = f->scans[--f->n_scans];
	}
}

/* Whether probes are only where attach_process() has put them, and new processes have none. */
static bool are_in_targets(const struct follow *f)
{
	return links_state(f->session->attach->links) != LINKS_EVERYWHERE;
}

void follow_record(struct follow *f, const struct rec_hdr *h, enum process_news news)
{
	const struct rec_task *r = (const struct rec_task *)h;

	switch (news) {
	case NEWS_FORK:
		follow_forget_process(f, h->tgid); /* the end of an earlier process with this number may have been lost */
		if (f->sweep.begun_ns)             /* its parent may be gone before it is scanned */
			add_scan(f, &(struct follow_scan){ .tgid = h->tgid, .sweep = true });
		if (are_in_targets(f) && !(h->flags & TASK_F_SHARES))
			add_scan(f, &(struct follow_scan){ .tgid = h->tgid, .since_ns = h->start_ns });
		break;
	case NEWS_EXEC:
		/* another thread is the main thread now, or it lacks links that the new program needs */
		if (r->arg != h->tgid || links_watches(f->session->attach->links, (pid_t)h->tgid))
			links_drop_process(f->session->attach->links, (pid_t)h->tgid);
		add_scan(f, &(struct follow_scan){ .tgid = h->tgid, .since_ns = h->start_ns, .mapped_ns = h->start_ns });
		break;
	case NEWS_MAPPED:
		add_scan(f, &(struct follow_scan){ .tgid = h->tgid, .mapped_ns = h->start_ns });
		return;
	case NEWS_HEADLESS: /* the kernel identifies the process by it */
		attach_everywhere(f->session->attach, "the main thread of a target has exited");
		return;
	case NEWS_GONE:
		follow_forget_process(f, h->tgid);
		break;
	case NEWS_NONE:
		return;
	}
	pythons_process(f->session->pythons, news == NEWS_FORK ? r->ptgid : 0, h->tgid);
}

static void add_rescan(struct task *t, void *arg)
{
	add_scan(arg, &(struct follow_scan){ .tgid = t->tgid });
}

void follow_rescan(struct follow *f)
{
	tasks_each_process(f->tasks, add_rescan, f);
	follow_scan(f);
}

/* ---- files that nobody maps any more ---- */

static void add_sweep_scan(struct task *t, void *arg)
{
	add_scan(arg, &(struct follow_scan){ .tgid = t->tgid, .sweep = true });
}

void follow_turn(struct follow *f, uint64_t now_ns)
{
	bool waits = false, any = false;

	links_closing(f->session->attach->links);
	if (!f->sweep.on || f->scanning)
		return;
	for (size_t i = 0; i < f->n_scans && f->sweep.begun_ns; i++)
		waits |= f->scans[i].sweep;
	if (f->sweep.begun_ns && !waits) {
		if (!f->sweep.failed && f->sweep.begun_ns > UNUSED_NS)
			any = attach_give_back(f->session->attach, f->sweep.begun_ns - UNUSED_NS);
		f->sweep.begun_ns = 0;
		/* a process may have mapped a file after its scan, and the record of it may be lost: scans again at once */
		f->sweep.next_ns = now_ns + (any ? 0 : SWEEP_NS);
	} else if (!f->sweep.begun_ns && now_ns >= f->sweep.next_ns) {
		f->sweep.begun_ns = now_ns;
		f->sweep.failed = false;
		tasks_each_process(f->tasks, add_sweep_scan, f);
	}
}

struct target_list {
	pid_t pids[LINKS_PROCESSES_MAX];
	size_t n;
	bool fit; /* the kernel can tell them apart */
};

static void list_target(struct task *t, void *arg)
{
	struct target_list *l = arg;

	if (!process_exists((pid_t)t->tgid))
		return;
	l->fit &= l->n < LINKS_PROCESSES_MAX && process_main_thread_lives((pid_t)t->tgid);
	if (l->fit)
		l->pids[l->n++] = (pid_t)t->tgid;
}

/* Moves the probes to the targets. Repeats while children are born, up to ROUNDS_MAX times: later ones are probed late. */
static void follow_move_to_targets(struct follow *f, const char *why)
{
	struct target_list l = { .fit = true };

	if (f->scanning || links_begin(f->session->attach->links))
		return;
	session_drain_control(f->session);
	tasks_each_process(f->tasks, list_target, &l);
	if (!l.fit) {
		attach_everywhere(f->session->attach, "too many targets, or one without its main thread");
		return;
	}
	for (size_t i = 0; i < l.n; i++)
		attach_process(f->session->attach, l.pids[i], 0);
	for (int round = 0; round < ROUNDS_MAX; round++) {
		session_drain_control(f->session);
		if (!f->n_scans)
			break;
		follow_scan(f);
	}
	links_commit(f->session->attach->links);
	if (are_in_targets(f))
		log_debug("%s: probes are only in those recorded now (%zu)", why, l.n);
}

void follow_strangers(struct follow *f, uint64_t now_ns)
{
	uint64_t n = session_stats(f->session)->strangers;

	if (n - f->strangers > STRANGERS_PER_SECOND)
		follow_move_to_targets(f, "other processes call the probed functions");
	if (now_ns - f->strangers_ns < NSEC_PER_SEC)
		return;
	f->strangers = n;
	f->strangers_ns = now_ns;
}

void follow_watches(struct follow *f, uint64_t now_ns)
{
	if (!watches_turn(f->session->watches, now_ns))
		return;
	if (!are_in_targets(f))
		follow_move_to_targets(f, "one process needs no probes at Python functions");
	watches_take_over(f->session->watches);
}

void follow_summary(const struct follow *f)
{
	if (f->session->attach->probed_late.processes)
		log_info("%u child processes got their function probes up to %.1f ms after they began; calls before that are missing",
			f->session->attach->probed_late.processes, (double)f->session->attach->probed_late.ns_max / 1e6);
	if (f->session->attach->probed_late.never)
		log_info("%u child processes ended before they got function probes; calls that they made are missing", f->session->attach->probed_late.never);
}
