#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Reads Perfetto traces with a decoder of its own, and compares them with Chrome JSON.

pftrace.py compare FILE.pftrace FILE.json   of the same recording: prints what was compared
pftrace.py cuts FILE.pftrace N SEED         N random prefixes: their whole packets are those of the file
pftrace.py loads FILE.pftrace ...           each can be read up to its last whole packet
pftrace.py lost FILE.pftrace N               its loss marks; N records were lost
pftrace.py protoc FILE.pftrace TEXT         TEXT, of protoc --decode_raw, has each packet
"""
import collections
import gzip
import json
import random
import struct
import sys

from lanes import own_threads

START, END, INSTANT, COUNTER = 1, 2, 3, 4
BOOTTIME = 6
FLOW, FLOW_END = 47, 48
GPU_SUBMISSION = 3000
GPU_PROCESS = 4195000  # pids that the JSON gives to devices
GPU_CONTEXTS, GPU_SPECS, GPU_KERNELS, GPU_ARGS = 23, 24, 1000, 1001  # what GpuRenderStageEvents refer to
STACKS = (5, 6, 7, 16, 17, 19)  # interned functions, frames, ...: tests/unit/test_sink_stacks.c reads them


def varint(data, i):
    value = shift = 0
    while True:
        byte = data[i]
        value |= (byte & 0x7F) << shift
        shift += 7
        i += 1
        if not byte & 0x80:
            return value, i


def fields(data):
    """{number: [values]}; raises unless all bytes are fields."""
    out, i, end = collections.defaultdict(list), 0, len(data)
    while i < end:
        # most numbers are of one byte, for which a call would take half of the time
        key = data[i]
        i += 1
        if key > 0x7F:
            key, i = varint(data, i - 1)
        wire = key & 7
        if wire == 0:
            value = data[i]
            i += 1
            if value > 0x7F:
                value, i = varint(data, i - 1)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value = int.from_bytes(data[i : i + size], "little")
            i += size
        elif wire == 2:
            size = data[i]
            i += 1
            if size > 0x7F:
                size, i = varint(data, i - 1)
            value = data[i : i + size]
            i += size
        else:
            raise ValueError(f"wire type {wire}")
        if i > end:
            raise ValueError("a field is longer than its message")
        out[key >> 3].append(value)
    return out


def packets(data):
    """The whole packets, and the number of bytes after the last of them."""
    out, i = [], 0
    while i < len(data):
        assert data[i] == 0x0A, f"byte {i} begins no packet"
        try:
            size, at = varint(data, i + 1)
        except IndexError:
            break
        if at + size > len(data):
            break
        out.append(data[at : at + size])
        i = at + size
    return out, len(data) - i


def numbers(data):
    out, i = [], 0
    while i < len(data):
        value, i = varint(data, i)
        out.append(value)
    return out


def value(annotation):
    kind, v = next((k, v[0]) for k, v in annotation.items() if k not in (1, 10) and v)
    return v - (1 << 64) if kind == 4 and v >> 63 else v


class Trace:
    """The order in which a reader takes the packets: those with the same time stay in the order of the file."""

    def __init__(self, data):
        whole, torn = packets(data)
        assert not torn, f"{torn} bytes behind the last packet"
        self.n = len(whole)
        self.tracks, self.names, self.events = {}, {}, []
        self.switches, self.wakings = [], []
        self.calls, self.default_track = set(), {}  # tracks of system calls; by sequence
        self.flows = collections.defaultdict(dict)
        self.stages, self.launched, self.submitted = [], {}, {}  # of GPUs; the two by the number of the event
        self.threads, self.clocks, self.machine = {}, [], None
        self.default_clock, self.incremental = {}, {}  # by sequence; by sequence and clock
        for n, packet in enumerate(whole):
            p = fields(packet)
            assert n or 6 in p, "the first packet is no ClockSnapshot"
            self.packet(p)

    def packet(self, p):
        sequence = p[10][0] if p[10] else 0
        if p[13] and p[13][0] & 1:
            self.names[sequence] = {}
        names = self.names.get(sequence)
        for data in p[12]:
            for kind, entries in fields(data).items():
                if kind in STACKS:
                    continue
                for entry in entries:
                    e = fields(entry)
                    assert (kind, e[1][0]) not in names, "a number is given twice"
                    names[kind, e[1][0]] = e if kind in (GPU_CONTEXTS, GPU_KERNELS) else e[2][0].decode()
        for data in p[60]:
            track = fields(data)
            self.tracks[track[1][0]] = self.track(track)
            if track[4] and track[2][0] == b"system calls":
                self.calls.add(track[1][0])
        for data in p[59]:
            defaults = fields(data)
            self.default_clock[sequence] = defaults[58][0]
            for event in defaults[11]:
                self.default_track[sequence] = fields(event)[11][0]
        for data in p[11]:
            e = fields(data)
            self.event(self.time(sequence, p), e, e[11][0] if e[11] else self.default_track[sequence], names)
        for data in p[53]:
            self.stage(self.time(sequence, p), fields(data), names)
        for data in p[1]:
            self.bundle(fields(data))
        for data in p[2]:
            for thread in fields(data)[2]:
                t = fields(thread)
                self.threads[t[1][0]] = t[2][0].decode()
        for data in p[6]:
            self.snapshot(sequence, [fields(c) for c in fields(data)[1]])
        for data in p[45]:
            self.machine = fields(fields(data)[1][0])[4][0].decode()

    def snapshot(self, sequence, clocks):
        now = {c[1][0]: c[2][0] for c in clocks}
        deltas = [c[1][0] for c in clocks if c[3]]
        for clock in deltas:
            assert 64 <= clock < 128, "only a clock of one sequence counts deltas"
            assert now[clock] == now[BOOTTIME]
            self.incremental[sequence, clock] = now[clock]
        if not deltas:
            self.clocks.append(now)

    def time(self, sequence, p):
        clock = p[58][0] if p[58] else self.default_clock.get(sequence, BOOTTIME)
        if clock == BOOTTIME:
            return p[8][0]
        self.incremental[sequence, clock] += p[8][0]
        return self.incremental[sequence, clock]

    def track(self, t):
        """(pid, tid) of a thread's, else (pid, name)."""
        if t[4]:
            thread = fields(t[4][0])
            return thread[1][0], thread[2][0]
        if t[3]:
            return fields(t[3][0])[1][0], "process"
        return self.tracks[t[5][0]][0] if t[5] else None, t[2][0].decode()

    def event(self, ns, e, track, names):
        kind = e[9][0]
        assert track in self.tracks, "a track is not described before its event"
        name = category = None
        args = {}
        if kind in (START, INSTANT):
            name = e[23][0].decode() if e[23] else names[2, e[10][0]]
            category = names[1, e[3][0]] if e[3] else e[22][0].decode() if e[22] else "syscall"
            for data in e[4]:
                a = fields(data)
                key = a[10][0].decode() if a[10] else names[3, a[1][0]]
                args[key] = names[29, a[17][0]] if a[17] else value(a)
        elif kind == COUNTER:
            args = e[30][0] if e[30] else struct.unpack("<d", e[44][0].to_bytes(8, "little"))[0]
        for field in (FLOW, FLOW_END):
            for flow in e[field]:
                assert field not in self.flows[flow], "a flow begins or ends twice"
                self.flows[flow][field] = (*self.tracks[track], ns)
        for data in e[GPU_SUBMISSION]:
            for number in fields(data)[1]:
                assert number not in self.submitted, "launched twice"
                self.submitted[number] = (*self.tracks[track], ns)
        if not (e[FLOW] or e[FLOW_END] or e[GPU_SUBMISSION]):
            self.events.append((ns, len(self.events), track, kind, name, category, args))

    def stage(self, ns, e, names):
        """What a GPU did: a slice of a queue."""
        assert (GPU_CONTEXTS, e[5][0]) in names, "a context is not described"
        where = GPU_PROCESS + e[11][0], names[GPU_SPECS, e[13][0]]
        name = names[2, e[20][0]] if e[20] else e[17][0].decode()
        self.stages.append((where, name, names[GPU_SPECS, e[14][0]], ns, ns + e[2][0], {}))
        self.launched[e[1][0]] = (*where, ns)

    def arrows(self):
        """(begin, end), each (pid, track, ns)."""
        return [(f[FLOW], f[FLOW_END]) for f in self.flows.values()] + \
            [(begin, self.launched[number]) for number, begin in self.submitted.items()]

    def bundle(self, b):
        cpu = b[1][0]
        for data in b[2]:
            e = fields(data)
            if e[4]:
                s = fields(e[4][0])
                self.switches.append((e[1][0], cpu, s[6][0], s[5][0].decode(), s[2][0], s[4][0]))
            for waking in e[20]:
                self.wakings.append((e[1][0], e[2][0], fields(waking)[2][0]))
        for data in b[4]:
            c = fields(data)
            comms = [t.decode() for t in c[5]]
            columns = [numbers(c[k][0]) for k in (1, 3, 6, 2, 4)]
            assert len({len(column) for column in columns}) == 1, "columns of unequal length"
            ns = 0
            for delta, tid, comm, state, _ in zip(*columns):
                ns += delta
                self.switches.append((ns, cpu, tid, comms[comm], None, state))

    def on_cpu(self):
        """(cpu, tid, start, end) as a reader derives them from the switches."""
        out, now = [], {}
        for ns, cpu, tid, _, prev, _ in sorted(self.switches, key=lambda s: s[0]):
            before = now.get(cpu)
            assert prev is None or before is None or prev == before[0], "who leaves did not run"
            if before and before[0]:
                out.append((cpu, before[0], before[1], ns))
            now[cpu] = (tid, ns)
        assert not any(tid for tid, _ in now.values()), "a thread runs after the end"
        return out

    def slices(self):
        """(track, name, category, start, end, args); raises unless those of a track nest."""
        out, stacks = [], collections.defaultdict(list)
        for ns, _, track, kind, name, category, args in sorted(self.events, key=lambda e: e[:2]):
            if kind == START:
                stacks[track].append((name, category, ns, args))
            elif kind == END:
                name, category, start, args = stacks[track].pop()
                assert track not in self.calls or not stacks[track], "a system call within another one"
                out.append((self.tracks[track], name, category, start, ns, args))
        assert not any(stacks.values()), "slices without an end"
        return out + self.stages


