#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Clocks of two hosts, planted and found.

link_hosts.py plant TRACE.json OUT.json [--ppm N] [--step NS] [--drop N]
link_hosts.py check ARCHIVE MEMBER NS [--ppm N --since TRACE.json]

plant changes the times of a recording, since no namespace can do that to a clock: from its beginning on it gains N ppm, and
from half of its messages on it is NS ahead. --drop: each N-th message was lost.

check reads the archive with Python's own zipfile: its manifest says that the CLOCK_BOOTTIME of MEMBER is NS ahead of the
other host's, within the residual that it states, which tells that from no offset at all; with --ppm, that it gains so much
since the beginning of the recording, at both ends of what was compared.
"""
import argparse
import json
import sys
import zipfile


def read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f, parse_float=str)


def to_ns(us):
    whole, _, part = str(us).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def to_us(ns):
    return float(f"{ns // 1000}.{ns % 1000:03}")  # exact: a recording is shorter than a month


def plant(args):
    trace, n = read(args.trace), 0
    times = sorted(to_ns(e["ts"]) for e in trace if e.get("cat") == "message")

    def later(ns):
        return ns + round(ns * args.ppm / 1e6) + (args.step if ns > times[len(times) // 2] else 0)

    rows = []
    for e in trace:
        if e.get("cat") == "message":
            n += 1
            if args.drop and n % args.drop == 0:
                continue
            end = to_ns(e["ts"])
            e["args"]["call_ns"] = later(end) - later(max(end - e["args"]["call_ns"], 0))
        if "ts" in e:
            start = to_ns(e["ts"])
            if "dur" in e:
                e["dur"] = to_us(later(start + to_ns(e["dur"])) - later(start))
            e["ts"] = to_us(later(start))
            if e["name"] == "inftrace_clock":
                e["args"]["boottime_ns"] = str(int(e["args"]["boottime_ns"]) + later(start) - start)
        rows.append(json.dumps(e))
    with open(args.out, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(rows) + "\n]\n")


def check(args):
    with zipfile.ZipFile(args.archive) as z:
        manifest = json.loads(z.read("perfetto_manifest.json"))["perfetto_manifest"]

    def of(name):
        return manifest["attributes"][f"inftrace.{name}.{args.member}"]

    began = 0
    if args.since:
        began = next(int(e["args"]["boottime_ns"]) for e in read(args.since) if e["name"] == "inftrace_clock")
    residual, within = of("boottime_residual_ns"), of("residual_ns")
    assert 0 <= residual <= within, (residual, within)
    assert not args.ns or within < abs(args.ns) / 2, f"a residual of {within} ns does not tell {args.ns} ns from none"
    for end in ("first", "last"):
        at, found = of(f"boottime_{end}_ns"), of(f"boottime_ahead_{end}_ns")
        gained = (at - began) * args.ppm / (1e6 + args.ppm) if began else 0
        assert abs(found - args.ns - gained) <= residual, (end, found, args.ns, gained, residual)
        print(f"{end}: {found - args.ns} ns beside what was planted, of which {gained:.0f} gained; residual {residual} ns")
    print(f"over {(of('boottime_last_ns') - of('boottime_first_ns')) / 1e9:.3f} s; within {within} ns as one offset")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = parser.add_subparsers(dest="command", required=True)
    p = sub.add_parser("plant")
    p.add_argument("trace")
    p.add_argument("out")
    p.add_argument("--step", type=int, default=0)
    p.add_argument("--drop", type=int, default=0)
    c = sub.add_parser("check")
    c.add_argument("archive")
    c.add_argument("member")
    c.add_argument("ns", type=int)
    c.add_argument("--since")
    for s in (p, c):
        s.add_argument("--ppm", type=float, default=0)
    args = parser.parse_args()
    (plant if args.command == "plant" else check)(args)


if __name__ == "__main__":
    sys.exit(main())
