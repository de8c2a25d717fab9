/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is sent to an OpenTelemetry collector: metrics, and a tree of spans for each slow request. Field numbers:
 * open-telemetry/opentelemetry-proto, opentelemetry/proto/{metrics,trace,common,resource}/v1.
 */
#ifndef INFTRACE_EXPORT_OTLP_H
#define INFTRACE_EXPORT_OTLP_H

#include "export/metrics.h"

#define OTLP_SPANS_MAX 512 /* requests that wait to be sent; beyond them the newest are dropped */

struct otlp_spans;

/* slow_ns: requests that took at least as long have spans. */
struct otlp_spans *otlp_spans_new(uint64_t slow_ns);
void otlp_spans_free(struct otlp_spans *s);

/* Takes a line of a profile, of which only complete, slow requests count. */
void otlp_spans_line(struct otlp_spans *s, const struct profile_line *line, const char *file);

/* Requests that were dropped, since too many waited to be sent or the name of their file has no time. */
uint64_t otlp_spans_dropped(const struct otlp_spans *s);

/*
 * Takes the spans that wait as an ExportTraceServiceRequest, which the caller frees; NULL: there are none. *ret_n: how many
 * requests.
 */
char *otlp_spans_body(struct otlp_spans *s, const char *host, size_t *ret_len, size_t *ret_n);

/* All metrics (ExportMetricsServiceRequest), as sums since start_ns; both times are of the wall clock. The caller frees it. */
char *otlp_metrics_body(struct metrics *m, const char *host, uint64_t start_ns, uint64_t now_ns, size_t *ret_len);

/*
 * Sends to an OpenTelemetry collector (OTLP/HTTP, protobuf) from a thread of its own, so that nobody waits for the collector. What it
 * cannot take is tried three times, and then dropped and counted.
 */

enum otlp_kind {
	OTLP_METRICS,
	OTLP_TRACES,
	OTLP_KIND_MAX,
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
