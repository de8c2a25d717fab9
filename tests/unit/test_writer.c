// SPDX-License-Identifier: BSD-2-Clause
/* The content of the file: at every page boundary, in every gzip member, and after a failed write. */
#include "validate/check.h"
#include "writer.h"

#define TEXT_MAX (4 << 20)

/* ---- events ---- */

struct file {
	int fd;
	struct writer *w;
	unsigned int events;
	size_t largest;
	char *text; /* as read back */
	size_t len;
};

static void file_open(struct file *f, enum writer_mode mode, size_t before)
{
	char byte = ' ';

	*f = (struct file){ .fd = memfd_create("file", MFD_CLOEXEC) };
	assert_true(f->fd >= 0);
	for (size_t i = 0; i < before; i++)
		assert_int_equal(write(f->fd, &byte, 1), 1);
	f->w = writer_new(dup(f->fd), "the file", mode);
}

/* An event of this length with its separator, at least 50; the only '}' is its last byte. */
static void put_event(struct file *f, size_t len)
{
	char *start = writer_reserve(f->w), *p = start;

	p += sprintf(p, "%s{\"ph\":\"i\",\"ts\":0.000,\"name\":\"%u ", f->events ? ",\n" : "[\n", f->events);
	while ((size_t)(p - start) + strlen("\"}") < len) {
		*p = (char)(' ' + draw('|' - ' '));
		p += *p != '"' && *p != '\\';
	}
	p += sprintf(p, "\"}");
	f->events++;
	writer_commit(f->w, p);
	if ((size_t)(p - start) > f->largest)
		f->largest = (size_t)(p - start);
}

static void put_end(struct file *f)
{
	char *p = writer_reserve(f->w);

	writer_commit(f->w, stpcpy(p, "\n]\n"));
}

static void file_read(struct file *f)
{
	struct stat st;

	assert_int_equal(fstat(f->fd, &st), 0);
	f->len = (size_t)st.st_size;
	free(f->text);
	f->text = malloc(f->len + 8);
	assert_int_equal(pread(f->fd, f->text, f->len, 0), f->len);
	f->text[f->len] = 0;
}

static void file_close(struct file *f)
{
	assert_int_equal(writer_close(f->w), 0);
	file_read(f);
}

static void file_done(struct file *f)
{
	free(f->text);
	close(f->fd);
}

static void first_problem(void *ctx, const char *text)
{
	if (!*(char *)ctx)
		snprintf(ctx, 256, "%s", text);
}

/* Checks that inftrace validate accepts it, closed or cut, plain or compressed. Returns the number of events. */
static unsigned int count_events(const char *text, size_t len)
{
	char problem[256] = "", line[256] = "";
	struct check_report report = { .problem = first_problem, .ctx = problem };
	FILE *out = fmemopen(line, sizeof(line), "w");
	struct json_source source;
	unsigned int n = 0;

	assert_int_equal(json_source_open_mem(&source, text, len), 0);
	check_trace(&source, "file", &report, out);
	json_source_close(&source);
	fclose(out);
	if (report.problems)
		fail_msg("cut at %zu: %s", len, problem);
	sscanf(strstr(line, "), "), "), %u events", &n);
	return n;
}

/* ---- plain ---- */

/* Cut at any page boundary the file is whole events, with the closing bracket or without. */
static void check_pages(struct file *f, size_t before)
{
	unsigned int last = 0;
	/* at some boundaries it is also parsed as JSON */
	size_t step = f->len / PAGE / cases(20, 4) + 1;

	for (size_t cut = PAGE; cut <= f->len; cut += PAGE) {
		size_t end = cut;

		while (end > before && f->text[end - 1] == '\n')
			end--;
		if (end <= before)
			continue; /* no event yet */
		if (f->text[end - 1] != '}')
			fail_msg("page boundary %zu: %.60s", cut, f->text + end - 59);
		if (cut / PAGE % step == 0) {
			char *copy = malloc(cut + 2);
			unsigned int n;

			memcpy(copy, f->text, cut);
			n = count_events(copy, cut);
			assert_true(n >= last && n <= f->events);
			copy[cut] = ']';
			assert_int_equal(count_events(copy, cut + 1), n);
			last = n;
			free(copy);
		}
	}
}

