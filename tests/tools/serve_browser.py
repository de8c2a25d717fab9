#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Has pages in a headless Chromium fetch what `inftrace serve` serves, each from an origin of its own.

serve_browser.py PORT NAME FILE

This program serves the page of https://ui.perfetto.dev: the name is mapped to this machine. It does what the
UI does (ui/src/frontend/index.ts, trace_url_handler.ts of Perfetto): the same policy of what it may connect
to, POST /status, then the fetch. Prints a line for each origin; exit code 1 when one got what it should not,
or did not get what it should. CHROMIUM names another browser; needs openssl for a certificate.
"""
import hashlib
import http.server
import json
import os
import queue
import ssl
import subprocess
import sys
import tempfile
import threading

BROWSER = os.environ.get("CHROMIUM", "/usr/bin/chromium")
LIMIT_S = 60
PAGE = """<!doctype html><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="connect-src 'self' http://127.0.0.1:%(port)d">
<script>
const url = 'http://127.0.0.1:%(port)d/%(name)s', seen = {};
async function attempt(name, f) {
  try { seen[name] = await f(); } catch (e) { seen[name] = 'refused'; }
}
async function digest(response) {
  const bytes = await (await response.blob()).arrayBuffer();
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(hash, (b) => b.toString(16).padStart(2, '0')).join('');
}
(async () => {
  await attempt('status', async () => (await fetch('http://127.0.0.1:%(port)d/status',
    {method: 'post', cache: 'no-cache'})).status);
  await attempt('file', async () => {
    const response = await fetch(url);
    return crypto.subtle ? digest(response) : (await response.blob()).size;
  });
  await attempt('range', async () => {
    const response = await fetch(url, {headers: {Range: 'bytes=2-5', 'Cache-Control': 'no-cache'}});
    return [response.status, response.headers.get('Content-Range'), (await response.blob()).size];
  });
  await attempt('script', () => new Promise((resolve) => {
    const script = document.createElement('script');
    script.onload = () => resolve('ran');
    script.onerror = () => resolve('refused');
    script.src = url;
    document.head.append(script);
  }));
  await fetch('/result', {method: 'POST', body: JSON.stringify(seen)});
})();
</script>
"""


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (PAGE % self.server.about).encode() if self.path == "/" else b""
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.server.results.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def start(about, results, tls=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.about, server.results = about, results
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def certificate(folder):
    key, cert = os.path.join(folder, "key"), os.path.join(folder, "cert")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
                    "/CN=ui.perfetto.dev", "-keyout", key, "-out", cert], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    return tls


def visit(folder, url, rules, results):
    browser = subprocess.Popen(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--ignore-certificate-errors",
         "--host-resolver-rules=" + rules, "--user-data-dir=" + os.path.join(folder, "profile"), url],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return results.get(timeout=LIMIT_S)
    finally:
        browser.kill()
        browser.wait()


def main(port, name, path):
    content = open(path, "rb").read()
    results = queue.Queue()
    about = {"port": port, "name": name}
    size = len(content)
    span = [206, "bytes 2-5/%d" % size, 4]
    refused = {"status": "refused", "file": "refused", "range": "refused", "script": "refused"}
    failed = False
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        plain, tls = start(about, results), start(about, results, certificate(folder))
        rules = "MAP ui.perfetto.dev:443 127.0.0.1:%d, MAP *.example 127.0.0.1" % tls
        # a script is none of them: only a request with CORS may have it
        allowed = {"status": 405, "file": hashlib.sha256(content).hexdigest(), "range": span, "script": "refused"}
        for url, wanted in [
            ("https://ui.perfetto.dev/", allowed),
            ("http://localhost:%d/" % plain, allowed),
            ("http://evil.example:%d/" % plain, refused),
            ("https://evil.example:%d/" % tls, refused),
        ]:
            seen = visit(folder, url, rules, results)
            print(url, json.dumps(seen))
            if seen != wanted:
                failed = True
                print("  not", json.dumps(wanted))
    sys.exit(failed)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(int(sys.argv[1]), *sys.argv[2:])
