// SPDX-License-Identifier: BSD-2-Clause
#include "target/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "util/alloc.h"

#define ENVIRON_MAX (4u << 20) /* bytes; the kernel allows a quarter of the stack limit */
#define CMDLINE_MAX (64u << 10)
#define TEXT_FIRST (16u << 10)

/* Returns a file descriptor, or -errno. */
static int proc_open_file(pid_t pid, const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return fd;
}

int process_file(pid_t pid, const char *name, char *buf, size_t size)
{
	int fd = proc_open_file(pid, name), err;
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read(fd, buf, size - 1);
	err = n < 0 ? -errno : 0;
	close(fd);
	if (!err)
		buf[n] = '\0';
	return err;
}

static FILE *proc_open_stream(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return fopen(path, "re");
}

int process_status(pid_t pid, const char *name, char ret_value[PROCESS_STATUS_MAX])
{
	FILE *f = proc_open_stream(pid, "status");
	size_t len = strlen(name);
	char line[PROCESS_STATUS_MAX];
	int err = -ESRCH;

	while (f && err && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, len)) {
			strcpy(ret_value, line + len);
			err = 0;
		}
	}
	if (f)
		fclose(f);
	return err;
}

static int status_read_number(pid_t pid, const char *name, uint32_t *ret)
{
	char value[PROCESS_STATUS_MAX];

	return process_status(pid, name, value) || sscanf(value, "%" SCNu32, ret) != 1 ? -ESRCH : 0;
}

bool process_exists(pid_t pid)
{
	uint32_t threads;

	/* a zombie has nothing left to record, unless only its main thread has exited */
	return process_main_thread_lives(pid) || (!status_read_number(pid, "Threads:", &threads) && threads > 1);
}

bool process_main_thread_lives(pid_t pid)
{
	char value[PROCESS_STATUS_MAX], state;

	return !process_status(pid, "State:", value) && sscanf(value, " %c", &state) == 1 && !strchr("ZX", state);
}

/* Looks for "x86_Thread_features:\tshstk wrss": the kernel's Documentation/arch/x86/shstk.rst */
bool process_has_shadow_stack(pid_t pid)
{
	char features[PROCESS_STATUS_MAX];

	return !process_status(pid, "x86_Thread_features:", features) && strstr(features, "shstk");
}

/* Reads which namespace it is; none: an empty text. */
static int read_namespace(const char *pid, const char *name, char *ret_text, size_t size)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%s/ns/%s", pid, name);
	n = readlink(path, ret_text, size - 1);
	if (n < 0 && errno != ENOENT)
		return -errno;
	ret_text[n > 0 ? n : 0] = '\0';
	return 0;
}

int process_clock_shift(pid_t pid, struct clock_shift *ret_shift)
{
	char number[16], path[64], own[64], its[64], later[64];
	int err;

	snprintf(number, sizeof(number), "%d", pid);
	err = read_namespace("self", "time", own, sizeof(own));
	err = err ?: read_namespace(number, "time", its, sizeof(its));
	err = err ?: read_namespace(number, "time_for_children", later, sizeof(later));
	/* without the right to see its namespaces, the offsets for its children count: they differ only for moments */
	if (err && err != -EACCES)
		return err;
	if (!err && !strcmp(its, own)) {
		*ret_shift = clock_shift_read();
		return 0;
	}
	if (!err && strcmp(its, later))
		return *its ? -EOPNOTSUPP : -ESRCH;
	snprintf(path, sizeof(path), "/proc/%d/timens_offsets", pid);
	*ret_shift = clock_shift_read_file(path);
	/* if it is gone, the offsets may be missing, or another process's */
	return process_exists(pid) ? 0 : -ESRCH;
}

/* The bit PF_KTHREAD of the field `flags`: proc(5) */
bool process_is_kernel_thread(pid_t pid)
{
	unsigned int flags = 0;
	char text[512], *p;

	if (process_file(pid, "stat", text, sizeof(text)))
		return false;
	p = strrchr(text, ')'); /* the name may contain anything */
	return p && sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & 0x00200000;
}

