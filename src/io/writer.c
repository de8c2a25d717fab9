// SPDX-License-Identifier: BSD-2-Clause
#include "io/writer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "util/log.h"

#define BUFFER_SIZE (1 << 20)
#define PAGE_BYTES 4096 /* the smallest page: larger ones end at its multiples */

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
	unsigned char *zbuf;
	size_t zcap;
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
		/* level 1: a few times smaller already, and fast enough to keep up */
		if (deflateInit2(&w->z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
			goto out;
		w->zcap = deflateBound(&w->z, BUFFER_SIZE);
		w->zbuf = malloc(w->zcap);
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

/* A write that failed half-way left a torn event: the file ends before it again. */
static void cut_torn(struct writer *w, const char *data, size_t done, uint64_t offset)
{
	if (!w->regular || !done)
		return;
	if (w->mode == WRITER_GZIP) {
		done = 0;
	} else if (w->mode == WRITER_PLAIN) {
		/* events are told apart by ",\n", and have no other newline in them */
		while (done && !(done >= 2 && data[done - 1] == '\n' && data[done - 2] == ','))
			done--;
		done = done ? done - 2 : 0;
	} else {
		while (done && data[done - 1] != '\n')
			done--;
	}
	if (ftruncate(w->fd, (off_t)(offset + done)))
		log_warn("cannot cut the torn end of %s: %s", w->name, strerror(errno));
}

static int write_all(struct writer *w, const char *data, size_t len)
{
	uint64_t start = w->offset;
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(w->fd, data + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			w->error = n < 0 ? -errno : -EIO;
			log_error("cannot write %s: %s" ERROR_HINT, w->name, strerror(-w->error));
			cut_torn(w, data, done, start);
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

static int write_member(struct writer *w)
{
	deflateReset(&w->z);
	w->z.next_in = (unsigned char *)w->buf;
	w->z.avail_in = (unsigned int)w->used;
	w->z.next_out = w->zbuf;
	w->z.avail_out = (unsigned int)w->zcap;
	if (deflate(&w->z, Z_FINISH) != Z_STREAM_END) {
		w->error = -EIO;
		log_error("cannot compress %s", w->name);
		return w->error;
	}
	return write_all(w, (const char *)w->zbuf, w->zcap - w->z.avail_out);
}

int writer_flush(struct writer *w)
{
	int err = w->error;

	if (!err && w->used)
		err = w->mode == WRITER_GZIP ? write_member(w) : write_all(w, w->buf, w->used);
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
