/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JSON: a recogniser for one JSON value (RFC 8259), fed piece by piece.
 *
 * It is strict where json-c is not: control bytes in strings, NaN, numbers such as 01 or 1., and
 * lone surrogates are refused, as by JSON.parse and Perfetto. In the same pass it notes where each
 * value within it begins and ends, as a list of nodes, so that nothing has to be parsed a second
 * time.
 */
#ifndef INFTRACE_JSON_H
#define INFTRACE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Deeper nesting is refused. Traces nest 4 deep, 7 with tensor shapes. */
#define JSON_DEPTH_MAX 63
/* More nodes are refused: these take 2 MB. */
#define JSON_VALUES_MAX 65536u

enum json_kind {
	JSON_DROPPED, /* a later member of the object has the same key; not returned by json_next */
	JSON_NULL,
	JSON_FALSE,
	JSON_TRUE,
	JSON_INT, /* without a fraction or exponent */
	JSON_REAL,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
};

/* A value. A string's text is decoded, a number's is as written; both end in a NUL that is not
 * counted. */
struct json_node {
	const char *key; /* as a C string, with C0 80 for a NUL in it; NULL: not a member of an object */
	const char *text;
	uint32_t key_len, len;
	uint32_t span; /* nodes from this one to the first after all that it contains */
	uint8_t kind;
	bool key_escapes, escapes; /* until json_nodes_finish */
};

struct json_nodes {
	struct json_node *list;
	size_t len, size;
	uint32_t *table; /* for finding equal keys */
	uint32_t table_size;
};

struct json_scan {
	uint8_t state, depth;
	uint64_t arrays;        /* bit N: the container at depth N is an array */
	bool key;               /* the string being read is a key */
	bool surrogate_escapes; /* a \ud800 to \udfff escape was seen, valid or not */
	bool escapes;           /* in the string being read */
	bool real;              /* the number being read */
	int8_t utf8_need;
	uint8_t utf8_lo, utf8_hi;
	uint8_t hex_left;
	uint16_t hex, high_surrogate;
	const char *literal;               /* the rest of true, false or null */
	size_t fed;                        /* bytes of earlier pieces */
	struct json_nodes *nodes;          /* NULL: none are made */
	struct json_node member;           /* the key of the next value */
	uint32_t open[JSON_DEPTH_MAX + 1]; /* the node of the container at each depth */
	char error[64];
};

/* nodes: where they are stored, replacing what is there; NULL: the value is only checked. */
void json_scan_init(struct json_scan *scan, struct json_nodes *nodes);

/* Feeds text; *ret_used is how much of it belongs to the value. Returns 1 when the value is
 * complete, 0 when more is needed, -EBADMSG with scan->error set (the byte at *ret_used is wrong),
 * -E2BIG likewise. */
int json_scan_feed(struct json_scan *scan, const unsigned char *text, size_t len, size_t *ret_used);

/* The text has ended. Returns 1 when the value is complete (a number at top level has no end of its
 * own), -ENODATA when it is cut short. */
int json_scan_end(struct json_scan *scan);

/*
 * Makes the nodes of a complete value ready for use. text is everything that was fed, in one piece;
 * it is changed, and the nodes point into it. The first node is the value. -ERANGE: a number is
 * out of the range of a double.
 */
int json_nodes_finish(struct json_nodes *nodes, char *text);
void json_nodes_free(struct json_nodes *nodes);

/* ---- nodes: NULL is a missing member, and has no kind ---- */

static inline bool node_is(const struct json_node *node, enum json_kind kind)
{
	return node && node->kind == kind;
}

static inline bool node_is_bool(const struct json_node *node)
{
	return node_is(node, JSON_TRUE) || node_is(node, JSON_FALSE);
}

static inline bool node_is_scalar(const struct json_node *node)
{
	return node->kind < JSON_ARRAY;
}

/* The text of a string; NULL for anything else. */
static inline const char *node_string(const struct json_node *node)
{
	return node_is(node, JSON_STRING) ? node->text : NULL;
}

static inline bool node_is_text(const struct json_node *node, const char *text)
{
	return node_is(node, JSON_STRING) && node->len == strlen(text) && !memcmp(node->text, text, node->len);
}

/* The child after `child` of an array or object, the first one for NULL; NULL at the end. */
static inline const struct json_node *json_next(
	const struct json_node *parent, const struct json_node *child)
{
	const struct json_node *end = parent + parent->span;

	for (child = child ? child + child->span : parent + 1; child < end; child += child->span) {
		if (child->kind != JSON_DROPPED)
			return child;
	}
	return NULL;
}

#define json_for_each(child, parent)                                         \
	for (const struct json_node *child = json_next(parent, NULL); child; \
		child = json_next(parent, child))

/* A member of an object; NULL if there is none, or if this is not an object. */
const struct json_node *node_get(const struct json_node *object, const char *key);

/* The same for members in a known order: begins after *cursor, which is NULL at first and then the
 * member found last, and looks at no more than 4096 members. */
const struct json_node *node_get_next(
	const struct json_node *object, const char *key, const struct json_node **cursor);

/* Finds the members with these n names; NULL for missing ones. Members that come in the order of
 * the names are found at once. */
void node_members(const struct json_node *object, const char *const *names, size_t n,
	const struct json_node **ret_members);

/* An integer, or the nearest that fits; 0 for anything else. */
int64_t node_s64(const struct json_node *node);
uint64_t node_u64(const struct json_node *node);
/* A number; 0 for anything else. */
double node_double(const struct json_node *node);

/*
 * Converts a number of microseconds to nanoseconds, from its decimal text and not by way of a
 * double. Returns 0, 1 when digits below the nanosecond were cut off (towards minus infinity),
 * -EINVAL when it is not a number, -ERANGE when it does not fit.
 */
int node_us_to_ns(const struct json_node *node, int64_t *ret_ns);

#endif
