/* SPDX-License-Identifier: BSD-2-Clause */
/* The version and exit codes that callers of inftrace see. */
#ifndef INFTRACE_UTIL_PROGRAM_H
#define INFTRACE_UTIL_PROGRAM_H

#define INFTRACE_VERSION "0.1.0"

enum exit_code {
	EXIT_OK = 0,
	EXIT_RUN = 1,     /* failed while running */
	EXIT_USAGE = 2,   /* the command line is wrong */
	EXIT_ALLOWED = 3, /* the kernel or the privileges do not allow it */
	EXIT_LOSS = 4,    /* records were lost and --strict was given */
};

#endif
