// SPDX-License-Identifier: BSD-2-Clause
#include "target/python.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/elf.h"
#include "target/file.h"
#include "target/process.h"

/* Files that were read, the newest: interpreters are few, and programs that are none are asked about only once while
 * they are among them. */
#define FILES_MAX 64

/* Present in all versions: it is in the code, so the mapping that has it says where the file is. */
#define CODE_SYMBOL "_PyEval_EvalFrameDefault"

/* Addresses are as linked. */
struct python_file {
	uint64_t dev, ino;
	bool python;
	unsigned int major, minor; /* 0: the file does not say */
	struct elf_symbol code;	   /* without its name */
	uint64_t runtime, type_code, type_str, type_bytes, type_int;
};

struct python_finder {
	struct python_file files[FILES_MAX];
	unsigned int next;
};

int python_finder_new(struct python_finder **ret_finder)
{
	struct python_finder *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	*ret_finder = f;
	return 0;
}

void python_finder_free(struct python_finder *f)
{
	free(f);
}

static uint64_t find_address(struct elf_file *elf, const char *name)
{
	struct elf_symbol sym;

	return elf_find_object(elf, name, &sym) ? 0 : sym.vaddr;
}

/* Py_Version is a constant from 3.11 on. */
static void read_version(struct elf_file *elf, struct python_file *f)
{
	struct elf_symbol sym;
	uint64_t version;

	if (elf_find_object(elf, "Py_Version", &sym) || !sym.offset ||
		elf_read_at_offset(elf, sym.offset, &version, sizeof(version)))
		return;
	f->major = (version >> 24) & 0xff;
	f->minor = (version >> 16) & 0xff;
}

/* "/usr/bin/python3.9", "/usr/lib/libpython3.9.so.1.0" */
static void read_name(const char *path, struct python_file *f)
{
	const char *base = strrchr(path, '/'), *p;
	unsigned int major, minor;

	p = strstr(base ? base : path, "python");
	if (p && sscanf(p, "python%2u.%2u", &major, &minor) == 2) {
		f->major = major;
		f->minor = minor;
	}
}

static bool may_be_python(struct elf_file *elf, const char *path)
{
	const char *base = strrchr(path, '/');
	uint64_t vaddr;
	size_t len;
	void *data;
	int err;

	if (strstr(base ? base : path, "python"))
		return true;
	/* from 3.11 on; that it is longer than allowed is an answer, too */
	err = elf_read_section(elf, ".PyRuntime", 1, &vaddr, &data, &len);
	if (!err)
		free(data);
	return err != -ENOENT;
}

static int read_file(pid_t pid, const struct mapped_file *m, struct python_file *f)
{
	struct elf_file *elf;
	int fd, err;

	*f = (struct python_file){ .dev = m->dev, .ino = m->ino };
	err = file_open_mapped(pid, m, &fd);
	if (!err)
		err = elf_open_fd(fd, &elf);
	if (err)
		return err;
	if (may_be_python(elf, m->path) && !elf_find_symbol(elf, CODE_SYMBOL, &f->code)) {
		f->code.name = NULL;
		f->runtime = find_address(elf, "_PyRuntime");
		f->type_code = find_address(elf, "PyCode_Type");
		f->type_str = find_address(elf, "PyUnicode_Type");
		f->type_bytes = find_address(elf, "PyBytes_Type");
		f->type_int = find_address(elf, "PyLong_Type");
		f->python = f->runtime != 0;
		read_version(elf, f);
		if (!f->major)
			read_name(m->path, f);
	}
	elf_close(elf);
	return 0;
}

static const struct python_file *get_file(struct python_finder *finder, pid_t pid, const struct mapped_file *m)
{
	struct python_file *f;

	for (unsigned int i = 0; i < FILES_MAX; i++) {
		f = &finder->files[i];
		if (f->ino == m->ino && f->dev == m->dev)
			return f;
	}
	f = &finder->files[finder->next];
	finder->next = (finder->next + 1) % FILES_MAX;
	if (read_file(pid, m, f))
		f->ino = 0; /* not even tried: it may work with the next process */
	return f;
}

struct search {
	struct python_finder *finder;
	pid_t pid;
	char exe[4096];
	struct python_file found;
	uint64_t bias;
};

static bool is_candidate(const struct search *s, const char *path)
{
	const char *base = strrchr(path, '/');

	return !strcmp(path, s->exe) || (base && !strncmp(base, "/libpython3", 11));
}

static int look_at(const struct mapped_file *m, void *arg)
{
	struct search *s = arg;
	const struct python_file *f;

	if (!is_candidate(s, m->path))
		return 0;
	f = get_file(s->finder, s->pid, m);
	if (!f->python || f->code.offset < m->offset || f->code.offset - m->offset >= m->end - m->start)
		return 0;
	s->found = *f;
	s->bias = m->start + (f->code.offset - m->offset) - f->code.vaddr;
	return 1;
}

/* From 3.13 on the process says where it has what. */
static int read_layout(pid_t pid, const struct search *s, struct python *ret_python)
{
	uint64_t words[PYTHON_DEBUG_WORDS], runtime = s->found.runtime + s->bias;
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = pread(fd, words, sizeof(words), (off_t)runtime);
	close(fd);
	return n < 0 ? -ESRCH : python_layout_read(words, (size_t)n / sizeof(*words), ret_python);
}

static uint64_t place(uint64_t vaddr, uint64_t bias)
{
	return vaddr ? vaddr + bias : 0;
}

int python_find(struct python_finder *f, pid_t pid, struct python *ret_python)
{
	struct search s = { .finder = f, .pid = pid };
	struct python p = {};
	char link[64];
	struct stat st;
	ssize_t n;
	int err;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	n = readlink(link, s.exe, sizeof(s.exe) - 1);
	s.exe[n > 0 ? n : 0] = 0;
	err = process_each_mapped(pid, look_at, &s);
	if (err <= 0)
		return err ? err : -ENOENT;
	err = read_layout(pid, &s, &p);
	if (err == -ENOENT) {
		p.major = s.found.major;
		p.minor = s.found.minor;
		err = python_layout_known(s.found.major, s.found.minor, &p);
	}
	if (err == -ENOTSUP)
		*ret_python = p;
	if (err)
		return err;
	p.walk.runtime = s.found.runtime + s.bias;
	p.type_code = place(s.found.type_code, s.bias);
	p.type_str = place(s.found.type_str, s.bias);
	p.type_bytes = place(s.found.type_bytes, s.bias);
	p.type_int = place(s.found.type_int, s.bias);
	snprintf(link, sizeof(link), "/proc/%d/ns/pid", pid);
	if (!stat(link, &st)) {
		p.walk.ns_dev = st.st_dev;
		p.walk.ns_ino = st.st_ino;
	}
	*ret_python = p;
	return 0;
}
