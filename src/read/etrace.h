/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads execution traces of any program: Chakra's protobuf messages (docs/execution-trace.md), PyTorch's JSON, and the JSON
 * of Chakra's jsonizer and feeder. Keeps the ids and dependencies of nodes.
 */
#ifndef INFTRACE_READ_ETRACE_H
#define INFTRACE_READ_ETRACE_H

#include "read/detect.h"
#include "read/proto.h"

/* Names of the node types without _NODE, by number from 1. */
#define ETRACE_TYPES 8
extern const char *const etrace_types[ETRACE_TYPES];

struct etrace_place {
	uint64_t id;
	uint64_t waits; /* unmet dependencies, in etrace_find_cycle() */
};

/* `from` needs `to` first. */
struct etrace_edge {
	uint64_t from, to;
	bool control;
};

struct etrace_node {
	uint64_t number; /* of its message, or its line in JSON; from 1 */
	uint64_t id, type;
	uint64_t rf_id; /* Kineto's id of the operator; 0: none */
	const char *name;
	size_t name_len;
	bool has_control;                   /* JSON: it names its caller, as PyTorch's nodes do */
	struct proto_bytes inputs, outputs; /* protobuf: IOInfo */
	const char *wrong;                  /* NULL: nothing. A JSON node without an id is not in etrace.nodes. */
};

struct etrace {
	enum file_kind kind; /* set by the caller, from file_detect() */
	bool own;            /* protobuf: inftrace wrote it */
	bool torn;           /* protobuf: it ends within a message */
	bool schema;         /* JSON: it names its schema */
	struct etrace_place *nodes;
	struct etrace_edge *edges;
	size_t n_nodes, nodes_size, n_edges, edges_size;
	char why[320]; /* printable */
};

/*
 * Reads an open source to its end. node() is called for each node, which is valid during the call, and returns 0 or -errno to
 * stop. Returns 0, or -errno with why; call etrace_clear() in both cases.
 */
int etrace_read(struct etrace *t, struct json_source *source, int (*node)(void *ctx, const struct etrace_node *node), void *ctx);
void etrace_clear(struct etrace *t);

/* Sorts nodes by id and edges by `to`, then `from`, as the functions below need. */
void etrace_sort(struct etrace *t);
struct etrace_place *etrace_find(const struct etrace *t, uint64_t id);
/* Returns 0, or -ELOOP with the cycle in why; the edges are then no longer sorted by `to`. */
int etrace_find_cycle(struct etrace *t);

/* Returns how many fields a GlobalMetadata has, or -EBADMSG if it is not one. *ret_own: inftrace wrote it. */
int etrace_metadata(struct proto_bytes in, bool *ret_own);

#endif
