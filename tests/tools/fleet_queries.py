#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares what the queries of docs/fleet.md answered with the same, computed from the lines here.

    fleet_queries.py ANSWERS.json DIRECTORY      DIRECTORY/HOST/*.jsonl
"""
import collections
import glob
import json
import math
import os
import statistics
import sys
from decimal import Decimal

PARTIAL = ("began_before", "unfinished", "end_not_seen", "lost_steps")


def dec(value):
    return Decimal(str(value))


class Line:
    def __init__(self, path, text):
        line = json.loads(text, parse_float=Decimal)
        self.host, self.file = os.path.basename(os.path.dirname(path)), os.path.basename(path)
        self.event, self.model, self.commit, self.env = (line[k] for k in ("event", "model", "commit_sha", "env_hash"))
        self.shape, self.stages = line["shape"], line["stage_us"]
        self.total = dec(self.stages.get("total", 0))
        self.ts = dec(self.shape.get("ts_us", 0))
        socket, joined = self.shape.get("source_kind") == "socket", self.shape.get("joined")
        self.client = joined or (socket and self.shape.get("joined_why") != "none fits")
        self.ttft = self.stages.get("ttft" if socket else "ttft_client")
        tokens = self.shape.get("output_tokens", 0)
        self.complete = not any(self.shape.get(k) for k in PARTIAL)
        self.tpot = self.stages.get("tpot_mean") if socket else None
        if not socket and "ttft" in self.stages and tokens > 1:
            self.tpot = (self.total - dec(self.stages["ttft"]) - dec(self.stages.get("queued", 0))) / (tokens - 1)

    def numbered(self, prefix, end):
        return [self.shape.get(f"{prefix}{i}{end}") for i in range(1, 9)]


def grouped(lines, *keys):
    groups = collections.defaultdict(list)
    for line in lines:
        groups[tuple(getattr(line, k) if isinstance(k, str) else k(line) for k in keys)].append(line)
    return groups


def rank(values, share):
    return sorted(values)[max(math.ceil(len(values) * share) - 1, 0)]


def phase(line):
    return line.shape["phase"]


def answers(lines):
    requests = [l for l in lines if l.event == "request_prof" and l.shape["source_kind"] != "socket" and
                not l.shape.get("mixed") and not l.shape.get("cancelled")]
    complete = [l for l in requests if l.complete]
    clients = [l for l in lines if l.event == "request_prof" and l.client and l.ttft is not None]
    steps = [l for l in lines if l.event == "token_prof" and not l.shape.get("unfinished") and not l.shape.get("began_before")]

    yield "ttft", [(*k, len(v), *(rank([l.ttft for l in v], q) for q in (0.5, 0.9, 0.99)))
                   for k, v in grouped(clients, "host", "model").items()]
    yield "tpot", [(*k, len(v), statistics.median([l.tpot for l in v]), max(l.tpot for l in v))
                   for k, v in grouped([l for l in complete if l.tpot is not None], "host", "model").items()]
    yield "slowest", [(l.host, l.file, l.shape.get("number"), l.ts, l.total, dec(l.stages.get("queued", 0)),
                       *(l.stages.get(k) for k in ("own_prefill", "own_decode", "others", "between")))
                      for l in sorted(complete, key=lambda l: (-l.total, l.file, l.ts))[:10]]

    waited, numbers = collections.defaultdict(list), {(l.host, l.file, l.shape.get("number")): l for l in requests}
    for l in requests:
        for number, us in zip(l.numbered("waited", "_for"), l.numbered("waited", "_us")):
            if number is not None and (l.host, l.file, number) in numbers:
                waited[l.host, l.file, number].append(dec(us))
    rows = [(*k, numbers[k].shape.get("prompt_tokens"), sum(v), len(v)) for k, v in waited.items()]
    yield "waited", sorted(rows, key=lambda r: (-r[4], str(r[2])))[:10]

    decode, states = [l for l in steps if phase(l) == "decode"], collections.Counter()
    for l in decode:
        for key, us in l.stages.items():
            if key != "total" and not key.startswith("workers_"):
                states[key] += dec(us)
    tokens = sum(l.shape["n_tokens"] for l in decode)
    yield "states", [(k, us, us / tokens) for k, us in states.items()]

    behind = collections.defaultdict(list)
    for l in steps:
        for name, us in zip(l.numbered("behind", "_by"), l.numbered("behind", "_us")):
            if name is not None:
                behind[l.host, name].append(dec(us))
    yield "behind", [(*k, sum(v), len(v)) for k, v in behind.items()]

    stalls = collections.defaultdict(list)
    for (host, of), v in grouped(steps, "host", phase).items():
        typical = rank([l.total for l in v], 0.5)
        for l in v:
            if l.total > 3 * typical:
                stalls[host, of, l.shape.get("wait1_state", "none")].append(l.total - typical)
    yield "stalls", [(*k, len(v), sum(v)) for k, v in stalls.items()]
    yield "loss", [(l.host, l.file, l.shape["window"], l.shape["lost"], l.shape["coverage"], l.total)
                   for l in lines if l.event == "window_prof" and l.shape["lost"] > 0]
    yield "versions", [(*k, len(v), rank([l.total for l in v], 0.5), sum(l.shape["n_tokens"] for l in v) * 10**6 / sum(l.total for l in v))
                       for k, v in grouped(steps, "env", "commit", phase).items()]
    yield "goodput", [(*k, len(v), sum(l.ttft <= 100000 and (l.tpot or 0) <= 5000 for l in v))
                      for k, v in grouped(clients, "host", "file", lambda l: int(l.ts // 60000000)).items()]


def is_same(a, b):
    if a is None or b is None:
        return a is None and b is None
    try:
        return math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-9)
    except ValueError:
        return str(a) == str(b)


def text_key(row):
    return [(v is not None, f"{float(v):.6g}" if not isinstance(v, str) or v.replace(".", "", 1).isdigit() else v) for v in map(
        lambda v: 0 if v is None else v, row)]


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        have = json.load(f)
    lines = []
    for path in sorted(glob.glob(os.path.join(sys.argv[2], "*", "*.jsonl"))):
        with open(path, encoding="utf-8") as f:
            lines += [Line(path, text) for text in f]
    want = dict(answers(lines))
    if set(have) != set(want) | {"views"}:
        sys.exit(f"the queries are {', '.join(have)}")
    for name, rows in want.items():
        got = sorted((list(row.values()) for row in have[name]), key=text_key)
        rows = sorted((list(row) for row in rows), key=text_key)
        if not rows:
            sys.exit(f"{name}: nothing to compare")
        if len(got) != len(rows) or not all(len(g) == len(r) and all(map(is_same, g, r)) for g, r in zip(got, rows)):
            sys.exit(f"{name}: {got}, not {[[str(v) for v in r] for r in rows]}")
    print(", ".join(f"{name} {len(rows)}" for name, rows in want.items()))


if __name__ == "__main__":
    main()
