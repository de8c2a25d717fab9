#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks the trace of the example in docs/engines.md: check_tally.py TRACE; prints "ok" lines."""
import json
import sys

OPS = [["embed", 1, "embed"], ["matmul", 8, "output"], ["softmax", 2, "chances"]]
failed = False


def same(name, got, wanted):
    global failed
    if got == wanted:
        print("ok " + name)
    else:
        failed = True
        print("not ok %s - got %.300s, wanted %.300s" % (name, got, wanted))


with open(sys.argv[1]) as f:
    events = [e for e in json.load(f) if e.get("cat") in ("step", "op", "barrier", "other")]
events.sort(key=lambda e: e["ts"])
steps = [e for e in events if e["cat"] == "step" and "unfinished" not in e["args"]]
first = steps[0]["args"]["number"]
numbers = range(first, first + len(steps))

same("steps: none is missing", [s["args"]["number"] for s in steps], list(numbers))
same("steps: tokens", [s["args"]["n_tokens"] for s in steps], [1 if n % 8 else 4 for n in numbers])
same("steps: names by a condition", [s["name"] for s in steps],
     ["decode" if n % 8 else "prefill" for n in numbers])
same("steps: a string", {s["args"]["prompt"] for s in steps}, {"how many"})

ops, barriers, evictions, at = [], [], [], 0
for step in steps:
    inner = []
    while at < len(events) and events[at]["ts"] < step["ts"] + step["dur"]:
        if events[at]["ts"] >= step["ts"] and events[at] is not step:
            inner.append(events[at])
        at += 1
    ops.append([e for e in inner if e["cat"] == "op"])
    barriers.append([e for e in inner if e["cat"] == "barrier"])
    evictions.append([e["args"]["bytes"] for e in inner if e["name"] == "evict"])
same("operators: names of an enum, a number and a string with --op-detail",
     [[[e["name"], e["args"]["rows"], e["args"]["tensor"]] for e in s] for s in ops],
     [OPS] * len(steps))
same("operators: end where the barrier begins",
     [[round(e["ts"] + e["dur"] - b["ts"], 3) for e, b in zip(*pair)] for pair in zip(ops, barriers)],
     [[0, 0, 0]] * len(steps))
same("instants: only those that the condition wants", evictions,
     [[64 * (1 if n % 8 else 4)] for n in numbers])
same("steps: time in the barrier", [s["name"] for s in steps
                                    if "barrier" not in s["args"]["breakdown_us"]], [])
sys.exit(failed)
