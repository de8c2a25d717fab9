/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads files of traced processes in a process of its own, which takes requests as messages. */
#ifndef INFTRACE_INSPECT_H
#define INFTRACE_INSPECT_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/spec.h"
#include "engine/sites.h"

/* ---- its messages ---- */

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
	ANSWER_ENUM_END, /* ends the list of names: `offset` is their number */
	ANSWER_BUILD_ID,
	ANSWER_INSTEAD,
	ANSWER_MACHINE,  /* INSPECT_LOADED: `found` */
	ANSWER_FUNCTION, /* `arg`: enum inspect_function; `offset` in the file */
	ANSWER_CODE,     /* an executable segment: `size` bytes from `offset` on */
	ANSWER_END,      /* err: the result of the whole request */
};

/* One message of a SOCK_SEQPACKET, cut off after the text. */
struct inspect_answer {
	uint32_t kind, found;
	uint32_t spec, arg;
	int32_t err;
	uint8_t has_fetch, has_row;
	struct site site;
	uint64_t vaddr, offset, size, semaphore;
	struct fetch fetch[FUNC_VALS_MAX];
	struct row_fetch row[ROW_COLUMNS];
	struct tensor_args tensors;
	uint32_t text_len; /* including the NUL after each text */
	char text[INSPECT_TEXT_MAX];
};

/*
 * Reads ELF files in a process of its own. Symbols, debug notes and machine code of a file that a traced
 * process has mapped are under its control: libelf, capstone and the code around them handle them only
 * where there is nothing to gain. That process is forked once, early, and gives up all capabilities and
 * all but the few system calls that it needs; for each file it forks a worker that has an open descriptor
 * of the file, limits on memory and time, and a socket for its answer. What it answers is checked like
 * any other data of the traced process.
 */

struct inspector;

/* What callers need to know of a loaded file. Offsets are in the file; 0: the function is missing. */
enum inspect_function {
	INSPECT_DLOPEN,
	INSPECT_DLSYM,
	INSPECT_ERRNO,
	INSPECT_FUNCTIONS,
};

#define INSPECT_CODE_MAX 8

struct inspect_loaded {
	int machine;
	uint64_t functions[INSPECT_FUNCTIONS];
	struct {
		uint64_t offset, size;
	} code[INSPECT_CODE_MAX]; /* not writable, and as large in memory as in the file */
	size_t n_code;
};

/* Limits of reading a file, by the clock and by CPU time. The former is far more than a file needs, for machines that are
 * busy with something else. */
#define INSPECT_MS_MAX 20000
#define INSPECT_CPU_SECONDS 5

/* Forks the reader. pt must be complete except for the matches of globs, and must outlive the result. 0 or -errno. */
int inspector_new(struct probe_table *pt, struct inspector **ret_inspector);
void inspector_free(struct inspector *ins);

/* wait is called every few ms while a file is being read; a non-zero return ends that at once and
 * is returned by the functions below. */
void inspector_set_wait(struct inspector *ins, int (*wait)(void *arg), void *arg);

/* Call in a forked child: closes all its other descriptors. Parent and child may then ask without waiting for one another. */
int inspector_inherit(struct inspector *ins);

/*
 * Calls cb for each place in the file where a probe of the table goes, as sites_find() and sites_take()
 * describe, and replaces the names of the enums of the engines that claim it. ms: the time limit, at most INSPECT_MS_MAX.
 * build_id: ELF_BUILD_ID_MAX bytes, or NULL. Returns 0, an error of elf_open() and the like, -ETIMEDOUT or -EPROTO if the
 * worker took too long or ended without an answer, or what cb returned.
 */
int inspector_sites(struct inspector *ins, int fd, const char *shown, bool states_only, unsigned int ms, char *build_id,
	probe_site_cb cb, void *arg);

/* Whether the file has what a specification of the command line names. If not (-ENOENT), lists in `instead`, of `size`
 * bytes, what it has instead. */
int inspector_check(struct inspector *ins, int fd, size_t spec, char *instead, size_t size);

/* Names up to two C functions of the file that may be steps but that the preset of `spec`, a step, does not know: "", "f",
 * or "f, g". */
int inspector_steps(struct inspector *ins, int fd, size_t spec, char *names, size_t size);

/* Returns as inspector_sites() does. */
int inspector_loaded(struct inspector *ins, int fd, struct inspect_loaded *ret_loaded);

/* Handlers of a worker's messages, which may be hostile. */
struct answers {
	/* Returns 1 for the last message, 0 for any other, or an error, which ends the reading. */
	int (*take)(struct inspect_answer *a, size_t size, void *arg);
	void *arg;
	/* Called every few ms; a non-zero result ends the reading. May be NULL. */
	int (*wait)(void *arg);
	void *wait_arg;
};

/*
 * fd: of a SOCK_SEQPACKET, which may be shut down. What has come by end_ns (clock_mono_ns()) counts, however late this
 * process looks; nothing that is sent after that does. -ETIMEDOUT: the last message is missing; -EPROTO: the sender
 * has ended without it; or an error of the functions.
 */
int answers_read(int fd, uint64_t end_ns, const struct answers *as);

#endif
