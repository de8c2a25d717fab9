// SPDX-License-Identifier: BSD-2-Clause
/* inftrace top: the view of a recording, on a screen or as blocks of text. */
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

#include "capture/session.h"
#include "engine/check.h"
#include "format/derive.h"
#include "format/step_overhead.h"
#include "io/writer.h"
#include "record/options.h"
#include "sink/sink.h"
#include "target/process.h"
#include "top/live.h"
#include "top/screen.h"
#include "top/top.h"
#include "util/log.h"
#include "util/program.h"

/*
 * ---- the terminal as a screen: alternate buffer, no cursor, keys one by one ----
 *
 * Plain ECMA-48 and xterm sequences. Neither reading nor drawing ever waits.
 */

#define LEAVE_WAIT_MS 500
#define WIDTH_DEFAULT 80
#define HEIGHT_DEFAULT 24
#define SIZE_LIMIT 1000 /* columns, lines: a terminal that claims more is not believed */

/* xterm control sequences (ctlseqs): alternate screen (1049), cursor (25), wrap at the margin (7) */
#define SCREEN "\x1b[?1049h"
#define ENTER "\x1b[?25l\x1b[?7l\x1b[2J"
#define LEAVE "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
#define HOME "\x1b[H"

static const int fatal_signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT, SIGSYS };
#define FATAL (sizeof(fatal_signals) / sizeof(fatal_signals[0]))

enum key_state {
	KEY_PLAIN,
	KEY_ESCAPE,   /* after ESC */
	KEY_SEQUENCE, /* after ESC [ or ESC O: up to a letter or ~ */
};

struct term {
	int fd;
	bool entered;
	struct termios before;
	struct sigaction fatal_before[FATAL];
	char *out;
	size_t out_len, out_done, out_size;
	enum key_state key_state;
};

/* For the handler of fatal signals. */
static struct {
	volatile sig_atomic_t entered;
	int fd;
	struct termios before;
} screen;

static void on_fatal(int sig)
{
	if (screen.entered) {
		screen.entered = 0;
		if (write(screen.fd, LEAVE, sizeof(LEAVE) - 1) >= 0)
			tcsetattr(screen.fd, TCSANOW, &screen.before);
	}
	/* SA_RESETHAND has restored the default action */
	raise(sig);
}

/* Opens the terminal behind a descriptor again, so that its flags are not shared with others.
 * -ENOTTY, -ENXIO if it cannot show a screen (TERM=dumb), or another error of open(2). */
