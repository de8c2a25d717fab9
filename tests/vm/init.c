// SPDX-License-Identifier: BSD-2-Clause
/*
 * The only process of the virtual machine that scripts/vm-smoke boots: mounts what inftrace
 * needs, runs the checks, powers off. Each check is one line on the console, "vm-smoke: ok
 * NAME: ..." or "vm-smoke: FAIL NAME: ...", and "vm-smoke: end" is the last. What the checks
 * wrote to OUT goes to the second serial port as a cpio archive.
 *
 * Linked statically: when a library is missing in the initramfs, this still says so.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define OUT "/out"
#define CHILD_SECONDS 40
#define KNOWN_EXIT_CODE 7
#define MANY_CALLS 3
#define SINGLE_LINKS_MAX 128
#define HOLD_STEPS 201 /* 200, and one of the constructor */
#define HOLD_TRIES 4
#define SPAWNS_AT_ONCE 50 /* in one recording */
#define LOG_TAIL_BYTES 2500

static int failures;

__attribute__((format(printf, 3, 4))) static void result(
	bool ok, const char *name, const char *fmt, ...)
{
	struct timespec now;
	va_list ap;

	clock_gettime(CLOCK_BOOTTIME, &now);
	printf("vm-smoke: %s %s: at %ld.%03ld s, ", ok ? "ok" : "FAIL", name, (long)now.tv_sec,
		now.tv_nsec / 1000000);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	failures += !ok;
}

static void pause_ms(long ms)
{
	const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

/* The last bytes of a file, each line behind "| ", so that it is no result line. */
static void log_print(const char *path)
{
	FILE *in = fopen(path, "re");
	char line[512];

	if (!in)
		return;
	if (fseek(in, -LOG_TAIL_BYTES, SEEK_END))
		rewind(in);
	while (fgets(line, sizeof(line), in))
		printf("| %s%s", line, strchr(line, '\n') ? "" : "\n");
	fflush(stdout);
	fclose(in);
}

/* Starts argv in a process group of its own, with stdout and stderr in the file log. */
static pid_t child_start(const char *log, char *const argv[])
{
	pid_t pid = fork();
	int fd;

	if (pid)
		return pid;
	setpgid(0, 0);
	fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
		_exit(126);
	execv(argv[0], argv);
	perror(argv[0]);
	_exit(127);
}

/* Waits for the child; its exit code, 128 + N when killed by signal N, or -1 when it ran
 * past the deadline and was killed for it. */
static int child_finish(pid_t pid)
{
	int status;

	for (int ms = 0; ms < CHILD_SECONDS * 1000; ms += 5) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		pause_ms(5);
	}
	kill(-pid, SIGKILL);
	waitpid(pid, &status, 0);
	return -1;
}

static bool child_lives(pid_t pid)
{
	siginfo_t info = { 0 };

	return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid;
}

/* Runs argv to its end as a check of that name; prints its output when the exit code is not
 * the expected one. */
static bool child_check(const char *name, int expected, char *const argv[])
{
	char log[64];
	int rc;

	snprintf(log, sizeof(log), OUT "/%s.log", name);
	rc = child_finish(child_start(log, argv));
	result(rc == expected, name, "exit code %d", rc);
	if (rc != expected)
		log_print(log);
	return rc == expected;
}