static size_t draw_size(void)
{
	switch (draw(5)) {
	case 0:
		return PAGE - draw(8);
	case 1:
		return 50 + draw(PAGE - 50);
	default:
		return 50 + draw(400);
	}
}

TEST(test_plain)
{
	static const size_t befores[] = { 0, 1, PAGE - 1, PAGE, 5000 };

	for (size_t i = 0; i < sizeof(befores) / sizeof(befores[0]); i++) {
		struct file f;
		uint64_t size;

		file_open(&f, WRITER_PLAIN, befores[i]);
		for (unsigned int k = 0; k < 400; k++) {
			put_event(&f, draw_size());
			if (!draw(20))
				assert_int_equal(writer_flush(f.w), 0);
			assert_true(writer_pending(f.w) < TEXT_MAX);
		}
		put_end(&f);
		size = writer_size(f.w, 0);
		assert_int_equal(writer_size(f.w, 5), size + 5);
		assert_int_equal(writer_sync(f.w), 0);
		assert_true(writer_bytes(f.w) > 0);
		assert_int_equal(writer_pending(f.w), 0);
		assert_false(writer_stalls(f.w));
		file_read(&f);
		assert_int_equal(size, f.len);
		assert_int_equal(writer_bytes(f.w), f.len - befores[i]);
		file_close(&f);
		assert_int_equal(count_events(f.text, f.len), f.events);
		check_pages(&f, befores[i]);
		file_done(&f);
	}
}

/* Sizes that just fit a page, and that just do not. */
TEST(test_plain_edges)
{
	for (size_t size = PAGE - 3; size <= PAGE; size++) {
		for (size_t first = PAGE - 3; first <= PAGE; first++) {
			struct file f;

			file_open(&f, WRITER_PLAIN, 0);
			put_event(&f, first);
			for (int i = 0; i < 5; i++)
				put_event(&f, size);
			file_close(&f);
			assert_int_equal(count_events(f.text, f.len), f.events);
			check_pages(&f, 0);
			file_done(&f);
		}
	}
}

/* The second event exactly fills the first page, or is a byte too long or too short for it. */
TEST(test_plain_gaps)
{
	for (size_t gap = 60; gap < 70; gap++) {
		for (size_t size = gap - 1; size <= gap + 1; size++) {
			struct file f;

			file_open(&f, WRITER_PLAIN, 0);
			put_event(&f, PAGE - gap);
			put_event(&f, size);
			put_event(&f, 1000);
			file_close(&f);
			assert_int_equal(count_events(f.text, f.len), f.events);
			check_pages(&f, 0);
			/* not a byte more padding than needed */
			assert_int_equal(f.len, size > gap ? PAGE + size + 1000 : PAGE + 1000);
			file_done(&f);
		}
	}
}

/* Larger than a page: page boundaries cannot hold, but all is there. Many, so that the end of the writer's buffer is used. */
TEST(test_plain_large)
{
	struct file f;

	file_open(&f, WRITER_PLAIN, 0);
	for (int i = 0; i < 400; i++)
		put_event(&f, draw(4) ? WRITER_EVENT_MAX : draw_size());
	put_end(&f);
	assert_int_equal(writer_close(f.w), 0);
	assert_int_equal(f.largest, WRITER_EVENT_MAX);
	file_read(&f);
	assert_int_equal(count_events(f.text, f.len), f.events);
	file_done(&f);
}

