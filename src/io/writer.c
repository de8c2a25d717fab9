// SPDX-License-Identifier: BSD-2-Clause
#include "io/writer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "util/log.h"

#define BUFFER_SIZE (1 << 20)
#define PAGE_BYTES 4096 /* the smallest page: larger ones end at its multiples */

/* RFC 1952, section 2.3 */
#define MEMBER_HEADER 10
#define MEMBER_TRAILER 8
#define MEMBER_F_EXTRA 0x04
#define MEMBER_F_COMMENT 0x10
#define MEMBERS_SIZE (64 * PAGE_BYTES) /* compressed bytes that go out in one write */
#define MEMBER_GAP_MIN 512	       /* less room in a page is not worth a member */
#define RATIO_ONE 32

#define LAST_CHANCE_MS 1000

#define ERROR_HINT "; the file is valid up to here"

struct writer {
	int fd;
	enum writer_mode mode;
	bool regular; /* padding has a meaning */
	char *name;
	char *buf;
	size_t used;
	uint64_t offset; /* in the file, of the buffer's first byte */
	uint64_t start;	 /* size of the file when it was opened */
	int error;
	z_stream z;
	unsigned char *zbuf; /* whole members */
	size_t zused;
	size_t ratio; /* by which a page's text was compressed, in RATIO_ONE: a guess for the next */
};

