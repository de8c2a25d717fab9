// SPDX-License-Identifier: BSD-2-Clause
#include "io/http.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* ---- requests ---- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* RFC 9110, section 5.6.2 */
static bool is_token(char c)
{
	return is_alnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* No control byte but the tab; bytes of other character sets pass. */
static bool is_text(char c)
{
	return (unsigned char)c >= ' ' ? c != 0x7f : c == '\t';
}

static bool all_of(struct http_text t, bool (*is)(char))
{
	for (size_t i = 0; i < t.len; i++) {
		if (!is(t.p[i]))
			return false;
	}
	return true;
}

static bool same(struct http_text t, const char *s)
{
	return t.p && t.len == strlen(s) && !memcmp(t.p, s, t.len);
}

static bool same_nocase(struct http_text t, const char *s)
{
	return t.p && t.len == strlen(s) && !strncasecmp(t.p, s, t.len);
}

/* Cuts the prefix off. */
static bool skip_prefix(struct http_text *t, const char *prefix)
{
	size_t n = strlen(prefix);

	if (t->len < n || strncasecmp(t->p, prefix, n))
		return false;
	t->p += n;
	t->len -= n;
	return true;
}

/* The text up to the first `c`, which is cut off *rest with it; all of it where there is none. */
static struct http_text split(struct http_text *rest, char c)
{
	const char *p = memchr(rest->p, c, rest->len);
	struct http_text head = { rest->p, p ? (size_t)(p - rest->p) : rest->len };
	size_t cut = head.len + (p ? 1 : 0);

	rest->p += cut;
	rest->len -= cut;
	return head;
}

static struct http_text trim(struct http_text t)
{
	while (t.len && (*t.p == ' ' || *t.p == '\t')) {
		t.p++;
		t.len--;
	}
	while (t.len && (t.p[t.len - 1] == ' ' || t.p[t.len - 1] == '\t'))
		t.len--;
	return t;
}

static void parse_method(struct http_request *r)
{
	r->method = HTTP_OTHER;
	if (same(r->name, "GET"))
		r->method = HTTP_GET;
	else if (same(r->name, "HEAD"))
		r->method = HTTP_HEAD;
	else if (same(r->name, "OPTIONS"))
		r->method = HTTP_OPTIONS;
}

/* RFC 9112, section 3.2: /path?query, http://host/path?query, * */
static int parse_target(struct http_request *r)
{
	struct http_text t = r->target;

	for (size_t i = 0; i < t.len; i++) {
		if ((unsigned char)t.p[i] <= ' ' || (unsigned char)t.p[i] >= 0x7f)
			return -EBADMSG;
	}
	if (skip_prefix(&t, "http://")) {
		const char *path = memchr(t.p, '/', t.len);

		r->host = (struct http_text){ t.p, path ? (size_t)(path - t.p) : t.len };
		t.p += r->host.len;
		t.len -= r->host.len;
	} else if (!t.len || (*t.p != '/' && !(same(t, "*") && r->method == HTTP_OPTIONS))) {
		return -EBADMSG;
	}
	r->path = split(&t, '?');
	return 0;
}

static int parse_request_line(struct http_text line, struct http_request *r)
{
	bool one;

	r->name = split(&line, ' ');
	r->target = split(&line, ' ');
	if (!r->name.len || !all_of(r->name, is_token))
		return -EBADMSG;
	if (line.len != 8 || memcmp(line.p, "HTTP/", 5) || !is_digit(line.p[5]) ||
		line.p[6] != '.' || !is_digit(line.p[7]))
		return -EBADMSG;
	one = line.p[5] == '1';
	r->keep_alive = line.p[7] != '0';
	parse_method(r);
	return one ? parse_target(r) : -EPROTONOSUPPORT;
}

static void parse_connection(struct http_text value, struct http_request *r)
{
	while (value.len) {
		struct http_text option = trim(split(&value, ','));

		if (same_nocase(option, "close"))
			r->keep_alive = false;
	}
}

/* A header that may come once. */
static int take_once(struct http_text value, struct http_text *ret)
{
	if (ret->p)
		return -EBADMSG;
	*ret = value;
	return 0;
}

/* What the headers said that must be known before all of them are read. */
struct headers {
	struct http_text host, length;
	unsigned int ranges;
	bool if_range;
};

static int parse_header(struct http_text line, struct headers *h, struct http_request *r)
{
	bool has_colon = memchr(line.p, ':', line.len);
	struct http_text name = split(&line, ':'), value = trim(line);

	/* a line that begins with white space has no name: they are not folded any more */
	if (!has_colon || !name.len || !all_of(name, is_token) || !all_of(value, is_text))
		return -EBADMSG;
	if (same_nocase(name, "Host"))
		return take_once(value, &h->host);
	if (same_nocase(name, "Origin"))
		return take_once(value, &r->origin);
	if (same_nocase(name, "Content-Length"))
		return all_of(value, is_digit) && value.len ? take_once(value, &h->length)
							    : -EBADMSG;
	if (same_nocase(name, "Transfer-Encoding"))
		r->body = true;
	if (same_nocase(name, "Connection"))
		parse_connection(value, r);
	if (same_nocase(name, "If-Range"))
		h->if_range = true;
	if (same_nocase(name, "Access-Control-Request-Private-Network"))
		r->private_network = same(value, "true");
	if (same_nocase(name, "Range") && !h->ranges++)
		r->range = value;
	return 0;
}

static int parse_headers(struct http_text rest, struct http_request *r)
{
	struct headers h = { 0 };
	int err;

	while (rest.len) {
		const char *end = memmem(rest.p, rest.len, "\r\n", 2);
		struct http_text line = { rest.p, (size_t)(end - rest.p) };

		err = parse_header(line, &h, r);
		if (err)
			return err;
		rest.p = end + 2;
		rest.len -= line.len + 2;
	}
	/* section 3.2.2: the host of the target counts, not the header */
	if (!r->host.p)
		r->host = h.host;
	/* no tag is ever sent that If-Range could match: then it asks for the whole */
	if (h.if_range || h.ranges > 1)
		r->range = (struct http_text){ 0 };
	for (size_t i = 0; i < h.length.len; i++)
		r->body |= h.length.p[i] != '0';
	return 0;
}

int http_parse(const char *buf, size_t len, struct http_request *ret_request)
{
	struct http_request r = { 0 };
	const char *end, *line_end;
	struct http_text line, rest;
	size_t start = 0;
	int err;

	/* section 2.2: empty lines ahead of it */
	while (start + 2 <= len && !memcmp(buf + start, "\r\n", 2))
		start += 2;
	end = memmem(buf + start, len - start, "\r\n\r\n", 4);
	if (!end || (size_t)(end + 4 - buf) > HTTP_HEAD_MAX) {
		if (len >= HTTP_HEAD_MAX)
			return -EMSGSIZE;
		/* TLS and the like need not wait for the end of a line that will not come */
		return start < len && buf[start] != '\r' && !is_token(buf[start]) ? -EBADMSG : 0;
	}
	line_end = memmem(buf + start, len - start, "\r\n", 2);
	line = (struct http_text){ buf + start, (size_t)(line_end - (buf + start)) };
	rest = (struct http_text){ line_end + 2, (size_t)(end - line_end) };
	err = parse_request_line(line, &r);
	if (!err)
		err = parse_headers(rest, &r);
	if (err)
		return err;
	*ret_request = r;
	return (int)(end + 4 - buf);
}

/* ---- who may ask ---- */

/* ":9001" or nothing */
static bool is_port(struct http_text t)
{
	if (!t.len)
		return true;
	if (*t.p != ':' || t.len < 2 || t.len > 6)
		return false;
	return all_of((struct http_text){ t.p + 1, t.len - 1 }, is_digit);
}

/* Any port: it may have been forwarded from another one (ssh -L). What tells a page that calls
 * itself this machine from others is the name. */
static bool is_this_machine(struct http_text host)
{
	if (!host.p || !(skip_prefix(&host, "127.0.0.1") || skip_prefix(&host, "localhost")))
		return false;
	return is_port(host);
}

static bool is_allowed_origin(struct http_text origin)
{
	struct http_text rest = origin;

	if (same(origin, HTTP_UI))
		return true;
	return (skip_prefix(&rest, "http://") || skip_prefix(&rest, "https://")) &&
	       is_this_machine(rest);
}

/* ---- ranges: RFC 9110, section 14 ---- */

/* Digits only, UINT64_MAX for what does not fit. */
static bool parse_position(struct http_text t, uint64_t *ret)
{
	uint64_t v = 0;

	if (!t.len || !all_of(t, is_digit))
		return false;
	for (size_t i = 0; i < t.len; i++) {
		if (__builtin_mul_overflow(v, 10, &v) ||
			__builtin_add_overflow(v, (uint64_t)(t.p[i] - '0'), &v)) {
			*ret = UINT64_MAX;
			return true;
		}
	}
	*ret = v;
	return true;
}

/* The status: 206 with the range, 416, or 200 where there is no range, none that makes sense, or
 * several. */
static int parse_range(struct http_text t, uint64_t size, uint64_t *ret_first, uint64_t *ret_end)
{
	uint64_t first = 0, last = UINT64_MAX;
	struct http_text from;
	bool dash;

	if (!t.p || !skip_prefix(&t, "bytes="))
		return 200;
	t = trim(t);
	dash = memchr(t.p, '-', t.len);
	from = split(&t, '-');
	if (!dash || (from.len && !parse_position(from, &first)) ||
		(t.len && !parse_position(t, &last)) || (!from.len && !t.len) || first > last)
		return 200;
	if (!from.len) { /* the last so many bytes */
		if (!last || !size)
			return 416;
		*ret_first = last < size ? size - last : 0;
		*ret_end = size;
		return 206;
	}
	if (first >= size)
		return 416;
	*ret_first = first;
	*ret_end = last < size ? last + 1 : size;
	return 206;
}

/* ---- answers ---- */

static const struct status {
	int code, err;
	const char *name;
	const char *text; /* of the body */
} statuses[] = {
	{ 400, -EBADMSG, "Bad Request", "this is no request of HTTP/1.1" },
	{ 403, 0, "Forbidden",
		"for 127.0.0.1 and localhost, and pages of these and of " HTTP_UI " only" },
	{ 404, 0, "Not Found", "only one file is served here" },
	{ 405, 0, "Method Not Allowed", "GET, HEAD and OPTIONS only" },
	{ 408, -ETIMEDOUT, "Request Timeout", "the request did not come in time" },
	{ 416, 0, "Range Not Satisfiable", "the range is behind the end of the file" },
	{ 431, -EMSGSIZE, "Request Header Fields Too Large", "at most 8 KB" },
	{ 503, -EBUSY, "Service Unavailable", "too many connections" },
	{ 505, -EPROTONOSUPPORT, "HTTP Version Not Supported", "HTTP/1.0 and 1.1 only" },
	{ 200, 0, "OK", NULL },
	{ 204, 0, "No Content", NULL },
	{ 206, 0, "Partial Content", NULL },
};

/* By its code, or by the error it stands for. */
static const struct status *status_find(int code)
{
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		if (statuses[i].code == code || (code < 0 && statuses[i].err == code))
			return &statuses[i];
	}
	return &statuses[0];
}