static int term_open(int fd, struct term **ret_term)
{
	const char *name = getenv("TERM");
	struct term *t;
	char path[64];

	if (!isatty(fd))
		return -ENOTTY;
	if (!name || !*name || !strcmp(name, "dumb"))
		return -ENXIO;
	t = xcalloc(1, sizeof(*t));
	/* Reopen: O_NONBLOCK belongs to the open file description, and this one is inherited. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	t->fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (t->fd < 0 || tcgetattr(t->fd, &t->before)) {
		int err = -errno;

		if (t->fd >= 0)
			close(t->fd);
		free(t);
		return err;
	}
	*ret_term = t;
	return 0;
}

/* Writes the output that the terminal has not taken yet; returns true when all is written. */
static bool term_flush(struct term *t)
{
	while (t->out_done < t->out_len) {
		ssize_t n = write(t->fd, t->out + t->out_done, t->out_len - t->out_done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n <= 0) /* the terminal is gone: term_key() will report it */
			break;
		t->out_done += (size_t)n;
	}
	t->out_len = t->out_done = 0;
	return true;
}

static void term_append(struct term *t, const char *text, size_t len)
{
	if (t->out_len + len > t->out_size) {
		t->out_size = t->out_len + len;
		t->out = xreallocarray(t->out, t->out_size, 1);
	}
	memcpy(t->out + t->out_len, text, len);
	t->out_len += len;
}

/* Shows the screen, or shows it again after the process was stopped. A signal that kills the process (SIGSEGV, SIGABRT,
 * SIGQUIT, ...) restores the terminal. */
static void term_enter(struct term *t)
{
	const struct sigaction sa = { .sa_handler = on_fatal, .sa_flags = SA_RESETHAND | SA_NODEFER };
	struct termios attributes;
	bool again = t->entered;

	if (!again) {
		screen.fd = t->fd;
		screen.before = t->before;
		for (size_t i = 0; i < FATAL; i++)
			sigaction(fatal_signals[i], &sa, &t->fatal_before[i]);
		screen.entered = 1;
		t->entered = true;
	}
	attributes = t->before;
	/* keys arrive at once and without echo, but those that send signals still do */
	attributes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	attributes.c_cc[VMIN] = 1;
	attributes.c_cc[VTIME] = 0;
	tcsetattr(t->fd, TCSANOW, &attributes);
	t->out_len = t->out_done = 0;
	t->key_state = KEY_PLAIN;
	if (!again)
		term_append(t, SCREEN, sizeof(SCREEN) - 1);
	term_append(t, ENTER, sizeof(ENTER) - 1);
	term_flush(t);
}

static bool term_wait_flushed(struct term *t)
{
	struct pollfd p = { .fd = t->fd, .events = POLLOUT };

	while (!term_flush(t)) {
		if (poll(&p, 1, LEAVE_WAIT_MS) <= 0)
			return false;
	}
	return true;
}

/* Restores the terminal; waits for the output, but not for ever. */
static void term_leave(struct term *t)
{
	sigset_t set, old;

	if (!t->entered)
		return;
	/* in the background each of the following calls would stop the process */
	sigemptyset(&set);
	sigaddset(&set, SIGTTOU);
	sigprocmask(SIG_BLOCK, &set, &old);
	tcflow(t->fd, TCOON); /* undoes Ctrl-S */
	if (!term_wait_flushed(t))
		tcflush(t->fd, TCOFLUSH);
	t->out_len = t->out_done = 0;
	term_append(t, LEAVE, sizeof(LEAVE) - 1);
	term_wait_flushed(t);
	tcsetattr(t->fd, TCSANOW, &t->before);
	screen.entered = 0;
	t->entered = false;
	for (size_t i = 0; i < FATAL; i++)
		sigaction(fatal_signals[i], &t->fatal_before[i], NULL);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

/* The next key that was pressed; 0: none; -1: the terminal is gone. Ignores keys that send several
 * bytes (arrows). */
static int term_key(struct term *t)
{
	unsigned char c;
	ssize_t n;

	for (;;) {
		n = read(t->fd, &c, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		if (!n)
			return -1;
		switch (t->key_state) {
		case KEY_PLAIN:
			if (c != 0x1b && c)
				return c;
			if (c)
				t->key_state = KEY_ESCAPE;
			break;
		case KEY_ESCAPE:
			t->key_state = c == '[' || c == 'O' ? KEY_SEQUENCE : KEY_PLAIN;
			break;
		case KEY_SEQUENCE:
			if (c >= 0x40 && c <= 0x7e)
				t->key_state = KEY_PLAIN;
			break;
		}
	}
}

/* Draws from the upper left corner. The text is dropped if a slow terminal is still taking the previous frame. */
static void term_draw(struct term *t, const char *text, size_t len)
{
	if (!term_flush(t))
		return;
	term_append(t, HOME, sizeof(HOME) - 1);
	term_append(t, text, len);
	term_flush(t);
}

/* Also leaves the screen. */
static void term_free(struct term *t)
{
	if (!t)
		return;
	term_leave(t);
	close(t->fd);
	free(t->out);
	free(t);
}

/* ---- a step, as the model takes it ---- */

/* An argument of the step's function; 0: it has none with this name. */
static uint64_t find_arg_value(const struct probe_spec *s, const struct rec_step *r, const char *name)
{
	for (unsigned int i = 0; i < s->nargs; i++) {
		if (!strcmp(s->args[i].name, name) && check_shown(s, i, r->vals))
			return r->vals[i];
	}
	return 0;
}

static uint8_t behind_take_info(struct live_behind *ret, const struct behind_table *table, uint64_t waited_ns)
{
	struct behind_row rows[BEHIND_MAX];
	uint64_t others;
	size_t n = behind_rows(table, waited_ns, rows, &others);

	for (size_t i = 0; i < n; i++) {
		ret[i].row = (struct behind_info){
			.ns = (int64_t)rows[i].ns,
			.tid = rows[i].tid,
			.pid = rows[i].tgid,
			.limit = rows[i].limit,
		};
		memcpy(ret[i].by, rows[i].by, sizeof(ret[i].by));
	}
	return (uint8_t)n;
}

/* Fills in what the profile would say about the step. */
static void live_step_from(struct live_step *ret, const struct recording *rec, const struct rec_step *r)
{
	const struct probe_spec *s = &rec->probes->specs[r->h.id];
	uint64_t tokens = find_arg_value(s, r, "n_tokens");
	struct live_step ls = {
		.pid = r->h.tgid,
		.workers = r->workers,
		.step = {
			.ts = r->h.start_ns > rec->start_boot_ns ? (int64_t)(r->h.start_ns - rec->start_boot_ns) : 0,
			.total = (int64_t)r->h.dur_ns,
			.number = r->number,
			.tid = r->h.tid,
			.n_tokens = tokens <= UINT32_MAX ? (uint32_t)tokens : 0,
			.syscalls = r->n.syscalls,
			.faults_minor = r->n.faults_minor,
			.faults_major = r->n.faults_major,
			.lost = r->lost,
			.context = find_arg_value(s, r, "context"),
			.unfinished = r->h.flags & REC_F_OPEN_END,
			.n_workers = r->workers,
			.left_out = r->left_out & ~SHED_CHANGED,
			.left_out_changed = r->left_out & SHED_CHANGED,
			.cpus_allowed = r->n.cpus_allowed,
			.straggler_tid = r->straggler_tid,
			.held = r->straggler_tid ? (int64_t)r->held_ns : 0,
		},
	};
	struct step_overhead weight;
	struct task *task = r->straggler_tid ? tasks_find(rec->tasks, r->straggler_tid) : NULL;

	ls.own_ids = probe_spec_own_ids(s);
	memcpy(ls.scheduler, r->scheduler, sizeof(ls.scheduler));
	ls.step.watched = r->h.flags & STEP_F_WATCHED;
	ls.step.began_before = r->h.flags & REC_F_OPEN_START;
	for (unsigned int i = 0; s->row_count && i < ROW_VALUES; i++) {
		if (check_shown(s, s->rows_at + i, r->vals))
			ls.step.rows[i] = r->vals[s->rows_at + i] + 1;
	}
	snprintf(ls.phase, sizeof(ls.phase), "%s", probe_spec_name(s, r->vals));
	for (int i = 0; i < ST_MAX; i++) {
		ls.step.own[i] = (int64_t)r->ns[i];
		ls.step.workers[i] = (int64_t)r->workers_ns[i];
		ls.step.workers_total += ls.step.workers[i];
	}
	ls.weighed = step_overhead_of(r, rec->prices, (uint32_t)getpid(), &weight);
	ls.step.tracer = ls.weighed ? (int64_t)weight.ns : -1;
	ls.step.n_behind = behind_take_info(ls.behind, &r->behind, r->ns[ST_RUNNABLE]);
	if (r->workers)
		ls.step.n_workers_behind = behind_take_info(
			ls.behind + ls.step.n_behind, &r->workers_behind, r->workers_ns[ST_RUNNABLE]);
	if (task)
		memcpy(ls.straggler_comm, task->comm, sizeof(ls.straggler_comm));
	if (!strcmp(ls.phase, "prefill"))
		ls.live_phase = LIVE_PREFILL;
	else if (!strcmp(ls.phase, "decode"))
		ls.live_phase = LIVE_DECODE;
	*ret = ls;
}

/* ---- what is shown ---- */

#define BATCH_WIDTH 100
#define FIRST_FRAME_NS UINT64_C(300000000)
#define TEXT_MAX 256

struct top {
	struct view view;
	struct sink sink; /* feeds the records to `live` */
	const struct record_options *o;
	const struct top_options *options;
	const struct recording *rec;
	struct live *live;
	const struct live_frame *frame; /* the last one, or NULL */
	uint64_t next_ns;
	uint32_t shown; /* frames */
	bool paused, quit;
	enum screen_part first;
	/* a screen, or blocks of text */
	struct term *term;
	struct writer *out;
	bool printed; /* a block was printed */
	char *last_words;
	size_t last_len;
	/* while the screen is shown, output to the terminal is held here */
	int held_stderr, held_command;
	int stderr_before; /* -1: not redirected */
};

static struct top *top_of(struct sink *s)
{
	return (struct top *)((char *)s - offsetof(struct top, sink));
}

/* ---- output of others ---- */

static void hold_command(struct top *t)
{
	const char *directory = getenv("TMPDIR");

	if (!t->o->command)
		return;
	/* it may write a lot; without a directory for it, memory has to do */
	t->held_command = open(directory && *directory ? directory : P_tmpdir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_APPEND, 0600);
	if (t->held_command < 0)
		t->held_command = memfd_create("held", MFD_CLOEXEC);
	for (int fd = 1; fd <= 2; fd++) {
		if (isatty(fd))
			t->view.command_fds[fd] = t->held_command;
	}
	/* keys are for inftrace top */
	if (isatty(STDIN_FILENO))
		t->view.command_fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void hold_stderr(struct top *t)
{
	if (!isatty(STDERR_FILENO))
		return;
	t->held_stderr = memfd_create("held", MFD_CLOEXEC);
	t->stderr_before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (t->held_stderr >= 0 && t->stderr_before >= 0)
		dup2(t->held_stderr, STDERR_FILENO);
}

static void held_copy_out(int from, int to)
{
	char buf[4096];
	ssize_t n;

	if (from < 0 || lseek(from, 0, SEEK_SET) < 0)
		return;
	while ((n = read(from, buf, sizeof(buf))) > 0) {
		if (write(to, buf, (size_t)n) != n)
			break;
	}
	close(from);
}

static void release_held(struct top *t)
{
	if (t->stderr_before >= 0) {
		fflush(stderr);
		dup2(t->stderr_before, STDERR_FILENO);
		close(t->stderr_before);
		t->stderr_before = -1;
	}
	held_copy_out(t->held_stderr, STDERR_FILENO);
	held_copy_out(t->held_command, STDOUT_FILENO);
	t->held_stderr = t->held_command = -1;
	if (t->view.command_fds[0] >= 0)
		close(t->view.command_fds[0]);
	t->view.command_fds[0] = -1;
}

/* The last message that was held. */
static const char *last_message(const struct top *t, char buf[TEXT_MAX])
{
	off_t size = t->held_stderr >= 0 ? lseek(t->held_stderr, 0, SEEK_END) : 0, from;
	ssize_t n;
	char *line;

	if (size <= 0)
		return NULL;
	from = size > TEXT_MAX - 1 ? size - (TEXT_MAX - 1) : 0;
	n = pread(t->held_stderr, buf, TEXT_MAX - 1, from);
	if (n <= 0)
		return NULL;
	if (buf[n - 1] == '\n')
		n--;
	buf[n] = '\0';
	line = strrchr(buf, '\n');
	return line ? line + 1 : buf;
}

/* ---- frames ---- */

static void find_target(const struct top *t, char buf[TEXT_MAX])
{
	const struct record_options *o = t->o;
	char comm[TASK_COMM_LEN] = "";

	if (o->all) {
		snprintf(buf, TEXT_MAX, "system");
	} else if (o->command) {
		snprintf(buf, TEXT_MAX, "%.64s", basename(o->command[0]));
	} else if (o->n_pids == 1) {
		struct task *task = tasks_find(t->rec->tasks, (uint32_t)o->pids[0]);

		if (task)
			memcpy(comm, task->comm, sizeof(comm));
		else
			process_comm(o->pids[0], comm);
		snprintf(buf, TEXT_MAX, "%s %d", comm, o->pids[0]);
	} else {
		snprintf(buf, TEXT_MAX, "%zu processes", o->n_pids);
	}
}

/* The presets that match; NULL: none. */
static const char *find_engines(const struct top *t, char buf[TEXT_MAX])
{
	const struct probe_table *pt = t->rec->probes;
	struct text text = text_in(buf, TEXT_MAX);

	for (size_t i = 0; i < pt->n_engines; i++) {
		if (pt->engines[i]->matched && !pt->engines[i]->runtime && text.len < TEXT_MAX - 80)
			text_add(&text, "%s%.64s", text.len ? ", " : "", pt->engines[i]->name);
	}
	for (size_t i = 0; i < pt->n && !text.len; i++) {
		if (!pt->specs[i].engine && pt->specs[i].attached)
			text_add(&text, "functions of -u");
	}
	return text.len ? buf : NULL;
}

static bool has_ops(const struct top *t)
{
	return t->o->events & EVENT_FUNCTIONS_NAMED || t->o->n_uprobes;
}

/* The table that the key o will move to the top. */
static enum screen_part next_part(const struct top *t)
{
	enum screen_part next = (t->first + 1) % PART_MAX;

	return next == PART_OPS && !has_ops(t) ? PART_SLOW : next;
}

static char *top_render(struct top *t, bool run_only, size_t *ret_len)
{
	static const char *const parts[PART_MAX] = {
		[PART_SLOW] = "slow steps",
		[PART_GAPS] = "between steps",
		[PART_SYSCALLS] = "system calls",
		[PART_OPS] = "operators",
	};
	char target[TEXT_MAX], engines[TEXT_MAX], message[TEXT_MAX], keys[TEXT_MAX];
	struct screen s = {
		.width = BATCH_WIDTH,
		.utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8"),
		.run_only = run_only,
		.first = t->first,
		.ops = has_ops(t),
		.target = target,
	};
	struct winsize ws = { 0 };

	find_target(t, target);
	s.engines = find_engines(t, engines);
	if (t->term) {
		ioctl(t->term->fd, TIOCGWINSZ, &ws);
		s.width = ws.ws_col && ws.ws_col <= SIZE_LIMIT ? ws.ws_col : WIDTH_DEFAULT;
	}
	if (t->term && !run_only) {
		s.height = ws.ws_row && ws.ws_row <= SIZE_LIMIT ? ws.ws_row : HEIGHT_DEFAULT;
		s.ansi = true;
		s.message = last_message(t, message);
		if (!s.message && !s.engines && !t->frame->run.steps)
			s.message = "no preset fits, so no steps are seen: see inftrace engines -p PID";
		snprintf(keys, sizeof(keys), "%sq quit  p %s  o %s first",
			t->paused ? "PAUSED  " : "", t->paused ? "goes on" : "pause",
			parts[next_part(t)]);
		s.keys = keys;
	}
	return screen_render(&s, t->frame, ret_len);
}

static int top_print(struct top *t, const char *text, size_t len)
{
	if (t->printed)
		writer_append(t->out, "\n", 1);
	t->printed = true;
	writer_append(t->out, text, len);
	return writer_flush(t->out);
}

/* Returns 0 or an error. */
static int top_show(struct top *t)
{
	size_t len;
	char *text;
	int err = 0;

	if (!t->frame)
		return 0;
	text = top_render(t, false, &len);
	if (t->term)
		term_draw(t->term, text, len);
	else
		err = top_print(t, text, len);
	free(text);
	return err;
}

static void top_next_frame(struct top *t, uint64_t now_ns, bool last)
{
	uint64_t start = t->rec->start_boot_ns;
	struct process_call *calls;
	size_t n;

	calls = session_calls(t->view.session, &n);
	live_syscalls(t->live, calls, n);
	free(calls);
	t->frame = live_frame(t->live, now_ns > start ? (int64_t)(now_ns - start) : 0, last);
}

/* ---- the view ---- */

static void read_keys(struct top *t)
{
	int key;

	while ((key = term_key(t->term)) > 0) {
		switch (key) {
		case 'q':
		case 'Q':
			t->quit = true;
			break;
		case 'p':
		case ' ':
			t->paused = !t->paused;
			break;
		case 'o':
			t->first = next_part(t);
			break;
		default:
			continue;
		}
		top_show(t);
	}
	t->quit |= key < 0;
}

static int top_round(struct view *v, uint64_t now_ns)
{
	struct top *t = (struct top *)v;
	int err;

	if (t->term) {
		read_keys(t);
		term_flush(t->term);
	}
	if (t->quit)
		return 1;
	if (t->paused || now_ns < t->next_ns)
		return 0;
	t->next_ns += t->options->delay_ns;
	if (t->next_ns <= now_ns) /* after having been stopped or paused */
		t->next_ns = now_ns + t->options->delay_ns;
	top_next_frame(t, now_ns, false);
	t->shown++;
	err = top_show(t);
	if (err)
		return err;
	return t->options->count && t->shown >= t->options->count;
}

/* Stops this process as if the signal had not been blocked. */
static void stop_self(struct top *t)
{
	sigset_t set;

	term_leave(t->term);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	/* stops here */
	sigprocmask(SIG_BLOCK, &set, NULL);
	term_enter(t->term);
}

static void top_signal(struct view *v, int signo)
{
	struct top *t = (struct top *)v;

	if (signo == SIGTSTP)
		stop_self(t);
	else if (signo == SIGCONT)
		term_enter(t->term);
	top_show(t);
}

/* ---- the sink ---- */

/* "worker: blocked_io in read" */
static void cause_name(const struct gap_segment *g, char name[96])
{
	const char *call = g->call == CALL_NONE ? NULL : syscall_name(g->call);

	snprintf(name, 96, "%.*s: %s%s%s", TASK_COMM_LEN, g->comm, time_state_name((enum time_state)g->state), call ? " in " : "", call ?: "");
}

/* Who made the calling thread of a step wait. */
static void top_wait(struct top *t, const struct rec_gap *r, const struct gap_segment *g)
{
	const char *call = g->call == CALL_NONE ? NULL : syscall_name(g->call);
	struct live_wait w = { .row = { .ns = (int64_t)g->dur_ns, .tid = g->tid, .state = g->state } };

	if (g->tid == r->h.tid)
		snprintf(w.name, sizeof(w.name), "%s", call ?: "");
	else
		cause_name(g, w.name);
	snprintf(w.comm, sizeof(w.comm), "%.*s", TASK_COMM_LEN, g->comm);
	if (gap_segment_has_behind(g) && g->by_ns > g->dur_ns / 2) {
		snprintf(w.behind, sizeof(w.behind), "%.*s", TASK_COMM_LEN, gap_segment_behind(g));
		w.row.behind_tid = g->by_tid;
	}
	live_wait(t->live, r->step, &w);
}

static void top_gap(struct top *t, const struct rec_gap *r)
{
	char name[96];

	if (r->h.flags & GAP_F_WITHIN) {
		if (r->n_causes)
			top_wait(t, r, &r->seg[0]);
		return;
	}
	for (size_t i = 0; i < r->n_causes; i++) {
		cause_name(&r->seg[i], name);
		live_gap(t->live, name, r->seg[i].dur_ns);
	}
	if (r->others_ns)
		live_gap(t->live, "(others)", r->others_ns);
	if (r->unknown_ns)
		live_gap(t->live, "(unknown)", r->unknown_ns);
}

static void on_record(struct sink *s, const struct rec_hdr *rec, size_t size)
{
	struct top *t = top_of(s);
	const struct probe_spec *spec;
	struct live_step step;

	if (rec->kind == REC_GPU_LOAD)
		live_gpu(t->live, rec->id, rec->tgid, (int64_t)(rec->start_ns + rec->dur_ns - t->rec->start_boot_ns),
			(int64_t)((const struct rec_gpu_load *)rec)->busy_ns);
	if (rec->kind == REC_GAP && !(rec->flags & REC_F_OPEN_START))
		top_gap(t, (const struct rec_gap *)rec);
	if ((rec->kind != REC_STEP && rec->kind != REC_FUNCTION) || rec->id >= t->rec->probes->n)
		return;
	if (rec->kind == REC_STEP) {
		live_step_from(&step, t->rec, (const struct rec_step *)rec);
		step.n_parts = step_parts((const struct rec_step *)rec, size, &step.parts);
		step.parts_left = ((const struct rec_step *)rec)->parts_left;
		live_step(t->live, &step);
	} else {
		spec = &t->rec->probes->specs[rec->id];
		if (spec->role == ROLE_OP)
			live_op(t->live, probe_record_name(spec, (const struct rec_function *)rec), rec->dur_ns);
	}
}

static void on_loss(struct sink *s, const struct loss *l)
{
	if (l->count[REC_STEP])
		live_lost_steps(top_of(s)->live);
	for (int k = 0; k < REC_KIND_MAX; k++)
		live_lost(top_of(s)->live, l->count[k]);
}

static void on_settled(struct sink *s)
{
	live_settled(top_of(s)->live);
}

/* Renders the final summary, which is printed after the last output of the command. */
static int on_close(struct sink *s, const struct window_totals *totals)
{
	struct top *t = top_of(s);

	if (totals && t->term)
		term_leave(t->term);
	/* with a number of updates given, no more blocks than that are printed */
	if (totals && (!t->options->count || t->shown < t->options->count || t->term)) {
		top_next_frame(t, totals->close_ns, true);
		t->last_words = top_render(t, true, &t->last_len);
	}
	return 0;
}

static int top_open(struct view *v, const struct recording *rec, struct sink **ret_sink)
{
	static const struct sink_ops ops = {
		.record = on_record,
		.loss = on_loss,
		.settled = on_settled,
		.close = on_close,
	};
	struct top *t = (struct top *)v;
	uint64_t first = t->options->delay_ns;

	t->rec = rec;
	t->sink.ops = &ops;
	*ret_sink = &t->sink;
	if (t->term) {
		if (first > FIRST_FRAME_NS && !t->options->count)
			first = FIRST_FRAME_NS;
		hold_stderr(t);
		term_enter(t->term);
	}
	t->next_ns = rec->start_boot_ns + first;
	return 0;
}

static const struct view_ops view_ops = {
	.open = top_open,
	.round = top_round,
	.signal = top_signal,
};

static int open_screen(struct top *t)
{
	int err = t->options->batch ? -ENOTTY : term_open(STDOUT_FILENO, &t->term);

	if (err == -ENOTTY || err == -ENXIO)
		return 0;
	if (err)
		return log_fail(err, "cannot use the terminal: %s; -b prints text instead", strerror(-err));
	t->view.fd = t->term->fd;
	sigaddset(&t->view.signals, SIGWINCH);
	sigaddset(&t->view.signals, SIGTSTP);
	sigaddset(&t->view.signals, SIGCONT);
	hold_command(t);
	return 0;
}

int top_run(struct record_options *o, const struct top_options *options)
{
	struct top t = {
		.view = { .ops = &view_ops, .fd = -1, .command_fds = { -1, -1, -1 } },
		.o = o,
		.options = options,
		.held_stderr = -1,
		.held_command = -1,
		.stderr_before = -1,
	};
	int code = EXIT_RUN, err;

	sigemptyset(&t.view.signals);
	t.live = live_new();
	t.out = writer_new(STDOUT_FILENO, "stdout", WRITER_LINES);
	err = open_screen(&t);
	if (!err) {
		o->view = &t.view;
		code = record_run(o);
	}
	term_free(t.term);
	release_held(&t);
	if (t.last_words)
		top_print(&t, t.last_words, t.last_len);
	free(t.last_words);
	if (writer_close(t.out) && code == EXIT_OK)
		code = EXIT_RUN;
	live_free(t.live);
	return code;
}
