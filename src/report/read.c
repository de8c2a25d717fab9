// SPDX-License-Identifier: BSD-2-Clause
#include "report/read.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "link/file.h"
#include "read/detect.h"
#include "read/json_reader.h"
#include "read/zip.h"
#include "report/model.h"
#include "util/names.h"
#include "util/zip_format.h"

/* Eighteen years: sums and differences of such values stay far from overflow. */
#define NS_MAX (INT64_MAX / 16)

void read_problem(struct read_problems *problems, const char *fmt, ...)
{
	va_list ap;

	if (problems->count++)
		return;
	va_start(ap, fmt);
	vsnprintf(problems->first, sizeof(problems->first), fmt, ap);
	va_end(ap);
}

int read_state(const char *key, unsigned int *hint)
{
	for (unsigned int i = 0; i < ST_MAX; i++) {
		unsigned int k = (*hint + i) % ST_MAX;

		if (!strcmp(key, time_state_name((enum time_state)k))) {
			*hint = k + 1;
			return (int)k;
		}
	}
	return -1;
}

bool read_us(const struct json_node *value, int64_t *ret_ns)
{
	int64_t ns;
	int ret = node_us_to_ns(value, &ns);

	if (ret < 0 || ns < 0)
		return false;
	*ret_ns = ns < NS_MAX ? ns : NS_MAX;
	return true;
}

bool read_u32(const struct json_node *value, uint32_t *ret)
{
	int64_t v;

	if (!node_is(value, JSON_INT))
		return false;
	v = node_s64(value);
	if (v < 0)
		return false;
	*ret = v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
	return true;
}

int read_file(struct model *m, const char *path, struct read_problems *problems, struct read_notes *notes)
{
	enum file_kind kind = FILE_OTHER;
	struct json_source source;
	const char *why = NULL;
	char buf[160];
	int err = 0;

	if (zip_is(path))
		return read_archive(m, path, problems, notes);
	if (json_source_open(&source, path))
		why = source.error;
	else
		kind = file_detect(&source, buf, sizeof(buf), &why);
	switch (kind) {
	case FILE_PROFILE:
		err = read_profile(m, &source, path, problems);
		break;
	case FILE_TRACE:
		err = read_trace(m, &source, path, problems);
		break;
	default:
		read_problem(problems, "%s", why);
	}
	json_source_close(&source);
	return err;
}

/* ---- Reads the files of an archive of inftrace link: its profiles; or, if there are none, its Chrome traces. ---- */

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
		err = array_reserve(&m->archives, m->n_archives + 1, &m->archives_size, sizeof(*m->archives)) ?:
			archive_hosts_new(m, root, &a->places);
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

/* ---- hosts.c ---- */

#define KEY_MAX 640

static bool attribute(const struct json_node *attributes, const char *name, const char *path, int64_t *ret)
{
	const struct json_node *value;
	char key[KEY_MAX];

	if (snprintf(key, sizeof(key), "inftrace.%s.%s", name, path) >= (int)sizeof(key))
		return false;
	value = node_get(attributes, key);
	*ret = node_s64(value);
	return node_is(value, JSON_INT) && link_time_fits(*ret);
}

/* Of a recording of another host than the timeline's, where messages have said it. */
static struct host_place read_place(const struct json_node *attributes, const char *path)
{
#define READ(member, name) p.known &= attribute(attributes, name, path, &p.member);
	struct host_place p = { .known = true };

	HOST_PLACE_ATTRIBUTES(READ)
	return p.known && p.residual_ns >= 0 ? p : (struct host_place){ 0 };
#undef READ
}

/* The number of the host with this name; ARCHIVE_HOSTS_MAX: no room. */
static int host_get(struct model *m, struct archive_hosts *h, const char *name, uint32_t *ret)
{
	uint32_t id;
	int err = model_name(m, name, &id);

	for (*ret = 0; !err && *ret < h->n; (*ret)++) {
		if (h->list[*ret].name == id)
			return 0;
	}
	if (err || h->n == ARCHIVE_HOSTS_MAX)
		return err;
	h->list[h->n++].name = id;
	return 0;
}

