/* SPDX-License-Identifier: BSD-2-Clause */
/* Access to the nodes of a JSON value (json_scan.h). A NULL node is a missing member, and has no
 * kind. */
#ifndef INFTRACE_JSON_NODE_H
#define INFTRACE_JSON_NODE_H

#include <string.h>

#include "util/json_scan.h"

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
