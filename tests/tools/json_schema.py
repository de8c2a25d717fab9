#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks JSON with a schema of docs: json_schema.py SCHEMA [FILE.jsonl | FILE.json]...

A .jsonl has a document on each line. Readers have to accept keys that they do not know, so the schemas allow
them; inftrace itself has to write none that its schema does not name, so here objects whose members are all
listed hold no others. Exit code 1 and a line for each of the first problems.

Runs with Debian's Python, which has python3-jsonschema.
"""
import json
import sys

from jsonschema import Draft202012Validator


def close(schema):
    """Objects with listed members have no others, unless the schema says what these are."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            close(part)
    elif isinstance(schema, list):
        for part in schema:
            close(part)


def documents(path):
    with open(path, encoding="utf-8") as f:
        if path.endswith(".jsonl"):
            yield from ((f"{path}:{n}", json.loads(line)) for n, line in enumerate(f, 1) if line.strip())
        else:
            yield path, json.load(f)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        schema = json.load(f)
    Draft202012Validator.check_schema(schema)
    close(schema)
    validator = Draft202012Validator(schema)
    checked = problems = 0
    for path in sys.argv[2:]:
        for where, document in documents(path):
            checked += 1
            for error in validator.iter_errors(document):
                problems += 1
                if problems <= 10:
                    print(f"{where}: {error.json_path}: {error.message[:300]}")
    print(f"{checked} documents, {problems} problems")
    sys.exit(1 if problems or not checked else 0)


main()
