// SPDX-License-Identifier: BSD-2-Clause
/* inftrace export: the samples of a .pftrace in formats of other tools, and profiles as metrics. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "export/metrics.h"
#include "export/otlp.h"
#include "export/samples.h"
#include "export/tail.h"
#include "io/http_server.h"
#include "io/outfile.h"
#include "read/detect.h"
#include "record.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/names.h"
#include "util/parse.h"
#include "util/text.h"
#include "util/thread.h"

#define PROBLEMS_SHOWN_MAX 10
#define LOOK_MS 1000                  /* how often files are looked at */
#define READ_MAX (UINT64_C(64) << 20) /* at a time, so that a client is answered meanwhile */

/* How long the last sending waits for the previous one. */
#define END_WAITS 100
#define END_WAIT_US 50000

enum {
	KEY_COLLAPSED = 256,
	KEY_PPROF,
	KEY_SPEEDSCOPE,
	KEY_STATE,
	KEY_STEP,
	KEY_SLOW,
	KEY_INTERVAL,
};

struct export_args {
	int format;             /* KEY_COLLAPSED, ... */
	const char *file, *out; /* file: the only one, or the first one of several */
	char **files;           /* in argv */
	size_t n_files;
	bool off_cpu;
	const char *prometheus, *otlp;
	uint64_t slow_ns, interval_ns;
	struct samples_filter filter;
};

static const struct argp_option options[] = {
	{ "collapsed", KEY_COLLAPSED, NULL, 0,
		"One line for each stack and the number of its samples, as flamegraph.pl and others read them", 0 },
	{ "pprof", KEY_PPROF, NULL, 0, "A profile for `go tool pprof`", 0 },
	{ "speedscope", KEY_SPEEDSCOPE, NULL, 0, "JSON for speedscope: each thread in the order of time", 0 },
	{ "output", 'o', "OUT", 0, "Write to OUT (standard output)", 0 },
	{ "off-cpu", CMD_TRUE(struct export_args, off_cpu), NULL, 0,
		"With --collapsed: the stacks of waits and their microseconds, instead of samples", 0 },
	{ "phase", CMD_TEXT(struct export_args, filter.phase), "NAME", 0, "Of a profile: only within steps of this phase (decode, prefill, ...)", 0 },
	{ "state", KEY_STATE, "NAME", 0, "Of a profile: only in this state (cpu, barrier, blocked_futex, ...)", 0 },
	{ "step", KEY_STEP, "NUMBER", 0, "Of a profile: only within this step", 0 },
	{ "prometheus", CMD_TEXT(struct export_args, prometheus), "[ADDR]:PORT", 0,
		"Serve the metrics of profiles, which may grow, and of directories of them to Prometheus, until Ctrl-C (ADDR: 127.0.0.1)", 0 },
	{ "otlp", CMD_TEXT(struct export_args, otlp), "URL", 0, "Send them, and a tree of spans for each slow request, to an OpenTelemetry collector (http://127.0.0.1:4318)", 0 },
	{ "slow", KEY_SLOW, "TIME", 0, "With --otlp: requests that took as long have spans (2s)", 0 },
	{ "interval", KEY_INTERVAL, "TIME", 0, "With --otlp: how often it is sent (10s)", 0 },
	{ 0 },
};

static const char doc[] =
	"The samples of a .pftrace or of a profile (record -e +samples,+stacks), for tools that draw flame graphs. FILE may be "
	"compressed, or from another program that writes perf samples in Perfetto's format; - is the standard input.\n"
	"\v"
	"A profile has the step, phase and state of samples; a .pftrace has each of them with its time, threads with their names, and "
	"files with their paths. --pprof and --speedscope have samples and waits side by side. What a thread was doing when a sample could not be "
	"unwound is [no stack]; a function without a name is its [library]; functions of the kernel end with _[k] in collapsed "
	"stacks, where a semicolon in a name becomes a colon.\n"
	"\n"
	"--prometheus follows profiles and the windows' profiles in directories, and answers at http://ADDR:PORT/metrics; docs/fleet.md says what is "
	"there, and how to watch many hosts. Run it as a user who may read the profiles; it needs nothing else. "
	"--otlp speaks OTLP/HTTP with protobuf.\n"
	"\n"
	"A file of a recording that was cut off is read up to its last whole packet. Damaged parts are left out.\n"
	"\n"
	"Exit code: 0 done; 1 the file cannot be read, or some of it (the rest is written), or it has no samples; 2 usage.\n"
	"\n"
	"EXAMPLES:\n"
	"  inftrace export --collapsed trace.pftrace | flamegraph.pl > flame.svg\n"
	"  inftrace export --collapsed --off-cpu trace.pftrace | flamegraph.pl --countname us > waits.svg\n"
	"  inftrace export --pprof trace.pftrace -o cpu.pb.gz && go tool pprof -top cpu.pb.gz\n"
	"  inftrace export --collapsed --phase decode --state cpu profile.jsonl | flamegraph.pl > decode.svg\n"
	"  inftrace export --speedscope trace.pftrace.gz -o trace.speedscope.json\n"
	"  inftrace export --prometheus :9464 /var/lib/inftrace\n"
	"  inftrace export --otlp http://127.0.0.1:4318 /var/lib/inftrace";

