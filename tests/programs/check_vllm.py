#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Compares a profile with the log that vllm_like/replay.py has replayed: each step's rows, and each request.

  check_vllm.py LOG TRACE PROFILE OUT [NEAR]   OUT: what replay.py printed; times may be off by NEAR ns
  check_vllm.py junk TRACE OUT                 OUT: what junk.py printed
Exits with 0, or prints every difference and exits with 1.
"""
import collections
import json
import re
import sys

from check import Differences, events_of, start
from reading import ns, read_lines

NEAR_NS = 50_000


def steps_of(out):
    """Begin, number of the log's step or None, and end of each call."""
    for line in open(out):
        words = line.split()
        if len(words) == 3 and words[0] != "arrived":
            yield int(words[0]), None if words[1] == "None" else int(words[1]), int(words[2])


def rows_of(args, ids):
    """Tokens by request of a step in a trace; None: they are unknown, or not all shown."""
    batch = args.get("batch", f"{args.get('sequence')}: {args.get('n_tokens')}")  # of one request
    if " more" in batch or "rows_read" in args or not args.get("n_sequences"):
        return None
    return {ids.get(int(s)): int(n) for s, n in re.findall(r"(\d+): (\d+)", batch)}


def check_rows(diff, name, args, step, ids, outputs):
    """The rows of one step."""
    diff.equal(f"{name}: tokens", args.get("n_tokens"), step["total"])
    diff.equal(f"{name}: requests", args.get("n_sequences", 0), len(step["tokens"]))
    diff.equal(f"{name}: outputs", args.get("n_outputs", 0), outputs)
    rows = rows_of(args, ids)
    if rows is not None:
        diff.equal(f"{name}: rows", rows, step["tokens"])


def check_request(diff, line, tokens, known):
    shape, want = line["shape"], tokens[line["shape"]["request_id"]]
    name = f"request {shape['request_id']}"
    diff.equal(f"{name}: whole", [k for k in ("mixed", "began_before", "lost_steps", "unfinished") if k in shape], [])
    diff.equal(f"{name}: prompt", shape["prompt_tokens"], want["prompt"])
    diff.equal(f"{name}: output", shape["output_tokens"], known["output"])
    if known["cached"] is not None:  # without output it is not known
        diff.equal(f"{name}: cached", shape["cached_tokens"], known["cached"])
    diff.equal(f"{name}: steps", shape["steps"], want["steps"])
    diff.equal(f"{name}: preemptions", shape.get("preemptions", 0), want["preemptions"])
    diff.equal(f"{name}: computed once more", shape.get("recomputed_tokens", 0), want["again"])
    if known["output"]:
        diff.equal(f"{name}: prompt, as the engine has it", shape["prompt_tokens"] + shape["cached_tokens"], known["prompt"])
    preempted = ns(line["stage_us"].get("preempted", 0))
    queued = ns(line["stage_us"].get("queued", 0))
    return (abs(ns(line["stage_us"].get("ttft", 0)) - want.get("ttft", 0)), abs(queued - (want["begin"] - want["arrived"])),
            abs(ns(line["stage_us"]["total"]) - queued - want["total"]), abs(preempted - want["out"]) if want["preemptions"] else None)


