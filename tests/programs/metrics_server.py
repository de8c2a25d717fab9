#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""metrics_server.py KIND: prints its port and "ready", answers requests with a page of metrics, and ends by SIGTERM.

  values      values that differ on each page, which it prints: {"from": when the request had come, "values": {series: value}}
  many        more series than are recorded
  huge        an endless page
  slow        one byte a second
  junk        random bytes
  missing     404
"""
import http.server
import itertools
import json
import os
import random
import signal
import sys
import time

NOT_PLAIN = """# TYPE e2e:seconds histogram
e2e:seconds_bucket{le="0.5"} 1
e2e:seconds_bucket{le="+Inf"} 2
e2e:seconds_sum 1.5
e2e:seconds_count 2
# TYPE rpc summary
rpc{quantile="0.5"} 3
rpc_sum 4
# TYPE e2e_created gauge
e2e_created 1.7e9
# TYPE load gauge
load NaN
load{of="all"} +Inf
no_value
no_end{a="}
"""


def page_of(n):
    """(text, {series: value})"""
    kind = {"running": "gauge", "kv_usage_perc": "gauge", "tokens_total": "counter", "names": "untyped"}
    values = {'vllm:running{engine="0",model_name="a b/c"}': n % 7, 'vllm:running{engine="1",model_name="a b/c"}': n,
              "vllm:kv_usage_perc": n / 300, "vllm:tokens_total": 1e300 + n * 1e290, "vllm:tokens_total{a=\"\\\"}\\\\\",b=\"ü\n\"}".replace("\n", "\\n"): -n,
              "vllm:names": 2**53 - n, "unknown": 0.1 * n}
    text = "".join(f"# HELP vllm:{name} Of # TYPE x histogram\n# TYPE vllm:{name} {kind[name]}\n" +
                   "".join(f"{series} {value!r}\n" for series, value in values.items() if series.startswith(f"vllm:{name}"))
                   for name in kind)
    return f"{text}{NOT_PLAIN}# TYPE last gauge\nunknown {values['unknown']!r} 1700000000000\n" + "x" * 300 + " 1\n# EOF", values


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pages = itertools.count()

    def log_message(self, *args):
        pass

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def endless(self, piece, seconds):
        self.send_response(200)
        self.end_headers()
        while True:
            self.wfile.write(piece)
            time.sleep(seconds)

    def do_GET(self):
        begin = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        kind = sys.argv[1]
        try:
            if kind == "values" and self.path == "/metrics":
                text, values = page_of(next(self.pages))
                self.answer(200, text.encode())
                print(json.dumps({"from": begin, "values": values}), flush=True)
            elif kind == "many":
                self.answer(200, "".join(f"series_{i} {i}\n" for i in range(3000)).encode())
            elif kind == "huge":
                self.endless(b"a 1\n" * 16384, 0)
            elif kind == "slow":
                self.endless(b"a", 1)
            elif kind == "junk":
                self.answer(200, random.Random(next(self.pages)).randbytes(100000))
            else:
                self.answer(404, b"not here")
        except OSError:
            self.close_connection = True


def main():
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], "ready", sep="\n", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