static int parse_state(const char *arg)
{
	for (int i = 0; i < ST_MAX; i++) {
		if (!strcmp(arg, time_state_name((enum time_state)i)))
			return 0;
	}
	return log_fail(EINVAL, "--state: no such state: %.64s (the keys of stage_us in token_prof are states)", arg);
}

static int parse_step(const char *arg, int64_t *ret)
{
	char buf[PARSE_ERROR_MAX];
	uint32_t step;
	int err = parse_u32(arg, &step);

	if (err)
		return log_fail(EINVAL, "%s", parse_error(buf, PARSE_U32, "--step", arg, err));
	*ret = step;
	return 0;
}

static int parse_time(const char *option, const char *arg, uint64_t *ret_ns)
{
	int err = parse_duration(arg, ret_ns);

	if (!err && *ret_ns < NSEC_PER_MSEC)
		err = -ERANGE;
	return err ? -parse_refuse(PARSE_DURATION, option, arg, err) : 0;
}

static error_t export_parse_option(int key, char *arg, struct argp_state *state)
{
	struct export_args *args = state->input;

	switch (key) {
	case KEY_COLLAPSED:
	case KEY_PPROF:
	case KEY_SPEEDSCOPE:
		if (args->format && args->format != key)
			argp_error(state, "give one of --collapsed, --pprof and --speedscope");
		args->format = key;
		return 0;
	case KEY_STATE:
		args->filter.state = arg;
		return parse_state(arg);
	case KEY_STEP:
		return parse_step(arg, &args->filter.step);
	case 'o':
		args->out = strcmp(arg, "-") ? arg : NULL;
		return 0;
	case ARGP_KEY_ARG:
		if (!args->n_files)
			args->file = arg;
		args->files[args->n_files++] = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no FILE given");
		return EINVAL;
	case KEY_SLOW:
		return parse_time("--slow", arg, &args->slow_ns);
	case KEY_INTERVAL:
		return parse_time("--interval", arg, &args->interval_ns);
	case ARGP_KEY_END:
		if (args->prometheus || args->otlp) {
			if (args->format || args->out)
				argp_error(state, "--prometheus and --otlp have neither another format nor an output");
			return 0;
		}
		if (!args->format)
			argp_error(state, "give one of --collapsed, --pprof, --speedscope, --prometheus and --otlp");
		if (args->n_files > 1)
			argp_error(state, "%s: one FILE at a time", args->files[1]);
		if (args->off_cpu && args->format != KEY_COLLAPSED)
			argp_error(state, "--off-cpu is for --collapsed: the other formats have waits as well");
		if (args->format == KEY_PPROF && !args->out && isatty(STDOUT_FILENO))
			argp_error(state, "--pprof writes compressed data: give -o OUT");
		return 0;
	default:
		return cmd_set(key, arg, args);
	}
}

struct problems {
	const char *file; /* fit to print */
	const char *unit; /* of places in it */
	uint64_t n;
};

static void print_problem(void *arg, uint64_t offset, const char *why)
{
	struct problems *p = arg;

	if (p->n++ < PROBLEMS_SHOWN_MAX)
		log_error("%s: %s %llu: %s", p->file, p->unit, (unsigned long long)offset, why);
}

