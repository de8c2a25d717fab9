#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares a report of the steps with what was in the engine's way, as the disturber measured it.

check_planted.py stopped REPORT TRACE LOG    LOG: {"from", "to", "least"}: within these times the engine was
                                             stopped, for at least that long
check_planted.py hog REPORT TRACE LOG        LOG: {"from", "to", "cpu", "most"}: another program had its CPU for "cpu",
                                             and can have had it for "most"

REPORT: of inftrace report --json --all-steps; TRACE: of the same recording, for the zero of its times. Times are
nanoseconds of CLOCK_BOOTTIME. Other work can make a step longer, but cannot shorten the disturbance: it is in
the one step, or between the two, in which the engine was when it began.
"""
import json
import sys

HOG = "cc1hog"
CLOCKS = 1.01  # microseconds are rounded, and clocks are read before and after


def load(path):
    with open(path) as f:
        return json.loads(f.read())


def where(report, us):
    for s in report["steps"]:
        if s["ts_us"] <= us <= s["ts_us"] + s["total_us"]:
            return s, None
    for g in report["processes"][0]["slowest_between"]:
        if g["ts_us"] <= us <= g["ts_us"] + g["gap_us"]:
            return None, g
    return None, None


def stopped(step, planted, length):
    assert step["state"] == "stopped", step
    assert planted["least"] / 1000 <= step["state_us"] * CLOCKS, (step, planted)
    assert step["state_us"] <= length * CLOCKS, (step, length)


def hog(step, planted, _):
    assert (step["state"], step["where"]) == ("runnable", "own"), step
    behind = sum(b["us"] for b in step["behind"] if b.get("by") == HOG)
    assert planted["cpu"] / 1000 <= behind * CLOCKS + 100, (step, planted)
    # a hypervisor may take the CPU away while it prints
    assert behind <= planted["most"] / 1000 * CLOCKS + 5000, (step, planted)
    if behind > step["state_us"] / 2:
        assert step["by"] == HOG, step


def check(judge, shortest, report, trace, log):
    report = load(report)
    clock = next(e for e in load(trace) if e["name"] == "inftrace_clock")
    zero = int(clock["args"]["boottime_ns"]) - round(clock["ts"] * 1000)
    with open(log) as f:
        planted = [json.loads(line) for line in f]
    steps = 0
    for p in planted:
        step, gap = where(report, ((p["from"] + p["to"]) / 2 - zero) / 1000)
        if step:
            judge(step, p, (p["to"] - p["from"]) / 1000)
            steps += 1
        else:
            assert gap and gap["gap_us"] * CLOCKS >= p[shortest] / 1000, ("not in the report", p, gap)
    assert len(planted) == 5, planted
    for name in ("slowest", "slowest_between"):
        excess = [s["excess_us"] for s in report["processes"][0][name]]
        assert excess == sorted(excess, reverse=True), (name, excess)
    print(f"{steps} in steps, {len(planted) - steps} between two")


if __name__ == "__main__":
    check(*{"stopped": (stopped, "least"), "hog": (hog, "cpu")}[sys.argv[1]], *sys.argv[2:])
