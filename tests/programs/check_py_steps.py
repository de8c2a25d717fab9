#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the steps of a trace with the log of py_steps.py.

    check_py_steps.py TRACE LOG NAME [LATE_MS]

Each call must be one step of that name, which covers all between the function's first and last line, and nothing
outside of the call. If the recorder says that a forked child got its probes so many ms late, its first calls may be missing for as
long. Prints what differs, and exits with 1 if anything does.
"""
import sys

from reading import ns, read_trace

trace, log, name, *late = sys.argv[1:]
late_ns = 1e6 * float(late[0]) if late else 0
events = read_trace(trace)
start = next(int(e["args"]["boottime_ns"]) for e in events if e["name"] == "inftrace_clock")
steps = {}
for e in events:
    if e.get("cat") == "step":
        if e["name"] != name:
            sys.exit(f"a step is called {e['name']}")
        begin = start + ns(e["ts"])
        steps.setdefault(e["tid"], []).append((begin, begin + ns(e["dur"])))
calls = {}
with open(log) as f:
    for line in f:
        if line[0].isdigit():
            *times, tid = map(int, line.split())
            calls.setdefault(tid, []).append(times)
wrong = []
for tid in sorted(set(steps) | set(calls)):
    found, wanted = sorted(steps.get(tid, [])), sorted(calls.get(tid, []))
    missing = len(wanted) - len(found)
    if late_ns and missing > 0 and wanted[missing - 1][0] <= wanted[0][0] + late_ns:
        wanted = wanted[missing:]
    for (begin, end), (before, first, last, after) in zip(found, wanted):
        # both clocks are read in whole nanoseconds, and the trace has decimals of microseconds
        if not before - 2 <= begin <= first + 2 or not last - 2 <= end <= after + 2:
            wrong.append(f"thread {tid}, call {wanted.index([before, first, last, after])}: step {begin - before}..{end - before}, "
                         f"call 0 {first - before}..{last - before} {after - before}")
    if len(found) != len(wanted):
        wrong.append(f"thread {tid}: {len(found)} steps, {len(wanted)} calls")
for w in wrong[-5:]:
    print(w)
if not calls:
    print("no calls")
sys.exit(bool(wrong) or not calls)
