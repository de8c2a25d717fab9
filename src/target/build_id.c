// SPDX-License-Identifier: BSD-2-Clause
#include "target/build_id.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SEGMENTS_MAX 256
#define NOTES_MAX 4096 /* bytes of a segment that are read */
#define ID_MAX 64

static int write_hex(const unsigned char *id, size_t len, char *hex, size_t size)
{
	if (size < 2 * len + 1)
		return -ENOSPC;
	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	return 0;
}

static size_t align4(size_t n)
{
	return (n + 3) & ~(size_t)3;
}

/* Searches the notes of a segment. All lengths in them are below 2^32, so no sum wraps. */
static int find_in_notes(const unsigned char *notes, size_t len, char *hex, size_t size)
{
	size_t at = 0;

	while (len - at >= sizeof(Elf64_Nhdr)) {
		size_t name, desc;
		Elf64_Nhdr nh;

		memcpy(&nh, notes + at, sizeof(nh));
		name = at + sizeof(nh);
		desc = name + align4(nh.n_namesz);
		if (desc > len || nh.n_descsz > len - desc)
			return -ENOENT;
		if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == sizeof("GNU") &&
			!memcmp(notes + name, "GNU", sizeof("GNU")) && nh.n_descsz && nh.n_descsz <= ID_MAX)
			return write_hex(notes + desc, nh.n_descsz, hex, size);
		at = desc + align4(nh.n_descsz);
		if (at > len)
			return -ENOENT;
	}
	return -ENOENT;
}

int build_id_read(int fd, char *hex, size_t size)
{
	unsigned char notes[NOTES_MAX];
	Elf64_Ehdr eh;

	if (pread(fd, &eh, sizeof(eh), 0) != sizeof(eh) || memcmp(eh.e_ident, ELFMAG, SELFMAG) ||
		eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_ident[EI_DATA] != ELFDATA2LSB ||
		eh.e_phentsize != sizeof(Elf64_Phdr) || eh.e_phoff > INT64_MAX / 2)
		return -ENOENT;
	for (size_t i = 0; i < eh.e_phnum && i < SEGMENTS_MAX; i++) {
		Elf64_Phdr ph;
		ssize_t n;
		int err;

		if (pread(fd, &ph, sizeof(ph), (off_t)(eh.e_phoff + i * sizeof(ph))) != sizeof(ph))
			return -ENOENT;
		if (ph.p_type != PT_NOTE || ph.p_offset > INT64_MAX)
			continue;
		n = pread(fd, notes, ph.p_filesz < sizeof(notes) ? ph.p_filesz : sizeof(notes), (off_t)ph.p_offset);
		err = n > 0 ? find_in_notes(notes, (size_t)n, hex, size) : -ENOENT;
		if (err != -ENOENT)
			return err;
	}
	return -ENOENT;
}
