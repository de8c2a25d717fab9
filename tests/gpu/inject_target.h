/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INJECT_TARGET_H
#define INJECT_TARGET_H

#include <stdint.h>

#define TARGET_FD 3

struct target_page {
	uint64_t work;	 /* of the second thread */
	uint64_t rounds; /* of the main thread */
	uint64_t execs, forks;
	uint64_t interrupted; /* calls that ended with EINTR where that cannot always be avoided */
	uint64_t harm;	 /* how often something was not as it should be */
	uint32_t stop;	 /* 1: the program ends */
	char what[128];	 /* the first time */
};

#endif
