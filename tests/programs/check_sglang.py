#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Compares a profile with what sglang_like/replay.py has done: each step's rows, and each request.

  check_sglang.py LOG TRACE PROFILE OUT [NEAR]   OUT: what replay.py printed; times may be off by NEAR ns
  check_sglang.py junk TRACE OUT                 OUT: what junk.py printed
  check_sglang.py windows OUT TRACE...           of windows
Exits with 0, or prints every difference and exits with 1.
"""
import collections
import json
import sys

from check import Differences, events_of, start
from check_vllm import NEAR_NS, check_junk, check_request, check_rows, check_times
from reading import read_lines


def known_of(request, known, tokens):
    """What the log says of a request, with the tokens that it got, of which one step may give several."""
    return {**known[request], "output": tokens[request]["output"]}


def main(path, trace, profile, out, near=NEAR_NS):
    diff = Differences()
    known = {e["id"]: e for e in map(json.loads, open(path)) if e["ev"] == "request"}
    calls = [json.loads(line) for line in open(out) if line[0] == "{"]
    arrived = {w[1]: int(w[2]) for w in map(str.split, open(out)) if w[:1] == ["arrived"]}
    steps = sorted((e for e in events_of(trace) if e.get("cat") == "step"), key=start)
    requests = read_lines(profile, "request_prof")
    ids = {r["shape"]["sequence"]: r["shape"].get("request_id") for r in requests}
    diff.equal("steps", len(steps), len(calls))
    diff.equal("lines", len(read_lines(profile, "token_prof")), len(calls))
    tokens = collections.defaultdict(lambda: dict.fromkeys(("prompt", "steps", "total", "output", "preemptions", "again", "out", "end"), 0))
    for i, (step, call) in enumerate(zip(steps, calls)):
        for request, rows in call["tokens"].items():
            t = tokens[request]
            t.setdefault("begin", call["begin"])
            t["arrived"] = arrived[request]
            t["steps"] += 1
            t["total"] = call["end"] - t["begin"]
            if request in call["again"]:
                t["preemptions"] += 1
                t["again"] += call["again"][request]
                t["out"] += call["begin"] - t["end"]
            t["end"] = call["end"]
            if "ttft" not in t:
                t["prompt"] += rows
            if request in call["given"]:
                t.setdefault("ttft", call["end"] - t["begin"])
                t["output"] += call["given"][request]
        diff.equal(f"step {i}: wait", step["args"].get("scheduler", {}).get("waiting"), call["waiting"])
        check_rows(diff, f"step {i}", step["args"], {"total": sum(call["tokens"].values()), "tokens": call["tokens"]}, ids, sum(call["given"].values()))
    diff.equal("requests", sorted(ids.values(), key=str), sorted(tokens))
    off = [check_request(diff, r, tokens, known_of(r["shape"]["request_id"], known, tokens)) for r in requests
           if r["shape"].get("request_id") in tokens]
    check_times(diff, off, len(tokens), int(near))
    print(f"# {len(steps)} steps, {len(requests)} requests")
    return min(diff.n, 1)


def junk(trace, out):
    diff = Differences()
    steps, n = check_junk(diff, trace, out)
    told = [json.loads(line.split(None, 1)[1]) for line in open(out) if line.startswith("outputs ")][0]
    diff.equal("outputs", [step["args"].get("n_outputs") for step in steps[:n] if step["args"].get("n_sequences")], [1, 1, 1, 1, 256, 0, 1] + told)
    for i, step in enumerate(steps[n:]):  # what another thread changed meanwhile: whole, or none
        args = step["args"]
        diff.equal(f"changed {i}: adds up or has none", "rows_read" in args or args.get("n_sequences", 0) <= args.get("n_tokens", 0) <= 3, True)
    return min(diff.n, 1)


def windows(out, *traces):
    """Two batches may be begun before the window, and have no rows, or no outputs. The other steps are as many of the program's in turn."""
    diff, found = Differences(), 0
    calls = [json.loads(line) for line in open(out) if line[0] == "{"]
    calls = [(sum(c["tokens"].values()), len(c["tokens"]), len(c["given"])) for c in calls]
    for path in sorted(traces):
        steps = [e["args"] for e in sorted((e for e in events_of(path) if e.get("cat") == "step"), key=start)]
        rows = [(args.get("n_tokens", 0), args.get("n_sequences", 0), args.get("n_outputs")) for args in steps if "unfinished" not in args]
        while rows and rows[0][:2] == (0, 0) and len(steps) - len(rows) < 3:
            del rows[0]
        found += len(rows)

        def fit(calls):
            return len(calls) == len(rows) and all(c[:2] == r[:2] and (c[2] == (r[2] or 0) or (i < 2 and r[2] is None))
                                                   for i, (c, r) in enumerate(zip(calls, rows)))

        diff.equal(f"{path}: {rows} in turn", any(fit(calls[i:i + len(rows)]) for i in range(len(calls))), True)
    diff.equal("some steps", found > 50, True)
    return min(diff.n, 1)


if __name__ == "__main__":
    sys.exit({"junk": junk, "windows": windows}[sys.argv[1]](*sys.argv[2:]) if sys.argv[1] in ("junk", "windows") else main(*sys.argv[1:]))
