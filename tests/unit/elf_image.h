/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of forged ELF files. */
#ifndef INFTRACE_TEST_ELF_IMAGE_H
#define INFTRACE_TEST_ELF_IMAGE_H

#include <elf.h>
#include <sys/mman.h>

#include "unit.h"

/* For a library on x86_64, with its tables at these offsets. */
static inline Elf64_Ehdr elf_header(size_t segments, uint16_t n_segments, size_t sections, uint16_t n_sections, uint16_t names)
{
	return (Elf64_Ehdr){ { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT }, ET_DYN, EM_X86_64, EV_CURRENT, 0,
		segments, sections, 0, sizeof(Elf64_Ehdr), sizeof(Elf64_Phdr), n_segments, sizeof(Elf64_Shdr), n_sections, names };
}

static inline Elf64_Phdr elf_segment(uint32_t type, uint32_t flags, uint64_t vaddr, size_t offset, size_t size, size_t zeros)
{
	return (Elf64_Phdr){ type, flags, offset, vaddr, vaddr, size, size + zeros, 4 };
}

static inline Elf64_Shdr elf_section(uint32_t name, uint32_t type, uint64_t vaddr, size_t offset, size_t size, size_t entry, uint32_t link)
{
	return (Elf64_Shdr){ name, type, 0, vaddr, offset, size, link, 0, 4, entry };
}

/* Makes a file with these bytes. */
static inline int file_of(const void *bytes, size_t len)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);

	assert_int_equal(write(fd, bytes, len), len);
	return fd;
}

#endif
