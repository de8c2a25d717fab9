// SPDX-License-Identifier: BSD-2-Clause
/*
 * inftrace why: a recording of some seconds tells which threads call the engine, and where that time went. At its end each of
 * them is followed: what it does, for whom it waits, and what that thread does, and so on.
 *
 * For whom a thread waits that waits now is not known from wake-ups, since nobody has woken it yet. Known is who holds a lock,
 * if its word says so, and for which child it waits; else the thread that has woken it most often until now is named as that.
 */
#include "top/why.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/session.h"
#include "format/stack_text.h"
#include "report/output.h"
#include "sink/sink.h"
#include "target/process.h"
#include "target/python.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/program.h"
#include "util/text.h"
#include "waits/way_back.h"

#define THREADS_MAX 16 /* that call the engine; others are left out */
#define CHAIN_MAX 8
#define SHOWN_MAX 64 /* later ones are shown once more */
#define STACKS_MAX 256 /* of threads that wait at the end, and of those that ran; others are shown without */
#define FRAMES_SHOWN 5
#define BUSIEST 3 /* threads that are shown of a process without steps */
#define OFTEN_SHARE 0.5

/* A thread that calls the engine. */
struct caller {
	uint32_t tgid, tid, step;
	uint64_t start_ns, end_ns; /* of its last step */
	bool open;                 /* which has not ended */
	uint32_t scheduler[SCHEDULER_VALUES]; /* as in struct rec_step */
};

/* What a thread does, by /proc. */
struct doing {
	pid_t tgid, tid;
	char comm[TASK_COMM_LEN];
	char state; /* as in proc_pid_stat(5) */
	long call;  /* -1: none, or not known */
	uint64_t args[2];
};

/* A thread that waits at the end. */
struct waiting {
	uint32_t tid, stack; /* its number in the recording */
};

/* The latest sample of a thread on a CPU. */
struct running {
	uint32_t tid, stack;
	uint64_t ns;
};

struct why {
	struct view view;
	struct sink sink;
	const struct record_options *o;
	const struct recording *rec;
	struct wait_walker *walker;
	uint64_t due_ns, now_ns;
	struct caller callers[THREADS_MAX];
	size_t n_callers, more_callers;
	struct waiting waiting[STACKS_MAX];
	size_t n_waiting;
	struct running running[STACKS_MAX]; /* if full, further threads have none */
	size_t n_running;
	struct {
		uint64_t seen, unanswered, oldest_ns; /* requests, those without an answer, and when the first of these came */
	} requests[2]; /* [1]: HTTP's. If there are any, others are messages between processes */
	pid_t shown[SHOWN_MAX];
	size_t n_shown;
	char *text; /* the first part of the screen */
	size_t len;
	FILE *out; /* writes it */
};

/* ---- what a thread does ---- */

static bool doing_read(pid_t tid, struct doing *ret)
{
	char name[64], text[512];
	const char *at;

	*ret = (struct doing){ .tid = tid, .call = -1 };
	if (process_tgid(tid, &ret->tgid) || process_comm(tid, ret->comm))
		return false;
	snprintf(name, sizeof(name), "task/%d/stat", tid);
	if (process_file(ret->tgid, name, text, sizeof(text)))
		return false;
	at = strrchr(text, ')'); /* the name before it may contain any character */
	if (!at || sscanf(at + 1, " %c", &ret->state) != 1)
		return false;
	snprintf(name, sizeof(name), "task/%d/syscall", tid);
	if (process_file(ret->tgid, name, text, sizeof(text)) ||
		sscanf(text, "%ld %lx %lx", &ret->call, &ret->args[0], &ret->args[1]) != 3)
		ret->call = -1;
	return true;
}

/*
 * The thread that holds the lock it waits for, and its process; 0: none is known. A lock with priority inheritance has the
 * thread's number in its word (futex(2)). A mutex of glibc has 1 or 2 there, and the number two words later (__owner of struct
 * __pthread_mutex_s, nptl).
 */
