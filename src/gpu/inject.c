// SPDX-License-Identifier: BSD-2-Clause
/*
 * Checks a process for reasons against an injection, finds what the injection needs, and injects the agent. A helper process does all
 * that, since a hostile target can hold it up: the helper ends at a deadline, and the recorder never waits for it.
 */
#include "gpu/inject.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/inspect.h"
#include "gpu/inject_call.h"
#include "target/file.h"
#include "target/process.h"
#include "util/confine.h"

#define LOOK_MS 10000     /* deadline for reading the target's files */
#define CALL_MS 1000      /* deadline for everything after that */
#define ROUND_NS 20000000 /* between two searches for a thread that waits in a system call */
#define THREADS_MAX 256   /* considered in one search */
#define FILES_MAX 4

/* Reads up to max numbers of a line of /proc/PID/status. Returns how many there are. */
static int status_numbers(pid_t pid, const char *key, unsigned long *ret_numbers, int max)
{
	char value[PROCESS_STATUS_MAX] = "", *at = value, *end;
	int count = 0;

	for (process_status(pid, key, value); count < max; at = end, count++) {
		ret_numbers[count] = strtoul(at, &end, 10);
		if (end == at)
			break;
	}
	return count;
}

#define AUXV_MAX 64

static size_t auxv_read(pid_t pid, Elf64_auxv_t ret[AUXV_MAX])
{
	char path[64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, ret, AUXV_MAX * sizeof(*ret));
		close(fd);
	}
	return n > 0 ? (size_t)n / sizeof(*ret) : 0;
}

/* 0: there is none. */
static uint64_t auxv_value(const Elf64_auxv_t *a, size_t n, uint64_t type)
{
	for (size_t i = 0; i < n; i++) {
		if (a[i].a_type == type)
			return a[i].a_un.a_val;
	}
	return 0;
}

