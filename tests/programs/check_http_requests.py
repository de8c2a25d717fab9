#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_http_requests.py LOG ASKED PROFILE

Requests that came by HTTP (serve_driver -H, serve_client.py): each is there as its socket and as its sequence; where the profile
says which is whose, it is right, and the time in the queue lies within what the server's and the client's clock allow."""

import collections
import sys

from check_requests import Request, Step, Wrong, begin, lines, match_steps, ns


def check(log, asked, profile):
    steps = [Step(e) for e in log if "parts" in e]
    requests = [Request(e, steps) for e in log if "cached" in e]
    match_steps(steps, profile, True)
    asked = {e["name"]: e for e in asked}
    got = [e for e in profile if e["event"] == "request_prof"]
    sockets = collections.Counter(e["shape"]["request"] for e in got if e["shape"]["source_kind"] == "socket")
    if sockets != collections.Counter(f"GET /{name}" for name in asked):
        raise Wrong(f"requests on sockets: {sockets}")
    begun = {(r.sequence, r.carried[0].start): r for r in requests}
    joined = 0
    for e in got:
        shape, stage = e["shape"], e["stage_us"]
        if shape["source_kind"] != "sequence" or "request" not in shape:
            continue
        joined += 1
        r = begun[shape["sequence"], begin(e) + ns(stage.get("queued", 0))]
        if shape["request"] != f"GET /{r.name}":
            raise Wrong(f"the request {r.id} came as /{r.name}, and is said to be {shape['request']}")
        # the server's clock read behind the socket's; the client's before
        low, high = r.carried[0].before - r.arrived, r.carried[0].after - asked[r.name]["connected"]
        if not low <= ns(stage["queued"]) <= high:
            raise Wrong(f"request {r.id} was queued for {stage['queued']} us; it is between {low} and {high} ns")
    print(f"{len(requests)} requests, {joined} of them joined with their sockets")


if __name__ == "__main__":
    try:
        check(*map(lines, sys.argv[1:]))
    except Wrong as e:
        sys.exit(str(e))