static pid_t lock_owner(const struct doing *d, pid_t *ret_tgid)
{
	int cmd = (int)d->args[1] & FUTEX_CMD_MASK;
	uint32_t words[3] = {};
	char path[32];
	pid_t owner;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", d->tgid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (pread(fd, words, sizeof(words), (off_t)d->args[0]) != sizeof(words))
		words[0] = 0;
	close(fd);
	if (cmd == FUTEX_LOCK_PI || cmd == FUTEX_LOCK_PI2)
		owner = (pid_t)(words[0] & FUTEX_TID_MASK);
	else
		owner = words[0] == 1 || words[0] == 2 ? (pid_t)words[2] : 0;
	return owner > 0 && !process_tgid(owner, ret_tgid) ? owner : 0;
}

#define GIL_WORDS 16 /* before what a thread waits for: more than there are in any version */

/*
 * Whether it waits for the lock of a Python interpreter, and for which thread that has it; 0: not known. Of the lock's words before
 * that at which threads wait, one has the state of the thread that took it last (CPython: struct _gil_runtime_state), and
 * that has its number, from 3.11 on.
 */
static bool waits_for_gil(const struct doing *d, pid_t *ret_owner)
{
	struct python_finder *finder = python_finder_new();
	uint64_t words[GIL_WORDS], native;
	struct python p = { 0 };
	int err = python_find(finder, d->tgid, &p), fd;
	char path[32];
	pid_t tgid;

	python_finder_free(finder);
	*ret_owner = 0;
	if ((err && err != -ENOTSUP) || d->args[0] - p.walk.runtime >= p.runtime_bytes)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/mem", d->tgid);
	fd = err || p.walk.thread_native == PYTHON_NO_OFFSET ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	if (pread(fd, words, sizeof(words), (off_t)((d->args[0] & ~7ull) - sizeof(words))) != sizeof(words))
		memset(words, 0, sizeof(words));
	for (int i = GIL_WORDS - 1; i >= 0 && !*ret_owner; i--) {
		if (words[i] && pread(fd, &native, sizeof(native), (off_t)(words[i] + p.walk.thread_native)) == sizeof(native) && native < INT_MAX &&
			(pid_t)native != d->tid && !process_tgid((pid_t)native, &tgid) && tgid == d->tgid)
			*ret_owner = (pid_t)native;
	}
	close(fd);
	return true;
}

/* The child that it waits for; 0: several, or none. */
static pid_t waited_child(const struct doing *d)
{
	char name[64], text[512];
	int child, end = 0;

	if (d->call == SYS_wait4 && (int)d->args[0] > 0)
		return (int)d->args[0];
	if (d->call == SYS_waitid && d->args[0] == 1) /* P_PID of <linux/wait.h> */
		return (int)d->args[1];
	snprintf(name, sizeof(name), "task/%d/children", d->tid);
	if (process_file(d->tgid, name, text, sizeof(text)) || sscanf(text, "%d %n", &child, &end) != 1)
		return 0;
	return text[end] ? 0 : child;
}

static bool call_waits_for_child(long call)
{
	return call == SYS_wait4 || call == SYS_waitid;
}

static bool call_has_file(long call)
{
	return call >= 0 && syscall_class((unsigned int)call) == SYS_FD;
}

static void put_file(FILE *out, const struct doing *d)
{
	char path[64], link[256], shown[256];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", d->tgid, (int)d->args[0]);
	n = readlink(path, link, sizeof(link) - 1);
	if (n <= 0)
		return;
	link[n] = '\0';
	fprintf(out, " from %s", text_printable(shown, sizeof(shown), link));
}

