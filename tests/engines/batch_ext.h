/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * llama_batch_ext of llama.cpp 0.7.0 (build 11669) with libstdc++, as far as a tracer reads it: a vector of tokens, each
 * with a std::unordered_set of sequences. For programs that make such batches without that library.
 */
#ifndef BATCH_EXT_H
#define BATCH_EXT_H

#include <stdbool.h>
#include <stdint.h>

struct ext_node {
	struct ext_node *next;
	int32_t sequence;
};

struct ext_token {
	int32_t id;
	char embedding[28];
	bool output;
	void *buckets;
	uint64_t n_buckets;
	struct ext_node *first;
	uint64_t n_sequences;
	char rehash[24];
	int32_t pos[4];
};
_Static_assert(sizeof(struct ext_token) == 112, "llama_batch_ext::token");

struct llama_batch_ext {
	char limits[72];
	struct ext_token *begin, *end, *room;
};

#endif