int process_comm(pid_t pid, char comm[TASK_COMM_LEN])
{
	size_t n;

	if (process_file(pid, "comm", comm, TASK_COMM_LEN) || !comm[0])
		return -ESRCH;
	n = strlen(comm);
	if (comm[n - 1] == '\n')
		comm[n - 1] = 0;
	return 0;
}

int process_tgid(pid_t tid, pid_t *ret_tgid)
{
	uint32_t tgid;

	if (status_read_number(tid, "Tgid:", &tgid) || !tgid)
		return -ESRCH;
	*ret_tgid = (pid_t)tgid;
	return 0;
}

int process_user(pid_t pid, uid_t *ret_uid)
{
	return status_read_number(pid, "Uid:", ret_uid);
}

int process_parent(pid_t pid, pid_t *ret_parent)
{
	return status_read_number(pid, "PPid:", (uint32_t *)ret_parent);
}

int process_own_number(pid_t pid, pid_t *ret_number)
{
	char value[PROCESS_STATUS_MAX];
	const char *last;

	if (process_status(pid, "NSpid:", value))
		return -ESRCH;
	last = strrchr(value, '\t'); /* one number for each namespace, the innermost last */
	return last && sscanf(last, "%d", ret_number) == 1 ? 0 : -ESRCH;
}

static int each_number(const char *path, int (*cb)(pid_t id, void *arg), void *arg)
{
	struct dirent *d;
	int err = 0;
	DIR *dir;

	dir = opendir(path);
	if (!dir)
		return -ESRCH;
	while (!err && (d = readdir(dir))) {
		if (isdigit((unsigned char)d->d_name[0]))
			err = cb(atoi(d->d_name), arg);
	}
	closedir(dir);
	return err;
}

int process_each_thread(pid_t pid, int (*cb)(pid_t tid, void *arg), void *arg)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	return each_number(path, cb, arg);
}

int process_each(int (*cb)(pid_t pid, void *arg), void *arg)
{
	return each_number("/proc", cb, arg);
}

/* ---- sockets ---- */

#define LISTENERS_MAX 1024 /* of its network namespace; further ones are not found */

struct listeners {
	pid_t pid;
	unsigned long inode[LISTENERS_MAX];
	size_t n;
	bool found;
};

/* Adds the sockets of a table that have the state `wanted` (proc_pid_net(5)). */
static void read_listeners(struct listeners *l, const char *table, const char *format, unsigned int wanted)
{
	unsigned int state;
	unsigned long inode;
	char line[512];
	FILE *f = proc_open_stream(l->pid, table);

	if (!f)
		return;
	while (l->n < LISTENERS_MAX && fgets(line, sizeof(line), f)) {
		if (sscanf(line, format, &state, &inode) == 2 && state == wanted)
			l->inode[l->n++] = inode;
	}
	fclose(f);
}

static int is_listener(int fd, void *arg)
{
	struct listeners *l = arg;
	char path[64], text[64];
	unsigned long inode;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", l->pid, fd);
	n = readlink(path, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	if (sscanf(text, "socket:[%lu]", &inode) != 1)
		return 0;
	for (size_t i = 0; i < l->n && !l->found; i++)
		l->found = l->inode[i] == inode;
	return l->found;
}

bool process_listens(pid_t pid)
{
	/* slot, addresses, state (10: TCP_LISTEN), queues, timer, retransmissions, user, timeout, inode */
	static const char tcp[] = "%*s %*s %*s %x %*s %*s %*s %*s %*s %lu";
	struct listeners l = { .pid = pid };
	char path[64];

	read_listeners(&l, "net/tcp", tcp, 10);
	read_listeners(&l, "net/tcp6", tcp, 10);
	/* number, references, protocol, flags (__SO_ACCEPTCON), type, state, inode */
	read_listeners(&l, "net/unix", "%*s %*s %*s %x %*s %*s %lu", 1 << 16);
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	each_number(path, is_listener, &l);
	return l.found;
}

static int each_mapping(pid_t pid, bool code, bool files, int (*cb)(const struct mapped_file *m, void *arg), void *arg)
{
	FILE *f = proc_open_stream(pid, "maps");
	char *line = NULL;
	size_t cap = 0;
	int err = 0;

	if (!f)
		return errno == EACCES || errno == EPERM ? -EACCES : -ESRCH;
	while (!err && getline(&line, &cap, f) > 0) {
		struct mapped_file m;
		unsigned int maj, min;
		char perms[5];
		int name = 0;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &m.start,
			    &m.end, perms, &m.offset, &maj, &min, &m.ino, &name) != 7 ||
			(code && perms[2] != 'x') || (files && (!m.ino || line[name] != '/')))
			continue;
		line[name + strcspn(line + name, "\n")] = 0;
		m.dev = makedev(maj, min);
		m.path = line + name;
		err = cb(&m, arg);
	}
	free(line);
	fclose(f);
	return err;
}

