/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that two recordings of one program may both have: PyTorch's operators, and the functions of CUDA. */
#ifndef INFTRACE_LINK_SPANS_H
#define INFTRACE_LINK_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/map.h"

#define SPANS_MAX (1u << 20) /* kept of a file; 24 MB */
#define SPAN_NAMES_MAX 65536

/*
 * How a call in our recording lies to one in Kineto's. A probe fires before the function does anything, and so before
 * CUPTI's or PyTorch's clock is read in it; the runtime's functions call the driver's.
 */
enum span_relation {
	SPAN_UNRELATED,
	SPAN_AROUND, /* ours begins before and ends after it */
	SPAN_WITHIN,
};

struct span_name {
	UT_hash_handle hh;
	uint32_t id;
	uint64_t key; /* span_key() */
	char text[];
};

struct span {
	int64_t start_ns, end_ns;
	uint32_t name, tid;
};

struct spans {
	struct span_name *by_text, **names;
	uint32_t n_names, names_size;
	struct span *list;
	size_t n, size;
	uint64_t left_out; /* over SPANS_MAX */
};

/* -ENOMEM. More names than SPAN_NAMES_MAX are left out. */
int spans_add(struct spans *s, const char *name, uint32_t tid, int64_t start_ns, int64_t end_ns);
void spans_clear(struct spans *s);

/* Coarse: names that differ in it are never related. */
uint64_t span_key(const char *name);
/* Orders such keys, for qsort() and bsearch(). */
int span_compare_keys(const void *x, const void *y);
/* Of a name that Kineto writes: equal for those that the same calls of ours may belong to. */
uint64_t span_class(const char *theirs);

/* FNV-1a, of names. */
static inline uint64_t name_hash(const char *text, size_t len)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* theirs: as Kineto writes it, "aten::mul" or "cudaLaunchKernel"; ours: "mul_Tensor", "cuLaunchKernel". */
enum span_relation span_relate(const char *ours, const char *theirs);

#endif
