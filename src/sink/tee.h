/* SPDX-License-Identifier: BSD-2-Clause */
/* A sink that passes everything on to several others, in their order. */
#ifndef INFTRACE_SINK_TEE_H
#define INFTRACE_SINK_TEE_H

#include <stddef.h>

#include "sink/sink.h"

struct tee {
	struct sink sink;
	struct sink **list;
	size_t n;
};

/* Takes over the sinks; a single one is returned as it is. -ENOMEM: they were closed, and nothing recorded. */
int tee_new(struct sink *const *list, size_t n, struct sink **ret_sink);

/* The i-th sink of a tee, NULL after the last. For any other sink, itself is the only one. */
const struct sink *tee_nth(const struct sink *s, size_t i);

/* For sinks that begin with a struct tee. -ENOMEM: the sink still belongs to the caller. */
int tee_add(struct tee *t, struct sink *s);
void tee_loss(struct sink *s, const struct loss *l);
void tee_mark(struct sink *s, const struct mark *m);
void tee_settled(struct sink *s);
int tee_flush(struct sink *s);
uint64_t tee_bytes(const struct sink *s);
uint64_t tee_pending(const struct sink *s);
void tee_dropped(const struct sink *s, uint64_t counts[REC_KIND_MAX]);

#endif