/* Whether the program was started with more rights than its user has. */
static bool process_is_setuid(pid_t pid)
{
	unsigned long uids[3], gids[3];
	Elf64_auxv_t a[AUXV_MAX];
	size_t n;

	if (status_numbers(pid, "Uid:", uids, 3) == 3 && status_numbers(pid, "Gid:", gids, 3) == 3 &&
		(uids[0] != uids[1] || uids[0] != uids[2] || gids[0] != gids[1] || gids[0] != gids[2]))
		return true;
	n = auxv_read(pid, a);
	return auxv_value(a, n, AT_SECURE);
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

struct inject_search {
	struct inspector *inspector;
	const struct injected_library *library;
	char memory_path[64]; /* of an earlier copy in the process */
	pid_t pid;
	struct inject_places found;
	struct mapped_file files[FILES_MAX]; /* mappings of what was found; path is not valid */
	int count, seen;
	bool has_agent; /* from an earlier injection, as a memfd */
	bool same_filters;
};

/* Has the inspector, a process without rights, read the file. Closes fd. */
static int search_inspect_file(const struct inject_search *s, int fd, struct inspect_loaded *ret_loaded)
{
	int err = inspector_loaded(s->inspector, fd, ret_loaded);

	close(fd);
	return err;
}

static int check_program(const struct inject_search *s, char *ret_why, size_t size)
{
	struct inspect_loaded exe;
	int fd, err;

	err = file_open_exe(s->pid, &fd);
	if (err)
		return inject_refuse(ret_why, size, err, "its program cannot be read: %s", strerror(-err));
	err = search_inspect_file(s, fd, &exe);
	if (err && err != -ENOEXEC && err != -EOPNOTSUPP && err != -EBADMSG)
		return inject_refuse(ret_why, size, err, "its program cannot be read: %s", strerror(-err));
	if (err || exe.machine != inject_elf_machine)
		return inject_refuse(ret_why, size, -EOPNOTSUPP, "it is not a 64-bit program of this machine");
	return 0;
}

static bool is_traced(pid_t pid, char *ret_why, size_t size)
{
	unsigned long tracer = 0;

	if (!status_numbers(pid, "TracerPid:", &tracer, 1) || !tracer)
		return false;
	inject_refuse(ret_why, size, 0, "a debugger has it (process %lu)", tracer);
	return true;
}

/* Refuses a process that must not be injected into, with a reason for the user. */
static int check_process(struct inject_search *s, char *ret_why, size_t size)
{
	unsigned long mode = 0, filters = 0, own_filters = 0;
	pid_t pid = s->pid;

	if (!process_exists(pid) || process_is_kernel_thread(pid))
		return inject_refuse(ret_why, size, -ESRCH, "there is no such program");
	if (is_traced(pid, ret_why, size))
		return -EBUSY;
	if (process_is_setuid(pid))
		return inject_refuse(ret_why, size, -EPERM, "it runs with other rights than those of its user (setuid)");
	if (status_numbers(pid, "Seccomp:", &mode, 1) && mode == SECCOMP_MODE_STRICT)
		return inject_refuse(ret_why, size, -EPERM, "seccomp lets it do nothing but read and write");
	/* this process may be under the same container's filters */
	status_numbers(getpid(), "Seccomp_filters:", &own_filters, 1);
	s->same_filters = !status_numbers(pid, "Seccomp_filters:", &filters, 1) || filters <= own_filters;
	if (process_has_shadow_stack(pid))
		return inject_refuse(ret_why, size, -EOPNOTSUPP, "it has a shadow stack");
	return check_program(s, ret_why, size);
}

static void keep_file(struct inject_search *s, const struct mapped_file *m)
{
	if (s->count < FILES_MAX)
		s->files[s->count++] = *m;
}

static int search_count_mapped(const struct mapped_file *m, void *arg)
{
	struct inject_search *s = arg;

	for (int i = 0; i < s->count; i++)
		s->seen += m->start == s->files[i].start && m->dev == s->files[i].dev && m->ino == s->files[i].ino && m->offset == s->files[i].offset;
	return 0;
}

/* Whether all is still mapped where it was found: the process may have executed another program since. */
static bool search_is_still_mapped(void *arg)
{
	struct inject_search *s = arg;

	s->seen = 0;
	return !process_each_mapped(s->pid, search_count_mapped, s) && s->seen == s->count;
}

static uint64_t mapping_address_of(uint64_t offset, const struct mapped_file *m)
{
	return offset && offset >= m->offset && offset - m->offset < m->end - m->start ? m->start + (offset - m->offset) : 0;
}

/* The C library has all three functions, but an older glibc has the dl functions in libdl. */
static int search_find_functions(const struct mapped_file *m, void *arg)
{
	const char *base = strrchr(m->path, '/');
	struct inject_search *s = arg;
	struct inject_places *p = &s->found, before = *p;
	struct inspect_loaded l;
	int fd;

	s->has_agent |= !strcmp(m->path, s->memory_path);
	base = base ? base + 1 : m->path;
	if (strncmp(base, "libc.", 5) && strncmp(base, "libc-", 5) && strncmp(base, "libdl", 5) && strncmp(base, "ld-musl-", 8))
		return 0;
	if (file_open_mapped(s->pid, m, &fd) || search_inspect_file(s, fd, &l))
		return 0;
	if (!p->errno_location)
		p->errno_location = mapping_address_of(l.functions[INSPECT_ERRNO], m);
	if (!p->dlopen || !p->dlsym) {
		p->dlopen = mapping_address_of(l.functions[INSPECT_DLOPEN], m);
		p->dlsym = mapping_address_of(l.functions[INSPECT_DLSYM], m);
	}
	if (memcmp(&before, p, sizeof(before)))
		keep_file(s, m);
	return 0;
}

static size_t target_read(pid_t pid, uint64_t at, void *ret, size_t size)
{
	struct iovec local = { ret, size }, remote = { (void *)(uintptr_t)at, size };
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return n > 0 ? (size_t)n : 0;
}

/* Finds what the dynamic linker tells debuggers, whose address it writes into the program's dynamic section (DT_DEBUG). Some programs have no such place. */
static void search_find_link_state(struct inject_search *s)
{
	Elf64_auxv_t a[AUXV_MAX];
	size_t n = auxv_read(s->pid, a);
	uint64_t at = auxv_value(a, n, AT_PHDR), base = 0, dynamic = 0;
	Elf64_Phdr p[32];
	Elf64_Dyn d[128];

	n = auxv_value(a, n, AT_PHENT) == sizeof(*p) ? target_read(s->pid, at, p, sizeof(p)) / sizeof(*p) : 0;
	for (size_t i = 0; i < n && i < auxv_value(a, AUXV_MAX, AT_PHNUM); i++) {
		if (p[i].p_type == PT_PHDR)
			base = at - p[i].p_vaddr;
		if (p[i].p_type == PT_DYNAMIC)
			dynamic = p[i].p_vaddr;
	}
	n = dynamic ? target_read(s->pid, base + dynamic, d, sizeof(d)) / sizeof(*d) : 0;
	for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++) {
		if (d[i].d_tag == DT_DEBUG && d[i].d_un.d_ptr)
			s->found.link_state = d[i].d_un.d_ptr + offsetof(struct r_debug, r_state);
	}
}

