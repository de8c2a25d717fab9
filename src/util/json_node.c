// SPDX-License-Identifier: BSD-2-Clause
#include "util/json_node.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <sys/random.h>

#define SLOTS_MIN 32
/* The limit of one search in order, so that an object of 65536 members does not take that many steps for each. */
#define LOOKED_AT_MAX 4096

void json_nodes_free(struct json_nodes *nodes)
{
	free(nodes->list);
	free(nodes->table);
	memset(nodes, 0, sizeof(*nodes));
}

/* ---- escapes ---- */

static uint32_t hex4(const char *text)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 4 | (uint32_t)((text[i] & 0xf) + (text[i] > '9' ? 9 : 0));
	return v;
}

static char *utf8_put(char *out, uint32_t c)
{
	if (c < 0x80) {
		*out++ = (char)c;
		return out;
	}
	if (c < 0x800) {
		*out++ = (char)(0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			*out++ = (char)(0xe0 | c >> 12);
		} else {
			*out++ = (char)(0xf0 | c >> 18);
			*out++ = (char)(0x80 | (c >> 12 & 0x3f));
		}
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	*out++ = (char)(0x80 | (c & 0x3f));
	return out;
}

/* Decodes a string that json_scan accepted in place. Returns its new length. In a key a NUL becomes two bytes that no UTF-8
 * has, so that as a C string it is no other key. */
static uint32_t unescape(char *text, uint32_t len, bool is_key)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *p = text, *end = text + len, *named;
	char *out = text;
	uint32_t c;

	while (p < end) {
		if (*p != '\\') {
			*out++ = *p++;
			continue;
		}
		p++;
		if (*p != 'u') {
			named = strchr(from, *p);
			*out++ = named ? to[named - from] : *p;
			p++;
			continue;
		}
		c = hex4(p + 1);
		p += 5;
		if (c >= 0xd800 && c <= 0xdbff) {
			c = 0x10000 + ((c - 0xd800) << 10) + (hex4(p + 2) - 0xdc00);
			p += 6;
		}
		out = c || !is_key ? utf8_put(out, c) : stpcpy(out, "\xc0\x80");
	}
	return (uint32_t)(out - text);
}

/* ---- equal keys ---- */

/* Keys come from outside: the seed prevents keys that were chosen to collide. */
static uint64_t hash_key(const char *key, uint32_t len)
{
	static uint64_t seed;
	uint64_t hash, word;

	while (!seed) {
		if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
			seed = 0x9e3779b97f4a7c15ULL ^ (uintptr_t)key;
	}
	hash = seed ^ len;
	for (; len >= sizeof(word); key += sizeof(word), len -= (uint32_t)sizeof(word)) {
		memcpy(&word, key, sizeof(word));
		hash = (hash ^ word) * 0x9fb21c651e98df25ULL;
		hash ^= hash >> 32;
	}
	for (word = 0; len; len--)
		word = word << 8 | (unsigned char)key[len - 1];
	hash = (hash ^ word) * 0x9fb21c651e98df25ULL;
	return hash ^ hash >> 32;
}

static bool table_reserve(struct json_nodes *nodes, uint32_t want)
{
	uint32_t *table;

	if (want > nodes->table_size) {
		table = reallocarray(nodes->table, want, sizeof(*table));
		if (!table)
			return false;
		nodes->table = table;
		nodes->table_size = want;
	}
	memset(nodes->table, 0, want * sizeof(*nodes->table));
	return true;
}

/* Of several members with the same key the last one counts, as in all readers. */
static int drop_repeated(struct json_nodes *nodes, struct json_node *object)
{
	struct json_node *end = object + object->span, *other;
	uint32_t slots = SLOTS_MIN, at;

	/* each member has a node, so at most half of the slots are taken */
	while (slots < 2 * object->span)
		slots *= 2;
	if (object->span < 3)
		return 0;
	if (!table_reserve(nodes, slots))
		return -ENOMEM;
	for (struct json_node *child = object + 1; child < end; child += child->span) {
		at = (uint32_t)hash_key(child->key, child->key_len) & (slots - 1);
		for (; nodes->table[at]; at = (at + 1) & (slots - 1)) {
			other = nodes->list + nodes->table[at];
			if (other->key_len == child->key_len &&
				!memcmp(other->key, child->key, child->key_len)) {
				other->kind = JSON_DROPPED;
				break;
			}
		}
		nodes->table[at] = (uint32_t)(child - nodes->list);
	}
	return 0;
}

static void key_finish(struct json_node *node, char *text)
{
	char *key = text + (uintptr_t)node->key;

	if (node->key_escapes)
		node->key_len = unescape(key, node->key_len, true);
	key[node->key_len] = '\0';
	node->key = key;
}

/* Whether it is a number that no double holds, which most readers refuse. */
static bool is_out_of_range(const struct json_node *node)
{
	bool real = node->kind == JSON_REAL;

	return (real || node->kind == JSON_INT) && (node->len > DBL_MAX_10_EXP || (real && strpbrk(node->text, "eE"))) &&
	       isinf(strtod(node->text, NULL));
}

