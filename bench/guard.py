# SPDX-License-Identifier: BSD-2-Clause
"""What does not depend on the load of a machine is counted and compared with the figures in guard.json: a run fails
when one of them is 5 % above. They are kept for each environment that they depend on (kernel, compilers); where there are
none, a line says so. A result is a line "ok NAME", "not ok NAME - WHY" or "skip NAME - WHY", as in the tests.

    sudo bench/run --guard --renew      writes the figures of this environment

after a change that is meant to cost more, or less: then commit guard.json with it.
"""

import ctypes
import functools
import glob
import json
import os
import platform
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

from llama import engines
from tracers import BENCH, INFTRACE, NICE, TOP, Failed, have, read_text, wait_until

FIGURES = os.path.join(TOP, "bench", "guard.json")
MORE = 1.05
SLACK = 8  # of what is a few instructions only
TOKENS = 4
RENEW = "sudo bench/run --guard --renew"

class Missing(Exception):
    """These figures cannot be counted here; the text says why."""


def compiler(command):
    """Its name and the first number of its version."""
    text = subprocess.run([command, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"\b(\d+)\.\d+\.\d+", text)
    if not found:
        raise Failed(f"{command} --version: no version in what it printed")
    return f"{'clang' if 'clang' in text else 'gcc'} {found[1]}"


# ---- the sinks ----


def sink_lines(out):
    """(records, bytes per record, name) of `sinks count`."""
    for line in out.splitlines():
        records, size, name = line.split(" ", 2)
        yield int(records), float(size), name


def bytes_per_record():
    out = subprocess.run([os.path.join(BENCH, "sinks"), "count"], capture_output=True, text=True, check=True).stdout
    return {name: size for _, size, name in sink_lines(out)}


def own_instructions(path, program):
    """(name of the part, instructions in code of the program itself): the memcpy() that libc chooses on this CPU
    is not counted."""
    name, total, own, skip = None, 0, False, False
    for line in read_text(path).splitlines():
        if line.startswith("desc: Trigger: Client Request: "):
            name = line.rsplit(": ", 1)[1]
        elif line.startswith("ob="):
            own = line[3:] == program
        elif line.startswith("calls="):
            skip = True  # the next line is the cost of what was called
        elif line[:1].isdigit() or line.startswith("0x"):
            total += 0 if skip or not own else int(line.split()[-1])
            skip = False
    return name, total


def instructions_per_record():
    if not have("valgrind"):
        raise Missing("valgrind is not installed; scripts/setup test installs it")
    program = os.path.realpath(os.path.join(BENCH, "sinks"))
    with tempfile.TemporaryDirectory(prefix="inftrace-guard-") as tmp:
        out = subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=feed", "--separate-threads=yes",
                              "--compress-strings=no", "--compress-pos=no", f"--callgrind-out-file={tmp}/out", program, "count"],
                             capture_output=True, text=True)
        if out.returncode:
            raise Failed(f"valgrind: exit code {out.returncode}: {out.stderr.strip()}")
        # of the first thread: the one that writes may run while the other is in feed()
        parts = dict(own_instructions(path, program) for path in glob.glob(f"{tmp}/out.*-01"))
    return {name: round(parts[name] / records, 1) for records, _, name in sink_lines(out.stdout)}


# ---- what is loaded into the kernel ----


def verified():
    out = subprocess.run([os.path.join(BENCH, "verifier_cost"), "1000000"], capture_output=True, text=True)
    if out.returncode:
        raise Failed(f"verifier_cost: {out.stdout.strip()[-200:]}")
    return {m[1]: int(m[2]) for m in re.finditer(r"^(\w+) +(\d+)$", out.stdout, re.M)}


libc = ctypes.CDLL(None, use_errno=True)
SYS_BPF = {"x86_64": 321, "aarch64": 280}
BPF_PROG_GET_FD_BY_ID, BPF_OBJ_GET_INFO_BY_FD, BPF_ENABLE_STATS = 13, 15, 32
BPF_PROG_TYPE_KPROBE = 2  # and of uprobes
INFO_SIZE = 256
PRICE = "inftrace_empty"  # with it a recording finds out what a probe costs, at any time after it began