__attribute__((format(printf, 2, 3))) static void put(struct http_answer *a, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(a->text + a->len, sizeof(a->text) - a->len, fmt, ap);
	va_end(ap);
	/* all that is put in is bounded, and fits */
	if (n > 0 && (size_t)n < sizeof(a->text) - a->len)
		a->len += (size_t)n;
}

/* RFC 9110, section 5.6.7; not strftime, which speaks the language of the user. */
static void put_date(struct http_answer *a, int64_t now)
{
	static const char days[] = "SunMonTueWedThuFriSat";
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	time_t t = (time_t)now;
	struct tm tm;

	if (!gmtime_r(&t, &tm))
		return;
	put(a, "Date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n", days + 3 * tm.tm_wday,
		tm.tm_mday, months + 3 * tm.tm_mon, tm.tm_year + 1900, tm.tm_hour, tm.tm_min,
		tm.tm_sec);
}

static void put_status(struct http_answer *a, int code, int64_t now)
{
	a->status = code;
	a->len = 0;
	put(a, "HTTP/1.1 %d %s\r\n", code, status_find(code)->name);
	put_date(a, now);
	put(a,
		"Connection: %s\r\n"
		"Cache-Control: no-store\r\n"
		"X-Content-Type-Options: nosniff\r\n"
		/* pages without CORS, which send no Origin, cannot embed it either */
		"Cross-Origin-Resource-Policy: same-origin\r\n"
		"Vary: Origin\r\n",
		a->keep_alive ? "keep-alive" : "close");
}

