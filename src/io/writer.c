// SPDX-License-Identifier: BSD-2-Clause
#include "io/writer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "io/outfile.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/thread.h"

#define BLOCK_SIZE \
	((256u << 10) - 64)             /* with its header and malloc's slightly less than 64 pages */
#define ROOM_MIN (2 * WRITER_EVENT_MAX) /* an event may be moved beyond a page boundary */
#define SPARES_MAX 2                    /* one being filled, one being written */
#define THREAD_STACK (128u << 10)
#define GZIP_RATIO 8 /* assumed until it is known */

#define IDLE_MS 1000           /* spare blocks are freed after that */
#define LOOK_MS 100            /* a waiting caller checks this often whether to go on waiting */
#define STALLS_MS 50           /* creating another file there would stall, too */
#define STALLED_MS 5000        /* nobody seems to read it */
#define FREE_MS 250            /* free space is checked this often, since others write, too */
#define FREE_BYTES (16u << 20) /* and at least once for this many bytes written */
#define LAST_CHANCE_MS 1000    /* after a stop signal */

#define PAGE_BYTES 4096 /* the smallest page size: larger pages end at its multiples */
/* RFC 1952, section 2.3 */
#define MEMBER_HEADER 10
#define MEMBER_TRAILER 8
#define MEMBER_F_EXTRA 0x04
#define MEMBER_F_COMMENT 0x10
#define MEMBER_GAP_MIN 512           /* smaller gaps in a page do not get a member */
#define LARGE_BYTES (3 * PAGE_BYTES) /* holds any event, even one that does not compress; a line may be longer */
#define MEMBERS_BYTES (64 * PAGE_BYTES)
#define RATIO_ONE 32

/*
 * A block is filled by the caller and written by the thread at the same time: the caller only appends,
 * and never touches again what it has handed over. When a block is full, the next one is begun.
 */
struct writer_block {
	struct writer_block *next; /* set when this one is full */
	size_t size;
	size_t ready; /* handed over */
	size_t done;  /* written */
	char data[];
};

struct writer {
	/* the caller's part */
	enum writer_mode mode;
	bool regular; /* padding makes sense, and writes cannot be waited for */
	bool started; /* the thread exists */
	bool said;    /* the error was printed */
	struct writer_block *cur;
	char *pos, *end;    /* the free room in it */
	char *reserved;     /* pos or spill */
	uint64_t start;     /* size of the file when it was opened */
	uint64_t committed; /* bytes, including padding */
	uint64_t handed;    /* of these, handed to the thread */
	uint64_t handed_ns; /* when the oldest bytes that may still wait were handed over */
	uint64_t dropped;
	struct thread thread;
	char *name;

	pthread_mutex_t lock;
	pthread_cond_t more, all;   /* conditions: more is ready; all is written */
	struct writer_block *first; /* the list of blocks, up to cur */
	struct writer_block *spares;
	unsigned int n_spares;
	bool waiting; /* for `more` */
	bool ending, abandoned;
	char tail[WRITER_TAIL_MAX];
	size_t tail_len;

	_Atomic size_t memory;        /* of all blocks; changed with the lock */
	_Atomic uint64_t written;     /* of the committed bytes; includes those discarded after an error */
	_Atomic uint64_t bytes;       /* in the file */
	_Atomic uint64_t progress_ns; /* when bytes last went out */
	atomic_bool give_up;
	atomic_int error, cut_error;
	_Atomic uint64_t missed_floor; /* bytes that should stay free and do not; 0: they do */

	/* the thread's part */
	int fd;
	uint64_t offset; /* in the file */
	struct gzip *gzip;
	struct writer_floor floor;
	uint64_t look_offset, look_ns; /* when free space is checked again */

	char spill[ROOM_MIN]; /* for events that are dropped */
};

static struct timespec deadline_in_ms(unsigned int ms)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += ms / 1000;
	ts.tv_nsec += ms % 1000 * (long)NSEC_PER_MSEC;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_nsec -= 1000000000;
		ts.tv_sec++;
	}
	return ts;
}

