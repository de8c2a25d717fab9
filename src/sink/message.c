// SPDX-License-Identifier: BSD-2-Clause
#include "sink/message.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "record.h"

const char *message_name(const struct rec_message *r)
{
	return r->h.flags & MESSAGE_F_RECEIVED ? MESSAGE_RECEIVED : MESSAGE_SENT;
}

const char *message_address(char buf[MESSAGE_ADDRESS_MAX], const uint32_t address[4], uint16_t port)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr in6;

	memcpy(&in6, address, sizeof(in6));
	if (IN6_IS_ADDR_V4MAPPED(&in6)) {
		inet_ntop(AF_INET, &address[3], text, sizeof(text));
		snprintf(buf, MESSAGE_ADDRESS_MAX, "%s:%u", text, port);
	} else {
		inet_ntop(AF_INET6, &in6, text, sizeof(text));
		snprintf(buf, MESSAGE_ADDRESS_MAX, "[%s]:%u", text, port);
	}
	return buf;
}