static int bpf_call(int cmd, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

/* Counts the loaded BPF programs; with a name, prints them as one note line. */
static int programs_count(const char *name)
{
	union bpf_attr attr;
	__u32 id = 0;
	int n = 0;

	if (name)
		printf("vm-smoke: note %s: programs", name);
	for (;; n++) {
		struct bpf_prog_info info;
		int fd;

		memset(&attr, 0, sizeof(attr));
		attr.start_id = id;
		if (bpf_call(BPF_PROG_GET_NEXT_ID, &attr))
			break;
		id = attr.next_id;
		memset(&attr, 0, sizeof(attr));
		attr.prog_id = id;
		fd = bpf_call(BPF_PROG_GET_FD_BY_ID, &attr);
		if (fd < 0)
			continue;
		memset(&info, 0, sizeof(info));
		memset(&attr, 0, sizeof(attr));
		attr.info.bpf_fd = (__u32)fd;
		attr.info.info_len = sizeof(info);
		attr.info.info = (__u64)(unsigned long)&info;
		if (!bpf_call(BPF_OBJ_GET_INFO_BY_FD, &attr) && name)
			printf(" %s", info.name);
		close(fd);
	}
	if (name)
		putchar('\n');
	fflush(stdout);
	return n;
}

/* Waits until a process waits for the FIFO; returns the write end, and that process goes on
 * when it is closed. Fails when the child ends before. */
static int fifo_open(const char *path, pid_t pid)
{
	for (int ms = 0; ms < CHILD_SECONDS * 1000 && child_lives(pid); ms += 5) {
		int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

		if (fd >= 0)
			return fd;
		pause_ms(5);
	}
	return -1;
}

/* The files of a recording: counts as the program knows them, trace and profile. */
struct files {
	char counts[48], trace[48], profile[48], log[48];
};

static void files_name(struct files *f, const char *name)
{
	snprintf(f->counts, sizeof(f->counts), OUT "/%s.counts", name);
	snprintf(f->trace, sizeof(f->trace), OUT "/%s.json", name);
	snprintf(f->profile, sizeof(f->profile), OUT "/%s.jsonl", name);
	snprintf(f->log, sizeof(f->log), OUT "/%s.log", name);
}

/* What is in the files of a recording is valid and agrees with the counts. */
static void files_check(const char *name, struct files *f)
{
	char *trace[] = { "/bin/inftrace", "validate", f->trace, NULL };
	char *profile[] = { "/bin/inftrace", "validate", f->profile, "--require",
		"token_prof,syscall_prof,fault_prof,sched_prof,memory_prof,window_prof", NULL };
	char *count[] = { "/bin/count", f->counts, f->trace, f->profile, NULL };
	char check[48];

	snprintf(check, sizeof(check), "%s-trace", name);
	child_check(check, 0, trace);
	snprintf(check, sizeof(check), "%s-profile", name);
	child_check(check, 0, profile);
	snprintf(check, sizeof(check), "%s-counts", name);
	child_check(check, 0, count);
}

/* inftrace record -- known: from the command's first instruction on. */
static void record_command(char *name, char *events)
{
	struct files f;
	char *argv[] = { "/bin/inftrace", "record", "-v", "--strict", "-e", events, "-o", f.trace, "--profile",
		f.profile, "-u", "/bin/known:work@step", "-u", "/bin/known:leaf@op", "--",
		"/bin/known", f.counts, "-", "/hold", NULL };
	pid_t pid;
	int fd, rc;

	files_name(&f, name);
	pid = child_start(f.log, argv);
	fd = fifo_open("/hold", pid);
	if (fd >= 0) {
		programs_count(name);
		close(fd);
	}
	rc = child_finish(pid);
	result(rc == KNOWN_EXIT_CODE, name, "record -- known: exit code %d", rc);
	if (rc == KNOWN_EXIT_CODE)
		files_check(name, &f);
	else
		log_print(f.log);
}

static bool file_contains(const char *path, const char *prefix)
{
	char buf[16] = "";
	FILE *in = fopen(path, "re");

	if (!in)
		return false;
	if (!fgets(buf, sizeof(buf), in))
		buf[0] = 0;
	fclose(in);
	return buf[0] && !strncmp(buf, prefix, strlen(prefix));
}

/* Waits until the file begins with the prefix; fails when the child ends before. */
static bool file_wait(const char *path, const char *prefix, pid_t pid)
{
	for (int ms = 0; ms < CHILD_SECONDS * 1000 && child_lives(pid); ms += 5) {
		if (file_contains(path, prefix))
			return true;
		pause_ms(5);
	}
	return false;
}

/* Whether a line of the file has that text. */
static bool file_has(const char *path, const char *line_text)
{
	FILE *in = fopen(path, "re");
	char line[512];
	bool found = false;

	while (in && !found && fgets(line, sizeof(line), in))
		found = strstr(line, line_text);
	if (in)
		fclose(in);
	return found;
}

/* Waits until it has; fails when the child ends before. */
static bool file_wait_has(const char *path, const char *line_text, pid_t pid)
{
	for (int ms = 0; ms < CHILD_SECONDS * 1000 && child_lives(pid); ms += 20) {
		if (file_has(path, line_text))
			return true;
		pause_ms(20);
	}
	return false;
}

/* A process that calls leaf() all the time and is not recorded, and the code of that. */
struct stranger {
	pid_t pid;
	off_t leaf;
	char code[16];
};

static bool stranger_code(const struct stranger *s, char code[16])
{
	char path[32];
	int fd;
	bool ok;

	snprintf(path, sizeof(path), "/proc/%d/mem", s->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ok = fd >= 0 && pread(fd, code, 16, s->leaf) == 16;
	close(fd);
	return ok;
}

static bool stranger_start(struct stranger *s)
{
	char *argv[] = { "/bin/known", "spin", OUT "/stranger", NULL };
	unsigned long leaf = 0;
	FILE *in;

	s->pid = child_start(OUT "/stranger.log", argv);
	if (!file_wait(OUT "/stranger", "0x", s->pid))
		return false;
	in = fopen(OUT "/stranger", "re");
	if (!in || fscanf(in, "%lx", &leaf) != 1)
		return false;
	fclose(in);
	s->leaf = (off_t)leaf;
	return stranger_code(s, s->code);
}

/* Waits, while that child lives, until the stranger's code is, or is not, as it was without a
 * probe. */
static void stranger_check(const struct stranger *s, const char *name, bool probed, pid_t pid)
{
	char code[16];
	bool ok = false;

	for (int ms = 0; ms < CHILD_SECONDS * 1000 && !ok && child_lives(pid); ms += 20) {
		ok = stranger_code(s, code) && !!memcmp(code, s->code, sizeof(code)) == probed;
		if (!ok)
			pause_ms(20);
	}
	result(ok, name, "a probe is %s the process that is not recorded",
		probed ? "in" : "not in");
}

/* inftrace record -p: of a process that sleeps in read(2) when the recording begins, until
 * it ends. A stranger (or NULL) has no probe left in it when the process goes on, where the kernel
 * can do that. */
static void record_process(const char *name, const struct stranger *stranger)
{
	bool by_process = file_has(OUT "/doctor.log", "ok       uprobe_multi by process");
	struct files f;
	char pid_text[16], syscall_file[48];
	char *known[] = { "/bin/known", f.counts, "/go", "-", NULL };
	char *record[] = { "/bin/inftrace", "record", "-v", "--strict", "-o", f.trace, "--profile",
		f.profile, "-u", "/bin/known:work@step", "-u", "/bin/known:leaf@op", "-p", pid_text,
		NULL };
	pid_t pid, record_pid;
	int fd, rc;

	files_name(&f, name);
	pid = child_start(OUT "/known.log", known);
	fd = fifo_open("/go", pid);
	snprintf(syscall_file, sizeof(syscall_file), "/proc/%d/syscall", pid);
	if (fd < 0 || !file_wait(syscall_file, "0 " /* read */, pid)) {
		result(false, name, "known does not wait");
		child_finish(pid);
		return;
	}
	snprintf(pid_text, sizeof(pid_text), "%d", pid);
	record_pid = child_start(f.log, record);
	/* the first bytes are written once the recording has begun */
	file_wait(f.trace, "[", record_pid);
	if (stranger) {
		if (by_process)
			file_wait_has(f.log, "only in those recorded", record_pid);
		stranger_check(stranger, "stranger-during", !by_process, record_pid);
	}
	close(fd);
	rc = child_finish(pid);
	if (rc != KNOWN_EXIT_CODE)
		result(false, name, "known: exit code %d", rc);
	rc = child_finish(record_pid);
	result(rc == 0, name, "record -p: exit code %d", rc);
	if (rc == 0)
		files_check(name, &f);
	else
		log_print(f.log);
}

/* The same while another process calls leaf(). */
static void record_beside_stranger(void)
{
	struct stranger s = { 0 };
	bool ok = stranger_start(&s);

	result(ok, "stranger", "runs");
	if (ok) {
		record_process("beside", &s);
		stranger_check(&s, "stranger-after", false, s.pid);
	}
	kill(-s.pid, SIGKILL);
	waitpid(s.pid, NULL, 0);
}

static int lines_with(const char *path, const char *line_text)
{
	FILE *in = fopen(path, "re");
	char line[512];
	int n = 0;

	while (in && fgets(line, sizeof(line), in))
		n += !!strstr(line, line_text);
	if (in)
		fclose(in);
	return n;
}

/* A glob for some of known's many functions: all calls, or, where there is no uprobe_multi and it
 * would take too long to detach, a word on that and no recording. */
static void record_many(const char *name, const char *probe, int functions)
{
	bool multi = file_has(OUT "/doctor.log", "ok       uprobe_multi  ");
	bool all = multi || 2 * functions <= SINGLE_LINKS_MAX;
	struct files f;
	char *argv[] = { "/bin/inftrace", "record", "-v", "--strict", "-e", "functions", "-o",
		f.trace, "-u", (char *)probe, "--", "/bin/known", f.counts, "-", "-", NULL };
	int rc, n, wanted = all ? KNOWN_EXIT_CODE : 1;

	files_name(&f, name);
	rc = child_finish(child_start(f.log, argv));
	n = lines_with(f.trace, "\"name\":\"many_");
	result(rc == wanted && n == (all ? functions * MANY_CALLS : 0) &&
			all != file_has(f.log, "at most 128 without uprobe_multi"),
		name, "exit code %d, %d calls of %d functions", rc, n, functions);
	if (rc != wanted)
		log_print(f.log);
}

/* served's requests, by what its sockets show. */
static void record_requests(const char *name)
{
	struct files f;
	char *argv[] = { "/bin/inftrace", "record", "-v", "--strict", "-e", "requests", "--profile", f.profile, "--",
		"/bin/served", NULL };
	int rc, n, parts;

	files_name(&f, name);
	rc = child_finish(child_start(f.log, argv));
	n = lines_with(f.profile, "\"request\":\"POST /vm\"");
	parts = lines_with(f.profile, "\"chunks\":4}");
	result(!rc && n == 3 && parts == 3, name, "exit code %d, %d requests, %d of them with 4 parts", rc, n, parts);
	if (rc)
		log_print(f.log);
}

/* known, which makes the steps that it is told to, and a recording of it. */
struct stepper {
	pid_t pid, recorder;
	int to, from;
	char name[32], log[48];
};

static bool stepper_start(struct stepper *s, const char *name, const char *option,
	const char *value, const char *more)
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
		if (write(s->to, bytes, 1) != 1 || poll(&p, 1, CHILD_SECONDS * 1000) != 1 ||
			read(s->from, &answer, 1) != 1)
			return false;
	}
	return true;
}