/* How long it has done so. */
static void put_since(struct why *w, const struct doing *d)
{
	uint64_t end_ns;
	bool before;

	if (!w->walker)
		return;
	end_ns = last_run_end(w->walker, (uint32_t)d->tid, w->rec->start_boot_ns, w->now_ns, &before);
	if (end_ns && end_ns < w->now_ns)
		fprintf(w->out, " for %s%s", before ? "more than " : "", DURATION((int64_t)(w->now_ns - end_ns)));
}

static void put_thread(FILE *out, const struct doing *d, pid_t tgid)
{
	char shown[2 * TASK_COMM_LEN];

	fprintf(out, "thread %d `%s`", d->tid, text_printable(shown, sizeof(shown), d->comm));
	if (d->tgid != tgid)
		fprintf(out, " of process %d", d->tgid);
}

static void put_doing(struct why *w, const struct doing *d)
{
	const char *call = d->call < 0 ? NULL : syscall_name((unsigned int)d->call);
	char wchan[64] = "";
	char name[64];

	snprintf(name, sizeof(name), "task/%d/wchan", d->tid);
	switch (d->state) {
	case 'R':
		fprintf(w->out, "runs, or waits for a CPU");
		return;
	case 'T':
	case 't':
		fprintf(w->out, "is stopped by a signal or a debugger");
		break;
	case 'Z':
	case 'X':
		fprintf(w->out, "has ended");
		return;
	case 'D':
		if (process_file(d->tgid, name, wchan, sizeof(wchan)))
			wchan[0] = '\0';
		fprintf(w->out, "waits for the kernel, in %s%s%s", call ? call : "a page fault", *wchan ? ": " : "",
			text_printable(name, sizeof(name), wchan));
		break;
	default:
		if (!call)
			fprintf(w->out, "waits");
		else if (syscall_class((unsigned int)d->call) == SYS_SLEEP)
			fprintf(w->out, "sleeps in %s", call);
		else if (syscall_class((unsigned int)d->call) == SYS_POLL)
			fprintf(w->out, "waits for events in %s", call);
		else
			fprintf(w->out, "waits in %s", call);
	}
	if (call_has_file(d->call))
		put_file(w->out, d);
	put_since(w, d);
}

/* ---- for whom it waits ---- */

/* The thread that the waiting one waits for, said in the same line; 0: none. */
static pid_t put_culprit(struct why *w, const struct doing *d)
{
	struct frequent_waker often = {};
	pid_t next, tgid, parent;

	if (d->state != 'S' && d->state != 'D')
		return 0;
	if (d->call == SYS_futex && waits_for_gil(d, &next)) {
		fprintf(w->out, ", for the GIL");
		if (next)
			fprintf(w->out, ", which thread %d has", next);
		return next;
	}
	next = d->call == SYS_futex ? lock_owner(d, &tgid) : 0;
	if (next && tgid == d->tgid) {
		if (next == d->tid)
			fprintf(w->out, ", for a lock that it holds itself");
		else
			fprintf(w->out, ", for a lock that thread %d holds", next);
		return next;
	}
	if (next && !process_parent(d->tgid, &parent) && tgid == parent) {
		fprintf(w->out, ", for a lock that thread %d of process %d held when it forked this process: nobody releases it here", next, tgid);
		return 0;
	}
	if (call_waits_for_child(d->call) && (next = waited_child(d))) {
		fprintf(w->out, ", for process %d", next);
		return next;
	}
	if (d->call >= 0 && syscall_class((unsigned int)d->call) == SYS_SLEEP)
		return 0;
	if (w->walker)
		frequent_waker_find(w->walker, (uint32_t)d->tid, w->rec->start_boot_ns, &often);
	if (!often.tid || (double)often.wakes < OFTEN_SHARE * (double)often.of)
		return 0;
	fprintf(w->out, "; until now thread %u woke it %llu of %llu times", often.tid, LLU(often.wakes), LLU(often.of));
	return (pid_t)often.tid;
}

#define STILL_NS 100000000 /* what ran so long ago may be over */

