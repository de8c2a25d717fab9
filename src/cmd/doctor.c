// SPDX-License-Identifier: BSD-2-Clause
/* inftrace doctor: what this kernel and these privileges allow, line by line. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/features.h"
#include "cmd/cmd.h"
#include "engine/engine.h"
#include "record/metadata.h"
#include "target/process.h"
#include "util/log.h"
#include "util/parse.h"

struct doctor_args {
	bool env_hash;
	pid_t pid;
};

static const struct argp_option options[] = {
	{ "env-hash", 'E', NULL, 0, "Print the env_hash of the process and what it is made of",
		0 },
	{ "pid", 'p', "PID", 0, "The process for --env-hash", 0 },
	{ 0 },
};

static const char doc[] =
	"Say what this kernel and these privileges allow inftrace to do.\n"
	"\v"
	"One line for each thing that matters: ok, missing (with the remedy, or, for optional things, what is lost without them) or "
	"unknown (it cannot be tried without the privileges that are missing). Everything is tried, for a moment, rather than derived "
	"from the kernel's release.\n"
	"\n"
	"Exit code: 0 a recording can run, 3 it cannot; with --env-hash 0 or 1; 2 usage.\n"
	"\n"
	"EXAMPLES:\n"
	"  sudo inftrace doctor\n"
	"  inftrace doctor | grep -v ^ok\n"
	"  sudo inftrace doctor --env-hash $(pgrep llama-server)";

static error_t doctor_parse_option(int key, char *arg, struct argp_state *state)
{
	struct doctor_args *args = state->input;
	uint32_t pid;

	switch (key) {
	case 'E':
		args->env_hash = true;
		return 0;
	case ARGP_KEY_ARG:
		if (!args->env_hash || args->pid)
			return ARGP_ERR_UNKNOWN;
		/* fall through */
	case 'p':
		if (parse_u32(arg, &pid) || !pid || pid > INT32_MAX)
			argp_error(state, "not the PID of a process: %.32s", arg);
		args->pid = (pid_t)pid;
		return 0;
	case ARGP_KEY_END:
		if (args->env_hash != !!args->pid)
			argp_error(state, "--env-hash and a PID go together");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void doctor_print_line(const char *state, const char *what, const char *text)
{
	if (*text)
		printf("%-8s %-29s %s\n", state, what, text);
	else
		printf("%-8s %s\n", state, what);
}

static void print_capabilities(const struct features *f)
{
	for (int i = 0; i < CAPABILITIES_MAX; i++) {
		const struct capability_desc *d = &capability_descs[i];
		char text[160];

		if (features_have_capability(f, d->cap)) {
			bool own = f->caps & 1ull << d->cap;

			doctor_print_line("ok", d->name, own ? "" : "as part of CAP_SYS_ADMIN");
			continue;
		}
		if (d->loss)
			snprintf(text, sizeof(text), "optional: %s", d->loss);
		else
			snprintf(text, sizeof(text),
				"run as root (sudo), or give it with setcap or --cap-add");
		doctor_print_line("missing", d->name, text);
	}
}

static void print_sysctl(const char *name, int32_t value, const char *without)
{
	char text[96];

	if (value == SYSCTL_UNKNOWN)
		snprintf(text, sizeof(text), "not there");
	else
		snprintf(text, sizeof(text), "%" PRId32 ", matters only without %s", value, without);
	doctor_print_line("ok", name, text);
}

