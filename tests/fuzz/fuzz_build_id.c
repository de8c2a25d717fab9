// SPDX-License-Identifier: BSD-2-Clause
/*
 * libFuzzer target: any bytes as the file whose build-id the recorder itself reads.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Isrc \
 *         tests/fuzz/fuzz_build_id.c src/target/file.c src/util/{alloc,fmt,log,text}.c -lm -o fuzz_build_id
 *   mkdir -p corpus && cc -shared -o corpus/seed.so -x c /dev/null
 *   ./fuzz_build_id -max_total_time=60 corpus
 */
#include "fuzz.h"

#include "target/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char hex[129];

	REQUIRE(build_id_read(file_of(data, size), hex, sizeof(hex)) || strlen(hex) % 2 == 0);
	return 0;
}