/* The stack in which a thread waits, or has run a moment ago. */
static uint32_t stack_of(const struct why *w, const struct doing *d)
{
	for (size_t i = 0; i < w->n_waiting && d->state != 'R'; i++) {
		if (w->waiting[i].tid == (uint32_t)d->tid)
			return w->waiting[i].stack;
	}
	for (size_t i = 0; i < w->n_running && d->state == 'R'; i++) {
		if (w->running[i].tid == (uint32_t)d->tid && w->running[i].ns + STILL_NS > w->now_ns)
			return w->running[i].stack;
	}
	return STACK_NONE;
}

/* Where it is: from the innermost function that says something outwards, "in a < b < main". */
static void put_stack(struct why *w, const struct doing *d)
{
	uint32_t stack = stack_of(w, d);
	char text[STACK_TEXT_MAX], shown[STACK_TEXT_MAX];
	const struct frame *subject, *f;
	const uint32_t *frames;
	unsigned int n, shown_frames = 0;

	if (stack == STACK_NONE || !w->rec->stacks || !(subject = stack_subject(w->rec->stacks, stack)))
		return;
	n = stacks_get(w->rec->stacks, stack, &frames);
	for (unsigned int k = 0; k < n && shown_frames < FRAMES_SHOWN; k++) {
		f = stacks_frame(w->rec->stacks, frames[k]);
		if (!f || (!shown_frames && f != subject))
			continue;
		stack_text_name(f, text);
		if (shown_frames && (!strncmp(text, "__libc_start", 12) || !strcmp(text, "start_thread"))) /* what every thread begins with */
			break;
		fprintf(w->out, "%s%.100s", shown_frames++ ? " < " : "        in ", text_printable(shown, sizeof(shown), text));
	}
	if (shown_frames)
		fprintf(w->out, "\n");
}

static bool was_shown(struct why *w, pid_t tid)
{
	for (size_t i = 0; i < w->n_shown; i++) {
		if (w->shown[i] == tid)
			return true;
	}
	if (w->n_shown < SHOWN_MAX)
		w->shown[w->n_shown++] = tid;
	return false;
}

/* Follows a thread to those that it waits for, a line each. */
static void put_chain(struct why *w, pid_t tgid, pid_t tid)
{
	struct doing d;

	for (unsigned int n = 0; tid && n < CHAIN_MAX && !was_shown(w, tid); n++) {
		fprintf(w->out, n ? "      " : "    ");
		if (!doing_read(tid, &d)) {
			fprintf(w->out, "thread %d has ended\n", tid);
			return;
		}
		put_thread(w->out, &d, tgid);
		fprintf(w->out, " ");
		put_doing(w, &d);
		tid = put_culprit(w, &d);
		fprintf(w->out, "\n");
		put_stack(w, &d);
	}
}

/* ---- threads that call the engine, or else those that have run most ---- */

struct busy_thread {
	uint64_t ticks;
	pid_t tid;
};

struct busy_threads {
	pid_t tgid;
	size_t n, all;
	struct busy_thread list[BUSIEST];
};

static int add_busy(pid_t tid, void *arg)
{
	struct busy_threads *b = arg;
	unsigned long user, kernel;
	char name[64], text[512];
	const char *at;
	size_t i;

	snprintf(name, sizeof(name), "task/%d/stat", tid);
	if (process_file(b->tgid, name, text, sizeof(text)) || !(at = strrchr(text, ')')) ||
		/* utime and stime, the 14th and 15th field of proc_pid_stat(5) */
		sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2)
		return 0;
	b->all++;
	for (i = b->n; i > 0 && b->list[i - 1].ticks < user + kernel; i--) {
		if (i < BUSIEST)
			b->list[i] = b->list[i - 1];
	}
	if (i < BUSIEST) {
		b->list[i] = (struct busy_thread){ user + kernel, tid };
		b->n += b->n < BUSIEST;
	}
	return 0;
}

