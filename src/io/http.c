// SPDX-License-Identifier: BSD-2-Clause
#include "io/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Skips the prefix. */
static bool skip_prefix(const char **s, const char *prefix)
{
	size_t n = strlen(prefix);

	if (strncasecmp(*s, prefix, n))
		return false;
	*s += n;
	return true;
}

/* ---- who may ask ---- */

/* "127.0.0.1:9001", "localhost". Any port, since it may have been forwarded from another one (ssh
 * -L). The name is what tells this machine from a page that only resolves to it. */
static bool is_this_machine(const char *host, size_t len)
{
	const char *end = host + len;

	if (!skip_prefix(&host, "127.0.0.1") && !skip_prefix(&host, "localhost"))
		return false;
	if (host >= end)
		return host == end;
	if (*host++ != ':' || host == end || end - host > 5)
		return false;
	while (host < end && is_digit(*host))
		host++;
	return host == end;
}

static bool is_allowed_origin(const char *origin)
{
	if (!strcmp(origin, HTTP_UI))
		return true;
	return (skip_prefix(&origin, "http://") || skip_prefix(&origin, "https://")) &&
	       is_this_machine(origin, strlen(origin));
}

/* A page may embed what it cannot read, for which no origin is sent. */
static bool is_allowed_site(const struct http_request *r)
{
	return r->origin || !r->site || !strcmp(r->site, "none") || !strcmp(r->site, "same-origin") || (!r->any_host && !strcmp(r->site, "same-site"));
}

int http_status(const struct http_request *r, const char *name)
{
	const char *path = r->target, *host = r->host;
	bool options = !strcmp(r->method, "OPTIONS");
	size_t host_len = host ? strlen(host) : 0;

	/* RFC 9112, section 3.2.2: the host in the target overrides the header */
	if (skip_prefix(&path, "http://")) {
		host = path;
		host_len = strcspn(host, "/");
		path += host_len;
	} else if (*path != '/' && !(options && !strcmp(path, "*"))) {
		return 400;
	}
	if (r->twice || !host)
		return 400;
	while (host_len && strchr(" \t", host[host_len - 1])) /* the library keeps white space after a value */
		host_len--;
	if (!r->any_host && !is_this_machine(host, host_len))
		return 403;
	if ((r->origin && (r->any_host || !is_allowed_origin(r->origin))) || !is_allowed_site(r))
		return 403;
	if (!options && strcmp(r->method, "GET") && strcmp(r->method, "HEAD"))
		return 405;
	if (!strcmp(path, "*"))
		return 204;
	if (*path != '/' || strcmp(path + 1, name))
		return 404;
	return options ? 204 : 200;
}

/* ---- ranges: RFC 9110, section 14 ---- */

/* Digits only, UINT64_MAX if the number does not fit. Returns the text after them, NULL if there are none. */
static const char *parse_position(const char *s, uint64_t *ret)
{
	uint64_t v = 0;

	if (!is_digit(*s))
		return NULL;
	for (; is_digit(*s); s++) {
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v)) {
			v = UINT64_MAX;
			s += strspn(s, "0123456789");
			break;
		}
	}
	*ret = v;
	return s;
}

int http_range(const char *range, uint64_t size, uint64_t *ret_first, uint64_t *ret_end)
{
	uint64_t first = 0, last = UINT64_MAX;
	bool suffix;

	if (!range || !skip_prefix(&range, "bytes="))
		return 200;
	range += strspn(range, " \t");
	suffix = *range == '-'; /* the last N bytes */
	if (!suffix)
		range = parse_position(range, &first);
	if (!range || *range++ != '-')
		return 200;
	if (*range || suffix)
		range = parse_position(range, &last);
	if (!range || *range || (!suffix && first > last))
		return 200;
	if (suffix ? !last || !size : first >= size)
		return 416;
	if (suffix) {
		first = last < size ? size - last : 0;
		last = size;
	}
	*ret_first = first;
	*ret_end = last < size ? last + 1 : size;
	return 206;
}

void http_name(const char *path, char ret_name[HTTP_NAME_MAX])
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t len = strlen(name);

	if (len >= HTTP_NAME_MAX)
		name += len - (HTTP_NAME_MAX - 1);
	snprintf(ret_name, HTTP_NAME_MAX, "%s", name);
	for (char *c = ret_name; *c; c++) {
		bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');

		if (!letter && !is_digit(*c) && !strchr("._-", *c))
			*c = '_';
	}
}
