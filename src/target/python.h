/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CPython in a process: its version, and the offsets in its structures. The process is only read, never stopped and never
 * changed, and what it says may be wrong or hostile.
 */
#ifndef INFTRACE_TARGET_PYTHON_H
#define INFTRACE_TARGET_PYTHON_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe.h"
#include "python_walk.h"
#include "target/elf.h"
#include "target/site.h"

/* How the lines of a function are stored. */
enum python_lines {
	PYTHON_LINES_LNOTAB,	/* up to 3.9: pairs of increments */
	PYTHON_LINES_RANGES,	/* 3.10: pairs of a length and an increment */
	PYTHON_LINES_LOCATIONS, /* 3.11 and later */
};

/* Offsets within objects, for names and lines. */
struct python_objects {
	uint16_t type; /* of any object: its type */
	uint16_t code_name, code_filename;
	uint16_t code_qualname; /* PYTHON_NO_OFFSET: there is none before 3.11 */
	uint16_t code_lines, code_firstlineno;
	uint16_t code_start;	/* the first instruction; PYTHON_NO_OFFSET with PYTHON_WALK_LASTI */
	uint16_t bytes_size, bytes_data;
	uint16_t str_length, str_state;
	uint16_t str_data;	/* of one that is ASCII only ... */
	uint16_t str_data_wide; /* ... and of others */
	uint8_t str_kind_shift; /* in the state: three bits of the width, one for compact, one for ASCII */
	uint8_t lines;		/* enum python_lines */
	uint8_t lasti_unit;	/* bytes per unit of an instruction's offset, with PYTHON_WALK_LASTI */
};

struct python {
	unsigned int major, minor;
	struct python_walk walk;
	uint8_t first; /* bytes from a code's first instruction to the first one by which its frame is the innermost */
	uint64_t runtime_bytes; /* of _PyRuntime; 0: the file does not say */
	struct python_objects objects;
	/* Addresses of the types of code objects, of strings, of bytes and of integers in the process; 0: unknown. */
	uint64_t type_code, type_str, type_bytes, type_int;
};

/* The offsets of versions that are known without reading the process: 3.8 to 3.12. -ENOTSUP. */
int python_layout_known(unsigned int major, unsigned int minor, struct python *ret_python);

/*
 * The offsets of 3.13 and later, from the first n words of _PyRuntime. -ENOENT: not such a table; -ENOTSUP: an
 * unknown version, in ret_python->major and minor; -EBADMSG: it cannot be right.
 */
int python_layout_read(const uint64_t *words, size_t n, struct python *ret_python);
#define PYTHON_DEBUG_WORDS 128

/* Caches what it has read of files, so that many processes of one interpreter cost one reading. */
struct python_finder;

struct python_finder *python_finder_new(void);
void python_finder_free(struct python_finder *f);

/*
 * Finds CPython in a process: its program, or a libpython that it has mapped. -ENOENT: neither; -ENOTSUP: an unknown
 * version, in ret_python->major and minor as far as the file tells, of which only the runtime's place is known; or an error of
 * reading.
 */
int python_find(struct python_finder *f, pid_t pid, struct python *ret_python);

/* Where an interpreter of Python begins to run a function, and where it leaves one. */

#define PYTHON_SITES_MAX 32

struct python_sites {
	struct site sites[PYTHON_SITES_MAX]; /* exits first */
	unsigned int n;
	unsigned int minor; /* of the version */
	uint8_t layout;     /* enum python_layout */
};

/*
 * Reads the machine code of the interpreter in the file. -ENOENT: there is none; -ENOTSUP: these places are not known
 * in it, with the reason. Takes some 20 ms.
 */
int python_sites_find(struct elf_file *elf, struct python_sites *ret_sites, const char **ret_why);

/* Fills in the offsets of these versions, all but the names. */
void python_calls_layout(enum python_layout layout, struct python_calls *ret_calls);

#endif
