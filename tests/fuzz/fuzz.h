/* SPDX-License-Identifier: BSD-2-Clause */
/* What the libFuzzer targets share; each says in its head how it is built and run. */
#ifndef FUZZ_H
#define FUZZ_H

#include "../program.h"

#define REQUIRE(x)               \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file of those bytes, which the next call replaces. */
static inline int file_of(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	REQUIRE(fd >= 0 && !ftruncate(fd, 0) && pwrite(fd, data, size, 0) == (ssize_t)size);
	return fd;
}

static inline const char *path_of(const uint8_t *data, size_t size)
{
	static char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file_of(data, size));
	return path;
}

/* Every message is one line without control bytes. */
static inline void check_line(const char *text)
{
	for (; *text; text++)
		REQUIRE((unsigned char)*text >= 0x20 && *text != 0x7f);
}

#endif
