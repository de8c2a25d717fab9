// SPDX-License-Identifier: BSD-2-Clause
#include "report/read.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "io/zip_writer.h"
#include "link/hosts.h"
#include "read/detect.h"
#include "read/json_source.h"
#include "read/zip.h"
#include "report/model.h"
#include "util/names.h"

void read_problem(struct read_problems *problems, const char *fmt, ...)
{
	va_list ap;

	if (problems->count++)
		return;
	va_start(ap, fmt);
	vsnprintf(problems->first, sizeof(problems->first), fmt, ap);
	va_end(ap);
}

/* ---- the hosts of an archive ---- */

#define KEY_MAX 640

/* The archive's trace with this path; NULL: none, or its host is not given. */
static struct archive_file *archive_find_file(struct archive_hosts *h, const char *path)
{
	size_t at = list_find(h->n_files, i, !strcmp(h->files[i].path, path));

	return at < h->n_files ? &h->files[at] : NULL;
}

/* Reads a clock attribute of a file. Files of hosts other than the timeline's have it if messages relate the clocks. */
static bool attribute_read_ns(const struct json_node *attributes, const char *name, const char *path, int64_t *ret)
{
	const struct json_node *value;
	char key[KEY_MAX];

	if (snprintf(key, sizeof(key), "inftrace.%s.%s", name, path) >= (int)sizeof(key))
		return false;
	value = node_get(attributes, key);
	*ret = node_s64(value);
	return node_is(value, JSON_INT) && link_time_fits(*ret);
}

static void archive_add_file(struct model *m, struct archive_hosts *h, const struct json_node *file, const struct json_node *attributes)
{
	const char *path = node_string(node_get(file, "path")), *name = node_string(node_get(node_get(file, "machine"), "name"));
	struct host_place p = { .known = true };
	uint32_t id, host;

	if (!path || !name || !*name || h->n_files == ARCHIVE_FILES_MAX)
		return;
	id = model_name(m, name);
	host = (uint32_t)list_find(h->n, i, h->list[i].name == id);
	if (host == ARCHIVE_HOSTS_MAX)
		return;
	if (host == h->n)
		h->list[h->n++].name = id;
#define READ(member, name) p.known &= attribute_read_ns(attributes, name, path, &p.member);
	HOST_PLACE_ATTRIBUTES(READ)
#undef READ
	if (!p.known || p.residual_ns < 0)
		p = (struct host_place){ 0 };
	h->files[h->n_files++] = (struct archive_file){ .path = xstrdup(path), .host = host, .place = p };
}

/* Adds the hosts in the manifest, which is untrusted JSON, to the model, which owns the result. */
static struct archive_hosts *archive_hosts_new(struct model *m, const struct json_node *root)
{
	const struct json_node *manifest = node_get(root, "perfetto_manifest"), *files = node_get(manifest, "files");
	const char *reference = node_string(node_get(node_get(manifest, "trace_time"), "file"));
	struct archive_hosts *h = xcalloc(1, sizeof(*h));
	const struct archive_file *own;

	*list_add(m, archives) = h;
	for (const struct json_node *file = NULL; node_is(files, JSON_ARRAY) && (file = json_next(files, file));)
		archive_add_file(m, h, file, node_get(manifest, "attributes"));
	/* own: the file whose clock is the timeline's */
	own = reference ? archive_find_file(h, reference) : NULL;
	list_for_each (f, h->files, h->n_files) {
		struct archive_host *host = &h->list[f->host];

		if (own && f->host == own->host)
			f->place = (struct host_place){ .known = true, .first_ns = INT64_MIN, .last_ns = INT64_MAX };
		if (f->place.known && f->place.residual_ns > host->residual_ns)
			host->residual_ns = f->place.residual_ns;
		host->known |= f->place.known;
	}
	return h;
}

/* ---- archives of inftrace link: their profiles; or, if there are none, their Chrome traces ---- */

/* Printable, in a buffer of the block. */
#define SHOWN(text) text_printable((char[256]){ 0 }, 256, text)

#define MACHINE_MAX 64
#define NOT_READ (-1) /* the manifest, or reported already */

struct archive {
	struct zip *zip;
	size_t n; /* members */
	struct model *m;
	const char *path;
	char (*hosts)[MACHINE_MAX];   /* by member */
	struct archive_hosts *places; /* the model's; NULL: there is no manifest */
	int *kinds;                   /* enum file_kind, or NOT_READ */
	struct read_problems *problems;
	struct read_notes *notes;
};

static void archive_note(struct archive *a, const char *name, const char *why)
{
	char text[768];

	snprintf(text, sizeof(text), "%s: %s is not in the report: %s", SHOWN(a->path), SHOWN(name), why);
	if (a->notes->note)
		a->notes->note(a->notes->ctx, text);
}

/* Returns false after reporting that the member cannot be read. */
static bool member_open(struct archive *a, size_t i, struct json_source *ret)
{
	if (!zip_member(a->zip, i, ret))
		return true;
	read_problem(a->problems, "%s: %s", SHOWN(zip_name(a->zip, i)), ret->error);
	json_source_close(ret);
	return false;
}

