// SPDX-License-Identifier: BSD-2-Clause
/* inftrace serve: serves a trace, finished or still being written, to the Perfetto UI in a browser. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "io/control.h"
#include "io/http_server.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/text.h"
#include "util/thread.h"

/* The only port that the content security policy of the UI lets it fetch from, see
 * ui/src/frontend/index.ts of Perfetto. */
#define UI_PORT 9001

#define GRACE_MS 30000 /* how long the file can be fetched once it is complete */
#define LOOK_MS 500    /* how often to check whether a recording still writes it */

enum {
	KEY_USER = 256,
};

struct serve_args {
	const char *file;
	uint32_t port;
	pid_t pid; /* 0: the only recording */
	bool live, once;
	struct control_where where;
};

static const struct kind {
	const char *suffix, *type;
	const char *first; /* the file must begin with one of these */
} kinds[] = {
	{ ".json", "application/json", "[{ \t\r\n" },
	{ ".json.gz", "application/gzip", "\x1f" },       /* RFC 1952, section 2.3.1 */
	{ ".pftrace", "application/octet-stream", "\n" }, /* the key of a packet */
};

struct serve_served {
	const char *path; /* as the user calls it */
	const struct kind *kind;
	char name[HTTP_NAME_MAX];
	int fd;
	bool growing; /* a recording is writing it */
	int recorder; /* the recorder's pidfd, -1: not known */
	int signals;
	struct http_server *server;
	int64_t end_ms;      /* when the grace ends, once the file has stopped growing */
	uint64_t final_size; /* the size at that time */
};

static const struct argp_option options[] = {
	{ "live", CMD_TRUE(struct serve_args, live), NULL, 0, "The file of the recording that is running, not FILE", 0 },
	{ "pid", 'p', "PID", 0, "With --live: the recording of this process, or by this recorder",
		0 },
	{ "user", KEY_USER, "USER", 0,
		"With --live: a recording of this user, a name or a UID (default: one of your own, and for root also the service's)",
		0 },
	{ "port", 'P', "PORT", 0,
		"Port on 127.0.0.1 (9001, the only one the UI may fetch from); 0: any free one",
		0 },
	{ "once", CMD_TRUE(struct serve_args, once), NULL, 0, "End once the whole file has been fetched", 0 },
	{ "verbose", 'v', NULL, 0, "Also a line for each request", 0 },
	{ "quiet", 'q', NULL, 0, "Only the URL, and errors", 0 },
	{ 0 },
};

static const char doc[] =
	"Serve a trace (.json, .json.gz, .pftrace) to https://ui.perfetto.dev in a browser on this machine, also while it is still "
	"being recorded: each load of the page shows all that was recorded until then. Prints the URL to open, and serves until "
	"Ctrl-C; a file that is being recorded until the recording has ended and the file was fetched once more, for 30 s at most.\n"
	"\v"
	"The trace stays on this machine: the page loads it from 127.0.0.1 into the browser. Only this one file can be read, by "
	"whoever may connect to 127.0.0.1 on this machine, and by no pages but those of the UI and of this machine. The browser may "
	"ask whether the UI may access this device: allow it.\n"
	"\n"
	"From another machine, forward the port first, and open the URL there:\n"
	"  ssh -L 9001:127.0.0.1:9001 SERVER\n"
	"\n"
	"Exit code: 0 done; 1 the file cannot be served, or no recording is running; 2 usage; 3 the privileges do not allow it.\n"
	"\n"
	"EXAMPLES:\n"
	"  inftrace serve trace.json.gz\n"
	"  sudo inftrace serve --live\n"
	"  sudo inftrace serve --live -p $(pgrep llama-server)\n"
	"  inftrace serve --once trace.pftrace | xargs -n 1 xdg-open";

static error_t serve_parse_option(int key, char *arg, struct argp_state *state)
{
	struct serve_args *args = state->input;

	switch (key) {
	case 'P':
		if (!parse_u32(arg, &args->port) && args->port <= UINT16_MAX)
			return 0;
		return log_fail(EINVAL, "--port: %.32s is not a port; give 0 to %d", arg, UINT16_MAX);
	case 'p':
		return -control_take_pid(arg, &args->pid);
	case KEY_USER:
		return -control_take_user(arg, &args->where);
	case 'v':
		log_set_level(1);
		return 0;
	case 'q':
		log_set_level(-1);
		return 0;
	case ARGP_KEY_ARG:
		if (args->file)
			argp_error(state, "one FILE only; each further one needs a port of its own");
		args->file = arg;
		return 0;
	case ARGP_KEY_END:
		if (!args->file == !args->live)
			argp_error(state, args->file ? "give a FILE or --live, not both"
						     : "no FILE given, nor --live");
		if (args->pid && !args->live)
			argp_error(state, "-p needs --live");
		if (args->where.uid != geteuid() && !args->live)
			argp_error(state, "--user needs --live");
		return 0;
	default:
		return cmd_set(key, arg, args);
	}
}

