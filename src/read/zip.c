// SPDX-License-Identifier: BSD-2-Clause
#include "read/zip.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/zip_writer.h"
#include "util/alloc.h"

bool zip_is(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char magic[4] = "";
	struct stat sb;
	bool is;

	if (fd < 0)
		return false;
	is = !fstat(fd, &sb) && S_ISREG(sb.st_mode) && pread(fd, magic, 4, 0) == 4 &&
	     (!memcmp(magic, "PK\3\4", 4) || !memcmp(magic, "PK\5\6", 4));
	close(fd);
	return is;
}

int zip_read(const char *path, struct zip **ret_zip, size_t *ret_n, char why[ZIP_ERROR_MAX])
{
	struct zip *zip;
	zip_error_t error;
	zip_int64_t n;
	int code, err;

	zip = zip_open(path, ZIP_RDONLY, &code);
	n = zip ? zip_get_num_entries(zip, 0) : 0;
	if (zip && n <= ZIP_MEMBERS_MAX) {
		*ret_zip = zip;
		*ret_n = (size_t)n;
		return 0;
	}
	if (zip) {
		zip_discard(zip);
		snprintf(why, ZIP_ERROR_MAX, "the archive has more than %d files", ZIP_MEMBERS_MAX);
		return -E2BIG;
	}
	zip_error_init_with_code(&error, code);
	err = code == ZIP_ER_NOENT ? -ENOENT : -zip_error_code_system(&error);
	if (code == ZIP_ER_NOZIP)
		snprintf(why, ZIP_ERROR_MAX, "the archive is cut off: the directory at its end is missing");
	else
		snprintf(why, ZIP_ERROR_MAX, "cannot open: %s", err ? strerror(-err) : zip_error_strerror(&error));
	zip_error_fini(&error);
	return err ?: -EBADMSG;
}

const char *zip_name(struct zip *zip, size_t i)
{
	return zip_get_name(zip, i, ZIP_FL_ENC_RAW) ?: "";
}

/* ---- members ---- */

struct member_stream {
	struct json_stream stream;
	zip_file_t *file; /* NULL: it cannot be read */
};

static ssize_t member_read(struct json_stream *stream, void *buf, size_t len, const char **ret_why)
{
	struct member_stream *s = (struct member_stream *)stream;
	ssize_t n = s->file ? zip_fread(s->file, buf, len) : -1;
	int code = s->file ? zip_error_code_zip(zip_file_get_error(s->file)) : 0;

	if (n >= 0)
		return n;
	*ret_why = !s->file ? "cannot be read from the archive: encrypted, compressed by an unknown method, or damaged"
		   : code == ZIP_ER_CRC || code == ZIP_ER_INCONS
			   ? "damaged within the archive: its size or checksum is not that of the directory"
			   : "damaged within the archive";
	return -EBADMSG;
}

static void member_close(struct json_stream *stream)
{
	struct member_stream *s = (struct member_stream *)stream;

	if (s->file)
		zip_fclose(s->file);
	free(s);
}

int zip_member(struct zip *zip, size_t i, struct json_source *source)
{
	struct member_stream *s = xcalloc(1, sizeof(*s));

	s->stream = (struct json_stream){ member_read, member_close };
	s->file = zip_fopen_index(zip, i, 0);
	return json_source_open_stream(source, &s->stream);
}
