// SPDX-License-Identifier: BSD-2-Clause
#include "link/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "link/link.h"
#include "util/text.h"

/* In this order: those that are named, those that say their boot, and older ones, which may be of any boot at such a distance of clocks. */
enum order {
	ORDER_NAMED,
	ORDER_BOOT_ID,
	ORDER_CLOCKS,
	ORDERS,
};

bool place_is_recording(const struct linked *d)
{
	return d->file.kind == LINK_PFTRACE || d->file.kind == LINK_CHROME;
}

struct boot place_boot(const struct linked *d)
{
	return (struct boot){ .id = d->file.id, .lead_ns = link_clock_ahead(&d->file.clock, d->file.first_ns) };
}

/* ---- names ---- */

/* n_hosts: there is none of this name, which is printable. */
static unsigned int find_name(const struct link *l, const char *name)
{
	unsigned int i = 0;

	while (i < l->n_hosts && strcmp(l->hosts[i], name))
		i++;
	return i;
}

unsigned int place_name(struct link *l, const char *name)
{
	char buf[sizeof(l->hosts[0])];
	unsigned int host;

	host = find_name(l, text_printable(buf, sizeof(buf), name));
	if (host == l->n_hosts)
		memcpy(l->hosts[l->n_hosts++], buf, sizeof(buf));
	return host;
}

/* ---- hosts ---- */

static bool is_of(const struct linked *d, unsigned int host)
{
	return place_is_recording(d) && d->host == host;
}

static enum boot_fit fit_host(const struct link *l, const struct linked *d, unsigned int host)
{
	struct boot own = place_boot(d), other;
	enum boot_fit fit = BOOT_UNLIKELY, one;

	for (size_t i = 0; i < l->n; i++) {
		if (l->list[i] == d || !is_of(l->list[i], host))
			continue;
		other = place_boot(l->list[i]);
		one = boot_compare(&own, &other);
		fit = one > fit ? one : fit;
	}
	return fit;
}

/* A host of no other recording: by the name it has itself, or else by a number, which HOST= may give to another file. No host has a name with a
 * space. */
static unsigned int add_host(struct link *l, const struct linked *d)
{
	char name[sizeof(l->hosts[0])];
	unsigned int host;

	text_printable(name, sizeof(name), d->file.id.name);
	if (*name && !strchr(name, ' ') && find_name(l, name) == l->n_hosts)
		return place_name(l, name);
	do {
		snprintf(name, sizeof(name), "host %u", ++l->n_unnamed);
		host = place_name(l, name);
	} while (fit_host(l, d, host) == BOOT_OTHER);
	return host;
}

static int place(struct link *l, struct linked *d)
{
	struct boot_choice choice = { 0 };
	char name[256];

	if (d->file.given_host) {
		d->host = place_name(l, d->file.given_host);
		return 0;
	}
	for (unsigned int i = 0; i < l->n_hosts; i++)
		boot_choose(&choice, i, fit_host(l, d, i));
	if (choice.several)
		return link_fail(l, -EINVAL, "%s may be of several of the hosts, by its %s: name its host (HOST=FILE)",
			text_printable(name, sizeof(name), d->file.path), choice.fit == BOOT_SAME ? "boot id" : "clocks");
	d->host = choice.fit ? choice.host : add_host(l, d);
	return 0;
}

static enum order order_of(const struct linked *d)
{
	if (d->file.given_host)
		return ORDER_NAMED;
	return d->file.id.boot_id[0] ? ORDER_BOOT_ID : ORDER_CLOCKS;
}

/* ---- contradictions ---- */

/* How far apart the wall clocks of two recordings are at one time of CLOCK_BOOTTIME, beyond what they were set by within either. */
static int64_t clocks_apart(const struct link_file *a, const struct link_file *b)
{
	int64_t at = a->first_ns > b->first_ns ? a->first_ns : b->first_ns;

	return llabs(link_clock_ahead(&a->clock, at) - link_clock_ahead(&b->clock, at)) - link_clock_spread(&a->clock, a->first_ns, a->last_ns) -
	       link_clock_spread(&b->clock, b->first_ns, b->last_ns);
}

/* Two recordings of one host. */
static int check_pair(struct link *l, const struct linked *a, const struct linked *b)
{
	struct boot boots[2] = { place_boot(a), place_boot(b) };
	enum boot_fit fit = boot_compare(&boots[0], &boots[1]);
	int64_t apart = clocks_apart(&a->file, &b->file);
	char name[2][256], text[32];

	if (apart <= BOOT_AGREE_NS || fit < BOOT_OTHER)
		return 0;
	text_printable(name[0], sizeof(name[0]), a->file.path);
	text_printable(name[1], sizeof(name[1]), b->file.path);
	link_time_text(text, apart);
	if (fit == BOOT_OTHER)
		return link_fail(l, -EINVAL, "%s and %s are said to be of %s, but are of two boots (%s and %s), whose clocks are %s apart: give them two names",
			name[0], name[1], l->hosts[a->host], a->file.id.boot_id, b->file.id.boot_id, text);
	if (a->file.given_host && b->file.given_host)
		return 0; /* then the wall clock was set */
	return link_fail(l, -EINVAL,
		"%s and %s have one boot id (%s), but clocks that are %s apart: the wall clock was set, or they are of two copies of a "
		"virtual machine: name the machines (HOST=FILE)",
		name[0], name[1], a->file.id.boot_id, text);
}

int place_recordings(struct link *l)
{
	int err = 0;

	for (enum order order = 0; order < ORDERS; order++) {
		for (size_t i = 0; i < l->n && !err; i++) {
			if (place_is_recording(l->list[i]) && order_of(l->list[i]) == order)
				err = place(l, l->list[i]);
		}
	}
	for (size_t i = 0; i < l->n; i++) {
		for (size_t j = 0; j < i && !err; j++) {
			if (place_is_recording(l->list[i]) && is_of(l->list[j], l->list[i]->host))
				err = check_pair(l, l->list[j], l->list[i]);
		}
	}
	return err;
}
