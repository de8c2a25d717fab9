// SPDX-License-Identifier: BSD-2-Clause
/* The options of windows and of the flight recorder: values, valid combinations, the environment. */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cases.h"
#include "cmd/record_window.h"
#include "record/output.h"
#include "record/trigger.h"
#include "stderr.h"
#include "unit.h"

#define SEC UINT64_C(1000000000)
#define MB (UINT64_C(1) << 20)
#define ARGS_MAX 16

static struct record_options o;
static struct record_strings strings;
static struct stderr_grab grab;
static const char *const said = grab.text;
static char top[64];

static const char *const variables[] = { "INFTRACE_WINDOW_FLAG", "VLLM_CHAKRA_FLAG",
	"INFTRACE_MAX_STEPS", "VLLM_CHAKRA_TRACE_MAX_STEPS", "INFTRACE_OUTPUT_DIR",
	"VLLM_CHAKRA_TRACE_DIR", "VLLM_CHAKRA_TRACE", "VLLM_CHAKRA_RECORD_SHAPES", "VLLM_CHAKRA_WITH_STACK",
	"VLLM_CHAKRA_SYNC_CUDA", "SUDO_UID" };

static void forget(void)
{
	record_strings_free(&strings);
	trigger_free(o.triggers);
	strings = (struct record_strings){};
	o = (struct record_options){};
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		unsetenv(variables[i]);
}

static int setup(void **state)
{
	forget();
	strcpy(top, "/tmp/test_record_window.XXXXXX");
	return mkdtemp(top) && !chdir(top) ? 0 : -1;
}

static int teardown(void **state)
{
	forget();
	return chdir("/") || rmdir(top);
}

/* Parses options given as one text, separated by blanks. */
static int parse(const char *text)
{
	static char copy[512];
	char *argv[ARGS_MAX] = { (char *)"record" }, *save = NULL;
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	return -GRABBED(grab, argp_parse(&record_window_argp, argc, argv, ARGP_NO_EXIT, NULL, &o));
}

static int check(void)
{
	return GRABBED(grab, record_window_check(&o));
}

static int environment(void)
{
	return GRABBED(grab, record_window_environment(&o, &strings));
}

/* These options are good, alone and together. */
static void expect_good(const char *options)
{
	forget();
	assert_int_equal(parse(options), 0);
	assert_int_equal(check(), 0);
	assert_string_equal(said, "");
}

static void assert_text(const char *text, const char *wanted)
{
	if (!text || !wanted)
		assert_ptr_equal(text, wanted);
	else
		assert_string_equal(text, wanted);
}

/* ---- values ---- */

TEST_WITH(test_nothing, setup, teardown)
{
	assert_int_equal(parse(""), 0);
	assert_int_equal(environment(), 0);
	assert_int_equal(check(), 0);
	assert_false(record_by_time(&o));
	assert_null(o.output_dir);
	assert_int_equal(o.n_formats, 0);
	assert_string_equal(said, "");
}

TEST_WITH(test_windows, setup, teardown)
{
	expect_good("--window-flag f --max-steps 70000 --format pftrace,json.gz --output-dir .");
	assert_text(o.window_flag, "f");
	assert_int_equal(o.max_steps, 70000);
	assert_int_equal(o.n_formats, 2);
	assert_text(o.formats[0], "pftrace");
	assert_text(o.formats[1], "json.gz");
	assert_text(o.output_dir, ".");
	expect_good("--window every=60s,for=2s");
	assert_text(o.window_spec, "every=60s,for=2s");
	assert_int_equal(o.n_formats, 1);
	assert_text(o.formats[0], "json");
	assert_text(o.output_dir, ".");
	expect_good("--format json --format json.gz,pftrace,pftrace.gz --window manual");
	assert_int_equal(o.n_formats, 4);
}