/* A pipe has no pages: what goes in comes out. */
TEST(test_pipe)
{
	static char out[1 << 16];
	struct file f = {};
	int fds[2];
	ssize_t n;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	f.w = writer_new(fds[1], "pipe", WRITER_PLAIN);
	writer_set_tail(f.w, "\n]\n", 3); /* written once, at the end */
	for (int i = 0; i < 10; i++) {
		put_event(&f, 3000);
		assert_int_equal(writer_sync(f.w), 0);
	}
	assert_int_equal(writer_close(f.w), 0);
	n = read(fds[0], out, sizeof(out));
	assert_true(n > 10 * 2990 && n <= 10 * 3000 + 3);
	assert_null(memmem(out, (size_t)n, "\n\n", 2));
	assert_int_equal(count_events(out, (size_t)n), 10);
	close(fds[0]);
}

/* ---- lines ---- */

static char line[3 << 20]; /* larger than the writer's buffer */

static size_t make_line(unsigned int number, size_t len)
{
	size_t n = (size_t)sprintf(line, "%u:%zu:", number, len);

	for (size_t i = n; i < n + len; i++)
		line[i] = (char)('!' + draw(90)); /* so it hardly gets smaller */
	line[n + len] = '\n';
	return n + len + 1;
}

/* Whole lines, in order, and nothing else. Returns their number. */
static unsigned int check_lines(const char *text, size_t len)
{
	const char *p = text;
	unsigned int n = 0;

	while (p < text + len) {
		size_t fill;
		char *x;

		/* not sscanf(), which finds the end of the whole text first */
		assert_int_equal(strtoul(p, &x, 10), n++);
		assert_int_equal(*x, ':');
		fill = strtoul(x + 1, &x, 10);
		assert_int_equal(*x, ':');
		p = x + 1;
		assert_true(fill < (size_t)(text + len - p));
		assert_int_equal(strcspn(p, "\n"), fill);
		assert_int_equal(p[fill], '\n');
		p += fill + 1;
	}
	return n;
}

TEST(test_lines)
{
	static const size_t large[] = { 0, (1 << 20) - 20, 1 << 20, 2 << 20 };
	struct file f;
	size_t sum = 0, n;

	file_open(&f, WRITER_LINES, 0);
	for (unsigned int i = 0; i < 2000; i++) {
		n = make_line(i, i % 500 == 77 ? large[i / 500] : draw(500));
		writer_append(f.w, line, n);
		sum += n;
	}
	assert_int_equal(writer_sync(f.w), 0);
	assert_int_equal(writer_bytes(f.w), sum);
	file_close(&f);
	assert_int_equal(f.len, sum); /* no padding */
	assert_int_equal(check_lines(f.text, f.len), 2000);
	file_done(&f);
}

/* ---- gzip ---- */

struct members {
	char *text;
	size_t len;
	unsigned int n, empty;
};

static void append_text(struct members *m, const char *p, size_t len)
{
	assert_true(m->len + len < TEXT_MAX);
	memcpy(m->text + m->len, p, len);
	m->len += len;
}

/* Decodes each member separately; checks its place and contents. */
static void read_members(const struct file *f, struct members *m, bool strict)
{
	static char out[TEXT_MAX];
	size_t at = 0;

	*m = (struct members){ .text = malloc(TEXT_MAX) };
	while (at < f->len) {
		size_t text, len = unpack_member(f->text + at, f->len - at, out, sizeof(out), &text);

		if (strict && len <= PAGE)
			assert_int_equal(at / PAGE, (at + len - 1) / PAGE);
		at += len;
		m->n++;
		m->empty += !text;
		if (!text)
			continue;
		/* whole events, separator first */
		if (m->len)
			assert_true(!memcmp(out, ",\n{", 3) || !strncmp(out, "\n]\n", 3));
		assert_true(out[text - 1] == '}' || !memcmp(out + text - 3, "\n]\n", 3));
		append_text(m, out, text);
	}
	m->text[m->len] = 0;
}