/* ---- where events end ---- */

/* Events are separated by ",\n" and contain no newline; each begins with the separator or with
 * "[\n", preceded by newlines for padding. */
static size_t json_within(const char *text, size_t len, size_t limit)
{
	/* includes the separator after an event that ends at the limit */
	const char *end = len - limit > 2 ? text + limit + 2 : text + len, *p;

	while (end > text + 2 && (p = memrchr(text + 2, '\n', (size_t)(end - text) - 2))) {
		if (p[-1] == ',' && p > text + 2)
			return (size_t)(p - text) - 1;
		end = p;
	}
	for (p = text + limit; p < text + len && (p = memchr(p, '\n', (size_t)(text + len - p)));
		p++) {
		if (p > text + 2 && p[-1] == ',')
			return (size_t)(p - text) - 1;
	}
	return len;
}

static size_t lines_within(const char *text, size_t len, size_t limit)
{
	const char *p = memrchr(text, '\n', limit);

	if (!p)
		p = memchr(text + limit, '\n', len - limit);
	return p ? (size_t)(p - text) + 1 : len;
}

/* The length of the first packet: a key of one byte, the length, and as many bytes as it says. */
static size_t packet_length(const char *text, size_t len)
{
	size_t i = 1, n = 0;
	int shift = 0;

	while (i < len && text[i] & 0x80 && shift < 28) {
		n |= (size_t)(text[i++] & 0x7f) << shift;
		shift += 7;
	}
	if (i < len)
		n |= (size_t)(uint8_t)text[i++] << shift;
	return n < len - i ? i + n : len;
}

static size_t packets_within(const char *text, size_t len, size_t limit)
{
	size_t end = packet_length(text, len), next;

	while (end < limit) {
		next = end + packet_length(text + end, len - end);
		if (next > limit)
			break;
		end = next;
	}
	return end;
}

size_t framing_within(enum writer_mode mode, const char *text, size_t len, size_t limit)
{
	if (len <= limit)
		return len;
	switch (mode) {
	case WRITER_PLAIN:
	case WRITER_GZIP:
		return json_within(text, len, limit);
	case WRITER_LINES:
	case WRITER_LINES_GZIP:
		return lines_within(text, len, limit);
	default:
		return packets_within(text, len, limit);
	}
}

/* ---- members ---- */

/*
 * Events as gzip members, none of which crosses a page boundary of the file, so that a file cut at
 * one consists of whole members.
 */
struct gzip {
	enum writer_mode mode;
	z_stream z;
	uint64_t offset; /* in the file, of the first member */
	size_t used;
	size_t ratio; /* how far a page's text was compressed, in RATIO_ONE: a guess for the next */
	unsigned char *members; /* grows for a line that is longer */
	size_t size;
};

static unsigned char *put_le32(unsigned char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++, v >>= 8)
		*p++ = (unsigned char)v;
	return p;
}

