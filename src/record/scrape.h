/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's own metrics: a page in Prometheus's text format, read once a second by a process of its own, since the page is hostile
 * and the recorder has no network. Each page becomes REC_METRICs.
 */
#ifndef INFTRACE_RECORD_SCRAPE_H
#define INFTRACE_RECORD_SCRAPE_H

#include <stddef.h>

#include "record/capture.h"

struct scrape;

/* Starts the process; call it before other threads exist. where: "http://HOST:PORT/PATH", the path /metrics by default, or a port of
 * this machine. Prints one line on failure; -EINVAL: it is no such URL. */
int scrape_new(const char *where, struct scrape **ret_scrape);
void scrape_free(struct scrape *s);

/* Passes on what has come, as REC_METRIC. s may be NULL. */
void scrape_drain(struct scrape *s, record_cb cb, void *arg);

/* Prints what was read, and why not all. s may be NULL. */
void scrape_summary(const struct scrape *s);

/* A series with a value: series has `len` bytes. */
typedef void (*scrape_value_cb)(const char *series, size_t len, double value, void *arg);

/* Reads a page: the values of gauges, counters and series without a type. Histograms, summaries and the times at which counters were
 * made (_created) are left out, and values that are no finite numbers. Lines that are not understood are skipped.
 * https://prometheus.io/docs/instrumenting/exposition_formats/, and OpenMetrics. */
void scrape_parse(const char *page, size_t len, scrape_value_cb cb, void *arg);

#endif