def read(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        return f.read()


def ns_of(us):
    return round(us * 1000)


class Differences:
    def __init__(self):
        self.failed = []

    def same(self, what, got, wanted):
        got, wanted = collections.Counter(got), collections.Counter(wanted)
        print(f"{what}: {sum(got.values())}")
        if got != wanted:
            self.failed.append(what)
            print(f"  only here: {list((got - wanted).items())[:5]}")
            print(f"  only in the JSON: {list((wanted - got).items())[:5]}")

    def end(self):
        if self.failed:
            sys.exit(f"not the same: {', '.join(self.failed)}")


def pseudo_names(chrome):
    """Of the tracks that are no thread's, by pid and tid."""
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in chrome
            if e["ph"] == "M" and e["name"] == "thread_name" and e["tid"] > 4194304}


def track(e, names):
    return names.get((e["pid"], e["tid"]), e["tid"])


def json_slice(e, names):
    """As compare_slices() has them. The beginning of what began before the recording is not known."""
    start = ns_of(e["ts"])
    where = "inftrace" if e["cat"] == "loss" else track(e, names)
    pid = None if e["cat"] == "loss" else e["pid"]
    args = e.get("args", {})
    unknown = "began_before" in args and e["cat"] != "batch"
    return (pid, where, e["name"], e["cat"], None if unknown else start, start + ns_of(e["dur"]))