/* Of the files that were made of it: how many begin with `what` and end so, and the lines in them
 * that have that text. */
static int stepper_files(const struct stepper *s, const char *what, const char *suffix,
	const char *line_text, int *ret_lines)
{
	DIR *dir = opendir(OUT);
	struct dirent *e;
	char prefix[48], path[300];
	int n = 0;

	*ret_lines = 0;
	snprintf(prefix, sizeof(prefix), "%s_pid%d_", what, s->pid);
	while (dir && (e = readdir(dir))) {
		size_t len = strlen(e->d_name), tail = strlen(suffix);

		if (strncmp(e->d_name, prefix, strlen(prefix)) || len < tail ||
			strcmp(e->d_name + len - tail, suffix))
			continue;
		snprintf(path, sizeof(path), OUT "/%s", e->d_name);
		*ret_lines += lines_with(path, line_text);
		n++;
	}
	if (dir)
		closedir(dir);
	return n;
}

static int stepper_lines(
	const struct stepper *s, const char *what, const char *suffix, const char *line_text)
{
	int lines;

	stepper_files(s, what, suffix, line_text, &lines);
	return lines;
}

/* The flag is there, or not, and the window open, or closed. */
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
		"exit code %d, %d pairs of files, %d calls of getppid, %d steps of which %d began "
		"before and %d are unfinished",
		rc, traces, stepper_lines(s, "trace", ".json", "\"getppid\""),
		stepper_lines(s, "profile", ".jsonl", "\"token_prof\""),
		stepper_lines(s, "profile", ".jsonl", "\"began_before\""),
		stepper_lines(s, "profile", ".jsonl", "\"unfinished\""));
	if (!ok || rc)
		log_print(s->log);
}

