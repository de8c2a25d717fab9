/* SPDX-License-Identifier: BSD-2-Clause */
/* System calls that pass data between processes or threads, with their names in traces. */
#ifndef INFTRACE_IPC_H
#define INFTRACE_IPC_H

#include "record.h"

/* The name of the outcome: ipc_fast_send, ipc_fast_recv, ipc_slow; NULL: it is another call. */
const char *ipc_name(const struct rec_hdr *h);

/* The medium: pipe, unix, eventfd, futex. Only for calls that have a name. */
const char *ipc_kind_name(const struct rec_hdr *h);

#endif
