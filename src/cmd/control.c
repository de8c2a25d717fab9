// SPDX-License-Identifier: BSD-2-Clause
/* inftrace start, stop, dump, status: talk to a running recording. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "io/control.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/text.h"

#define TEXT_MAX 4096 /* bytes of a line that is printed */

struct control_args {
	pid_t pid; /* 0: the only recording */
	struct control_where where;
	const char *reason, *last; /* NULL: everything */
	bool json;
};

enum {
	OPT_REASON = 256,
	OPT_LAST,
	OPT_USER,
};

static const struct argp_option dump_options[] = {
	{ "last", OPT_LAST, "N|TIME", 0, "only the last N engine steps, of all processes together, or the last TIME, such as 2s", 0 },
	{ "reason", OPT_REASON, "TEXT", 0, "shown in the dump, at the instant of the request", 0 },
	{ "pid", 'p', "PID", 0, "the recording of this process, or of the recorder with this PID (default: the only one)", 0 },
	{ "user", OPT_USER, "USER", 0,
		"a recording of this user, a name or a UID (default: one of your own, and for root also the service's)", 0 },
	{ "json", CMD_TRUE(struct control_args, json), NULL, 0, "print the answer of the recorder, JSON on one line", 0 },
	{ 0 },
};
#define COMMON_OPTIONS (dump_options + 2)

static error_t control_parse_option(int key, char *arg, struct argp_state *state)
{
	struct control_args *args = state->input;
	struct last last;
	int err;

	switch (key) {
	case 'p':
		return -control_take_pid(arg, &args->pid);
	case OPT_REASON:
		if (strlen(arg) >= CONTROL_REASON_MAX)
			return log_fail(EINVAL, "--reason: more than %d bytes", CONTROL_REASON_MAX - 1);
		args->reason = arg;
		return 0;
	case OPT_LAST:
		args->last = arg;
		err = parse_last(arg, &last);
		return err ? -parse_refuse(PARSE_LAST, "--last", arg, err) : 0;
	case OPT_USER:
		return -control_take_user(arg, &args->where);
	case ARGP_KEY_INIT:
		state->err_stream = NULL; /* no second line after getopt's own, and no exit */
		return 0;
	case ARGP_KEY_ARG:
		return log_fail(EINVAL, "not an option: %.64s; a process is given with -p", arg);
	default:
		return cmd_set(key, arg, args);
	}
}

/* ---- answers ---- */

static void print_json(struct json_object *reply)
{
	size_t len;
	char *text = control_text(reply, &len);

	puts(text);
	free(text);
}

