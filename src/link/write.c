// SPDX-License-Identifier: BSD-2-Clause
/* The archive. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io/outfile.h"
#include "io/zip_writer.h"
#include "link/link.h"
#include "util/zip_format.h"
#include "util/text.h"

/* Part of a name: what is neither a letter nor a digit of ASCII, nor one of these, becomes "_". */
static size_t put_part(char *out, size_t size, const char *part)
{
	size_t n = 0;

	for (; *part && n + 1 < size; part++) {
		bool plain = (*part >= '0' && *part <= '9') || (*part >= 'a' && *part <= 'z') || (*part >= 'A' && *part <= 'Z') ||
			     *part == '-' || *part == '+' || *part == '=' || (*part == '.' && n);

		out[n++] = plain ? *part : '_';
	}
	out[n] = 0;
	return n;
}

static bool is_taken(const struct link *l, size_t i)
{
	for (size_t j = 0; j < i; j++) {
		if (!strcmp(l->list[i]->member, l->list[j]->member))
			return true;
	}
	return !strcmp(l->list[i]->member, ARCHIVE_MANIFEST);
}

static void name_member(struct link *l, size_t i)
{
	const char *slash = strrchr(l->list[i]->file.path, '/');
	const char *base = slash ? slash + 1 : l->list[i]->file.path;
	struct linked *d = l->list[i];
	const char *host = link_file_timed(&d->file) ? (l->n_hosts > 1 ? l->hosts[d->host] : NULL) : d->file.given_host;
	size_t n = 0, size = sizeof(d->member);

	if (!link_file_timed(&d->file)) {
		n = sizeof(ARCHIVE_BESIDE) - 1;
		memcpy(d->member, ARCHIVE_BESIDE, n);
	}
	if (host) {
		n += put_part(d->member + n, 128, host);
		d->member[n++] = '/';
	}
	put_part(d->member + n, size - n, base);
	for (unsigned int k = 2; is_taken(l, i) && k <= LINK_FILES_MAX + 2; k++) {
		size_t digits = (size_t)snprintf(d->member + n, size - n, "%u-", k);

		put_part(d->member + n + digits, size - n - digits, base);
	}
}

static int add_file(struct link *l, struct zip_writer *zip, const struct linked *d)
{
	char why[ZIP_WHY_MAX], name[256];
	int err, fd = open(d->file.path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat sb;

	text_printable(name, sizeof(name), d->file.path);
	if (fd < 0)
		return link_fail(l, -errno, "%s: cannot open: %s", name, strerror(errno));
	err = fstat(fd, &sb) ? -errno : zip_writer_file(zip, d->member, fd, sb.st_mtime, why);
	if (err)
		link_fail(l, err, "%s: %s", name, why);
	close(fd);
	return err;
}

static int add_all(struct link *l, struct zip_writer *zip, const char *name)
{
	char why[ZIP_WHY_MAX], *manifest = link_manifest(l);
	int err;

	if (!manifest)
		return link_fail(l, -ENOMEM, "out of memory");
	err = zip_writer_text(zip, ARCHIVE_MANIFEST, manifest, strlen(manifest), time(NULL), why);
	free(manifest);
	if (err)
		return link_fail(l, err, "cannot write %s: %s", name, why);
	for (size_t i = 0; !err && i < l->n; i++)
		err = add_file(l, zip, l->list[i]);
	if (err)
		return err;
	err = zip_writer_finish(zip, why);
	return err ? link_fail(l, err, "cannot write %s: %s", name, why) : 0;
}

/* An input must not be written over. */
static int check_output(struct link *l, int fd, const char *name)
{
	struct stat out;

	if (fstat(fd, &out))
		return link_fail(l, -errno, "cannot write %s: %s", name, strerror(errno));
	if (!S_ISREG(out.st_mode))
		return link_fail(l, -EINVAL, "cannot write %s: an archive can only be written to a file", name);
	for (size_t i = 0; i < l->n; i++) {
		if (outfile_is_input(&out, l->list[i]->file.path))
			return link_fail(l, -EINVAL, "cannot write %s: it is one of the files to be linked", name);
	}
	return ftruncate(fd, 0) ? link_fail(l, -errno, "cannot write %s: %s", name, strerror(errno)) : 0;
}

int link_write(struct link *l, const char *path, uint64_t *ret_bytes)
{
	char why[OUTFILE_WHY_MAX], name[256];
	struct zip_writer *zip = NULL;
	bool created, begun = false;
	struct stat sb;
	int fd, err;

	text_printable(name, sizeof(name), path);
	for (size_t i = 0; i < l->n; i++)
		name_member(l, i);
	fd = outfile_open(path, 0, &created, why);
	if (fd < 0)
		return link_fail(l, fd, "cannot write %s: %s", name, why);
	err = check_output(l, fd, name);
	begun = !err;
	if (!err && zip_writer_new(fd, &zip))
		err = link_fail(l, -ENOMEM, "out of memory");
	if (!err)
		err = add_all(l, zip, name);
	if (!err && (fstat(fd, &sb) || fsync(fd)))
		err = link_fail(l, -errno, "cannot write %s: %s", name, strerror(errno));
	zip_writer_free(zip);
	/* half an archive is none */
	if (err && created)
		outfile_unlink(path);
	else if (err && begun && ftruncate(fd, 0))
		err = -errno;
	close(fd);
	if (!err)
		*ret_bytes = (uint64_t)sb.st_size;
	return err;
}
