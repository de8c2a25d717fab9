/* SPDX-License-Identifier: BSD-2-Clause */
#define BPF_PROG(name, args...) name(args)
