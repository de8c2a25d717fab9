#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Presets against docs/preset.schema.json: check_schema.py SCHEMA PRESET...

With the standard library only: of JSON Schema (draft 2020-12) it knows the keywords that this schema
uses, and refuses others. Exit code 1 and a line for the first problem of each preset.
"""
import json
import re
import sys

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
ANNOTATIONS = {"$schema", "$defs", "title", "description"}


def check_object(schema, root, value, path):
    for key in schema.get("required", []):
        if key not in value:
            yield "%s: no %s" % (path, key)
    for key, others in schema.get("dependentRequired", {}).items():
        if key in value and not set(others) <= set(value):
            yield "%s: %s without %s" % (path, key, ", ".join(others))
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        yield path + ": too few or too many members"
    known = schema.get("properties", {})
    for key, member in value.items():
        yield from check(schema.get("propertyNames", {}), root, key, path + "/" + key)
        yield from check(known.get(key, schema.get("additionalProperties", {})), root, member,
                         path + "/" + key)


def check_array(schema, root, value, path):
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield path + ": too few or too many items"
    for i, item in enumerate(value):
        yield from check(schema.get("items", {}), root, item, "%s/%d" % (path, i))


def check_string(schema, _root, value, path):
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield path + ": too short or too long"
    if not re.search(schema.get("pattern", ""), value):
        yield path + ": not of the form"


def check_number(schema, _root, value, path):
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield path + ": out of range"


CHECKS = {dict: check_object, list: check_array, str: check_string, int: check_number}
KEYWORDS = ANNOTATIONS | {
    "type", "enum", "oneOf", "$ref", "required", "dependentRequired", "minProperties", "maxProperties",
    "properties", "propertyNames", "additionalProperties", "minItems", "maxItems", "items", "minLength",
    "maxLength", "pattern", "minimum", "maximum"}


def check(schema, root, value, path):
    """Yields what is wrong with the value."""
    if schema is False:
        yield path + ": unknown key"
        return
    assert set(schema) <= KEYWORDS, set(schema) - KEYWORDS
    if "$ref" in schema:
        yield from check(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, value, path)
    if "type" in schema and type(value) is not TYPES[schema["type"]]:
        yield "%s: not of type %s" % (path, schema["type"])
        return
    if "enum" in schema and value not in schema["enum"]:
        yield path + ": not one of " + ", ".join(schema["enum"])
    if "oneOf" in schema and sum(
            not any(check(s, root, value, path)) for s in schema["oneOf"]) != 1:
        yield path + ": none, or several, of the alternatives"
    if type(value) in CHECKS:
        yield from CHECKS[type(value)](schema, root, value, path)


def main():
    with open(sys.argv[1]) as f:
        schema = json.load(f)
    failed = False
    for preset in sys.argv[2:]:
        try:
            with open(preset, encoding="utf-8") as f:
                problem = next(check(schema, schema, json.load(f), ""), None)
        except ValueError as e:
            problem = "not JSON: %s" % e
        if problem:
            print("%s: %s" % (preset, problem))
            failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
