#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Steps that wait for the interpreter's lock, which a thread has to compute or to collect garbage, for another lock, or for neither:
python_gil.py STEPS [PLANT...]

Prints, for each step, what was planted, the tid of the thread that was in the way, and for how many ns: of CPU time, for which it
had the interpreter's lock, or of sleep.
"""
import gc
import json
import sys
import threading
import time

HOLD_NS = 40_000_000
OBJECTS = 600_000  # that a collection has to look at
PLANTS = ("none", "gil", "lock", "gc")


def compute(n):
    x = 1
    for i in range(n):
        x = x * 31 % 1_000_003
    return x


def calls_of(ns):
    """How many numbers one call in C adds up in that time, without letting others run."""
    n, took = 100_000, 0
    while took < ns // 4:
        n *= 2
        began = time.thread_time_ns()
        sum(range(n))
        took = time.thread_time_ns() - began
    return n * ns // took


class Holder(threading.Thread):
    def __init__(self, n):
        super().__init__(daemon=True)
        self.n, self.wanted, self.did = n, None, 0
        self.begin, self.has, self.never, self.lock = threading.Event(), threading.Event(), threading.Event(), threading.Lock()

    def run(self):
        while True:
            self.begin.wait()
            self.begin.clear()
            if self.wanted in ("gil", "gc"):
                began = time.thread_time_ns()
                sum(range(self.n)) if self.wanted == "gil" else gc.collect()
                self.did = time.thread_time_ns() - began
                self.has.set()
            else:
                with self.lock:
                    self.has.set()
                    self.never.wait(HOLD_NS / 1e9)  # a sleep in select() may seem to be ended by whom its timer interrupts

    def hold(self, what):
        self.wanted = what
        self.has.clear()
        self.begin.set()


def step(plant, holder):
    compute(20_000)
    if plant in ("gil", "gc"):
        holder.hold(plant)
        while not holder.has.is_set():
            compute(200)
    elif plant == "lock":
        holder.hold(plant)
        holder.has.wait()
        with holder.lock:
            holder.did = HOLD_NS
    compute(20_000)


def main():
    gc.disable()
    kept = [[i] for i in range(OBJECTS)]
    gc.collect()
    holder = Holder(calls_of(HOLD_NS))
    holder.start()
    plants = sys.argv[2:] or PLANTS
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(int(sys.argv[1])):
        plant = plants[i % len(plants)]
        step(plant, holder)
        print(json.dumps({"plant": plant, "tid": holder.native_id, "ns": holder.did if plant != "none" else 0}), flush=True)
    del kept


if __name__ == "__main__":
    main()