/* The end of the headers, and a line that says what is wrong. */
static void put_reason(struct http_answer *a, bool head)
{
	const struct status *s = status_find(a->status);

	if (a->status == 204) {
		put(a, "\r\n");
		return;
	}
	put(a, "Content-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n\r\n",
		strlen(s->text) + 1);
	if (!head)
		put(a, "%s\n", s->text);
}

static int answer_status(const struct http_request *r, const struct http_file *file)
{
	if (!r->host.p)
		return 400;
	if (!is_this_machine(r->host) || (r->origin.p && !is_allowed_origin(r->origin)))
		return 403;
	if (r->method == HTTP_OTHER)
		return 405;
	if (same(r->path, "*"))
		return 204;
	if (!r->path.len || r->path.p[0] != '/' ||
		!same((struct http_text){ r->path.p + 1, r->path.len - 1 }, file->name))
		return 404;
	return r->method == HTTP_OPTIONS ? 204 : 200;
}

/* What lets the page of an allowed origin have the answer, and ask for ranges. */
static void put_cors(struct http_answer *a, const struct http_request *r)
{
	if (a->status == 400 || a->status == 403 || !r->origin.p)
		return;
	put(a, "Access-Control-Allow-Origin: %.*s\r\n", (int)r->origin.len, r->origin.p);
	if (r->method != HTTP_OPTIONS) {
		put(a, "Access-Control-Expose-Headers: Accept-Ranges, Content-Range\r\n");
		return;
	}
	put(a, "Access-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n"
	       "Access-Control-Allow-Headers: Range, Cache-Control, Pragma\r\n"
	       "Access-Control-Max-Age: 60\r\n");
	if (r->private_network)
		put(a, "Access-Control-Allow-Private-Network: true\r\n");
}

