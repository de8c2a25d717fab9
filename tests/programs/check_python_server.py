#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_python_server.py CLIENTS PROFILE API ENGINE [PLANT OUTPUT]

Requests of serve_client.py to serve.py, whose API and engine are the processes API and ENGINE: each is one line, of the engine's
request and of the API's socket, which its id alone tells; its tokens are those that its client got, and its times lie within what
the client's clock allows. With what the server has printed, those that a plant held up must name it, and others must not."""

import collections
import sys

from check_requests import Wrong
from reading import ns, read_lines


LOST = 0.3  # of the time until it was passed on
LOST_NS, NOT_LOST_NS = 60_000_000, 5_000_000
COLLECTED_NS = 20_000_000
REFUSED_NS = 1_000_000


def overlap(held, begin, end):
    return sum(max(0, min(until, end) - max(since, begin)) for since, until, *_ in held)


def names_large(shape, causes, plant, held):
    """Whether what parses is among a request's causes: its function, or its thread as that waits for a CPU."""
    threads = {h[2] for h in held} if plant == "gil" else ()

    def waits(cause):
        return shape.get(cause + "tid") in threads and shape[cause + "state"] == "runnable" and ns(shape[cause + "us"]) > NOT_LOST_NS

    return any("parse_large (serve.py:" in shape.get(cause + "in", "") or waits(cause) for cause in (f"{causes}{i}_" for i in range(1, 5)))


def check_held(clients, got, plant, held, passed):
    """Of each request, for how long it could not be passed on to the engine."""
    right = wrong = missed = close = 0
    causes = []
    for name, client in clients.items():
        lost = overlap(held, client["sent"], passed[name])
        shape = got[f"GET /{name}"]["shape"]
        named = any(shape.get(f"path{i}_behind") == "hog" for i in range(1, 5)) if plant == "starve" else names_large(shape, "path", plant, held)
        if lost >= LOST_NS and lost >= LOST * (passed[name] - client["sent"]):
            right, missed = right + named, missed + (not named)
            if not named:
                causes.append(f"  {lost / 1e6:.0f} of {(passed[name] - client['sent']) / 1e6:.0f} ms: " + ", ".join(
                    " ".join(str(shape.get(f"path{i}_{key}", "")) for key in ("tid", "state", "call", "behind", "in", "us")) for i in range(1, 5)))
        elif lost <= NOT_LOST_NS:
            wrong += named
        else:
            close += 1
    print(f"{len(held)} times held; {right + missed} requests lost time by it, {right} of them name it; {wrong} others do; {close} close")
    # who keeps the lock may itself wait for a CPU on a busy machine; of an event loop the function is named that took half of its time
    if right < 10 or wrong > 0.1 * right or missed > {"gil": 0.25, "hold": 0.2}.get(plant, 0.1) * (right + missed):
        print(*causes[:5], sep="\n")
        raise Wrong("too few are right")


def check_answers(clients, got, plant, held):
    """Of each request, for how long the first part of its answer could not be written once its first token was there."""
    right = missed = wrong = unknown = 0
    for name, client in clients.items():
        shape, late = got[f"GET /{name}"]["shape"], ns(got[f"GET /{name}"]["stage_us"].get("first_answered", 0))
        lost = overlap(held, client["first"] - late, client["first"])
        named = names_large(shape, "answer", plant, held)
        # the way back is bounded: while the loop itself waits for a CPU again and again, it does not reach that far
        told = sum(ns(shape.get(f"answer{i}_us", 0)) for i in range(1, 5))
        if not named and told < 0.6 * late:
            unknown += 1
        elif lost >= LOST_NS and lost >= LOST * late:
            right, missed = right + named, missed + (not named)
        elif lost <= NOT_LOST_NS:
            wrong += named
    print(f"{right + missed} answers began late by it, {right} of them name it; {wrong} others do; of {unknown} less than 60 % is known")
    # a loop that is held up as a request comes hits few that have their first token and no answer; on a busy machine who keeps the lock
    # may wait for a CPU for most of that time, in which no function is known
    if right < {"gil": 2}.get(plant, 0) or wrong > max(2, 0.1 * right) or missed > max(1, 0.35 * (right + missed)):
        raise Wrong("too few answers are right")


def check_collected(clients, got, held):
    """Of each request from its first token to its last, for how long the engine collected garbage. A client may read late."""
    hit = free = wrong = 0
    for name, client in clients.items():
        stage = got[f"GET /{name}"]["stage_us"]
        collected = sum(ns(v) for k, v in stage.items() if k.endswith("_gc") and k.partition("_")[0] != "before")
        # on a busy machine it may have waited for a CPU meanwhile
        least = sum(h[2] for h in held if client["first"] <= h[0] and h[1] <= client["last"])
        most = overlap(held, client["sent"], client["last"])
        wrong += not 0.95 * least <= collected <= most
        hit, free = hit + (least > COLLECTED_NS), free + (not most)
    print(f"{len(held)} collections; {hit} requests had one, {free} had none; {wrong} are wrong")
    # the sums of all requests are compared; beside other work few have a whole collection between their tokens
    if hit < 2 or free < 2 or wrong > 0.05 * hit:
        raise Wrong("too few are right")