static void print_surroundings(const struct features *f)
{
	char text[96];

	doctor_print_line(f->user_ns ? "missing" : "ok", "initial user namespace",
		f->user_ns ? "run on the host or in a container of the real root" : "");
	doctor_print_line(f->pid_ns ? "missing" : "ok", "initial PID namespace",
		f->pid_ns ? "optional: -p takes the host's PIDs; run with --pid=host" : "");
	doctor_print_line(!strcmp(f->lockdown, "confidentiality") ? "missing" : "ok", "kernel lockdown",
		!*f->lockdown ? "none"
		: strcmp(f->lockdown, "confidentiality")
			? f->lockdown
			: "boot with lockdown=integrity or without");
	if (f->memlock == UINT64_MAX)
		snprintf(text, sizeof(text), "unlimited");
	else
		snprintf(text, sizeof(text), "%" PRIu64 " KiB, not used since 5.11",
			f->memlock >> 10);
	doctor_print_line("ok", "RLIMIT_MEMLOCK", text);
	/* values above 2 come from a patch of Debian and Ubuntu, which does not know CAP_PERFMON */
	print_sysctl("perf_event_paranoid", f->perf_paranoid,
		f->perf_paranoid > 2 ? "CAP_SYS_ADMIN" : "CAP_PERFMON");
	print_sysctl("unprivileged_bpf_disabled", f->unprivileged_bpf_disabled, "CAP_BPF");
}

static void print_feature(const struct features *f, enum feature id)
{
	const struct feature_desc *d = &feature_descs[id];
	char text[384], remedy[256];

	if (features_have(f, id)) {
		snprintf(text, sizeof(text), "since Linux %s", d->since);
		doctor_print_line("ok", d->name, text);
		return;
	}
	if (!features_permitted(f) && (f->err[id] == -EPERM || f->err[id] == -EACCES)) {
		doctor_print_line("unknown", d->name, "cannot be tried without the privileges above");
		return;
	}
	features_remedy(f, id, remedy, sizeof(remedy));
	if (features_blocked_by(f, id))
		snprintf(text, sizeof(text), "%s", remedy);
	else if (d->instead && features_have(f, d->instead))
		snprintf(text, sizeof(text), "optional: %s stands in for it (%s)",
			feature_descs[d->instead].name, remedy);
	else
		snprintf(text, sizeof(text), "optional: %s (%s)", d->loss, remedy);
	doctor_print_line("missing", d->name, text);
}

static int doctor_report(void)
{
	char why[384], kernel[160];
	struct features f;
	int err;

	err = features_probe(&f, false);
	if (err)
		return log_fail(EXIT_RUN, "cannot look at this system: %s", strerror(-err));
	err = features_require(&f, why, sizeof(why));
	snprintf(kernel, sizeof(kernel), "%s %s", f.release, f.machine);
	doctor_print_line("ok", "kernel", kernel);
	print_capabilities(&f);
	print_surroundings(&f);
	for (int i = 0; i < FEATURE_MAX; i++)
		print_feature(&f, i);
	if (err)
		printf("\ninftrace cannot record here: %s\n", why);
	else
		printf("\ninftrace can record here%s\n",
			features_fault_ends(&f) == FAULT_ENDS_NONE ? ", but no page faults" : "");
	return err ? EXIT_ALLOWED : EXIT_OK;
}

static int print_env_hash(pid_t pid)
{
	struct probe_table pt = { 0 };
	char hash[ENV_HASH_MAX], *json = NULL;
	int err;

	err = process_exists(pid) ? 0 : -ESRCH;
	if (!err)
		err = engine_load_all(&pt);
	if (!err)
		err = env_hash_process(pid, &pt, &json, hash);
	if (err == -ESRCH)
		log_error("no such process: %d (pgrep finds the right one)", pid);
	else if (err == -EACCES || err == -EPERM)
		log_error("process %d may not be read: run as root (sudo)", pid);
	else if (err)
		log_error("no env_hash of process %d: %s", pid, strerror(-err));
	else
		printf("%s\n%s\n", json, hash);
	free(json);
	probe_table_free(&pt);
	return err ? EXIT_RUN : EXIT_OK;
}

/* keeps libbpf's own messages from appearing between the lines */
static int print_nothing(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return 0;
}

int cmd_doctor(int argc, char **argv)
{
	struct doctor_args args = { 0 };
	int ret;

	if (cmd_parse(argc, argv, options, doctor_parse_option, "[--env-hash PID]", doc, &args))
		return EXIT_USAGE;
	libbpf_set_print(print_nothing);
	ret = args.env_hash ? print_env_hash(args.pid) : doctor_report();
	return cmd_flush("to the standard output") ?: ret;
}
