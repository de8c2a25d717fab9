/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session and what follows the targets without a kernel: the test says what a drain hands over, and what was lost.
 * The program is linked so that these take the place of session.c and follow.c (FAKED in the Makefile).
 */
#ifndef INFTRACE_TEST_FAKE_SESSION_H
#define INFTRACE_TEST_FAKE_SESSION_H

#include <errno.h>
#include <string.h>

#include "capture/session.h"
#include "record/capture.h"
#include "util/clock.h"

static struct {
	struct session session; /* its first two members are set */
	const struct rec_hdr *next; /* for the next drain */
	size_t next_size;
	int drained; /* what a drain returns */
	int start_err, stop_err;
	bool over;
	uint64_t lost; /* faults */
	unsigned int starts, stops, drains, controls, watches, scans;
} fake_session;

#define FAKE_SESSION (&fake_session.session)

int __wrap_session_start(struct session *s, uint64_t *ret_boot_ns);
int __wrap_session_stop(struct session *s, uint64_t *ret_boot_ns);
int __wrap_session_drain(struct session *s);
unsigned int __wrap_session_fill(const struct session *s);
void __wrap_session_hits(const struct session *s, struct hit_time ret_times[HIT_MAX]);
uint64_t __wrap_session_sample_ns(const struct session *s, uint64_t *ret_period_ns);
void __wrap_session_drain_control(struct session *s);
void __wrap_session_lost(const struct session *s, uint64_t ret_lost[REC_KIND_MAX]);
struct counters __wrap_session_counters(const struct session *s);
int __wrap_session_requests(const struct session *s);
bool __wrap_session_over(const struct session *s);
int __wrap_session_wake(struct session *s);
void __wrap_session_idle(struct session *s);
int __wrap_session_watch(struct session *s);
struct process_totals *__wrap_session_sums(const struct session *s, size_t *ret_n);
int __wrap_session_sums_fd(const struct session *s);
int __wrap_session_peek(struct session *s, record_cb cb, peek_cb end, void *arg);
int __wrap_session_peek_waits(struct session *s);
int __wrap_session_engine_steps_fd(const struct session *s);
void __wrap_follow_scan(struct follow *f);
void __wrap_follow_rescan(struct follow *f);
void __wrap_follow_strangers(struct follow *f, uint64_t now_ns);
void __wrap_follow_turn(struct follow *f, uint64_t now_ns);
void __wrap_follow_record(struct follow *f, const struct rec_hdr *h);

int __wrap_session_engine_steps_fd(const struct session *s)
{
	return -1; /* no process has an engine */
}

int __wrap_session_start(struct session *s, uint64_t *ret_boot_ns)
{
	fake_session.starts++;
	*ret_boot_ns = clock_boot_ns();
	return fake_session.start_err;
}

int __wrap_session_stop(struct session *s, uint64_t *ret_boot_ns)
{
	fake_session.stops++;
	*ret_boot_ns = clock_boot_ns();
	return fake_session.stop_err;
}

int __wrap_session_drain(struct session *s)
{
	const struct rec_hdr *h = fake_session.next;

	fake_session.drains++;
	fake_session.next = NULL;
	if (h)
		fake_session.session.cb(h, fake_session.next_size, fake_session.session.cb_arg);
	return fake_session.drained;
}

unsigned int __wrap_session_fill(const struct session *s)
{
	return 0;
}

void __wrap_session_hits(const struct session *s, struct hit_time ret_times[HIT_MAX])
{
	memset(ret_times, 0, HIT_MAX * sizeof(*ret_times));
}

uint64_t __wrap_session_sample_ns(const struct session *s, uint64_t *ret_period_ns)
{
	*ret_period_ns = 0;
	return 0;
}

void __wrap_session_drain_control(struct session *s)
{
	fake_session.controls++;
}

void __wrap_session_lost(const struct session *s, uint64_t ret_lost[REC_KIND_MAX])
{
	memset(ret_lost, 0, REC_KIND_MAX * sizeof(*ret_lost));
	ret_lost[REC_FAULT] = fake_session.lost;
}

struct counters __wrap_session_counters(const struct session *s)
{
	return (struct counters){ 0 };
}

int __wrap_session_requests(const struct session *s)
{
	return 0;
}

bool __wrap_session_over(const struct session *s)
{
	return fake_session.over;
}

int __wrap_session_wake(struct session *s)
{
	return 0;
}

void __wrap_session_idle(struct session *s)
{
}

int __wrap_session_watch(struct session *s)
{
	fake_session.watches++;
	return 0;
}

struct process_totals *__wrap_session_sums(const struct session *s, size_t *ret_n)
{
	*ret_n = 0;
	return NULL;
}

int __wrap_session_sums_fd(const struct session *s)
{
	return -1;
}

int __wrap_session_peek(struct session *s, record_cb cb, peek_cb end, void *arg)
{
	return 0;
}

int __wrap_session_peek_waits(struct session *s)
{
	return 0;
}

void __wrap_follow_scan(struct follow *f)
{
	fake_session.scans++;
}

void __wrap_follow_rescan(struct follow *f)
{
}

void __wrap_follow_strangers(struct follow *f, uint64_t now_ns)
{
}

void __wrap_follow_turn(struct follow *f, uint64_t now_ns)
{
}

void __wrap_follow_record(struct follow *f, const struct rec_hdr *h)
{
}

#endif