TEST(test_gzip)
{
	static const size_t befores[] = { 0, PAGE, 2 * PAGE };
	struct members m;

	for (size_t i = 0; i < sizeof(befores) / sizeof(befores[0]); i++) {
		struct file f;

		file_open(&f, WRITER_GZIP, 0);
		for (int k = 0; k < 3000; k++) {
			put_event(&f, k % 300 ? 50 + draw(400) : draw_size());
			/* from single events to full buffers in a flush */
			if (!draw(i ? 500 : 3))
				assert_int_equal(writer_flush(f.w), 0);
		}
		put_end(&f);
		assert_int_equal(writer_sync(f.w), 0);
		file_read(&f);
		assert_int_equal(writer_bytes(f.w), f.len);
		assert_int_equal(writer_close(f.w), 0);
		read_members(&f, &m, true);
		assert_int_equal(count_events(m.text, m.len), f.events);
		assert_null(memmem(m.text, m.len, "\n\n", 2)); /* no padding inside */
		assert_true(f.len < m.len);
		free(m.text);

		/* cut at page boundaries, as a kill does: whole members */
		for (size_t cut = PAGE; cut < f.len; cut += PAGE * cases(7, 60)) {
			struct file part = { .text = f.text, .len = cut };

			read_members(&part, &m, true);
			assert_int_equal(count_events(f.text, cut), count_events(m.text, m.len));
			free(m.text);
		}
		file_done(&f);
	}
}

/* The text of members that are lines each. */
static char *read_line_members(const struct file *f, size_t *ret_len)
{
	char *text = malloc(TEXT_MAX);
	size_t at = 0, len = 0, n, part;

	while (at < f->len) {
		n = unpack_member(f->text + at, f->len - at, text + len, TEXT_MAX - len, &part);
		if (n <= PAGE)
			assert_int_equal(at / PAGE, (at + n - 1) / PAGE);
		at += n;
		len += part;
		assert_true(!part || text[len - 1] == '\n');
	}
	*ret_len = len;
	return text;
}

TEST(test_lines_gzip)
{
	struct file f;
	size_t len;
	char *text;

	file_open(&f, WRITER_LINES_GZIP, 0);
	for (unsigned int i = 0; i < 1000; i++) {
		writer_append(f.w, line, make_line(i, i % 300 == 77 ? 300000 + draw(500000) : draw(500)));
		if (!draw(i < 500 ? 5 : 100))
			assert_int_equal(writer_flush(f.w), 0);
	}
	assert_int_equal(writer_sync(f.w), 0);
	file_close(&f);
	text = read_line_members(&f, &len);
	assert_int_equal(check_lines(text, len), 1000);
	free(text);
	file_done(&f);
}

/* What a run that was killed has left of a member goes before more is appended. */
TEST(test_lines_gzip_appended)
{
	unsigned int n;
	struct file f;
	size_t len;
	char *text;

	for (int i = 0; i < 20; i++) {
		file_open(&f, WRITER_LINES_GZIP, 0);
		for (n = 0; n < 100; n++) {
			writer_append(f.w, line, make_line(n, draw(500)));
			writer_flush(f.w);
		}
		file_close(&f);
		assert_int_equal(ftruncate(f.fd, (off_t)(f.len / 2 + draw((unsigned int)f.len / 2))), 0);
		assert_int_equal(writer_cut_member(f.fd), 0);
		file_read(&f);
		text = read_line_members(&f, &len);
		n = check_lines(text, len);
		assert_in_range(n, 30, 99);
		free(text);
		f.w = writer_new(dup(f.fd), "the file", WRITER_LINES_GZIP);
		assert_int_equal(lseek(f.fd, 0, SEEK_END), f.len);
		writer_append(f.w, line, make_line(n, 10));
		file_close(&f);
		text = read_line_members(&f, &len);
		assert_int_equal(check_lines(text, len), n + 1);
		free(text);
		file_done(&f);
	}
	file_open(&f, WRITER_LINES, 0);
	assert_int_equal(writer_cut_member(f.fd), 0); /* empty */
	writer_append(f.w, line, make_line(0, 100));
	file_close(&f);
	assert_int_equal(writer_cut_member(f.fd), -EBADMSG);
	file_done(&f);
}

