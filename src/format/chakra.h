/* SPDX-License-Identifier: BSD-2-Clause */
/* Execution traces: what the sink keeps of a step, and how it is resolved and written. */
#ifndef INFTRACE_FORMAT_CHAKRA_H
#define INFTRACE_FORMAT_CHAKRA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/spec.h"
#include "record.h"

#define ET_NAME_LEN 65
#define ET_DIMENSIONS 4
#define ET_SOURCES_MAX (NODES_MAX - 1)
#define ET_NO_OP UINT32_MAX

/* A node of the engine's graph, as it was in memory. */
struct et_tensor {
	uint64_t addr, view; /* view: the tensor whose memory it uses; 0: its own */
	uint64_t source;     /* the first of its sources; 0: none */
	uint64_t shape[ET_DIMENSIONS], bytes;
	uint32_t op;
	const char *op_name, *type; /* from the preset or the engine's own table; NULL: unknown */
	char name[ET_NAME_LEN];
};

/* An operator, as it was run. */
struct et_node {
	struct et_tensor t;
	struct et_tensor sources[ET_SOURCES_MAX];
	unsigned int n_sources;
	uint32_t tid;
	uint64_t seen_ns; /* when it was copied, near its beginning */
	uint64_t start_ns, dur_ns;
	bool timed; /* start and duration are known */
	uint64_t id;
	uint64_t fused_into;                                    /* the node that did its work as well; 0: none */
	uint64_t data[ET_SOURCES_MAX], control[ET_SOURCES_MAX]; /* ids that it depends on, each once */
	unsigned int n_data, n_control;
};

/* A call of an operator's function on one thread. */
struct et_call {
	uint64_t start_ns, end_ns;
	uint32_t tid;
	uint32_t op;          /* ET_NO_OP: unknown */
	const char *name;     /* of an operator without nodes; NULL: the step has nodes */
	const char *declared; /* with its overload: "aten::add.Tensor"; NULL: not known */
	uint64_t number;      /* the same in other traces in PyTorch's form */
	struct tensor_args args;
	uint64_t shapes[FUNC_VALS_MAX]; /* FETCH_F_SHAPE: two values per tensor in `args` */
	uint64_t id;
	uint64_t parent, after; /* ids of the enclosing call and of the one before it on its thread; 0: none */
	uint64_t own_ns;        /* without the calls inside it */
};

/* A call that passes data to other processes or devices. */
struct et_comm {
	const char *name;
	uint8_t node_type, coll; /* NodeType, and CollectiveCommType of a collective */
	bool has_bytes, has_peer, has_comm;
	uint32_t tid;
	uint32_t peer;  /* or the root of a collective */
	uint64_t bytes; /* passed by this process */
	uint64_t comm;  /* address of the communicator, which identifies it in its own process only */
	uint64_t start_ns, call_ns;
	uint64_t id, after; /* after: the node before it; 0: none */
};

struct et_step {
	struct et_node *nodes;
	size_t n_nodes, nodes_cap;
	struct et_call *calls;
	size_t n_calls, calls_cap;
	struct et_comm *comms;
	size_t n_comms, comms_cap;
	bool incomplete; /* not all of it was seen */
};

/* Decodes a record, with its process's names of operators and types (probe_table_use()). False: the operator's own node could
 * not be read. */
bool et_node_read(const struct rec_node *r, const struct node_fields *f, struct et_node *ret_node);

/*
 * Sorts the nodes of a step by time, drops those without elements, and sets the ids (from `id` on), times and dependencies of
 * the others. A node without dependencies comes after `before`, the last node of the step before; 0: none.
 */
void et_step_resolve(struct et_step *s, uint64_t id, uint64_t before);

/* Sorts calls that are operators by themselves by thread and time, and sets their ids (from `id` on), parents and
 * predecessors. The first call of each thread comes after `before`. */
void et_calls_resolve(struct et_step *s, uint64_t id, uint64_t before);

/* Returns whether the call passes data to others, and then sets what is known of it. */
bool et_comm_read(const struct probe_spec *s, const struct rec_function *r, struct et_comm *ret_comm);

/* Sorts the communication of a step by time and sets ids from `id` on. Calls on one communicator form a chain, which begins
 * after `before`. */
void et_comms_resolve(struct et_step *s, uint64_t id, uint64_t before);

/* What all nodes of a step share. */
struct et_context {
	uint64_t real_ns; /* CLOCK_REALTIME - CLOCK_BOOTTIME */
	uint64_t step;
	const char *phase;
	uint32_t tgid;
};

/* Each writes a length-prefixed message of at most WRITER_EVENT_MAX bytes and returns its end. */
char *et_write_metadata(char *p, const char *engine);
char *et_write_node(char *p, const struct et_node *n, const struct et_context *c);
char *et_write_call(char *p, const struct et_call *call, const struct et_context *c);
char *et_write_comm(char *p, const struct et_comm *m, const struct et_context *c);

#define ET_JSON_ROOT 1 /* id of the node of the process */

struct writer;

/* PyTorch's form: the begin with the process, a thread, and a call on a thread, at most WRITER_EVENT_MAX bytes each.
 * et_json_end() sets the end that the file has from now on. */
char *et_json_begin(char *p, uint64_t real_ns, uint64_t mono_ns);
char *et_json_thread(char *p, uint64_t id, uint32_t tid);
char *et_json_call(char *p, const struct et_call *c, uint64_t thread);
void et_json_end(struct writer *w, uint32_t pid, uint64_t mono_ns);

#endif