/* Returns why the file cannot be read; NULL: it can, and *ret_profile: as a profile. */
static const char *export_why_unreadable(const struct json_source *source, const struct export_args *args, bool *ret_profile)
{
	bool filtered = args->filter.phase || args->filter.state || args->filter.step >= 0;
	const unsigned char *p = source->pos;
	const char *why = NULL;
	enum file_kind kind;
	char buf[160];

	if (p == source->end)
		return "is empty";
	if (source->end - p > 1 && *p == '\n')
		p++;
	kind = file_detect(source, buf, sizeof(buf), &why);
	*ret_profile = *p == '{' && kind == FILE_PROFILE;
	if (*ret_profile)
		return NULL;
	if (kind >= FILE_EXECUTION_TRACE)
		return why;
	if (*p == '[' || *p == '{')
		return "is a Chrome trace, which has no samples: record with -o FILE.pftrace or --profile FILE";
	return filtered ? "is no profile, and nothing else says the phase, state and step of samples" : NULL;
}

static int export_load_samples(struct samples *s, const struct export_args *args, struct problems *problems)
{
	struct json_source source;
	bool torn = false, profile = false;
	const char *why = NULL;
	int err;

	err = json_source_open(&source, args->file);
	why = err ? source.error : export_why_unreadable(&source, args, &profile);
	if (why) {
		log_error("%s: %s", problems->file, why);
		json_source_close(&source);
		return err ? err : -EINVAL;
	}
	problems->unit = profile ? "line" : "byte";
	if (profile)
		err = samples_read_profile(s, &source, &args->filter, print_problem, problems);
	else
		err = samples_read(s, &source, print_problem, problems, &torn);
	json_source_close(&source);
	if (err == -E2BIG && !problems->n)
		log_error("%s: has more than 1 GB of names and stacks", problems->file);
	if (problems->n > PROBLEMS_SHOWN_MAX)
		log_error("%s: %llu more problems", problems->file, (unsigned long long)problems->n - PROBLEMS_SHOWN_MAX);
	if (torn)
		log_warn("%s: ends within a packet: the recording was cut off", problems->file);
	return err == -E2BIG ? err : 0;
}

/* Whether there is something to write. */
static bool export_has_samples(const struct samples *s, const struct export_args *args, const struct problems *problems)
{
	const char *other = args->off_cpu ? "without --off-cpu" : "with --off-cpu";

	if (args->format == KEY_COLLAPSED ? s->n[args->off_cpu] : s->n[0] + s->n[1])
		return true;
	if (args->format == KEY_COLLAPSED && s->n[!args->off_cpu])
		log_error("%s: has no %s; %s %llu %s are exported", problems->file, args->off_cpu ? "stacks of waits" : "samples", other,
			(unsigned long long)s->n[!args->off_cpu], args->off_cpu ? "samples" : "waits");
	else if (!problems->n && (args->filter.phase || args->filter.state || args->filter.step >= 0))
		log_error("%s: has no samples of that phase, state and step", problems->file);
	else if (!problems->n)
		log_error("%s: has no samples: record with -e +samples (or +stacks, for waits)", problems->file);
	return false;
}

static int export_write(struct samples *s, const struct export_args *args)
{
	const char *slash = strrchr(args->file, '/');
	char why[OUTFILE_WHY_MAX];
	FILE *out = stdout;
	struct stat st;
	int err;

	if (args->out && !stat(args->out, &st) && outfile_is_input(&st, args->file))
		return log_fail(-EINVAL, "-o: %s is the file to export: give another name", args->out);
	err = args->out ? outfile_stream(args->out, &out, why) : 0;
	if (err)
		return log_fail(err, "cannot write %s: %s", args->out, why);
	errno = 0;
	if (args->format == KEY_COLLAPSED)
		err = collapsed_write(s, args->off_cpu, out);
	else if (args->format == KEY_PPROF)
		err = pprof_write(s, out);
	else
		err = speedscope_write(s, slash ? slash + 1 : args->file, out);
	if (out != stdout && fclose(out) && !err)
		err = -EIO;
	if (err)
		log_error("cannot write %s: %s", args->out ? args->out : "the export",
			strerror(errno ? errno : EIO));
	return err;
}

/* ---- --prometheus, --otlp: metrics of profiles that grow, until Ctrl-C ---- */

struct exporter {
	struct tail *tail;
	struct metrics *metrics;
	struct http_server *server;
	struct http_page page;
	int signals;
	int64_t now_ms, look_ms;
	struct otlp_sender *sender; /* these two NULL: no --otlp */
	struct otlp_spans *spans;
	char host[256];
	uint64_t start_ns; /* by the wall clock */
	int64_t interval_ms, send_ms;
	bool following; /* lines read now were not there at the start */
};