/* Reads from the manifest which hosts the traces are from, and how their clocks relate. */
static void read_hosts(struct archive *a, size_t manifest)
{
	const struct json_node *root;
	struct json_source source;
	struct json_reader reader;

	json_reader_init(&reader, &source);
	if (!a->places && !zip_member(a->zip, manifest, &source) && !json_reader_value(&reader, &root))
		a->places = archive_hosts_new(a->m, root);
	for (size_t i = 0; a->places && i < a->n; i++) {
		const struct archive_file *f = archive_find_file(a->places, zip_name(a->zip, i));

		if (f)
			snprintf(a->hosts[i], MACHINE_MAX, "%s", model_text(a->m, a->places->list[f->host].name));
	}
	json_reader_free(&reader);
	json_source_close(&source);
}

/* The kind of a member, or NOT_READ after reporting why. */
static int member_kind(struct archive *a, size_t i)
{
	struct json_source source;
	const char *why = NULL;
	char buf[160];
	int kind;

	if (!member_open(a, i, &source))
		return NOT_READ;
	kind = file_detect(&source, buf, sizeof(buf), &why);
	json_source_close(&source);
	if (kind < FILE_EXECUTION_TRACE)
		return kind;
	archive_note(a, zip_name(a->zip, i), "it is an execution trace, which has no times");
	return NOT_READ;
}

static void archive_read_member(struct archive *a, size_t i)
{
	const char *name = zip_name(a->zip, i), *slash;
	char label[512];
	struct json_source source;

	/* profiles are in a folder named after their host, if it was given */
	if (!strncmp(name, ARCHIVE_BESIDE, strlen(ARCHIVE_BESIDE)) && (slash = strchr(name + strlen(ARCHIVE_BESIDE), '/')))
		snprintf(a->hosts[i], MACHINE_MAX, "%.*s", (int)(slash - name - (ptrdiff_t)strlen(ARCHIVE_BESIDE)), name + strlen(ARCHIVE_BESIDE));
	if (!member_open(a, i, &source))
		return;
	snprintf(label, sizeof(label), "%s: %s", a->path, SHOWN(name));
	a->m->host = model_name(a->m, a->hosts[i]);
	(a->kinds[i] == FILE_PROFILE ? read_profile : read_trace)(a->m, &source, label, a->problems);
	a->m->host = 0;
	json_source_close(&source);
}

/* Reads a trace's collectives, which profiles do not have. Returns the number of calls. */
static size_t read_collectives(struct archive *a, size_t i)
{
	struct archive_file *file = a->places ? archive_find_file(a->places, zip_name(a->zip, i)) : NULL;
	char why[COLLECTIVES_WHY_MAX];
	struct json_source source;
	struct collectives c;
	size_t calls;

	if (!file || !member_open(a, i, &source))
		return 0;
	if (collectives_read(&source, &c, why))
		read_problem(a->problems, "%s: %s", SHOWN(zip_name(a->zip, i)), why);
	calls = c.n_calls;
	file->has_boot = c.has_clock;
	file->boot = (struct boot){ .id = c.id, .lead_ns = c.real_ns - c.boot_ns };
	ranks_add(&a->places->ranks, file->host, &file->place, &c);
	collectives_clear(&c);
	json_source_close(&source);
	return calls;
}

/* Reads each recording once: a profile says more than the trace beside it. */
static void read_members(struct archive *a)
{
	bool profiles = false;

	for (size_t i = 0; i < a->n; i++) {
		bool manifest = !strcmp(zip_name(a->zip, i), ARCHIVE_MANIFEST);

		if (manifest)
			read_hosts(a, i);
		a->kinds[i] = manifest ? NOT_READ : member_kind(a, i);
		profiles |= a->kinds[i] == FILE_PROFILE;
	}
	for (size_t i = 0; i < a->n; i++) {
		const char *name = zip_name(a->zip, i);
		size_t calls = 0;

		if (a->kinds[i] == NOT_READ)
			continue;
		if (a->kinds[i] != FILE_PROFILE)
			calls = read_collectives(a, i);
		if (a->kinds[i] == FILE_OTHER)
			archive_note(a, name, calls ? "but for its collectives, only Perfetto reads it" : "only Perfetto reads it");
		else if (profiles && a->kinds[i] == FILE_TRACE)
			archive_note(a, name,
				calls ? "but for its collectives, the archive has profiles, which say more" : "the archive has profiles, which say more");
		else
			archive_read_member(a, i);
	}
}

static void read_archive(struct model *m, const char *path, struct read_problems *problems, struct read_notes *notes)
{
	struct archive a = { .m = m, .path = path, .problems = problems, .notes = notes };
	char why[ZIP_ERROR_MAX];

	if (zip_read(path, &a.zip, &a.n, why)) {
		read_problem(problems, "%s", why);
		return;
	}
	a.hosts = xcalloc(a.n, sizeof(*a.hosts));
	a.kinds = xcalloc(a.n, sizeof(*a.kinds));
	read_members(&a);
	free(a.hosts);
	free(a.kinds);
	zip_discard(a.zip);
}

void read_file(struct model *m, const char *path, struct read_problems *problems, struct read_notes *notes)
{
	enum file_kind kind = FILE_OTHER;
	struct json_source source;
	const char *why = NULL;
	char buf[160];

	if (zip_is(path)) {
		read_archive(m, path, problems, notes);
		return;
	}
	if (json_source_open(&source, path))
		why = source.error;
	else
		kind = file_detect(&source, buf, sizeof(buf), &why);
	if (kind == FILE_PROFILE)
		read_profile(m, &source, path, problems);
	else if (kind == FILE_TRACE)
		read_trace(m, &source, path, problems);
	else
		read_problem(problems, "%s", why);
	json_source_close(&source);
}
