// SPDX-License-Identifier: BSD-2-Clause
/* Reads the files of an archive of inftrace link: its profiles; or, if there are none, its Chrome traces. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "read/detect.h"
#include "read/json_source.h"
#include "read/zip.h"
#include "report/hosts.h"
#include "report/read.h"
#include "util/zip_format.h"

#define MACHINE_MAX 64
#define NOT_READ (-1) /* which has been said */

struct archive {
	struct zip zip;
	struct model *m;
	const char *path;
	char (*hosts)[MACHINE_MAX]; /* of the members */
	struct archive_hosts *places; /* the model's; NULL: there is no manifest */
	int *kinds;                   /* enum file_kind, or NOT_READ */
	struct read_problems *problems;
	struct read_notes *notes;
};

static void note(struct archive *a, const char *name, const char *why)
{
	char printable[256];

	a->notes->tell(a->notes->ctx, a->path, text_printable(printable, sizeof(printable), name), why);
}

/* Which hosts the traces are from, and how their clocks relate, as the manifest says. */
static int read_hosts(struct archive *a, const struct zip_member *manifest)
{
	struct json_source source;
	struct json_reader reader;
	const struct json_node *root;
	struct model *m = a->m;
	int err = 0;

	json_reader_init(&reader, &source);
	if (!a->places && !zip_source(&a->zip, manifest, &source) && !json_reader_value(&reader, &root)) {
		err = array_reserve(&m->archives, m->n_archives + 1, &m->archives_size, sizeof(*m->archives));
		if (!err)
			err = archive_hosts_new(m, root, &a->places);
		if (!err)
			m->archives[m->n_archives++] = a->places;
	}
	for (size_t i = 0; !err && a->places && i < a->zip.n; i++) {
		const struct archive_file *f = archive_file(a->places, a->zip.members[i].name);

		if (f)
			snprintf(a->hosts[i], MACHINE_MAX, "%s", model_text(m, a->places->list[f->host].name));
	}
	json_reader_free(&reader);
	json_source_close(&source);
	return err;
}

/* Profiles are below the name of their host, if it was given. */
static void host_of_profile(struct archive *a, size_t i)
{
	const char *name = a->zip.members[i].name + sizeof(ARCHIVE_BESIDE) - 1, *slash;

	if (strncmp(a->zip.members[i].name, ARCHIVE_BESIDE, sizeof(ARCHIVE_BESIDE) - 1))
		return;
	slash = strchr(name, '/');
	if (slash)
		snprintf(a->hosts[i], MACHINE_MAX, "%.*s", (int)(slash - name), name);
}

/* What a member is; of what cannot be reported, that. */
static int member_kind(struct archive *a, const struct zip_member *m)
{
	struct json_source source;
	int kind = NOT_READ;
	const char *why = NULL;
	char buf[160];

	if (zip_source(&a->zip, m, &source)) {
		read_problem(a->problems, "%s: %s", m->name, source.error);
	} else {
		kind = file_detect(&source, buf, sizeof(buf), &why);
		if (kind >= FILE_EXECUTION_TRACE) {
			note(a, m->name, "it is an execution trace, which has no times");
			kind = NOT_READ;
		}
	}
	json_source_close(&source);
	return kind;
}

static int read_member(struct archive *a, size_t i)
{
	const struct zip_member *m = &a->zip.members[i];
	struct json_source source;
	char label[512], printable[256];
	int err = 0;

	snprintf(label, sizeof(label), "%s: %s", a->path, text_printable(printable, sizeof(printable), m->name));
	if (zip_source(&a->zip, m, &source)) {
		read_problem(a->problems, "%s: %s", printable, source.error);
	} else {
		err = model_name(a->m, a->hosts[i], &a->m->host);
		if (!err && a->kinds[i] == FILE_PROFILE)
			err = read_profile(a->m, &source, label, a->problems);
		else if (!err)
			err = read_trace(a->m, &source, label, a->problems);
	}
	a->m->host = 0;
	json_source_close(&source);
	return err;
}

static bool is_name(const struct zip_member *m, const char *name)
{
	return !strcmp(m->name, name);
}

/* What a trace has of collectives between processes, which profiles have not; *ret_calls: how many calls. */
static int read_collectives(struct archive *a, const struct zip_member *m, size_t *ret_calls)
{
	struct archive_file *file = a->places ? archive_file(a->places, m->name) : NULL;
	char why[COLLECTIVES_WHY_MAX], printable[256];
	struct json_source source;
	int err = 0;

	*ret_calls = 0;
	if (!file)
		return 0;
	if (zip_source(&a->zip, m, &source))
		read_problem(a->problems, "%s: %s", text_printable(printable, sizeof(printable), m->name), source.error);
	else
		err = archive_hosts_read(a->places, file, &source, ret_calls, why);
	if (err && err != -ENOMEM)
		read_problem(a->problems, "%s: %s", text_printable(printable, sizeof(printable), m->name), why);
	json_source_close(&source);
	return err == -ENOMEM ? err : 0;
}

/* Each recording once: a profile says more than the trace beside it. */
static int read_members(struct archive *a)
{
	bool profiles = false;
	int err = 0;

	for (size_t i = 0; i < a->zip.n; i++) {
		if (is_name(&a->zip.members[i], ARCHIVE_MANIFEST)) {
			err = read_hosts(a, &a->zip.members[i]);
			if (err)
				return err;
			continue;
		}
		a->kinds[i] = member_kind(a, &a->zip.members[i]);
		profiles |= a->kinds[i] == FILE_PROFILE;
	}
	for (size_t i = 0; !err && i < a->zip.n; i++) {
		const struct zip_member *m = &a->zip.members[i];
		size_t calls = 0;

		if (is_name(m, ARCHIVE_MANIFEST) || a->kinds[i] == NOT_READ)
			continue;
		if (a->kinds[i] != FILE_PROFILE)
			err = read_collectives(a, m, &calls);
		host_of_profile(a, i);
		if (a->kinds[i] == FILE_OTHER)
			note(a, m->name, calls ? "but for its collectives, only Perfetto reads it" : "only Perfetto reads it");
		else if (profiles && a->kinds[i] == FILE_TRACE)
			note(a, m->name,
				calls ? "but for its collectives, the archive has profiles, which say more"
				      : "the archive has profiles, which say more");
		else if (!err)
			err = read_member(a, i);
	}
	return err;
}

int read_archive(struct model *m, const char *path, struct read_problems *problems, struct read_notes *notes)
{
	struct archive a = { .m = m, .path = path, .problems = problems, .notes = notes };
	int err = 0;

	if (zip_open(&a.zip, path)) {
		read_problem(problems, "%s", a.zip.error);
	} else {
		a.hosts = calloc(a.zip.n + 1, sizeof(*a.hosts));
		a.kinds = calloc(a.zip.n + 1, sizeof(*a.kinds));
		err = a.hosts && a.kinds ? read_members(&a) : -ENOMEM;
	}
	free(a.hosts);
	free(a.kinds);
	zip_close(&a.zip);
	return err;
}