static void exporter_take_line(void *ctx, const struct profile_line *line, const char *path)
{
	struct exporter *e = ctx;

	metrics_line(e->metrics, line, path, e->now_ms);
	if (e->spans && e->following)
		otlp_spans_line(e->spans, line, path);
}

static void exporter_read_files(struct exporter *e)
{
	e->now_ms = clock_mono_ms();
	e->look_ms = e->now_ms + LOOK_MS;
	tail_read(e->tail, READ_MAX, exporter_take_line, e);
}

/* Makes the page from what is in the files at this moment. */
static char *exporter_make_page(void *ctx, const char *accept, size_t *ret_len, const char **ret_type)
{
	bool openmetrics = metrics_accepts_openmetrics(accept);
	struct exporter *e = ctx;
	struct metrics_own own;

	exporter_read_files(e);
	*ret_type = metrics_text_type(openmetrics);
	own = (struct metrics_own){ .files = tail_counts(e->tail), .otlp = e->sender };
	if (e->sender) {
		otlp_sender_counts(e->sender, &own.sent);
		own.sent.dropped += otlp_spans_dropped(e->spans);
	}
	return metrics_text(e->metrics, &own, openmetrics, ret_len);
}

/* ---- to a collector ---- */

/* Metrics are sums, so the next sending makes up for a lost one; spans wait until the previous ones have arrived. */
static void exporter_send(struct exporter *e)
{
	size_t len, n;
	char *body;

	e->send_ms = e->now_ms + e->interval_ms;
	if (otlp_sender_ready(e->sender, OTLP_METRICS)) {
		body = otlp_metrics_body(e->metrics, e->host, e->start_ns, clock_ns(CLOCK_REALTIME), &len);
		otlp_sender_pass(e->sender, OTLP_METRICS, body, len, 0);
	}
	body = otlp_sender_ready(e->sender, OTLP_TRACES) ? otlp_spans_body(e->spans, e->host, &len, &n) : NULL;
	if (body)
		otlp_sender_pass(e->sender, OTLP_TRACES, body, len, n);
}

static int open_sender(struct exporter *e, const struct export_args *args)
{
	int err;

	if (!args->otlp)
		return EXIT_OK;
	if (gethostname(e->host, sizeof(e->host) - 1))
		snprintf(e->host, sizeof(e->host), "unknown");
	e->start_ns = clock_ns(CLOCK_REALTIME);
	e->interval_ms = (int64_t)(args->interval_ns / NSEC_PER_MSEC);
	e->spans = otlp_spans_new(args->slow_ns);
	err = otlp_sender_new(args->otlp, &e->sender);
	return !err ? EXIT_OK : err == -EINVAL ? EXIT_USAGE
					       : EXIT_RUN;
}

/* ---- where ---- */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* ":9464", "0.0.0.0:9464", "[::]:9464". Returns the length of the address, 0: it is none. */
static socklen_t parse_address(const char *text, union address *ret)
{
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	uint32_t port;
	size_t len;

	if (!colon || parse_u32(colon + 1, &port) || port > UINT16_MAX || (size_t)(colon - text) >= sizeof(host))
		return 0;
	len = (size_t)(colon - text);
	memcpy(host, text, len);
	host[len] = 0;
	memset(ret, 0, sizeof(*ret));
	if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
		host[len - 1] = 0;
		ret->v6.sin6_family = AF_INET6;
		ret->v6.sin6_port = htons((uint16_t)port);
		return inet_pton(AF_INET6, host + 1, &ret->v6.sin6_addr) == 1 ? sizeof(ret->v6) : 0;
	}
	ret->v4.sin_family = AF_INET;
	ret->v4.sin_port = htons((uint16_t)port);
	return inet_pton(AF_INET, len ? host : "127.0.0.1", &ret->v4.sin_addr) == 1 ? sizeof(ret->v4) : 0;
}

