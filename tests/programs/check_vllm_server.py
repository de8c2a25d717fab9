#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_vllm_server.py CLIENTS PROFILE API ENGINE

Requests of serve_client.py to vllm_like/serve.py, whose API and engine are the processes API and ENGINE: each is one line, of the engine's
request and of the API's socket, which its id alone tells; its tokens are those that its client got, and its times lie within what
the client's clock allows."""

import sys

from check_requests import Wrong
from reading import ns, read_lines


def check(clients, profile, api, engine):
    clients = {e["name"]: e for e in clients}
    lines = [e for e in profile if e["event"] == "request_prof" and e["shape"].get("request", "").startswith("GET /")]
    got = {e["shape"]["request"]: e for e in lines}
    if len(lines) != len(clients) or set(got) != {f"GET /{name}" for name in clients}:
        raise Wrong(f"{len(lines)} lines of {len(clients)} requests: {sorted(got)}")
    for name, client in clients.items():
        shape, stage = got[f"GET /{name}"]["shape"], got[f"GET /{name}"]["stage_us"]
        if not shape.get("joined") or not shape["request_id"].startswith(f"cmpl-{name}-0-"):
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


if __name__ == "__main__":
    try:
        check(*map(read_lines, sys.argv[1:3]), *map(int, sys.argv[3:]))
    except Wrong as e:
        sys.exit(str(e))
