// SPDX-License-Identifier: BSD-2-Clause
/*
 * Runs a command for which perf_event_open(2) fails as on Debian and Ubuntu, whose kernels allow it only with
 * CAP_SYS_ADMIN if kernel.perf_event_paranoid is above 2.
 *
 *	without_perf COMMAND [ARG...]
 */
#include "../program.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

int main(int argc, char **argv)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = LENGTH(filter), .filter = filter };

	if (argc < 2) {
		fputs("usage: without_perf COMMAND [ARG...]\n", stderr);
		return 2;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0)) {
		perror("without_perf: no filter");
		return 126;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
