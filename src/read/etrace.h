/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Execution traces of any program: Chakra's protobuf messages (docs/execution-trace.md), PyTorch's JSON, and what Chakra's
 * jsonizer and its JSON feeder have. Which node depends on which is kept.
 */
#ifndef INFTRACE_READ_ETRACE_H
#define INFTRACE_READ_ETRACE_H

#include "read/detect.h"
#include "read/proto.h"

/* Types of nodes, from 1: their names without _NODE. */
#define ETRACE_TYPES 8
extern const char *const etrace_types[ETRACE_TYPES];

struct etrace_place {
	uint64_t id;
	uint64_t waits; /* for so many others, within etrace_find_cycle() */
};

/* `from` needs `to` first. */
struct etrace_edge {
	uint64_t from, to;
	bool control;
};

struct etrace_node {
	uint64_t number; /* of its message, or of its line in JSON; from 1 */
	uint64_t id, type;
	uint64_t rf_id; /* the number by which Kineto knows the operator; 0: none */
	const char *name;
	size_t name_len;
	bool has_control;                   /* JSON: it says what it is called by, as PyTorch's nodes do */
	struct proto_bytes inputs, outputs; /* of a message: IOInfo */
	const char *wrong;                  /* NULL: nothing. If it has no id, it is not among the nodes. */
};

struct etrace {
	enum file_kind kind; /* set by the caller, as file_detect() says */
	bool own;            /* protobuf: inftrace wrote it */
	bool torn;           /* protobuf: it ends within a message */
	bool schema;         /* JSON: it has one */
	struct etrace_place *nodes;
	struct etrace_edge *edges;
	size_t n_nodes, nodes_size, n_edges, edges_size;
	char why[320]; /* printable */
};

/*
 * Reads an open source to its end. node() is called for each node, which is valid during the call, and returns 0 or -errno to
 * stop. Returns 0, or -errno with why. etrace_clear() in both cases.
 */
int etrace_read(struct etrace *t, struct json_source *source, int (*node)(void *ctx, const struct etrace_node *node), void *ctx);
void etrace_clear(struct etrace *t);

/* Sorts nodes by id and edges by `to`, then `from`: what the functions below need. */
void etrace_sort(struct etrace *t);
struct etrace_place *etrace_find(const struct etrace *t, uint64_t id);
/* Returns 0, or -ELOOP with what needs itself in why; the edges are no longer sorted then. */
int etrace_find_cycle(struct etrace *t);

/* A GlobalMetadata, with *ret_own. Returns how many of its fields there are, -EBADMSG: it is none. */
int etrace_metadata(struct proto_bytes in, bool *ret_own);

#endif