/* Damage is not cut off, nor is a long member, nor what another program has written. */
TEST(test_lines_gzip_kept)
{
	static const char bad[] = "this is no member, and not a part of one";
	struct file f;
	size_t len;
	char *text;

	file_open(&f, WRITER_LINES_GZIP, 0);
	for (unsigned int i = 0; i < 3; i++)
		writer_append(f.w, line, make_line(i, i == 1 ? 2 << 20 : 100));
	file_close(&f);
	assert_int_equal(writer_cut_member(f.fd), 0);
	assert_int_equal(lseek(f.fd, 0, SEEK_END), f.len);
	assert_int_equal(pwrite(f.fd, bad, sizeof(bad), (off_t)f.len), sizeof(bad));
	assert_int_equal(writer_cut_member(f.fd), -EBADMSG);
	assert_int_equal(lseek(f.fd, 0, SEEK_END), f.len + sizeof(bad));
	file_done(&f);
	/* any place in a page */
	for (size_t at = PAGE - 30; at < PAGE + 30; at++) {
		gzFile z;

		file_open(&f, WRITER_PLAIN, 0);
		assert_int_equal(writer_close(f.w), 0);
		z = gzdopen(dup(f.fd), "w0");
		gzwrite(z, line, (unsigned int)make_line(0, at - 28 - strlen("0:4000:\n")));
		gzclose(z);
		file_read(&f);
		assert_in_range(f.len, at - 10, at + 10);
		assert_int_equal(writer_cut_member(f.fd), 0);
		f.w = writer_new(dup(f.fd), "the file", WRITER_LINES_GZIP);
		assert_int_equal(lseek(f.fd, 0, SEEK_END), f.len);
		for (unsigned int i = 1; i < 200; i++) {
			writer_append(f.w, line, make_line(i, draw(300)));
			writer_flush(f.w);
		}
		file_close(&f);
		text = malloc(TEXT_MAX);
		len = 0;
		for (size_t from = 0, part; from < f.len; len += part)
			from += unpack_member(f.text + from, f.len - from, text + len, TEXT_MAX - len, &part);
		assert_int_equal(check_lines(text, len), 200);
		free(text);
		file_done(&f);
	}
}

/* Events larger than a page, barely compressible. */
TEST(test_gzip_large)
{
	struct members m;
	struct file f;

	file_open(&f, WRITER_GZIP, 0);
	for (int i = 0; i < 300; i++) {
		put_event(&f, draw(3) ? WRITER_EVENT_MAX : 50 + draw(3000));
		if (!draw(10))
			assert_int_equal(writer_flush(f.w), 0);
	}
	put_end(&f);
	file_close(&f);
	read_members(&f, &m, false);
	assert_int_equal(count_events(m.text, m.len), f.events);
	free(m.text);
	file_done(&f);
}

/* ---- an end that is always there ---- */

#define TAIL "\n]\n"

static void check_ended(struct file *f, enum writer_mode mode)
{
	struct members m = {};
	const char *text;

	file_read(f);
	if (mode == WRITER_GZIP)
		read_members(f, &m, false);
	text = m.text ? m.text : f->text;
	assert_string_equal(text + strlen(text) - strlen(TAIL), TAIL);
	assert_ptr_equal(strstr(text, TAIL), text + strlen(text) - strlen(TAIL)); /* and nowhere else */
	assert_int_equal(count_events(text, strlen(text)), f->events);
	free(m.text);
}