/* ---- the file ---- */

/* Determines the kind of trace from its name, NULL if that is not the name of a trace; and the name
 * to serve it under. */
static const struct kind *trace_kind_by_name(const char *path, char name[HTTP_NAME_MAX])
{
	http_name(path, name);
	if (text_has_suffix(name, ".part")) /* of an open window */
		name[strlen(name) - strlen(".part")] = 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (text_has_suffix(name, kinds[i].suffix))
			return &kinds[i];
	}
	return NULL;
}

/* A recording keeps its files locked. Checking takes the lock for an instant, and a recording that
 * begins just then would find it taken, so this is done no more often than needed. */
static bool is_being_written(int fd)
{
	if (flock(fd, LOCK_SH | LOCK_NB))
		return errno == EWOULDBLOCK;
	flock(fd, LOCK_UN);
	return false;
}

static int served_check_file(struct serve_served *sv)
{
	const char *why = NULL;
	struct stat st;
	char first;

	if (fstat(sv->fd, &st))
		return log_fail(EXIT_RUN, "cannot read %s: %s", sv->path, strerror(errno));
	sv->growing = S_ISREG(st.st_mode) && is_being_written(sv->fd);
	if (!S_ISREG(st.st_mode))
		why = S_ISDIR(st.st_mode) ? "it is a directory, give a trace in it" : "it is not a regular file";
	else if (!st.st_size && !sv->growing)
		why = "it is empty, and no recording writes it";
	/* the content must fit the name: other people's secrets, for example, do not begin so */
	else if (st.st_size && (pread(sv->fd, &first, 1, 0) != 1 || !first || !strchr(sv->kind->first, first)))
		why = "its content does not fit its name";
	if (why)
		log_error("cannot serve %s: %s", sv->path, why);
	return why ? EXIT_RUN : EXIT_OK;
}

static int served_open_file(const char *path, struct serve_served *sv)
{
	struct stat st;

	sv->path = path;
	sv->kind = trace_kind_by_name(path, sv->name);
	/* its type says more than its name */
	if (!sv->kind && (stat(path, &st) || S_ISREG(st.st_mode)))
		return log_fail(EXIT_USAGE, "%s: the name of a trace ends in .json, .json.gz or .pftrace; a profile is for inftrace report",
			path);
	/* O_NONBLOCK: a named pipe may have nobody at its other end */
	sv->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (sv->fd < 0)
		return log_fail(EXIT_RUN, "cannot read %s: %s", path, strerror(errno));
	return served_check_file(sv);
}

/* ---- the file of a running recording ---- */

/*
 * The recorder passes the descriptor itself: a name could be that of any file that this process may read
 * and the recorder may not. So only what its user could read anyway is served.
 */
static int check_passed_fd(const struct control_peer *peer, int fd)
{
	struct statfs fs;
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) ||
		(flags & (O_ACCMODE | O_PATH)) != O_RDONLY)
		return log_fail(-EPROTO, "recorder %d passed something that is not a file to read", peer->pid);
	/* its owner answers each read, whenever they like */
	if (peer->uid != geteuid() && (fstatfs(fd, &fs) || fs.f_type == FUSE_SUPER_MAGIC))
		return log_fail(-EACCES, "recorder %d passed a file of a file system that a user serves",
			peer->pid);
	return 0;
}

/* Opens the first trace among the files that the recorder writes. *ret_path, its name, is to be freed. */
static int open_passed_file(const struct control_peer *peer, char **ret_path, int *ret_fd)
{
	struct json_object *reply, *name;
	int err, fd = -1;

	/* asked after opening the pidfd, so the pidfd is that of this recorder */
	err = control_ask(peer, CONTROL_OPEN, NULL, NULL, &reply, &fd);
	if (err)
		return err;
	if (fd < 0 || !json_object_object_get_ex(reply, "name", &name) ||
		!json_object_is_type(name, json_type_string)) {
		log_error("recorder %d passed no file", peer->pid);
		err = -EPROTO;
	}
	if (!err)
		err = check_passed_fd(peer, fd);
	if (!err) {
		*ret_path = xstrdup(json_object_get_string(name));
		*ret_fd = fd;
	} else if (fd >= 0) {
		close(fd);
	}
	json_object_put(reply);
	return err;
}

static int served_open_live(const struct serve_args *args, char **ret_path, struct serve_served *sv)
{
	struct control_peer peer;
	int err, ret = EXIT_RUN;

	err = control_find(&args->where, args->pid, &peer);
	if (err)
		return err == -EACCES ? EXIT_ALLOWED : EXIT_RUN;
	sv->recorder = (int)syscall(SYS_pidfd_open, peer.pid, 0);
	err = open_passed_file(&peer, ret_path, &sv->fd);
	if (!err) {
		sv->path = *ret_path;
		sv->kind = trace_kind_by_name(sv->path, sv->name);
		if (sv->kind)
			ret = served_check_file(sv);
		else
			log_error("recorder %d is not writing a trace that can be served", peer.pid);
	}
	/* it may have ended just now; what it left is still served for the grace period */
	if (ret == EXIT_OK)
		sv->growing = true;
	control_peer_free(&peer);
	return err == -EACCES ? EXIT_ALLOWED : ret;
}

