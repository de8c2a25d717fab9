/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFTRACE_STACK_DEMANGLE_H
#define INFTRACE_STACK_DEMANGLE_H

#include <stddef.h>

/*
 * Writes the name as in the source, without parameters, cut to size - 1 bytes; a name that is not mangled, or not
 * well, as it is, without what compilers and linkers have added (".constprop.0", "@@GLIBC_2.34"). C++ and Rust. Some names take very long, since what they repeat doubles with each reference: a
 * long text ends early, but names that yield none do not.
 */
void demangle(const char *mangled, char *to, size_t size);

#endif
