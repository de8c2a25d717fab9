/* SPDX-License-Identifier: BSD-2-Clause */
/* What calls have moved over TCP connections, as the traces say it and link/messages.h reads it. */
#ifndef INFTRACE_SINK_MESSAGE_H
#define INFTRACE_SINK_MESSAGE_H

#include <stdint.h>

struct rec_message;

#define MESSAGE_SENT "message sent"
#define MESSAGE_RECEIVED "message received"
#define MESSAGE_ADDRESS_MAX 56 /* with its NUL */

const char *message_name(const struct rec_message *r);

/* "10.0.0.1:80" or "[fd00::1]:80", of an address as in struct rec_message. Returns buf. */
const char *message_address(char buf[MESSAGE_ADDRESS_MAX], const uint32_t address[4], uint16_t port);

#endif