def compare_slices(d, trace, by_phase, names, origin):
    slices = []
    for where, name, category, start, end, args in trace.slices():
        if category == "stack" or category == "syscall" and not name.startswith("compat_"):
            continue
        if where[1] == "steps" and category == "step":
            category = "steps"
        # a request whose beginning was not seen begins with the first step that was
        unknown = "began_before" in args and category != "batch"
        if unknown:
            assert origin - 64 < start <= origin, f"{name} on {where} begins {start - origin} ns after the recording"
        start = None if unknown else start - origin
        slices.append((*where, name, category, start, end - origin))
    d.same("slices, by track, name, begin and end", slices,
           [json_slice(e, names) for e in by_phase["X"] if e["cat"] not in ("syscall", "cpu") or e["name"].startswith("compat_")])
    inputs = ("Input Dims", "Input type")
    d.same("tensors of operators", [(where[1], start - origin, *(args[k].decode() for k in inputs))
                                    for where, _, _, start, _, args in trace.slices() if inputs[0] in args],
           [(e["tid"], ns_of(e["ts"]), *(json.dumps(e["args"][k], separators=(",", ":")) for k in inputs))
            for e in by_phase["X"] if inputs[0] in e.get("args", {})])


def result(ret):
    """As the JSON has it: integers that are too large for a double are addresses."""
    return f"0x{ret:x}" if isinstance(ret, int) and ret > 0xFFFFFFFF else ret


