#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a trace has of sdt's probes, against what the program said: check_sdt.py TRACE LOG

Prints a result for each probe: the events are as many, in the same order, with the same arguments.
"""
import collections
import json
import math
import struct
import sys


def number(value):
    """A value of the trace or of the log as a comparable one: the bits where it is a float."""
    if isinstance(value, str):
        try:
            value = float.fromhex(value)
        except ValueError:
            return value
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    return value


def f32(value):
    """The trace has the shortest number for a float; what it stands for is a float."""
    if isinstance(value, str):
        value = float(value)
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


FLOATS = {"f", "pair_f"}
DOUBLES = {"d", "other", "copy_d"}


def normal(args):
    out = {}
    for name, value in args.items():
        if name in FLOATS and not (isinstance(value, str) and "x" in value):
            value = f32(value)
        elif name in DOUBLES and not isinstance(value, str):
            value = float(value)
        out[name] = number(value)
    return out


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        trace = json.load(f)
    said, seen = collections.defaultdict(list), collections.defaultdict(list)
    with open(sys.argv[2], encoding="utf-8") as f:
        for line in f:
            if line.startswith("{"):
                event = json.loads(line)
                said[event["name"]].append(normal(event["args"]))
    for event in sorted((e for e in trace if e.get("cat") in ("op", "request")), key=lambda e: e["ts"]):
        seen[event["name"]].append(normal(event["args"]))
    failed = False
    for name in sorted(set(said) | set(seen)):
        what = "%s: %d events with the arguments that the program gave" % (name, len(said[name]))
        if said[name] == seen[name]:
            print("ok " + what)
            continue
        failed = True
        differ = [(a, b) for a, b in zip(said[name], seen[name]) if a != b]
        print("not ok %s - %d seen; the first that differs: %s" % (what, len(seen[name]), differ[:1]))
    sys.exit(failed)


main()
