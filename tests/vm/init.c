// SPDX-License-Identifier: BSD-2-Clause
/*
 * The only process of the virtual machine that scripts/vm-smoke boots: mounts what inftrace
 * needs, runs the checks, powers off. Each check is one line on the console, "vm-smoke: ok
 * NAME: ..." or "vm-smoke: FAIL NAME: ...", and "vm-smoke: end" is the last. What the checks
 * wrote to OUT goes to the second serial port as a cpio archive.
 *
 * Linked statically: when a library is missing in the initramfs, this still says so.
 */
#include "../program.h"

#include <dirent.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/utsname.h>
#include <termios.h>

#include "checks.h"

#define UNITS "/build/tests"

#ifdef __x86_64__
#define FILES_TTY "/dev/ttyS1"
#else
#define FILES_TTY "/dev/ttyS0"
#endif

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

	for (size_t i = 0; n > 0 && i < LENGTH(bad) && !found; i++)
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
	n = (size_t)fprintf(out, "070701%08x%08x%08x%08x%08x%08x%08lx%08x%08x%08x%08x%08zx%08x%s", 0, 0100644, 0, 0, 1, 0,
		(unsigned long)st.st_size, 0, 0, 0, 0, strlen(name) + 1, 0, name);
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

/* Traces and profiles take seconds on a serial port, so only where they tell something. */
static bool is_sent(const char *name)
{
	const char *end = strrchr(name, '.');
	bool log = !end || (strcmp(end, ".json") && strcmp(end, ".jsonl"));

	return name[0] != '.' && (log || results_failed() || getenv("FILES"));
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
		if (is_sent(e->d_name))
			archive_member(out, e->d_name, path);
	}
	archive_member(out, "TRAILER!!!", NULL);
	fflush(out);
	tcdrain(fd);
	fclose(out);
	closedir(dir);
}

/* Whether it is to run: all are, unless CHECKS on the kernel's command line has the names of some. */
static bool wanted(const char *name)
{
	const char *checks = getenv("CHECKS"), *at = checks;
	size_t len = strlen(name);

	for (; at && (at = strstr(at, name)); at += len) {
		if ((at == checks || at[-1] == ',') && (!at[len] || at[len] == ','))
			return true;
	}
	return !checks;
}

/* The unit tests that were brought along, one line each. */
static void units_run(void)
{
	DIR *dir = opendir(UNITS);
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		char path[300], log[300], *unit[] = { path, NULL };
		int rc;

		if (strncmp(e->d_name, "test_", 5) || !wanted(e->d_name))
			continue;
		snprintf(path, sizeof(path), UNITS "/%s", e->d_name);
		snprintf(log, sizeof(log), OUT "/%s.log", e->d_name);
		rc = child_finish(child_start(log, unit));
		result(!rc, e->d_name, "exit code %d", rc);
		if (rc)
			log_print(log);
	}
	if (dir)
		closedir(dir);
}

static void checks_run(void)
{
	static const struct {
		const char *name;
		void (*run)(const char *name);
	} recordings[] = { { "process", record_processes }, { "many", record_many }, { "requests", record_requests },
		{ "budget", record_budget }, { "ten", record_ten }, { "windows", record_windows }, { "every", record_every },
		{ "flight", record_flight }, { "hold", record_hold }, { "spawns", record_spawns } };
	char *doctor[] = { "/bin/inftrace", "doctor", NULL };
	char *verifier[] = { "/bin/verifier_cost", NULL };

	units_run();
	if (access(doctor[0], X_OK))
		return;
	child_check("doctor", 0, doctor); /* the others read what it prints */
	if (wanted("command"))
		record_command("command", "+ipc", NULL);
	if (wanted("all-events"))
		record_command("all-events", "+irq,+memory,+cpu,+messages", NULL);
	if (wanted("stacks"))
		record_command("stacks", "+samples,+stacks,+irq", NULL);
	if (wanted("pmu"))
		record_command("pmu", "+pmu,+functions", "software");
	for (size_t i = 0; i < LENGTH(recordings); i++) {
		if (wanted(recordings[i].name))
			recordings[i].run(recordings[i].name);
	}
	if (wanted("verifier"))
		child_check("verifier", 0, verifier);
	if (wanted("service")) /* the last one, since it gives up privileges */
		record_service("service");
}

int main(void)
{
	static const char *const fifos[] = { "/hold", "/go", "/spawn", "/steps", "/stepped" };
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
	setenv("CMOCKA_MESSAGE_OUTPUT", "TAP", 1);
	for (size_t i = 0; i < LENGTH(fifos); i++)
		mkfifo(fifos[i], 0600);
	uname(&un);
	printf("vm-smoke: note kernel: %s %s\n", un.release, un.version);

	before = programs_count(NULL);
	checks_run();
	/* the kernel frees programs some time after the last reference to them is gone */
	for (int ms = 0; ms < 5000 && (left = programs_count(NULL)) > before; ms += 20)
		pause_ms(20);
	result(left <= before, "left-behind", "%d BPF programs", left - before);
	kernel_log_check();
	files_send(FILES_TTY);
	puts("vm-smoke: end");
	fflush(stdout);
	reboot(RB_POWER_OFF);
	return 1;
}
