#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Waits for Python's lock in the steps of a profile, and who was in the way, against what the program planted.

  check_gil.py [--most SHARE] PROFILE LOG
"""
import argparse
import collections
import json
import sys


def judge(step, t):
    """What is wrong with a step's line; None: nothing."""
    stages, shape = step["stage_us"], step["shape"]
    gil, lock, queue = (stages.get(s, 0) for s in ("blocked_gil", "blocked_futex", "runnable"))
    held = t["ns"] / 1000
    causes = collections.Counter()
    n = 1
    while f"wait{n}_us" in shape:
        causes[shape[f"wait{n}_tid"]] += shape[f"wait{n}_us"]
        causes[shape[f"wait{n}_tid"], shape[f"wait{n}_state"]] += shape[f"wait{n}_us"]
        n += 1
    listed = sum(us for tid, us in causes.items() if isinstance(tid, int)) + shape.get("wait_rest_us", 0) + shape.get("wait_unknown_us", 0)
    off = sum(us for s, us in stages.items() if s.startswith(("runnable", "blocked_", "stopped")))
    if n > 1 and round(1000 * listed) != round(1000 * off):
        return f"its waits are {off:.3f} us, of which {listed:.3f} have a cause"
    if t["plant"] == "none":
        return f"waited {gil:.0f} us for the lock" if gil > 5000 else None
    if t["plant"] == "lock" and not (gil < held / 2 and lock + queue >= 0.9 * held):
        return f"{gil:.0f} us for the GIL, {lock:.0f} us for a lock, which was held for {held:.0f}"
    # it asks for the lock every 5 ms
    if t["plant"] in ("gil", "gc") and not (gil + queue >= 0.95 * held and lock < held / 2):
        return f"{gil:.0f} us for the GIL, {queue:.0f} us for a CPU, {lock:.0f} us for a lock; the GIL was held for {held:.0f}"
    if not (0.9 * held - queue <= causes[t["tid"], "gc"] if t["plant"] == "gc" else causes[t["tid"], "gc"] < held / 10):
        return f"{causes[t['tid'], 'gc']:.0f} us of collections: {dict(causes)}"
    return None if causes[t["tid"]] >= 0.9 * held - queue else f"thread {t['tid']} was in the way: {dict(causes)}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("profile")
    p.add_argument("log")
    p.add_argument("--most", type=float, default=0.98)
    args = p.parse_args()
    steps = [s for s in map(json.loads, open(args.profile)) if s["event"] == "token_prof"]
    truth = [json.loads(line) for line in open(args.log) if line[0] == "{"]
    if len(steps) != len(truth):
        sys.exit(f"{len(steps)} steps of {len(truth)}")
    right, of = collections.Counter(), collections.Counter()
    for i, (step, t) in enumerate(zip(steps, truth)):
        wrong = judge(step, t)
        of[t["plant"]] += 1
        right[t["plant"]] += not wrong
        if wrong:
            print(f"step {i}: {t['plant']}: {wrong}", file=sys.stderr)
    print(" ".join(f"{plant} {right[plant]}/{of[plant]}" for plant in of))
    sys.exit(any(right[plant] < args.most * of[plant] for plant in of))


if __name__ == "__main__":
    main()
