// SPDX-License-Identifier: BSD-2-Clause
/* The manifest that tells Perfetto how the files of an archive relate: version 1 of
 * https://perfetto.dev/docs/reference/perfetto-manifest, which is stable. */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "link/link.h"
#include "link/place.h"
#include "link/ranks.h"
#include "util/version.h"

static int64_t middle_of(const struct linked *d)
{
	return d->file.first_ns + (d->file.last_ns - d->file.first_ns) / 2;
}

/* The wall clock's lead over BOOTTIME where the file was recorded, in the middle of d. */
static int64_t ahead_at(const struct linked *own, const struct linked *d)
{
	int64_t real = link_file_real(&d->file, middle_of(d));

	return link_clock_ahead(&own->file.clock, real - link_clock_ahead(&own->file.clock, own->file.first_ns));
}

/* A recording of this host; NULL: there is none. */
static const struct linked *own_of(const struct link *l, unsigned int host)
{
	for (size_t i = 0; i < l->n; i++) {
		if (l->list[i]->host == host && place_is_recording(l->list[i]))
			return l->list[i];
	}
	return NULL;
}

/* The lead of what Kineto's file counts by over the reference's BOOTTIME, where that is known by messages of its host. */
static int64_t kineto_ahead(const struct link *l, const struct linked *d, const struct linked *own)
{
	int64_t ahead = ahead_at(own, d);

	return d->ahead_ns + ahead + host_ahead(l, d->host, middle_of(d) - d->ahead_ns - ahead);
}

/* What the numbers in the file have to be increased by for the reference's clock. */
static int64_t offset_of(const struct link *l, const struct linked *d)
{
	const struct linked *reference = l->list[l->reference], *own = own_of(l, d->host);
	int64_t ahead = ahead_at(reference, d);

	if (d->by == LINK_BY_MESSAGES)
		return d->file.begin_ns - host_ahead(l, d->host, host_span(l, d).middle_ns);
	if (place_is_recording(d))
		return d->file.begin_ns + (d->host == reference->host ? 0 : ahead_at(d, d) - ahead);
	if (own && own->by == LINK_BY_MESSAGES)
		return d->file.begin_ns - kineto_ahead(l, d, d->by == LINK_BY_CALLS ? l->list[d->to] : own);
	if (d->by == LINK_BY_CALLS && l->list[d->to]->host == reference->host)
		ahead = ahead_at(l->list[d->to], d);
	return d->file.begin_ns - d->ahead_ns - ahead;
}

/* The reference's clock - its BOOTTIME in Perfetto, which are the numbers in a .pftrace: with what a time namespace adds. */
static int64_t timeline_begin(const struct link *l)
{
	const struct link_file *f = &l->list[l->reference]->file;

	return f->kind == LINK_PFTRACE ? f->begin_ns : 0;
}

static struct json_object *text(const char *s)
{
	return json_object_new_string(s);
}

/* Adds a member, or fails if there is no memory for it or its object. */
static void add(struct json_object *object, const char *key, struct json_object *value, bool *failed)
{
	if (object && value && !json_object_object_add(object, key, value))
		return;
	json_object_put(value);
	*failed = true;
}

static struct json_object *clocks_of(const struct link *l, const struct linked *d, bool *failed)
{
	const struct linked *reference = l->list[l->reference];
	struct json_object *clocks = json_object_new_object(), *to = json_object_new_object();
	int64_t offset = offset_of(l, d) - timeline_begin(l);

	if (d->file.kind == LINK_PFTRACE)
		add(clocks, "clock", text("BOOTTIME"), failed);
	add(to, "file", text(reference->member), failed);
	if (reference->file.kind != LINK_KINETO)
		add(to, "clock", text("BOOTTIME"), failed);
	else
		offset = d->file.begin_ns - reference->file.begin_ns;
	add(clocks, "sync_to", to, failed);
	add(clocks, "offset_ns", json_object_new_int64(offset), failed);
	return clocks;
}

