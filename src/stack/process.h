/* SPDX-License-Identifier: BSD-2-Clause */
/* What is mapped where in the processes that samples come from. */
#ifndef INFTRACE_STACK_PROCESS_H
#define INFTRACE_STACK_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "stack/intern.h"
#include "stack/module.h"
#include "stack/perf_map.h"
#include "util/map.h"

#define PROCESSES_MAX 256
#define PERF_MAPS_MAX 8 /* processes that have one */

struct mapping {
	struct mapped_file file; /* path: interned */
	struct module *module;	 /* once a frame lay in it */
	bool tried;
	bool is_vdso;
};

struct stack_process {
	UT_hash_handle hh;
	uint32_t tgid;
	struct mapping *maps; /* sorted */
	size_t n_maps;
	uint64_t read_ns;     /* when the mappings were read; 0: never */
	bool stale;
	unsigned int faults;  /* files that ended the reader */
	struct perf_map *names;
	uint64_t names_ns;    /* when it was looked for */
};

struct processes;

int processes_new(struct intern *in, struct processes **ret_processes);
void processes_free(struct processes *ps);

/* Never NULL but without memory. Above PROCESSES_MAX the one that was not asked for longest is forgotten. */
struct stack_process *processes_get(struct processes *ps, uint32_t tgid);
/* NULL: not known. */
struct stack_process *processes_find(struct processes *ps, uint32_t tgid);
void processes_forget(struct processes *ps, uint32_t tgid);
unsigned int processes_count(const struct processes *ps);

/* The executable mapping with this address. Reads the mappings again if there is none, a few times each second at most.
 * NULL: none. */
struct mapping *process_mapping(struct processes *ps, struct stack_process *p, uint64_t addr);

/* modules_use() for each file that one of them maps. */
void processes_use_modules(const struct processes *ps);

/* Reads the mappings now. */
void process_read(struct processes *ps, struct stack_process *p);

/* The name of code made at run time; see perf_map_find(). NULL: none. */
const char *process_code_name(struct processes *ps, struct stack_process *p, uint64_t addr, uint64_t *ret_start);

/* Bytes for all of them. */
size_t processes_memory(const struct processes *ps);

#endif
