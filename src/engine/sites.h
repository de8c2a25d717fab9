/* SPDX-License-Identifier: BSD-2-Clause */
/* Which probes go where in a file. */
#ifndef INFTRACE_SITES_H
#define INFTRACE_SITES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "target/elf.h"
#include "target/site.h"

struct probe_site {
	size_t spec; /* index in the table: the probe's id */
	const struct elf_symbol *symbol;
	struct site site;
	uint64_t semaphore; /* of a USDT probe: offset in the file, 0: none */
};

/* A non-zero return ends the walk and is returned. The symbol is valid during the call. */
typedef int (*probe_site_cb)(const struct probe_site *site, void *arg);

/*
 * Calls cb for each place in the file at `path` where a probe of the table goes. `shown` is the path
 * as the target sees it, which the globs are about. `states_only`: of the presets' functions only those
 * that make time states (steps, barriers, GPU waits) and launches of graphs. Returns 0, or
 * an error of elf_open() and the like; a file that no probe is about is not even opened. Functions for
 * which the table has no room are left out and counted in it.
 */
int probe_sites_each(struct probe_table *pt, const char *path, const char *shown, bool states_only,
	probe_site_cb cb, void *arg);

#endif
