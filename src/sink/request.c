// SPDX-License-Identifier: BSD-2-Clause
#include "sink/request.h"

#include <string.h>

const char *request_name(const struct rec_request *r, char buf[REQUEST_NAME_LEN])
{
	size_t len, method;

	if (!r->http)
		return "request";
	memcpy(buf, r->head, REQUEST_HEAD_LEN);
	buf[REQUEST_HEAD_LEN] = 0;
	method = strcspn(buf, " \r\n");
	len = method + (buf[method] == ' ' ? 1 + strcspn(buf + method + 1, " ?\r\n") : 0);
	buf[len] = 0;
	return buf;
}

/* The middle of the range that the index stands for. */
static uint64_t place_ns(unsigned int place)
{
	unsigned int octave = REQUEST_GAP_LOW + place / REQUEST_GAP_PARTS;
	uint64_t part = UINT64_C(1) << (octave - REQUEST_GAP_BITS);

	return (REQUEST_GAP_PARTS + place % REQUEST_GAP_PARTS) * part + part / 2;
}

uint64_t request_gap_ns(const struct rec_request *r, unsigned int percent)
{
	uint64_t n = 0, seen = 0, rank;

	for (unsigned int i = 0; i < REQUEST_GAPS; i++)
		n += r->gaps[i];
	rank = (n * percent + 99) / 100;
	for (unsigned int i = 0; i < REQUEST_GAPS && rank; i++) {
		uint64_t ns = place_ns(i);

		seen += r->gaps[i];
		if (seen >= rank)
			return ns < r->longest_ns ? ns : r->longest_ns;
	}
	return 0;
}
