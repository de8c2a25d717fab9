#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""An OpenTelemetry collector for tests, and what it was sent, decoded by protoc with the published field numbers (otlp.proto).

    otlp.py collect DIRECTORY [STATUS...]    answers on a free port, whose number it prints: at first with these statuses;
                                             with TLS=FILE in the environment by TLS, with that key and certificate
    otlp.py metrics DIRECTORY PROFILE...     the newest metrics are those of the lines
    otlp.py spans DIRECTORY SLOW_US PROFILE... each slow request has its spans, once
"""
import glob
import http.server
import math
import os
import re
import ssl
import sys
from decimal import Decimal

import metrics
import protos


def collect(directory, statuses):
    os.makedirs(directory, exist_ok=True)
    numbers = iter(range(1000000))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/x-protobuf"
            status = statuses.pop(0) if statuses else 200
            name = f"{next(numbers):06d}.{os.path.basename(self.path)}.{status}"
            with open(os.path.join(directory, name + ".part"), "wb") as f:
                f.write(body)
            os.rename(os.path.join(directory, name + ".part"), os.path.join(directory, name))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    if "TLS" in os.environ:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.environ["TLS"])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_port, flush=True)
    server.serve_forever()


def decode(message, path):
    with open(path, "rb") as f:
        return protos.decode(message, "otlp.proto", f.read(), value=str)


def attributes(message):
    found = {}
    for pair in message.get("attributes", []):
        (kind, value), = pair["value"][0].items()
        found[protos.raw_text(pair["key"][0]).decode()] = protos.raw_text(value[0]).decode() if kind == "string_value" else Decimal(value[0])
    return found


def resource_of(message):
    assert attributes(message["resource"][0])["service.name"] == "inftrace"
    assert attributes(message["resource"][0])["host.name"] == os.uname().nodename


def compare_metrics(directory, paths):
    newest = sorted(glob.glob(os.path.join(directory, "*.metrics.200")))[-1]
    have = {}
    for resource in decode("ExportMetricsServiceRequest", newest)["resource_metrics"]:
        resource_of(resource)
        for metric in resource["scope_metrics"][0]["metrics"]:
            name, unit = (protos.raw_text(metric[key][0]).decode() for key in ("name", "unit"))
            data = metric.get("histogram", metric.get("sum"))[0]
            assert data["aggregation_temporality"] == ["CUMULATIVE"], name
            assert "histogram" in metric or data["is_monotonic"] == ["true"], name
            for point in data["data_points"]:
                assert int(point["start_time_unix_nano"][0]) <= int(point["time_unix_nano"][0])
                if "histogram" not in metric:
                    continue
                assert unit == "s", name
                base = name.replace(".", "_") + "_seconds"
                labels = frozenset((k.replace(".", "_"), v) for k, v in attributes(point).items())
                counts = [int(n) for n in point.get("bucket_counts", [])]
                bounds = [float(b) for b in point["explicit_bounds"]] + ["+Inf"]
                assert len(counts) == len(bounds), name
                for i, le in enumerate(bounds):
                    have[base + "_bucket", labels | {("le", le)}] = Decimal(sum(counts[:i + 1]))
                have[base + "_sum", labels] = Decimal(point["sum"][0])
                have[base + "_count", labels] = Decimal(point.get("count", ["0"])[0])
    print(metrics.compare(have, metrics.expected(metrics.observations(paths))), "values")


def check_tree(root, children, line, start):
    """The spans of one request are the intervals of its line."""
    stages, attr = line["stage_us"], attributes(root)
    total, queued, first = (metrics.ns(stages.get(key, 0)) for key in ("total", "queued", "ttft"))
    at = start + metrics.ns(line["shape"]["ts_us"])
    assert root["kind"] == ["SERVER"] and "parent_span_id" not in root
    assert len(protos.raw_text(root["trace_id"][0])) == 16 and len(protos.raw_text(root["span_id"][0])) == 8
    assert attr["gen_ai.response.model"] == line["model"]
    assert attr["gen_ai.usage.output_tokens"] == line["shape"]["output_tokens"]
    for key in ("own_prefill", "own_decode", "others", "between"):
        assert math.isclose(attr["inftrace." + key], Decimal(stages[key]) / 10 ** 6, abs_tol=1e-9), key
    want = {"request": (at, at + total), "first token": (at + queued, at + queued + first), "further tokens": (at + queued + first, at + total)}
    if queued:
        want["queued"] = (at, at + queued)
    have = {protos.raw_text(s["name"][0]).decode(): (int(s["start_time_unix_nano"][0]), int(s["end_time_unix_nano"][0])) for s in [root, *children]}
    assert have == want, f"{have}, not {want}"
    ids = {s["span_id"][0] for s in [root, *children]}
    assert len(ids) == 1 + len(children)
    assert all(c["parent_span_id"] == root["span_id"] and c["trace_id"] == root["trace_id"] for c in children)


def compare_spans(directory, slow_us, paths):
    traces = {}
    for path in sorted(glob.glob(os.path.join(directory, "*.traces.200"))):
        for resource in decode("ExportTraceServiceRequest", path)["resource_spans"]:
            resource_of(resource)
            for span in resource["scope_spans"][0]["spans"]:
                traces.setdefault(span["trace_id"][0], []).append(span)
    have = {}
    for spans in traces.values():
        root, = [s for s in spans if "parent_span_id" not in s]
        attr = attributes(root)
        place = (attr["inftrace.file"], int(attr["inftrace.line"]))
        assert place not in have, f"twice: {place}"
        have[place] = (root, [s for s in spans if s is not root])
    want = {(file, number): line for file, number, line in metrics.lines_of(paths) if line["event"] == "request_prof" and
            line["stage_us"]["total"] >= Decimal(slow_us) and not any(line["shape"].get(key) for key in metrics.PARTIAL)}
    assert want and have.keys() == want.keys(), f"{len(have)} requests, not {len(want)}: {sorted(have.keys() ^ want.keys())[:5]}"
    for place, line in want.items():
        check_tree(*have[place], line, int(re.search(r"_(\d+)\.jsonl", place[0])[1]) * 10 ** 6)
    print(len(have), "requests")


def main():
    command, directory, *rest = sys.argv[1:]
    try:
        if command == "collect":
            collect(directory, [int(s) for s in rest])
        elif command == "metrics":
            compare_metrics(directory, rest)
        else:
            compare_spans(directory, rest[0], rest[1:])
    except (AssertionError, KeyError, IndexError, ValueError) as e:
        sys.exit(f"otlp.py: {type(e).__name__} {e}")


if __name__ == "__main__":
    main()
