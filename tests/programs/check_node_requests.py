#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_node_requests.py ask CLIENTS REQUESTS PORT
check_node_requests.py OUTPUT PROFILE

Asks tests/engines/node_llama_gen.mjs -s, and holds the requests of a profile against what that server printed at
its end. The binding makes the batches; the server knows the sequence and the tokens of each request."""

import collections
import random
import sys
import threading
import urllib.request

from reading import read_lines

def ask(clients, requests, port):
    failed = []

    def client(n):
        draw = random.Random(n)
        try:
            for _ in range(requests):
                url = f"http://127.0.0.1:{port}/?words={draw.randint(2, 60)}&tokens={draw.randint(2, 12)}"
                with urllib.request.urlopen(url) as answer:
                    answer.read()
        except OSError as e:
            failed.append(f"{url}: {e}")

    threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        sys.exit(failed[0])


def check(output, profile):
    told = collections.defaultdict(list)
    for r in sorted((e for e in read_lines(output) if "queued_ms" in e), key=lambda r: r["start"]):
        told[r["sequence"]].append(r)
    got, sockets = collections.defaultdict(list), []
    for e in read_lines(profile, "request_prof"):
        if e["shape"]["source_kind"] == "socket":
            sockets.append(e)
        else:
            got[e["shape"]["sequence"]].append(e)
    errors, shared = [], 0
    if set(got) != set(told):
        errors.append(f"sequences {sorted(got)}, wanted {sorted(told)}")
    for sequence, requests in told.items():
        mine = sorted(got[sequence], key=lambda e: e["shape"]["number"])
        if len(mine) != len(requests):
            errors.append(f"sequence {sequence}: {len(mine)} requests, wanted {len(requests)}")
        for e, r in zip(mine, requests):
            shape, stage, name = e["shape"], e["stage_us"], f"request {r['request']} in sequence {sequence}"
            shared += shape.get("steps_shared", 0) > 0
            if not {"prompt_tokens", "cached_tokens", "steps_shared"} <= shape.keys() or "ttft" not in stage:
                errors.append(f"{name} lacks a part: {shape}")
                continue
            if (shape["source_kind"], "mixed" in shape) != ("sequence", False):
                errors.append(f"{name} is mixed, or none of a sequence")
            # llama.cpp is given all tokens but the last
            evaluated = shape["prompt_tokens"] + shape["cached_tokens"] + shape["output_tokens"] - 1
            if evaluated != r["evaluated"] or shape["output_tokens"] != r["tokens"]:
                errors.append(f"{name}: {evaluated} tokens given to llama.cpp, {shape['output_tokens']} to the client; "
                              f"wanted {r['evaluated']} and {r['tokens']}")
            # the server's own times begin before its first step and end behind its last
            total = stage["total"] - stage.get("queued", 0)
            if stage["ttft"] > r["ttft_ms"] * 1000 + 1 or total > (r["ttft_ms"] + r["decode_ms"]) * 1000 + 1:
                errors.append(f"{name}: {stage['ttft']} us to the first token, {stage['total']} us in all; the server took {r}")
            # it answers with a part for each token, which is not asked for where it is joined
            if shape["joined"] and shape["chunks"] != r["tokens"]:
                errors.append(f"{name} is joined with an answer of {shape['chunks']} parts: {r['tokens']} tokens")
            if shape["joined"] and not 0 <= stage["queued"] <= stage["ttft_client"] - stage["ttft"]:
                errors.append(f"{name}: {stage}")
    n = sum(map(len, told.values()))
    joined = sum(e["shape"]["joined"] for es in got.values() for e in es)
    if len(sockets) + joined != n:
        errors.append(f"{len(sockets)} requests on sockets, and {joined} joined with theirs, wanted {n}")
    if not shared:
        errors.append("no request had a step with another one")
    if errors:
        sys.exit("\n".join(errors[:20]))
    print(f"{n} requests, {shared} of them in steps with others; {joined} know their socket")


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(*map(int, sys.argv[2:]))
    else:
        check(*sys.argv[1:])
