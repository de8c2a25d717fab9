/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Symbols, code bytes and the build-id of an ELF file, as uprobes need them.
 *
 * The file is only read, never executed, mapped or loaded, and it may be hostile or change
 * meanwhile: everything in it is checked; work and memory are bounded by its size and by fixed
 * limits. Supports only 64-bit little-endian executables and shared objects of x86_64 and aarch64.
 */
#ifndef INFTRACE_ELF_H
#define INFTRACE_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Since 1.3 libbpf.a has an elf_open and an elf_close, which a static link would see as well. */
#define elf_open inftrace_elf_open
#define elf_close inftrace_elf_close

struct elf_file;

struct elf_symbol {
	const char *name; /* without version suffix; owned by the elf_file */
	uint64_t vaddr;   /* as linked, without load bias */
	uint64_t offset;  /* in the file; 0 for an object that is not in the file (.bss) */
	uint64_t size;    /* in bytes, 0 if the file does not say */
};

/* The longest build-id in hex, with its NUL. */
#define ELF_BUILD_ID_MAX 129

/*
 * Opens the file at path. -ENOEXEC: not an ELF file. -EOPNOTSUPP: unsupported class, byte order, type or
 * machine. -EBADMSG: malformed or truncated. Else an error of open(2). Free with elf_close().
 */
int elf_open(const char *path, struct elf_file **ret_elf);

/* The same for a descriptor, which it takes over even on failure. */
int elf_open_fd(int fd, struct elf_file **ret_elf);

void elf_close(struct elf_file *elf);

/* EM_X86_64 or EM_AARCH64. */
int elf_machine(const struct elf_file *elf);

/*
 * Looks a name up in .symtab, then in .dynsym; a version suffix ("@VER", "@@VER") is ignored on
 * both sides. Among symbols with the same name, global comes before weak before local, and the
 * default version before older ones. elf_find_symbol() finds defined functions in executable parts
 * of the file (but not their ".cold" parts, where no probe may sit), elf_find_object() defined
 * data. -ENOENT when there is none, -EBADMSG when a table is malformed, -EOVERFLOW when it is over
 * 128 MB.
 *
 * The first call reads and indexes the table, each further one is a binary search.
 */
int elf_find_symbol(struct elf_file *elf, const char *name, struct elf_symbol *ret_sym);
int elf_find_object(struct elf_file *elf, const char *name, struct elf_symbol *ret_sym);

/* elf_find_object() for a name that must be unique: -ENOTUNIQ if several static objects share
 * it. */
int elf_find_only_object(struct elf_file *elf, const char *name, struct elf_symbol *ret_sym);

/*
 * Copies the first section with that name, adds a NUL, and returns its address as linked. The caller frees
 * the copy. -ENOENT; -EBADMSG: malformed, compressed, not in the file, or longer than max.
 */
int elf_read_section(struct elf_file *elf, const char *name, size_t max, uint64_t *ret_vaddr,
	void **ret_data, size_t *ret_len);

/*
 * Calls cb for each function whose name matches glob (fnmatch(3)), once per file offset, in the
 * order of offsets. A non-zero return of cb ends the walk and is returned. Otherwise returns the
 * number of functions, possibly 0, or -EBADMSG.
 */
typedef int (*elf_symbol_cb)(const struct elf_symbol *sym, void *arg);
int elf_match_symbols(struct elf_file *elf, const char *glob, elf_symbol_cb cb, void *arg);

/*
 * Finds the names of up to n functions that somebody who typed name may have meant, likeliest
 * first, in out (owned by the elf_file). Returns how many, or -EBADMSG.
 */
int elf_nearest_symbols(struct elf_file *elf, const char *name, const char *out[], int n);

/* Reads exactly len bytes at a file offset. -ENODATA if the file is too short. */
int elf_read_at_offset(struct elf_file *elf, uint64_t offset, void *buf, size_t len);

/* The file offset of an address as linked. -ENXIO if no loaded part of the file has it. */
int elf_vaddr_to_offset(const struct elf_file *elf, uint64_t vaddr, uint64_t *ret_offset);

/*
 * Go moves the stack of a goroutine to a larger one while its functions run, and walks it: a return
 * address that the kernel has replaced, for a return probe, ends the program ("unexpected return
 * pc"). C functions in a Go program (cgo) run on the stack of the thread, which stays where it is.
 */

/* The code that Go's own tools made, as linked; none: from == to. */
struct go_text {
	uint64_t from, to;
};

/* Returns 0, also for a file without any Go code, or for a stripped one, in which Go functions have
 * no names. -EBADMSG. */
int go_text_read(struct elf_file *elf, struct go_text *ret_text);

/* Pointers in the data of an ELF file, and what they point to, without running any of its code. */

/* The longest string of a table; a longer one ends the table. */
#define ELF_STRINGS_LEN_MAX 63
#define ELF_STRINGS_MAX 1024

/*
 * Follows an expression from a function to another one that has no symbol. It is a symbol and then any
 * number of "()", the address that the function returns, and "[N]", the N-th pointer stored at the
 * address: "OrtGetApiBase()[0]()[9]". A function must return the address in the plain way (lea, ret). The
 * symbol of a virtual table ("_ZTV...") is found by its type information where the file is stripped. On
 * success the symbol is the function at the end, named by the expression (which must outlive it).
 * -ENOENT: the first symbol is missing; -EINVAL: malformed; -EBADMSG: the code does not have that form, or it ends
 * outside of the code.
 */
int elf_resolve(struct elf_file *elf, const char *expr, struct elf_symbol *ret_sym);

/* Whether it is such an expression, and not the name of a function or a glob. */
bool elf_is_path(const char *expr);

/*
 * Reads the strings that the pointers of a data object point to, the way they are before
 * relocation. Entries that are null or point nowhere are NULL. The caller frees each string and the
 * array. -ENOENT: no such object; -EBADMSG: not such a table.
 */
int elf_strings_read(struct elf_file *elf, const char *object, char ***ret_strings, size_t *ret_n);

void elf_strings_free(char **strings, size_t n);

#endif