/* After each write the file is complete, and the next write continues where the tail was. */
TEST(test_tail)
{
	static const enum writer_mode modes[] = { WRITER_PLAIN, WRITER_GZIP };

	for (size_t i = 0; i < 2; i++) {
		struct file f;

		file_open(&f, modes[i], 0);
		writer_set_tail(f.w, TAIL, strlen(TAIL));
		for (unsigned int k = 0; k < 100; k++) {
			for (unsigned int n = draw(5); n < 5; n++)
				put_event(&f, draw_size());
			if (k == 50 && modes[i] == WRITER_PLAIN)
				writer_set_tail(f.w, "\n\n\n" TAIL, strlen("\n\n\n" TAIL));
			assert_int_equal(writer_sync(f.w), 0);
			check_ended(&f, modes[i]);
		}
		assert_int_equal(writer_close(f.w), 0);
		check_ended(&f, modes[i]);
		file_done(&f);
	}
}

TEST(test_nothing)
{
	static const enum writer_mode modes[] = { WRITER_PLAIN, WRITER_GZIP, WRITER_LINES, WRITER_LINES_GZIP };

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		struct file f;

		file_open(&f, modes[i], 0);
		assert_int_equal(writer_flush(f.w), 0);
		assert_int_equal(writer_sync(f.w), 0);
		assert_int_equal(writer_bytes(f.w), 0);
		file_close(&f);
		assert_int_equal(f.len, 0);
		file_done(&f);
	}
	assert_int_equal(writer_close(NULL), 0);
}

/* ---- writes that fail ---- */

struct outcome {
	int flushed, again, closed;
	uint64_t bytes;
};

/* Writes up to the limit and beyond. No assertions here: they would hit the limit too. */
static struct outcome write_limited(struct file *f, enum writer_mode mode, size_t limit)
{
	struct outcome out = {};

	stderr_grab_begin(&said);
	limit_files(limit);
	for (unsigned int i = 0; i < 2000; i++) {
		if (mode == WRITER_LINES)
			writer_append(f->w, line, make_line(f->events++, draw(800)));
		else
			put_event(f, 50 + draw(800));
		if (!draw(100))
			writer_flush(f->w);
	}
	if (mode != WRITER_LINES)
		put_end(f);
	out.flushed = writer_sync(f->w);
	out.again = writer_flush(f->w);
	out.bytes = writer_bytes(f->w);
	out.closed = writer_close(f->w);
	limit_files(RLIM_INFINITY);
	stderr_grab_end(&said);
	return out;
}

static void check_limited(enum writer_mode mode, size_t limit)
{
	struct members m = {};
	struct outcome out;
	unsigned int n;
	struct file f;

	file_open(&f, mode, 0);
	out = write_limited(&f, mode, limit);
	assert_int_equal(out.flushed, -EFBIG);
	assert_int_equal(out.again, -EFBIG);
	assert_int_equal(out.closed, -EFBIG);
	/* once, however often it is tried */
	assert_string_equal(said.text, "inftrace: cannot write the file: File too large" VALID);
	file_read(&f);
	assert_true(f.len <= limit);
	assert_true(f.len + 2 * PAGE > limit); /* no more is cut than needed */
	assert_int_equal(out.bytes, f.len);
	switch (mode) {
	case WRITER_LINES:
		n = check_lines(f.text, f.len);
		break;
	case WRITER_GZIP:
		read_members(&f, &m, true);
		n = count_events(m.text, m.len);
		free(m.text);
		break;
	default:
		n = count_events(f.text, f.len);
		while (f.len && f.text[f.len - 1] == '\n')
			f.len--;
		assert_int_equal(f.text[f.len - 1], '}');
	}
	assert_true(n > 0 && n < f.events);
	file_done(&f);
}

