#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Steps in which Python collects garbage, or does not: python_gc.py STEPS

Prints "ready", waits for a line of input, and prints for each step its collections as Python's own callbacks see them: [generation, ns, ns of CPU time] each. The callbacks
come before and after what the interpreter marks for tracers.
"""
import gc
import json
import sys
import threading
import time

OBJECTS = 400_000  # that a full collection has to look at
PLANTS = ("none", "full", "none", "young", "automatic")

here = threading.local()


def now():
    return time.monotonic_ns(), time.thread_time_ns()


def on_collection(phase, info):
    if phase == "start":
        here.began = now()
        return
    wall, cpu = now()
    here.seen.append([info["generation"], wall - here.began[0], cpu - here.began[1]])


def compute(n):
    x = 1
    for i in range(n):
        x = x * 31 % 1_000_003
    return x


def step(plant):
    compute(20_000)
    if plant == "full":
        gc.collect()
    elif plant == "young":
        gc.collect(0)
    elif plant == "automatic":
        gc.enable()
        cycles = [[] for _ in range(5_000)]
        gc.disable()
        del cycles
    compute(20_000)


def main():
    gc.disable()
    gc.collect()
    kept = [[i] for i in range(OBJECTS)]
    gc.callbacks.append(on_collection)
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(int(sys.argv[1])):
        here.seen = []
        step(PLANTS[i % len(PLANTS)])
        print(json.dumps({"plant": PLANTS[i % len(PLANTS)], "collections": here.seen}), flush=True)
    del kept[:]


if __name__ == "__main__":
    main()
