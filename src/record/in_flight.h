/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What threads have in flight when a dump begins, and how it fits together with the records that are kept.
 *
 * The threads keep running while they are looked at and while the rings are emptied after that, so some of what was
 * open has ended by then, with a record of its own. For each thread the dump shows its state at the instant at which it
 * was looked at: what ends later is left to the next dump.
 */
#ifndef INFTRACE_IN_FLIGHT_H
#define INFTRACE_IN_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/ringbuf.h"

struct in_flight;

/* -ENOMEM */
int in_flight_new(struct in_flight **ret_in_flight);
void in_flight_free(struct in_flight *f);

/* For session_peek(), with the in_flight as the argument. A span that finds no memory is missing: in_flight_error(). */
void in_flight_add(const struct rec_hdr *h, size_t size, void *in_flight);
void in_flight_end_thread(uint32_t tid, uint64_t at_ns, void *in_flight);
int in_flight_error(const struct in_flight *f);

/* Call once, after the last: prepares the answers to the questions below. */
void in_flight_ready(struct in_flight *f);

void in_flight_each(const struct in_flight *f, record_cb cb, void *arg);
/* Drops the spans for which the callback returns true. */
void in_flight_drop(struct in_flight *f, bool (*drop)(const struct rec_hdr *h, void *arg), void *arg);

/* When the thread was looked at; UINT64_MAX: it was not. */
uint64_t in_flight_at(const struct in_flight *f, uint32_t tid);

/* Whether a record is later than what is in flight, or is part of it. */
bool in_flight_replaces(const struct in_flight *f, const struct rec_hdr *h);

#endif
