/* SPDX-License-Identifier: BSD-2-Clause */
/* What a recording says of collectives: the calls of NCCL (RCCL has the same names) and when their communicators were made. */
#ifndef INFTRACE_LINK_COLLECTIVES_H
#define INFTRACE_LINK_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/json_source.h"
#include "util/host_id.h"

#define COLLECTIVES_MAX (1u << 21) /* calls kept of a file; 96 MB */
#define COLLECTIVES_WHY_MAX 256

struct collective_call {
	int64_t from_ns, to_ns; /* of the call, CLOCK_BOOTTIME of its machine */
	uint64_t comm;          /* the communicator's address in the process */
	uint64_t key;           /* equal for calls that may be of one collective: the function and the bytes */
	uint64_t bytes;
	uint32_t pid, tid;
	uint8_t function; /* for collective_name() */
};

/* A call that made a communicator. */
struct communicator {
	int64_t ns; /* when it returned */
	uint64_t comm;
	uint64_t id; /* the same in all ranks, and by all odds in no other communicator; 0: unknown */
	uint32_t pid, ranks, rank;
};

/* Calls may be missing between these times. */
struct collective_loss {
	int64_t from_ns, to_ns;
};

/* All zero: empty. After collectives_read(): sorted, the calls by process and begin, the communicators by process, address and time, the
 * losses by time, of which none touches the next. */
struct collectives {
	struct collective_call *calls;
	struct communicator *made;
	struct collective_loss *losses;
	size_t n_calls, calls_size, n_made, made_size, n_losses, losses_size;
	bool has_clock;
	int64_t boot_ns, real_ns; /* its first reading of both clocks */
	struct host_id id;        /* without its shift, which is in no time here */
	uint64_t left_out;        /* calls over COLLECTIVES_MAX; then the last loss is from the first of them on */
};

/*
 * Reads the recording from an open source: a .pftrace, or inftrace's Chrome JSON. Other traces have none. Returns 0, -ENOMEM, or
 * another -errno with the reason in `why`, printable, and what comes before the damage in *ret. Call collectives_clear() in any case.
 */
int collectives_read(struct json_source *source, struct collectives *ret, char why[COLLECTIVES_WHY_MAX]);
void collectives_clear(struct collectives *c);

/* "ncclAllReduce". */
const char *collective_name(uint8_t function);

#endif
