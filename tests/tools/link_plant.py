#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What inftrace would have recorded beside PyTorch's profiler, made from its trace, with clocks that are planted.

link_plant.py make KINETO OUT [--ahead NS] [--later NS] [--boot NS] [--drop N] [--from S] [--to S] [--tid N]
link_plant.py check ARCHIVE KINETO OUT [--ahead NS] [--boot NS]

make writes OUT (.json, .json.gz or .pftrace): each operator has a call around it that begins up to 3 us earlier and ends up
to 3 us later, each function of the runtime one within, by a clock that is NS behind Kineto's, and by another value in the
second half (--later). CLOCK_BOOTTIME is --boot at Kineto's first call. --drop: each N-th call was lost. --from, --to: seconds
after that in which calls are recorded.

check reads the archive with Python's own zipfile: its files are those that were given, its manifest puts the events of
Kineto where they were planted, to within the residual it states, which is small.
"""
import argparse
import gzip
import json
import os
import random
import sys
import zipfile

from protos import number, part

CALLS = {"cpu_op": (1, "aten::", "", "_Tensor"), "cuda_runtime": (-1, "cuda", "cu", ""), "cuda_driver": (1, "cu", "cu", "")}


def read_kineto(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as f:
        trace = json.load(f, parse_float=str, parse_int=str)
    return int(trace["baseTimeNanoseconds"]), trace["traceEvents"]


def to_ns(us):
    whole, _, part = us.partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def calls(events, args):
    """(name, pid, tid, start, end) by the raw numbers of Kineto, in nanoseconds, in its order."""
    chance = random.Random(1)
    n = 0
    for e in events:
        how, theirs, ours, overload = CALLS.get(e.get("cat"), (0, "", "", ""))
        if e["ph"] != "X" or not how or not e["name"].startswith(theirs):
            continue
        n += 1
        if args.drop and n % args.drop == 0:
            continue
        start, end = to_ns(e["ts"]), to_ns(e["ts"]) + to_ns(e["dur"])
        most = 3000 if how > 0 else max((end - start) // 3, 0)
        a, b = chance.randint(0, most), chance.randint(0, most)
        if how < 0:
            a, b = -a, -b
        yield ours + e["name"][len(theirs):] + overload, int(e["pid"]), args.tid or int(e["tid"]), start - a, end + b


def write_pftrace(path, recorded, first, last, real):
    names, tracks, rows = {}, {}, []

    def packet(data):
        rows.append(part(1, data))

    def clocks(boot):
        packet(number(8, boot) + part(6, b"".join(
            part(1, number(1, i) + number(2, ns)) for i, ns in ((6, boot), (3, boot), (1, boot + real)))))

    clocks(first)
    packet(number(10, 1) + number(13, 1))
    for name, pid, tid, start, end in sorted(recorded, key=lambda c: (c[3], -c[4])):
        new = b""
        if name not in names:
            names[name] = len(names) + 1
            new = part(12, part(2, number(1, names[name]) + part(2, name.encode())))
        lane = next((n for n in range(64) if tracks.get((tid, n), (0, 0))[1] <= start), None)
        uuid = tid * 100 + lane + 1
        if (tid, lane) not in tracks:
            packet(part(60, number(1, uuid) + part(4, number(1, pid) + number(2, tid))))
        tracks[tid, lane] = (start, end)
        event = number(10, names[name]) + number(11, uuid)
        packet(number(8, start) + number(10, 1) + number(13, 2) + new + part(11, number(9, 1) + event))
        packet(number(8, end) + number(10, 1) + number(13, 2) + part(11, number(9, 2) + number(11, uuid)))
    clocks(last)
    with open(path, "wb") as f:
        f.write(b"".join(rows))


def write_chrome(path, recorded, first, last, real):
    def us(ns):
        return f"{ns // 1000}.{ns % 1000:03}"

    def clock(boot):
        return (f'{{"ph":"i","s":"g","name":"inftrace_clock","cat":"inftrace","pid":4194400,"tid":4194400,"ts":{us(boot - first)},'
                f'"args":{{"boottime_ns":"{boot}","monotonic_ns":"{boot}","realtime_ns":"{boot + real}"}}}}')

    lines = [clock(first)]
    for name, pid, tid, start, end in recorded:
        lines.append(f'{{"ph":"X","name":{json.dumps(name)},"cat":"op","pid":{pid},"tid":{tid},"ts":{us(start - first)},'
                     f'"dur":{us(end - start)}}}')
    lines.append(clock(last))
    with (gzip.open if path.endswith(".gz") else open)(path, "wt", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(lines) + "\n]\n")


def make(args):
    base, events = read_kineto(args.kineto)
    found = list(calls(events, args))
    begin = min(c[3] for c in found)
    middle = (begin + max(c[4] for c in found)) // 2
    real = base + begin - args.boot  # wall clock - CLOCK_BOOTTIME

    def boot(raw):
        ahead = args.later if args.later is not None and raw > middle else args.ahead
        return raw - begin + args.boot - ahead

    recorded = []
    for name, pid, tid, start, end in found:
        if args.after * 1e9 <= start - begin <= args.until * 1e9:
            recorded.append((name, pid, tid, boot(start), boot(start) + end - start))
    first = min(c[3] for c in recorded) - 1000000
    last = max(c[4] for c in recorded) + 1000000
    (write_pftrace if args.out.endswith(".pftrace") else write_chrome)(args.out, recorded, first, last, real)
    print(len(recorded), "of", len(found), "calls")


def check(args):
    base, events = read_kineto(args.kineto)
    begin = min(c[3] for c in calls(events, args))
    with zipfile.ZipFile(args.archive) as z:
        assert z.testzip() is None
        for i in z.infolist():
            assert i.flag_bits == 0 and i.extract_version == 20, "what Perfetto's reader does not know"
        text = z.read(z.namelist()[0])
        assert text.startswith(b'{"perfetto_manifest"'), text
        for path in (args.kineto, args.out):
            with open(path, "rb") as f:
                assert z.read(os.path.basename(path)) == f.read(), f"{path}: other bytes"
    manifest = json.loads(text)["perfetto_manifest"]
    assert manifest["version"] == 1
    name = os.path.basename(args.kineto)
    file = {f["path"]: f for f in manifest["files"]}[name]
    assert file["clocks"]["sync_to"] == {"file": os.path.basename(args.out), "clock": "BOOTTIME"}
    assert manifest["trace_time"] == file["clocks"]["sync_to"] | {"clock": "BOOTTIME"}
    # where Kineto's first call must be on the timeline, and where the manifest puts it
    wanted = args.boot - args.ahead
    put = begin + file["clocks"]["offset_ns"]
    residual = manifest["attributes"]["inftrace.residual_ns." + name]
    ahead = manifest["attributes"]["inftrace.ahead_ns." + name]
    print(f"planted {args.ahead} ns, found {ahead} ns, residual {residual} ns, placed {put - wanted} ns off")
    assert abs(put - wanted) <= residual + 1 and abs(ahead - args.ahead) <= residual + 1
    assert residual < 3000


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=("make", "check"))
    p.add_argument("files", nargs="+")
    p.add_argument("--ahead", type=int, default=0)
    p.add_argument("--later", type=int)
    p.add_argument("--boot", type=int, default=1000000000000)
    p.add_argument("--drop", type=int, default=0)
    p.add_argument("--tid", type=int, default=0)
    p.add_argument("--from", type=float, default=-1, dest="after")
    p.add_argument("--to", type=float, default=1e9, dest="until")
    args = p.parse_args()
    if args.what == "check":
        args.archive, args.kineto, args.out = args.files
        check(args)
    else:
        args.kineto, args.out = args.files
        make(args)


if __name__ == "__main__":
    sys.exit(main())
