// SPDX-License-Identifier: BSD-2-Clause
/*
 * Kills a process in the middle of its writes, many times, and looks at what is in the file: only
 * whole events may be there, in every mode of the writer.
 *
 *   writer_kill plain|gzip|lines|packets FILE ROUNDS
 *
 * Prints the number of rounds, of files that did not end as they must, and of bytes. The child
 * does nothing but write, so most kills hit a write(2); a recording spends a few thousandths of
 * its time there. Packets are compressed: readers tolerate a torn one at the end, but no torn member.
 */
#include "../program.h"

#include <zlib.h>

#include "io/writer.h"

#define FILE_MAX (64u << 20) /* bytes; the child starts anew after that */
#define TEXT_MAX (1u << 30)  /* of a whole file, unpacked */

static enum writer_mode mode;
static uint64_t seed = 88172645463325252ull;

/* xorshift64 (Marsaglia, 2003): the same on every machine */
static unsigned int draw(unsigned int below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned int)(seed % below);
}

/* An event contains its length, and ends with its only '}'. */
static int make_event(char *buf, unsigned int number)
{
	int len = sprintf(buf, "{\"n\":%u,\"len\":", number);
	unsigned int fill = draw(8) ? 60 + draw(200) : draw(2000);
	unsigned int total = (unsigned int)len + 5 + 6 + fill + 2;

	len += sprintf(buf + len, "%5u,\"f\":\"", total);
	memset(buf + len, 'a' + (int)draw(26), fill);
	len += (int)fill;
	len += sprintf(buf + len, "\"}");
	return len;
}

static void write_until_killed(const char *path)
{
	char line[WRITER_EVENT_MAX], *p;
	struct writer *w = NULL;
	int fd;

	for (unsigned int n = 0;; n++) {
		if (!w) {
			fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
			must(fd >= 0, path);
			w = writer_new(fd, path, mode);
		}
		if (writer_full(w))
			writer_sync(w);
		if (mode == WRITER_LINES) {
			int len = make_event(line, n);

			line[len] = '\n';
			writer_append(w, line, (size_t)len + 1);
		} else if (mode == WRITER_PACKETS_GZIP) {
			int len;

			p = writer_reserve(w);
			len = make_event(p + 3, n);
			p[0] = '\n'; /* field 1, of bytes */
			p[1] = (char)(len | 0x80);
			p[2] = (char)(len >> 7);
			writer_commit(w, p + 3 + len);
		} else {
			p = writer_reserve(w);
			p = stpcpy(p, writer_bytes(w) + writer_pending(w) ? ",\n" : "[\n");
			writer_commit(w, p + make_event(p, n));
		}
		if (!draw(500) && writer_flush(w))
			exit(1);
		if (writer_bytes(w) < FILE_MAX)
			continue;
		if (writer_close(w))
			exit(1);
		w = NULL;
	}
}

/* Unpacks all members. Returns false when the last one is not whole. */
static bool unpack(const unsigned char *data, size_t len, char *text, size_t *ret_len)
{
	z_stream z = { .next_in = (unsigned char *)data, .avail_in = (unsigned int)len };
	int err = Z_STREAM_END;

	must(inflateInit2(&z, 15 + 16) == Z_OK, "inflateInit2");
	z.next_out = (unsigned char *)text;
	z.avail_out = TEXT_MAX;
	while (z.avail_in && err == Z_STREAM_END) {
		inflateReset(&z);
		err = inflate(&z, Z_NO_FLUSH);
	}
	*ret_len = TEXT_MAX - z.avail_out;
	inflateEnd(&z);
	return err == Z_STREAM_END;
}

/* Whether the text is a sequence of whole events; with an end between two of them. */
static bool whole(const char *text, size_t len)
{
	const char *p = text, *end = text + len, *close, *total;

	while (p < end) {
		if (strchr("[,\n ]", *p)) {
			p += mode == WRITER_PACKETS_GZIP ? 3 : 1;
			continue;
		}
		close = memchr(p, '}', (size_t)(end - p));
		total = memchr(p, ',', (size_t)(end - p)); /* "len" is the second member */
		if (*p != '{' || !close || !total || total + 7 > close ||
			close + 1 != p + strtoul(total + 7, NULL, 10))
			return false;
		p = close + 1;
	}
	return true;
}

static bool check(const char *path, char *text, size_t *ret_bytes)
{
	int fd = open(path, O_RDONLY);
	off_t len = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	bool good = true;
	size_t text_len = 0;
	char *data;

	if (len <= 0) { /* killed before its first write */
		if (fd >= 0)
			close(fd);
		return true;
	}
	data = mmap(NULL, (size_t)len, PROT_READ, MAP_PRIVATE, fd, 0);
	must(data != MAP_FAILED, path);
	close(fd);
	*ret_bytes += (size_t)len;
	if (mode == WRITER_GZIP || mode == WRITER_PACKETS_GZIP) {
		good = unpack((unsigned char *)data, (size_t)len, text, &text_len);
	} else {
		memcpy(text, data, (size_t)len);
		text_len = (size_t)len;
	}
	text[text_len] = 0;
	munmap(data, (size_t)len);
	return good && whole(text, text_len);
}

int main(int argc, char **argv)
{
	unsigned int rounds, torn = 0;
	size_t bytes = 0;
	char *text;

	if (argc != 4) {
		fprintf(stderr, "usage: writer_kill plain|gzip|lines|packets FILE ROUNDS\n");
		return 2;
	}
	mode = argv[1][0] == 'l' ? WRITER_LINES :
	       argv[1][0] == 'g' ? WRITER_GZIP :
	       argv[1][1] == 'a' ? WRITER_PACKETS_GZIP :
				   WRITER_PLAIN;
	rounds = (unsigned int)atoi(argv[3]);
	text = pages_map(TEXT_MAX, MAP_PRIVATE | MAP_NORESERVE);
	for (unsigned int i = 0; i < rounds; i++) {
		unsigned int ns = 1000000 + draw(14000000);
		pid_t pid;

		unlink(argv[2]);
		pid = fork();
		must(pid >= 0, "fork");
		if (!pid) {
			for (; i; i--)
				draw(2);
			write_until_killed(argv[2]);
		}
		sleep_for(ns);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		torn += !check(argv[2], text, &bytes);
	}
	unlink(argv[2]);
	printf("%s: %u rounds, %u torn, %zu bytes\n", argv[1], rounds, torn, bytes);
	return torn != 0;
}