/* ---- serving ---- */

static int open_server(const struct serve_args *args, struct serve_served *sv)
{
	int err = http_server_new((uint16_t)args->port, sv->fd, sv->name, sv->kind->type, &sv->server);

	if (!err)
		return EXIT_OK;
	if (err == -EADDRINUSE)
		log_error("port %u of 127.0.0.1 is taken, by another inftrace serve or a trace_processor: end that, or use --port",
			args->port);
	else
		log_error("cannot listen on port %u of 127.0.0.1: %s", args->port, strerror(-err));
	return err == -EACCES ? EXIT_ALLOWED : EXIT_RUN;
}

static int served_print_url(const struct serve_args *args, const struct serve_served *sv)
{
	unsigned int port = http_server_port(sv->server);
	struct stat st = { 0 };

	fstat(sv->fd, &st);
	log_info("serving %s (%.1f MB%s) until %s%s; open in a browser:", sv->path,
		(double)st.st_size / 1e6, sv->growing ? " so far" : "",
		args->once ? "it was fetched, or " : "",
		sv->growing ? "the recording ends, or Ctrl-C" : "Ctrl-C");
	printf(HTTP_UI "/#!/?url=http://127.0.0.1:%u/%s\n", port, sv->name);
	if (cmd_flush("the URL"))
		return EXIT_RUN;
	if (port != UI_PORT)
		log_warn("the UI may fetch from port %d only: forward it, with ssh -L %d:127.0.0.1:%u, and write %d in the URL",
			UI_PORT, UI_PORT, port, UI_PORT);
	return EXIT_OK;
}

static void begin_grace(struct serve_served *sv, int64_t now)
{
	struct stat st = { 0 };

	fstat(sv->fd, &st);
	sv->growing = false;
	sv->final_size = (uint64_t)st.st_size;
	sv->end_ms = now + GRACE_MS;
	if (http_server_sent_whole(sv->server) != sv->final_size)
		log_info("the recording has ended: the trace can be fetched once more, for %d s",
			GRACE_MS / 1000);
}

static bool served_is_done(const struct serve_args *args, const struct serve_served *sv, int64_t now)
{
	uint64_t sent = http_server_sent_whole(sv->server);

	if (http_server_busy(sv->server))
		return false;
	if (args->once && sent)
		return true;
	if (!sv->end_ms)
		return false;
	if (sent == sv->final_size) {
		log_info("the recording has ended, and all of it was fetched");
		return true;
	}
	if (now < sv->end_ms)
		return false;
	log_info("nobody fetched all of the trace; it is in %s", sv->path);
	return true;
}

static int served_run(const struct serve_args *args, struct serve_served *sv)
{
	struct pollfd fds[2], recorder = { .fd = sv->recorder, .events = POLLIN };
	int64_t now = clock_mono_ms();
	int err;

	while (!served_is_done(args, sv, now)) {
		fds[0] = (struct pollfd){ .fd = sv->signals, .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = sv->growing ? sv->recorder : -1, .events = POLLIN };
		err = http_server_poll(sv->server, fds, 2, sv->growing ? LOOK_MS : sv->end_ms > now ? sv->end_ms - now
												    : -1);
		if (err)
			return log_fail(EXIT_RUN, "cannot wait for requests: %s", strerror(-err));
		if (fds[0].revents)
			return EXIT_OK;
		now = clock_mono_ms();
		if (sv->growing && (poll(&recorder, 1, 0) == 1 || !is_being_written(sv->fd)))
			begin_grace(sv, now);
	}
	return EXIT_OK;
}

int cmd_serve(int argc, char **argv)
{
	struct serve_args args = { .port = UI_PORT, .where = control_where_own() };
	struct serve_served sv = { .fd = -1, .recorder = -1, .signals = -1 };
	char *path = NULL;
	int ret;

	if (cmd_parse(argc, argv, options, serve_parse_option, "FILE\n--live [-p PID] [--user USER]", doc, &args))
		return EXIT_USAGE;
	ret = args.live ? served_open_live(&args, &path, &sv) : served_open_file(args.file, &sv);
	if (ret == EXIT_OK) {
		sv.signals = thread_stop_signals();
		ret = sv.signals < 0 ? EXIT_RUN : open_server(&args, &sv);
	}
	if (ret == EXIT_OK)
		ret = served_print_url(&args, &sv);
	if (ret == EXIT_OK)
		ret = served_run(&args, &sv);
	http_server_free(sv.server);
	if (sv.signals >= 0)
		close(sv.signals);
	if (sv.recorder >= 0)
		close(sv.recorder);
	if (sv.fd >= 0)
		close(sv.fd);
	free(path);
	return ret;
}
