/* SPDX-License-Identifier: BSD-2-Clause */
/* The pieces of request_prof lines. */
#ifndef INFTRACE_PROFILE_REQUEST_LINE_H
#define INFTRACE_PROFILE_REQUEST_LINE_H

#include "engine/step_requests.h"
#include "sink/profile_line.h"

/* The most bytes of either of the following two. */
#define REQUEST_LINE_MAX (16 * 1024)

struct left_out;

/* For a sequence: its shape after ts_us, and its stages after total and queued. */
char *request_line_shape(char *p, const struct step_request *r, const struct left_out *list);
char *request_line_stages(char *p, struct step_request *r);

/* For a request of steps whose rows are not known: all of it. zero: the start of the recording. */
char *request_line_steps(char *p, struct step_request *r, uint64_t zero);

/* For one on a socket: its shape, the part about what was read and written, and its stages. */
char *request_line_socket(char *p, const struct rec_request *r, uint64_t zero);
char *request_line_exchange(char *p, const struct rec_request *r);
char *request_line_socket_stages(char *p, const struct rec_request *r);

#endif
