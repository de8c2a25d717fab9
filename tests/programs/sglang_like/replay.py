#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Replays the steps of a log of SGLang's scheduler: replay.py LOG [overlap] [new] [several] [paced]; several: tokens of a request in a
step, as with speculative decoding. It loads common_ops.abi3.so, by which the
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


def main():
    with open(sys.argv[1]) as f:
        log = [json.loads(line) for line in f]
    requests = sorted((e for e in log if e["ev"] == "request"), key=lambda e: -e["arrival"])
    scheduler = Scheduler([e for e in log if e["ev"] == "step"], {e["id"]: e["output"] for e in requests},
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
