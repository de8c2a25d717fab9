#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tracks of a Chrome trace that short-lived threads share (docs/trace-format.md).

lanes.py FILE    prints as JSON: the tracks of threads, those of them that are shared, the threads that were born when
                 it had to begin, those of them that are on a shared one, and those that are on one of their own, too;
                 exits with 1 where the events of two threads on a track are not apart
"""
import bisect
import collections
import json
import sys

FIRST, PAST = 4194500, 4194564
PSEUDO = 4194304


def is_lane(e):
    return FIRST <= e.get("tid", 0) < PAST and e.get("pid", 0) < PSEUDO and e["ph"] != "M"


def own_threads(events):
    """Every event under the tid of its thread. Arrows do not have one: it is that of the slice that contains them,
    and the last one that had begun belongs to the same thread."""
    slices = collections.defaultdict(list)
    for e in events:
        if is_lane(e) and e["ph"] == "X":
            slices[e["pid"], e["tid"]].append((e["ts"], e["args"]["tid"]))
    for track in slices.values():
        track.sort()
    for e in events:
        if not is_lane(e):
            continue
        if e["ph"] in "sf":
            track = slices[e["pid"], e["tid"]]
            e["tid"] = track[bisect.bisect_right(track, e["ts"], key=lambda s: s[0]) - 1][1]
        else:
            e["tid"] = e["args"]["tid"]
    return events


def late_born(events):
    """The threads that were born after eight of their process had died that lived for less than a second."""
    births, short, late = {}, collections.Counter(), set()
    for e in sorted((e for e in events if e.get("cat") == "task"), key=lambda e: e["ts"]):
        thread = e["pid"], e["tid"]
        if e["pid"] == e["tid"]:
            continue
        if e["name"] == "fork":
            births[thread] = e["ts"]
            late |= {thread} if short[e["pid"]] >= 8 else set()
        elif e["name"] == "exit" and e["ts"] - births.get(thread, -1e9) < 1e6:
            short[e["pid"]] += 1
    return late


def summary(events):
    lanes, tracks = collections.defaultdict(dict), set()
    for e in events:
        if e["ph"] not in "Xi" or e["pid"] >= PSEUDO or e.get("cat") in ("steps", "requests"):
            continue
        tracks.add((e["pid"], e["tid"]))
        if is_lane(e):
            end = e["ts"] + e.get("dur", 0)
            spans = lanes[e["pid"], e["tid"]]
            first, last = spans.get(e["args"]["tid"], (e["ts"], end))
            spans[e["args"]["tid"]] = min(first, e["ts"]), max(last, end)
    for (pid, tid), spans in lanes.items():
        times = sorted(spans.values())
        for before, behind in zip(times, times[1:]):
            # ts and dur are sums of doubles here
            if before[1] > behind[0] + 0.0005:
                sys.exit(f"pid {pid} tid {tid}: two threads at {behind[0]}")
    shared = {(pid, thread) for (pid, _), spans in lanes.items() for thread in spans}
    late = late_born(own_threads(events))
    return {"tracks": len(tracks), "lanes": len(lanes), "late": len(late), "on_lanes": len(late & shared),
            "elsewhere": len(late & tracks)}



if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as f:
        print(json.dumps(summary(json.load(f))))
