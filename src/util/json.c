// SPDX-License-Identifier: BSD-2-Clause
#include "util/json.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "util/fmt.h"
#include "util/list.h"
#include "util/text.h"

#define SLOTS_MIN 32
/* The limit of one node_get_next(), so that an object of 65536 members does not take that many steps for each. */
#define LOOKED_AT_MAX 4096

enum scan_state {
	SC_VALUE,
	SC_VALUE_OR_END, /* after [ */
	SC_KEY_OR_END,   /* after { */
	SC_KEY,
	SC_COLON,
	SC_AFTER, /* after a value in a container */
	SC_STRING,
	SC_ESCAPE,
	SC_HEX,
	SC_LOW_BACKSLASH, /* a high surrogate must be followed by \uDC00 */
	SC_LOW_U,
	SC_LITERAL,
	SC_NUM_MINUS,
	SC_NUM_ZERO,
	SC_NUM_INT,
	SC_NUM_POINT,
	SC_NUM_FRAC,
	SC_NUM_E,
	SC_NUM_SIGN,
	SC_NUM_EXP,
	SC_DONE,
};

void json_scan_init(struct json_scan *scan, struct json_nodes *nodes)
{
	memset(scan, 0, offsetof(struct json_scan, open));
	scan->error[0] = '\0';
	scan->member.span = 1;
	scan->nodes = nodes;
	if (nodes)
		nodes->len = 0;
}

static int __attribute__((format(printf, 2, 3))) scan_fail(struct json_scan *scan, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(scan->error, sizeof(scan->error), fmt, args);
	va_end(args);
	return -EBADMSG;
}

static int scan_unexpected(struct json_scan *scan, unsigned char c, const char *wanted)
{
	if (c > 0x20 && c < 0x7f)
		return scan_fail(scan, "%s expected, not '%c'", wanted, c);
	return scan_fail(scan, "%s expected, not byte 0x%02x", wanted, c);
}

