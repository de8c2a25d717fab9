// SPDX-License-Identifier: BSD-2-Clause
/* inftrace engines: the presets, and what they would probe in a process or a file. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "capture/calibrate.h"
#include "capture/features.h"
#include "capture/session.h"
#include "cmd/cmd.h"
#include "engine/engine.h"
#include "engine/inspect.h"
#include "engine/spec.h"
#include "record/options.h"
#include "sink/sink.h"
#include "target/file.h"
#include "target/process.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/text.h"

struct engines_options {
	pid_t pid;
	const char *file;
	const char *engine; /* NULL: all installed ones */
	uint64_t check_ns;  /* how long to count calls; 0: only shows what matches */
};

#define OPT_CHECK 256

static const struct argp_option options[] = {
	{ "pid", 'p', "PID", 0, "what matches in this process", 0 },
	{ "check", OPT_CHECK, "TIME", 0, "with -p: count for this long (2s, 500ms) which of these functions the process calls", 0 },
	{ "engine", 'e', "NAME|FILE", 0, "this preset only", 0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static const char doc[] =
	"Lists the presets of functions to probe; with a process or a library, what they match there: each "
	"probe's place, and whether the instruction is cheap (the kernel emulates it, about 0.5 us) or dear "
	"(it must be single-stepped, 5 to 9 us in a virtual machine)."
	"\vEXAMPLES:\n"
	"  inftrace engines\n"
	"  sudo inftrace engines -p $(pgrep llama-server)\n"
	"  sudo inftrace engines -p $(pgrep llama-server) --check 2s\n"
	"  inftrace engines -e ./mine.json ./libmine.so\n\n"
	"Exit codes: 0 done, and with --check a step was called (or, where the presets have none, anything); 1 failed, or with --check "
	"not; 2 usage, 3 kernel or privileges.";

static error_t engines_parse_option(int key, char *arg, struct argp_state *state)
{
	struct engines_options *o = state->input;
	char buf[PARSE_ERROR_MAX];
	uint32_t pid;
	int err;

	switch (key) {
	case 'p':
		err = parse_u32(arg, &pid);
		if (err || !pid || pid > INT32_MAX)
			return log_fail(EINVAL, "%s", parse_error(buf, PARSE_PID_LIST, "-p", arg, err ? err : -EINVAL));
		o->pid = (pid_t)pid;
		return 0;
	case OPT_CHECK:
		err = parse_duration(arg, &o->check_ns);
		if (err || !o->check_ns) {
			parse_refuse(PARSE_DURATION, "--check", arg, err ? err : -EINVAL);
			return EINVAL;
		}
		return 0;
	case 'e':
		if (o->engine)
			return log_fail(EINVAL, "give one -e");
		o->engine = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (o->file)
			return log_fail(EINVAL, "give one FILE");
		o->file = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void list_presets(const struct probe_table *pt)
{
	for (size_t i = 0; i < pt->n_engines; i++) {
		const struct engine *e = pt->engines[i];
		size_t probes = 0;

		for (size_t k = 0; k < pt->n; k++)
			probes += pt->specs[k].engine == e;
		printf("%-14s version %u, %zu probes, for", e->name, e->version, probes);
		for (size_t k = 0; k < e->n_mapped; k++)
			printf(" %s", e->mapped[k]);
		putchar('\n');
	}
}

struct engines_scan {
	struct probe_table *pt;
	struct inspector *inspector;
	pid_t pid;
	char last[PATH_MAX];
	size_t files, attached;
	const char *shown; /* NULL: its name was printed */
	char build_id[ELF_BUILD_ID_MAX];
};

/* Names come from the file, which may be hostile. */
static void print_escaped_name(const char *name)
{
	char text[PATH_MAX];

	fputs(text_printable(text, sizeof(text), name), stdout);
}

static void scan_print_file(struct engines_scan *s)
{
	if (!s->shown)
		return;
	print_escaped_name(s->shown);
	printf(", build-id %s\n", *s->build_id ? s->build_id : "none");
	s->shown = NULL;
}

static int print_site(const struct probe_site *ps, void *arg)
{
	struct engines_scan *scan = arg;
	struct probe_table *pt = scan->pt;
	struct probe_spec *s = &pt->specs[ps->spec];

	scan_print_file(scan);
	s->attached++;
	scan->attached++;
	if (s->from)
		pt->specs[s->from - 1].attached++;
	printf("  %-5s %-8s +0x%-7lx ", ps->site.cheap ? "cheap" : "dear", probe_role_name(s->role),
		(unsigned long)ps->site.offset);
	print_escaped_name(ps->symbol->name);
	if (ps->site.offset != ps->symbol->offset)
		printf("+%lu", (unsigned long)(ps->site.offset - ps->symbol->offset));
	for (unsigned int i = 0; i < s->nargs; i++)
		printf("%s%s%s", i ? ", " : "(", s->args[i].name, i + 1 == s->nargs ? ")" : "");
	putchar('\n');
	return 0;
}

static bool engines_claim_path(const struct probe_table *pt, const char *path)
{
	for (size_t i = 0; i < pt->n; i++) {
		if (probe_spec_matches(&pt->specs[i], path))
			return true;
	}
	return false;
}

static int scan_inspect_mapping(const struct mapped_file *m, void *arg)
{
	struct engines_scan *s = arg;
	int fd, err;

	/* the probes of one file are adjacent */
	if (!strcmp(s->last, m->path) || !engines_claim_path(s->pt, m->path))
		return 0;
	snprintf(s->last, sizeof(s->last), "%s", m->path);
	if (file_open_mapped(s->pid, m, &fd)) {
		log_warn("cannot open the file %s of process %d", m->path, s->pid);
		return 0;
	}
	s->shown = m->path;
	s->files++;
	err = inspector_sites(s->inspector, fd, m->path, false, INSPECT_MS_MAX, s->build_id, print_site, s);
	scan_print_file(s);
	if (err)
		log_warn("cannot read %s: %s", m->path, strerror(-err));
	close(fd);
	return 0;
}

/* Prints the probes of found engines that none of their files has. */
static void print_missing(const struct probe_table *pt)
{
	for (size_t i = 0; i < pt->n; i++) {
		bool found = false;

		for (size_t k = 0; k < pt->n && !found; k++)
			found = pt->specs[k].engine == pt->specs[i].engine && pt->specs[k].attached;
		if (found && !pt->specs[i].attached && !pt->specs[i].refused)
			printf("not found: %s (%s)\n", pt->specs[i].symbol, pt->specs[i].engine->name);
	}
}

/* What the kernel takes to reach a probe on this machine; nothing where that cannot be tried. */
static void print_prices(void)
{
	struct calibration *c = NULL;
	uint64_t ns[HIT_MAX];
	struct features f;

	if (features_probe(&f, false) || !features_permitted(&f) || f.pid_ns)
		return;
	if (calibration_start(features_have(&f, FEATURE_UPROBE_MULTI), features_fault_ends(&f), &c) || calibration_end(c, ns))
		return;
	printf("on this machine reaching a probe takes: cheap %.2f us, dear %.2f us, and %.2f us more where the return is seen; what inftrace then does comes on top\n",
		(double)ns[HIT_ENTRY] / 1e3, (double)ns[HIT_STEPPED] / 1e3, (double)ns[HIT_RETURN] / 1e3);
}

static int show_process(struct probe_table *pt, struct inspector *ins, pid_t pid)
{
	struct engines_scan s = { .pt = pt, .inspector = ins, .pid = pid };
	int err = process_each_mapped(pid, scan_inspect_mapping, &s);

	if (err)
		return log_fail(EXIT_RUN, "no process %d, or its mapped files may not be read (root)", pid);
	if (!s.files)
		printf("no preset matches process %d\n", pid);
	print_missing(pt);
	if (s.attached)
		print_prices();
	return EXIT_OK;
}

static int show_file(struct probe_table *pt, struct inspector *ins, const char *file)
{
	struct engines_scan s = { .pt = pt, .inspector = ins };
	int fd, err;

	if (!engines_claim_path(pt, file))
		printf("no preset covers files with this name\n");
	fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	err = fd < 0 ? -errno : inspector_sites(ins, fd, file, false, INSPECT_MS_MAX, s.build_id, print_site, &s);
	if (fd >= 0)
		close(fd);
	if (err)
		return log_fail(EXIT_RUN, "cannot read %s: %s", file, err == -ENOEXEC ? "not an ELF file" : strerror(-err));
	return EXIT_OK;
}

/* Shows what matches in a process or a file. */
static int show_matches(struct probe_table *pt, const struct engines_options *o)
{
	struct inspector *ins;
	int code, err;

	fflush(stdout);
	err = inspector_new(pt, &ins);
	if (err)
		return log_fail(EXIT_RUN, "cannot start the process that reads symbols: %s", strerror(-err));
	code = o->pid ? show_process(pt, ins, o->pid) : show_file(pt, ins, o->file);
	inspector_free(ins);
	return code;
}

/* ---- --check: which functions of the presets a process calls ---- */

/* A recording that keeps only the numbers of calls. */
struct check {
	struct view view;
	struct sink sink;
	const struct probe_table *pt;
	bool ended, any, steps, called; /* steps: a preset has some */
};

static void print_probe(struct check *c, const struct probe_spec *s, bool hit)
{
	char shown[256];

	printf("  %-8s %-40s ", s->stand_in ? "stand-in" : probe_role_name(s->role), text_printable(shown, sizeof(shown), s->symbol));
	if (s->records)
		printf("%" PRIu64 " calls%s\n", s->records, s->stand_in ? " that were steps" : "");
	else if (!s->attached)
		puts(s->refused ? "left out" : "not found");
	else
		puts(hit ? "called" : "never hit");
	c->any |= hit;
	c->called |= hit && s->role == ROLE_STEP && !s->stand_in;
}

/* Prints a glob's functions only if they were hit: there may be thousands. */
static void print_probes(struct check *c)
{
	for (uint32_t i = 0; i < c->pt->n; i++) {
		const struct probe_spec *s = &c->pt->specs[i];
		bool hit = s->attached && session_probe_hit(c->view.session, i);

		if (!s->engine->matched || ((s->is_glob || s->is_usdt) && !s->from && s->attached) || (s->from && !hit))
			continue;
		c->steps |= s->engine->has_step;
		print_probe(c, s, hit);
	}
}

static void check_ignore_loss(struct sink *s, const struct loss *l)
{
}

static void check_ignore_record(struct sink *s, const struct rec_hdr *rec, size_t size)
{
}

static int check_close(struct sink *s, const struct window_totals *t)
{
	struct check *c = (struct check *)((char *)s - offsetof(struct check, sink));

	if (!t)
		return 0;
	c->ended = true;
	print_probes(c);
	if (t->lost[REC_FUNCTION] + t->lost[REC_STEP])
		printf("%" PRIu64 " more calls were lost\n", t->lost[REC_FUNCTION] + t->lost[REC_STEP]);
	if (!c->any)
		puts("nothing was called: the engine did nothing in that time, or other functions did it");
	else if (c->steps && !c->called)
		puts("no step was called: the preset does not fit, or the engine did too little in that time");
	return 0;
}

static int check_open(struct view *v, const struct recording *rec, struct sink **ret_sink)
{
	static const struct sink_ops ops = { .record = check_ignore_record, .loss = check_ignore_loss, .close = check_close };
	struct check *c = (struct check *)v;

	c->pt = rec->probes;
	c->sink.ops = &ops;
	*ret_sink = &c->sink;
	return 0;
}

static int check_round(struct view *v, uint64_t now_ns)
{
	return 0;
}

/* Counts the calls during ns and prints them. Returns an exit code: EXIT_RUN also if no step was called. */
static int engines_check(pid_t pid, const char *engine, uint64_t ns)
{
	static const struct view_ops ops = { .open = check_open, .round = check_round };
	struct check c = { .view = { .ops = &ops, .fd = -1 } };
	struct record_options o = {
		.pids = &pid,
		.n_pids = 1,
		.events = EVENT_FUNCTIONS | EVENT_FUNCTIONS_NAMED,
		.engines = &engine,
		.n_engines = engine != NULL,
		.duration_ns = ns,
		.view = &c.view,
	};
	int code;

	sigemptyset(&c.view.signals);
	code = record_run(&o);
	if (code)
		return code;
	return c.ended && c.any && (c.called || !c.steps) ? EXIT_OK : EXIT_RUN;
}

int cmd_engines(int argc, char **argv)
{
	struct engines_options o = {};
	struct probe_table pt = {};
	int code = EXIT_OK;

	if (cmd_parse(argc, argv, options, engines_parse_option, "[FILE]", doc, &o))
		return EXIT_USAGE;
	if (o.check_ns && !o.pid)
		return log_fail(EXIT_USAGE, "--check: give the process with -p");
	if (o.check_ns)
		return engines_check(o.pid, o.engine, o.check_ns);
	if (o.engine ? engine_load(&pt, o.engine) : engine_load_all(&pt))
		code = EXIT_USAGE;
	else if (o.pid || o.file)
		code = show_matches(&pt, &o);
	else
		list_presets(&pt);
	if (pt.left_out)
		printf("left out: %zu functions, there is room for %d probes\n", pt.left_out, SPECS_MAX);
	probe_table_free(&pt);
	return code;
}
