/* SPDX-License-Identifier: BSD-2-Clause */
/* Where an interpreter of Python begins to run a function, and where it leaves one. */
#ifndef INFTRACE_PYTHON_SITE_H
#define INFTRACE_PYTHON_SITE_H

#include "probe.h"
#include "target/elf.h"
#include "target/site.h"

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

/* Fills in where these versions have what, all but the names. */
void python_calls_layout(enum python_layout layout, struct python_calls *ret_calls);

#endif
