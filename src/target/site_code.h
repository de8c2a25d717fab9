/* SPDX-License-Identifier: BSD-2-Clause */
/* What is known of instructions, for those who choose places for probes. */
#ifndef INFTRACE_SITE_CODE_H
#define INFTRACE_SITE_CODE_H

#include <capstone/capstone.h>
#include <stdbool.h>

/* Whether the kernel emulates it under a probe, instead of single-stepping it (x86_64). */
bool site_is_emulated(const cs_insn *in);

#endif