int process_each_mapped(pid_t pid, int (*cb)(const struct mapped_file *m, void *arg), void *arg)
{
	return each_mapping(pid, true, true, cb, arg);
}

int process_each_executable(pid_t pid, int (*cb)(const struct mapped_file *m, void *arg), void *arg)
{
	return each_mapping(pid, true, false, cb, arg);
}

int process_each_file(pid_t pid, int (*cb)(const struct mapped_file *m, void *arg), void *arg)
{
	return each_mapping(pid, false, true, cb, arg);
}

/* Reads at most `max` bytes of a file of the process, which can make it arbitrarily long. */
static int proc_read_text(pid_t pid, const char *name, size_t max, struct process_text *ret)
{
	size_t cap = TEXT_FIRST, len = 0;
	int fd = proc_open_file(pid, name), err = 0;
	char *data;
	ssize_t n = 0;

	if (fd < 0)
		return fd;
	data = xmalloc(cap + 1);
	while (len < max && (n = read(fd, data + len, cap - len)) > 0) {
		len += (size_t)n;
		if (len < cap || cap >= max)
			continue;
		cap = 2 * cap < max ? 2 * cap : max;
		data = xreallocarray(data, cap + 1, 1);
	}
	if (n < 0)
		err = -errno;
	close(fd);
	if (err) {
		free(data);
		return err;
	}
	data[len] = 0;
	data = xreallocarray(data, len + 1, 1); /* it may be kept for long */
	*ret = (struct process_text){ .data = data, .len = len };
	return 0;
}

int process_environ(pid_t pid, struct process_text *ret)
{
	int err = proc_read_text(pid, "environ", ENVIRON_MAX, ret);

	if (err || ret->len < ENVIRON_MAX)
		return err;
	/* the last variable is cut off, so it is not known */
	while (ret->len && ret->data[ret->len - 1])
		ret->data[--ret->len] = 0;
	return 0;
}

int process_cmdline(pid_t pid, struct process_text *ret)
{
	return proc_read_text(pid, "cmdline", CMDLINE_MAX, ret);
}

const char *process_text_next(const struct process_text *t, const char *s)
{
	s = s ? s + strlen(s) + 1 : t->data;
	return s && s < t->data + t->len ? s : NULL;
}

const char *process_text_variable(const struct process_text *t, const char *name)
{
	size_t len = strlen(name);

	for (const char *s = process_text_next(t, NULL); s; s = process_text_next(t, s)) {
		if (!strncmp(s, name, len) && s[len] == '=')
			return s + len + 1;
	}
	return NULL;
}

void process_text_free(struct process_text *t)
{
	free(t->data);
	*t = (struct process_text){ 0 };
}

int rss_read(pid_t tgid, uint64_t *ret_bytes)
{
	unsigned long long size, resident;
	char text[128];
	int err;

	err = process_file(tgid, "statm", text, sizeof(text));
	if (err)
		return err;
	if (sscanf(text, "%llu %llu", &size, &resident) != 2)
		return -EIO;
	if (!size) /* its memory is gone already */
		return -ESRCH;
	*ret_bytes = resident * (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}

int rss_peak_read(pid_t tgid, uint64_t *ret_bytes)
{
	char value[PROCESS_STATUS_MAX];

	if (process_status(tgid, "VmHWM:", value))
		return -ESRCH;
	*ret_bytes = strtoull(value, NULL, 10) * 1024;
	return 0;
}
