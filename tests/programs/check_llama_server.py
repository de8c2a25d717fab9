#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_llama_server.py CLIENTS PROFILE

Holds the requests of a profile of a real llama-server against what its clients (llama_clients.c) have logged: when they
saw their first token, and the slot, tokens and times that the server told them. A request is recognised by its size.

The server's times may differ by 2 % or 1 ms, percentiles of the clients' by 5 % or 10 ms, less what
these themselves waited for a CPU."""

import sys

from reading import read_lines

class Check:
    def __init__(self):
        self.wrong = 0

    def require(self, name, what, holds, text):
        if not holds:
            self.wrong += 1
            if self.wrong <= 20:
                print(f"# request {name}: {what}: {text}")

    def equal(self, name, what, got, wanted):
        self.require(name, what, got == wanted, f"{got}, the server says {wanted}")

    def near(self, name, what, got, wanted):
        self.require(name, what, abs(got - wanted) <= max(1, 0.02 * wanted), f"{got:.3f} ms, the server says {wanted:.3f}")

    def request(self, name, seen, client):
        shape, stage, said = seen["shape"], seen["stage_us"], client["said"]
        timings = said["timings"]
        self.equal(name, "slot", shape["sequence"], said["id_slot"])
        self.equal(name, "prompt", shape["prompt_tokens"], timings["prompt_n"])
        self.equal(name, "cached", shape["cached_tokens"], timings["cache_n"])
        self.equal(name, "output", shape["output_tokens"], timings["predicted_n"])
        ttft = stage["ttft"] / 1000
        self.near(name, "prompt_ms", ttft, timings["prompt_ms"])
        self.near(name, "predicted_ms", (stage["total"] - stage["queued"]) / 1000 - ttft, timings["predicted_ms"])
        client_ms = (client["first"] - client["sent"]) / 1e6
        # a client may have read what the call of the server that wrote it has not returned from
        self.require(name, "first token", stage["ttft_client"] / 1000 <= client_ms + max(10, 0.05 * client_ms),
                     f"{stage['ttft_client'] / 1000:.3f} ms, the client waited {client_ms:.3f}")
        return stage["ttft_client"] / 1000, client_ms - client["delayed"] / 1e6


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(p * len(values)))]


def main():
    clients = {c["bytes"]: c for c in read_lines(sys.argv[1])}
    profile = read_lines(sys.argv[2], "request_prof")
    check, times, found = Check(), [], {}
    for e in profile:
        if "bytes_read" in e["shape"]:
            check.require(e["shape"]["bytes_read"], "found", e["shape"]["bytes_read"] not in found, "twice")
            found[e["shape"]["bytes_read"]] = e
    joined = [e for e in profile if e["shape"].get("joined")]
    for e in profile:
        if e["shape"]["source_kind"] == "sequence":
            check.require(e["shape"]["number"], "joined", e["shape"].get("joined"), e["shape"].get("joined_why"))
    for size, client in clients.items():
        seen = found.get(size)
        check.require(size, "found", seen, "nowhere")
        if not seen or not client["said"]:
            continue
        check.require(size, "joined", seen["shape"].get("joined"), seen["shape"].get("joined_why"))
        if seen["shape"].get("joined"):
            times.append(check.request(size, seen, client))
    print(f"# {len(clients)} requests, {len(joined)} joined, {len(times)} compared")
    for p in (0.5, 0.9, 0.99) if times else ():
        ours, clients_ms = (percentile([t[i] for t in times], p) for i in (0, 1))
        print(f"# first token, p{100 * p:g}: {ours:.2f} ms, clients {clients_ms:.2f}")
        check.require(f"p{100 * p:g}", "first token", clients_ms - ours <= max(10, 0.05 * clients_ms), "not what the clients saw")
    sys.exit(1 if check.wrong or not times else 0)


main()