def bpf(command, attr):
    buf = ctypes.create_string_buffer(attr, max(len(attr), 128))
    result = libc.syscall(SYS_BPF[platform.machine()], command, buf, len(buf))
    if result < 0:
        raise Failed(f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return result


def program_info(fd):
    """(type, name, translated instructions, times it ran), of struct bpf_prog_info"""
    info = ctypes.create_string_buffer(INFO_SIZE)
    bpf(BPF_OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", fd, INFO_SIZE, ctypes.addressof(info)))
    kind, = struct.unpack_from("=I", info, 0)
    translated, = struct.unpack_from("=I", info, 20)
    runs, = struct.unpack_from("=Q", info, 200)
    return kind, info.raw[64:80].split(b"\0")[0].decode(), translated // 8, runs


def programs_of(pid):
    """Descriptors of the programs that a process has, or has attached."""
    ids = set()
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        ids |= {int(m) for m in re.findall(r"^prog_id:\s*(\d+)", read_text(path), re.M)}
    fds = []
    for number in sorted(ids):
        fds.append(bpf(BPF_PROG_GET_FD_BY_ID, struct.pack("=I", number)))
    return fds


def set_first(pid):
    """Before others, also where the kernel groups processes by session."""
    os.setpriority(os.PRIO_PROCESS, pid, NICE)
    if os.path.exists(f"/proc/{pid}/autogroup"):
        with open(f"/proc/{pid}/autogroup", "w") as f:
            f.write(str(NICE))


def recorded(tmp, mini, threads, *options):
    """The programs of a recording of TOKENS tokens, as program_info() has them."""
    log = os.path.join(tmp, "log")
    # its threads spin for one another: beside others, each barrier could take a time slice
    engine = subprocess.Popen([mini, "-w", "-q", "-n", str(TOKENS), "-b", "8", "-t", str(threads)],
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    set_first(engine.pid)
    fds = []
    try:
        with open(log, "w") as err:
            tracer = subprocess.Popen([INFTRACE, "record", "-v", "-p", str(engine.pid), *options], stderr=err, cwd=tmp)
        wait_until(lambda: tracer.poll() is not None or "Ctrl-C ends it" in read_text(log), "inftrace", 120)
        if tracer.poll() is not None:
            raise Failed(f"inftrace: {read_text(log).strip()[-200:]}")
        fds = programs_of(tracer.pid)
        engine.communicate(b"\n", timeout=60)
        programs = [program_info(fd) for fd in fds]
        tracer.send_signal(signal.SIGINT)
        if tracer.wait(60):
            raise Failed(f"inftrace: {read_text(log).strip()[-200:]}")
        return programs
    finally:
        for fd in fds:
            os.close(fd)
        for p in (engine, tracer):
            if p.poll() is None:
                p.kill()
                p.wait()


def recordings():
    """Hits of probes per token, and the size of the programs as they run: code that a run does not use is not in them."""
    hits, sizes = {}, {}
    stats = bpf(BPF_ENABLE_STATS, struct.pack("=I", 0))
    try:
        with tempfile.TemporaryDirectory(prefix="inftrace-guard-") as tmp:
            # files of its own: nobody else's tests run them
            shutil.copytree(os.path.dirname(engines("mini_engine")), os.path.join(tmp, "mini"))
            mini = os.path.join(tmp, "mini", "mini_engine")
            for name, threads, *options in (("profile only, 1 thread", 1, "--profile", "p.jsonl"),
                                            ("profile only, 2 threads", 2, "--profile", "p.jsonl"),
                                            ("timeline, 2 threads", 2, "-o", "t.json")):
                programs = [p for p in recorded(tmp, mini, threads, *options) if p[1] != PRICE]
                hits[name] = round(sum(runs for kind, _, _, runs in programs if kind == BPF_PROG_TYPE_KPROBE) / TOKENS, 2)
                if threads == 1:
                    continue
                for _, program, translated, _ in programs:  # names are cut: two may be the same
                    key = f"{program}, {name.split(',')[0]}"
                    sizes[key] = sizes.get(key, 0) + translated
    finally:
        os.close(stats)
    return hits, sizes


# ---- the comparison ----


class Group:
    """Figures of one kind, how many they may be above what is kept, and what they depend on."""

    def __init__(self, what, environment, count, slack=0):
        self.what, self.environment, self.count, self.slack = what, environment, count, slack

    def compare(self, kept):
        """Prints the result; True when no figure is above."""
        try:
            now = self.count()
        except Missing as e:
            print(f"skip guard: {self.what} - {e}")
            return True
        good, common = True, [name for name in now if kept.get(name)]
        for name in common:
            if now[name] > kept[name] * MORE and now[name] > kept[name] + self.slack:
                print(f"not ok guard: {self.what}: {name} - {now[name]:g}, was {kept[name]:g} "
                      f"({100 * (now[name] / kept[name] - 1):+.1f} %); where that is meant: {RENEW}")
                good = False
        for name in sorted(set(now) ^ set(kept)):
            print(f"# {self.what}: {name} is {'new' if name in now else 'gone'}; renew with: {RENEW}")
        if good:
            change = sum(now[n] for n in common) / sum(kept[n] for n in common) - 1 if common else 0
            print(f"ok guard: {self.what} - {len(common)} figures, in all {100 * change:+.1f} %")
        return good


def groups():
    runs = functools.cache(recordings)
    arch, kernel = platform.machine(), "Linux " + ".".join(os.uname().release.split(".")[:2])
    cc, clang = compiler(os.environ.get("CC", "cc")), compiler(os.environ.get("CLANG", "clang"))
    return [Group("bytes per record", "any", bytes_per_record),
            Group("instructions per record", f"{cc}, {arch}", instructions_per_record),
            Group("instructions verified", f"{kernel}, {clang}, {arch}", verified, SLACK),
            Group("instructions of what runs", f"{kernel}, {clang}, {arch}", lambda: runs()[1], SLACK),
            Group("hits per token", f"{kernel}, {clang}, {cc}, {arch}", lambda: runs()[0])]


def load(path):
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return json.load(f)


def guard(parts, renew, path):
    """The groups whose names contain one of the parts; all of them when there are no parts."""
    chosen = [g for g in groups() if not parts or any(part in g.what for part in parts)]
    if not chosen:
        raise Failed(f"--guard: {' '.join(parts)}: there are {', '.join(g.what for g in groups())}")
    subprocess.run(["make", "-s", "-C", os.path.join(TOP, "bench"), f"O={BENCH}", "guard"], check=True)
    figures, good = load(path), True
    for g in chosen:
        kept = figures.setdefault(g.what, {})
        if renew:
            kept[g.environment] = g.count()
        elif g.environment not in kept:
            print(f"skip guard: {g.what} - no figures for {g.environment}; renew with: {RENEW}")
        else:
            good = g.compare(kept[g.environment]) and good
        sys.stdout.flush()
    if renew:
        with open(path, "w") as f:
            json.dump(figures, f, indent=1, sort_keys=True)
            f.write("\n")
        print(f"{path}: {', '.join(f'{g.what} ({g.environment})' for g in chosen)}")
    return 0 if good else 1