static bool is_loopback(const union address *a)
{
	return a->any.sa_family == AF_INET ? ntohl(a->v4.sin_addr.s_addr) >> 24 == 127 : IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static int exporter_listen(struct exporter *e, const char *text)
{
	union address address;
	socklen_t len = text ? parse_address(text, &address) : 0;
	char host[INET6_ADDRSTRLEN] = "";
	bool v6;
	int err;

	if (!text)
		return EXIT_OK;
	if (!len)
		return log_fail(EXIT_USAGE, "--prometheus: %.64s: give :PORT, ADDRESS:PORT or [ADDRESS]:PORT, with the address in numbers", text);
	v6 = address.any.sa_family == AF_INET6;
	e->page = (struct http_page){ .name = "metrics", .make = exporter_make_page, .ctx = e, .any_host = v6 || !is_loopback(&address) };
	err = http_server_new_page(&address.any, len, &e->page, &e->server);
	if (err)
		return log_fail(err == -EACCES ? EXIT_ALLOWED : EXIT_RUN, "cannot listen on %.64s: %s", text, strerror(-err));
	inet_ntop(address.any.sa_family, v6 ? (void *)&address.v6.sin6_addr : (void *)&address.v4.sin_addr, host, sizeof(host));
	printf(v6 ? "http://[%s]:%u/metrics\n" : "http://%s:%u/metrics\n", host, http_server_port(e->server));
	return cmd_flush("the URL");
}

/* ---- the loop ---- */

static bool exporter_is_ready(struct exporter *e)
{
	return otlp_sender_ready(e->sender, OTLP_METRICS) && otlp_sender_ready(e->sender, OTLP_TRACES);
}

static int exporter_serve(struct exporter *e)
{
	struct pollfd signal = { .fd = e->signals, .events = POLLIN };
	int64_t next, now;
	int err;

	e->following = true;
	for (;;) {
		next = e->sender && e->send_ms < e->look_ms ? e->send_ms : e->look_ms;
		now = clock_mono_ms();
		err = http_server_poll(e->server, &signal, 1, next > now ? next - now : 0);
		if (err)
			return log_fail(EXIT_RUN, "cannot go on: %s", strerror(-err));
		if (signal.revents)
			break;
		e->now_ms = clock_mono_ms();
		if (e->now_ms >= e->look_ms)
			exporter_read_files(e);
		if (e->sender && e->now_ms >= e->send_ms)
			exporter_send(e);
	}
	if (!e->sender)
		return EXIT_OK;
	/* sends what has come since, once the previous sending has arrived */
	exporter_read_files(e);
	for (int i = 0; i < END_WAITS && !exporter_is_ready(e); i++)
		usleep(END_WAIT_US);
	exporter_send(e);
	return EXIT_OK;
}

static int export_metrics(const struct export_args *args)
{
	struct exporter e = { .signals = -1 };
	int ret = EXIT_RUN;

	e.metrics = metrics_new();
	if (!tail_new(args->files, args->n_files, &e.tail))
		e.signals = thread_stop_signals();
	if (e.signals >= 0)
		ret = open_sender(&e, args);
	if (e.signals >= 0 && ret == EXIT_OK) {
		struct pollfd p = { .fd = e.signals, .events = POLLIN };

		/* all that is there is read before anyone can ask: sums that are still catching up would look like a burst of requests */
		do {
			exporter_read_files(&e);
		} while (tail_counts(e.tail)->unread > READ_MAX && poll(&p, 1, 0) <= 0);
		ret = exporter_listen(&e, args->prometheus) ?: exporter_serve(&e);
	}
	http_server_free(e.server);
	otlp_sender_free(e.sender);
	otlp_spans_free(e.spans);
	tail_free(e.tail);
	metrics_free(e.metrics);
	if (e.signals >= 0)
		close(e.signals);
	return ret;
}

int cmd_export(int argc, char **argv)
{
	struct export_args args = { .filter.step = -1, .slow_ns = 2 * NSEC_PER_SEC, .interval_ns = 10 * NSEC_PER_SEC };
	struct samples samples = { 0 };
	struct problems problems = { 0 };
	char printable[256];
	int ret = EXIT_RUN;

	args.files = xcalloc((size_t)argc, sizeof(*args.files));
	if (cmd_parse(argc, argv, options, export_parse_option, "FILE\n--prometheus [ADDR]:PORT PROFILE|DIRECTORY...\n--otlp URL PROFILE|DIRECTORY...", doc, &args)) {
		free(args.files);
		return EXIT_USAGE;
	}
	if (args.prometheus || args.otlp) {
		ret = export_metrics(&args);
		free(args.files);
		return ret;
	}
	free(args.files);
	problems.file = text_printable(printable, sizeof(printable), args.file);
	samples.each = args.format == KEY_SPEEDSCOPE;
	if (!export_load_samples(&samples, &args, &problems) && export_has_samples(&samples, &args, &problems) && !export_write(&samples, &args))
		ret = problems.n ? EXIT_RUN : EXIT_OK;
	samples_clear(&samples);
	return ret;
}
