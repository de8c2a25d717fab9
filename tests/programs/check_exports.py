#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the files of the windows of a recording of many processes with what these did.

  check_exports.py FOLDER LOG WANTED [--whole] [--faults]

LOG is what inftrace printed. WANTED has a line for each thread and window: number of the window, pid,
name of the thread, calls of getppid(), and of those of a main thread the pages that the process
touched. A process without calls has a line with 0. --whole: all threads lived as long as the window.
"""
import argparse
import glob
import os
import re
import sys

from reading import read_lines, read_trace


def fail(text):
    print(f"# {text}")
    fail.n += 1


fail.n = 0


class Export:
    def __init__(self, trace):
        self.name = os.path.basename(trace)
        self.pid = int(re.search(r"trace_pid(\d+)_", self.name)[1])
        self.ms = int(re.search(r"_(\d+)\.json$", self.name)[1])
        self.events = read_trace(trace)
        self.lines = read_lines(trace.replace("trace_", "profile_").replace(".json", ".jsonl"))
        self.window = self.line("window_prof")
        self.number = self.window["shape"]["window"]
        if any(line["shape"].get("window") != self.number for line in self.lines):
            fail(f"{self.name}: not every line of the profile has its window")
        if any(line["shape"].get("pid", self.pid) != self.pid for line in self.lines):
            fail(f"{self.name}: lines of other processes in the profile")
        clock = [e for e in self.events if e["name"] == "inftrace_clock"]
        self.open = clock[0]["args"]["boottime_ns"]
        marks = {e["name"]: e for e in self.events if e["name"] in ("window_open", "window_close")}
        if set(marks) != {"window_open", "window_close"}:
            fail(f"{self.name}: marks {sorted(marks)}")
            self.marks = None
            return
        self.marks = [(marks[m]["ts"], marks[m]["args"]) for m in ("window_open", "window_close")]
        if marks["window_open"]["ts"] != 0:
            fail(f"{self.name}: opens at {marks['window_open']['ts']}")
        if abs(marks["window_close"]["ts"] - self.window["stage_us"]["total"]) > 0.001:
            fail(f"{self.name}: {self.window['stage_us']['total']} us, closed at {marks['window_close']['ts']}")
        for e in self.events:
            # a program may be preempted between reading the window and reading the clock
            if e["ph"] in "Xi" and e["name"] != "inftrace_clock" and not (
                    0 <= e["ts"] <= marks["window_close"]["ts"] + 100000):
                fail(f"{self.name}: {e['name']} at {e['ts']}")

    def line(self, event):
        lines = [line for line in self.lines if line["event"] == event]
        if len(lines) != 1:
            fail(f"{self.name}: {len(lines)} lines {event}")
            return {"shape": {}, "stage_us": {"total": 0}}
        return lines[0]

    def calls(self):
        names, calls = {}, {}
        for e in self.events:
            if e["name"] == "thread_name" and e["pid"] == self.pid:
                names[e["tid"]] = e["args"]["name"]
        for e in self.events:
            if e["name"] == "getppid":
                if e["pid"] != self.pid:
                    fail(f"{self.name}: a call of process {e['pid']}")
                name = names.get(e["tid"])
                calls[name] = calls.get(name, 0) + 1
        return calls

    def check(self, wanted, args):
        calls = {name: n for name, n in self.calls().items() if n}
        want = {name: n for name, n, _ in wanted if n}
        if calls != want:
            fail(f"{self.name}: calls {calls}, not {want}")
        told = self.line("syscall_prof")["shape"].get("n_getppid", 0)
        if told != sum(want.values()):
            fail(f"{self.name}: syscall_prof has {told} calls, not {sum(want.values())}")
        if self.window["shape"]["lost"]:
            fail(f"{self.name}: lost {self.window['shape']['lost']}")
        self.check_sched(wanted if args.whole else None)
        if args.faults:
            self.check_faults(sum(pages for _, _, pages in wanted))

    def check_sched(self, threads):
        """Each thread's states fill the window, and are those of its spans."""
        sched = self.line("sched_prof")
        total = self.window["stage_us"]["total"]
        if threads is not None:
            n = sched["shape"]["threads"]
            if n != len(threads) or abs(sched["stage_us"]["total"] - n * total) > 0.01:
                fail(f"{self.name}: {n} threads, {sched['stage_us']['total']} us in all, "
                     f"not {len(threads)} of {total} us")
        off = sum(e["dur"] for e in self.events if e["ph"] == "X" and e["pid"] == self.pid and
                  e.get("cat") == "sched")
        told = sum(us for state, us in sched["stage_us"].items()
                   if state.startswith("blocked") or state in ("runnable", "stopped"))
        if abs(off - told) > 0.01 * len(self.events):
            fail(f"{self.name}: off the CPU for {off} us, sched_prof has {told}")

    def check_faults(self, pages):
        told = self.line("fault_prof")["shape"]["n_minor"]
        memory = self.line("memory_prof")["shape"]
        # Python's own
        for what, n in (("faults", told), ("pages_allocated", memory["pages_allocated"])):
            if not pages <= n < pages + 400:
                fail(f"{self.name}: {n} {what}, not {pages} and a few")
        slices = sum(e["name"] == "page_fault_minor" and e["ph"] == "X" for e in self.events)
        if slices != told:
            fail(f"{self.name}: {slices} faults in the trace, {told} in the profile")
        last = [e["args"] for e in self.events if e["ph"] == "C" and e["name"] == "pages_allocated"]
        if not last or max(max(a.values()) for a in last) != memory["pages_allocated"]:
            fail(f"{self.name}: the counter of pages does not end with the {memory['pages_allocated']} of the profile")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("log")
    parser.add_argument("wanted")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--faults", action="store_true")
    args = parser.parse_args()
    wanted = {}
    with open(args.wanted, encoding="utf-8") as f:
        for line in f:
            number, pid, name, n, *pages = line.split()
            wanted.setdefault(int(number), {}).setdefault(int(pid), []).append(
                (name, int(n), int(pages[0]) if pages else 0))
    told = {}
    with open(args.log, encoding="utf-8") as f:
        for m in re.finditer(r"window (\d+) \(.*, (\d+) records, (\d+) files", f.read()):
            told[int(m[1])] = (int(m[2]), int(m[3]))
    windows = {}
    for trace in sorted(glob.glob(os.path.join(args.folder, "trace_pid*.json"))):
        e = Export(trace)
        windows.setdefault(e.number, []).append(e)
    others = [n for n in os.listdir(args.folder) if not re.fullmatch(r"(trace|profile)_pid\d+_\d+\.jsonl?", n)]
    if others:
        fail(f"other files: {others}")
    if set(windows) != set(wanted) or set(told) != set(wanted):
        fail(f"windows {sorted(windows)}, told {sorted(told)}, not {sorted(wanted)}")
    for number, exports in sorted(windows.items()):
        want = wanted.get(number, {})
        if sorted(e.pid for e in exports) != sorted(want):
            fail(f"window {number}: of processes {sorted(e.pid for e in exports)}, not {sorted(want)}")
        if len({(e.open, str(e.marks)) for e in exports}) != 1:
            fail(f"window {number}: its files have other edges: {[(e.pid, e.open, e.marks) for e in exports]}")
        records = sum(e.window["shape"]["records"] for e in exports)
        if (records, 2 * len(exports)) != told.get(number):
            fail(f"window {number}: {records} records in {2 * len(exports)} files, inftrace says {told.get(number)}")
        for e in exports:
            e.check(want.get(e.pid, []), args)
    print(f"# {len(windows)} windows, {sum(map(len, windows.values()))} pairs of files")
    sys.exit(fail.n > 0)


if __name__ == "__main__":
    main()