/* Writes a header of MEMBER_HEADER + pad bytes. */
static unsigned char *put_header(unsigned char *p, size_t pad)
{
	static const unsigned char head[MEMBER_HEADER] = { 0x1f, 0x8b, Z_DEFLATED };

	memcpy(p, head, sizeof(head));
	if (pad)
		p[3] = pad < 6 ? MEMBER_F_COMMENT : MEMBER_F_EXTRA;
	p += sizeof(head);
	if (pad >= 6) { /* one subfield, with a name of our own */
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
 * Appends the events as one member of at most `room` bytes. If it leaves too little of the page for
 * another one, or if there are no events, it is padded to the end of the page. Returns false and
 * appends nothing when the events need more room.
 */
static bool gzip_add_member(struct gzip *g, const char *text, size_t len, size_t room)
{
	unsigned char *start = g->members + g->used, *p;
	size_t n, rest;

	deflateReset(&g->z);
	g->z.next_in = (unsigned char *)text;
	g->z.avail_in = (unsigned int)len;
	g->z.next_out = start + MEMBER_HEADER;
	g->z.avail_out = (unsigned int)(room - MEMBER_HEADER - MEMBER_TRAILER);
	if (deflate(&g->z, Z_FINISH) != Z_STREAM_END)
		return false;
	n = g->z.total_out;
	rest = PAGE_BYTES - (g->offset + g->used + MEMBER_HEADER + n + MEMBER_TRAILER) % PAGE_BYTES;
	if (rest == PAGE_BYTES || (len && rest >= MEMBER_GAP_MIN))
		rest = 0;
	memmove(start + MEMBER_HEADER + rest, start + MEMBER_HEADER, n);
	p = put_header(start, rest) + n;
	p = put_le32(p, (uint32_t)crc32(0, (const unsigned char *)text, (unsigned int)len));
	p = put_le32(p, (uint32_t)len);
	g->used = (size_t)(p - g->members);
	return true;
}

/* Appends as many events as fit into the page, or if none fits fills it up. Returns their length. */
static size_t fill_page(struct gzip *g, const char *text, size_t left)
{
	size_t gap = PAGE_BYTES - (g->offset + g->used) % PAGE_BYTES, len, shorter;

	if (gap < MEMBER_GAP_MIN) /* only behind what another program has compressed */
		gap += PAGE_BYTES;
	len = framing_within(g->mode, text, left, gap * g->ratio / RATIO_ONE);
	while (!gzip_add_member(g, text, len, gap)) {
		shorter = framing_within(g->mode, text, len, len - len / 4);
		if (shorter < len) {
			len = shorter;
		} else if (gap < PAGE_BYTES) {
			gzip_add_member(g, text, 0, gap);
			return 0;
		} else { /* one event that is larger than a page and does not compress */
			gap = deflateBound(&g->z, len) + MEMBER_HEADER + MEMBER_TRAILER;
			if (g->used + gap + PAGE_BYTES > g->size) {
				g->size = g->used + gap + PAGE_BYTES;
				g->members = xreallocarray(g->members, g->size, 1);
			}
		}
	}
	/* slightly less, so that the next guess is rarely too long */
	if (gap == PAGE_BYTES)
		g->ratio = len * (RATIO_ONE - 2) / (g->z.total_out + MEMBER_HEADER) + 1;
	return len;
}

/*
 * Compresses whole events from the beginning of the text, to be written at this offset of the file:
 * all of them, or as many as fit one write. Returns the length of their text; the members are in
 * *ret_bytes until the next call.
 */
static size_t gzip_pack(struct gzip *g, uint64_t offset, const char *text, size_t len,
	const char **ret_bytes, size_t *ret_len)
{
	size_t done = 0;

	g->offset = offset;
	g->used = 0;
	while (done < len && g->used + LARGE_BYTES <= g->size)
		done += fill_page(g, text + done, len - done);
	*ret_bytes = (const char *)g->members;
	*ret_len = g->used;
	return done;
}

/* ---- the thread: writes ---- */

/* A write that failed half-way left a torn event: cuts the file off before it. */
static void writer_cut_torn(struct writer *w, const char *data, size_t len, size_t done)
{
	/* not w->offset: others may append to the file, too */
	off_t end = lseek(w->fd, 0, SEEK_CUR);
	size_t keep;

	if (!w->regular || !done)
		return;
	if (w->gzip) {
		/* one of the members in this page may be torn, earlier ones are whole */
		size_t in_page = w->offset % PAGE_BYTES;

		keep = done > in_page ? done - in_page : 0;
	} else {
		keep = framing_within(w->mode, data, len, done);
		keep = keep > done ? 0 : keep;
	}
	if (end < 0 || ftruncate(w->fd, end - (off_t)(done - keep)))
		w->cut_error = errno;
	else
		w->offset -= done - keep;
}

/* A pipe may be full, and its reader may never read again. */
static int wait_writable(struct writer *w)
{
	struct pollfd p = { .fd = w->fd, .events = POLLOUT };

	while (!w->give_up && poll(&p, 1, LOOK_MS) <= 0)
		;
	return w->give_up ? -ETIMEDOUT : 0;
}

static int writer_write_all(struct writer *w, const char *data, size_t len)
{
	size_t done = 0;
	int err = 0;

	while (done < len && !err) {
		/* the amount that a writable pipe takes without blocking */
		size_t part = w->regular || len - done < PIPE_BUF ? len - done : PIPE_BUF;
		ssize_t n;

		err = w->regular ? 0 : wait_writable(w);
		if (err)
			break;
		n = write(w->fd, data + done, part);
		if (n < 0 && (errno == EINTR || (errno == EAGAIN && !w->regular)))
			continue;
		if (n <= 0) {
			err = n < 0 ? -errno : -EIO;
			break;
		}
		done += (size_t)n;
		w->offset += (uint64_t)n;
		atomic_store_explicit(&w->bytes, w->offset - w->start, memory_order_relaxed);
		atomic_store_explicit(&w->progress_ns, clock_mono_ns(), memory_order_relaxed);
	}
	if (err) {
		writer_cut_torn(w, data, len, done);
		atomic_store_explicit(&w->bytes, w->offset - w->start, memory_order_relaxed);
	}
	return err;
}

static int write_members(struct writer *w, const char *data, size_t len)
{
	const char *members;
	size_t done = 0, n;
	int err = 0;

	while (done < len && !err) {
		done += gzip_pack(w->gzip, w->offset, data + done, len - done, &members, &n);
		err = writer_write_all(w, members, n);
	}
	return err;
}

/* Returns how many bytes have to stay free; 0: no limit. */
static uint64_t floor_bytes(const struct writer_floor *f, const struct statvfs *fs)
{
	uint64_t part = (uint64_t)((double)fs->f_blocks * (double)fs->f_frsize * f->percent / 100);

	if (!f->bytes || !part)
		return f->bytes + part;
	return part < f->bytes ? part : f->bytes;
}

static int check_free(struct writer *w)
{
	uint64_t now = clock_mono_ns(), left, least;
	struct statvfs fs;

	if (!w->regular || (!w->floor.bytes && w->floor.percent <= 0) ||
		(w->offset < w->look_offset && now < w->look_ns))
		return 0;
	if (fstatvfs(w->fd, &fs) || !fs.f_blocks)
		return 0;
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	least = floor_bytes(&w->floor, &fs);
	if (left < least) {
		w->missed_floor = least;
		return -ENOSPC;
	}
	left -= least;
	w->look_offset = w->offset + (left / 2 < FREE_BYTES ? left / 2 : FREE_BYTES);
	w->look_ns = now + FREE_MS * NSEC_PER_MSEC;
	return 0;
}

/* Ends the file with the tail, which the next write overwrites. */
static int write_tail(struct writer *w)
{
	uint64_t offset = w->offset;
	char tail[WRITER_TAIL_MAX];
	size_t len;
	int err;

	pthread_mutex_lock(&w->lock);
	len = w->regular ? w->tail_len : 0;
	memcpy(tail, w->tail, len);
	pthread_mutex_unlock(&w->lock);
	if (!len)
		return 0;
	lseek(w->fd, (off_t)offset, SEEK_SET); /* a torn event may have been cut off */
	err = w->gzip ? write_members(w, tail, len) : writer_write_all(w, tail, len);
	lseek(w->fd, (off_t)offset, SEEK_SET);
	w->offset = offset;
	atomic_store_explicit(&w->bytes, w->offset - w->start, memory_order_relaxed);
	return err;
}

/* After an error everything else is discarded. */
static void writer_write_block(struct writer *w, const char *data, size_t len)
{
	int err;

	if (!w->error && w->give_up)
		w->error = -ETIMEDOUT;
	if (!w->error)
		w->error = check_free(w);
	if (w->error)
		return;
	atomic_store_explicit(&w->progress_ns, clock_mono_ns(), memory_order_relaxed);
	err = w->gzip ? write_members(w, data, len) : writer_write_all(w, data, len);
	err = write_tail(w) ?: err;
	if (err)
		w->error = err;
}

/* ---- the thread: blocks; with the lock ---- */

static void free_blocks(struct writer_block *b)
{
	while (b) {
		struct writer_block *next = b->next;

		free(b);
		b = next;
	}
}

static void put_block(struct writer *w, struct writer_block *b)
{
	if (b->size == BLOCK_SIZE && w->n_spares < SPARES_MAX) {
		b->next = w->spares;
		w->spares = b;
		w->n_spares++;
		return;
	}
	w->memory -= b->size;
	free(b);
}

static void wait_for_more(struct writer *w)
{
	struct timespec until = deadline_in_ms(IDLE_MS);

	pthread_cond_signal(&w->all);
	w->waiting = true;
	if (!w->n_spares) {
		pthread_cond_wait(&w->more, &w->lock);
	} else if (pthread_cond_timedwait(&w->more, &w->lock, &until) == ETIMEDOUT) {
		w->memory -= w->n_spares * (size_t)BLOCK_SIZE;
		free_blocks(w->spares);
		w->spares = NULL;
		w->n_spares = 0;
	}
	w->waiting = false;
}

static void writer_free(struct writer *w)
{
	free_blocks(w->first);
	free_blocks(w->spares);
	if (w->gzip) {
		deflateEnd(&w->gzip->z);
		free(w->gzip->members);
	}
	free(w->gzip);
	pthread_cond_destroy(&w->more);
	pthread_cond_destroy(&w->all);
	pthread_mutex_destroy(&w->lock);
	free(w->name);
	free(w);
}

static void *write_blocks(void *arg)
{
	struct writer *w = arg;
	bool abandoned;

	yield_join();
	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct writer_block *b = w->first;
		size_t len = b->ready - b->done;

		if (len) {
			pthread_mutex_unlock(&w->lock);
			writer_write_block(w, b->data + b->done, len);
			pthread_mutex_lock(&w->lock);
			b->done += len;
			atomic_fetch_add_explicit(&w->written, len, memory_order_release);
		} else if (b->next) {
			w->first = b->next;
			put_block(w, b);
		} else if (w->ending) {
			break;
		} else {
			wait_for_more(w);
		}
	}
	abandoned = w->abandoned;
	pthread_mutex_unlock(&w->lock);
	yield_leave();
	if (abandoned)
		writer_free(w);
	return NULL;
}

/* ---- the caller: blocks ---- */

/* NULL: over the limit. */
static struct writer_block *new_block(struct writer *w, size_t size)
{
	struct writer_block *b;

	if (size <= BLOCK_SIZE && w->spares) {
		b = w->spares;
		w->spares = b->next;
		w->n_spares--;
	} else {
		size = size > BLOCK_SIZE ? size : BLOCK_SIZE;
		if (size > WRITER_LIMIT - w->memory)
			return NULL;
		b = xmalloc(sizeof(*b) + size);
		w->memory += size;
		b->size = size;
	}
	b->next = NULL;
	b->ready = b->done = 0;
	return b;
}

/* Call with the lock. */
static void writer_hand_over(struct writer *w)
{
	int err;

	w->cur->ready = (size_t)(w->pos - w->cur->data);
	if (w->written == w->handed)
		w->handed_ns = clock_mono_ns();
	w->handed = w->committed;
	if (!w->started && !w->error && w->cur->ready) {
		err = thread_start(&w->thread, "inftrace-write", THREAD_STACK, write_blocks, w);
		w->started = !err;
		if (err)
			w->error = err;
	}
	if (w->waiting)
		pthread_cond_signal(&w->more);
}

/* Makes room for `size` bytes at w->pos. Returns false when there is none. */
static bool writer_make_room(struct writer *w, size_t size)
{
	struct writer_block *b = w->cur, *next = NULL;
	bool room;

	pthread_mutex_lock(&w->lock);
	if (b->done == (size_t)(w->pos - b->data)) {
		/* all is written: a slow writer reuses the same few pages again and again */
		b->ready = b->done = 0;
		w->pos = b->data;
	}
	w->end = b->data + b->size;
	room = (size_t)(w->end - w->pos) >= size;
	if (!room) {
		writer_hand_over(w);
		next = new_block(w, size);
	}
	if (next) {
		b->next = next;
		w->cur = next;
		w->pos = next->data;
		w->end = next->data + next->size;
	}
	pthread_mutex_unlock(&w->lock);
	return room || next;
}

char *writer_reserve(struct writer *w)
{
	if (w->end - w->pos >= ROOM_MIN || writer_make_room(w, ROOM_MIN))
		w->reserved = w->pos;
	else
		w->reserved = w->spill;
	return w->reserved;
}

bool writer_commit(struct writer *w, const char *end)
{
	size_t len = (size_t)(end - w->reserved);
	size_t gap = PAGE_BYTES - (w->start + w->committed) % PAGE_BYTES;

	if (w->reserved != w->pos) {
		w->dropped++;
		return false;
	}
	if (w->mode == WRITER_PLAIN && w->regular && len > gap && len <= PAGE_BYTES) {
		memmove(w->pos + gap, w->pos, len);
		memset(w->pos, '\n', gap);
		len += gap;
	}
	w->pos += len;
	w->committed += len;
	return true;
}

void writer_append(struct writer *w, const char *data, size_t len)
{
	if ((size_t)(w->end - w->pos) < len && !writer_make_room(w, len)) {
		w->dropped++;
		return;
	}
	memcpy(w->pos, data, len);
	w->pos += len;
	w->committed += len;
}

/* ---- the caller: errors ---- */

static int writer_report_error(struct writer *w)
{
	const char *valid = w->regular && !w->start && !w->bytes ? "nothing was written to it" : "the file is valid up to here";
	int err = w->error;

	if (!err || w->said)
		return err;
	w->said = true;
	if (w->missed_floor)
		return log_fail(err, "cannot write %s: less than %.*f MB is free on its file system, see --min-free; %s",
			w->name, w->missed_floor < 1000000 ? 3 : 0, (double)w->missed_floor / 1e6, valid);
	log_error("cannot write %s: %s; %s", w->name,
		err != -ETIMEDOUT ? strerror(-err)
		: w->regular      ? "it accepts no data"
				  : "nobody reads it",
		valid);
	if (w->cut_error)
		log_warn("cannot cut the torn end of %s: %s", w->name, strerror(w->cut_error));
	return err;
}

int writer_flush(struct writer *w)
{
	pthread_mutex_lock(&w->lock);
	writer_hand_over(w);
	pthread_mutex_unlock(&w->lock);
	w->end = w->pos; /* see writer_make_room() */
	return writer_report_error(w);
}

/* ---- the caller: the end ---- */

/* The signals that end a recording are read elsewhere: this leaves them pending. */
static bool end_signal_is_pending(void)
{
	sigset_t set;

	return !sigpending(&set) &&
	       (sigismember(&set, SIGINT) == 1 || sigismember(&set, SIGTERM) == 1 ||
		       sigismember(&set, SIGHUP) == 1);
}

static uint64_t latest_time(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Returns false when it takes too long. */
static bool wait_written(struct writer *w)
{
	uint64_t began = clock_mono_ns(), interrupted = 0;
	bool done = false, late = false;

	pthread_mutex_lock(&w->lock);
	while (!late) {
		struct timespec until = deadline_in_ms(LOOK_MS);
		uint64_t now, since, wait_ns = STALLED_MS * NSEC_PER_MSEC;

		done = w->written == w->committed || !w->started;
		if (done)
			break;
		pthread_cond_timedwait(&w->all, &w->lock, &until);
		now = clock_mono_ns();
		/* the thread may not have had a CPU since they were handed over */
		since = latest_time(w->progress_ns, w->handed_ns);
		if (!interrupted && end_signal_is_pending())
			interrupted = now;
		if (interrupted)
			late = now - latest_time(since, interrupted) >= LAST_CHANCE_MS * NSEC_PER_MSEC;
		else if (!w->regular) /* a disk may take its time */
			late = now >=
			       latest_time(since + wait_ns, began + LAST_CHANCE_MS * NSEC_PER_MSEC);
	}
	pthread_mutex_unlock(&w->lock);
	return done;
}

int writer_sync(struct writer *w)
{
	writer_flush(w);
	if (!wait_written(w)) {
		w->give_up = true;
		/* the thread has noticed, unless it is stuck within a write */
		if (!wait_written(w) && !w->error)
			w->error = -ETIMEDOUT;
	}
	return writer_report_error(w);
}

int writer_close(struct writer *w)
{
	bool abandoned;
	int err;

	if (!w)
		return 0;
	if (!w->regular)
		writer_append(w, w->tail, w->tail_len);
	err = writer_sync(w);
	pthread_mutex_lock(&w->lock);
	w->ending = true;
	if (w->waiting)
		pthread_cond_signal(&w->more);
	/* a stuck thread frees everything once the kernel lets go of it */
	abandoned = w->started && w->written != w->committed;
	w->abandoned = abandoned;
	if (abandoned)
		thread_detach(&w->thread);
	pthread_mutex_unlock(&w->lock);
	if (abandoned)
		return err;
	if (w->started)
		thread_join(&w->thread);
	if (w->fd != STDOUT_FILENO && close(w->fd) && !err) {
		err = -errno;
		log_error("cannot write %s: %s", w->name, strerror(errno));
	}
	writer_free(w);
	return err;
}

/* ---- the caller: the beginning ---- */

#define CUT_BYTES (64u << 10)     /* inflated at a time */
#define CUT_BACK_MAX (16 << 20) /* no member is longer */

/* Reads the members from `at` on. Returns where the last whole one ends (`at`: there is none), if nothing or a part of one follows;
 * -EBADMSG: something else does, or its text does not end with a line. */
static off_t members_end(int fd, off_t at, unsigned char *in, unsigned char *out)
{
	z_stream z = { 0 };
	off_t end = at;
	char last = '\n';
	int zret = Z_OK;
	ssize_t n;

	if (inflateInit2(&z, 15 + 16) != Z_OK)
		out_of_memory();
	while (zret == Z_OK && (n = pread(fd, in, CUT_BYTES, at)) > 0) {
		at += n;
		z.next_in = in;
		z.avail_in = (unsigned int)n;
		while (zret == Z_OK && z.avail_in) {
			z.next_out = out;
			z.avail_out = CUT_BYTES;
			zret = inflate(&z, Z_NO_FLUSH);
			if (z.avail_out < CUT_BYTES)
				last = (char)z.next_out[-1];
			if (zret == Z_STREAM_END) {
				end = at - z.avail_in;
				zret = last == '\n' ? inflateReset(&z) : Z_DATA_ERROR;
			}
		}
	}
	inflateEnd(&z);
	if (n < 0)
		return -errno;
	return zret == Z_OK ? end : -EBADMSG;
}

/*
 * Where the last whole member ends. Members begin at pages: the last page that begins with one, and from which on there are only
 * members, tells. A page within a long member does not look like that.
 */
static off_t find_members_end(int fd, off_t size, unsigned char *buf)
{
	static const unsigned char magic[] = { 0x1f, 0x8b, Z_DEFLATED };
	off_t page = (size - 1) / PAGE_BYTES * PAGE_BYTES, end = -EBADMSG;
	unsigned char head[sizeof(magic)];
	ssize_t n;

	for (; end == -EBADMSG && page >= 0 && size - page <= CUT_BACK_MAX + PAGE_BYTES; page -= PAGE_BYTES) {
		n = pread(fd, head, sizeof(head), page);
		if (n < 0)
			return -errno;
		if (!memcmp(head, magic, (size_t)n))
			end = members_end(fd, page, buf, buf + CUT_BYTES);
	}
	return end;
}

int writer_cut_member(int fd)
{
	int in = outfile_reopen(fd), err = in < 0 ? in : 0;
	unsigned char *buf = xmalloc(2 * CUT_BYTES);
	struct stat st;
	off_t end;

	if (!err && fstat(in, &st))
		err = -errno;
	if (!err && st.st_size) {
		end = find_members_end(in, st.st_size, buf);
		err = end < 0 ? (int)end : 0;
		if (!err && end < st.st_size && ftruncate(fd, end))
			err = -errno;
	}
	if (in >= 0)
		close(in);
	free(buf);
	return err;
}

struct writer *writer_new(int fd, const char *name, enum writer_mode mode)
{
	struct writer *w = xcalloc(1, sizeof(*w));
	pthread_condattr_t attr;
	struct stat st;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, &attr);
	pthread_cond_init(&w->all, &attr);
	pthread_condattr_destroy(&attr);
	w->fd = fd;
	w->mode = mode;
	w->regular = !fstat(fd, &st) && S_ISREG(st.st_mode);
	if (w->regular)
		w->start = w->offset = (uint64_t)st.st_size;
	w->name = xstrdup(name);
	w->first = w->cur = new_block(w, BLOCK_SIZE);
	if (mode == WRITER_GZIP || mode == WRITER_LINES_GZIP || mode == WRITER_PACKETS_GZIP) {
		w->gzip = xcalloc(1, sizeof(*w->gzip));
		w->gzip->mode = mode;
		w->gzip->size = MEMBERS_BYTES;
		w->gzip->members = xmalloc(MEMBERS_BYTES);
		w->gzip->ratio = 6 * RATIO_ONE; /* for a short text; long ones reach 10 and more */
		/* level 1 makes it several times smaller and is fast enough to keep up; raw, since the members get our own headers */
		if (deflateInit2(&w->gzip->z, 1, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
			out_of_memory();
	}
	w->pos = w->cur->data;
	w->end = w->pos + w->cur->size;
	return w;
}

void writer_set_tail(struct writer *w, const char *text, size_t len)
{
	pthread_mutex_lock(&w->lock);
	memcpy(w->tail, text, len);
	w->tail_len = len;
	pthread_mutex_unlock(&w->lock);
}

void writer_keep_free(struct writer *w, const struct writer_floor *floor)
{
	w->floor = *floor;
}

/* ---- the caller: queries ---- */

bool writer_full(const struct writer *w)
{
	return atomic_load_explicit(&w->memory, memory_order_relaxed) > WRITER_LIMIT - WRITER_SLACK;
}

uint64_t writer_dropped(const struct writer *w)
{
	return w->dropped;
}

uint64_t writer_bytes(const struct writer *w)
{
	return atomic_load_explicit(&w->bytes, memory_order_relaxed);
}

int writer_reopen(const struct writer *w)
{
	return w->regular ? outfile_reopen(w->fd) : -ENOENT;
}

bool writer_stalls(const struct writer *w)
{
	uint64_t progress = atomic_load_explicit(&w->progress_ns, memory_order_relaxed);
	uint64_t since = progress > w->handed_ns ? progress : w->handed_ns;

	return atomic_load_explicit(&w->written, memory_order_relaxed) < w->handed &&
	       clock_mono_ns() > since + STALLS_MS * NSEC_PER_MSEC;
}

uint64_t writer_size(const struct writer *w, size_t more)
{
	uint64_t bytes = writer_bytes(w);
	uint64_t written = atomic_load_explicit(&w->written, memory_order_relaxed);
	double ratio = 1.0 / GZIP_RATIO;

	if (!w->gzip)
		return w->start + w->committed + more;
	if (written >= BLOCK_SIZE)
		ratio = (double)bytes / (double)written;
	return w->start + bytes + (uint64_t)((double)(w->committed - written + more) * ratio);
}

size_t writer_pending(const struct writer *w)
{
	return w->committed - atomic_load_explicit(&w->written, memory_order_relaxed);
}
