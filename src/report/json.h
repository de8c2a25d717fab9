/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds objects with json-c; a lack of memory is checked once, at the end. */
#ifndef INFTRACE_REPORT_JSON_H
#define INFTRACE_REPORT_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

/* Set by any of these functions that found no memory; they may then return NULL, which they also
 * accept. */
struct json_build {
	bool failed;
};

struct json_object *json_new_object(struct json_build *b);
struct json_object *json_new_array(struct json_build *b);

/* Takes over value. */
void json_put(
	struct json_build *b, struct json_object *o, const char *key, struct json_object *value);
void json_append(struct json_build *b, struct json_object *array, struct json_object *value);

void json_put_text(struct json_build *b, struct json_object *o, const char *key, const char *text);
void json_put_u64(struct json_build *b, struct json_object *o, const char *key, uint64_t v);
void json_put_double(struct json_build *b, struct json_object *o, const char *key, double v);
/* Nanoseconds as microseconds with three decimals, exactly. */
void json_put_us(struct json_build *b, struct json_object *o, const char *key, int64_t ns);

/* Compact. The object owns the text; NULL without memory. */
const char *json_text(struct json_build *b, struct json_object *o, size_t *ret_len);

#endif