def compare_kernel(d, trace, by_phase, names, origin):
    cpu = [e for e in by_phase["X"] if e["cat"] == "cpu"]
    calls = [e for e in by_phase["X"] if e["cat"] in ("syscall", "ipc") and not e["name"].startswith("compat_")]
    if cpu:
        d.same("times on CPUs", [(c, tid, a - origin, b - origin) for c, tid, a, b in trace.on_cpu()],
               [(e["tid"], e["args"]["tid"], ns_of(e["ts"]), ns_of(e["ts"]) + ns_of(e["dur"])) for e in cpu])
    d.same("system calls, by thread, begin, end, result and descriptor",
           [(tid, name, start - origin, end - origin, result(args.get("ret")), args.get("fd"))
            for (_, tid), name, category, start, end, args in trace.slices()
            if category == "syscall" and not name.startswith("compat_")],
           [(e["tid"], e["args"].get("syscall", e["name"]), ns_of(e["ts"]), ns_of(e["ts"]) + ns_of(e["dur"]),
             e["args"].get("ret"), e["args"].get("fd")) for e in calls])
    d.same("wake-ups, by time", [(ns - origin, tid) for ns, _, tid in trace.wakings],
           [(ns_of(e["ts"]) + ns_of(e["dur"]) - ns_of(e["args"]["run_queue_us"]), e["tid"])
            for e in by_phase["X"] if e["cat"] == "sched" and "run_queue_us" in e["args"]])
    d.same("stacks of waits, by thread, function, begin and length",
           [(tid, name, start - origin, end - start)
            for (_, tid), name, category, start, end, _ in trace.slices() if category == "stack"],
           [(e["tid"], e["name"], ns_of(e["ts"]), ns_of(e["args"]["wait_us"])) for e in by_phase["i"] if e["cat"] == "stack"])
    ends = {e["id"]: e for e in by_phase["f"]}
    d.same("arrows", [(begin[1], begin[2] - origin, end[1], end[2] - origin) for begin, end in trace.arrows()],
           [(track(e, names), ns_of(e["ts"]), track(ends[e["id"]], names), ns_of(ends[e["id"]]["ts"])) for e in by_phase["s"]])


def compare(path, json_path):
    trace = Trace(read(path))
    same_as_json(trace, json_path)
    print(f"{trace.n} packets")


def same_as_json(trace, json_path):
    """trace: what a reader made of the other format, in what Trace has."""
    chrome = own_threads(json.loads(read(json_path)))
    by_phase = collections.defaultdict(list)
    for e in chrome:
        by_phase[e["ph"]].append(e)
    origin = trace.clocks[0][6]
    d = Differences()
    names = pseudo_names(by_phase["M"])
    compare_slices(d, trace, by_phase, names, origin)
    compare_kernel(d, trace, by_phase, names, origin)
    pseudo = 4194304
    d.same("instants, by thread and time",
           [(e[4], trace.tracks[e[2]][1], e[0] - origin) for e in trace.events
            if e[3] == INSTANT and e[5] != "stack" and e[4] != "inftrace_clock"],
           [(e["name"], e["tid"] if e["tid"] < pseudo else "inftrace", ns_of(e["ts"])) for e in by_phase["i"]
            if e["name"] != "inftrace_clock" and e["cat"] != "stack"])
    d.same("counters, with their values",
           [(*trace.tracks[e[2]], e[0] - origin, e[6]) for e in trace.events if e[3] == COUNTER],
           [(e["pid"], e["name"], ns_of(e["ts"]), *e["args"].values()) for e in by_phase["C"]])
    threads = {e["tid"]: e["args"]["name"] for e in by_phase["M"]
               if e["name"] == "thread_name" and e["pid"] <= pseudo and e["tid"] <= pseudo}
    d.same("names of threads", {(tid, trace.threads.get(tid)) for tid in threads}, set(threads.items()))
    d.same("machine", [bool(trace.machine)], [True])
    d.same("clocks, at the end too", [len(trace.clocks) > 1], [True])
    d.end()


def cuts(path, n, seed):
    data = read(path)
    whole, torn = packets(data)
    assert not torn
    rng = random.Random(int(seed))
    for _ in range(int(n)):
        at = rng.randrange(1, len(data))
        part, _ = packets(data[:at])
        assert part == whole[: len(part)] and len(part) < len(whole)
        for packet in part[-3:]:
            fields(packet)
    print(f"{n} cuts, {len(whole)} packets")


def loads(*paths):
    for path in paths:
        data = read(path)
        _, torn = packets(data)
        print(f"{path}: {Trace(data[: len(data) - torn]).n} packets, {torn} bytes of another")


def lost(path, n):
    data = read(path)
    trace, whole = Trace(data), packets(data)[0]
    told = [args for _, name, _, _, _, args in trace.slices() if name == "lost records"]
    dropped = sum(bool(fields(p)[42]) for p in whole)
    bundles = sum(bool(fields(b)[3]) for p in whole for b in fields(p)[1])
    print(f"{len(told)} slices, {dropped} packets, {bundles} bundles tell of loss")
    assert len(told) == dropped > 0 and bundles > 0
    assert sum(sum(args.values()) for args in told) == int(n)


def protoc(path, text):
    whole, _ = packets(read(path))
    with open(text, encoding="utf-8") as f:
        found = sum(line == "1 {\n" for line in f)
    assert found == len(whole), f"{found} packets, not {len(whole)}"
    print(f"{found} packets")


if __name__ == "__main__":
    {f.__name__: f for f in (compare, cuts, loads, lost, protoc)}[sys.argv[1]](*sys.argv[2:])
