// SPDX-License-Identifier: BSD-2-Clause
/* Collectives in execution traces: calls of NCCL, and of RCCL, which has the same names. */
#include "format/chakra.h"

#include <stdlib.h>
#include <string.h>

#include "engine/check.h"
#include "engine/spec.h"

/* NodeType and CollectiveCommType of schema/protobuf/et_def.proto of mlcommons/chakra. */
enum { SEND_NODE = 5,
	RECV_NODE = 6,
	COLL_NODE = 7 };

static const struct {
	const char *symbol;
	uint8_t node_type, coll;
} calls[] = {
	{ "ncclAllReduce", COLL_NODE, 0 },
	{ "ncclReduce", COLL_NODE, 1 },
	{ "ncclAllGather", COLL_NODE, 2 },
	{ "ncclGather", COLL_NODE, 3 },
	{ "ncclScatter", COLL_NODE, 4 },
	{ "ncclBroadcast", COLL_NODE, 5 },
	{ "ncclBcast", COLL_NODE, 5 },
	{ "ncclAlltoAll", COLL_NODE, 6 },
	{ "ncclReduceScatter", COLL_NODE, 7 },
	{ "ncclSend", SEND_NODE, 0 },
	{ "ncclRecv", RECV_NODE, 0 },
};

bool et_comm_read(const struct probe_spec *s, const struct rec_function *r, struct et_comm *ret_comm)
{
	size_t i = 0, n = sizeof(calls) / sizeof(*calls);
	uint64_t peer = 0;

	while (i < n && (!s->symbol || strcmp(s->symbol, calls[i].symbol)))
		i++;
	if (i == n)
		return false;
	*ret_comm = (struct et_comm){
		.name = calls[i].symbol,
		.node_type = calls[i].node_type,
		.coll = calls[i].coll,
		.start_ns = r->h.start_ns,
		.call_ns = r->h.dur_ns,
		.tid = r->h.tid,
	};
	ret_comm->has_bytes = bytes_of_call(s, r->vals, &ret_comm->bytes);
	ret_comm->has_comm = check_value(s, r->vals, "comm", &ret_comm->comm);
	ret_comm->has_peer = check_value(s, r->vals, calls[i].node_type == COLL_NODE ? "root" : "peer", &peer);
	ret_comm->peer = (uint32_t)peer;
	return true;
}

static int by_start(const void *a, const void *b)
{
	const struct et_comm *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

void et_comms_resolve(struct et_step *s, uint64_t id, uint64_t before)
{
	if (s->n_comms)
		qsort(s->comms, s->n_comms, sizeof(*s->comms), by_start);
	for (size_t i = 0; i < s->n_comms; i++) {
		struct et_comm *c = &s->comms[i];
		size_t last = i;

		c->id = id + i;
		while (last && s->comms[last - 1].comm != c->comm)
			last--;
		c->after = last ? s->comms[last - 1].id : before;
	}
}
