// SPDX-License-Identifier: BSD-2-Clause
/* Requests of sockets and of sequences: joined where there is one way to do so, never wrongly. */
#include "requests/request_join.h"
#include "unit.h"

static struct join *join;
static struct join_answer of_sockets[JOIN_SOCKETS], of_sequences[JOIN_SEQUENCES];

static int set_up(void **state)
{
	join = join_new();
	return 0;
}

static int tear_down(void **state)
{
	free(join);
	return 0;
}

#define DECIDE(sockets, sequences) \
	join_decide(join, sockets, ARRAY_SIZE(sockets), sequences, ARRAY_SIZE(sequences), of_sockets, of_sequences)

TEST(test_one)
{
	struct join_socket sockets[] = { { 1, 5, 100, 310, 500, 0, false, 0, .given = 0 } };
	struct join_sequence sequences[] = { { 1, false, false, false, 200, 300, 490, 5, .given = 0 } };

	DECIDE(sockets, sequences);
	assert_int_equal(of_sockets[0].result, JOIN_DONE);
	assert_int_equal(of_sockets[0].with, 0);
	assert_int_equal(of_sequences[0].result, JOIN_DONE);
	assert_int_equal(of_sequences[0].with, 0);
	/* each of these alone forbids the join */
	for (int i = 0; i < 7; i++) {
		struct join_socket s[] = { sockets[0] };
		struct join_sequence q[] = { sequences[0] };

		if (i == 0)
			s[0].tgid = 2;
		if (i == 1)
			s[0].start = 201; /* requested after it had begun */
		if (i == 2)
			s[0].first = 299; /* answered before there was any output */
		if (i == 3)
			s[0].last = 489;
		if (i == 4)
			q[0].first = 0; /* it gave no output */
		if (i == 5)
			s[0].chunks = 10; /* more than it gave */
		if (i == 6)
			s[0].first = s[0].last = 0;
		DECIDE(s, q);
		assert_int_equal(of_sockets[0].result, JOIN_NONE);
		assert_int_equal(of_sequences[0].result, JOIN_NONE);
	}
	/* its beginning was not seen: whether it was there before is unknown */
	sequences[0].vague = true;
	DECIDE(sockets, sequences);
	assert_int_equal(of_sockets[0].result, JOIN_AMBIGUOUS);
	sequences[0].vague = false;
	/* all at once, when all is there */
	sockets[0].chunks = 1;
	sockets[0].last = 480;
	DECIDE(sockets, sequences);
	assert_int_equal(of_sockets[0].result, JOIN_NONE);
	sockets[0].first = sockets[0].last = 500;
	DECIDE(sockets, sequences);
	assert_int_equal(of_sockets[0].result, JOIN_DONE);
	/* not over yet */
	sequences[0].open = true;
	DECIDE(sockets, sequences);
	assert_int_equal(of_sockets[0].result, JOIN_OPEN);
}

TEST(test_several)
{
	/* one waits for the other: each answer began before the next request's first output */
	const struct join_socket queue[] = { { 1, 3, 100, 210, 400, 0, false, 0, .given = 0 }, { 1, 3, 110, 510, 700, 0, false, 0, .given = 0 }, { 1, 3, 120, 810, 900, 0, false, 0, .given = 0 } };
	const struct join_sequence turns[] = { { 1, false, false, false, 150, 200, 390, 3, .given = 0 }, { 1, false, false, false, 410, 500, 690, 3, .given = 0 },
		{ 1, false, false, false, 710, 800, 890, 3, .given = 0 } };
	/* two at once, whichever was whose */
	const struct join_socket both[] = { { 1, 3, 100, 310, 500, 0, false, 0, .given = 0 }, { 1, 3, 110, 320, 510, 0, false, 0, .given = 0 } };
	const struct join_sequence at_once[] = { { 1, false, false, false, 200, 300, 490, 3, .given = 0 }, { 1, false, false, false, 205, 305, 495, 3, .given = 0 } };

	DECIDE(queue, turns);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(of_sockets[i].result, JOIN_DONE);
		assert_int_equal(of_sockets[i].with, i);
		assert_int_equal(of_sequences[i].with, i);
	}
	DECIDE(both, at_once);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(of_sockets[i].result, JOIN_AMBIGUOUS);
		assert_int_equal(of_sequences[i].result, JOIN_AMBIGUOUS);
	}
	/* a request that no socket shows leaves those unjoined that it could be */
	join_decide(join, queue, 2, turns, 3, of_sockets, of_sequences);
	assert_int_equal(of_sequences[2].result, JOIN_NONE);
	assert_int_equal(of_sequences[0].result, JOIN_DONE);
	join_decide(join, both, 1, at_once, 2, of_sockets, of_sequences);
	assert_int_equal(of_sockets[0].result, JOIN_AMBIGUOUS);
}

