// SPDX-License-Identifier: BSD-2-Clause
#include "capture/requests.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "probe.h"

/* Each CPU takes free entries in batches of 128 (LOCAL_FREE_TARGET of kernel/bpf/bpf_lru_list.c), which
 * the others then lack: without room for these, entries in use would be evicted. Each takes 1.5 KB. */
uint32_t requests_connections(unsigned int cpus)
{
	return 1024 + 128 * cpus;
}

void requests_calls(uint8_t ret_calls[512])
{
	ret_calls[SYS_read] = REQUEST_CALL_READ;
	ret_calls[SYS_recvfrom] = REQUEST_CALL_RECVFROM;
	ret_calls[SYS_readv] = REQUEST_CALL_READV;
	ret_calls[SYS_recvmsg] = REQUEST_CALL_RECVMSG;
	ret_calls[SYS_write] = REQUEST_CALL_WRITE;
	ret_calls[SYS_sendto] = REQUEST_CALL_WRITE;
	ret_calls[SYS_writev] = REQUEST_CALL_WRITEV;
	ret_calls[SYS_sendmsg] = REQUEST_CALL_SENDMSG;
	ret_calls[SYS_accept] = REQUEST_CALL_ACCEPT;
	ret_calls[SYS_accept4] = REQUEST_CALL_ACCEPT;
	ret_calls[SYS_close] = REQUEST_CALL_CLOSE;
}

/* The record is the first member of a connection. */
int requests_left(int connections_fd, record_cb cb, void *arg)
{
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info);
	uint64_t key, *before = NULL;
	struct rec_request *r;
	void *value;

	if (bpf_obj_get_info_by_fd(connections_fd, &info, &len))
		return -errno;
	value = malloc(info.value_size);
	if (!value)
		return -ENOMEM;
	r = value;
	for (; !bpf_map_get_next_key(connections_fd, before, &key); before = &key) {
		if (bpf_map_lookup_elem(connections_fd, &key, value) || !r->reads)
			continue;
		r->h.flags |= r->writes ? REQUEST_F_END_UNSEEN : REC_F_OPEN_END;
		cb(&r->h, sizeof(*r), arg);
	}
	free(value);
	return 0;
}
