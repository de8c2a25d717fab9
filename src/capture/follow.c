// SPDX-License-Identifier: BSD-2-Clause
#include "capture/follow.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "capture/links.h"
#include "capture/session.h"
#include "target/process.h"
#include "target/tasks.h"
#include "util/log.h"

#define SCANS_MAX 64 /* processes that are looked at in one go */
#define ROUNDS_MAX 8

/* A call costs a stranger a microsecond: from here on it is more than a thousandth of a CPU. */
#define STRANGERS_PER_SECOND 1000
#define NSEC_PER_SEC UINT64_C(1000000000)

struct scan {
	uint32_t tgid;
	uint64_t since_ns; /* of its birth or exec; 0: it mapped a file */
};

struct follow {
	struct session *session;
	struct attach *attach;
	struct tasks *tasks;
	struct scan scans[SCANS_MAX];
	size_t n_scans;
	uint64_t strangers, strangers_ns; /* at the begin of the second */
};

int follow_new(struct session *s, struct tasks *ts, struct follow **ret_follow)
{
	struct follow *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->session = s;
	f->attach = session_probes(s);
	f->tasks = ts;
	*ret_follow = f;
	return 0;
}

void follow_free(struct follow *f)
{
	free(f);
}

void follow_scan(struct follow *f)
{
	for (size_t i = 0; i < f->n_scans; i++)
		attach_process(f->attach, (pid_t)f->scans[i].tgid, f->scans[i].since_ns);
	f->n_scans = 0;
}

static void request_scan(struct follow *f, uint32_t tgid, uint64_t since_ns)
{
	for (size_t i = 0; i < f->n_scans; i++) {
		if (f->scans[i].tgid != tgid)
			continue;
		if (!f->scans[i].since_ns)
			f->scans[i].since_ns = since_ns;
		return;
	}
	if (f->n_scans == SCANS_MAX)
		follow_scan(f);
	f->scans[f->n_scans++] = (struct scan){ tgid, since_ns };
}

static void forget(struct follow *f, uint32_t tgid)
{
	attach_process_gone(f->attach, (pid_t)tgid);
	for (size_t i = 0; i < f->n_scans; i++) {
		if (f->scans[i].tgid == tgid)
			f->scans[i--] = f->scans[--f->n_scans];
	}
}

static void follow_task(struct follow *f, const struct rec_task *t)
{
	const struct rec_hdr *h = &t->h;

	switch (h->id) {
	case TASK_FORK:
		if (h->tid != h->tgid)
			break;
		forget(f, h->tgid); /* the end of the former owner of the number may be lost */
		if (attach_in_targets(f->attach) && !(h->flags & TASK_F_SHARES))
			request_scan(f, h->tgid, h->start_ns);
		break;
	case TASK_EXEC:
		if (t->arg != h->tgid) /* the main thread is another one now */
			attach_process_gone(f->attach, (pid_t)h->tgid);
		request_scan(f, h->tgid, h->start_ns);
		break;
	case TASK_EXIT:
		if (h->flags & TASK_F_LAST)
			forget(f, h->tgid);
		else if (h->tid == h->tgid)
			attach_main_thread_gone(f->attach);
		break;
	}
}

void follow_record(struct follow *f, const struct rec_hdr *h)
{
	if (h->kind == REC_TASK)
		follow_task(f, (const struct rec_task *)h);
	else if (h->kind == REC_MAPPED)
		request_scan(f, h->tgid, 0);
}

static void rescan_one(struct task *t, void *arg)
{
	request_scan(arg, t->tgid, 0);
}

void follow_rescan(struct follow *f)
{
	tasks_each_process(f->tasks, rescan_one, f);
	follow_scan(f);
}

struct target_list {
	pid_t pids[LINKS_PROCESSES_MAX];
	size_t n;
	bool fit; /* to be told apart by the kernel */
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

/* Children are born meanwhile: until a moment in which none was, or else they are late. */
static void to_targets(struct follow *f)
{
	struct target_list l = { .fit = true };

	if (attach_in_targets_begin(f->attach))
		return;
	session_drain_control(f->session);
	tasks_each_process(f->tasks, list_target, &l);
	if (!l.fit) {
		attach_everywhere(f->attach, "too many targets, or one without its main thread");
		return;
	}
	for (size_t i = 0; i < l.n; i++)
		attach_process(f->attach, l.pids[i], 0);
	for (int round = 0; round < ROUNDS_MAX; round++) {
		session_drain_control(f->session);
		if (!f->n_scans)
			break;
		follow_scan(f);
	}
	attach_in_targets_commit(f->attach);
	if (attach_in_targets(f->attach))
		log_debug("other processes call the probed functions: probes are only in those "
			  "recorded now (%zu)",
			l.n);
}

void follow_strangers(struct follow *f, uint64_t now_ns)
{
	uint64_t n = session_stats(f->session)->strangers;

	if (n - f->strangers > STRANGERS_PER_SECOND)
		to_targets(f);
	if (now_ns - f->strangers_ns < NSEC_PER_SEC)
		return;
	f->strangers = n;
	f->strangers_ns = now_ns;
}

void follow_summary(const struct follow *f)
{
	struct attach_late late = attach_late(f->attach);

	if (late.processes)
		log_info("%u child processes got their function probes up to %.1f ms after they "
			 "began; calls before that are missing",
			late.processes, (double)late.ns_max / 1e6);
}