#define MS UINT64_C(1000000)

/* Two at once, one of whose clients reads slowly, or closes its connection. */
TEST(test_clients)
{
	const struct join_sequence sequences[] = { { 1, false, false, false, 20 * MS, 30 * MS, 200 * MS, 20, .given = 0 },
		{ 1, false, false, false, 25 * MS, 40 * MS, 400 * MS, 20, .given = 0 } };
	struct join_socket sockets[] = { { 1, 20, 10 * MS, 30 * MS + 100, 200 * MS + 100, 0, false, 0, .given = 0 },
		{ 1, 20, 12 * MS, 40 * MS + 100, 400 * MS + 100, 0, false, 0, .given = 0 } };

	for (int i = 0; i < 4; i++) {
		struct join_socket s[] = { sockets[0], sockets[1] };

		if (i == 1 || i == 2) { /* it had most of its answer only when the other had all; little is known then */
			s[0].last = 3000 * MS;
			s[0].blocked = i == 1 ? 2800 * MS : 0;
			s[0].chunks = i == 1 ? 3 : 20;
		}
		if (i == 3) {
			s[0].last = 100 * MS;
			s[0].chunks = 8;
			s[0].gone = true;
		}
		DECIDE(s, sequences);
		for (uint32_t k = 0; k < 2; k++) {
			assert_int_equal(of_sockets[k].result == JOIN_DONE, i != 2 || k == 1);
			assert_true(of_sockets[k].result != JOIN_DONE || of_sockets[k].with == k);
		}
	}
}

/* An answer that comes just when another is due is joined with neither. */
TEST(test_late)
{
	struct join_sequence sequences[10];
	struct join_socket sockets[10];

	for (uint32_t i = 0; i < 10; i++) {
		uint64_t at = (1 + i) * 1000 * MS;

		sequences[i] = (struct join_sequence){ 1, false, false, false, at, at + 10 * MS, at + 100 * MS, 10, .given = 0 };
		sockets[i] = (struct join_socket){ 1, 10, at - MS, at + 10 * MS + 100, at + 100 * MS + 100, 0, false, 0, .given = 0 };
	}
	/* these two overlap; the first's answer comes when the second's is due, which is later still */
	sequences[1].start = sequences[0].start + 20 * MS;
	sequences[1].first = sequences[0].first + 40 * MS;
	sequences[1].last = sequences[0].last + 40 * MS;
	sockets[1].start = sockets[0].start;
	sockets[0].first += 40 * MS;
	sockets[0].last += 40 * MS;
	sockets[1].first = sequences[1].first + 300 * MS;
	sockets[1].last = sequences[1].last + 300 * MS;
	DECIDE(sockets, sequences);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(of_sockets[i].result, i < 2 ? JOIN_AMBIGUOUS : JOIN_DONE);
}