static bool is_space(unsigned char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

static void value_done(struct json_scan *scan)
{
	scan->state = scan->depth ? SC_AFTER : SC_DONE;
}

/* Until json_nodes_finish, the texts of nodes are offsets from the beginning of the value. */
static const char *offset_text(size_t offset)
{
	return (const char *)(uintptr_t)offset;
}

static int node_add(struct json_scan *scan, enum json_kind kind, size_t at)
{
	struct json_nodes *nodes = scan->nodes;

	if (!nodes)
		return 0;
	if (nodes->len == JSON_VALUES_MAX) {
		scan_fail(scan, "more than %u values", JSON_VALUES_MAX);
		return -E2BIG;
	}
	scan->member.kind = (uint8_t)kind;
	scan->member.text = offset_text(at);
	*list_push(nodes->list, nodes->len, nodes->size) = scan->member;
	scan->member = (struct json_node){ .span = 1 };
	return 0;
}

/* Ends the value that began last, just before `at`. */
static void scalar_end(struct json_scan *scan, size_t at)
{
	struct json_node *node;

	if (scan->nodes) {
		node = &scan->nodes->list[scan->nodes->len - 1];
		node->len = (uint32_t)(at - (uintptr_t)node->text);
		node->escapes = scan->escapes;
	}
	value_done(scan);
}

static void container_open(struct json_scan *scan, bool array)
{
	scan->depth++;
	if (scan->nodes)
		scan->open[scan->depth] = scan->nodes->len - 1;
	scan->arrays &= ~(1ULL << scan->depth);
	scan->arrays |= (uint64_t)array << scan->depth;
	scan->state = array ? SC_VALUE_OR_END : SC_KEY_OR_END;
}

static void container_close(struct json_scan *scan)
{
	if (scan->nodes)
		scan->nodes->list[scan->open[scan->depth]].span =
			scan->nodes->len - scan->open[scan->depth];
	scan->depth--;
	value_done(scan);
}

static bool in_array(const struct json_scan *scan)
{
	return scan->arrays >> scan->depth & 1;
}

static int value_start(struct json_scan *scan, unsigned char c, size_t at)
{
	int err;

	switch (c) {
	case '{':
	case '[':
		if (scan->depth == JSON_DEPTH_MAX)
			return scan_fail(scan, "nested too deep");
		err = node_add(scan, c == '[' ? JSON_ARRAY : JSON_OBJECT, at);
		if (!err)
			container_open(scan, c == '[');
		return err;
	case '"':
		scan->key = scan->escapes = false;
		scan->state = SC_STRING;
		return node_add(scan, JSON_STRING, at + 1);
	case 't':
		scan->literal = "rue";
		scan->state = SC_LITERAL;
		return node_add(scan, JSON_TRUE, at);
	case 'f':
		scan->literal = "alse";
		scan->state = SC_LITERAL;
		return node_add(scan, JSON_FALSE, at);
	case 'n':
		scan->literal = "ull";
		scan->state = SC_LITERAL;
		return node_add(scan, JSON_NULL, at);
	}
	if (c != '-' && !is_digit(c))
		return scan_unexpected(scan, c, "a value");
	scan->state = c == '-' ? SC_NUM_MINUS : c == '0' ? SC_NUM_ZERO : SC_NUM_INT;
	scan->real = scan->escapes = false;
	return node_add(scan, JSON_INT, at);
}

/* Handles everything but the insides of strings and numbers. */
static int scan_structure(struct json_scan *scan, unsigned char c, size_t at)
{
	if (is_space(c))
		return 0;
	switch (scan->state) {
	case SC_VALUE_OR_END:
	case SC_VALUE:
		if (c != ']' || scan->state == SC_VALUE)
			return value_start(scan, c, at);
		container_close(scan);
		return 0;
	case SC_KEY_OR_END:
	case SC_KEY:
		if (c == '}' && scan->state == SC_KEY_OR_END) {
			container_close(scan);
			return 0;
		}
		if (c != '"')
			return scan_unexpected(scan, c, "a key in quotes");
		scan->key = true;
		scan->escapes = false;
		scan->member.key = offset_text(at + 1);
		scan->state = SC_STRING;
		return 0;
	case SC_COLON:
		if (c != ':')
			return scan_unexpected(scan, c, "':'");
		scan->state = SC_VALUE;
		return 0;
	default: /* SC_AFTER */
		if (c == ',')
			scan->state = in_array(scan) ? SC_VALUE : SC_KEY;
		else if (c == (in_array(scan) ? ']' : '}'))
			container_close(scan);
		else
			return scan_unexpected(
				scan, c, in_array(scan) ? "',' or ']'" : "',' or '}'");
		return 0;
	}
}

static void string_end(struct json_scan *scan, size_t at)
{
	if (!scan->key) {
		scalar_end(scan, at);
		return;
	}
	scan->member.key_len = (uint32_t)(at - (uintptr_t)scan->member.key);
	scan->member.key_escapes = scan->escapes;
	scan->state = SC_COLON;
}

static int scan_string(struct json_scan *scan, unsigned char c, size_t at)
{
	if (scan->utf8_need > 0) {
		if (c < scan->utf8_lo || c > scan->utf8_hi)
			return scan_fail(scan, "invalid UTF-8 in a string");
		scan->utf8_need--;
		scan->utf8_lo = 0x80;
		scan->utf8_hi = 0xbf;
		return 0;
	}
	if (c >= 0x80) {
		scan->utf8_need = (int8_t)fmt_utf8_need(c, &scan->utf8_lo, &scan->utf8_hi);
		return scan->utf8_need < 0 ? scan_fail(scan, "invalid UTF-8 in a string") : 0;
	}
	if (c < 0x20)
		return scan_fail(scan, "control byte 0x%02x in a string", c);
	if (c == '\\') {
		scan->state = SC_ESCAPE;
		scan->escapes = true;
	} else if (c == '"') {
		string_end(scan, at);
	}
	return 0;
}

static unsigned int hex_digit(unsigned char c)
{
	return (c & 0xf) + (c > '9' ? 9u : 0);
}

static int hex_done(struct json_scan *scan)
{
	bool high = scan->hex >= 0xd800 && scan->hex <= 0xdbff;
	bool low = scan->hex >= 0xdc00 && scan->hex <= 0xdfff;

	scan->surrogate_escapes |= high || low;
	if (low != (scan->high_surrogate != 0))
		return scan_fail(scan, "half of a surrogate pair in a string");
	scan->high_surrogate = high ? scan->hex : 0;
	scan->state = high ? SC_LOW_BACKSLASH : SC_STRING;
	return 0;
}

static void hex_begin(struct json_scan *scan)
{
	scan->state = SC_HEX;
	scan->hex_left = 4;
	scan->hex = 0;
}

static int scan_escape(struct json_scan *scan, unsigned char c)
{
	switch (scan->state) {
	case SC_ESCAPE:
		if (c == 'u') {
			hex_begin(scan);
			return 0;
		}
		if (!c || !strchr("\"\\/bfnrt", c))
			return scan_fail(scan, "unknown escape in a string");
		scan->state = SC_STRING;
		return 0;
	case SC_HEX:
		if (!isxdigit(c))
			return scan_fail(scan, "\\u without four hex digits");
		scan->hex = (uint16_t)(scan->hex << 4 | hex_digit(c));
		return --scan->hex_left ? 0 : hex_done(scan);
	default: /* SC_LOW_BACKSLASH, SC_LOW_U */
		if (c != (scan->state == SC_LOW_U ? 'u' : '\\'))
			return scan_fail(scan, "half of a surrogate pair in a string");
		if (scan->state == SC_LOW_U)
			hex_begin(scan);
		else
			scan->state = SC_LOW_U;
		return 0;
	}
}

static int scan_literal(struct json_scan *scan, unsigned char c)
{
	if (c != *scan->literal)
		return scan_fail(scan, "a value that is not true, false or null");
	if (!*++scan->literal)
		value_done(scan);
	return 0;
}

static bool number_may_end(int state)
{
	return state == SC_NUM_ZERO || state == SC_NUM_INT || state == SC_NUM_FRAC ||
	       state == SC_NUM_EXP;
}

static void number_end(struct json_scan *scan, size_t at)
{
	if (scan->real && scan->nodes)
		scan->nodes->list[scan->nodes->len - 1].kind = JSON_REAL;
	scalar_end(scan, at);
}

/* Returns 1 when c is part of the number, 0 when the number ended before it. */
static int scan_number(struct json_scan *scan, unsigned char c, size_t at)
{
	bool digit = is_digit(c), e = c == 'e' || c == 'E';
	int next = SC_DONE;

	switch (scan->state) {
	case SC_NUM_MINUS:
		if (digit)
			next = c == '0' ? SC_NUM_ZERO : SC_NUM_INT;
		break;
	case SC_NUM_ZERO:
		if (digit)
			return scan_fail(scan, "a number with a leading zero");
		/* fallthrough */
	case SC_NUM_INT:
		next = digit ? SC_NUM_INT : c == '.' ? SC_NUM_POINT : e ? SC_NUM_E : SC_DONE;
		break;
	case SC_NUM_POINT:
	case SC_NUM_FRAC:
		if (digit)
			next = SC_NUM_FRAC;
		else if (e && scan->state == SC_NUM_FRAC)
			next = SC_NUM_E;
		break;
	case SC_NUM_E:
		if (c == '+' || c == '-') {
			next = SC_NUM_SIGN;
			break;
		}
		/* fallthrough */
	default: /* SC_NUM_SIGN, SC_NUM_EXP */
		if (digit)
			next = SC_NUM_EXP;
		break;
	}
	if (next != SC_DONE) {
		scan->state = next;
		scan->real |= next > SC_NUM_INT;
		return 1;
	}
	if (!number_may_end(scan->state))
		return scan_unexpected(scan, c, "a digit");
	number_end(scan, at);
	return 0;
}

/* Bytes of a string that neither end it nor need a closer look: printable ASCII except " and \. */
static const bool plain[256] = {
	[0x20 ... 0x21] = true,
	[0x23 ... 0x5b] = true,
	[0x5d ... 0x7f] = true,
};

int json_scan_feed(struct json_scan *scan, const unsigned char *text, size_t len, size_t *ret_used)
{
	size_t i = 0, fed = scan->fed;
	int ret = 0;

	while (i < len && scan->state != SC_DONE) {
		switch (scan->state) {
		case SC_STRING:
			while (!scan->utf8_need && i < len && plain[text[i]])
				i++;
			if (i == len)
				continue;
			ret = scan_string(scan, text[i], fed + i);
			break;
		case SC_ESCAPE:
		case SC_HEX:
		case SC_LOW_BACKSLASH:
		case SC_LOW_U:
			ret = scan_escape(scan, text[i]);
			break;
		case SC_LITERAL:
			ret = scan_literal(scan, text[i]);
			break;
		case SC_NUM_INT:
		case SC_NUM_FRAC:
		case SC_NUM_EXP:
			while (i < len && is_digit(text[i]))
				i++;
			if (i == len)
				continue;
			/* fallthrough */
		case SC_NUM_MINUS:
		case SC_NUM_ZERO:
		case SC_NUM_POINT:
		case SC_NUM_E:
		case SC_NUM_SIGN:
			ret = scan_number(scan, text[i], fed + i);
			if (!ret)
				continue; /* text[i] is not part of it */
			break;
		default:
			ret = scan_structure(scan, text[i], fed + i);
			break;
		}
		if (ret < 0)
			break;
		i++;
	}
	*ret_used = i;
	scan->fed += i;
	if (ret < 0)
		return ret;
	return scan->state == SC_DONE;
}

int json_scan_end(struct json_scan *scan)
{
	if (!scan->depth && number_may_end(scan->state))
		number_end(scan, scan->fed);
	return scan->state == SC_DONE ? 1 : -ENODATA;
}

/* ---- nodes ---- */

void json_nodes_free(struct json_nodes *nodes)
{
	free(nodes->list);
	free(nodes->table);
	memset(nodes, 0, sizeof(*nodes));
}

/* ---- escapes ---- */

static uint32_t hex4_value(const char *text)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 4 | hex_digit((unsigned char)text[i]);
	return v;
}

