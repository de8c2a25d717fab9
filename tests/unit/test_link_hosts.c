// SPDX-License-Identifier: BSD-2-Clause
/* Messages between hosts: the sinks' output is read, each message is found at its other end, and clocks are derived from
 * them, or refused. */
#include "sinks.h"

#include <arpa/inet.h>

#include "cases.h"
#include "link/link.h"

#define BOOT INT64_C(5000000000000)
#define REAL INT64_C(1795147200000000000)
#define SECOND INT64_C(1000000000)

static struct link l;

/* A host's recording, as text. Its clock is ahead of the first host's by `ahead`, and gains ppm from BOOT on. */
struct host {
	const char *name;
	int64_t ahead;
	double ppm;
	int64_t begin; /* by its clock */
	FILE *f;
	char path[64];
};

static struct host hosts[3];

static int64_t clock_of(const struct host *h, int64_t at)
{
	return at + h->ahead + (int64_t)((double)(at - BOOT) * h->ppm / 1e6);
}

static void put_clock(const struct host *h, int64_t at)
{
	int64_t boot = clock_of(h, at), begin = h->begin;

	fprintf(h->f,
		"{\"ph\":\"i\",\"name\":\"inftrace_clock\",\"pid\":1,\"tid\":1,\"ts\":%lld.%03lld,\"args\":{\"boottime_ns\":\"%lld\",\"realtime_ns\":\"%lld\"}}",
		(long long)(boot - begin) / 1000, (long long)(boot - begin) % 1000, (long long)boot, (long long)(REAL + at - BOOT));
}

static void hosts_begin(size_t n)
{
	static const char *const names[] = { "a", "b", "c" };

	for (size_t i = 0; i < n; i++) {
		struct host *h = &hosts[i];

		h->name = names[i];
		h->begin = clock_of(h, BOOT);
		h->f = tmpfile();
		assert_non_null(h->f);
		snprintf(h->path, sizeof(h->path), "/proc/self/fd/%d", fileno(h->f));
		fputs("[\n", h->f);
		put_clock(h, BOOT);
	}
}

/* named: with host names. */
static int hosts_link(size_t n, bool named)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		fputs(",\n", hosts[i].f);
		put_clock(&hosts[i], BOOT + SECOND);
		fputs("\n]\n", hosts[i].f);
		fflush(hosts[i].f);
		err = link_add(&l, hosts[i].path, named ? hosts[i].name : NULL, false);
	}
	return err ?: link_relate(&l);
}

static int clear(void **state)
{
	link_clear(&l);
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		if (hosts[i].f)
			fclose(hosts[i].f);
	}
	memset(hosts, 0, sizeof(hosts));
	return 0;
}

/* How far a call has come in a stream. */
struct end {
	uint64_t position;
	uint32_t base;
};

/* A call from `begin` to `end` by the first host's time, up to this position. */
static void put_message(struct host *h, bool sent, unsigned int from, unsigned int to, int64_t begin, int64_t end, struct end at, uint32_t bytes)
{
	int64_t first = clock_of(h, begin), last = clock_of(h, end), ts = last - h->begin;
	unsigned int local = sent ? from : to, peer = sent ? to : from;

	fprintf(h->f,
		",\n{\"ph\":\"i\",\"s\":\"t\",\"pid\":7,\"tid\":7,\"ts\":%lld.%03lld,\"name\":\"message %s\",\"cat\":\"message\",\"args\":{"
		"\"local\":\"10.0.0.%u:80\",\"peer\":\"10.0.0.%u:80\",\"bytes\":%u,\"position\":%llu,\"sequence\":%u,\"call_ns\":%lld}}",
		(long long)ts / 1000, (long long)ts % 1000, sent ? "sent" : "received", local, peer, bytes, (unsigned long long)at.position,
		(uint32_t)(at.base + at.position), (long long)(last - first));
}

/* n messages from one host to another, each under way for 10 to 60 us; `lost` of ten are not recorded there. */
static void talk(unsigned int from, unsigned int to, unsigned int n, uint32_t base, unsigned int lost_sent, unsigned int lost_received)
{
	uint64_t position = UINT32_MAX - 5000; /* wraps around TCP's sequence numbers */

	for (unsigned int i = 0; i < n; i++) {
		int64_t at = BOOT + SECOND / (n + 1) * (i + 1) + (int64_t)(draw() % 1000), took = 10000 + (int64_t)(draw() % 50000);
		uint32_t bytes = 1 + (uint32_t)(draw() % 3000);

		position += bytes;
		if (draw() % 10 >= lost_sent) /* its own count includes the SYN */
			put_message(&hosts[from], true, from, to, at, at + 5000, (struct end){ position + 1, base - 1 }, bytes);
		if (draw() % 10 < lost_received)
			continue;
		/* in two parts, the first of which may belong to the last message, too */
		if (bytes > 1)
			put_message(&hosts[to], false, from, to, at, at + took, (struct end){ position - bytes / 2, base }, bytes - bytes / 2);
		put_message(&hosts[to], false, from, to, at + took, at + took + 1000, (struct end){ position, base }, bytes / 2 + bytes % 2);
	}
}

