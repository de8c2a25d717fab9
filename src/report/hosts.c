// SPDX-License-Identifier: BSD-2-Clause
#include "report/hosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link/hosts.h"
#include "report/model.h"

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

	for (uint32_t i = 0; i < h->n_files; i++) {
		struct archive_file *f = &h->files[i];
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

	for (uint32_t i = 0; i < h->n_files; i++) {
		const struct archive_file *f = &h->files[i];

		fit = f->has_boot ? boot_compare(profile, &f->boot) : BOOT_UNLIKELY;
		fits[f->host] = fit > fits[f->host] ? fit : fits[f->host];
	}
	for (uint32_t i = 0; i < h->n; i++)
		boot_choose(&choice, i, fits[i]);
	return choice.fit && !choice.several ? choice.host : h->n;
}
