#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Files that are being written, and what a reader finds in them at any moment.

streams.py sample PID FILE ...            while the process is there: the sizes that the files have at random
                                          moments, in FILE.sizes
streams.py prefixes FILE N SEED FOLDER    N prefixes of sizes that were seen: each is whole events or packets,
                                          and what the file begins with; those of JSON are left in the folder
streams.py same FILE.json FILE.json.gz    the events of the two are the same
streams.py counts FILE.json SUMMARY PROFILE   slices, instants, counters and switches against what inftrace
                                          says that it recorded, at its end and in window_prof
"""
import collections
import gc
import json
import os
import random
import re
import sys
import time
import zlib

import pftrace

PAGE = os.sysconf("SC_PAGE_SIZE")

gc.disable()  # events by the hundred thousand, and no cycles


def sample(pid, *paths):
    seen = {path: [] for path in paths}
    while os.path.exists(f"/proc/{pid}"):
        for path in paths:
            size = os.stat(path).st_size if os.path.exists(path) else 0
            if size:
                seen[path].append(size)
        time.sleep(random.random() / 50)
    for path, sizes in seen.items():
        with open(path + ".sizes", "w", encoding="ascii") as f:
            json.dump(sizes, f)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def unpacked(data):
    """What is in a sequence of gzip members, each of which must be whole."""
    out = []
    while data:
        d = zlib.decompressobj(31)
        out.append(d.decompress(data))
        assert d.eof, "cut inside a gzip member"
        data = d.unused_data
    return b"".join(out)


def events_of(text):
    """The events of a Chrome trace, with its end or cut after an event."""
    text = text.decode().rstrip()
    return json.loads(text if text.endswith("]") else text.rstrip(",") + "]")


def check_json(text, whole):
    events = events_of(text)
    assert events == whole[: len(events)], "not what the file begins with"


def check_packets(data, whole):
    found, torn = pftrace.packets(data)
    # the kernel may have written a part of what it was given, up to a page: readers ignore the torn packet
    assert not torn or len(data) % PAGE == 0, f"{torn} bytes behind the last packet, {len(data)} in all"
    assert found == whole[: len(found)], "not what the file begins with"


def prefixes(path, n, seed, folder):
    data, kind = read(path), os.path.basename(path).split(".", 1)[1]
    unpack = unpacked if kind.endswith(".gz") else bytes
    text = unpack(data)
    whole, torn = (events_of(text), 0) if kind.startswith("json") else pftrace.packets(text)
    check = check_json if kind.startswith("json") else check_packets
    if not kind.startswith("json"):
        pftrace.Trace(text[: len(text) - torn])  # in which nothing refers to what comes later: so in none of the prefixes either
    with open(path + ".sizes", encoding="ascii") as f:
        sizes = json.load(f)
    different = sorted(set(sizes))
    rng = random.Random(int(seed))
    chosen = rng.sample(different, min(len(different), int(n)))
    chosen += rng.choices(sizes, k=int(n) - len(chosen))
    found = collections.Counter()
    for i, size in enumerate(chosen):
        assert size <= len(data), "the file has become shorter"
        if not found[size]:
            check(unpack(data[:size]), whole)
            if kind.startswith("json"):
                with open(os.path.join(folder, f"{i}.{kind}"), "wb") as f:
                    f.write(data[:size])
        found[size] += 1
    print(f"{len(chosen)} prefixes of {len(found)} sizes out of {len(different)}, of a file of {len(data)} bytes; "
          f"{len(sizes)} looks")
    assert len(found) >= int(n) * 3 // 4, "too few sizes were seen"


def same(path, packed):
    both = [collections.Counter(json.dumps(e, sort_keys=True) for e in events_of(text)
                                if e["name"] != "inftrace_clock")
            for text in (read(path), unpacked(read(packed)))]
    print(f"{sum(both[0].values())} events")
    assert both[0] == both[1], list(((both[0] - both[1]) + (both[1] - both[0])).items())[:5]


def kind_of(e):
    """The record that an event was made from; None: from that of another event, or from none."""
    cat = e.get("cat")
    if e["ph"] == "C":
        return "memory" if e["name"] == "rss" else None
    if cat == "inftrace":
        return {"waiting for probes": "hold", "probes placed late": "placed"}.get(e["name"])
    if e["ph"] not in "Xi" or cat in ("steps", "batch", "loss", "gap") or e["name"] == "ttft":
        return None
    kinds = {"ipc": "syscall", "sched": "off_cpu", "cpu": "on_cpu", "requests": "request"}
    named = ("syscall", "fault", "step", "task", "irq")
    return kinds.get(cat, cat if cat in named else "function")


def counts(path, summary, profile):
    found = collections.Counter(filter(None, map(kind_of, events_of(read(path)))))
    with open(summary, encoding="utf-8") as f:
        line = re.search(r"^inftrace: [0-9.]+ s, (.*)$", f.read(), re.M)[1]
    said = {kind: int(n) for n, kind in re.findall(r"(\d+) (\w+)", line)}
    with open(profile, encoding="utf-8") as f:
        window = json.loads(f.readlines()[-1])["shape"]
    print(f"in the file: {dict(found)}\nsaid:        {said}\nwindow_prof: {window}")
    assert found == collections.Counter(said) and window["lost"] == 0
    # it has mappings, too, which no trace shows
    assert window["records"] >= sum(said.values()) and window["steps"] == said["step"]


if __name__ == "__main__":
    {f.__name__: f for f in (sample, prefixes, same, counts)}[sys.argv[1]](*sys.argv[2:])