/* Decodes, in place, a string that json_scan accepted. Returns its new length. In a key a NUL becomes two bytes that never
 * occur in UTF-8, so that as a C string the key equals no other. */
static uint32_t string_unescape(char *text, uint32_t len, bool is_key)
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
		c = hex4_value(p + 1);
		p += 5;
		if (c >= 0xd800 && c <= 0xdbff) {
			c = 0x10000 + ((c - 0xd800) << 10) + (hex4_value(p + 2) - 0xdc00);
			p += 6;
		}
		out = c || !is_key ? text_encode(out, c) : stpcpy(out, "\xc0\x80");
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

/* Of several members with the same key the last one counts, as in all readers. */
static void drop_repeated(struct json_nodes *nodes, struct json_node *object)
{
	struct json_node *end = object + object->span, *other;
	uint32_t slots = SLOTS_MIN, at;

	/* each member has a node, so at most half of the slots are taken */
	while (slots < 2 * object->span)
		slots *= 2;
	if (object->span < 3)
		return;
	if (slots > nodes->table_size) {
		nodes->table = xreallocarray(nodes->table, slots, sizeof(*nodes->table));
		nodes->table_size = slots;
	}
	memset(nodes->table, 0, slots * sizeof(*nodes->table));
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
}

static void key_finish(struct json_node *node, char *text)
{
	char *key = text + (uintptr_t)node->key;

	if (node->key_escapes)
		node->key_len = string_unescape(key, node->key_len, true);
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
		node->len = string_unescape(value, node->len, false);
	/* the byte after a number at top level does not belong to it */
	if (node->kind == JSON_STRING ||
		(!root && (node->kind == JSON_INT || node->kind == JSON_REAL)))
		value[node->len] = '\0';
	node->text = value;
}

int json_nodes_finish(struct json_nodes *nodes, char *text)
{
	for (uint32_t i = 0; i < nodes->len; i++) {
		struct json_node *node = &nodes->list[i];

		if (node->key)
			key_finish(node, text);
		text_finish(node, text, i == 0);
		if (i && is_out_of_range(node))
			return -ERANGE;
	}
	for (uint32_t i = 0; i < nodes->len; i++) {
		if (nodes->list[i].kind == JSON_OBJECT)
			drop_repeated(nodes, &nodes->list[i]);
	}
	return 0;
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

/* Parses the digits of an integer. Returns -ERANGE when they do not fit. */
static int parse_digits(const char *text, uint32_t len, uint64_t *ret)
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
	return parse_digits(node->text, node->len, &v) ? UINT64_MAX : v;
}

int64_t node_s64(const struct json_node *node)
{
	bool negative;
	uint64_t v;

	if (!node_is(node, JSON_INT))
		return 0;
	negative = *node->text == '-';
	if (parse_digits(node->text + negative, node->len - negative, &v) || v > INT64_MAX)
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