/* What the files of all windows have, together. */
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

/* Two windows, with a step cut by the end of one and the begin of the other; in between, its
 * programs are detached. */
static void record_windows(const char *name)
{
	struct stepper s;
	bool ok;

	ok = stepper_start(&s, name, "--window-flag", "/tmp/flag", NULL) && stepper_tell(&s, "ss");
	ok = ok && stepper_flag(&s, "/tmp/flag", true) && stepper_tell(&s, "sssb") &&
	     stepper_flag(&s, "/tmp/flag", false);
	pause_ms(1500);
	ok = ok && stepper_flag(&s, "/tmp/flag", true) && stepper_tell(&s, "es") &&
	     stepper_flag(&s, "/tmp/flag", false);
	ok = ok && stepper_tell(&s, "s");
	stepper_finish(&s, ok);
	stepper_check(&s, name, 3 * 10 + 10 + 5 + 10, 4 + 2, 1);
}

static void record_max_steps(const char *name)
{
	struct stepper s;
	bool ok;

	ok = stepper_start(&s, name, "--window-flag", "/tmp/flag", "--max-steps=3") &&
	     stepper_flag(&s, "/tmp/flag", true) && stepper_tell(&s, "ssssssss") &&
	     file_wait_has(s.log, "to max_steps)", s.recorder);
	stepper_finish(&s, ok);
	stepper_check(&s, name, 3 * 10, 3, 0);
}

