/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of events in traces by which their readers find them. */
#ifndef INFTRACE_SCHEMA_TRACE_NAMES_H
#define INFTRACE_SCHEMA_TRACE_NAMES_H

/* What calls have moved over TCP connections. */
#define MESSAGE_SENT "message sent"
#define MESSAGE_RECEIVED "message received"
#define MESSAGE_ADDRESS_MAX 56 /* with its NUL */

#endif
