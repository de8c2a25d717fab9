#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the steps of a trace, or its slices, with the log of py_steps.py.

    check_py_steps.py TRACE LOG NAME [LATE_MS]
    check_py_steps.py TRACE LOG --slices [NAME]

Each call must be one step of that name, which covers all between the function's first and last line, and nothing
outside of the call; or a slice, called as its class, or NAME. If the recorder says that a forked child got its probes so many ms
late, its first calls may be missing for as long. Prints what differs, and exits with 1 if anything does.
"""
import sys

from reading import ns, read_trace

trace, log, name, *more = sys.argv[1:]
slices = name == "--slices"
late_ns = 1e6 * float(more[0]) if more and not slices else 0
events = read_trace(trace)
start = next(int(e["args"]["boottime_ns"]) for e in events if e["name"] == "inftrace_clock")
steps = {}
for e in events:
    if e.get("cat") == ("other" if slices else "step"):
        if e["name"] != name and not slices:
            sys.exit(f"a step is called {e['name']}")
        begin = start + ns(e["ts"])
        steps.setdefault(e["tid"], []).append((begin, begin + ns(e["dur"]), e["name"]))
calls = {}
with open(log) as f:
    for line in f:
        if line[0].isdigit():
            *times, tid = line.split()[:5]
            called = line.split()[5:] if slices and not more else [more[0] if slices else name]
            calls.setdefault(int(tid), []).append((*map(int, times), *called))
wrong = []
for tid in sorted(set(steps) | set(calls)):
    found, wanted = sorted(steps.get(tid, [])), sorted(calls.get(tid, []))
    missing = len(wanted) - len(found)
    if late_ns and missing > 0 and wanted[missing - 1][0] <= wanted[0][0] + late_ns:
        wanted = wanted[missing:]
    for (begin, end, is_called), (before, first, last, after, called) in zip(found, wanted):
        # both clocks are read in whole nanoseconds, and the trace has decimals of microseconds
        if not before - 2 <= begin <= first + 2 or not last - 2 <= end <= after + 2 or is_called != called:
            wrong.append(f"thread {tid}, call at {before}: {is_called} {begin - before}..{end - before}, "
                         f"{called} 0 {first - before}..{last - before} {after - before}")
    if len(found) != len(wanted):
        wrong.append(f"thread {tid}: {len(found)} steps, {len(wanted)} calls")
for w in wrong[-5:]:
    print(w)
if not calls:
    print("no calls")
sys.exit(bool(wrong) or not calls)
