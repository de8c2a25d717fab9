#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The time in which Python collects garbage, in the steps of a profile and the slices of a trace, against what the program saw.

  check_gc.py PROFILE TRACE LOG
"""
import json
import sys

CALLBACKS_NS = 300_000  # of each collection: what Python does between its callbacks and the marks, with their probes and page faults; a
#                         full one takes some 10 ms


def ns(us):
    return round(us * 1000)


def main():
    lines = [json.loads(line) for line in open(sys.argv[1])]
    steps = [p for p in lines if p["event"] == "token_prof"]
    events = json.load(open(sys.argv[2]))
    events = events["traceEvents"] if isinstance(events, dict) else events
    truth = [json.loads(line) for line in open(sys.argv[3]) if line[0] == "{"]
    wrong = []
    if len(steps) != len(truth):
        wrong.append(f"{len(steps)} steps of {len(truth)}")
    for i, (step, t) in enumerate(zip(steps, truth)):
        stages, seen = step["stage_us"], t["collections"]
        got, most = ns(stages.get("gc", 0)), sum(c[1] for c in seen)
        least = 0.95 * sum(c[2] for c in seen) - CALLBACKS_NS * len(seen) - ns(stages.get("fault", 0)) - ns(stages.get("irq", 0))
        # the kernel of a virtual machine does not report each switch: then it ran earlier than is known
        least -= ns(stages.get("runnable", 0))
        least = max(least, len(seen))
        if t["plant"] != "none" and not seen:
            wrong.append(f"step {i}, {t['plant']}: the program has collected nothing")
        if not least <= got <= most:
            wrong.append(f"step {i}, {t['plant']}: {got} ns, not {least:.0f} to {most}")
        if sum(ns(v) for k, v in stages.items() if k != "total" and not k.startswith("workers_")) != ns(stages["total"]):
            wrong.append(f"step {i}: its states are not its time")
    spans = [(e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "step"]
    slices = sorted((e for e in events if e.get("cat") == "gc" and any(a <= e["ts"] < b for a, b in spans)), key=lambda e: e["ts"])
    want = [c[0] for t in truth for c in t["collections"]]
    got = [e["args"]["generation"] for e in slices]
    if got != want:
        wrong.append(f"generations of the slices: {got}, not {want}")
    print(f"{len(want)} collections in {len(truth)} steps, {sum(ns(s['stage_us'].get('gc', 0)) for s in steps) / 1e6:.3f} ms")
    for line in wrong[:20]:
        print("wrong:", line)
    return bool(wrong)


sys.exit(main())