static void text_finish(struct json_node *node, char *text, bool root)
{
	char *value = text + (uintptr_t)node->text;

	if (node->escapes)
		node->len = unescape(value, node->len, false);
	/* the byte after a number at top level does not belong to it */
	if (node->kind == JSON_STRING ||
		(!root && (node->kind == JSON_INT || node->kind == JSON_REAL)))
		value[node->len] = '\0';
	node->text = value;
}

int json_nodes_finish(struct json_nodes *nodes, char *text)
{
	struct json_node *node;
	int err = 0;

	for (uint32_t i = 0; i < nodes->len; i++) {
		node = &nodes->list[i];
		if (node->key)
			key_finish(node, text);
		text_finish(node, text, i == 0);
		if (i && is_out_of_range(node))
			return -ERANGE;
	}
	for (uint32_t i = 0; i < nodes->len && !err; i++) {
		if (nodes->list[i].kind == JSON_OBJECT)
			err = drop_repeated(nodes, &nodes->list[i]);
	}
	return err;
}

/* ---- values ---- */

static bool has_key(const struct json_node *member, const char *key, size_t len)
{
	return member->key_len == len && !memcmp(member->key, key, len);
}

const struct json_node *node_get(const struct json_node *object, const char *key)
{
	size_t len = strlen(key);

	if (!node_is(object, JSON_OBJECT))
		return NULL;
	json_for_each (member, object) {
		if (has_key(member, key, len))
			return member;
	}
	return NULL;
}

const struct json_node *node_get_next(
	const struct json_node *object, const char *key, const struct json_node **cursor)
{
	const struct json_node *member = *cursor;
	size_t len = strlen(key), looked_at = 0;

	if (!node_is(object, JSON_OBJECT))
		return NULL;
	do {
		member = json_next(object, member);
		if (member && has_key(member, key, len))
			return *cursor = member;
		/* wraps around from the last member to the first until all have been looked at */
	} while (member != *cursor && ++looked_at < LOOKED_AT_MAX);
	return NULL;
}

void node_members(const struct json_node *object, const char *const *names, size_t n,
	const struct json_node **ret_members)
{
	size_t hint = 0;

	memset(ret_members, 0, n * sizeof(*ret_members));
	if (!node_is(object, JSON_OBJECT))
		return;
	json_for_each (member, object) {
		for (size_t i = 0; i < n; i++) {
			size_t k = (hint + i) % n;

			if (strcmp(member->key, names[k]))
				continue;
			ret_members[k] = member;
			hint = k + 1;
			break;
		}
	}
}

/* The digits of an integer. Returns -ERANGE when they do not fit. */
static int digits(const char *text, uint32_t len, uint64_t *ret)
{
	uint64_t v = 0;

	for (const char *end = text + len; text < end; text++) {
		if (__builtin_mul_overflow(v, 10, &v) ||
			__builtin_add_overflow(v, (uint64_t)(*text - '0'), &v))
			return -ERANGE;
	}
	*ret = v;
	return 0;
}

uint64_t node_u64(const struct json_node *node)
{
	uint64_t v;

	if (!node_is(node, JSON_INT) || *node->text == '-')
		return 0;
	return digits(node->text, node->len, &v) ? UINT64_MAX : v;
}

int64_t node_s64(const struct json_node *node)
{
	bool negative;
	uint64_t v;

	if (!node_is(node, JSON_INT))
		return 0;
	negative = *node->text == '-';
	if (digits(node->text + negative, node->len - negative, &v) || v > INT64_MAX)
		return negative ? INT64_MIN : INT64_MAX;
	return negative ? -(int64_t)v : (int64_t)v;
}

double node_double(const struct json_node *node)
{
	return node_is(node, JSON_INT) || node_is(node, JSON_REAL) ? strtod(node->text, NULL) : 0;
}

/* Converts decimal text scaled by 10^shift to an integer, by the rules of node_us_to_ns. */
static int decimal_scale(const char *text, bool real, int shift, int64_t *ret)
{
	bool negative = *text == '-', point = false, cut = false, e = real && strpbrk(text, "eE");
	int64_t value = 0;
	long exponent = 0;

	text += negative;
	for (; (*text >= '0' && *text <= '9') || (*text == '.' && !point); text++) {
		if (*text == '.') {
			point = true;
			continue;
		}
		if (point && shift == 0 && !e) {
			cut |= *text != '0'; /* the usual case: too many decimals */
			continue;
		}
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, *text - '0', &value))
			return -ERANGE;
		shift -= point;
	}
	if (*text == 'e' || *text == 'E') {
		exponent = strtol(text + 1, NULL, 10);
		if (exponent > 10000 || exponent < -10000)
			return -ERANGE;
	}
	for (exponent += shift; exponent > 0 && value; exponent--)
		if (__builtin_mul_overflow(value, 10, &value))
			return -ERANGE;
	for (; exponent < 0 && value; exponent++) {
		cut |= value % 10 != 0;
		value /= 10;
	}
	*ret = negative ? -value - cut : value;
	return cut;
}

int node_us_to_ns(const struct json_node *node, int64_t *ret_ns)
{
	if (!node_is(node, JSON_INT) && !node_is(node, JSON_REAL))
		return -EINVAL;
	return decimal_scale(node->text, node->kind == JSON_REAL, 3, ret_ns);
}