static void record_every(const char *name)
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

/* All that was done since its start is in the dump. */
static void record_flight(const char *name)
{
	struct stepper s;
	bool ok;

	ok = stepper_start(&s, name, "--flight-recorder", "4MB", NULL) && stepper_tell(&s, "sssss");
	kill(s.recorder, SIGUSR1);
	ok = ok && file_wait_has(s.log, "dump 0 (SIGUSR1)", s.recorder) && stepper_tell(&s, "s");
	stepper_finish(&s, ok);
	stepper_check(&s, name, 5 * 10, 5, 0);
}

/*
 * A library that is called as soon as it is mapped: the command waits in its loader until the probes are in.
 * A wait that came to its deadline, on a machine as slow as this one, is stated; then it is tried again.
 */
static void record_hold(const char *name)
{
	char *argv[] = { "/bin/inftrace", "record", "--engine", "none", "-u",
		"libhold.so:hold_step(n=s32 arg1)@step", "-o", OUT "/hold.json", "--profile", OUT "/hold.jsonl", "--",
		"/bin/hold", "dlopen", "/lib/libhold.so", "200", NULL };
	const char *profile = OUT "/hold.jsonl", *trace = OUT "/hold.json";
	char log[64];
	int rc, steps, waits, late, tries = 0;

	snprintf(log, sizeof(log), OUT "/%s.log", name);
	do {
		unlink(profile);
		rc = child_finish(child_start(log, argv));
		steps = lines_with(profile, "\"token_prof\"");
		waits = lines_with(trace, "\"waiting for probes\"");
		late = lines_with(trace, "\"probes placed late\"");
	} while (++tries < HOLD_TRIES && rc == KNOWN_EXIT_CODE && steps < HOLD_STEPS && late);
	result(rc == KNOWN_EXIT_CODE && (steps == HOLD_STEPS || late) && waits, name,
		"exit code %d, %d of %d steps, %d waits, %d late, try %d", rc, steps, HOLD_STEPS, waits, late, tries);
	if (rc != KNOWN_EXIT_CODE)
		log_print(log);
}