/* Two at once, answered in fewer parts than tokens: the usual number of writes in the same process tells them apart. */
TEST(test_writes)
{
	struct join_sequence sequences[12];
	struct join_socket sockets[12];

	for (uint32_t i = 0; i < 12; i++) {
		uint64_t at = (1 + i) * 1000 * MS;

		sequences[i] = (struct join_sequence){ 1, false, false, false, at, at + 10 * MS, at + 100 * MS, 10 + i, .given = 0 };
		sockets[i] = (struct join_socket){ 1, 10, at - MS, at + 10 * MS + 100, at + 100 * MS + 100, 0, false, 12 + i, .given = 0 };
	}
	sequences[11].start = sequences[10].start;
	sequences[11].first = sequences[10].first;
	sequences[11].last = sequences[10].last;
	sockets[11].start = sockets[10].start - 5 * MS;
	sockets[11].first = sockets[10].first;
	sockets[11].last = sockets[10].last;
	sockets[10].chunks = sockets[11].chunks = 2;
	for (int i = 0; i < 5; i++) {
		struct join_socket s[12];
		struct join_sequence q[12];

		memcpy(s, sockets, sizeof(s));
		memcpy(q, sequences, sizeof(q));
		if (i == 1) /* both are the same */
			s[10].writes = s[11].writes;
		if (i == 2) /* not always */
			s[3].writes++;
		if (i == 3) /* another process */
			s[10].tgid = s[11].tgid = q[10].tgid = q[11].tgid = 2;
		if (i == 4) /* how many there would have been is unclear */
			s[10].gone = s[11].gone = true;
		DECIDE(s, q);
		for (uint32_t k = 0; k < 12; k++) {
			assert_int_equal(of_sockets[k].result, k < 10 || i == 0 ? JOIN_DONE : JOIN_AMBIGUOUS);
			assert_true(of_sockets[k].result != JOIN_DONE || of_sockets[k].with == k);
		}
	}
	/* too few to tell */
	join_decide(join, sockets + 5, 7, sequences + 5, 7, of_sockets, of_sequences);
	assert_int_equal(of_sockets[4].result, JOIN_DONE);
	assert_int_equal(of_sockets[5].result, JOIN_AMBIGUOUS);
}

/* All at once, however late: the numbers of writes tell them apart if one rule explains them all, and no other does. */
TEST(test_rule_of_all)
{
	for (int i = 0; i < 5; i++) {
		struct join_sequence q[20];
		struct join_socket s[20];
		size_t n = i == 1 ? 15 : 20; /* too few */

		for (uint32_t k = 0; k < n; k++) {
			q[k] = (struct join_sequence){ 1, false, false, false, 20 * MS, 40 * MS, 1500 * MS, 5 + k * k, .given = 0 };
			s[k] = (struct join_socket){ 1, 2, k * MS, 300 * MS, 2000 * MS, 0, false, 7 + k * k, .given = 0 };
			if (i == 4) { /* several rules explain nearly all */
				q[k].outputs = 5 + k;
				s[k].writes = 7 + k;
			}
		}
		if (i == 2) /* one is not explained */
			s[3].writes = 200;
		if (i == 3) { /* nor what is known by its time */
			q[3] = (struct join_sequence){ 1, false, false, false, 5 * MS, 6 * MS, 14 * MS, 14, .given = 0 };
			s[3] = (struct join_socket){ 1, 10, 0, 10 * MS, 15 * MS, 0, false, 60, .given = 0 };
		}
		join_decide(join, s, n, q, n, of_sockets, of_sequences);
		for (uint32_t k = 0; k < n; k++) {
			assert_int_equal(of_sockets[k].result, i == 0 || (i == 3 && k == 3) ? JOIN_DONE : JOIN_AMBIGUOUS);
			assert_true(of_sockets[k].result != JOIN_DONE || of_sockets[k].with == k);
		}
	}
}

#define MATES 3
#define TURNS 20

/* Requests that begin in one step, three at a time; in every fourth such step two are twins. Sequences go on in the order in
 * which their answers began, which tells twins apart unless something contradicts it. */
TEST(test_order)
{
	static const size_t left[] = { 0, 10, 10, 10, 8, 2, 10, 1, 0, MATES * TURNS };

	for (uint32_t i = 0; i < ARRAY_SIZE(left); i++) {
		struct join_sequence q[MATES * TURNS];
		struct join_socket s[MATES * TURNS];
		uint32_t n = (i == 4 ? TURNS - 4 : TURNS) * MATES, from = i == 7; /* too few; one is not seen on a socket */
		size_t unjoined = 0;

		for (uint32_t k = 0; k < n; k++) {
			uint32_t turn = k / MATES, mate = k % MATES, rank = (mate + turn / 2) % MATES;
			uint64_t at = (1 + turn) * 1000 * MS, outputs = turn % 4 || mate != 1 ? 10 + mate : 10;

			q[k] = (struct join_sequence){ 1, false, false, false, at, at + 10 * MS, at + (10 + 5 * outputs) * MS, outputs, .given = 0 };
			q[k].context = 1;
			q[k].second = at + (rank == 2 && turn % 2 ? 15 : 12) * MS + rank;
			s[k] = (struct join_socket){ 1, 10, at - MS, q[k].first + 100 * (1 + rank), q[k].last + 100, 0, false, (uint32_t)outputs + 2, .given = 0 };
			s[k].tid = 2;
			if (i == 6) /* when they went on is unknown */
				q[k].second = 0;
			if (i >= 8) /* they end at once: only the writes differ */
				s[k].last = q[k].last = at + 100 * MS;
		}
		if (i == 1) { /* two that are no twins began in the other order */
			s[4].first ^= s[5].first;
			s[5].first ^= s[4].first;
			s[4].first ^= s[5].first;
		}
		if (i == 2) /* later than it went on */
			s[4].first = q[4].second + 1;
		if (i == 3)
			s[4].tid = 3;
		if (i == 5) /* steps of several contexts have no order */
			q[12].context = 2;
		if (i == 9) /* nothing but the order tells them apart */
			s[4].writes = 50;
		join_decide(join, s + from, n - from, q, n, of_sockets, of_sequences);
		for (uint32_t k = from; k < n; k++) {
			const struct join_answer *a = &of_sockets[k - from];

			unjoined += a->result != JOIN_DONE;
			assert_true(a->result != JOIN_DONE || (a->with == k && of_sequences[k].with == k - from));
		}
		assert_int_equal(unjoined, left[i]);
	}
}