static void assert_found(size_t i, int64_t most)
{
	const struct linked *d = l.list[i];
	struct host_span span = host_span(&l, d);
	int64_t at[] = { span.first_ns, span.middle_ns, span.last_ns };

	assert_int_equal(d->by, LINK_BY_MESSAGES);
	assert_in_range(l.placed[d->host].residual_ns, 1, most);
	for (size_t k = 0; k < ARRAY_SIZE(at); k++) {
		/* the model inverted */
		int64_t ours = BOOT + (int64_t)((double)(at[k] - BOOT - hosts[i].ahead) / (1 + hosts[i].ppm / 1e6));

		assert_in_range(host_ahead(&l, d->host, at[k]) - (at[k] - ours) + l.placed[d->host].residual_ns, 0, 2 * l.placed[d->host].residual_ns);
	}
	assert_true(d->residual_ns >= l.placed[d->host].residual_ns);
	/* they share the wall clock */
	assert_in_range(d->ahead_ns + d->residual_ns + 1000, 0, 2 * d->residual_ns + 2000);
}

/* ---- clocks ---- */

TEST_WITH(test_two, NULL, clear)
{
	static const struct {
		int64_t ahead;
		double ppm;
	} table[] = { { 0, 0 }, { 3000000, 0 }, { -2 * SECOND, 0 }, { 86400 * SECOND, 50 }, { 0, -400 } };

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		for (unsigned int lost = 0; lost <= 5; lost += 5) {
			hosts[1] = (struct host){ .ahead = table[i].ahead, .ppm = table[i].ppm };
			hosts_begin(2);
			talk(0, 1, 300, 0xfffff000, lost, lost);
			talk(1, 0, 300, 77, lost, lost);
			assert_int_equal(hosts_link(2, true), 0);
			assert_found(1, 60000);
			assert_int_equal(l.list[0]->by, LINK_BY_ITSELF);
			clear(state);
		}
	}
}

/* Each residual is the sum of its hops to the reference. */
TEST_WITH(test_third, NULL, clear)
{
	hosts[1].ahead = 70 * SECOND;
	hosts[2].ahead = -50 * SECOND;
	hosts[2].ppm = 20;
	hosts_begin(3);
	talk(0, 1, 200, 5, 0, 0);
	talk(1, 0, 200, 6, 0, 0);
	talk(2, 1, 200, 7, 0, 0);
	talk(1, 2, 200, 8, 0, 0);
	assert_int_equal(hosts_link(3, true), 0);
	assert_found(1, 60000);
	assert_found(2, 120000);
	assert_int_equal(l.placed[2].hops, 2);
	assert_true(l.placed[2].residual_ns > l.placed[1].residual_ns);
}

TEST_WITH(test_one_way, NULL, clear)
{
	for (int to_us = 0; to_us < 2; to_us++) {
		const struct host_clock *c;

		hosts[1].ahead = 3000000;
		hosts_begin(2);
		talk(to_us ? 1 : 0, to_us ? 0 : 1, 100, 5, 0, 0);
		assert_int_equal(hosts_link(2, true), 0);
		c = &l.placed[1].clock;
		assert_int_equal(l.list[1]->by, LINK_BY_WALL);
		assert_int_equal(c->known, to_us ? HOST_AT_LEAST : HOST_AT_MOST);
		assert_in_range(to_us ? 3000000 - c->low_ns[0] : c->high_ns[0] - 3000000, 0, 70000);
		clear(state);
	}
}

static void check_refused(int err, const char *what)
{
	assert_true(err < 0);
	assert_non_null(strstr(l.error, what));
	assert_null(strchr(l.error, '\n'));
}

