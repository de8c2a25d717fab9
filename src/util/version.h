/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFTRACE_UTIL_VERSION_H
#define INFTRACE_UTIL_VERSION_H

#define INFTRACE_VERSION "0.1.0"

#endif