/* spawns, which waits in a read from the FIFO, from the recording's begin to its end. */
static bool spawns_recorded(struct files *f, int count)
{
	char pid_text[16], count_text[16], syscall_file[48];
	char *spawns[] = { "/bin/spawns", count_text, NULL };
	char *record[] = { "/bin/inftrace", "record", "-v", "--strict", "--engine", "none", "-o", f->trace, "--profile",
		f->profile, "-p", pid_text, NULL };
	pid_t pid, recorder;
	int fd, rc;

	snprintf(count_text, sizeof(count_text), "%d", count);
	pid = fork();
	if (!pid) {
		fd = open("/spawn", O_RDONLY);
		if (fd >= 0 && dup2(fd, 0) == 0 && close(fd) == 0)
			execv(spawns[0], spawns);
		_exit(126);
	}
	fd = fifo_open("/spawn", pid);
	snprintf(syscall_file, sizeof(syscall_file), "/proc/%d/syscall", pid);
	snprintf(pid_text, sizeof(pid_text), "%d", pid);
	if (fd < 0 || !file_wait(syscall_file, "0 " /* read */, pid)) {
		close(fd);
		child_finish(pid);
		return false;
	}
	recorder = child_start(f->log, record);
	file_wait(f->trace, "[", recorder);
	if (write(fd, "\n", 1) != 1)
		kill(pid, SIGKILL);
	rc = child_finish(pid);
	close(fd);
	return !child_finish(recorder) && !rc;
}

/* Processes that come and go, beside one that computes: in every trace the slices of each thread nest. */
static void record_spawns(const char *name)
{
	char *hog[] = { "/bin/known", "spin", OUT "/hog", NULL };
	int left = getenv("SPAWNS") ? atoi(getenv("SPAWNS")) : 24, done = 0;
	pid_t hog_pid = child_start(OUT "/hog.log", hog);
	struct files f;
	bool ok = true;

	files_name(&f, name);
	for (; ok && left > 0; left -= SPAWNS_AT_ONCE) {
		int count = left < SPAWNS_AT_ONCE ? left : SPAWNS_AT_ONCE;
		char *validate[] = { "/bin/inftrace", "validate", f.trace, f.profile, NULL };

		unlink(f.profile);
		unlink(f.trace);
		ok = spawns_recorded(&f, count);
		if (!ok)
			log_print(f.log);
		ok = ok && !child_finish(child_start(f.log, validate));
		done += ok ? count : 0;
		if (!ok)
			log_print(f.log);
	}
	kill(-hog_pid, SIGKILL);
	waitpid(hog_pid, NULL, 0);
	result(ok, name, "%d short-lived processes", done);
}

static void mount_at(const char *type, const char *path)
{
	mkdir(path, 0755);
	if (mount(type, path, type, 0, NULL))
		result(false, "mount", "%s on %s: %s", type, path, strerror(errno));
}

/* The kernel itself found nothing wrong with what the programs did. */
static void kernel_log_check(void)
{
	static char buf[1 << 20];
	const char *const bad[] = { "BUG:", "WARNING:", "Oops", "rcu: INFO", "soft lockup" };
	int n = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, buf, sizeof(buf) - 1);
	const char *found = NULL;

	for (size_t i = 0; n > 0 && i < sizeof(bad) / sizeof(bad[0]) && !found; i++)
		found = strstr(buf, bad[i]);
	result(n > 0 && !found, "kernel-log", "%.*s", found ? (int)strcspn(found, "\n") : 5,
		found ? found : "clean");
	if (found) {
		FILE *out = fopen(OUT "/kernel.log", "we");

		if (out) {
			fwrite(buf, 1, (size_t)n, out);
			fclose(out);
		}
	}
}

