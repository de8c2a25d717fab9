/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages between the recorder and the process that reads ELF files: inspector.h. */
#ifndef INFTRACE_INSPECT_H
#define INFTRACE_INSPECT_H

#include <limits.h>
#include <stdint.h>

#include "engine/engine.h"

enum inspect_what {
	INSPECT_SITES,
	INSPECT_CHECK,
	INSPECT_STEPS,
	INSPECT_LOADED,
};

/* One message, with two descriptors: the file, and the socket for the answer. */
struct inspect_request {
	uint32_t what;
	uint32_t spec; /* INSPECT_CHECK, INSPECT_STEPS */
	uint32_t ms;   /* after which the worker ends */
	uint8_t states_only;
	char shown[PATH_MAX]; /* INSPECT_SITES */
};

#define INSPECT_TEXT_MAX 4608 /* a symbol's name, or two short texts */

enum inspect_kind {
	ANSWER_SITE,     /* FOUND_*: `found`; text: the name, a NUL, `why` */
	ANSWER_ENUM,     /* a name: of engine `spec`, enum `arg`, value `offset` */
	ANSWER_ENUM_END, /* ends the names before, of which there are `offset` */
	ANSWER_BUILD_ID,
	ANSWER_INSTEAD,
	ANSWER_MACHINE,  /* INSPECT_LOADED: `found` */
	ANSWER_FUNCTION, /* its number is `arg`, and where it is in the file `offset` */
	ANSWER_CODE,     /* what is mapped as code: `size` bytes from `offset` on */
	ANSWER_END,      /* err: the result of the whole request */
};

/* One message of a SOCK_SEQPACKET, cut off after the text. */
struct inspect_answer {
	uint32_t kind, found;
	uint32_t spec, arg;
	int32_t err;
	uint8_t cheap, arrival, has_fetch, has_row;
	uint8_t exit, exit_bp, no_exits, no_yields, reg, python, nop5;
	uint16_t exit_units;
	uint64_t vaddr, offset, size, site, semaphore;
	struct fetch fetch[FUNC_VALS_MAX];
	struct row_fetch row[ROW_COLUMNS];
	uint32_t text_len; /* including the NUL after each text */
	char text[INSPECT_TEXT_MAX];
};

/* Runs in the process that reads, and does not return. fd: where requests arrive. */
_Noreturn void inspect_serve(const struct probe_table *pt, int fd);

#endif