/* ---- servers ---- */

static uint64_t seed;

static uint64_t any(uint64_t from, uint64_t to)
{
	return from + next_random(&seed) % (to - from + 1);
}

static uint64_t unit;       /* ns: a token takes 20 to 40 of these */
static bool one_write_each; /* one write per token */

static void to_nanoseconds(struct join_socket *s, size_t n_sockets, struct join_sequence *q, size_t n_sequences)
{
	for (size_t i = 0; i < n_sockets; i++) {
		s[i].start *= unit;
		s[i].first *= unit;
		s[i].last *= unit;
		s[i].blocked *= unit;
	}
	for (size_t i = 0; i < n_sequences; i++) {
		q[i].start *= unit;
		q[i].first *= unit;
		q[i].last *= unit;
	}
}

/*
 * Requests of two processes come at any time, wait, are taken in any order, answered in one part or several, and a slow
 * client may get its answer much later. Joined requests are joined correctly, in spite of health checks, other connections,
 * and requests without a socket.
 */
static size_t play(unsigned int strangers, unsigned int unseen, uint64_t pause, size_t *ret_joined, size_t *ret_all)
{
	static struct join_socket sockets[JOIN_SOCKETS];
	static struct join_sequence sequences[JOIN_SEQUENCES];
	static uint32_t truth[JOIN_SOCKETS]; /* the sequence of a socket */
	uint64_t busy[4] = { 0 };
	size_t n_sockets = 0, n_sequences = 0, wrong = 0;
	uint64_t now = 1000;

	for (int i = 0; i < 100; i++) {
		struct join_socket *s = &sockets[n_sockets];
		struct join_sequence *q = &sequences[n_sequences];
		size_t slot = any(0, 3);

		now += any(0, any(0, 3) ? 300 : pause);
		q->tgid = s->tgid = 1 + (uint32_t)(slot / 2);
		q->open = false;
		q->vague = q->any = false;
		s->start = now;
		s->blocked = 0;
		s->gone = false;
		s->writes = 0;
		q->start = (busy[slot] > now ? busy[slot] : now) + any(1, 50);
		q->first = q->start + any(50, 500);
		q->outputs = any(1, 40);
		q->last = q->first + (q->outputs - 1) * any(20, 40);
		busy[slot] = q->last + any(0, 20);
		s->chunks = any(0, 2) ? (uint32_t)q->outputs : 1;
		if (one_write_each)
			s->writes = (uint32_t)q->outputs + 2;
		s->first = (s->chunks > 1 ? q->first : q->last) + any(1, 10);
		q->last += any(0, 3); /* sampled, and not decoded further */
		s->first += s->chunks > 1 ? 0 : 3;
		s->last = s->chunks > 1 ? q->last + any(1, any(0, 9) ? 10 : 5000) : s->first;
		truth[n_sockets] = (uint32_t)n_sequences++;
		n_sockets += any(1, 100) > unseen;
		if (any(1, 100) > strangers)
			continue;
		/* a question that no model answers, at any time and with a quick answer */
		s = &sockets[n_sockets];
		*s = (struct join_socket){ 1 + (uint32_t)any(0, 1), 1, now + any(0, 300), 0, 0, 0, false, (uint32_t)any(1, 40), .given = 0 };
		s->first = s->last = s->start + any(1, 100);
		if (unseen) { /* or one that looks like a model's answer */
			s->chunks = (uint32_t)any(1, 20);
			s->last += (s->chunks - 1) * any(20, 60);
		}
		truth[n_sockets++] = UINT32_MAX;
	}
	to_nanoseconds(sockets, n_sockets, sequences, n_sequences);
	join_decide(join, sockets, n_sockets, sequences, n_sequences, of_sockets, of_sequences);
	for (size_t i = 0; i < n_sockets; i++) {
		if (of_sockets[i].result != JOIN_DONE)
			continue;
		assert_int_equal(of_sequences[of_sockets[i].with].with, i);
		wrong += of_sockets[i].with != truth[i];
		++*ret_joined;
	}
	*ret_all += n_sequences;
	return wrong;
}

