#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_llama_server.py CLIENTS PROFILE

Holds the requests of a profile of a real llama-server against what its clients (llama_clients.c) have logged: when they
saw their first token, and the slot, tokens and times that the server told them. A request is recognised by its size.

The server's clock starts before the first step of a prompt and stops when a token has been sampled, so its times lie
between those of the steps and those up to the next steps."""

import bisect
import json
import sys

ROUNDING = 0.002  # milliseconds: the server counts microseconds


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


class Steps:
    """The steps of each context, by time, in milliseconds."""

    def __init__(self, profile):
        self.of = {}
        for e in profile:
            if e["event"] == "token_prof":
                begin = e["shape"]["ts_us"] / 1000
                self.of.setdefault(e["shape"].get("context"), []).append((begin, begin + e["stage_us"]["total"] / 1000))
        for steps in self.of.values():
            steps.sort()

    def gap_before(self, context, at):
        """From the end of the step before the one that begins then."""
        i = bisect.bisect_left(self.of[context], (at - ROUNDING, 0))
        return at - self.of[context][i - 1][1] if i else float("inf")

    def gap_after(self, context, at):
        """From the end of a step to the begin of the next one."""
        i = bisect.bisect_left(self.of[context], (at, 0))
        return self.of[context][i][0] - at if i < len(self.of[context]) else float("inf")


class Check:
    def __init__(self):
        self.wrong = 0
        self.near = {"prompt_ms": 0, "predicted_ms": 0}

    def require(self, name, what, holds, text):
        if not holds:
            self.wrong += 1
            if self.wrong <= 20:
                print(f"# request {name}: {what}: {text}")

    def equal(self, name, what, got, wanted):
        self.require(name, what, got == wanted, f"{got}, the server says {wanted}")

    def between(self, name, what, low, server, high):
        self.require(name, what, low - ROUNDING <= server <= high + ROUNDING, f"{low:.3f} to {high:.3f}, the server says {server:.3f}")

    def request(self, name, seen, client, steps):
        shape, stage, said = seen["shape"], seen["stage_us"], client["said"]
        timings = said["timings"]
        self.equal(name, "slot", shape["sequence"], said["id_slot"])
        self.equal(name, "prompt", shape["prompt_tokens"], timings["prompt_n"])
        self.equal(name, "cached", shape["cached_tokens"], timings["cache_n"])
        self.equal(name, "output", shape["output_tokens"], timings["predicted_n"])
        begin, ttft = (shape["ts_us"] + stage["queued"]) / 1000, stage["ttft"] / 1000
        end = (shape["ts_us"] + stage["total"]) / 1000
        after = steps.gap_after(shape["context"], begin + ttft)
        self.between(name, "prompt_ms", ttft, timings["prompt_ms"], ttft + steps.gap_before(shape["context"], begin) + after)
        decode = end - begin - ttft
        self.between(name, "predicted_ms", decode - after, timings["predicted_ms"], decode + steps.gap_after(shape["context"], end))
        for what, ours in (("prompt_ms", ttft), ("predicted_ms", decode)):
            self.near[what] += abs(ours - timings[what]) <= max(1, 0.02 * timings[what])
        client_ms = (client["first"] - client["sent"]) / 1e6
        self.require(name, "first token", stage["ttft_client"] / 1000 <= client_ms,
                     f"{stage['ttft_client'] / 1000:.3f} ms, the client waited {client_ms:.3f}")
        return stage["ttft_client"] / 1000, client_ms


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(p * len(values)))]


def main():
    clients = {c["bytes"]: c for c in lines(sys.argv[1])}
    profile = lines(sys.argv[2])
    steps, check, times, found = Steps(profile), Check(), [], {}
    for e in profile:
        if e["event"] == "request_prof" and "bytes_read" in e["shape"]:
            check.require(e["shape"]["bytes_read"], "found", e["shape"]["bytes_read"] not in found, "twice")
            found[e["shape"]["bytes_read"]] = e
    joined = [e for e in profile if e["event"] == "request_prof" and e["shape"].get("joined")]
    for e in profile:
        if e["event"] == "request_prof" and e["shape"]["source_kind"] == "sequence":
            check.require(e["shape"]["number"], "joined", e["shape"].get("joined"), e["shape"].get("joined_why"))
    for size, client in clients.items():
        seen = found.get(size)
        check.require(size, "found", seen, "nowhere")
        if not seen or not client["said"]:
            continue
        check.require(size, "joined", seen["shape"].get("joined"), seen["shape"].get("joined_why"))
        if seen["shape"].get("joined"):
            times.append(check.request(size, seen, client, steps))
    print(f"# {len(clients)} requests, {len(joined)} joined, {len(times)} compared; within 2 % or 1 ms of the server: prompt_ms of "
          f"{check.near['prompt_ms']}, predicted_ms of {check.near['predicted_ms']}")
    if times:
        print("# first token: " + ", ".join(f"p{100 * p:g} {percentile([t[0] for t in times], p):.2f} ms, clients "
                                            f"{percentile([t[1] for t in times], p):.2f}" for p in (0.5, 0.9, 0.99)))
    sys.exit(1 if check.wrong or not times else 0)


main()
