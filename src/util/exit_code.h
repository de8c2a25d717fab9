/* SPDX-License-Identifier: BSD-2-Clause */
/* The exit codes of inftrace. */
#ifndef INFTRACE_UTIL_EXIT_CODE_H
#define INFTRACE_UTIL_EXIT_CODE_H

enum exit_code {
	EXIT_OK = 0,
	EXIT_RUN = 1,     /* failed while running */
	EXIT_USAGE = 2,   /* the command line is wrong */
	EXIT_ALLOWED = 3, /* the kernel or the privileges do not allow it */
	EXIT_LOSS = 4,    /* records were lost and --strict was given */
};

#endif
