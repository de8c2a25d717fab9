// SPDX-License-Identifier: BSD-2-Clause
#include "read/detect.h"

#include <stdio.h>
#include <string.h>

#include "read/etrace.h"
#include "util/text.h"

/* Whether the key at p (after its opening quote) is name; escapes do not occur in these names. */
static bool key_is(const unsigned char *p, const unsigned char *end, const char *name)
{
	size_t len = strlen(name);

	return (size_t)(end - p) > len && !memcmp(p, name, len) && p[len] == '"';
}

/* Whether the file begins with the GlobalMetadata of an execution trace; an empty one proves nothing. */
static bool is_execution_trace(const unsigned char *p, const unsigned char *end)
{
	struct proto_bytes in = { p, end };
	uint64_t len;
	bool own;

	if (proto_read_varint(&in, &len) != 1 || len > proto_len(in))
		return false;
	in.end = in.p + len;
	return etrace_metadata(in, &own) > 0;
}

/*
 * Classifies an object at the start of the file by its keys at depth 1: the first line of a profile, an execution trace, or
 * {"traceEvents": ...}. A profile with a broken first line should still be recognised, and a trace may have anything of any
 * size, over any number of lines, before its traceEvents.
 */
static enum file_kind detect_object(const unsigned char *p, const unsigned char *end)
{
	bool in_string = false, may_be_key = false, event_key = false, nodes_key = false;
	int depth = 0;

	for (; p < end; p++) {
		if (in_string) {
			if (*p == '\\')
				p++;
			else if (*p == '"')
				in_string = false;
			continue;
		}
		switch (*p) {
		case '{':
		case '[':
			depth++;
			may_be_key = true;
			break;
		case '}':
		case ']':
			if (--depth)
				break;
			if (nodes_key && !event_key)
				return FILE_ET_PYTORCH;
			/* the objects of a profile are on separate lines */
			return !event_key && p + 1 < end && p[1] == '{' ? FILE_ET_JSONIZER : FILE_PROFILE;
		case ',':
			may_be_key = true;
			break;
		case '"':
			in_string = true;
			if (depth == 1 && may_be_key && !event_key && key_is(p + 1, end, "traceEvents"))
				return FILE_TRACE;
			if (depth == 1 && may_be_key && !event_key && key_is(p + 1, end, "workload_graph"))
				return FILE_ET_FEEDER;
			if (depth == 1 && may_be_key && key_is(p + 1, end, "nodes"))
				nodes_key = true;
			if (depth == 1 && may_be_key && key_is(p + 1, end, "event"))
				event_key = true;
			may_be_key = false;
			break;
		case '\n':
			if (event_key)
				return FILE_PROFILE;
			break;
		}
	}
	return event_key ? FILE_PROFILE : nodes_key ? FILE_ET_PYTORCH
						    : FILE_TRACE;
}

enum file_kind file_detect(const struct json_source *source, char *buf, size_t size, const char **ret_why)
{
	const unsigned char *p = source->pos, *end = source->end;
	size_t len = (size_t)(end - p);

	if (p == end) {
		*ret_why = "is empty";
		return FILE_OTHER;
	}
	p = (const unsigned char *)text_trim((const char *)p, &len);
	if (!len) {
		*ret_why = "holds only white space";
		return FILE_OTHER;
	}
	*ret_why = "is an execution trace: inftrace validate checks it, and inftrace link takes it with --et";
	/* leading white space may parse as a GlobalMetadata with the { in its version */
	if ((p == source->pos || *p != '{') && is_execution_trace(source->pos, end))
		return FILE_EXECUTION_TRACE;
	if (*p == '[')
		return FILE_TRACE;
	if (*p == '{')
		return detect_object(p, end);
	if (source->pos[0] == '\n' && p == source->pos + 1) {
		*ret_why = "is not JSON (a .pftrace is read by Perfetto's trace_processor, and `traceconv json` makes JSON of it)";
		return FILE_OTHER;
	}
	snprintf(buf, size,
		"neither a profile (one JSON object a line) nor a Chrome trace ([ or {\"traceEvents\": [): it starts with byte 0x%02x",
		*p);
	*ret_why = buf;
	return FILE_OTHER;
}
