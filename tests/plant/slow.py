# SPDX-License-Identifier: BSD-2-Clause
"""What slow_python.py and slow_torch.py have in common: steps, in one of 20 of which one of several functions takes much longer."""
import json
import os
import random
import sys
import time

RARE = 20


def cpu_of(f, n):
    start = time.thread_time()
    f(n)
    return time.thread_time() - start


def usual_work(f, seconds):
    """How much of its work takes so long: by the quickest of several tries."""
    n = 8
    while cpu_of(f, n) < 0.002:
        n *= 2
    return max(1, int(n * seconds / min(cpu_of(f, n) for _ in range(5))))


def run(plants, seed, steps, step):
    """Calls step() with the function that is to be slow, or None, in the way that slow_python.py says. plants: the names by the function."""
    chooser = random.Random(seed)
    slow = list(plants)[seed % len(plants)]
    planted = []
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(steps):
        now = not chooser.randrange(RARE)
        if now:
            planted.append(i)
        step(slow if now else None)
    print(json.dumps({"pid": os.getpid(), "slow": plants[slow], "planted": planted}), flush=True)
    sys.stdin.readline()
