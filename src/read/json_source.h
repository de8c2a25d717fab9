/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes of a file for the JSON readers: plain or gzip (by magic, not by name), from a file or from
 * memory, in one buffer that grows to the largest piece needed at once. */
#ifndef INFTRACE_JSON_SOURCE_H
#define INFTRACE_JSON_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define JSON_SOURCE_BUF (256 * 1024)

struct json_source {
	unsigned char *pos, *end; /* decoded, not consumed yet: the caller moves pos */
	bool gzip;
	uint64_t members; /* whole gzip members read */
	char error[160];  /* why the last call failed, fit to print */
	struct json_source_state *state;
};

/* Where bytes come from that are neither a file of their own nor in memory: a member of an archive, for example. */
struct json_stream {
	/* Returns how many bytes it read, at most len; 0 at the end; -errno with *ret_why, a text that stays valid. */
	ssize_t (*read)(struct json_stream *stream, void *buf, size_t len, const char **ret_why);
	void (*close)(struct json_stream *stream);
};

/*
 * Opens path ("-": standard input) or len bytes at data, which must outlive the source. On return
 * the first JSON_SOURCE_BUF bytes (or all, if fewer) are at pos. Returns 0 or -errno with
 * source->error set; call json_source_close in both cases.
 */
int json_source_open(struct json_source *source, const char *path);
int json_source_open_mem(struct json_source *source, const void *data, size_t len);
/* The same for a stream, which json_source_close closes in any case. */
int json_source_open_stream(struct json_source *source, struct json_stream *stream);
void json_source_close(struct json_source *source);

/* Reads more bytes after those not consumed yet, which may move and may be changed afterwards.
 * Returns 1 when there are more bytes, 0 at the end, -errno with source->error set: no memory, read
 * errors and gzip data that is damaged or cut inside a member (bytes from before the damage are
 * handed out first). */
int json_source_fill(struct json_source *source);

#endif