static const uint64_t units[] = { 1, 10000, 100000, 1000000 };

TEST(test_servers)
{
	for (size_t u = 0; u < ARRAY_SIZE(units); u++) {
		size_t joined[2] = { 0 }, all = 0;

		unit = units[u];
		for (int writes = 0; writes < 2; writes++) {
			seed = 88172645463325252u;
			one_write_each = writes;
			all = 0;
			for (int i = 0; i < 200; i++)
				assert_int_equal(play(i % 4 ? 10 : 0, 0, i % 2 ? 300 : 20000, &joined[writes], &all), 0);
		}
		print_message("# joined: %zu of %zu; %zu by their writes\n", joined[0], all, joined[1]);
		assert_true(joined[0] > all / 4 && joined[1] > joined[0]);
	}
}

/* Sequences that no socket shows and sockets answered from elsewhere, at the same time: each keeps its group unjoined, but
 * one of either may stand in for the other. */
TEST(test_unseen)
{
	for (size_t u = 0; u < 2 * ARRAY_SIZE(units); u++) {
		size_t joined = 0, all = 0, wrong = 0;

		seed = 88172645463325252u;
		unit = units[u / 2];
		one_write_each = u % 2;
		for (int i = 0; i < 200; i++)
			wrong += play(10, 5, i % 2 ? 300 : 20000, &joined, &all);
		print_message("# joined: %zu of %zu, %zu of them wrongly\n", joined, all, wrong);
		assert_true(joined > all / 4 && wrong * 200 <= joined);
	}
}

/* The engine's own numbers tell apart what is alike in all else, and nothing else joins them. */
TEST(test_numbers)
{
	const struct join_socket alike[] = { { 1, 3, 100, 310, 500, 0, false, 0, .given = 8 }, { 1, 3, 100, 310, 500, 0, false, 0, .given = 7 },
		{ 1, 3, 100, 310, 500, 0, false, 0, .given = 0 } };
	struct join_sequence sequences[] = { { 1, false, false, false, 200, 300, 490, 3, .given = 7 },
		{ 1, false, false, false, 200, 300, 490, 3, .given = 8 }, { 1, false, false, false, 200, 300, 490, 3, .given = 9 },
		{ 1, false, false, false, 200, 300, 490, 3, .given = 0 } };

	DECIDE(alike, sequences);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(of_sockets[i].result, JOIN_DONE);
		assert_int_equal(of_sockets[i].with, !i);
		assert_int_equal(of_sequences[!i].with, i);
	}
	assert_int_equal(of_sequences[2].result, JOIN_NONE);
	assert_int_equal(of_sockets[2].result, JOIN_DONE); /* by its time */
	assert_int_equal(of_sockets[2].with, 3);
	/* whatever is unknown about it, and however late */
	sequences[0].vague = true;
	sequences[1].last = 100000000000;
	sequences[3].tgid = 2;
	sequences[3].given = 8;
	DECIDE(alike, sequences);
	assert_int_equal(of_sockets[0].result, JOIN_DONE);
	assert_int_equal(of_sockets[0].with, 1);
	assert_int_equal(of_sockets[1].result, JOIN_DONE);
	assert_int_equal(of_sockets[2].result, JOIN_NONE);
	assert_int_equal(of_sequences[3].result, JOIN_NONE);
}

RUN_TESTS(set_up, tear_down)
