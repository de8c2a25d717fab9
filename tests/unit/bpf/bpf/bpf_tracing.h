/* SPDX-License-Identifier: BSD-2-Clause */
static void *ctx __attribute__((unused));
#define BPF_PROG(name, args...) name(args)
