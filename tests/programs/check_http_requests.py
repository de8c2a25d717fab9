#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_http_requests.py LOG ASKED PROFILE

Requests that came by HTTP (serve_driver -H, serve_client.py): each is there as its socket and as its sequence, or as both in
one line. Where the profile says which is whose, it is right, and the times from the first bytes on lie within what the
server's and the client's clock allow."""

import collections
import sys

from check_requests import Request, Step, Wrong, begin_steps, match_steps
from reading import ns, read_lines


def check(log, asked, profile):
    steps = [Step(e) for e in log if "parts" in e]
    requests = [Request(e, steps) for e in log if "cached" in e]
    match_steps(steps, profile, True)
    asked = {e["name"]: e for e in asked}
    got = [e for e in profile if e["event"] == "request_prof"]
    sockets = collections.Counter(e["shape"]["request"] for e in got if "request" in e["shape"])
    if sockets != collections.Counter(f"GET /{name}" for name in asked):
        raise Wrong(f"requests on sockets: {sockets}")
    begun = {(r.sequence, r.carried[0].start): r for r in requests}
    joined = late = closed = 0
    for e in got:
        shape, stage = e["shape"], e["stage_us"]
        if not shape.get("joined"):
            continue
        joined += 1
        r = begun[shape["sequence"], begin_steps(e)]
        name = f"request {r.id}, which came as /{r.name}"
        if shape["request"] != f"GET /{r.name}":
            raise Wrong(f"{name}, is said to be {shape['request']}")
        client, queued = asked[r.name], ns(stage["queued"])
        # the server read its clock when it had the request; the client did before it sent it
        if not r.carried[0].before - r.arrived <= queued <= r.carried[0].after - client["connected"]:
            raise Wrong(f"{name}: {queued} ns in the queue; by the server at least {r.carried[0].before - r.arrived}, "
                        f"by its client at most {r.carried[0].after - client['connected']}")
        # the client may have read what the call that wrote it has not returned from
        if not ns(stage["ttft"]) + queued <= ns(stage["ttft_client"]) <= client["last"] - client["connected"] + 10_000_000:
            raise Wrong(f"{name}: {stage['ttft_client']} us to the first part of the answer, {stage['ttft']} us to the first token")
        # the server stops when a write fails; by then inftrace knows as well. It does not when it has taken its last step already.
        cancelled = shape.get("cancelled", False)
        if r.cancelled and not cancelled or (cancelled or r.cancelled) and not client["closes"]:
            raise Wrong(f"{name}: cancelled: {cancelled}, by the server {r.cancelled}")
        late += queued > ns(stage["total"]) / 2
        closed += r.cancelled
    print(f"{len(requests)} requests, {joined} of them joined with their sockets; {late} were queued for most of their time, "
          f"{closed} were closed by their clients")


if __name__ == "__main__":
    try:
        check(*map(read_lines, sys.argv[1:]))
    except Wrong as e:
        sys.exit(str(e))