int writer_new(int fd, const char *name, enum writer_mode mode, struct writer **ret_writer)
{
	struct writer *w = calloc(1, sizeof(*w));
	struct stat st;

	if (!w)
		return -ENOMEM;
	w->fd = fd;
	w->mode = mode;
	w->regular = !fstat(fd, &st) && S_ISREG(st.st_mode);
	if (w->regular)
		w->start = w->offset = (uint64_t)st.st_size;
	w->name = strdup(name);
	w->buf = malloc(BUFFER_SIZE);
	if (!w->name || !w->buf)
		goto out;
	if (mode == WRITER_GZIP) {
		/* level 1: a few times smaller already, and fast enough to keep up; raw, since the
		 * members get headers of ours */
		if (deflateInit2(&w->z, 1, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
			goto out;
		w->ratio = 6 * RATIO_ONE; /* of little text; that of much comes to 10 and more */
		w->zbuf = malloc(MEMBERS_SIZE);
		if (!w->zbuf) {
			deflateEnd(&w->z);
			goto out;
		}
	}
	*ret_writer = w;
	return 0;
out:
	free(w->buf);
	free(w->name);
	free(w);
	return -ENOMEM;
}

int writer_close(struct writer *w)
{
	int err;

	if (!w)
		return 0;
	err = writer_flush(w);
	if (w->fd != STDOUT_FILENO && close(w->fd) && !err) {
		err = -errno;
		log_error("cannot write %s: %s", w->name, strerror(errno));
	}
	if (w->mode == WRITER_GZIP)
		deflateEnd(&w->z);
	free(w->zbuf);
	free(w->buf);
	free(w->name);
	free(w);
	return err;
}

char *writer_reserve(struct writer *w)
{
	/* twice the size: an event may be moved behind a page boundary */
	if (w->used + 2 * WRITER_EVENT_MAX > BUFFER_SIZE)
		writer_flush(w);
	return w->buf + w->used;
}

void writer_commit(struct writer *w, const char *end)
{
	size_t len = (size_t)(end - (w->buf + w->used));
	uint64_t start = w->offset + w->used;
	size_t gap = PAGE_BYTES - start % PAGE_BYTES;

	if (w->mode == WRITER_PLAIN && w->regular && len > gap && len <= PAGE_BYTES) {
		char *p = w->buf + w->used;

		memmove(p + gap, p, len);
		memset(p, '\n', gap);
		len += gap;
	}
	w->used += len;
}

/* The length of the whole packets: each has a key of one byte and its length behind it. */
static size_t packets_within(const char *data, size_t len)
{
	size_t keep = 0;

	for (;;) {
		size_t i = keep + 1, n = 0;
		int shift = 0;

		while (i < len && data[i] & 0x80 && shift < 28) {
			n |= (size_t)(data[i++] & 0x7f) << shift;
			shift += 7;
		}
		if (i >= len)
			return keep;
		n |= (size_t)(data[i++] & 0x7f) << shift;
		if (n > len - i)
			return keep;
		keep = i + n;
	}
}

/* A write that failed half-way left a torn event: the file ends before it again. */
static void cut_torn(struct writer *w, const char *data, size_t done)
{
	/* not the offset: others may append to the file too */
	off_t end = lseek(w->fd, 0, SEEK_CUR);
	size_t keep = done;

	if (!w->regular || !done)
		return;
	if (w->mode == WRITER_GZIP) {
		/* of the members in this page one may be torn, those before are whole */
		size_t in_page = w->offset % PAGE_BYTES;

		keep = done > in_page ? done - in_page : 0;
	} else if (w->mode == WRITER_PLAIN) {
		/* events are told apart by ",\n", and have no other newline in them */
		while (keep && !(keep >= 2 && data[keep - 1] == '\n' && data[keep - 2] == ','))
			keep--;
		keep = keep ? keep - 2 : 0;
	} else if (w->mode == WRITER_PACKETS) {
		keep = packets_within(data, done);
	} else {
		while (keep && data[keep - 1] != '\n')
			keep--;
	}
	if (end < 0 || ftruncate(w->fd, end - (off_t)(done - keep)))
		log_warn("cannot cut the torn end of %s: %s", w->name, strerror(errno));
	else
		w->offset -= done - keep;
}

static volatile sig_atomic_t last_signal;

static void on_signal(int sig)
{
	last_signal = sig;
}

/*
 * A pipe may be full, and its reader may never read again, while the signals that end a recording
 * are blocked and wait to be read elsewhere. Here they end the wait: the signal is left for its
 * reader, and the pipe gets a last chance.
 */
static int wait_writable(struct writer *w)
{
	static const int ending[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction sa = { .sa_handler = on_signal }, old[3];
	struct pollfd p = { .fd = w->fd, .events = POLLOUT };
	sigset_t mask;
	int n, err;

	if (poll(&p, 1, 0) == 1)
		return 0;
	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (int i = 0; i < 3; i++) {
		sigdelset(&mask, ending[i]);
		sigaction(ending[i], &sa, &old[i]);
	}
	n = ppoll(&p, 1, NULL, &mask);
	err = n < 0 ? errno : 0;
	for (int i = 0; i < 3; i++)
		sigaction(ending[i], &old[i], NULL);
	if (err != EINTR)
		return -err;
	raise(last_signal);
	return poll(&p, 1, LAST_CHANCE_MS) ? 0 : -ETIMEDOUT;
}

static int write_all(struct writer *w, const char *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		/* what a pipe that is writable takes without waiting */
		size_t part = w->regular || len - done < PIPE_BUF ? len - done : PIPE_BUF;
		int err = w->regular ? 0 : wait_writable(w);
		ssize_t n = err ? -1 : write(w->fd, data + done, part);

		if (err)
			errno = -err;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			w->error = n < 0 ? -errno : -EIO;
			log_error("cannot write %s: %s" ERROR_HINT, w->name,
				err == -ETIMEDOUT ? "nobody reads it" : strerror(-w->error));
			cut_torn(w, data, done);
			return w->error;
		}
		done += (size_t)n;
		w->offset += (uint64_t)n;
	}
	return 0;
}

void writer_append(struct writer *w, const char *data, size_t len)
{
	if (w->used + len > BUFFER_SIZE)
		writer_flush(w);
	if (len > BUFFER_SIZE) {
		if (!w->error)
			write_all(w, data, len);
		return;
	}
	memcpy(w->buf + w->used, data, len);
	w->used += len;
}

/* ---- gzip: members of which none lies across a page boundary ---- */

static unsigned char *put_le32(unsigned char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++, v >>= 8)
		*p++ = (unsigned char)v;
	return p;
}