def check_times(diff, off, n, near):
    """How far the times of n requests are off: most, since a thread may be held up between its reading of the clock and the step's end. Where
    probes are dear, the program's own clock is as far from them: near is four times the largest median then, within limits."""
    kinds = ("ttft", "queued", "total", "preempted")
    known = [sorted(o[i] for o in off if o[i] is not None) for i in range(len(kinds))]
    medians = [k[len(k) // 2] if k else 0 for k in known]
    most = min(max(near, 4 * max(medians)), 4 * near)
    for what, k in zip(kinds, known):
        diff.equal(f"{what}: most within {most} ns", sum(ns <= most for ns in k) >= 0.5 * (len(k) if what == "preempted" else n), True)
    print(f"# {', '.join(kinds)} off by {medians} ns")


def main(path, trace, profile, out, near=NEAR_NS):
    diff = Differences()
    log = [json.loads(e) for e in open(path)]
    batches = {e["n"]: e for e in log if e["ev"] == "step"}
    known = {e["id"]: e for e in log if e["ev"] == "request"}
    calls = list(steps_of(out))
    steps = sorted((e for e in events_of(trace) if e.get("cat") == "step"), key=start)
    requests = read_lines(profile, "request_prof")
    arrived = {w[1]: int(w[2]) for w in map(str.split, open(out)) if w[:1] == ["arrived"]}
    ids = {r["shape"]["sequence"]: r["shape"].get("request_id") for r in requests}
    diff.equal("steps", len(steps), len(calls))
    diff.equal("lines", len(read_lines(profile, "token_prof")), len(calls))
    tokens = collections.defaultdict(lambda: dict.fromkeys(
        ("prompt", "steps", "total", "output", "preemptions", "again", "out", "computed", "high", "end"), 0))
    for i, (step, (begin, n, end)) in enumerate(zip(steps, calls)):
        if n is None:
            diff.equal(f"step {i}: no batch", "n_tokens" in step["args"], False)
            continue
        outputs = 0
        for request, rows in batches[n]["tokens"].items():
            t = tokens[request]
            t.setdefault("begin", begin)
            t["arrived"] = arrived[request]
            t["steps"] += 1
            t["total"] = end - t["begin"]
            computed = batches[n]["computed"][request]
            if request in batches[n]["resumed"]:
                t["preemptions"] += 1
                t["high"] = max(t["high"], t["computed"])
                t["out"] += begin - t["end"]
            again = max(0, min(t["high"] - computed, rows))
            t["again"] += again
            t["computed"], t["end"] = computed + rows, end
            if "ttft" not in t:
                t["prompt"] += rows - again
            if request in batches[n]["samples"] and t["output"] < known[request]["output"]:  # others are given up
                t.setdefault("ttft", end - t["begin"])
                t["output"] += 1
                outputs += 1
        check_rows(diff, f"step {i}, batch {n}", step["args"], batches[n], ids, outputs)
    diff.equal("preempted as often as the engine says", sum(t["preemptions"] != known[i]["preemptions"] for i, t in tokens.items()), 0)
    diff.equal("requests", sorted(ids.values(), key=str), sorted(tokens))
    off = [check_request(diff, r, tokens, known[r["shape"]["request_id"]]) for r in requests
           if r["shape"].get("request_id") in tokens]
    check_times(diff, off, len(tokens), int(near))
    print(f"# {len(steps)} steps, {len(requests)} requests")
    return min(diff.n, 1)


def check_junk(diff, trace, out):
    """Compares the first steps with the rows that the program says. Returns all steps, and how many these were."""
    events = events_of(trace)
    ids = {e["args"]["sequence"]: e["args"]["id"] for e in events if e["name"] == "request" and "id" in e["args"]}
    want = [json.loads(line) for line in open(out) if line[0] in "{n"]
    steps = sorted((e for e in events if e.get("cat") == "step"), key=start)
    diff.equal("steps", len(steps) > len(want) > 20, True)
    for i, (step, rows) in enumerate(zip(steps, want)):
        args = step["args"]
        diff.equal(f"case {i}: has rows", args.get("n_sequences", 0) > 0, rows is not None)
        if rows is not None:
            diff.equal(f"case {i}: requests and tokens", (args["n_sequences"], args["n_tokens"]), (len(rows), sum(rows.values())))
            diff.equal(f"case {i}: rows", rows_of(args, ids) or rows, rows)
    return steps, len(want)


def junk(trace, out):
    diff = Differences()
    steps, n = check_junk(diff, trace, out)
    known = [step["args"].get("n_outputs") for step in steps[:n] if step["args"].get("n_sequences")]
    diff.equal("outputs", known, [1, None, None, None, None, 256, None, None, None, 2] + [1] * 12)
    for i, step in enumerate(steps[n:]):  # what another thread changed meanwhile: whole, or none
        args = step["args"]
        diff.equal(f"changed {i}: adds up or has none", "rows_read" in args or args.get("n_tokens", -1) == i, True)
    return min(diff.n, 1)


if __name__ == "__main__":
    sys.exit(junk(*sys.argv[2:]) if sys.argv[1] == "junk" else main(*sys.argv[1:]))