TEST_WITH(test_refused, NULL, clear)
{
	hosts_begin(2);
	talk(0, 1, 100, 5, 0, 0);
	talk(1, 0, 100, 6, 0, 0);
	hosts[1].ahead = 400000000; /* only its end, and so its last reading */
	talk(0, 1, 100, 7, 0, 0);
	talk(1, 0, 100, 8, 0, 0);
	check_refused(hosts_link(2, true), "contradict each other: ");
	assert_non_null(strstr(l.error, "10.0.0.0:80>10.0.0.1:80, byte "));
	assert_non_null(strstr(l.error, "10.0.0.1:80>10.0.0.0:80, byte "));
	clear(state);
	/* the wall clock suggests one machine, but it is not */
	hosts[1].ahead = 3000000;
	hosts_begin(2);
	talk(1, 0, 100, 5, 0, 0);
	check_refused(hosts_link(2, false), "before it was sent: name the machines");
	clear(state);
	hosts_begin(2);
	talk(1, 0, 100, 5, 0, 0);
	assert_int_equal(hosts_link(2, false), 0);
	assert_int_equal(l.list[1]->by, LINK_BY_ITSELF);
}

/* ---- which message is which ---- */

static size_t n_pairs;

static void count_pair(void *arg, const struct message_pair *p)
{
	assert_true(p->sent->sent && !p->received->sent);
	n_pairs++;
}

