// SPDX-License-Identifier: BSD-2-Clause
#include "target/loader.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADERS_MAX 256

static int elf_interpreter(int fd, const Elf64_Ehdr *e, char *ret_path)
{
	Elf64_Phdr p;

	if (e->e_phentsize != sizeof(p) || e->e_phnum > HEADERS_MAX)
		return -ENOEXEC;
	for (size_t i = 0; i < e->e_phnum; i++) {
		if (pread(fd, &p, sizeof(p), (off_t)(e->e_phoff + i * sizeof(p))) != sizeof(p))
			return -ENOEXEC;
		if (p.p_type != PT_INTERP)
			continue;
		if (p.p_filesz < 2 || p.p_filesz > LOADER_PATH_MAX ||
			pread(fd, ret_path, p.p_filesz, (off_t)p.p_offset) != (ssize_t)p.p_filesz ||
			ret_path[p.p_filesz - 1])
			return -ENOEXEC;
		return 0;
	}
	return -ENOENT;
}

int loader_of(const char *path, char ret_loader[LOADER_PATH_MAX])
{
	char loader[LOADER_PATH_MAX];
	struct stat st;
	Elf64_Ehdr e;
	int fd, err = -ENOEXEC;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && pread(fd, &e, sizeof(e), 0) == sizeof(e) &&
		!memcmp(e.e_ident, ELFMAG, SELFMAG) && e.e_ident[EI_CLASS] == ELFCLASS64)
		err = elf_interpreter(fd, &e, loader);
	close(fd);
	if (!err)
		memcpy(ret_loader, loader, sizeof(loader));
	return err;
}
