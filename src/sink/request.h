/* SPDX-License-Identifier: BSD-2-Clause */
/* What sinks derive from a request on a socket. */
#ifndef INFTRACE_REQUEST_H
#define INFTRACE_REQUEST_H

#include "record.h"

#define REQUEST_NAME_LEN (REQUEST_HEAD_LEN + 1)

/* "POST /v1/completions", without the query; "request" if it is not HTTP. */
const char *request_name(const struct rec_request *r, char buf[REQUEST_NAME_LEN]);

/* The time between two parts of the answer, by nearest rank; 0 if there are fewer. */
uint64_t request_gap_ns(const struct rec_request *r, unsigned int percent);

#endif