static int add_file(struct model *m, struct archive_hosts *h, const struct json_node *file, const struct json_node *attributes)
{
	const char *path = node_string(node_get(file, "path")), *name = node_string(node_get(node_get(file, "machine"), "name"));
	struct archive_file *f = &h->files[h->n_files];
	int err;

	if (!path || !name || !*name || h->n_files == ARCHIVE_FILES_MAX)
		return 0;
	err = host_get(m, h, name, &f->host);
	if (err || f->host == ARCHIVE_HOSTS_MAX)
		return err;
	f->place = read_place(attributes, path);
	f->path = strdup(path);
	if (!f->path)
		return -ENOMEM;
	h->n_files++;
	return 0;
}

/* The host of the file whose clock is the timeline's, and where the others are. */
static void place_hosts(struct archive_hosts *h, const char *reference)
{
	const struct archive_file *own = reference ? archive_file(h, reference) : NULL;

	list_for_each (f, h->files, h->n_files) {
		struct archive_host *host = &h->list[f->host];

		if (own && f->host == own->host)
			f->place = (struct host_place){ .known = true, .first_ns = INT64_MIN, .last_ns = INT64_MAX };
		if (f->place.known && f->place.residual_ns > host->residual_ns)
			host->residual_ns = f->place.residual_ns;
		host->known |= f->place.known;
	}
}

int archive_hosts_new(struct model *m, const struct json_node *root, struct archive_hosts **ret)
{
	const struct json_node *manifest = node_get(root, "perfetto_manifest"), *files = node_get(manifest, "files");
	struct archive_hosts *h = calloc(1, sizeof(*h));
	int err = h ? 0 : -ENOMEM;

	if (!err && node_is(files, JSON_ARRAY)) {
		json_for_each (file, files) {
			err = add_file(m, h, file, node_get(manifest, "attributes"));
			if (err)
				break;
		}
	}
	if (err) {
		archive_hosts_free(h);
		return err;
	}
	place_hosts(h, node_string(node_get(node_get(manifest, "trace_time"), "file")));
	*ret = h;
	return 0;
}

void archive_hosts_free(struct archive_hosts *h)
{
	if (!h)
		return;
	for (uint32_t i = 0; i < h->n_files; i++)
		free(h->files[i].path);
	ranks_clear(&h->ranks);
	free(h);
}

struct archive_file *archive_file(struct archive_hosts *h, const char *path)
{
	for (uint32_t i = 0; i < h->n_files; i++) {
		if (!strcmp(h->files[i].path, path))
			return &h->files[i];
	}
	return NULL;
}

int archive_hosts_read(
	struct archive_hosts *h, struct archive_file *file, struct json_source *source, size_t *ret_calls, char why[COLLECTIVES_WHY_MAX])
{
	struct collectives c;
	int err, added;

	err = collectives_read(source, &c, why);
	*ret_calls = c.n_calls;
	file->has_boot = c.has_clock;
	file->boot = (struct boot){ .id = c.id, .lead_ns = c.real_ns - c.boot_ns };
	added = err == -ENOMEM ? err : ranks_add(&h->ranks, file->host, &file->place, &c);
	collectives_clear(&c);
	return added ? added : err;
}

uint32_t archive_host_of(const struct archive_hosts *h, const struct boot *profile)
{
	enum boot_fit fits[ARCHIVE_HOSTS_MAX] = { BOOT_UNLIKELY }, fit;
	struct boot_choice choice = { 0 };

	list_for_each (f, h->files, h->n_files) {
		fit = f->has_boot ? boot_compare(profile, &f->boot) : BOOT_UNLIKELY;
		fits[f->host] = fit > fits[f->host] ? fit : fits[f->host];
	}
	for (uint32_t i = 0; i < h->n; i++)
		boot_choose(&choice, i, fits[i]);
	return choice.fit && !choice.several ? choice.host : h->n;
}
