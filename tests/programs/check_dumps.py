#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Dumps of the flight recorder, one trace each.

    check_dumps.py DIR REASON [KIND MS]

Each has one trigger, whose reason matches the regular expression. With KIND, a step ends at its
instant, and an event of that name took at least MS milliseconds within it. Prints how many dumps.
"""
import glob
import json
import re
import sys


def check(path, reason, kind=None, ms=0):
    with open(path) as f:
        events = json.load(f)
    triggers = [e for e in events if e["name"] == "trigger"]
    assert len(triggers) == 1, f"{path}: {len(triggers)} triggers"
    said, at = triggers[0]["args"]["reason"], triggers[0]["ts"]
    assert re.fullmatch(reason, said), f"{path}: {said}"
    if not kind:
        return
    steps = [e for e in events if e.get("cat") == "step" and abs(e["ts"] + e["dur"] - at) < 0.002]
    assert len(steps) == 1, f"{path}: {len(steps)} steps end at {at}"
    begin, end = steps[0]["ts"], steps[0]["ts"] + steps[0]["dur"]
    causes = [
        e["dur"]
        for e in events
        if e["name"] == kind and e["ts"] >= begin - 0.002 and e["ts"] + e["dur"] <= end + 0.002
    ]
    assert causes and max(causes) >= float(ms) * 1000, f"{path}: {kind} of {causes} within {begin} to {end}"


def main():
    traces = sorted(glob.glob(f"{sys.argv[1]}/trace_*.json"))
    for path in traces:
        check(path, *sys.argv[2:])
    print(len(traces))


main()