/* Where an event was cut off there is the tail, if there is room. */
TEST(test_limit_tail)
{
	unsigned int ended = 0;

	for (unsigned int i = 0; i < cases(20, 5); i++) {
		struct file f;

		file_open(&f, WRITER_PLAIN, 0);
		writer_set_tail(f.w, TAIL, strlen(TAIL));
		assert_int_equal(write_limited(&f, WRITER_PLAIN, 3 * PAGE + draw(40 * PAGE)).closed, -EFBIG);
		file_read(&f);
		assert_int_equal(strlen(f.text), f.len); /* nothing is left out */
		ended += !strcmp(f.text + f.len - strlen(TAIL), TAIL);
		assert_true(count_events(f.text, f.len) > 0);
		file_done(&f);
	}
	assert_true(ended > 0);
}

TEST(test_limit)
{
	for (unsigned int i = 0; i < cases(20, 5); i++) {
		size_t limit = 3 * PAGE + draw(40 * PAGE);

		if (i % 4 == 0)
			limit -= limit % PAGE;
		check_limited(WRITER_PLAIN, limit);
		check_limited(WRITER_LINES, limit);
		check_limited(WRITER_GZIP, limit);
	}
}

/* Not a single event fits: the file is as it was. */
TEST(test_limit_at_once)
{
	struct outcome out;
	struct file f;

	for (size_t more = 0; more <= 2; more += 2) { /* two bytes of it fit */
		file_open(&f, WRITER_LINES, 10);
		out = write_limited(&f, WRITER_LINES, 10 + more);
		assert_int_equal(out.flushed, -EFBIG);
		assert_int_equal(out.bytes, 0);
		file_read(&f);
		assert_string_equal(f.text, "          ");
		file_done(&f);
	}
}

/* Two recordings append to one profile: the one that hits the limit cuts only its own lines. */
TEST(test_limit_shared)
{
	char path[64];
	struct writer *w;
	struct file f;
	size_t n;
	int fd, err;

	file_open(&f, WRITER_LINES, 0);
	assert_int_equal(writer_close(f.w), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f.fd);
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_true(fd >= 0);
	w = writer_new(fd, "the file", WRITER_LINES);
	n = make_line(0, 100);
	assert_int_equal(pwrite(f.fd, line, n, 0), n); /* the other's, from a descriptor of its own */
	writer_append(w, line, make_line(1, 100));
	assert_int_equal(writer_sync(w), 0);
	writer_append(w, line, make_line(2, 500));
	limit_files(400);
	err = GRABBED(said, writer_sync(w));
	limit_files(RLIM_INFINITY);
	assert_int_equal(err, -EFBIG);
	assert_int_equal(writer_close(w), -EFBIG);
	file_read(&f);
	assert_int_equal(check_lines(f.text, f.len), 2);
	file_done(&f);
}

static void check_broken(int fd, enum writer_mode mode, int error, const char *message)
{
	struct file f = {};
	int flushed, closed;

	assert_true(fd >= 0);
	f.w = writer_new(fd, "it", mode);
	stderr_grab_begin(&said);
	for (int i = 0; i < 10000; i++)
		put_event(&f, 300);
	flushed = writer_sync(f.w);
	closed = writer_close(f.w);
	stderr_grab_end(&said);
	assert_int_equal(flushed, error);
	assert_int_equal(closed, error);
	assert_string_equal(said.text, message);
}

TEST(test_broken)
{
	static const enum writer_mode modes[] = { WRITER_PLAIN, WRITER_GZIP };
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < 2; i++) {
		check_broken(open("/dev/full", O_WRONLY | O_CLOEXEC), modes[i], -ENOSPC, "inftrace: cannot write it: No space left on device" VALID);
		assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
		close(fds[0]);
		check_broken(fds[1], modes[i], -EPIPE, "inftrace: cannot write it: Broken pipe" VALID);
		check_broken(open("/dev/null", O_RDONLY | O_CLOEXEC), modes[i], -EBADF, "inftrace: cannot write it: Bad file descriptor" VALID);
	}
}

RUN_TESTS(NULL, NULL)
