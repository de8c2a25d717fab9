// SPDX-License-Identifier: BSD-2-Clause
#include "capture/messages.h"

#include <bpf/libbpf.h>
#include <sys/syscall.h>

#include "capture/session.h"
#include "inftrace.skel.h"

/* Their first argument is the connection, and their result the number of its bytes. */
static const struct {
	unsigned int nr;
	enum message_call call;
} calls[] = {
	{ SYS_read, MESSAGE_CALL_RECEIVE },
	{ SYS_readv, MESSAGE_CALL_RECEIVE },
	{ SYS_recvfrom, MESSAGE_CALL_RECEIVE },
	{ SYS_recvmsg, MESSAGE_CALL_RECEIVE },
	{ SYS_write, MESSAGE_CALL_SEND },
	{ SYS_writev, MESSAGE_CALL_SEND },
	{ SYS_sendto, MESSAGE_CALL_SEND },
	{ SYS_sendmsg, MESSAGE_CALL_SEND },
	{ SYS_sendfile, MESSAGE_CALL_SEND },
};

void messages_configure(struct inftrace_bpf *k, const struct session_config *c)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		k->rodata->message_calls[calls[i].nr] = (uint8_t)calls[i].call;
	bpf_program__set_autoload(k->progs.messages_exit, c->messages);
}