TEST_WITH(test_flight, setup, teardown)
{
	static const struct {
		const char *text;
		uint64_t bytes, ns;
	} sizes[] = {
		{ "64MB", 64 * MB, 0 },
		{ "64M", 64 * MB, 0 },
		{ "1mb", MB, 0 },
		{ "1.5GiB", 1536 * MB, 0 },
		{ "1048576B", MB, 0 },
		{ "30s", 0, 30 * SEC },
		{ "2m", 0, 120 * SEC },
		{ "100ms", 0, SEC / 10 },
		{ "1h", 0, 3600 * SEC },
	};
	char text[64];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		snprintf(text, sizeof(text), "--flight-recorder %s", sizes[i].text);
		expect_good(text);
		if (o.flight_bytes != sizes[i].bytes || o.flight_ns != sizes[i].ns)
			fail_msg("%s", text);
		assert_int_equal(o.trigger_cooldown_ns, 10 * SEC);
		assert_int_equal(o.max_dumps, 0);
	}
	expect_good("--flight-recorder 1s --trigger step>1s --trigger exit --trigger-cooldown 0 --max-dumps 3");
	assert_non_null(o.triggers);
	assert_int_equal(o.trigger_cooldown_ns, 0);
	assert_int_equal(o.max_dumps, 3);
}

TEST_WITH(test_rotation, setup, teardown)
{
	expect_good("--max-size 1MB --max-files 2");
	assert_int_equal(o.max_size, MB);
	assert_int_equal(o.max_files, 2);
	assert_false(record_by_time(&o));
}

/* ---- what is wrong ---- */

struct bad {
	const char *options, *line;
};

/* Each is refused with one line, when parsed (early) or when all are checked. */
static void expect_bad(const struct bad *bad, size_t n, bool early)
{
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(parse(bad[i].options), early ? -EINVAL : 0);
		if (!early)
			assert_int_equal(check(), -EINVAL);
		if (!strstr(said, bad[i].line) || strchr(said, '\n') != said + strlen(said) - 1)
			fail_msg("%s: %s", bad[i].options, said);
		forget();
	}
}

TEST_WITH(test_bad_values, setup, teardown)
{
	static const struct bad bad[] = {
		{ "--window-flag=", "--window-flag: the name is empty\n" },
		{ "--output-dir=", "--output-dir: the name is empty\n" },
		{ "--max-steps x", "--max-steps: 'x' is not a number; write digits only, at most "
				   "4294967295\n" },
		{ "--max-steps -1", "--max-steps: '-1' is not a number" },
		{ "--format=", "--format: '' is not a format; there are json, json.gz, pftrace, "
			       "pftrace.gz, et, et.json, kineto.json, kineto.json.gz, and of profiles jsonl, jsonl.gz\n" },
		{ "--format json,", "--format: '' is not a format" },
		{ "--format jsn", "--format: 'jsn' is not a format; nearest: json; there are json" },
		{ "--format perfetto", "--format: 'perfetto' is not a format; there are json" },
		{ "--format .json", "--format: '.json' is not a format; nearest: json; there are" },
		{ "--format json,pftrace,json", "--format: json is given twice\n" },
		{ "--flight-recorder=", "--flight-recorder: '' is neither a size nor a time; write 64MB or 30s\n" },
		{ "--flight-recorder 64", "--flight-recorder: '64' is neither a size nor a time" },
		{ "--flight-recorder 1.5", "--flight-recorder: '1.5' is neither a size nor a time" },
		{ "--flight-recorder much", "--flight-recorder: 'much' is neither a size nor a time" },
		{ "--flight-recorder 1023K", "--flight-recorder: 1023K is less than 1MB\n" },
		{ "--flight-recorder 99ms", "--flight-recorder: 99ms is less than 100ms\n" },
		{ "--flight-recorder 9999TB", "--flight-recorder: 9999TB is more than the " },
		{ "--flight-recorder 99999999T", "--flight-recorder: '99999999T' is neither a size nor a time" },
		{ "--trigger stop>1s", "--trigger: 'stop' is not known; nearest: step; there are step, decode" },
		{ "--trigger step>fast", "--trigger: step: 'fast' is not a duration" },
		{ "--trigger-cooldown x", "--trigger-cooldown: 'x' is not a duration" },
		{ "--max-dumps 0", "--max-dumps: must be at least 1\n" },
		{ "--max-dumps x", "--max-dumps: 'x' is not a number" },
		{ "--max-size x", "--max-size: 'x' is not a size; write 64MB, 512K or a number of bytes\n" },
		{ "--max-size 1023KB", "--max-size: 1023KB is less than 1MB\n" },
		{ "--max-files 0", "--max-files: must be at least 1\n" },
	};

	expect_bad(bad, ARRAY_SIZE(bad), true);
}

