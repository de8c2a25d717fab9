// SPDX-License-Identifier: BSD-2-Clause
/* Recordings of programs that know what they did: the files agree with that. */
#include "../program.h"

#include <linux/capability.h>
#include <sys/mount.h>

#include "checks.h"

#define KNOWN_EXIT_CODE 7
#define MANY_CALLS 3
#define SINGLE_LINKS_MAX 128
#define HOLD_STEPS 201 /* 200, and one of the constructor */
#define HOLD_TRIES 4
/* how /proc/PID/syscall begins while it is in read(2) */
#ifdef __x86_64__
#define READING "0 "
#else
#define READING "63 "
#endif
#define SPAWNS_AT_ONCE 50 /* in one recording */

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

/* The files of a recording are valid and agree with the counts. */
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

/* inftrace record -- known: from the command's first instruction. counters: of -e +pmu; NULL: none */
void record_command(char *name, char *events, char *counters)
{
	struct files f;
	char *argv[] = { "/bin/inftrace", "record", "--counters", counters, "-v", "--strict", "-e", events, "-o", f.trace, "--profile",
		f.profile, "-u", "/bin/known:work@step", "-u", "/bin/known:leaf@op", "--",
		"/bin/known", f.counts, "-", "/hold", NULL }, **args = argv;
	pid_t pid;
	int fd, rc;

	if (!counters) {
		args = argv + 2;
		args[0] = argv[0];
		args[1] = argv[1];
	}
	files_name(&f, name);
	pid = child_start(f.log, args);
	fd = fifo_open("/hold", pid);
	if (fd >= 0) {
		programs_count(name);
		close(fd);
	}
	rc = child_finish(pid);
	result(rc == KNOWN_EXIT_CODE, name, "record -- known: exit code %d", rc);
	if (rc == KNOWN_EXIT_CODE && counters)
		result(file_has(f.profile, "\"page_faults\":") && file_has(f.profile, "\"page_faults_leaf\":"), "counters",
			"steps and operators have counts");
	if (rc == KNOWN_EXIT_CODE)
		files_check(name, &f);
	else
		log_print(f.log);
}

/* A process that calls leaf() often and is not recorded, and the code of leaf(). */
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
	char *argv[] = { "/bin/known", "call", OUT "/stranger", NULL };
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

