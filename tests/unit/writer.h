/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the writer's tests: random numbers, and files with a size limit. */
#ifndef INFTRACE_TEST_WRITER_H
#define INFTRACE_TEST_WRITER_H

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

#include "cases.h"
#include "io/writer.h"
#include "stderr.h"
#include "unit.h"

#define PAGE 4096
#define VALID "; the file is valid up to here\n"

static struct stderr_grab said;

static inline unsigned int draw(unsigned int below)
{
	static uint64_t seed = 88172645463325252ull;

	return (unsigned int)(next_random(&seed) % below);
}

/* Every write beyond this file size fails, or is cut short. */
static inline void limit_files(rlim_t size)
{
	struct rlimit r;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &r);
	r.rlim_cur = size == RLIM_INFINITY ? r.rlim_max : size;
	setrlimit(RLIMIT_FSIZE, &r);
}

/* Unpacks one gzip member, and checks its header and sum. Returns its length; *ret_len: of the text. */
static inline size_t unpack_member(const char *from, size_t len, char *to, size_t max, size_t *ret_len)
{
	z_stream z = { .next_in = (unsigned char *)from, .avail_in = (unsigned int)len, .next_out = (unsigned char *)to, .avail_out = (unsigned int)max };

	/* 15 + 16: gzip headers, whose fields and sums zlib checks */
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	inflateEnd(&z);
	*ret_len = z.total_out;
	return z.total_in;
}

#endif