static void put_process(struct why *w, pid_t pid)
{
	struct busy_threads busy = { .tgid = pid };

	process_each_thread(pid, add_busy, &busy);
	fprintf(w->out, "  Process %d ran no step of an engine. Of its %zu thread%s those that have run most:\n", pid, busy.all,
		busy.all == 1 ? "" : "s");
	for (size_t i = 0; i < busy.n; i++)
		put_chain(w, pid, busy.list[i].tid);
}

static void put_caller(struct why *w, const struct caller *c)
{
	char said[PHRASE_MAX];

	if (c->open)
		fprintf(w->out, "  Step %u of process %u has not ended for %s:\n", c->step, c->tgid, DURATION((int64_t)(w->now_ns - c->start_ns)));
	else
		fprintf(w->out, "  No step for %s, since step %u of process %u:\n", DURATION((int64_t)(w->now_ns - c->end_ns)), c->step, c->tgid);
	put_chain(w, (pid_t)c->tgid, (pid_t)c->tid);
	words_scheduler(c->scheduler, said);
	if (*said)
		fprintf(w->out, "    its scheduler, at last: %s\n", said);
}

static void put_now(struct why *w)
{
	bool http = w->requests[1].seen;
	uint64_t unanswered = w->requests[http].unanswered;

	fprintf(w->out, "Now:\n");
	if (unanswered)
		fprintf(w->out, "  %llu request%s no answer yet; the first one came %s ago\n", LLU(unanswered), unanswered == 1 ? " has" : "s have",
			DURATION((int64_t)(w->now_ns - w->requests[http].oldest_ns)));
	for (size_t i = 0; i < w->n_callers; i++)
		put_caller(w, &w->callers[i]);
	if (w->more_callers)
		fprintf(w->out, "  (and other threads that call the engine)\n");
	for (size_t i = 0; i < w->o->n_pids; i++) {
		bool calls = false;

		for (size_t k = 0; k < w->n_callers; k++)
			calls |= w->callers[k].tgid == (uint32_t)w->o->pids[i];
		if (!calls && process_exists(w->o->pids[i]))
			put_process(w, w->o->pids[i]);
	}
}

/* ---- the view ---- */

static void why_step(struct why *w, const struct rec_step *r)
{
	struct caller *c = w->callers;

	while (c < w->callers + w->n_callers && (c->tgid != r->h.tgid || c->tid != r->h.tid))
		c++;
	if (c == w->callers + THREADS_MAX) {
		w->more_callers++;
		return;
	}
	w->n_callers += c == w->callers + w->n_callers;
	if (r->h.start_ns + r->h.dur_ns < c->end_ns)
		return;
	c->tgid = r->h.tgid;
	c->tid = r->h.tid;
	c->step = r->number;
	c->start_ns = r->h.start_ns;
	c->end_ns = r->h.start_ns + r->h.dur_ns;
	c->open = r->h.flags & REC_F_OPEN_END;
	if (!c->open || r->scheduler[SCHEDULER_WAITING]) /* its scheduler may not have spoken yet */
		memcpy(c->scheduler, r->scheduler, sizeof(c->scheduler));
}

static void why_sample(struct why *w, const struct rec_stack *r)
{
	size_t i = 0;

	while (i < w->n_running && w->running[i].tid != r->h.tid)
		i++;
	if (i == STACKS_MAX)
		return;
	w->n_running += i == w->n_running;
	w->running[i] = (struct running){ r->h.tid, r->stack, r->h.start_ns };
}

static void why_request(struct why *w, const struct rec_request *r)
{
	bool http = r->http;

	w->requests[http].seen++;
	if (!(r->h.flags & REC_F_OPEN_END))
		return;
	if (!w->requests[http].unanswered++ || r->h.start_ns < w->requests[http].oldest_ns)
		w->requests[http].oldest_ns = r->h.start_ns;
}

