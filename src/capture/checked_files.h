/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mapped files that have been checked. Traced processes determine their number and names, so a
 * look-up takes the same time with any number, and the memory is bounded (some 4 MB).
 */
#ifndef INFTRACE_CHECKED_FILES_H
#define INFTRACE_CHECKED_FILES_H

#include <stdbool.h>
#include <stdint.h>

struct checked_files;

struct checked_files *checked_files_new(void);
void checked_files_free(struct checked_files *s);

struct checked_file {
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
void checked_files_add(struct checked_files *s, const struct checked_file *file, uint64_t now_ns);

/* Whether the file is known; if so, notes that it was in use at now_ns. ret_claimed may be NULL. */
bool checked_files_use(struct checked_files *s, uint64_t dev, uint64_t ino, const char *name, uint64_t now_ns, bool *ret_claimed);

/* Its number, if the file is known. */
bool checked_files_number(const struct checked_files *s, uint64_t dev, uint64_t ino, const char *name, uint32_t *ret_number);

/* Calls cb for each file with a device that was not in use since since_ns; forgets the file if cb returns true. */
typedef bool (*unused_file_cb)(uint64_t dev, uint64_t ino, uint32_t number, void *arg);
void checked_files_forget_unused(struct checked_files *s, uint64_t since_ns, unused_file_cb cb, void *arg);

#endif
