#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the files of the windows of a recording with what the engine says about its steps.

  check_windows.py FOLDER STAGES [--windows N]

FOLDER has a trace and a profile for each window; STAGES is what llama_driver -S wrote: the beginning
and the end of each step on CLOCK_MONOTONIC. Steps are numbered over the whole run, including those
in no window.
"""
import argparse
import glob
import os
import sys

from reading import ns, read_lines, read_trace

# Between the driver's clock reads and the probes within: the call, and a preemption there.
EDGE_NS = 200_000
PREEMPTED_NS = 100_000_000


def fail(text):
    print(f"# {text}")
    fail.n += 1


fail.n = 0


def at_edge(text):
    """A step at an edge of the window that is on the other side by the engine's clock. Now and then one was
    preempted there: the driver reads its clock a little before the step's beginning and after its end."""
    print(f"# {text}")
    at_edge.n += 1


at_edge.n = 0
AT_EDGE_MAX = 0.03  # of all steps in windows, or the one with which each window was to end


class Window:
    def __init__(self, trace, profile):
        self.name = os.path.basename(trace)
        events = read_trace(trace)
        clock = [e for e in events if e["name"] == "inftrace_clock"][0]["args"]
        self.open = int(clock["monotonic_ns"])
        own = read_lines(profile, "window_prof")
        if len(own) != 1:
            fail(f"{profile}: {len(own)} lines window_prof")
        self.number = own[0]["shape"]["window"]
        self.close = self.open + ns(own[0]["stage_us"]["total"])
        self.steps = [line["shape"] | {"total": line["stage_us"]["total"]} for line in read_lines(profile, "token_prof")]
        self.lost = own[0]["shape"]["lost"]
        self.counted = own[0]["shape"]["steps"]
        marks = [e["name"] for e in events if e["name"] in ("window_open", "window_close")]
        if sorted(marks) != ["window_close", "window_open"]:
            fail(f"{self.name}: marks {marks}")
        self.slices = [e for e in events if e["ph"] == "X" and e.get("cat") == "step"]

    def check(self, stages):
        got = {}
        for s in self.steps:
            if s["step"] in got:
                fail(f"{self.name}: step {s['step']} twice")
            got[s["step"]] = s
        if len(self.slices) != len(self.steps):
            fail(f"{self.name}: {len(self.slices)} slices of {len(self.steps)} steps")
        if self.counted != sum(not s.get("began_before") for s in self.steps):
            fail(f"{self.name}: counts {self.counted} steps")
        for number, (start, end) in enumerate(stages):
            s = got.pop(number, None)
            inside = start > self.open + EDGE_NS and end < self.close - EDGE_NS
            outside = end < self.open or start > self.close
            sure = end > self.open + EDGE_NS and start < self.close - EDGE_NS
            if s is None:
                if sure:
                    at_edge(f"{self.name}: step {number} is missing")
                continue
            if outside:
                fail(f"{self.name}: step {number} was not in the window")
            if inside and (s.get("began_before") or s.get("unfinished")):
                fail(f"{self.name}: step {number} is marked as cut")
            if start < self.open - EDGE_NS and not s.get("began_before"):
                at_edge(f"{self.name}: step {number} began before, which it does not say")
            if end > self.close + EDGE_NS and not s.get("unfinished"):
                at_edge(f"{self.name}: step {number} ended later, which it does not say")
            # the driver may be preempted between its clock and the probe, and makes its steps longer
            length = min(end, self.close) - max(start, self.open)
            if not length - PREEMPTED_NS < s["total"] * 1000 < length + EDGE_NS:
                fail(f"{self.name}: step {number} took {s['total']} us, of {length / 1000}")
        for number in got:
            fail(f"{self.name}: step {number} is none of the engine's")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("stages")
    parser.add_argument("--windows", type=int)
    args = parser.parse_args()
    stages = [(s["start_ns"], s["start_ns"] + s["dur_ns"]) for s in read_lines(args.stages) if s["stage"] == "decode"]
    traces = sorted(glob.glob(os.path.join(args.folder, "trace_pid*.json")))
    others = set(os.listdir(args.folder)) - {os.path.basename(t) for t in traces}
    windows = []
    for trace in traces:
        profile = os.path.basename(trace).replace("trace_", "profile_").replace(".json", ".jsonl")
        if profile not in others:
            fail(f"{trace}: no {profile}")
            continue
        others.remove(profile)
        windows.append(Window(trace, os.path.join(args.folder, profile)))
    for name in sorted(others):
        fail(f"not one of a pair: {name}")
    if args.windows is not None and len(windows) != args.windows:
        fail(f"{len(windows)} windows, not {args.windows}")
    for i, w in enumerate(windows):
        if w.number != i:
            fail(f"{w.name}: number {w.number}, not {i}")
        if i and w.open < windows[i - 1].close:
            fail(f"{w.name}: begins within the window before")
        if w.lost:
            fail(f"{w.name}: lost {w.lost} records")
        w.check(stages)
    cut = sum(bool(s.get("began_before") or s.get("unfinished")) for w in windows for s in w.steps)
    whole = sum(len(w.steps) for w in windows) - cut
    print(f"# {len(windows)} windows, {whole} whole steps, {cut} cut, of {len(stages)}")
    if not whole:
        fail("no window has a whole step")
    if at_edge.n > max(args.windows or 1, AT_EDGE_MAX * (whole + cut)):
        fail(f"{at_edge.n} steps at the edges")
    sys.exit(fail.n > 0)


if __name__ == "__main__":
    main()