/* Waits, while that child lives, until the stranger's code has a probe, or has none. */
static void stranger_check(const struct stranger *s, const char *name, bool probed, pid_t pid)
{
	char code[16];
	bool ok = false;

	for (int ms = 0; ms < CHILD_SECONDS * 1000 && !ok && child_lives(pid); ms += 20) {
		ok = stranger_code(s, code) && !!memcmp(code, s->code, sizeof(code)) == probed;
		if (!ok)
			pause_ms(20);
	}
	result(ok, name, "a probe is %s the process that is not recorded", probed ? "in" : "not in");
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
	if (fd < 0 || !file_wait(syscall_file, READING, pid)) {
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

void record_processes(const char *name)
{
	record_process(name, NULL);
	record_beside_stranger();
}

/* A glob for some of known's many functions: all calls, or, where there is no uprobe_multi and it
 * would take too long to detach, a message about that and no recording. */
static void record_functions(const char *name, const char *probe, int functions)
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

void record_many(const char *name)
{
	record_functions(name, "/bin/known:many_*@op", 80);
}

void record_ten(const char *name)
{
	record_functions(name, "/bin/known:many_0*@op", 10);
}

/* served's requests, by what its sockets show. */
void record_requests(const char *name)
{
	struct files f;
	char *argv[] = { "/bin/inftrace", "record", "-v", "--strict", "-e", "requests", "--profile", f.profile, "--",
		"/bin/served", NULL };
	int rc, n, parts;

	files_name(&f, name);
	rc = child_finish(child_start(f.log, argv));
	n = lines_with(f.profile, "\"request\":\"POST /vm\"");
	parts = lines_with(f.profile, "\"chunks\":4,\"write");
	result(!rc && n == 3 && parts == 3, name, "exit code %d, %d requests, %d of them with 4 parts", rc, n, parts);
	if (rc)
		log_print(f.log);
}

/* steps, beyond its budget, until its operators are turned off, where the kernel has them detached or ignored. */
void record_budget(const char *name)
{
	struct files f;
	char *argv[] = { "/bin/inftrace", "record", "--budget", "0%", "--engine", "none", "-u", "steps:steps_step@step",
		"-u", "steps:steps_op@op", "-o", f.trace, "--profile", f.profile, "--", "/bin/steps", NULL };
	int rc, without;
	pid_t pid;
	bool ok;

	files_name(&f, name);
	pid = child_start(f.log, argv);
	ok = file_wait_has(f.log, "operators are off", pid) && file_wait_lines(f.profile, "\"left_out\":\"operators", 2, pid);
	kill(pid, SIGTERM);
	rc = child_finish(pid);
	without = lines_with(f.profile, "\"left_out\":\"operators");
	result(ok && !rc, name, "exit code %d, %d steps without operators", rc, without);
	if (!ok || rc)
		log_print(f.log);
	/* tens of thousands of steps, which would take minutes to leave through the serial port */
	unlink(f.trace);
	unlink(f.profile);
}

/*
 * A library that is called as soon as it is mapped: the command waits in its loader until the probes are in.
 * Both on one CPU, where they take turns: qemu runs its CPUs in turns of 100 ms, and what waits on one for the
 * other comes to its deadline of 50. A wait that did, on a machine as slow as this one, is reported, and so are
 * probes that were placed late, unless the command had ended by then; then it is tried again.
 */
void record_hold(const char *name)
{
	char *argv[] = { "/bin/inftrace", "record", "--engine", "none", "-u",
		"libhold.so:hold_step(n=s32 arg1)@step", "-o", OUT "/hold.json", "--profile", OUT "/hold.jsonl", "--",
		"/bin/hold", "dlopen", "/lib/libhold.so", "200", NULL };
	const char *profile = OUT "/hold.jsonl", *trace = OUT "/hold.json";
	char log[64];
	int rc, steps, waits, late, tries = 0;
	cpu_set_t all;
	pid_t pid;

	sched_getaffinity(0, sizeof(all), &all);
	snprintf(log, sizeof(log), OUT "/%s.log", name);
	do {
		unlink(profile);
		pin_to(0);
		pid = child_start(log, argv);
		sched_setaffinity(0, sizeof(all), &all);
		rc = child_finish(pid);
		steps = lines_with(profile, "\"token_prof\"");
		waits = lines_with(trace, "\"waiting for probes\"");
		late = lines_with(trace, "\"probes placed late\"") + lines_with(trace, "\"expired\":true");
	} while (++tries < HOLD_TRIES && rc == KNOWN_EXIT_CODE && steps < HOLD_STEPS && late);
	result(rc == KNOWN_EXIT_CODE && (steps == HOLD_STEPS || late) && waits, name,
		"exit code %d, %d of %d steps, %d waits, %d late, try %d", rc, steps, HOLD_STEPS, waits, late, tries);
	if (rc != KNOWN_EXIT_CODE)
		log_print(log);
}

/* spawns, which waits in a read from the FIFO, from the recording's beginning to its end, beside a process that
 * computes. */
static bool spawns_recorded(struct files *f, int count)
{
	char pid_text[16], count_text[16], syscall_file[48];
	char *spawns[] = { "/bin/spawns", count_text, NULL }, *hog[] = { "/bin/known", "spin", OUT "/hog", NULL };
	char *record[] = { "/bin/inftrace", "record", "-v", "--strict", "--engine", "none", "-o", f->trace, "--profile",
		f->profile, "-p", pid_text, NULL };
	pid_t pid, recorder, hog_pid;
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
	if (fd < 0 || !file_wait(syscall_file, READING, pid)) {
		close(fd);
		child_finish(pid);
		return false;
	}
	recorder = child_start(f->log, record);
	file_wait(f->trace, "[", recorder);
	hog_pid = child_start(OUT "/hog.log", hog);
	if (write(fd, "\n", 1) != 1)
		kill(pid, SIGKILL);
	rc = child_finish(pid);
	kill(-hog_pid, SIGKILL);
	waitpid(hog_pid, NULL, 0);
	close(fd);
	return !child_finish(recorder) && !rc;
}

/* Short-lived processes beside one that computes: in every trace the slices of each thread nest. */
void record_spawns(const char *name)
{
	int left = getenv("SPAWNS") ? atoi(getenv("SPAWNS")) : 24, done = 0;
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
	result(ok, name, "%d short-lived processes", done);
}

/* The value of a key in the first line of the file that has it; -1: there is none. */
static long file_number(const char *path, const char *key)
{
	FILE *in = fopen(path, "re");
	char line[4096];
	const char *at = NULL;
	long n = -1;

	while (in && !at && fgets(line, sizeof(line), in))
		at = strstr(line, key);
	if (at)
		n = strtol(at + strlen(key), NULL, 10);
	if (in)
		fclose(in);
	return n;
}

/* Where the kernel preempts the programs that count page faults, none is missing, and those that have no time are lost. */
static void record_storm(const char *name)
{
	const char *path = "/sys/kernel/debug/sched/preempt";
	struct files f;
	char *argv[] = { "/bin/inftrace", "record", "-v", "--engine", "none", "--profile", f.profile, "--", "/bin/storm", NULL };
	FILE *out;
	long n;
	int rc;

	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	out = fopen(path, "we");
	if (!out || fputs("full", out) < 0 || fclose(out)) {
		printf("vm-smoke: note %s: no %s\n", name, path);
		return;
	}
	files_name(&f, name);
	rc = child_finish(child_start(f.log, argv));
	n = file_number(f.profile, "\"n_minor\":");
	result(!rc && n >= STORM_FAULTS, name, "exit code %d, %ld page faults of at least %d, %ld of them without a time", rc, n, STORM_FAULTS,
		file_number(f.profile, "\"lost_fault\":"));
}

/*
 * As a service on Debian: without CAP_SYS_ADMIN, where perf_event_open(2) is for that alone. Page faults are counted
 * nevertheless. What starts from now on has no CAP_SYS_ADMIN either.
 */
void record_service(char *name)
{
	const char *path = "/proc/sys/kernel/perf_event_paranoid";
	char *doctor[] = { "/bin/inftrace", "doctor", NULL }, other[32], log[48];
	FILE *out;

	if (!file_has(OUT "/doctor.log", "uprobe_multi                  since")) {
		printf("vm-smoke: note %s: not before 6.6, where function probes need CAP_SYS_ADMIN, too\n", name);
		return;
	}
	out = fopen(path, "we");
	if (!out || fputs("3", out) < 0 || fclose(out) || prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0)) {
		result(false, name, "cannot give up CAP_SYS_ADMIN, or set %s", path);
		return;
	}
	snprintf(log, sizeof(log), "%s-doctor", name);
	if (child_check(log, 0, doctor)) {
		snprintf(log, sizeof(log), OUT "/%s-doctor.log", name);
		result(file_has(log, "return of handle_mm_fault stands in for it"), name, "doctor tells what counts page faults");
	}
	record_command(name, "+ipc", NULL);
	snprintf(log, sizeof(log), OUT "/%s.log", name);
	result(file_has(log, "page faults end at the return of"), name, "without events of perf");
	snprintf(other, sizeof(other), "%s-stacks", name);
	record_command(other, "+stacks", NULL);
	snprintf(other, sizeof(other), "%s-windows", name); /* what is attached is detached in between */
	record_windows(other);
	snprintf(other, sizeof(other), "%s-storm", name);
	record_storm(other);
}