/* A header of MEMBER_HEADER + pad bytes. */
static unsigned char *put_header(unsigned char *p, size_t pad)
{
	static const unsigned char head[MEMBER_HEADER] = { 0x1f, 0x8b, Z_DEFLATED };

	memcpy(p, head, sizeof(head));
	if (pad)
		p[3] = pad < 6 ? MEMBER_F_COMMENT : MEMBER_F_EXTRA;
	p += sizeof(head);
	if (pad >= 6) { /* one subfield, its name is ours */
		p[0] = (unsigned char)(pad - 2);
		p[1] = (unsigned char)((pad - 2) >> 8);
		p[2] = 'I';
		p[3] = 'T';
		p[4] = (unsigned char)(pad - 6);
		p[5] = (unsigned char)((pad - 6) >> 8);
		memset(p + 6, 0, pad - 6);
	} else if (pad) {
		memset(p, ' ', pad - 1);
		p[pad - 1] = 0;
	}
	return p + pad;
}

/*
 * Appends the events as one member of at most `room` bytes. When it leaves too little of the page
 * for another one, and when it is empty, it is stretched to the end of the page. Returns false,
 * and appends nothing, when the events need more room.
 */
static bool add_member(struct writer *w, const char *data, size_t len, size_t room)
{
	unsigned char *start = w->zbuf + w->zused, *p;
	size_t n, rest;

	deflateReset(&w->z);
	w->z.next_in = (unsigned char *)data;
	w->z.avail_in = (unsigned int)len;
	w->z.next_out = start + MEMBER_HEADER;
	w->z.avail_out = (unsigned int)(room - MEMBER_HEADER - MEMBER_TRAILER);
	if (deflate(&w->z, Z_FINISH) != Z_STREAM_END)
		return false;
	n = w->z.total_out;
	rest = PAGE_BYTES -
	       (w->offset + w->zused + MEMBER_HEADER + n + MEMBER_TRAILER) % PAGE_BYTES;
	if (rest == PAGE_BYTES || (len && rest >= MEMBER_GAP_MIN))
		rest = 0;
	memmove(start + MEMBER_HEADER + rest, start + MEMBER_HEADER, n);
	p = put_header(start, rest) + n;
	p = put_le32(p, (uint32_t)crc32(0, (const unsigned char *)data, (unsigned int)len));
	p = put_le32(p, (uint32_t)len);
	w->zused = (size_t)(p - w->zbuf);
	return true;
}

/* Where the last event ends that ends within the limit, or else the first one. */
static size_t events_within(const char *data, size_t len, size_t limit)
{
	const char *p;

	if (len <= limit)
		return len;
	/* events are told apart by ",\n", and have no other newline in them */
	p = memrchr(data + 2, '\n', limit > 2 ? limit - 2 : 0);
	if (!p)
		p = memchr(data + 2, '\n', len - 2);
	return p && p[-1] == ',' ? (size_t)(p - data) - 1 : len;
}

/* Appends as many events as go into the page, or none and fills it up. Returns their length. */
static size_t fill_page(struct writer *w, const char *data, size_t left)
{
	size_t gap = PAGE_BYTES - (w->offset + w->zused) % PAGE_BYTES;
	size_t len = events_within(data, left, gap * w->ratio / RATIO_ONE), shorter;

	while (!add_member(w, data, len, gap)) {
		shorter = events_within(data, len, len - len / 4);
		if (shorter < len) {
			len = shorter;
		} else if (gap < PAGE_BYTES) {
			add_member(w, data, 0, gap);
			return 0;
		} else {
			gap = 3 * PAGE_BYTES; /* one event that is larger than a page, and does not compress */
		}
	}
	/* a little less, so that the next guess is rarely too long */
	if (gap == PAGE_BYTES)
		w->ratio = len * (RATIO_ONE - 2) / (w->z.total_out + MEMBER_HEADER) + 1;
	return len;
}

static int write_members(struct writer *w)
{
	size_t done = 0;
	int err = 0;

	while (done < w->used && !err) {
		done += fill_page(w, w->buf + done, w->used - done);
		if (done < w->used && w->zused + 3 * PAGE_BYTES <= MEMBERS_SIZE)
			continue;
		err = write_all(w, (const char *)w->zbuf, w->zused);
		w->zused = 0;
	}
	return err;
}

int writer_flush(struct writer *w)
{
	int err = w->error;

	if (!err && w->used)
		err = w->mode == WRITER_GZIP ? write_members(w) : write_all(w, w->buf, w->used);
	w->used = 0;
	return err;
}

uint64_t writer_bytes(const struct writer *w)
{
	return w->offset - w->start;
}

size_t writer_pending(const struct writer *w)
{
	return w->used;
}
