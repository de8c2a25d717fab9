/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder of a run: keeps the newest records, and writes them to files on request. */
#ifndef INFTRACE_RECORD_FLIGHT_H
#define INFTRACE_RECORD_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "record/windows.h"
#include "util/parse.h"

struct json_object;
struct recorder;

/* The dump that client `id` waits for is written, or has failed: `msg` then says so in one line. Takes over the reply. */
typedef void (*recorder_done_cb)(uint64_t id, int err, struct json_object *reply, const char *msg, void *arg);

/* Makes itself the window's sink; closing that sink does nothing. */
int recorder_new(struct windows *w, recorder_done_cb done, void *arg, struct recorder **ret_recorder);
void recorder_free(struct recorder *rec);

/* Queues a dump, of everything or of the last steps or time. id: the client of the control socket that waits for it;
 * 0: none. -EBUSY: too many are queued. */
int recorder_request(struct recorder *rec, const char *reason, struct last last, uint64_t id);

/* Works on dumps for some milliseconds. Call it between two drains. */
void recorder_round(struct recorder *rec, uint64_t now_ns);

/* Whether the next round should come at once. */
bool recorder_busy(const struct recorder *rec);

/* Whether it is only waiting for the disk. */
bool recorder_waits(const struct recorder *rec);

/* Ends the run: writes all queued dumps. Returns how many dumps of the run failed. */
unsigned int recorder_finish(struct recorder *rec);

void recorder_status(const struct recorder *rec, struct json_object *reply);

#endif
