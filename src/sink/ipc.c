// SPDX-License-Identifier: BSD-2-Clause
#include "sink/ipc.h"

#include <stddef.h>

#include "util/names.h"

const char *ipc_name(const struct rec_hdr *h)
{
	uint32_t kind = (h->flags & SYSCALL_IPC_MASK) >> SYSCALL_IPC_SHIFT;
	enum transfer way;

	if (!kind || kind >= IPC_MAX)
		return NULL;
	if (h->flags & SYSCALL_F_BLOCKED)
		return "ipc_slow";
	way = syscall_transfer(h->id);
	if (!way)
		way = kind == IPC_FUTEX_WAKE ? TRANSFER_SEND : TRANSFER_RECEIVE;
	return way == TRANSFER_SEND ? "ipc_fast_send" : "ipc_fast_recv";
}

const char *ipc_kind_name(const struct rec_hdr *h)
{
	static const char *const kinds[IPC_MAX] = {
		[IPC_PIPE] = "pipe",
		[IPC_UNIX] = "unix",
		[IPC_EVENTFD] = "eventfd",
		[IPC_FUTEX_WAIT] = "futex",
		[IPC_FUTEX_WAKE] = "futex",
	};

	return kinds[(h->flags & SYSCALL_IPC_MASK) >> SYSCALL_IPC_SHIFT];
}