static void why_record(struct sink *s, const struct rec_hdr *h, size_t size)
{
	struct why *w = (struct why *)((char *)s - offsetof(struct why, sink));

	(void)size;
	if (h->kind == REC_STEP)
		why_step(w, (const struct rec_step *)h);
	if (h->kind == REC_STACK && h->id == SAMPLE_OFF_CPU && h->flags & REC_F_OPEN_END && w->n_waiting < STACKS_MAX)
		w->waiting[w->n_waiting++] = (struct waiting){ h->tid, ((const struct rec_stack *)h)->stack };
	if (h->kind == REC_STACK && h->id == SAMPLE_CPU)
		why_sample(w, (const struct rec_stack *)h);
	if (h->kind == REC_REQUEST)
		why_request(w, (const struct rec_request *)h);
}

static void why_loss(struct sink *s, const struct loss *l)
{
	(void)s;
	(void)l; /* the report says it */
}

static int why_close(struct sink *s, const struct window_totals *t)
{
	struct why *w = (struct why *)((char *)s - offsetof(struct why, sink));
	const struct wait_log *log = session_wait_log(w->view.session);

	if (!t)
		return 0;
	w->now_ns = t->close_ns;
	w->walker = log ? wait_walker_new(log) : NULL;
	w->out = open_memstream(&w->text, &w->len);
	if (w->out) {
		put_now(w);
		fclose(w->out);
	}
	wait_walker_free(w->walker);
	return 0;
}

static int why_open(struct view *v, const struct recording *rec, struct sink **ret_sink)
{
	static const struct sink_ops ops = { .record = why_record, .loss = why_loss, .close = why_close };
	struct why *w = (struct why *)v;

	w->rec = rec;
	w->due_ns += rec->start_boot_ns;
	w->sink.ops = &ops;
	*ret_sink = &w->sink;
	return 0;
}

static int why_round(struct view *v, uint64_t now_ns)
{
	return now_ns >= ((struct why *)v)->due_ns;
}

static void why_signal(struct view *v, int signo)
{
	(void)v;
	(void)signo;
}

/* ---- the screen ---- */

static void why_problem(void *ctx, const char *text)
{
	(void)ctx;
	log_error("%s", text);
}

static void put_last(const char *profile, uint64_t duration_ns)
{
	struct report report;

	report_make(&report, &profile, 1, why_problem, NULL, NULL);
	if (!report_empty(&report)) {
		printf("\nThe last %s:\n", DURATION((int64_t)duration_ns));
		report_brief(&report, stdout);
	}
	report_free(&report);
}

int why_run(struct record_options *o, uint64_t duration_ns)
{
	static const struct view_ops ops = { .open = why_open, .round = why_round, .signal = why_signal };
	struct why w = { .view = { .ops = &ops, .fd = -1, .command_fds = { -1, -1, -1 } }, .o = o, .due_ns = duration_ns };
	const char *directory = getenv("TMPDIR");
	char dir[256], profile[sizeof(dir) + 16];
	int code;

	directory = directory && *directory ? directory : "/tmp";
	snprintf(dir, sizeof(dir), "%.200s/inftrace-why-XXXXXX", directory);
	if (!mkdtemp(dir))
		return log_fail(EXIT_RUN, "cannot make a directory in %s: %s; TMPDIR names another one", directory, strerror(errno));
	snprintf(profile, sizeof(profile), "%s/why.jsonl", dir);
	sigemptyset(&w.view.signals);
	o->view = &w.view;
	o->profile = profile;
	code = record_run(o);
	if (code == EXIT_OK && w.text) {
		fputs(w.text, stdout);
		/* a signal may have ended it before */
		put_last(profile, w.now_ns < w.due_ns ? duration_ns - (w.due_ns - w.now_ns) : duration_ns);
	}
	free(w.text);
	unlink(profile);
	rmdir(dir);
	return code;
}
