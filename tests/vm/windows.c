// SPDX-License-Identifier: BSD-2-Clause
/* Recordings of a program that makes steps on request: windows, and dumps of the flight recorder. */
#include "../program.h"

#include <dirent.h>
#include <poll.h>

#include "checks.h"

/* known, which makes steps on request, and a recording of it. */
struct stepper {
	pid_t pid, recorder;
	int to, from;
	char name[32], log[48];
};

static bool stepper_start(struct stepper *s, const char *name, const char *option, const char *value, const char *more)
{
	char pid_text[16];
	char *known[] = { "/bin/known", "steps", "/steps", "/stepped", NULL };
	char *record[] = { "/bin/inftrace", "record", "-v", "--strict", "-e",
		"sched,syscalls,functions", "-u", "/bin/known:step_*@step", "--output-dir", OUT,
		"-p", pid_text, (char *)option, (char *)value, (char *)more, NULL };

	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->log, sizeof(s->log), OUT "/%s.log", name);
	s->pid = child_start(OUT "/known.log", known);
	s->to = fifo_open("/steps", s->pid);
	s->from = open("/stepped", O_RDONLY | O_CLOEXEC);
	snprintf(pid_text, sizeof(pid_text), "%d", s->pid);
	s->recorder = child_start(s->log, record);
	return s->to >= 0 && s->from >= 0 && file_wait_has(s->log, "Ctrl-C ends it", s->recorder);
}

/* Each byte is answered when it is done. */
static bool stepper_tell(const struct stepper *s, const char *bytes)
{
	struct pollfd p = { .fd = s->from, .events = POLLIN };
	char answer;

	for (; *bytes; bytes++) {
		if (write(s->to, bytes, 1) != 1 || poll(&p, 1, CHILD_SECONDS * 1000) != 1 || read(s->from, &answer, 1) != 1)
			return false;
	}
	return true;
}

/* How many of its files begin with `what` and end in `suffix`, and the lines in them that contain the text. */
static int stepper_files(const struct stepper *s, const char *what, const char *suffix, const char *line_text, int *ret_lines)
{
	DIR *dir = opendir(OUT);
	struct dirent *e;
	char prefix[48], path[300];
	int n = 0;

	*ret_lines = 0;
	snprintf(prefix, sizeof(prefix), "%s_pid%d_", what, s->pid);
	while (dir && (e = readdir(dir))) {
		size_t len = strlen(e->d_name), tail = strlen(suffix);

		if (strncmp(e->d_name, prefix, strlen(prefix)) || len < tail || strcmp(e->d_name + len - tail, suffix))
			continue;
		snprintf(path, sizeof(path), OUT "/%s", e->d_name);
		*ret_lines += lines_with(path, line_text);
		n++;
	}
	if (dir)
		closedir(dir);
	return n;
}

static int stepper_lines(const struct stepper *s, const char *what, const char *suffix, const char *line_text)
{
	int lines;

	stepper_files(s, what, suffix, line_text, &lines);
	return lines;
}

/* Creates or removes the flag, and waits until the window is open or closed. */
static bool stepper_flag(const struct stepper *s, const char *flag, bool on)
{
	int lines;

	if (on)
		close(open(flag, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	else
		unlink(flag);
	for (int ms = 0; ms < CHILD_SECONDS * 1000 && child_lives(s->recorder); ms += 5) {
		if (stepper_files(s, "trace", ".part", "", &lines) == on)
			return true;
		pause_ms(5);
	}
	return false;
}

/* Ends the recording, then the program. */
static void stepper_finish(struct stepper *s, bool ok)
{
	int rc, lines, traces;

	kill(s->recorder, SIGINT);
	rc = child_finish(s->recorder);
	close(s->to);
	child_finish(s->pid);
	close(s->from);
	traces = stepper_files(s, "trace", ".json", "", &lines);
	result(ok && !rc && traces == stepper_files(s, "profile", ".jsonl", "", &lines), s->name,
		"exit code %d, %d pairs of files, %d calls of getppid, %d steps of which %d began before and %d are unfinished",
		rc, traces, stepper_lines(s, "trace", ".json", "\"getppid\""),
		stepper_lines(s, "profile", ".jsonl", "\"token_prof\""),
		stepper_lines(s, "profile", ".jsonl", "\"began_before\""),
		stepper_lines(s, "profile", ".jsonl", "\"unfinished\""));
	if (!ok || rc)
		log_print(s->log);
}

/* Checks what the files of all windows have together. */
static void stepper_check(const struct stepper *s, const char *name, int calls, int steps, int cut)
{
	char check[48];

	snprintf(check, sizeof(check), "%s-counts", name);
	result(stepper_lines(s, "trace", ".json", "\"getppid\"") == calls &&
			stepper_lines(s, "profile", ".jsonl", "\"token_prof\"") == steps &&
			stepper_lines(s, "profile", ".jsonl", "\"began_before\"") == cut &&
			stepper_lines(s, "profile", ".jsonl", "\"unfinished\"") == cut,
		check, "wanted %d calls, %d steps, %d of them in two windows", calls, steps, cut);
}

/* Two windows, with a step cut by the end of one and the beginning of the other; in between, its programs are detached. A third
 * one ends when it has five steps. */
void record_windows(const char *name)
{
	struct stepper s;
	bool ok;

	unlink("/tmp/flag"); /* of an earlier one, whose last window has ended by itself */
	ok = stepper_start(&s, name, "--window-flag", "/tmp/flag", "--max-steps=5") && stepper_tell(&s, "ss");
	ok = ok && stepper_flag(&s, "/tmp/flag", true) && stepper_tell(&s, "sssb") &&
	     stepper_flag(&s, "/tmp/flag", false);
	pause_ms(1500);
	ok = ok && stepper_flag(&s, "/tmp/flag", true) && stepper_tell(&s, "es") &&
	     stepper_flag(&s, "/tmp/flag", false);
	ok = ok && stepper_tell(&s, "s");
	ok = ok && stepper_flag(&s, "/tmp/flag", true) && stepper_tell(&s, "ssssssss") &&
	     file_wait_has(s.log, "to max_steps)", s.recorder);
	stepper_finish(&s, ok);
	stepper_check(&s, name, 3 * 10 + 10 + 5 + 10 + 5 * 10, 4 + 2 + 5, 1);
}

void record_every(const char *name)
{
	struct stepper s;
	int lines;
	bool ok;

	ok = stepper_start(&s, name, "--window", "every=700ms,for=200ms", NULL) &&
	     file_wait_has(s.log, "window 2 (schedule to schedule)", s.recorder);
	stepper_finish(&s, ok);
	lines = stepper_lines(&s, "profile", ".jsonl", "\"window_prof\"");
	result(lines >= 3, "every-windows", "%d windows", lines);
}

/* Everything since its start is in the dump. */
void record_flight(const char *name)
{
	struct stepper s;
	bool ok;

	ok = stepper_start(&s, name, "--flight-recorder", "4MB", NULL) && stepper_tell(&s, "sssss");
	kill(s.recorder, SIGUSR1);
	ok = ok && file_wait_has(s.log, "dump 0 (SIGUSR1)", s.recorder) && stepper_tell(&s, "s");
	stepper_finish(&s, ok);
	stepper_check(&s, name, 5 * 10, 5, 0);
}
