#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Replays the steps of a log of SGLang's scheduler: replay.py LOG [overlap] [new] [several] [retracted] [paced]; several: tokens of a
request in a step, as with speculative decoding; retracted: now and then a request loses its memory, and goes on with what the cache has. It loads common_ops.abi3.so, by which the
engine is known, prints "ready", waits for a line of input, and prints when each request arrives, and each step as JSON.
"""
import json
import pickle
import sys

from sglang.srt.managers.scheduler import Scheduler, now


class TokenizedGenerateReqInput:
    def __init__(self, rid):
        self.rid = rid
        self.input_text = ""


def with_retractions(steps):
    """One request of every 20th decode step gets its token in a step of its own instead, with some of its last tokens."""
    for i, step in enumerate(steps):
        request = next(iter(step["tokens"]))
        computed = step["computed"].get(request, 0)
        if i % 20 or step["mode"] != "DECODE" or len(step["tokens"]) < 2 or computed < 30:
            yield step
            continue
        rest = [t for t in step["tokens"] if t != request]
        yield {**step, "tokens": dict.fromkeys(rest, 1), "samples": rest, "total": len(rest)}
        again = 1 + i % 29
        yield {**step, "mode": "EXTEND", "tokens": {request: again + 1}, "computed": {request: computed - again}, "samples": [request],
               "total": again + 1, "again": {request: again}}


def main():
    with open(sys.argv[1]) as f:
        log = [json.loads(line) for line in f]
    requests = sorted((e for e in log if e["ev"] == "request"), key=lambda e: -e["arrival"])
    steps = [e for e in log if e["ev"] == "step"]
    scheduler = Scheduler(list(with_retractions(steps)) if "retracted" in sys.argv[2:] else steps, {e["id"]: e["output"] for e in requests},
                          0.004 if "paced" in sys.argv[2:] else 0, "new" in sys.argv[2:], "several" in sys.argv[2:])
    arrived = []

    def receive(until):
        while requests and requests[-1]["arrival"] < until:
            request = pickle.dumps(TokenizedGenerateReqInput(requests.pop()["id"]))
            at = now()
            scheduler.handle_generate_request(pickle.loads(request))  # its id is a new string, of which there is no hash
            arrived.append((request, at))

    try:
        import common_ops  # noqa: F401
    except ImportError:
        pass  # it is no Python module
    print("ready", flush=True)
    sys.stdin.readline()
    (scheduler.event_loop_overlap if "overlap" in sys.argv[2:] else scheduler.event_loop_normal)(receive)
    for request, at in arrived:
        print("arrived", pickle.loads(request).rid, at)
    for told in scheduler.told:
        print(json.dumps(told))


main()
