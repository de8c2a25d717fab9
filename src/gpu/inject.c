// SPDX-License-Identifier: BSD-2-Clause
/* What has to be known of a process before the agent is injected, and what speaks against it. */
#include "gpu/inject.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "gpu/hand_over.h"
#include "gpu/inject_call.h"
#include "target/elf.h"
#include "target/file.h"
#include "target/process.h"

#ifdef __x86_64__
#define OUR_MACHINE EM_X86_64
#else
#define OUR_MACHINE EM_AARCH64
#endif

#define ROUNDS 50	/* looks for a thread that waits in a system call, */
#define ROUND_NS 20000000 /* with as much time between them */

/* The numbers of a line of /proc/PID/status, as many as there are, up to max. */
static int status_numbers(pid_t pid, const char *key, unsigned long *ret_numbers, int max)
{
	char path[64], line[256], *at, *end;
	size_t length = strlen(key);
	int count = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, length) || line[length] != ':')
			continue;
		for (at = line + length + 1; count < max; at = end) {
			ret_numbers[count] = strtoul(at, &end, 10);
			if (end == at)
				break;
			count++;
		}
		break;
	}
	fclose(f);
	return count;
}

/* Whether the program was started with more rights than its user's. */
static bool is_secure(pid_t pid)
{
	unsigned long uids[3], gids[3];
	Elf64_auxv_t a[64];
	char path[64];
	ssize_t n = -1;
	int fd;

	if (status_numbers(pid, "Uid", uids, 3) == 3 && status_numbers(pid, "Gid", gids, 3) == 3 &&
		(uids[0] != uids[1] || uids[0] != uids[2] || gids[0] != gids[1] || gids[0] != gids[2]))
		return true;
	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, a, sizeof(a));
		close(fd);
	}
	for (ssize_t i = 0; i < n / (ssize_t)sizeof(*a); i++)
		if (a[i].a_type == AT_SECURE && a[i].a_un.a_val)
			return true;
	return false;
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool same_namespace(pid_t pid, const char *kind)
{
	char ours[64], theirs[64];

	snprintf(ours, sizeof(ours), "/proc/self/ns/%s", kind);
	snprintf(theirs, sizeof(theirs), "/proc/%d/ns/%s", pid, kind);
	return same_file(ours, theirs);
}

/* What speaks against it, in the words of the user. */
static int check_process(pid_t pid, const char *agent_path, char *ret_why, size_t size)
{
	unsigned long tracer = 0, filters = 0, own_filters = 0;
	char path[4096 + 32];
	struct elf_file *exe;
	int err, fd, machine;

	if (!process_exists(pid) || process_is_kernel_thread(pid))
		return inject_refuse(ret_why, size, -ESRCH, "there is no such program");
	if (status_numbers(pid, "TracerPid", &tracer, 1) && tracer)
		return inject_refuse(ret_why, size, -EBUSY, "a debugger has it (process %lu)", tracer);
	if (is_secure(pid))
		return inject_refuse(ret_why, size, -EPERM, "it runs with other rights than those of its user (setuid)");
	/* those of a container may be ours, too */
	status_numbers(getpid(), "Seccomp_filters", &own_filters, 1);
	if (status_numbers(pid, "Seccomp_filters", &filters, 1) && filters > own_filters)
		return inject_refuse(ret_why, size, -EPERM, "a seccomp filter restricts it");
	if (process_has_shadow_stack(pid))
		return inject_refuse(ret_why, size, -EOPNOTSUPP, "it has a shadow stack");
	snprintf(path, sizeof(path), "/proc/%d/root%s", pid, agent_path);
	if (!same_namespace(pid, "mnt") || !same_file(path, agent_path))
		return inject_refuse(ret_why, size, -EXDEV, "it is in another mount namespace, where %s is not", agent_path);
	if (!same_namespace(pid, "net"))
		return inject_refuse(ret_why, size, -EXDEV, "it is in another network namespace");
	err = file_open_exe(pid, &fd);
	if (err)
		return inject_refuse(ret_why, size, err, "its program cannot be read: %s", strerror(-err));
	err = elf_open_fd(fd, &exe);
	if (err)
		return inject_refuse(ret_why, size, err == -EOPNOTSUPP ? err : -ENOEXEC, "it is not a 64-bit program of this machine");
	machine = elf_machine(exe);
	elf_close(exe);
	if (machine != OUR_MACHINE)
		return inject_refuse(ret_why, size, -EOPNOTSUPP, "it is not a 64-bit program of this machine");
	return 0;
}

#define FILES_MAX 4

struct search {
	pid_t pid;
	struct inject_places found;
	struct mapped_file files[FILES_MAX]; /* where it was found; without their paths */
	int count, seen;
};

static void keep_file(struct search *s, const struct mapped_file *m)
{
	if (s->count < FILES_MAX)
		s->files[s->count++] = *m;
}

static int see_file(const struct mapped_file *m, void *arg)
{
	struct search *s = arg;

	for (int i = 0; i < s->count; i++)
		s->seen += m->start == s->files[i].start && m->dev == s->files[i].dev && m->ino == s->files[i].ino && m->offset == s->files[i].offset;
	return 0;
}

/* Whether all is still where it was found: the process may have executed another program since then. */
static bool still_there(void *arg)
{
	struct search *s = arg;

	s->seen = 0;
	return !process_each_mapped(s->pid, see_file, s) && s->seen == s->count;
}