def check_rank(profile, engine, rank, held):
    """Which of the engine's steps waited for a rank that collected garbage, and for how long."""
    def waited(shape, pid, state):
        return 1000 * sum(shape[f"wait{i}_us"] for i in range(1, 5) if (shape.get(f"wait{i}_pid"), shape.get(f"wait{i}_state")) == (pid, state))

    def for_others(shape):
        return 1000 * sum(shape.get(f"wait{i}_us", 0) for i in range(1, 5) if shape.get(f"wait{i}_pid") != rank)

    steps = sorted((e["shape"] for e in profile if e["event"] == "token_prof" and e["shape"]["pid"] == engine), key=lambda s: s["step"])
    named = [s for s in steps if waited(s, rank, "gc") > COLLECTED_NS]
    # the rank may have waited for a CPU meanwhile, and the engine for the other rank, or a CPU, before it waited for this one
    wrong = sum(not 0.95 * cpu - for_others(s) <= waited(s, rank, "gc") <= until - since for s, (since, until, cpu) in zip(named, held))
    print(f"{len(held)} collections, {len(named)} steps name one; {wrong} are wrong")
    if len(held) < 10 or len(named) != len(held) or wrong > 0.05 * len(held):
        raise Wrong("too few are right")


def check_refused(got, output):
    """For how long each request was refused, as the engine says, and why."""
    lines = [line.split() for line in output if line.startswith("refused ")]
    told = {e["shape"]["request_id"]: [ns(e["stage_us"].get(f"no_{why}", 0)) for why in ("slot", "tokens", "kv")] for e in got.values()}
    sums, wrong = [0, 0, 0], []
    for _, request_id, *refused in lines:
        refused = list(map(int, refused))
        sums = [a + (b > REFUSED_NS) for a, b in zip(sums, refused)]
        # from when it looks at the queue, which is a little after the step's beginning
        if any(abs(a - b) > 0.05 * a + REFUSED_NS for a, b in zip(refused, told[request_id])):
            wrong.append((request_id, refused, told[request_id]))
    preempted = collections.Counter(line.split()[1] for line in output if line.startswith("preempted "))
    diff = [r for r, e in got.items() if e["shape"].get("preemptions", 0) != preempted[e["shape"]["request_id"]]]
    print(f"preempted: {sum(preempted.values())} times; of {len(diff)} requests that is wrong")
    if diff:
        raise Wrong("not as often as the engine says")
    print(f"{len(lines)} requests; refused for want of a slot, tokens, room in the KV cache: {sums}; {len(wrong)} are wrong: {wrong[:5]}")
    if len(lines) != len(got) or min(sums) < 10 or len(wrong) > 0.02 * len(lines):
        raise Wrong("too few are right")


def check(clients, profile, api, engine, plant=None, output=()):
    clients = {e["name"]: e for e in clients}
    lines = [e for e in profile if e["event"] == "request_prof" and e["shape"].get("request", "").startswith("GET /")]
    got = {e["shape"]["request"]: e for e in lines}
    if len(lines) != len(clients) or set(got) != {f"GET /{name}" for name in clients}:
        raise Wrong(f"{len(lines)} lines of {len(clients)} requests: {sorted(got)}")
    for name, client in clients.items():
        shape, stage = got[f"GET /{name}"]["shape"], got[f"GET /{name}"]["stage_us"]
        if not shape.get("joined") or not (shape["request_id"] + "-0-").startswith(f"cmpl-{name}-0-"):
            raise Wrong(f"request {name}: {shape}")
        if (shape["pid"], shape["socket_pid"]) != (engine, api):
            raise Wrong(f"request {name}: of process {shape['pid']}, its socket of {shape['socket_pid']}")
        if shape["output_tokens"] != client["parts"]:
            raise Wrong(f"request {name}: {shape['output_tokens']} tokens, its client got {client['parts']}")
        if not ns(stage.get("unread", 0)) < ns(stage["to_engine"]) < ns(stage["queued"]) < ns(stage["total"]):
            raise Wrong(f"request {name}: {stage}")
        # the client may have read what the call that wrote it has not returned from
        if not ns(stage["queued"]) < ns(stage["ttft_client"]) <= client["first"] - client["connected"] + 10_000_000:
            raise Wrong(f"request {name}: {stage['ttft_client']} us to its first token, its client waited for {client['first'] - client['connected']} ns")
    print(f"{len(clients)} requests, each in one line with its socket")
    held = [tuple(map(int, line.split()[1:])) for line in output if line.startswith("held ")]
    passed = {int(line.split()[1]): int(line.split()[2]) for line in output if line.startswith("passed ")}
    if plant == "rank":
        check_rank(profile, engine, int(next(line.split()[1] for line in output if line.startswith("rank "))), held)
    elif plant == "kv":
        check_refused(got, output)
    elif plant == "gc":
        check_collected(clients, got, held)
    elif plant:
        check_held(clients, got, plant, held, passed)
        if plant != "starve":
            check_answers(clients, got, plant, held)


if __name__ == "__main__":
    try:
        check(*map(read_lines, sys.argv[1:3]), *map(int, sys.argv[3:5]), *sys.argv[5:6], *(list(open(path)) for path in sys.argv[6:]))
    except Wrong as e:
        sys.exit(str(e))