/* Whether Perfetto would not know by itself. */
static bool needs_clocks(const struct link *l, const struct linked *d)
{
	const struct linked *reference = l->list[l->reference];

	if (d->file.kind == LINK_PFTRACE)
		return d->host != reference->host || d->file.begin_ns != reference->file.begin_ns;
	return d->file.kind == LINK_CHROME || d != reference;
}

static struct json_object *files_of(const struct link *l, bool *failed)
{
	struct json_object *files = json_object_new_array();

	for (size_t i = 0; files && i < l->n; i++) {
		const struct linked *d = l->list[i];
		struct json_object *file, *machine;

		if (!link_file_timed(&d->file))
			continue;
		file = json_object_new_object();
		machine = json_object_new_object();
		add(file, "path", text(d->member), failed);
		add(machine, "name", text(l->hosts[d->host]), failed);
		add(file, "machine", machine, failed);
		if (needs_clocks(l, d))
			add(file, "clocks", clocks_of(l, d, failed), failed);
		if (file && !json_object_array_add(files, file))
			continue;
		json_object_put(file);
		*failed = true;
	}
	return files;
}

static void add_attribute(struct json_object *attributes, const char *name, const struct linked *d, int64_t value, bool *failed)
{
	char key[sizeof(d->member) + 64];

	snprintf(key, sizeof(key), "inftrace.%s.%s", name, d->member);
	add(attributes, key, json_object_new_int64(value), failed);
}

/* Of a recording of another host: how far its machine's CLOCK_BOOTTIME is ahead of the timeline's at the first and the last instant that was
 * compared, and to within what. */
static struct host_place place_of(const struct link *l, const struct linked *d)
{
	struct host_span span = host_span(l, d);

	return (struct host_place){ .first_ns = span.first_ns,
		.last_ns = span.last_ns,
		.ahead_first_ns = host_ahead(l, d->host, span.first_ns),
		.ahead_last_ns = host_ahead(l, d->host, span.last_ns),
		.residual_ns = l->placed[d->host].residual_ns };
}

/* What was measured: values are texts or integers. */
static struct json_object *attributes_of(const struct link *l, bool *failed)
{
#define ADD(member, name) add_attribute(attributes, name, d, place.member, failed);
	struct json_object *attributes = json_object_new_object();
	struct host_place place;

	add(attributes, "inftrace.version", text(INFTRACE_VERSION), failed);
	for (size_t i = 0; i < l->n; i++) {
		const struct linked *d = l->list[i];

		if (d->by != LINK_BY_CALLS && d->by != LINK_BY_MESSAGES)
			continue;
		add_attribute(attributes, "ahead_ns", d, d->ahead_ns, failed);
		add_attribute(attributes, "residual_ns", d, d->residual_ns, failed);
		if (d->by != LINK_BY_MESSAGES)
			continue;
		place = place_of(l, d);
		HOST_PLACE_ATTRIBUTES(ADD)
	}
	return attributes;
#undef ADD
}

char *link_manifest(const struct link *l)
{
	const struct linked *reference = l->list[l->reference];
	struct json_object *root = json_object_new_object(), *manifest = json_object_new_object(), *time;
	bool failed = false;
	char *ret = NULL;

	add(manifest, "version", json_object_new_int(1), &failed);
	if (reference->file.kind != LINK_KINETO) {
		time = json_object_new_object();
		add(time, "clock", text("BOOTTIME"), &failed);
		add(time, "file", text(reference->member), &failed);
		add(manifest, "trace_time", time, &failed);
	}
	add(manifest, "files", files_of(l, &failed), &failed);
	add(manifest, "attributes", attributes_of(l, &failed), &failed);
	add(root, "perfetto_manifest", manifest, &failed);
	if (!failed) {
		const char *s = json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);

		ret = s ? strdup(s) : NULL;
	}
	json_object_put(root);
	return ret;
}