TEST_WITH(test_bad_together, setup, teardown)
{
	static const struct bad bad[] = {
		{ "--window-flag f --window manual", "give one of --window-flag and --window\n" },
		{ "--window manual --flight-recorder 1s",
			"give windows (--window-flag, --window) or --flight-recorder, not both\n" },
		{ "--window-flag f --flight-recorder 1MB", "or --flight-recorder, not both\n" },
		{ "--flight-recorder 1MB --max-steps 5", "--max-steps is for windows" },
		{ "--flight-recorder 1MB --max-steps-per-process 5", "--max-steps-per-process is for windows" },
		{ "--max-steps 5 --max-steps-per-process 5", "give one of --max-steps and" },
		{ "--output-dir x", "--output-dir needs --window-flag, --window or "
				    "--flight-recorder: without them give -o\n" },
		{ "--format json", "--format needs --window-flag, --window or --flight-recorder" },
		{ "--trigger exit", "--trigger needs --flight-recorder, such as 64MB or 30s\n" },
		{ "--trigger exit --window manual", "--trigger needs --flight-recorder" },
		{ "--trigger-cooldown 10s", "--trigger-cooldown needs --trigger and --flight-recorder\n" },
		{ "--trigger-cooldown 0s --flight-recorder 1s", "--trigger-cooldown needs --trigger and" },
		{ "--max-dumps 1 --flight-recorder 1s", "--max-dumps needs --trigger and --flight-recorder\n" },
		{ "--max-files 1", "--max-files needs --max-size\n" },
		{ "--window sometimes", "--window: 'sometimes' is neither manual nor like every=60s,for=2s\n" },
		{ "--window every=1s,for=1s", "--window: for=1s is not shorter than every=1s\n" },
		{ "--window=", "--window: '' is neither manual nor like" },
	};

	expect_bad(bad, ARRAY_SIZE(bad), false);
	/* also by record itself */
	for (int flight = 0; flight < 2; flight++) {
		for (int profile = 0; profile < 2; profile++) {
			char line[120];

			parse(flight ? "--flight-recorder 1s" : "--window manual");
			o.profile = profile ? "p.jsonl" : NULL;
			o.n_outputs = !profile;
			o.outputs[0] = "t.json";
			assert_int_equal(check(), -EINVAL);
			snprintf(line, sizeof(line),
				"inftrace: %s: with %s the files are named by time: give --output-dir and --format\n",
				profile ? "--profile" : "-o",
				flight ? "--flight-recorder" : "windows");
			assert_string_equal(said, line);
			forget();
		}
	}
	parse("--max-size 1MB");
	o.outputs[o.n_outputs++] = "t.json";
	assert_int_equal(check(), 0);
	forget();
	parse("--max-size 1MB");
	o.outputs[o.n_outputs++] = "-";
	assert_int_equal(check(), -EINVAL);
	assert_string_equal(said, "inftrace: --max-size: output to stdout cannot be split into files\n");
}

