// SPDX-License-Identifier: BSD-2-Clause
/* The reader of rings, on a file that looks like one. */
#include <linux/bpf.h>
#include <sys/mman.h>

#include "capture/ringbuf.h"
#include "unit.h"

#define LONGEST 64

/* What the programs do, see kernel/bpf/ringbuf.c; the kernel maps the data twice, and so does this. */
struct ring {
	struct ringbuf *r;
	size_t page, bytes;
	int fd;
	char *mapped; /* the two pages with positions, then the data */
	unsigned long made;
	uint64_t seed;
	uint32_t made_n, seen_n; /* samples made, and those handed over */
};

static struct ring g;

static unsigned long *consumer(void)
{
	return (unsigned long *)g.mapped;
}

static unsigned long *producer(void)
{
	return (unsigned long *)(g.mapped + g.page);
}

static int ring_new(void **state)
{
	g = (struct ring){ .page = (size_t)sysconf(_SC_PAGESIZE), .seed = 5 };
	g.bytes = g.page;
	g.fd = memfd_create("ring", MFD_CLOEXEC);
	if (g.fd < 0 || ftruncate(g.fd, (off_t)(2 * g.page + g.bytes)))
		return -1;
	g.mapped = mmap(NULL, 2 * g.page + g.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
	return g.mapped == MAP_FAILED ? -1 : ringbuf_new(g.fd, g.bytes, LONGEST, &g.r);
}

static int ring_free(void **state)
{
	ringbuf_free(g.r);
	munmap(g.mapped, 2 * g.page + g.bytes);
	close(g.fd);
	return 0;
}

static void put(unsigned long pos, const void *data, size_t n)
{
	for (size_t i = 0; i < n; i++)
		g.mapped[2 * g.page + (pos + i) % g.bytes] = ((const char *)data)[i];
}

/* Sample n has n in each of its words. */
static unsigned long make_sample(uint32_t size, uint32_t flags, uint32_t n)
{
	uint32_t head[2] = { size | flags, 0 };
	unsigned long at = g.made;

	put(at, head, sizeof(head));
	for (uint32_t i = 0; i < size; i += sizeof(n))
		put(at + sizeof(head) + i, &n, size - i < sizeof(n) ? size - i : sizeof(n));
	g.made += sizeof(head) + (size + 7) / 8 * 8;
	__atomic_store_n(producer(), g.made, __ATOMIC_RELEASE);
	return at;
}

static bool has_room(void)
{
	return g.made - *consumer() + LONGEST + 16 < g.bytes;
}

static uint32_t random_size(void)
{
	g.seed = g.seed * UINT64_C(6364136223846793005) + 1442695040888963407; /* Knuth's MMIX */
	return 4 + (uint32_t)(g.seed >> 33) % (LONGEST - 3);
}

static void on_sample(const void *data, size_t size, void *arg)
{
	uint32_t word;

	assert_in_range(size, 4, LONGEST);
	for (size_t i = 0; i + sizeof(word) <= size; i += sizeof(word)) {
		memcpy(&word, (const char *)data + i, sizeof(word));
		assert_int_equal(word, g.seen_n);
	}
	g.seen_n++;
}

/* All sizes at all places, round and round, also across the end. */
TEST_WITH(test_all, ring_new, ring_free)
{
	assert_false(ringbuf_consume(g.r, 10, on_sample, NULL));
	while (g.made_n < 100000) {
		while (has_room())
			make_sample(random_size(), 0, g.made_n++);
		while (ringbuf_consume(g.r, 1 + g.made_n % 7, on_sample, NULL))
			;
		assert_int_equal(g.seen_n, g.made_n);
		assert_int_equal(*consumer(), g.made);
	}
}

/* Room is given back while samples are being handed over. */
static void on_first(const void *data, size_t size, void *arg)
{
	on_sample(data, size, arg);
	if (g.made_n < 1000 && has_room())
		make_sample(LONGEST, 0, g.made_n++);
}

TEST_WITH(test_grows, ring_new, ring_free)
{
	make_sample(LONGEST, 0, g.made_n++);
	assert_false(ringbuf_consume(g.r, 10000, on_first, NULL));
	assert_int_equal(g.seen_n, 1000);
	assert_int_equal(*consumer(), g.made);
}

TEST_WITH(test_max, ring_new, ring_free)
{
	for (int i = 0; i < 5; i++)
		make_sample(8, 0, g.made_n++);
	assert_true(ringbuf_consume(g.r, 3, on_sample, NULL));
	assert_int_equal(g.seen_n, 3);
	assert_int_equal(*consumer(), 3 * 16);
	assert_false(ringbuf_consume(g.r, 2, on_sample, NULL));
	assert_int_equal(g.seen_n, 5);
}

TEST_WITH(test_left_out, ring_new, ring_free)
{
	unsigned long at;
	uint32_t done = 8;

	make_sample(8, BPF_RINGBUF_DISCARD_BIT, 99);
	make_sample(LONGEST + 1, 0, 99); /* too long */
	make_sample(8, 0, g.made_n++);
	at = make_sample(8, BPF_RINGBUF_BUSY_BIT, g.made_n++);
	make_sample(8, 0, g.made_n++);
	assert_false(ringbuf_consume(g.r, 10, on_sample, NULL)); /* waits for the sample that is being written */
	assert_int_equal(g.seen_n, 1);
	assert_int_equal(*consumer(), at);
	put(at, &done, sizeof(done));
	assert_false(ringbuf_consume(g.r, 10, on_sample, NULL));
	assert_int_equal(g.seen_n, 3);
}

TEST(test_refused)
{
	struct ringbuf *r;

	assert_true(ringbuf_new(-1, 4096, LONGEST, &r) < 0);
	ringbuf_free(NULL);
}

RUN_TESTS(NULL, NULL)
