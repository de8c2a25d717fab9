/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder of a run: keeps the newest records, and writes them out when asked. */
#ifndef INFTRACE_RECORD_FLIGHT_H
#define INFTRACE_RECORD_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/intake.h"
#include "record/options.h"

struct json_object;
struct recorder;

struct recorder_config {
	const struct record_options *o;
	struct capture *capture;
	struct intake *in;
	const struct recording *rec; /* of the window whose sink the recorder is */
	/* A dump that a client waits for is done, or not, with a line that says why. Takes over the reply. */
	void (*done)(uint64_t id, int err, struct json_object *reply, const char *msg, void *arg);
	void *done_arg;
};

int recorder_new(const struct recorder_config *c, struct recorder **ret_recorder);
void recorder_free(struct recorder *rec);

/* What takes the records of the window. It belongs to the recorder: to close it does nothing. */
struct sink *recorder_sink(struct recorder *rec);

/* Asks for a dump. It begins with the next round, or when the one under way is over. id: of a client
 * of the control socket, told when it is done; 0: none. -EBUSY: too many wait. */
int recorder_request(struct recorder *rec, const char *reason, uint64_t id);

/* A piece of the work, some milliseconds, between two drains. An error ends the run: a dump that could
 * not be written does not. */
int recorder_round(struct recorder *rec, uint64_t now_ns);

/* Whether the next round should come at once. */
bool recorder_busy(const struct recorder *rec);

/* Whether it only waits for the disk. */
bool recorder_waits(const struct recorder *rec);

/* The run ends: dumps that were asked for are written. */
void recorder_finish(struct recorder *rec);

void recorder_status(const struct recorder *rec, struct json_object *reply);

/* Dumps that could not be written. */
unsigned int recorder_failed(const struct recorder *rec);

#endif
