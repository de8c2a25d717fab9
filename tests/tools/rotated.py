#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The files that --max-size made of one output.

rotated.py same WHOLE FILE ...     WHOLE is all of the recording in one file: each slice, instant, counter and
                                   switch of it is in one of the FILEs, and nothing else; each FILE has
                                   the names of its threads; all have one zero of time
rotated.py sizes SIZE FILE ...     all but the last are as large, and not all of them larger; in any order
rotated.py load FILE ...           each opens by itself
"""
import collections
import json
import os
import re
import sys

import pftrace
import streams

PSEUDO = 4194304
ARROWS = "sf"
SLACK = 5_000_000  # ns: an arrow leads from within a slice to within another one
# json.dumps() with options would make one for each event
as_text = json.JSONEncoder(sort_keys=True, default=repr).encode


def number(path):
    found = re.search(r"\.(\d+)\.(json|pftrace|jsonl)(\.gz)?$", path)
    return int(found[1]) if found else 1


def read(path):
    data = streams.read(path)
    return streams.unpacked(data) if path.endswith(".gz") else data


def is_json(path):
    return ".json" in os.path.basename(path)


def load_json(path):
    return streams.events_of(read(path))


def load_packets(path):
    data = read(path)
    _, torn = pftrace.packets(data)
    return pftrace.Trace(data[: len(data) - torn])


# ---- what is in a file, however it is written ----

def content_json(events):
    found = collections.Counter()
    for e in events:
        if e["ph"] in "XiC" and e["name"] != "inftrace_clock":
            found[as_text(e)] += 1
    return found


def content_packets(trace):
    found = collections.Counter()
    for track, name, category, start, end, args in trace.slices():
        found["slice", track, name, category, start, end, as_text(args)] += 1
    for ns, _, track, kind, name, _, args in trace.events:
        if kind in (pftrace.INSTANT, pftrace.COUNTER) and name != "inftrace_clock":
            found[kind, trace.tracks[track], name, ns, as_text(args)] += 1
    for what in trace.wakings:
        found["waking", *what] += 1
    for what in trace.on_cpu():
        found["cpu", *what] += 1
    return found


def check_json(path, events):
    names = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    processes = {e["pid"] for e in events if e["name"] == "process_name"}
    seen = {(e["pid"], e["tid"]) for e in events if e["ph"] in "Xi" and e.get("cat") != "inftrace"}
    assert not seen - names, f"{path}: threads without a name: {seen - names}"
    assert not {pid for pid, _ in seen} - processes, f"{path}: processes without a name"
    by_id = collections.defaultdict(dict)
    for e in events:
        if e["ph"] in ARROWS:
            by_id[e["id"]][e["ph"]] = round(e["ts"] * 1000)
    assert all(set(ends) == set(ARROWS) for ends in by_id.values()), f"{path}: half an arrow"
    return [sorted(ends.values()) for ends in by_id.values()]


def check_packets(path, trace):
    seen = {where[1] for where in trace.tracks.values() if isinstance(where[1], int)}
    assert not seen - set(trace.threads), f"{path}: threads without a name: {seen - set(trace.threads)}"
    assert trace.machine, f"{path}: no SystemInfo"
    assert all(set(ends) == {pftrace.FLOW, pftrace.FLOW_END} for ends in trace.flows.values()), f"{path}: half an arrow"
    return [sorted(end[-1] for end in ends.values()) for ends in trace.flows.values()]


def times_json(events):
    """When its slices end, which is when they are written."""
    return [round((e["ts"] + e["dur"]) * 1000) for e in events if e["ph"] == "X" and e.get("cat") != "inftrace" and "unfinished" not in e.get("args", {})]


def times_packets(trace):
    return [s[4] for s in trace.slices() if "unfinished" not in s[5]]


def clocks_json(events):
    """(zero, when) of each instant that has the clocks."""
    out = []
    for e in events:
        if e["name"] == "inftrace_clock":
            boot = int(e["args"]["boottime_ns"])
            out.append((boot - round(e["ts"] * 1000), boot))
    return out


def clocks_packets(trace):
    return [(0, clock[6]) for clock in trace.clocks]


def compare(whole, parts):
    for path, part in parts:
        assert not part - whole, f"{path}: not in the whole: {list((part - whole).items())[:3]}"
    total = sum((part for _, part in parts), collections.Counter())
    assert total == whole, f"missing: {list((whole - total).items())[:3]}; twice: {list((total - whole).items())[:3]}"
    print(f"{len(parts)} files: {[sum(part.values()) for _, part in parts]} of {sum(whole.values())}")


def same(whole, *paths):
    if is_json(whole):
        load, content, check, clocks, times = load_json, content_json, check_json, clocks_json, times_json
    else:
        load, content, check, clocks, times = load_packets, content_packets, check_packets, clocks_packets, times_packets
    parts, arrows, last, spans = [], 0, None, []
    all_of_it = load(whole)
    for path in sorted(paths, key=number):
        file = load(path)
        arrows += len(check(path, file))
        parts.append((path, content(file)))
        ends = times(file)
        spans.append((min(ends, default=0), max(ends, default=0)))
        found = clocks(file)
        assert len(found) >= 2, f"{path}: no clocks at its begin or end"
        for zero, when in found:
            assert last is None or (zero == last[0] and when >= last[1]), f"{path}: its time does not go on"
            last = (zero, when)
    compare(content(all_of_it), parts)
    had = check(whole, all_of_it)
    # from the first end in the later file to the last one in the earlier one, slices are in either
    between = sum(any(a <= max(last, next_[0]) + SLACK and z >= min(last, next_[0]) - SLACK for (_, last), next_ in zip(spans, spans[1:]))
                  for a, z in had)
    print(f"{arrows} of {len(had)} arrows, {between} may be between files")
    # half of them only on a machine so busy that threads wait for as long as a file takes
    assert len(had) - max(len(had) // 4, min(between, len(had) // 2)) <= arrows <= len(had), "too few arrows: only those between files may be missing"


def sizes(limit, *paths):
    full = [os.stat(path).st_size for path in sorted(paths, key=number)[:-1]]
    print(full)
    # with gzip the size is only roughly known
    least = 0.5 if paths[0].endswith(".gz") else 1
    assert full and all(size >= least * int(limit) for size in full), "too small"
    # the next one is not begun while something waits to be written, which takes as long as a busy machine lets it take
    assert len(full) < 3 or min(full) <= 3 * int(limit), "too large"


def load(*paths):
    for path in paths:
        check_json(path, load_json(path)) if is_json(path) else load_packets(path)
    print(f"{len(paths)} files")


if __name__ == "__main__":
    {f.__name__: f for f in (same, sizes, load)}[sys.argv[1]](*sys.argv[2:])
