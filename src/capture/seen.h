/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mapped files that have been checked. Traced processes determine their number and names, so a
 * look-up takes the same time with any number, and the memory is bounded (some 4 MB).
 */
#ifndef INFTRACE_SEEN_H
#define INFTRACE_SEEN_H

#include <stdbool.h>
#include <stdint.h>

struct seen;

struct seen *seen_new(void);
void seen_free(struct seen *s);

struct seen_file {
	uint64_t dev, ino; /* dev 0: on any device, since the user has named it by its path */
	const char *name;
	uint32_t number; /* of a file with probes; 0: it has none */
	bool claimed;    /* by an engine */
};

/*
 * Adds a file, copying what it needs. A file with probes is known under any name and stays: the probes keep its inode.
 * The inode number of any other file may be reused once it is deleted, so its name counts, too; when the table is
 * full, all files without probes are forgotten, and will be checked again.
 */
void seen_add(struct seen *s, const struct seen_file *file, uint64_t now_ns);

/* Whether the file is known; if so, notes that it was in use at now_ns. ret_claimed may be NULL. */
bool seen_use(struct seen *s, uint64_t dev, uint64_t ino, const char *name, uint64_t now_ns, bool *ret_claimed);

/* Calls cb for each file with a device that was not in use since since_ns; forgets the file if cb returns true. */
typedef bool (*seen_unused_cb)(uint64_t dev, uint64_t ino, uint32_t number, void *arg);
void seen_forget_unused(struct seen *s, uint64_t since_ns, seen_unused_cb cb, void *arg);

#endif
