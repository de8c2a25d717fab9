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

/* A dump that a client is waiting for has ended, or failed, with a line that says so. Takes over the reply. */
typedef void (*recorder_done_cb)(uint64_t id, int err, struct json_object *reply, const char *msg, void *arg);

/* Becomes the sink of the window, which does nothing when it is closed. */
int recorder_new(struct windows *w, recorder_done_cb done, void *arg, struct recorder **ret_recorder);
void recorder_free(struct recorder *rec);

/* Requests a dump, of everything or of its last steps or time, for the next round, or after the current dump. id:
 * the client of the control socket that waits for it; 0: none. -EBUSY: too many are waiting. */
int recorder_request(struct recorder *rec, const char *reason, struct last last, uint64_t id);

/* Works for some milliseconds, between two drains. */
void recorder_round(struct recorder *rec, uint64_t now_ns);

/* Whether the next round should come at once. */
bool recorder_busy(const struct recorder *rec);

/* Whether it is only waiting for the disk. */
bool recorder_waits(const struct recorder *rec);

/* The run ends: writes the dumps that were requested. Returns how many could not be written, of all. */
unsigned int recorder_finish(struct recorder *rec);

void recorder_status(const struct recorder *rec, struct json_object *reply);

#endif
