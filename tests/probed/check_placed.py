#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Probes on the functions of libplaced.so: a preset for them, and a check of what they recorded.

  check_placed.py preset MODE LIST            prints the preset
  check_placed.py check MODE LIST TRACE LOG   prints "ok" or "not ok"

LIST is what call_placed -l prints, LOG what it printed when it ran. MODE: spans; instants, without an
argument on the stack; stack, instants with one.
"""
import collections
import json
import sys

ARGS = {"a": "u64 arg1", "b": "u64 arg2", "c": "u64 arg3", "d": "u64 arg4", "e": "u64 arg5",
        "cell": "u64 *(arg6)"}
STACK_ARGS = {"g": "u64 *(sp+8)"}


def print_preset(mode, functions):
    args = ARGS if mode == "instants" else {**ARGS, **STACK_ARGS}
    key = "symbol" if mode == "spans" else "instant"
    json.dump({
        "name": "placed", "version": 1, "match": {"mapped": ["libplaced.so"]},
        "probes": [{key: name, "role": "op", "args": args} for name in functions],
    }, sys.stdout, indent=1)


def wanted_args(a, i):
    return {"a": a, "b": 3 * a + 1, "c": i % 4, "d": a ^ 0x55, "e": a + 7, "cell": a, "g": a - 1}


def read_functions(path):
    """The events of functions: name, args."""
    with open(path) as f:
        for line in f:
            if '"cat":"op"' in line:
                e = json.loads(line.rstrip().rstrip(","))
                yield e["name"], e["args"]


def is_right(args, kind, mode):
    a = args["a"]
    for key, value in wanted_args(a, a & 0xffffffff).items():
        # further passes of a loop, each of which is an instant, have begun to count down
        if key in args and args[key] != value and not (
                key == "c" and kind == "loops" and mode != "spans"):
            return False
    return True


def check(mode, functions, trace, log):
    seen = collections.defaultdict(collections.Counter)
    wrong = collections.Counter()
    counts = json.loads(open(log).read().splitlines()[-1])
    problems = []
    n = 0

    for name, args in read_functions(trace):
        n += 1
        if is_right(args, functions[name], mode):
            seen[name][args["a"]] += 1
        else:
            wrong[name] += 1
    chosen = len(seen)
    for name, got in seen.items():
        wanted = {}
        for thread in range(1, counts["threads"] + 1):
            for i in range(counts["calls"]):
                passes = i % 4 + 1 if functions[name] == "loops" and mode != "spans" else 1
                if name == "endbr_passed" and "enters_passed" in seen:
                    passes = 2
                wanted[(thread << 32) + i] = passes
        if got != wanted:
            problems.append("%s: %d of %d" % (name, sum(got.values()), sum(wanted.values())))
    problems += ["%s: %d with wrong arguments" % w for w in wrong.items()]
    if chosen != counts["functions"]:
        problems.append("%d of %d functions" % (chosen, counts["functions"]))
    what = "%s: %d functions, %d threads, %d records, every call once, arguments right" % (
        mode, counts["functions"], counts["threads"], n)
    if problems:
        print("not ok %s - %s" % (mode, "; ".join(problems)))
        return 1
    print("ok " + what)
    return 0


def main():
    command, mode, path = sys.argv[1:4]
    with open(path) as f:
        functions = dict(line.split() for line in f)
    if command == "preset":
        print_preset(mode, functions)
        return 0
    return check(mode, functions, *sys.argv[4:])


if __name__ == "__main__":
    sys.exit(main())
