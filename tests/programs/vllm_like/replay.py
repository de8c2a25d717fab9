#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Replays the steps of a log of vLLM's scheduler: replay.py LOG [async] [paced] [RELEASE]. RELEASE, by which a preempted request that goes
on is told in another way: 0.9.1, 0.9.2 or v2, the second model runner, for which it is a new one. It loads _C.abi3.so, by which the engine is known,
prints "ready", waits for a line of input, and prints when each request arrives, and for each step its begin, the number of the
batch whose results it had or None, and its end.
"""
import json
import sys
import time

from vllm.v1.core.sched.scheduler import Request
from vllm.v1.engine.core import EngineCore, now


def main():
    with open(sys.argv[1]) as f:
        log = [json.loads(line) for line in f]
    requests = sorted((e for e in log if e["ev"] == "request"), key=lambda e: -e["arrival"])
    outputs = {e["id"]: e["output"] for e in requests}
    log = [e for e in log if e["ev"] == "step"]
    core = EngineCore(log, outputs, sys.argv[-1])
    step = core.step_with_batch_queue if "async" in sys.argv[2:] else core.step
    try:
        import _C  # noqa: F401
    except ImportError:
        pass  # it is no Python module
    print("ready", flush=True)
    sys.stdin.readline()
    done, told, arrived = 0, [], []
    while done < len(log):
        begin = log[len(told)]["begin"] if len(told) < len(log) else 0
        while requests and requests[-1]["arrival"] < begin:
            told_of = "arrived " + requests[-1]["id"]
            core.scheduler.add_request(Request("".join(requests.pop()["id"])))  # a new string, of which there is no hash yet
            arrived.append(f"{told_of} {now()}")
        if "paced" in sys.argv[2:]:
            time.sleep(0.004)
        told.append(step())
        done += told[-1][1] is not None
    print(*arrived, sep="\n")
    for t in told:
        print(*t)


main()