TEST(test_pairs)
{
	static const struct {
		uint64_t sent, received;
		uint32_t base_sent, base_received, bytes;
		unsigned int pairs;
	} table[] = {
		{ 100, 100, 7, 7, 100, 1 },
		{ 101, 100, 6, 7, 100, 1 }, /* the SYN counts at one end */
		{ 100, 1, 7, 7, 100, 1 },   /* its first byte */
		{ 100, 101, 7, 7, 100, 1 }, /* the connection ended right after it */
		{ 100, 102, 7, 7, 100, 0 }, /* sent by a call that was not recorded */
		{ 200, 100, 7, 7, 100, 0 }, /* likewise, before this one */
		{ 200, 101, 7, 7, 100, 1 },
		{ 100, 100, 7, 1000, 100, 0 }, /* another connection with these ports */
		{ 100, 100, 7, 10, 100, 0 },
		{ UINT32_MAX + 101ull, 100, 7, 7, 100, 0 }, /* the same TCP number */
		{ UINT32_MAX + 101ull, UINT32_MAX + 101ull, UINT32_MAX, UINT32_MAX, 100, 1 },
		{ 101, 100, UINT32_MAX, 0, 100, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct messages m[2] = { 0 };
		struct message_event e = { .name = "message sent", .local = "x", .peer = "y", .bytes = table[i].bytes, .position = table[i].sent, .sequence = (uint32_t)(table[i].base_sent + table[i].sent), .found = 15 };

		messages_add(&m[0], &e);
		e = (struct message_event){ .name = "message received", .local = "y", .peer = "x", .bytes = 1, .position = table[i].received, .sequence = (uint32_t)(table[i].base_received + table[i].received), .found = 15 };
		messages_add(&m[1], &e);
		assert_int_equal(m[0].n + m[1].n, 2);
		messages_finish(&m[0], 0);
		messages_finish(&m[1], 0);
		n_pairs = 0;
		messages_match(&m[0], &m[1], count_pair, NULL);
		if (n_pairs != table[i].pairs)
			fail_msg("case %zu: %zu pairs", i, n_pairs);
		messages_match(&m[1], &m[0], count_pair, NULL);
		assert_int_equal(n_pairs, table[i].pairs);
		messages_clear(&m[0]);
		messages_clear(&m[1]);
	}
}

/* Events of other programs, and damaged ones. */
TEST(test_junk)
{
	static const struct message_event good = { .name = "message sent", .local = "x", .peer = "y", .bytes = 1, .position = 1, .sequence = 1, .found = 15 };
	struct message_event bad[12];
	struct messages m = { 0 };
	char address[100];

	memset(address, 'x', sizeof(address));
	address[99] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	bad[0].name = NULL;
	bad[1].name = "message";
	bad[2].local = NULL;
	bad[3].peer = NULL;
	bad[4].peer = address;
	bad[5].found = 7;
	bad[6].bytes = 0;
	bad[7].bytes = UINT64_C(1) << 32;
	bad[8].sequence = UINT64_C(1) << 32;
	bad[9].position = UINT64_MAX;
	bad[10].call_ns = UINT64_MAX;
	bad[11].ns = INT64_MIN;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		messages_add(&m, &bad[i]);
	assert_int_equal(m.n, 0);
	messages_add(&m, &good);
	assert_int_equal(m.n, 1);
	messages_clear(&m);
}

/* ---- what the sinks write ---- */

static struct rec_message make_message(unsigned int i)
{
	struct rec_message r = { .h = hdr(REC_MESSAGE, 5), .position = draw() >> 20, .sequence = (uint32_t)draw(), .bytes = 1 + i, .local_port = 80, .peer_port = (uint16_t)(40000 + i) };

	r.h.start_ns = START + 1000 * i;
	r.h.dur_ns = 500 + i;
	r.h.flags = i % 2 ? MESSAGE_F_RECEIVED : 0;
	r.position += r.bytes;
	if (i % 3) {
		inet_pton(AF_INET6, "fd77::1", r.local);
		inet_pton(AF_INET6, "fd77::2", r.peer);
	} else {
		inet_pton(AF_INET6, "::ffff:10.0.0.1", r.local);
		inet_pton(AF_INET6, "::ffff:10.0.0.2", r.peer);
	}
	return r;
}

static const struct message *message_find(const struct link_file *f, const char *stream, bool sent)
{
	for (size_t i = 0; i < f->messages.n; i++) {
		const struct message *m = &f->messages.list[i];

		if (m->sent == sent && !strcmp(f->messages.streams.list[m->stream]->text, stream))
			return m;
	}
	fail_msg("no %s", stream);
	return NULL;
}

#define MESSAGES 40

/* The file is o->fd, with this path. */
static void write_messages(struct out *o, bool chrome, struct rec_message list[MESSAGES], char path[64])
{
	if (chrome)
		chrome_open(o);
	else
		out_open(o, WRITER_PACKETS, perfetto_sink_new);
	for (unsigned int i = 0; i < MESSAGES; i++) {
		list[i] = make_message(i);
		EMIT(o, &list[i]);
	}
	assert_int_equal(o->s->ops->close(o->s, &(struct window_totals){ .open_ns = START, .close_ns = START + 1000 }), 0);
	snprintf(path, 64, "/proc/self/fd/%d", o->fd);
}

static void check_written(bool chrome)
{
	struct rec_message list[MESSAGES];
	char why[LINK_WHY_MAX], path[64];
	struct link_file f;
	struct out o;

	write_messages(&o, chrome, list, path);
	assert_int_equal(link_file_read(&f, path, NULL, false, why), 0);
	assert_int_equal(f.messages.n, MESSAGES);
	assert_int_equal(f.messages.streams.n, MESSAGES);
	for (unsigned int i = 0; i < MESSAGES; i++) {
		const char *from = i % 3 ? "[fd77::1]" : "10.0.0.1", *to = i % 3 ? "[fd77::2]" : "10.0.0.2";
		const struct rec_message *r = &list[i];
		const struct message *m;
		char name[128];

		if (i % 2)
			snprintf(name, sizeof(name), "%s:%u>%s:80", to, 40000 + i, from);
		else
			snprintf(name, sizeof(name), "%s:80>%s:%u", from, to, 40000 + i);
		m = message_find(&f, name, !(i % 2));
		assert_int_equal(m->position, r->position);
		assert_int_equal((uint32_t)(m->base + m->position), r->sequence);
		assert_int_equal(m->bytes, r->bytes);
		assert_int_equal(m->from_ns, r->h.start_ns);
		assert_int_equal(m->to_ns, r->h.start_ns + r->h.dur_ns);
	}
	link_file_clear(&f);
	close(o.fd);
}

TEST_WITH(test_written, setup, teardown)
{
	check_written(true);
	check_written(false);
}

/* One byte is changed: the file is read, or refused with a reason. */
TEST_WITH(test_damaged, setup, teardown)
{
	struct rec_message list[MESSAGES];
	char why[LINK_WHY_MAX], path[64];
	struct link_file f;
	struct out o;
	struct stat st;

	for (int chrome = 0; chrome < 2; chrome++) {
		write_messages(&o, chrome, list, path);
		assert_int_equal(fstat(o.fd, &st), 0);
		for (unsigned int i = 0; i < cases(3000, 50); i++) {
			off_t at = (off_t)(draw() % (uint64_t)st.st_size);
			unsigned char was, is;

			assert_int_equal(pread(o.fd, &was, 1, at), 1);
			is = was ^ (unsigned char)(1 + draw() % 255);
			assert_int_equal(pwrite(o.fd, &is, 1, at), 1);
			assert_true(!link_file_read(&f, path, NULL, false, why) || why[0]);
			link_file_clear(&f);
			assert_int_equal(pwrite(o.fd, &was, 1, at), 1);
		}
		close(o.fd);
	}
}

RUN_TESTS(NULL, NULL)
