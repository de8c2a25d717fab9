// SPDX-License-Identifier: BSD-2-Clause
/*
 * Preloaded into inftrace, makes the kernel one that does not know uprobe_multi links (before 6.6):
 * bpf(BPF_LINK_CREATE) of that type is refused as it would be there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UPROBE_MULTI 48 /* BPF_TRACE_UPROBE_MULTI of 6.6; headers may be older */

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	const union bpf_attr *attr;
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	attr = (const union bpf_attr *)a[1];
	if (number == SYS_bpf && a[0] == BPF_LINK_CREATE &&
		attr->link_create.attach_type == UPROBE_MULTI) {
		errno = EINVAL;
		return -1;
	}
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
