// SPDX-License-Identifier: BSD-2-Clause
/*
 * libFuzzer target: any bytes as the file whose build-id the recorder itself reads.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Isrc \
 *         tests/fuzz/fuzz_build_id.c src/target/file.c src/util/{alloc,fmt,log,text}.c -lm -o fuzz_build_id
 *   mkdir -p corpus && cc -shared -o corpus/seed.so -x c /dev/null
 *   ./fuzz_build_id -max_total_time=60 corpus
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	char hex[129];

	if (fd < 0)
		fd = memfd_create("fuzz_build_id", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	if (!build_id_read(fd, hex, sizeof(hex)) && strlen(hex) % 2)
		abort();
	return 0;
}
