// SPDX-License-Identifier: BSD-2-Clause
#include "engine/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 32 /* more than a preset may have */

struct key {
	const char *text; /* after the opening quote */
	size_t len;
};

static const char *skip_space(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

/* From an opening quote to after the closing one. */
static const char *skip_string(const char *p)
{
	for (p++; *p && *p != '"'; p++)
		p += *p == '\\' && p[1];
	return *p ? p + 1 : p;
}

static bool is_key(const char *quote)
{
	return *skip_space(skip_string(quote)) == ':';
}

static struct key get_key(const char *quote)
{
	return (struct key){ quote + 1, (size_t)(skip_string(quote) - quote - 2) };
}

const char *text_find_key(const char *text, const char *end, const char *key, unsigned int depth)
{
	unsigned int at = 0;

	for (const char *p = text; *p && p < end;) {
		if (*p == '"') {
			struct key k = get_key(p);

			if (at <= depth && is_key(p) && k.len == strlen(key) &&
				!memcmp(k.text, key, k.len))
				return p;
			p = skip_string(p);
			continue;
		}
		at += *p == '{' || *p == '[';
		at -= at && (*p == '}' || *p == ']');
		p++;
	}
	return NULL;
}

const char *text_value(const char *key)
{
	return skip_space(skip_string(key)) + 1;
}

const char *text_value_end(const char *p)
{
	unsigned int depth = 0;

	p = skip_space(p);
	while (*p) {
		if (!depth && strchr(",]}", *p))
			break;
		if (*p == '"') {
			p = skip_string(p);
			continue;
		}
		depth += *p == '{' || *p == '[';
		depth -= *p == '}' || *p == ']';
		p++;
	}
	return p;
}

unsigned int text_line(const char *text, const char *p)
{
	unsigned int line = 1;

	while (text < p)
		line += *text++ == '\n';
	return line;
}

static int compare_keys(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	int diff;

	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	diff = memcmp(x->text, y->text, x->len);
	return diff ? diff : (x->text > y->text) - (x->text < y->text);
}

/* Returns the first key in the text that repeats another. Sorts the keys. */
static const char *find_repeated(struct key *keys, size_t n)
{
	const char *found = NULL;

	qsort(keys, n, sizeof(*keys), compare_keys);
	for (size_t i = 1; i < n; i++) {
		if (keys[i].len == keys[i - 1].len &&
			!memcmp(keys[i].text, keys[i - 1].text, keys[i].len) &&
			(!found || keys[i].text < found))
			found = keys[i].text;
	}
	return found ? found - 1 : NULL;
}

static int add_key(struct key **keys, size_t n, size_t *cap, struct key key)
{
	struct key *list;

	if (n == *cap) {
		list = realloc(*keys, (*cap * 2 + 64) * sizeof(*list));
		if (!list)
			return -ENOMEM;
		*keys = list;
		*cap = *cap * 2 + 64;
	}
	(*keys)[n] = key;
	return 0;
}

int text_find_duplicate(const char *text, const char **ret_key)
{
	size_t first[DEPTH_MAX]; /* the first key of the object that is open at this depth */
	const char *found = NULL;
	struct key *keys = NULL; /* of all open objects */
	size_t n = 0, cap = 0, depth = 0;
	int err = 0;

	for (const char *p = text; *p && !found && !err;) {
		if (*p == '"') {
			if (is_key(p)) {
				struct key k = get_key(p);

				err = add_key(&keys, n, &cap, k);
				n += !err;
				if (memchr(k.text, '\\', k.len))
					found = p;
			}
			p = skip_string(p);
			continue;
		}
		if ((*p == '{' || *p == '[') && depth < DEPTH_MAX) {
			first[depth++] = n;
		} else if ((*p == '}' || *p == ']') && depth) {
			depth--;
			if (n > first[depth])
				found = find_repeated(keys + first[depth], n - first[depth]);
			n = first[depth];
		}
		p++;
	}
	free(keys);
	if (!err)
		*ret_key = found;
	return err;
}