static uint64_t address_of(struct elf_file *elf, const struct mapped_file *m, const char *name)
{
	struct elf_symbol s;

	if (elf_find_symbol(elf, name, &s) || s.offset < m->offset || s.offset - m->offset >= m->end - m->start)
		return 0;
	return m->start + (s.offset - m->offset);
}

/* The C library has all three, except that the dl functions of an older glibc are in libdl. */
static int find_functions(const struct mapped_file *m, void *arg)
{
	const char *base = strrchr(m->path, '/');
	struct search *s = arg;
	struct inject_places *p = &s->found, before = *p;
	struct elf_file *elf;
	int fd;

	base = base ? base + 1 : m->path;
	if (strncmp(base, "libc.", 5) && strncmp(base, "libc-", 5) && strncmp(base, "libdl", 5) && strncmp(base, "ld-musl-", 8))
		return 0;
	if (file_open_mapped(s->pid, m, &fd) || elf_open_fd(fd, &elf))
		return 0;
	if (!p->errno_location)
		p->errno_location = address_of(elf, m, "__errno_location");
	if (!p->dlopen || !p->dlsym) {
		p->dlopen = address_of(elf, m, "dlopen");
		p->dlsym = address_of(elf, m, "dlsym");
	}
	elf_close(elf);
	if (memcmp(&before, p, sizeof(before)))
		keep_file(s, m);
	return 0;
}

static bool read_process(pid_t pid, uint64_t at, void *ret_bytes, size_t length)
{
	struct iovec local = { ret_bytes, length }, remote = { (void *)(uintptr_t)at, length };

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)length;
}

/*
 * Where nobody has anything: behind the end of an executable segment, in its last page. What of the file is mapped
 * there is padding, which must be zero, or what an injection before this one has left.
 */
static int find_room(const struct mapped_file *m, void *arg)
{
	struct search *s = arg;
	uint8_t there[INJECT_CODE_MAX];
	uint64_t end = 0, from;
	Elf64_Ehdr h;
	Elf64_Phdr p;
	int fd;

	if (!m->ino || file_open_mapped(s->pid, m, &fd))
		return 0;
	if (pread(fd, &h, sizeof(h), 0) == sizeof(h) && h.e_phentsize == sizeof(p)) {
		for (int i = 0; i < h.e_phnum && i < 64; i++) {
			if (pread(fd, &p, sizeof(p), (off_t)(h.e_phoff + (uint64_t)i * sizeof(p))) != sizeof(p))
				break;
			/* the segment of this mapping, mapped as a whole */
			if (p.p_type == PT_LOAD && p.p_flags & PF_X && !(p.p_flags & PF_W) && p.p_filesz == p.p_memsz &&
				p.p_offset / 4096 * 4096 == m->offset && p.p_offset + p.p_filesz - m->offset <= m->end - m->start)
				end = p.p_offset + p.p_filesz - m->offset;
		}
	}
	close(fd);
	from = (m->start + end + 63) / 64 * 64;
	if (!end || m->end - from > 65536 || from + INJECT_CODE_MAX > m->end)
		return 0;
	if (!read_process(s->pid, from, there, sizeof(there)) || !inject_code_fits(there))
		return 0;
	s->found.code = from;
	keep_file(s, m);
	return 1;
}

struct attempt {
	struct search *search;
	const char *agent_path, *socket_name;
	char *ret_why;
	size_t size;
};

static int try_thread(pid_t tid, void *arg)
{
	const struct attempt *a = arg;
	const struct inject_text text = { a->agent_path, GPU_ATTACH_ENTRY, a->socket_name };
	int err = inject_call(a->search->pid, tid, &a->search->found, still_there, a->search, &text, a->ret_why, a->size);

	/* done, or failed for good: the walk ends */
	if (err == -EAGAIN)
		return 0;
	return err ? err : 1;
}

int gpu_inject(pid_t pid, const char *agent_path, const char *socket_name, char *ret_why, size_t size)
{
	const struct timespec pause = { .tv_nsec = ROUND_NS };
	struct search s = { .pid = pid };
	struct attempt a = { &s, agent_path, socket_name, ret_why, size };
	int err;

	err = check_process(pid, agent_path, ret_why, size);
	if (err)
		return err;
	err = process_each_mapped(pid, find_functions, &s);
	if (err < 0)
		return inject_refuse(ret_why, size, err, "its memory cannot be looked at: %s", strerror(-err));
	if (!s.found.errno_location || !s.found.dlopen || !s.found.dlsym)
		return inject_refuse(ret_why, size, -EOPNOTSUPP, "it is linked statically, or its C library has no dlopen()");
	if (process_each_mapped(pid, find_room, &s) <= 0)
		return inject_refuse(ret_why, size, -EOPNOTSUPP, "none of its libraries has room for the call");
	for (int i = 0; i < ROUNDS; i++) {
		err = process_each_thread(pid, try_thread, &a);
		if (err == -ESRCH)
			return inject_refuse(ret_why, size, err, "it has ended");
		if (err)
			return err < 0 ? err : 0;
		if (!still_there(&s))
			return inject_refuse(ret_why, size, -ESRCH, "it ended, or executed another program, meanwhile");
		nanosleep(&pause, NULL);
	}
	return inject_refuse(ret_why, size, -EAGAIN, "none of its threads waits in a system call, where a call could be put in between");
}