/*
 * Finds unused room for code behind the end of an executable segment, in its last page. The file is padded there: it must
 * be zero, or hold the code of an earlier injection.
 */
static int search_find_code_room(const struct mapped_file *m, void *arg)
{
	struct inject_search *s = arg;
	struct inspect_loaded l;
	uint8_t there[INJECT_CODE_MAX];
	struct iovec local = { there, sizeof(there) }, remote = { .iov_len = sizeof(there) };
	uint64_t end = 0, from;
	int fd;

	if (!m->ino || file_open_mapped(s->pid, m, &fd) || search_inspect_file(s, fd, &l))
		return 0;
	for (size_t i = 0; i < l.n_code; i++) {
		/* find the segment of this mapping, if it is mapped as a whole */
		uint64_t before = l.code[i].offset % (uint64_t)sysconf(_SC_PAGESIZE);

		if (l.code[i].offset - before == m->offset && l.code[i].size <= m->end - m->start - before)
			end = before + l.code[i].size;
	}
	from = (m->start + end + 63) / 64 * 64;
	if (!end || m->end - from > 65536 || from + INJECT_CODE_MAX > m->end)
		return 0;
	remote.iov_base = (void *)(uintptr_t)from;
	if (process_vm_readv(s->pid, &local, 1, &remote, 1, 0) != (ssize_t)sizeof(there) || !inject_code_fits(there))
		return 0;
	s->found.code = from;
	keep_file(s, m);
	return 1;
}

/* Does the work in any usable thread. Returns as inject_call() does. */
static int target_do_work(struct inject_search *s, struct inject_work *work, char *ret_why, size_t size)
{
	const struct timespec pause = { .tv_nsec = ROUND_NS };
	static struct inject_thread threads[THREADS_MAX];
	int n, err;

	for (;;) {
		inject_refuse(ret_why, size, 0, "none of its threads waits in a system call, with room on its stack, where a call could be put in between");
		n = inject_threads(s->pid, threads, THREADS_MAX);
		if (n < 0)
			return inject_refuse(ret_why, size, n, "it has ended");
		for (int i = 0; i < n; i++) {
			err = inject_call(&threads[i], &s->found, search_is_still_mapped, s, work, ret_why, size);
			/* a debugger may have come since check_process() */
			if (err == -EPERM && is_traced(s->pid, ret_why, size))
				return -EBUSY;
			if (err != -EAGAIN)
				return err;
		}
		nanosleep(&pause, NULL);
	}
}

/* Duplicates a descriptor of the target, with the target's rights to it. The target may have replaced its file. */
static int take_descriptor(pid_t pid, int number, int *ret_fd)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), fd, err;

	if (pidfd < 0)
		return -errno;
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
	err = fd < 0 ? -errno : 0;
	close(pidfd);
	if (!err)
		*ret_fd = fd;
	return err;
}

static int copy_file(const char *path, int to)
{
	int from = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	off_t at = 0;
	struct stat st;
	ssize_t n;

	if (from < 0)
		return -errno;
	if (fstat(from, &st))
		err = -errno;
	while (!err && at < st.st_size) {
		n = sendfile(to, from, &at, (size_t)(st.st_size - at));
		if (n <= 0)
			err = n ? -errno : -EIO;
	}
	close(from);
	return err;
}