void http_answer(const struct http_request *r, const struct http_file *file, int64_t now,
	struct http_answer *a)
{
	int status = answer_status(r, file);
	uint64_t first = 0, end = file->size;

	if (status == 200 && r->method == HTTP_GET)
		status = parse_range(r->range, file->size, &first, &end);
	a->keep_alive = r->keep_alive && !r->body && status != 400;
	a->first = a->end = 0;
	put_status(a, status, now);
	put_cors(a, r);
	if (status == 405 || r->method == HTTP_OPTIONS)
		put(a, "Allow: GET, HEAD, OPTIONS\r\n");
	if (status == 416)
		put(a, "Content-Range: bytes */%" PRIu64 "\r\n", file->size);
	if (status != 200 && status != 206) {
		put_reason(a, r->method == HTTP_HEAD);
		return;
	}
	if (status == 206)
		put(a, "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n", first,
			end - 1, file->size);
	put(a, "Accept-Ranges: bytes\r\nContent-Type: %s\r\nContent-Length: %" PRIu64 "\r\n\r\n",
		file->type, end - first);
	if (r->method == HTTP_GET) {
		a->first = first;
		a->end = end;
	}
}

void http_refuse(int err, int64_t now, struct http_answer *a)
{
	a->keep_alive = false;
	a->first = a->end = 0;
	put_status(a, status_find(err)->code, now);
	put_reason(a, false);
}

void http_name(const char *path, char ret_name[HTTP_NAME_MAX])
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t len = strlen(name);

	if (len >= HTTP_NAME_MAX)
		name += len - (HTTP_NAME_MAX - 1);
	snprintf(ret_name, HTTP_NAME_MAX, "%s", name);
	for (char *c = ret_name; *c; c++) {
		if (!is_alnum(*c) && !strchr("._-", *c))
			*c = '_';
	}
}
