#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Dumps of the flight recorder, a trace and a profile each.

    check_dumps.py reasons DIR REGEX
        each has one trigger, with such a reason; prints how many dumps
    check_dumps.py all DIR EXPR PLANTED REFUSED
        one is that of the process' end, so that the last profile has all steps: by these EXPR came true at
        least PLANTED times, and each time there is a dump, except where the recorder has said that it had
        no place for it
"""
import glob
import re
import sys

from reading import ns, read_lines, read_trace


def trigger(path):
    """The reason and the instant of its trigger, and all events."""
    events = read_trace(path)
    triggers = [e for e in events if e["name"] == "trigger"]
    assert len(triggers) == 1, f"{path}: {len(triggers)} triggers"
    return triggers[0]["args"]["reason"], triggers[0]["ts"], events


def time_of(step, name):
    """The value of this name in a step's line, in microseconds."""
    stages = step["stage_us"]
    if name == "step" or name == step["shape"]["phase"]:
        return stages["total"]
    if name == "blocked":
        return sum(v for k, v in stages.items() if k.startswith("blocked_"))
    return stages.get(name, 0)


def slow_seconds(steps, limit):
    """How many seconds of decoding had fewer tokens than that, each counted once."""
    found, last_end, second = 0, None, []
    for s in steps:
        begin = ns(s["shape"]["ts_us"])
        end = begin + ns(s["stage_us"]["total"])
        if last_end is None or begin - last_end >= 10**9:
            last_end, second = begin, []
        if s["shape"]["phase"] == "decode":
            second.append(end - last_end)
            while sum(second[1:]) >= 10**9:
                second.pop(0)
            if sum(second) >= 10**9 and len(second) * 10**9 < limit * sum(second):
                found, second = found + 1, []
        last_end = end
    return found


def times_true(profile, expr):
    steps = sorted(read_lines(profile, "token_prof"), key=lambda p: p["shape"]["step"])
    assert [s["shape"]["step"] for s in steps] == list(range(len(steps))), "steps are missing"
    name, op, limit = re.fullmatch(r"(\w+)([<>])(\d+)(?:ms)?", expr).groups()
    if name == "rate":
        return slow_seconds(steps, int(limit))
    if name == "ttft":
        firsts = [p["stage_us"].get("ttft", 0) for p in read_lines(profile, "request_prof")]
        return sum(t > int(limit) * 1000 for t in firsts)
    return sum(time_of(s, name) > int(limit) * 1000 for s in steps)


def check_all(directory, expr, planted, refused):
    traces = sorted(glob.glob(f"{directory}/trace_*.json"), key=lambda p: int(re.findall(r"\d+", p)[-1]))
    ends = 0
    for path in traces:
        reason, at, events = trigger(path)
        if reason.startswith("exit: "):
            ends += 1
            continue
        assert reason.startswith(expr + ": "), f"{path}: {reason}"
        steps = [e["ts"] + e["dur"] for e in events if e.get("cat") == "step"]
        assert any(abs(end - at) < 0.002 for end in steps), f"{path}: no step ends at {at}"
    assert ends == 1, f"{ends} dumps for the end"
    wanted = times_true(traces[-1].replace("trace_", "profile_") + "l", expr)
    assert wanted >= planted, f"{wanted} times true, planted {planted}"
    assert len(traces) - 1 + refused == wanted, f"{len(traces) - 1} dumps, {refused} refused, {wanted} times true"


if sys.argv[1] == "all":
    check_all(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
else:
    paths = glob.glob(f"{sys.argv[2]}/trace_*.json")
    for trace in paths:
        said = trigger(trace)[0]
        assert re.fullmatch(sys.argv[3], said), f"{trace}: {said}"
    print(len(paths))
