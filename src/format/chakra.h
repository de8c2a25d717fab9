/* SPDX-License-Identifier: BSD-2-Clause */
/* Execution traces: what the sink keeps of a step until it is over, and what becomes of it then. */
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
	uint64_t addr, view; /* view: whose memory it uses; 0: its own */
	uint64_t source;     /* the first of its sources; 0: none */
	uint64_t shape[ET_DIMENSIONS], bytes;
	uint32_t op;
	const char *op_name, *type; /* of the preset, or of the engine's own table; NULL: it has none */
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
	uint64_t fused_into;                                    /* the node that did the work of both; 0: it has its own */
	uint64_t data[ET_SOURCES_MAX], control[ET_SOURCES_MAX]; /* ids that it depends on, each once */
	unsigned int n_data, n_control;
};

/* A call of an operator's function on one thread. */
struct et_call {
	uint64_t start_ns, end_ns;
	uint32_t tid;
	uint32_t op;          /* ET_NO_OP: not told */
	const char *name;     /* of an operator without nodes; NULL: the step has nodes */
	const char *declared; /* with its overload: "aten::add.Tensor"; NULL: not known */
	uint64_t number;      /* that other traces in PyTorch's form have for it */
	struct tensor_args args;
	uint64_t shapes[FUNC_VALS_MAX]; /* FETCH_F_SHAPE, two of each tensor of `args` */
	uint64_t id;
	uint64_t parent, after; /* within which call it is, and which one of its thread began before it; 0: none */
	uint64_t own_ns;        /* outside of calls within it */
};

/* As Chakra and PyTorch number and order them. */
enum et_list { ET_VALUES = 1,
	ET_SHAPES,
	ET_TYPES };

/* A call that passes data to other processes or devices. */
struct et_comm {
	const char *name;
	uint8_t node_type, coll; /* NodeType, and of a collective its CollectiveCommType */
	bool has_bytes, has_peer, has_comm;
	uint32_t tid;
	uint32_t peer;  /* or the root of a collective */
	uint64_t bytes; /* that this process passes */
	uint64_t comm;  /* the communicator: its address, by which only its own process knows it */
	uint64_t start_ns, call_ns;
	uint64_t id, after; /* after: the node that comes first; 0: none */
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

/* Takes a record apart, with the names that its process has for operators and types (probe_table_use()). False: the
 * operator's own node could not be read. */
bool et_node_read(const struct rec_node *r, const struct node_fields *f, struct et_node *ret_node);

/*
 * Sorts the nodes of a step by time, drops those without elements, and gives the others ids from `id` on, the times of
 * their calls, and the nodes that they depend on. Those that need none come after `before`, the last node of the step before;
 * 0: there is none.
 */
void et_step_resolve(struct et_step *s, uint64_t id, uint64_t before);

/* Sorts calls that are operators by themselves by thread and time, and gives them ids from `id` on and their places among the
 * others. The first of each thread comes after `before`. */
void et_calls_resolve(struct et_step *s, uint64_t id, uint64_t before);

/* Whether a call passes data to others, and what is known of it. */
bool et_comm_read(const struct probe_spec *s, const struct rec_function *r, struct et_comm *ret_comm);

/* Sorts the communication of a step by time and gives it ids from `id` on. Those of one communicator come one after the other;
 * the first of each after `before`. */
void et_comms_resolve(struct et_step *s, uint64_t id, uint64_t before);

/* What a node is written with. */
struct et_context {
	uint64_t real_ns; /* CLOCK_REALTIME - CLOCK_BOOTTIME */
	uint64_t step;
	const char *phase;
	uint32_t tgid;
};

/* Each writes a message with its length before it, of at most WRITER_EVENT_MAX bytes. Returns its end. */
char *et_write_metadata(char *p, const char *engine);
char *et_write_node(char *p, const struct et_node *n, const struct et_context *c);
char *et_write_call(char *p, const struct et_call *call, const struct et_context *c);
/* One of the lists with an element for each argument: the same text in both forms. */
char *et_write_inputs(char *p, const struct et_call *call, enum et_list list);
char *et_write_comm(char *p, const struct et_comm *m, const struct et_context *c);

#define ET_JSON_ROOT 1 /* the id of the process */

struct writer;

/* In PyTorch's form: the begin with the process, a thread, and a call on one, of at most WRITER_EVENT_MAX bytes
 * each. The end is the file's from now on. */
char *et_json_begin(char *p, uint64_t real_ns, uint64_t mono_ns);
char *et_json_thread(char *p, uint64_t id, uint32_t tid);
char *et_json_call(char *p, const struct et_call *c, uint64_t thread);
void et_json_end(struct writer *w, uint32_t pid, uint64_t mono_ns);

#endif