/* One member of a cpio archive ("newc", see cpio(5)); no path: the trailer. */
static void archive_member(FILE *out, const char *name, const char *path)
{
	FILE *in = path ? fopen(path, "re") : NULL;
	struct stat st = { 0 };
	char buf[4096];
	size_t n;

	if (path && (!in || fstat(fileno(in), &st)))
		return;
	n = (size_t)fprintf(out, "070701%08x%08x%08x%08x%08x%08x%08lx%08x%08x%08x%08x%08zx%08x%s",
		0, 0100644, 0, 0, 1, 0, (unsigned long)st.st_size, 0, 0, 0, 0, strlen(name) + 1, 0,
		name);
	do
		putc(0, out);
	while (++n % 4);
	if (!in)
		return;
	while ((n = fread(buf, 1, sizeof(buf), in)) > 0)
		fwrite(buf, 1, n, out);
	for (n = (size_t)st.st_size; n % 4; n++)
		putc(0, out);
	fclose(in);
}

static void files_send(const char *tty)
{
	int fd = open(tty, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	DIR *dir = opendir(OUT);
	struct termios raw;
	struct dirent *e;

	if (!out || !dir || tcgetattr(fd, &raw)) {
		result(false, "files", "%s: %s", tty, strerror(errno));
		return;
	}
	cfmakeraw(&raw);
	tcsetattr(fd, TCSANOW, &raw);
	while ((e = readdir(dir))) {
		char path[300];

		snprintf(path, sizeof(path), OUT "/%s", e->d_name);
		if (e->d_name[0] != '.')
			archive_member(out, e->d_name, path);
	}
	archive_member(out, "TRAILER!!!", NULL);
	fflush(out);
	tcdrain(fd);
	fclose(out);
	closedir(dir);
}

int main(void)
{
	char *doctor[] = { "/bin/inftrace", "doctor", NULL };
	char *verifier[] = { "/bin/verifier_cost", NULL };
	struct utsname un;
	int before, left = 0;

	if (getpid() != 1) {
		fputs("init: only for the virtual machine of scripts/vm-smoke\n", stderr);
		return 2;
	}
	mount_at("devtmpfs", "/dev");
	if (!freopen("/dev/console", "w", stdout))
		reboot(RB_POWER_OFF);
	mount_at("proc", "/proc");
	mount_at("sysfs", "/sys");
	mount_at("tracefs", "/sys/kernel/tracing");
	mount_at("bpf", "/sys/fs/bpf");
	mount_at("tmpfs", "/tmp");
	mount_at("tmpfs", OUT);
	setenv("PATH", "/bin", 1);
	mkfifo("/hold", 0600);
	mkfifo("/go", 0600);
	mkfifo("/spawn", 0600);
	mkfifo("/steps", 0600);
	mkfifo("/stepped", 0600);
	uname(&un);
	printf("vm-smoke: note kernel: %s %s\n", un.release, un.version);

	before = programs_count(NULL);
	child_check("doctor", 0, doctor);
	record_command("command", "+ipc");
	record_command("all-events", "+irq,+memory,+cpu");
	record_process("process", NULL);
	record_beside_stranger();
	record_many("many", "/bin/known:many_*@op", 80);
	record_requests("requests");
	record_many("ten", "/bin/known:many_0*@op", 10);
	record_windows("windows");
	record_max_steps("max-steps");
	record_every("every");
	record_flight("flight");
	record_hold("hold");
	record_spawns("spawns");
	child_check("verifier", 0, verifier);
	/* the kernel frees programs some time after the last reference to them is gone */
	for (int ms = 0; ms < 5000 && (left = programs_count(NULL)) > before; ms += 20)
		pause_ms(20);
	result(left <= before, "left-behind", "%d BPF programs", left - before);
	kernel_log_check();
	files_send("/dev/ttyS1");
	puts("vm-smoke: end");
	fflush(stdout);
	reboot(RB_POWER_OFF);
	return failures;
}
