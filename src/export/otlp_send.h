/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends to an OpenTelemetry collector (OTLP/HTTP, protobuf) from a thread of its own, so that nobody waits for the collector. What it
 * cannot take is tried three times, and then dropped and counted.
 */
#ifndef INFTRACE_EXPORT_OTLP_SEND_H
#define INFTRACE_EXPORT_OTLP_SEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum otlp_kind {
	OTLP_METRICS,
	OTLP_TRACES,
	OTLP_KIND_MAX,
};

struct otlp_sent {
	uint64_t sent;    /* bodies that arrived */
	uint64_t failed;  /* tries that did not */
	uint64_t dropped; /* requests whose spans were given up */
};

struct otlp_sender;

/* Prints why and returns -errno if the URL cannot be used. Signals must be blocked, so that the thread takes none. */
int otlp_sender_new(const char *url, struct otlp_sender **ret);

/* Whether something of this kind may be passed now: not while the last one is on its way. */
bool otlp_sender_ready(struct otlp_sender *s, enum otlp_kind kind);

/* Takes over the body. n: requests whose spans are in it. */
void otlp_sender_pass(struct otlp_sender *s, enum otlp_kind kind, char *body, size_t len, size_t n);

void otlp_sender_counts(struct otlp_sender *s, struct otlp_sent *ret);

/* Waits for what was passed, for some seconds at most. */
void otlp_sender_free(struct otlp_sender *s);

#endif
