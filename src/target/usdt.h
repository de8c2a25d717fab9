/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * USDT probes: a nop in the code, and a note in .note.stapsdt that says where it is, what it is
 * called and where its arguments are, in assembler syntax. The format is described in
 * https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
 */
#ifndef INFTRACE_USDT_H
#define INFTRACE_USDT_H

#include <stdbool.h>
#include <stdint.h>

#include "target/elf.h"

#define USDT_ARGS_MAX 12  /* the maximum in sys/sdt.h */
#define USDT_NAME_MAX 240 /* bytes of "provider:name"; probes with longer names are left out */

enum usdt_place {
	USDT_NOWHERE, /* unknown, or where no probe can read it */
	USDT_REG,     /* reg >> value */
	USDT_MEM,     /* *(reg + (index << shift) + value) */
	USDT_CONST,   /* value */
};

/* Where an argument is. Registers are given as enum fetch_reg says for PROBE_F_REGS. */
struct usdt_arg {
	enum usdt_place place;
	const char *why; /* USDT_NOWHERE: the reason, for people */
	uint8_t size;    /* 1, 2, 4 or 8 bytes */
	bool is_signed;
	uint8_t reg, index; /* REG_NONE: none */
	uint8_t shift;
	int64_t value;
};

/* One place of a probe. Compilers that inline or copy code make several places, each with its own
 * locations of the arguments. */
struct usdt_note {
	const char *name;   /* "provider:name" */
	uint64_t vaddr;     /* as linked */
	uint64_t offset;    /* in the file */
	uint64_t semaphore; /* in the file: a counter that switches the probe on; 0: none */
	struct usdt_arg args[USDT_ARGS_MAX];
	unsigned int n_args;
};

/* A non-zero return ends the walk and is returned. The note is valid during the call. */
typedef int (*usdt_cb)(const struct usdt_note *note, void *arg);

/*
 * Calls cb for each place of the probes whose "provider:name" matches glob (fnmatch(3)), in the
 * order of offsets. Returns how many, possibly 0, or -EBADMSG (malformed). Notes that
 * point nowhere or have unprintable names are left out.
 */
int usdt_each(struct elf_file *elf, const char *glob, usdt_cb cb, void *arg);

/*
 * Parses a note's argument string, such as "-4@%edi 8@-8(%rbp) 4@$5", into ret_args, at most
 * USDT_ARGS_MAX; returns how many. Symbols are looked up in elf (NULL: none is known) and made
 * relative to the probe at vaddr. An argument that cannot be understood is USDT_NOWHERE.
 */
unsigned int usdt_parse_args(struct elf_file *elf, int machine, uint64_t vaddr, const char *text,
	struct usdt_arg *ret_args);

#endif
