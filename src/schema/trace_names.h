/* SPDX-License-Identifier: BSD-2-Clause */
/* Event names by which readers of traces find events. */
#ifndef INFTRACE_SCHEMA_TRACE_NAMES_H
#define INFTRACE_SCHEMA_TRACE_NAMES_H

/* Data that calls have moved over TCP connections. */
#define MESSAGE_SENT "message sent"
#define MESSAGE_RECEIVED "message received"
#define MESSAGE_ADDRESS_MAX 56 /* with its NUL */

#endif
