/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fakes of a session and of following the targets: the test decides what a drain hands over, and what was lost. The program
 * is linked so that they replace session.c and follow.c (FAKED in the Makefile).
 */
#ifndef INFTRACE_TEST_FAKE_SESSION_H
#define INFTRACE_TEST_FAKE_SESSION_H

#include <errno.h>
#include <string.h>

#include "capture/session.h"
#include "fake.h"
#include "record/capture.h"
#include "util/clock.h"

static struct {
	struct session session;     /* its first two members are set */
	const struct rec_hdr *next; /* for the next drain */
	size_t next_size;
	int drained; /* what a drain returns */
	int start_err, stop_err;
	bool over;
	uint64_t lost; /* faults */
	unsigned int starts, stops, drains, controls, watches, scans;
} fake_session;

#define FAKE_SESSION (&fake_session.session)

FAKE_VALUE(int, -1, session_engine_steps_fd, const struct session *s) /* no process has an engine */

FAKE(int, session_start, struct session *s, uint64_t *ret_boot_ns)
{
	fake_session.starts++;
	*ret_boot_ns = clock_boot_ns();
	return fake_session.start_err;
}

FAKE(int, session_stop, struct session *s, uint64_t *ret_boot_ns)
{
	fake_session.stops++;
	*ret_boot_ns = clock_boot_ns();
	return fake_session.stop_err;
}

FAKE(int, session_drain, struct session *s)
{
	const struct rec_hdr *h = fake_session.next;

	fake_session.drains++;
	fake_session.next = NULL;
	if (h)
		fake_session.session.cb(h, fake_session.next_size, fake_session.session.cb_arg);
	return fake_session.drained;
}

FAKE_VALUE(unsigned int, 0, session_fill, const struct session *s)

FAKE(void, session_hits, const struct session *s, struct hit_time ret_times[HIT_MAX])
{
	memset(ret_times, 0, HIT_MAX * sizeof(*ret_times));
}

FAKE(uint64_t, session_sample_ns, const struct session *s, uint64_t *ret_period_ns)
{
	*ret_period_ns = 0;
	return 0;
}

FAKE(void, session_drain_control, struct session *s)
{
	fake_session.controls++;
}

FAKE(void, session_lost, const struct session *s, uint64_t ret_lost[REC_KIND_MAX])
{
	memset(ret_lost, 0, REC_KIND_MAX * sizeof(*ret_lost));
	ret_lost[REC_FAULT] = fake_session.lost;
}

FAKE_VALUE(struct counters, (struct counters){ 0 }, session_counters, const struct session *s)
FAKE_VALUE(int, 0, session_requests, const struct session *s)
FAKE_VALUE(bool, fake_session.over, session_over, const struct session *s)
FAKE_VALUE(int, 0, session_wake, struct session *s)
FAKE_VALUE(void, , session_idle, struct session *s)

FAKE(int, session_watch, struct session *s)
{
	fake_session.watches++;
	return 0;
}

FAKE(struct process_totals *, session_sums, const struct session *s, size_t *ret_n)
{
	*ret_n = 0;
	return NULL;
}

FAKE_VALUE(int, -1, session_sums_fd, const struct session *s)
FAKE_VALUE(int, 0, session_peek, struct session *s, record_cb cb, peek_cb end, void *arg)
FAKE_VALUE(int, 0, session_peek_waits, struct session *s)

FAKE(void, follow_scan, struct follow *f)
{
	fake_session.scans++;
}

FAKE_VALUE(void, , follow_rescan, struct follow *f)
FAKE_VALUE(void, , follow_strangers, struct follow *f, uint64_t now_ns)
FAKE_VALUE(void, , follow_watches, struct follow *f, uint64_t now_ns)
FAKE_VALUE(void, , follow_turn, struct follow *f, uint64_t now_ns)
FAKE_VALUE(void, , follow_record, struct follow *f, const struct rec_hdr *h, enum process_news news)

#endif