/* A missing string is NULL, and a missing number 0. */
static const char *reply_get_string(struct json_object *object, const char *key)
{
	struct json_object *value = json_object_object_get(object, key);

	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

static uint64_t reply_get_number(struct json_object *object, const char *key)
{
	return json_object_get_uint64(json_object_object_get(object, key));
}

static double reply_get_real(struct json_object *object, const char *key)
{
	return json_object_get_double(json_object_object_get(object, key));
}

static void print_text(const char *text)
{
	char shown[TEXT_MAX];

	fputs(text_printable(shown, sizeof(shown), text ? text : ""), stdout);
}

/* Prints each element of an array: a name, or {"name", "bytes"}. */
static void print_files(struct json_object *reply, const char *key, const char *indent)
{
	struct json_object *files, *file, *bytes;

	if (!json_object_object_get_ex(reply, key, &files) ||
		!json_object_is_type(files, json_type_array))
		return;
	for (size_t i = 0; i < json_object_array_length(files); i++) {
		file = json_object_array_get_idx(files, i);
		fputs(indent, stdout);
		if (json_object_is_type(file, json_type_string))
			print_text(json_object_get_string(file));
		else
			print_text(reply_get_string(file, "name"));
		if (json_object_object_get_ex(file, "bytes", &bytes))
			printf(" (%.1f MB)", json_object_get_double(bytes) / 1e6);
		putchar('\n');
	}
}

static void print_status(const struct control_peer *peer)
{
	struct json_object *s = peer->status, *value;

	printf("recorder %d, %.0f s: ", peer->pid, reply_get_real(s, "elapsed_s"));
	control_print_targets(stdout, peer);
	fputs("\n  ", stdout);
	if (reply_get_string(s, "window")) {
		printf("window %" PRIu64 " ", reply_get_number(s, "number"));
		print_text(reply_get_string(s, "window"));
		fputs(", ", stdout);
	}
	printf("%" PRIu64 " steps, %" PRIu64 " records, %" PRIu64 " lost\n", reply_get_number(s, "steps"),
		reply_get_number(s, "records"), reply_get_number(s, "lost"));
	if (reply_get_number(s, "probed_files_given_back"))
		printf("  %" PRIu64 " files with probes, %" PRIu64 " given back\n", reply_get_number(s, "probed_files"),
			reply_get_number(s, "probed_files_given_back"));
	if (json_object_object_get_ex(s, "recorder", &value) &&
		json_object_is_type(value, json_type_object))
		printf("  flight recorder: %.1f MB, the newest %.1f s, %" PRIu64 " dumps\n",
			reply_get_real(value, "bytes") / 1e6, reply_get_real(value, "horizon_s"),
			reply_get_number(value, "dumps"));
	print_files(s, "outputs", "  ");
	if (reply_get_string(s, "output_dir")) {
		fputs("  files go to ", stdout);
		print_text(reply_get_string(s, "output_dir"));
		putchar('\n');
	}
}

/* ---- commands ---- */

static int status_run(const struct control_args *args)
{
	struct control_peer *peers;
	size_t n;
	int err = 0;

	control_list(&args->where, args->pid, &peers, &n);
	if (!n) {
		control_say_none(&args->where, args->pid);
		return -ENOENT;
	}
	for (size_t i = 0; i < n; i++) {
		if (!peers[i].status) {
			log_error("%s", peers[i].error);
			err = -ETIMEDOUT;
		} else if (args->json) {
			print_json(peers[i].status);
		} else {
			print_status(&peers[i]);
		}
	}
	control_peers_free(peers, n);
	return err;
}

static int command_run(const struct control_args *args, enum control_command command)
{
	struct json_object *reply = NULL;
	struct control_peer peer;
	int err;

	err = control_find(&args->where, args->pid, &peer);
	if (err)
		return err;
	err = control_ask(&peer, command, args->reason, args->last, &reply, NULL);
	if (!err && args->json) {
		print_json(reply);
	} else if (!err) {
		if (reply_get_string(reply, "message")) {
			print_text(reply_get_string(reply, "message"));
			putchar('\n');
		}
		print_files(reply, "files", "");
	}
	json_object_put(reply);
	control_peer_free(&peer);
	return err;
}

#define DOC_EXIT                                                                                   \
	"\n\nExit code: 0 done, 1 no such recording, or it failed, 2 usage. A recorder that does " \
	"not answer within five seconds counts as failed."

static const struct {
	const struct argp_option *options;
	const char *doc;
} commands[] = {
	[CONTROL_START] = { COMMON_OPTIONS,
		"Opens a window in a running recording: from then on it keeps records."
		"\vFor recordings with --window or --window-flag, which also continue to open and close windows by themselves."
		"\n\nEXAMPLES:\n"
		"  sudo inftrace start\n"
		"  sudo inftrace start -p $(pgrep llama-server)\n"
		"  sudo inftrace start && sleep 2 && sudo inftrace stop\n"
		"        two seconds of a busy server" DOC_EXIT },
	[CONTROL_STOP] = { COMMON_OPTIONS,
		"Closes the open window and prints the names of its files; a recording without windows ends."
		"\vA recorder with windows stays attached, for the next one; Ctrl-C or SIGTERM end it."
		"\n\nEXAMPLES:\n"
		"  sudo inftrace stop\n"
		"  sudo inftrace stop -p 4711 --json" DOC_EXIT },
	[CONTROL_DUMP] = { dump_options,
		"Writes what the flight recorder of a recording holds to files, and prints their "
		"names. The recording goes on meanwhile."
		"\vFor recordings with --flight-recorder. SIGUSR1 to the recorder does the same."
		"\n\nEXAMPLES:\n"
		"  sudo inftrace dump\n"
		"  sudo inftrace dump --last 2s\n"
		"  sudo inftrace dump -p $(pgrep llama-server) --reason 'p99 alert'" DOC_EXIT },
	[CONTROL_STATUS] = { COMMON_OPTIONS,
		"Shows the running recordings: what they record, whether a window is open, how much they have, and their files."
		"\vWith --json a line for each recording. Root sees its own and that of the systemd service; those of other users are "
		"shown only with --user."
		"\n\nEXAMPLES:\n"
		"  sudo inftrace status\n"
		"  sudo inftrace status -p 4711 --json" DOC_EXIT },
};

int cmd_control(int argc, char **argv)
{
	struct control_args args = { .where = control_where_own() };
	enum control_command command = 0;
	int err;

	while (!text_has_suffix(argv[0], control_commands[command]))
		command++;
	if (cmd_parse(argc, argv, commands[command].options, control_parse_option, NULL, commands[command].doc, &args))
		return EXIT_USAGE;
	err = command == CONTROL_STATUS ? status_run(&args) : command_run(&args, command);
	return cmd_flush("to the standard output") || err ? EXIT_RUN : EXIT_OK;
}
