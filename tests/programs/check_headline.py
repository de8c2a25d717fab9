#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_headline.py INFTRACE CLIENTS PROFILE LEAST

Holds what the report says of a server against the log of its clients (llama_clients.c), to whom the server
(node_llama_gen.mjs -s) has told its own times: the time to first token as measured at the sockets lies between what the server
measured within and what its clients measured without, at each percentile; so does the goodput at each limit. Requests
that are joined with their sequences are those that the server says, and at least LEAST percent of all."""

import json
import subprocess
import sys

from reading import rank, read_lines

def share(values, limit):
    return sum(v <= limit for v in values) / len(values)


def slack(ms):
    """A client may have read what the call of the server that wrote it has not returned from."""
    return max(1, 0.02 * ms)


def main():
    inftrace, clients, profile, least = sys.argv[1], read_lines(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    wrong = []

    def within(what, low, ours, high):
        print(f"# {what}: {ours:.4g}; the server {low:.4g}, clients {high:.4g}")
        if not low <= ours <= high:
            wrong.append(f"{what}: {ours} is not within {low} to {high}")

    def report(*args):
        done = subprocess.run([inftrace, "report", "--json", *args, profile], check=True, stdout=subprocess.PIPE)
        processes = [p for p in json.loads(done.stdout)["processes"] if p.get("socket_requests")]
        if len(processes) != 1:
            sys.exit(f"{len(processes)} processes with requests on sockets")
        return processes[0]

    seen = [(c["first"] - c["sent"]) / 1e6 for c in clients]
    within_server = [c["said"]["timings"]["first_ms"] for c in clients]
    p = report()
    if p["ttft_us"]["count"] != len(clients):
        wrong.append(f"{p['ttft_us']['count']} requests, wanted {len(clients)}")
    for percent in (50, 90, 99):
        within(f"p{percent} of the time to first token, ms", rank(within_server, percent), p["ttft_us"][f"p{percent}"] / 1000,
               rank(seen, percent) + slack(rank(seen, percent)))
    for percent in (10, 30, 50, 70, 90):
        limit = round(rank(seen, percent), 3)
        g = report("--slo", f"ttft={limit}ms")["goodput"]
        within(f"goodput at {limit} ms", share(seen, limit - slack(limit)), g["kept"] / len(clients), share(within_server, limit))
    by_size, joined = {c["bytes"]: c["said"] for c in clients}, 0
    for e in read_lines(profile, "request_prof"):
        shape = e["shape"]
        if not shape.get("joined"):
            continue
        joined += 1
        said = by_size[shape["bytes_read"]]
        have = shape["sequence"], shape["output_tokens"], shape["prompt_tokens"] + shape["cached_tokens"] + shape["output_tokens"] - 1
        want = said["id_slot"], said["timings"]["predicted_n"], said["timings"]["evaluated_n"]
        if have != want:
            wrong.append(f"the request of {shape['bytes_read']} bytes: sequence, output and all tokens {have}, wanted {want}")
    print(f"# {joined} of {len(clients)} joined")
    if joined * 100 < least * len(clients):
        wrong.append(f"only {joined} of {len(clients)} are joined, wanted {least} percent")
    if wrong:
        sys.exit("\n".join(wrong[:20]))


main()