TEST_WITH(test_folder, setup, teardown)
{
	struct stat st;
	mode_t old = umask(027);

	expect_good("--window manual --output-dir a/b//c/");
	assert_int_equal(access("a", F_OK), -1); /* something else may still be refused */
	assert_int_equal(outputs_prepare(&o), 0);
	umask(old);
	assert_int_equal(stat("a/b/c", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0750);
	expect_good("--window manual --output-dir a/b/c");
	forget();
	fclose(fopen("a/file", "we"));
	parse("--window manual --output-dir a/file");
	assert_int_equal(check(), -ENOTDIR);
	assert_string_equal(said, "inftrace: --output-dir: cannot write into a/file: Not a directory\n");
	forget();
	parse("--window manual --output-dir a/file/c");
	assert_int_equal(check(), -ENOTDIR);
	forget();
	parse("--window manual --output-dir /proc/nowhere");
	if (!check())
		assert_true(GRABBED(grab, outputs_prepare(&o)) < 0);
	assert_non_null(strstr(said, "--output-dir: cannot write into /proc/nowhere: "));
	forget();
	/* nothing is created when something else is wrong */
	parse("--window sometimes --output-dir never");
	assert_int_equal(check(), -EINVAL);
	assert_int_equal(access("never", F_OK), -1);
	unlink("a/file");
	rmdir("a/b/c");
	rmdir("a/b");
	rmdir("a");
}

/* ---- the environment ---- */

struct setting {
	const char *variables; /* "A=a|B=b" */
	const char *options, *output;
	const char *flag, *directory; /* the resulting values; NULL: none */
	uint32_t max_steps, each;
	const char *said; /* whole lines, or parts of them; NULL: any */
	int err;
	bool command; /* a COMMAND is given */
};

static void expect_settings(const struct setting *s, size_t n)
{
	for (; n; n--, s++) {
		char copy[512], *save = NULL, *command[] = { "true", NULL };

		forget();
		parse(s->options ? s->options : "");
		o.events = EVENTS_DEFAULT;
		o.outputs[0] = s->output;
		o.n_outputs = s->output != NULL;
		o.command = s->command ? command : NULL;
		snprintf(copy, sizeof(copy), "%s", s->variables);
		for (char *v = strtok_r(copy, "|", &save); v; v = strtok_r(NULL, "|", &save)) {
			char *value = strchr(v, '=');

			*value = 0;
			setenv(v, value + 1, 1);
		}
		print_message("%s\n", s->variables);
		assert_int_equal(environment(), s->err);
		assert_text(o.window_flag, s->flag);
		if (s->directory || !s->options)
			assert_text(o.output_dir, s->directory);
		assert_int_equal(o.max_steps, s->max_steps);
		assert_int_equal(o.max_steps_each, s->each);
		if (s->said && (!*s->said || s->said[strlen(s->said) - 1] == '\n'))
			assert_string_equal(said, s->said);
		else if (s->said)
			assert_non_null(strstr(said, s->said));
	}
}

#define OURS "INFTRACE_WINDOW_FLAG=f|INFTRACE_MAX_STEPS=5|INFTRACE_OUTPUT_DIR=d"

TEST_WITH(test_own_environment, setup, teardown)
{
	static const struct setting settings[] = {
		{ .variables = OURS, .flag = "f", .directory = "d", .max_steps = 5, .said = "inftrace: windows while f exists: INFTRACE_WINDOW_FLAG in the environment\n"
											    "inftrace: windows of 5 steps: INFTRACE_MAX_STEPS in the environment\n" },
		/* the options win */
		{ .variables = OURS, .options = "--window-flag g --max-steps 6 --output-dir .", .flag = "g", .directory = ".", .max_steps = 6, .said = "" },
		{ .variables = "INFTRACE_WINDOW_FLAG=f", .options = "--flight-recorder 1s" },
		{ .variables = "INFTRACE_WINDOW_FLAG=f", .options = "--window manual" },
		/* one file for the whole run */
		{ .variables = "INFTRACE_WINDOW_FLAG=f|INFTRACE_OUTPUT_DIR=d", .output = "t.json", .said = "inftrace: INFTRACE_WINDOW_FLAG in the environment is left out: -o is for the whole run\n" },
		/* empty counts as unset, malformed does not */
		{ .variables = "INFTRACE_WINDOW_FLAG=|INFTRACE_MAX_STEPS=many", .said = "INFTRACE_MAX_STEPS: 'many' is not a number", .err = -EINVAL },
		/* the other tool's variables count, too, unless switched off */
		{ .variables = "VLLM_CHAKRA_FLAG=f|VLLM_CHAKRA_TRACE= ", .flag = "f" },
		{ .variables = "VLLM_CHAKRA_FLAG=f|VLLM_CHAKRA_TRACE=0" },
		/* blank counts as unset */
		{ .variables = "INFTRACE_WINDOW_FLAG= |VLLM_CHAKRA_FLAG=g", .flag = "g" },
	};

	expect_settings(settings, ARRAY_SIZE(settings));
}

/* Further variables of the other tool. */
TEST_WITH(test_switches, setup, teardown)
{
	static const struct setting shapes = {
		.variables = "VLLM_CHAKRA_FLAG=f|VLLM_CHAKRA_RECORD_SHAPES=1|VLLM_CHAKRA_WITH_STACK=0|VLLM_CHAKRA_SYNC_CUDA=on",
		.flag = "f",
		.said = "VLLM_CHAKRA_SYNC_CUDA in the environment is left out: ",
	};
	static const struct setting stacks = { .variables = "VLLM_CHAKRA_FLAG=f|VLLM_CHAKRA_RECORD_SHAPES=0|VLLM_CHAKRA_WITH_STACK=1", .flag = "f" };
	static const struct setting settings[] = {
		/* its switch alone means its own default places */
		{ .variables = "VLLM_CHAKRA_TRACE=1", .flag = "/tmp/vllm_chakra_trace_on", .directory = "/home/ubuntu/vllm_quickstart/vllm_chakra" },
		{ .variables = "VLLM_CHAKRA_TRACE=True|INFTRACE_WINDOW_FLAG=f", .flag = "f" },
		{ .variables = "VLLM_CHAKRA_TRACE=n|VLLM_CHAKRA_FLAG=f" },
	};

	expect_settings(&shapes, 1);
	assert_true(o.op_detail);
	assert_int_equal(o.events, EVENTS_DEFAULT);
	expect_settings(&stacks, 1);
	assert_false(o.op_detail);
	assert_int_equal(o.events, EVENTS_DEFAULT | EVENT_SAMPLES | EVENT_STACKS);
	expect_settings(settings, ARRAY_SIZE(settings));
}

/* A COMMAND has our environment. */
TEST_WITH(test_command, setup, teardown)
{
	static const struct setting settings[] = {
		/* as its specification counts */
		{ .variables = "VLLM_CHAKRA_FLAG=f|VLLM_CHAKRA_TRACE_DIR=d|VLLM_CHAKRA_TRACE_MAX_STEPS=7", .command = true, .flag = "f", .directory = "d", .each = 7 },
		/* without windows that number concerns another program only */
		{ .variables = "VLLM_CHAKRA_TRACE_MAX_STEPS=7", .command = true },
		{ .variables = "VLLM_CHAKRA_FLAG=f|INFTRACE_WINDOW_FLAG=g", .command = true, .flag = "g" },
	};

	expect_settings(settings, ARRAY_SIZE(settings));
}

/* A process with these variables, in `dir`, as another user unless 0. It is fully set up when this returns. */
static pid_t child(uid_t user, const char *dir, const char *const env[])
{
	int up[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(up), 0);
	pid = fork();
	if (!pid) {
		if (chdir(dir) || (user && setuid(user)))
			_exit(1);
		dup2(up[1], STDOUT_FILENO);
		close(up[0]);
		close(up[1]);
		/* no second exec: during an exec the environment is empty */
		execle("/bin/sh", "sh", "-c", "echo; kill -STOP $$", NULL, env);
		_exit(1);
	}
	close(up[1]);
	assert_int_equal(read(up[0], &c, 1), 1);
	close(up[0]);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* What these processes ask for. */
static void read_processes(pid_t *pids, size_t n, const char *flag)
{
	o.pids = pids;
	o.n_pids = n;
	assert_int_equal(environment(), 0);
	assert_text(o.window_flag, flag);
}

TEST_WITH(test_target, setup, teardown)
{
	static const char *const env[] = { "VLLM_CHAKRA_FLAG=/x/flag",
		"VLLM_CHAKRA_TRACE_DIR=traces", "VLLM_CHAKRA_TRACE_MAX_STEPS=9", NULL };
	static const char *const other[] = { "VLLM_CHAKRA_FLAG=/y/flag",
		"VLLM_CHAKRA_TRACE_DIR=traces", "VLLM_CHAKRA_TRACE_MAX_STEPS=10", NULL };
	char line[512], path[128];
	pid_t pid = child(0, top, env), pids[2];

	read_processes(&pid, 1, "/x/flag");
	snprintf(path, sizeof(path), "%s/traces", top);
	assert_text(o.output_dir, path);
	assert_int_equal(o.max_steps_each, 9);
	snprintf(line, sizeof(line),
		"inftrace: windows while /x/flag exists: VLLM_CHAKRA_FLAG of process %d\n"
		"inftrace: windows of 9 steps of each process: VLLM_CHAKRA_TRACE_MAX_STEPS of process %d\n",
		pid, pid);
	assert_string_equal(said, line);
	forget();
	/* with several, the first one's count is used and the others are named */
	pids[0] = pid;
	pids[1] = child(0, top, other);
	read_processes(pids, 2, "/x/flag");
	snprintf(line, sizeof(line),
		"inftrace: VLLM_CHAKRA_FLAG of process %d is left out: windows are as process %d says; record them apart\n"
		"inftrace: VLLM_CHAKRA_TRACE_MAX_STEPS of process %d is left out: windows are as process %d says; record them apart\n",
		pids[1], pids[0], pids[1], pids[0]);
	assert_memory_equal(said, line, strlen(line));
	end_child(pids[1]);
	forget();
	/* our own value comes first */
	setenv("INFTRACE_WINDOW_FLAG", "ours", 1);
	read_processes(&pid, 1, "ours");
	forget();
	/* ignored without windows */
	o.profile = "p";
	read_processes(&pid, 1, NULL);
	assert_null(o.output_dir);
	assert_int_equal(o.max_steps, 0);
	forget();
	end_child(pid);
	/* an exited process is reported elsewhere */
	read_processes(&pid, 1, NULL);
}

TEST_WITH(test_target_variants, setup, teardown)
{
	static const char *const env[] = { "INFTRACE_WINDOW_FLAG=flag", "VLLM_CHAKRA_FLAG=other",
		"INFTRACE_MAX_STEPS=x\x1b", NULL };
	pid_t pid = child(0, top, env);
	char path[128];

	snprintf(path, sizeof(path), "%s/flag", top);
	read_processes(&pid, 1, path);
	assert_int_equal(o.max_steps, 0);
	assert_non_null(strstr(said, "warning: INFTRACE_MAX_STEPS: 'x?' is not a number"));
	assert_non_null(strstr(said, "; it is left out\n"));
	forget();
	end_child(pid);
}

TEST_WITH(test_target_of_another, setup, teardown)
{
	static const char *const env[] = { "VLLM_CHAKRA_FLAG=/x/flag", "VLLM_CHAKRA_TRACE_DIR=/etc",
		NULL };
	pid_t pid;

	if (getuid())
		SKIP("needs root");
	pid = child(4711, "/", env);
	read_processes(&pid, 1, NULL); /* it may never appear */
	assert_null(o.output_dir);
	assert_non_null(strstr(said,
		"is left out: the process is another user's, or sees other files; give --window-flag"));
	forget();
	setenv("SUDO_UID", "4711", 1);
	read_processes(&pid, 1, "/x/flag");
	assert_text(o.output_dir, "/etc");
	forget();
	end_child(pid);
}

RUN_TESTS(NULL, NULL)
