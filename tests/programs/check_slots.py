#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_slots.py LOG ASKED PROFILE REPORT LEAST

What a report says of requests that waited for a slot, of a server whose own log tells who had one (serve_driver -H,
serve_client.py): how many slots there are, how many requests that came later were taken first, and who had a slot meanwhile. When
a request came is known to the driver and its clients within two readings of the clock, so of some pairs either may be the later
one. At least LEAST requests must surely have been overtaken, and be named with it."""

import json
import sys

from check_requests import Request, Step, Wrong, begin_steps, match_steps
from reading import ns, read_lines


class Held:
    """When a request came, was taken and gave its slot back: each is between two instants."""

    def __init__(self, r, client):
        first, last = r.carried[0], r.carried[-1]
        self.came = (client["connected"], r.arrived)
        self.taken = (first.before, first.after)
        self.freed = (last.before, last.after)

    def overtook(self, other):
        """Whether this one surely, and possibly, came later and was taken first."""
        return (self.came[0] > other.came[1] and self.taken[1] < other.taken[0],
                self.came[1] > other.came[0] and self.taken[0] < other.taken[1])

    def while_waited(self, other):
        """For how long it had a slot while the other one waited, at least and at most."""
        return (max(0, min(self.freed[0], other.taken[0]) - max(self.taken[1], other.came[1])),
                max(0, min(self.freed[1], other.taken[1]) - max(self.taken[0], other.came[0])))


def within(what, got, bounds):
    if not bounds[0] <= got <= bounds[1]:
        raise Wrong(f"{what}: {got}, by the server {bounds[0]} to {bounds[1]}")


def check(log, asked, profile, report, least_of_all):
    steps = [Step(e) for e in log if "parts" in e]
    requests = [Request(e, steps) for e in log if "cached" in e]
    match_steps(steps, profile, True)
    asked = {e["name"]: e for e in asked}
    held = {r.id: Held(r, asked[r.name]) for r in requests}
    begun = {(r.sequence, r.carried[0].start): r.id for r in requests}
    lines = [e for e in profile if e["event"] == "request_prof" and "sequence" in e["shape"]]
    ids = {e["shape"]["number"]: begun[e["shape"]["sequence"], begin_steps(e)] for e in lines}
    joined = {ids[e["shape"]["number"]] for e in lines if e["shape"].get("joined")}  # of others it is not known when they came
    slots = max(sum(r.first_step <= s.number <= r.last_step for r in requests) for s in steps)
    told = [e for e in report["processes"][0]["batch_requests"]["slowest"] if "slots" in e]
    overtaken = 0
    for e in told:
        said, me = e["slots"], held[ids[e["request"]]]
        name = f"request {e['request']}, {e['text']}"
        if said["count"] != slots:
            raise Wrong(f"{name}: {said['count']} slots")
        later = [sum(n) for n in zip(*(held[i].overtook(me) for i in joined if held[i] is not me))]
        holders = [sum(ns > 0 for ns in n) for n in zip(*(h.while_waited(me) for h in held.values() if h is not me))]
        within(f"{name}: later ones", said["later_taken_first"], later)
        within(f"{name}: requests with a slot", said["requests"], holders)
        for other in said["longest"]:
            within(f"{name}: request {other['request']} had one", ns(other["us"]), held[ids[other["request"]]].while_waited(me))
        tells = f"(all {slots} slots were taken" in e["text"]
        if tells and (f" {said['later_taken_first']} later one" in e["text"]) != (said["later_taken_first"] > 0):
            raise Wrong(f"{name}: {said}")
        overtaken += tells and later[0] > 0
    print(f"{len(told)} waited for a slot; {overtaken} were surely overtaken")
    if overtaken < least_of_all:
        raise Wrong("no more were overtaken")


if __name__ == "__main__":
    try:
        with open(sys.argv[4], encoding="utf-8") as f:
            check(*map(read_lines, sys.argv[1:4]), json.load(f), int(sys.argv[5]))
    except Wrong as e:
        sys.exit(str(e))
