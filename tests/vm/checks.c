// SPDX-License-Identifier: BSD-2-Clause
/* What the checks of the virtual machine share: results, child processes, and files to look at. */
#include "../program.h"

#include <linux/bpf.h>

#include "checks.h"

#define LOG_TAIL_BYTES 2500

static int failed;

void result(bool ok, const char *name, const char *fmt, ...)
{
	va_list ap;

	printf("vm-smoke: %s %s: at %.3f s, ", ok ? "ok" : "FAIL", name, (double)clock_ns(CLOCK_BOOTTIME) / 1e9);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	failed += !ok;
}

int results_failed(void)
{
	return failed;
}

void pause_ms(long ms)
{
	sleep_for((uint64_t)ms * MS);
}

void log_print(const char *path)
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

pid_t child_start(const char *log, char *const argv[])
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

int child_finish(pid_t pid)
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

bool child_lives(pid_t pid)
{
	siginfo_t info = { 0 };

	return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid;
}

bool child_check(const char *name, int expected, char *const argv[])
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

int programs_count(const char *name)
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

int fifo_open(const char *path, pid_t pid)
{
	for (int ms = 0; ms < CHILD_SECONDS * 1000 && child_lives(pid); ms += 5) {
		int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

		if (fd >= 0)
			return fd;
		pause_ms(5);
	}
	return -1;
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

bool file_wait(const char *path, const char *prefix, pid_t pid)
{
	for (int ms = 0; ms < CHILD_SECONDS * 1000 && child_lives(pid); ms += 5) {
		if (file_contains(path, prefix))
			return true;
		pause_ms(5);
	}
	return false;
}

bool file_has(const char *path, const char *line_text)
{
	return lines_with(path, line_text) > 0;
}

bool file_wait_has(const char *path, const char *line_text, pid_t pid)
{
	return file_wait_lines(path, line_text, 1, pid);
}

bool file_wait_lines(const char *path, const char *line_text, int lines, pid_t pid)
{
	for (int ms = 0; ms < CHILD_SECONDS * 1000 && child_lives(pid); ms += 20) {
		if (lines_with(path, line_text) >= lines)
			return true;
		pause_ms(20);
	}
	return false;
}

int lines_with(const char *path, const char *line_text)
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