/* Returns a memfd with a copy of the library, sealed against changes, or a negative errno. */
static int agent_copy_to_memfd(const char *soname, const char *agent_path)
{
	int fd = memfd_create(soname, MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	err = copy_file(agent_path, fd);
	if (!err && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
		err = -errno;
	if (err)
		close(fd);
	return err ? err : fd;
}

/* Sends a descriptor, without blocking, since the target may have replaced the socket by any other. */
static int send_descriptor(int socket, int fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(fd))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(fd)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { "", 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes) };

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	return sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Layout of inject_work.data while a descriptor is received. */
struct received {
	struct msghdr m;
	struct iovec iov;
	uint64_t byte;
	struct cmsghdr head;
	int fd, padding;
};
_Static_assert(sizeof(struct received) <= INJECT_DATA_MAX * sizeof(uint64_t) && offsetof(struct received, fd) % 8 == 0, "it fits");
#define RECEIVED(member) INJECT_DATA(offsetof(struct received, member) / 8)

/* Has the target receive the descriptor from its socket pair, and close both ends. Returns the descriptor's number there, as the target
 * claims, or a negative errno. */
static int receive_copy(struct inject_search *s, const int pair[2], char *ret_why, size_t size)
{
	const struct received in = {
		.m = { .msg_iov = (void *)RECEIVED(iov), .msg_iovlen = 1, .msg_control = (void *)RECEIVED(head), .msg_controllen = CMSG_SPACE(sizeof(int)) },
		.iov = { (void *)RECEIVED(byte), 1 },
	};
	struct inject_work receive = {
		.n_calls = 3,
		.calls = {
			{ SYS_recvmsg, { (uint64_t)pair[1], INJECT_DATA(0), MSG_CMSG_CLOEXEC | MSG_DONTWAIT }, 0 },
			{ SYS_close, { (uint64_t)pair[0] }, 0 },
			{ SYS_close, { (uint64_t)pair[1] }, 0 },
		},
		.in_memory = true,
		.same_filters = s->same_filters,
	};
	struct received out;
	int err;

	memcpy(receive.data, &in, sizeof(in));
	err = target_do_work(s, &receive, ret_why, size);
	if (err)
		return err;
	memcpy(&out, receive.data, sizeof(out));
	if (receive.calls[0].returned != 1 || out.m.msg_controllen < CMSG_LEN(sizeof(int)) || out.fd < 0)
		return inject_refuse(ret_why, size, -EPROTO, "the library cannot be passed in: it did not receive it");
	return out.fd;
}

/* Gives a target that does not see the agent's file a copy in memory. Returns the number of its descriptor there, or a negative errno. */
static int target_pass_agent(struct inject_search *s, const char *agent_path, char *ret_why, size_t size)
{
	struct inject_work make = {
		.n_calls = 1,
		.calls = { { SYS_socketpair, { AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, INJECT_DATA(0) }, 0 } },
		.in_memory = true,
		.same_filters = s->same_filters,
	};
	int err = target_do_work(s, &make, ret_why, size), copy = -1, end = -1, pair[2];

	if (err)
		return err;
	memcpy(pair, make.data, sizeof(pair));
	err = copy = agent_copy_to_memfd(s->library->soname, agent_path);
	if (copy >= 0)
		err = take_descriptor(s->pid, pair[0], &end) ?: send_descriptor(end, copy);
	if (copy >= 0)
		close(copy);
	if (end >= 0)
		close(end);
	return err ? inject_refuse(ret_why, size, err, "the library cannot be passed in: %s", strerror(-err)) : receive_copy(s, pair, ret_why, size);
}

/* Has the target load the agent. number: a descriptor of the target to close afterwards; -1: none. */
static int start_agent(struct inject_search *s, const char *library, int number, const char *socket_name, char *ret_why, size_t size)
{
	struct inject_work load = {
		.library = library,
		.entry = s->library->entry,
		.argument = socket_name,
		.n_calls = number >= 0,
		.calls = { { SYS_close, { (uint64_t)number }, 0 } },
		.same_filters = s->same_filters,
	};

	return target_do_work(s, &load, ret_why, size);
}

static int inject_agent(struct inspector *inspector, pid_t pid, const struct injected_library *library, const char *agent_path,
	const char *socket_name, char *ret_why, size_t size)
{
	struct inject_search s = { .inspector = inspector, .library = library, .pid = pid };
	char path[4096 + 32];
	int err, number;

	snprintf(s.memory_path, sizeof(s.memory_path), "/memfd:%s (deleted)", library->soname);
	inject_refuse(ret_why, size, 0, "its files could not be read in %d s", LOOK_MS / 1000);
	err = check_process(&s, ret_why, size);
	if (err)
		return err;
	search_find_link_state(&s);
	err = process_each_mapped(pid, search_find_functions, &s);
	if (err < 0)
		return inject_refuse(ret_why, size, err, "its memory cannot be looked at: %s", strerror(-err));
	if (!s.found.errno_location || !s.found.dlopen || !s.found.dlsym)
		return inject_refuse(ret_why, size, -EOPNOTSUPP, "it is linked statically, or its C library has no dlopen()");
	if (process_each_mapped(pid, search_find_code_room, &s) <= 0)
		return inject_refuse(ret_why, size, -EOPNOTSUPP, "none of its libraries has room for the call");
	snprintf(path, sizeof(path), "/proc/%d/root%s", pid, agent_path);
	number = same_file(path, agent_path) ? -1 : 0;
	confine_time(CALL_MS);
	if (number < 0)
		return start_agent(&s, agent_path, -1, socket_name, ret_why, size);
	/* the target is in a container; dlopen() finds an earlier copy by its soname */
	if (s.has_agent)
		return start_agent(&s, library->soname, -1, socket_name, ret_why, size);
	number = target_pass_agent(&s, agent_path, ret_why, size);
	if (number < 0)
		return number;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", number);
	return start_agent(&s, path, number, socket_name, ret_why, size);
}

/* ---- the helper process ---- */

struct gpu_injection_said {
	bool done;
	int err;
	char why[256];
};

int gpu_injection_begin(struct inspector *inspector, pid_t pid, const struct injected_library *library, const char *agent_path,
	const char *socket_name, gpu_injection_check *check, struct gpu_injection *ret_injection)
{
	struct gpu_injection_said *said = mmap(NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t helper = said == MAP_FAILED ? -1 : fork();
	sigset_t all;

	if (!helper) {
		/* the inspector's descriptors only, so that a hanging helper holds no probe open; it also dies with the recorder */
		sigfillset(&all);
		sigdelset(&all, SIGALRM);
		signal(SIGALRM, SIG_DFL);
		sigprocmask(SIG_SETMASK, &all, NULL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "inftrace-inject");
		confine_time(LOOK_MS);
		said->err = inspector_inherit(inspector) ?: check ? check(pid, said->why, sizeof(said->why))
								  : 0;
		if (!said->err)
			said->err = inject_agent(inspector, pid, library, agent_path, socket_name, said->why, sizeof(said->why));
		said->done = true;
		_exit(0);
	}
	if (helper < 0) {
		int err = -errno;

		if (said != MAP_FAILED)
			munmap(said, sizeof(*said));
		return err;
	}
	*ret_injection = (struct gpu_injection){ .pid = pid, .helper = helper, .said = said };
	return 0;
}

int gpu_injection_result(struct gpu_injection *i, char *ret_why, size_t size)
{
	int err;

	if (waitpid(i->helper, NULL, WNOHANG) != i->helper)
		return -EINPROGRESS;
	err = i->said->done ? i->said->err : -ETIMEDOUT;
	if (err)
		snprintf(ret_why, size, "%s", i->said->why);
	munmap(i->said, sizeof(*i->said));
	*i = (struct gpu_injection){ 0 };
	return err;
}

void gpu_injection_end(struct gpu_injection *i)
{
	if (!i->helper)
		return;
	kill(i->helper, SIGKILL);
	/* a helper that hangs in the kernel is left behind */
	waitpid(i->helper, NULL, WNOHANG);
	munmap(i->said, sizeof(*i->said));
	*i = (struct gpu_injection){ 0 };
}
