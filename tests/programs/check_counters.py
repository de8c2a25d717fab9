#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the counts of steps and operators (record -e pmu) with what else is known of them.

  check_counters.py faults PROFILE OUT    OUT: of counted
  check_counters.py clock PROFILE OUT
  check_counters.py trace TRACE OUT
  check_counters.py windows PROFILE       of all windows
  check_counters.py hardware PROFILE CSV  CSV: of perf stat -x,
Prints every difference and exits with 1, or prints what was compared and exits with 0.
"""
import statistics
import sys

from reading import read_lines, read_trace

SLEEP_NS = 500000  # in counted.c
ON_CPU = ("cpu", "barrier", "syscall", "fault", "irq")
different = []


def within(what, low, value, high):
    if value is None or not low <= value <= high:
        different.append(f"{what}: {value}, wanted {low} to {high}")


def lines(path, event):
    return sorted(read_lines(path, event), key=lambda l: l["shape"].get("step", 0))


def known(path):
    return read_lines(path)[-1]["steps"]


def both(profile, out):
    """Each step with counts, and what the program knows of it. A few have none: those with a switch that the kernel did not
    report."""
    steps, of = lines(profile, "token_prof"), known(out)
    within("steps", len(of), len(steps), len(of))
    pairs = [p for p in zip(steps, of) if "page_faults" in p[0]["shape"]]
    within("steps with counts", len(of) / 2, len(pairs), len(of))
    return pairs


def faults(profile, out):
    """Those of user code: on the step's pages at least, and at most all that the kernel counted for the thread."""
    for line, step in both(profile, out):
        within(f"faults of step {line['shape']['step']}", step["pages"], line["shape"]["page_faults"], step["faults"])
    for line in lines(profile, "op_prof"):
        shape, steps = line["shape"], known(out)
        counted = shape.get("counted_touch", shape["n_touch"])
        within("calls of touch", len(steps), shape["n_touch"], len(steps))
        within("calls of touch with counts", len(steps) / 2, counted, len(steps))
        # the others may be any of them
        within("faults of touch", sum(sorted(s["pages"] for s in steps)[:counted]), shape["page_faults_touch"],
               sum(sorted(s["faults"] for s in steps)[len(steps) - counted:]))
        within("faults of compute", 0, shape["page_faults_compute"], sum(s["faults"] - s["pages"] for s in steps))


def clock(profile, out):
    """It runs while the thread is on a CPU, so for less time than each step took, which sleeps. The states are noted at the
    same switches, but not at the same instants. The kernel's own account of CPU time has the switches as well."""
    pairs = both(profile, out)
    ratios = []
    for line, step in pairs:
        ns = line["shape"]["cpu_clock_ns"]
        within(f"clock of step {line['shape']['step']}", 0, ns, step["wall_ns"] - SLEEP_NS)
        ratios.append(ns / sum(1000 * v for k, v in line["stage_us"].items() if k in ON_CPU))
    clocks = sum(line["shape"]["cpu_clock_ns"] for line, _ in pairs)
    within("clock of a step, by its states", 0.9, statistics.median(ratios), 1.1)
    within("clock of all steps, by CPU time", 0.5 * sum(s["cpu_ns"] for _, s in pairs), clocks, 1e18)


def trace(path, out):
    events = read_trace(path)
    n = len(known(out))
    for kind, wanted in (("step", n), ("op", 3 * n)):
        have = [e for e in events if e.get("cat") == kind and {"page_faults", "cpu_clock_ns"} <= set(e["args"])]
        within(f"slices of a {kind} with counts", wanted / 2, len(have), wanted)


def windows(profile):
    whole = counted = 0
    for line in lines(profile, "token_prof"):
        shape = line["shape"]
        if "began_before" in shape or "unfinished" in shape:
            if "page_faults" in shape:
                different.append(f"a step that was cut has counts: {shape}")
            continue
        whole += 1
        if "page_faults" not in shape:
            continue
        counted += 1
        within("faults of a whole step", shape["pages"], shape["page_faults"], shape["faults_minor"] + shape["faults_major"])
    within("whole steps with counts", max(1, whole / 2), counted, whole)


def hardware(profile, csv):
    """Steps without counts are taken as the others on average."""
    with open(csv) as f:
        counted = {c[2].split(":")[0]: int(c[0]) for c in (l.split(",") for l in f) if len(c) > 2 and c[0].isdigit()}
    steps = lines(profile, "token_prof")
    for name, n in counted.items():
        have = [l["shape"][name] for l in steps if name in l["shape"]]
        within(f"steps with {name}", len(steps) / 2, len(have), len(steps))
        within(name, 0.9 * n, have and statistics.mean(have) * len(steps), 1.01 * n)
    within("counters of perf", 1, len(counted), 2)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
    print("\n".join(different) or f"{sys.argv[1]}: as known")
    sys.exit(bool(different))
