# SPDX-License-Identifier: BSD-2-Clause
"""The programs that are measured: the load, and the tracers that are attached to it."""

import copy
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

os.environ["PATH"] += ":/usr/sbin:/sbin"  # bpftool
TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("BUILD", os.path.join(TOP, "build"))
INFTRACE = os.path.join(BUILD, "inftrace")
BENCH = os.path.join(BUILD, "bench")
LOAD = os.path.join(BENCH, "load")
TMPFS = "/dev/shm"

# The last CPU runs the load, the others whatever traces it; one CPU has to do for both.
CPUS = sorted(os.sched_getaffinity(0))
LOAD_CPU = CPUS[-1]
TRACER_CPUS = CPUS[:-1] or CPUS

DRAIN_S = 0.15  # inftrace reads its rings every 10 ms and writes every 100 ms
STOP_S = 30     # a tracer that has not ended by then is killed
WARM_BYTES = 512 << 20
NICE = -20      # neighbours get little of the CPUs while something is measured
QUIET = 0.2     # of a CPU: what the neighbours may take during a measurement


class Failed(Exception):
    """A measurement could not be made; the text says why."""


def have(command):
    return shutil.which(command) is not None


def wait_until(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"{what}: not ready after {seconds} s")
        time.sleep(0.002)


def read_text(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def process_cpu_ns(pid):
    """Nanoseconds on a CPU of all threads of a process, also of those that have ended: the clock of
    clock_getcpuclockid(3)."""
    return time.clock_gettime_ns(~pid << 3 | 2)


def count_lines(path, pattern):
    """Lines that contain the text; 0 when there is no file."""
    out = subprocess.run(["zgrep" if path.endswith(".gz") else "grep", "-acF", pattern, path],
                         capture_output=True, text=True)
    return int(out.stdout or 0)


def size_of(path):
    return os.stat(path).st_size if os.path.exists(path) else 0


class Neighbours:
    """How busy everything else on the machine is: all CPUs, less the given processes and us."""

    def __init__(self, *pids):
        self.pids = [os.getpid(), *pids]
        self.begin, self.busy = time.monotonic_ns(), self.others()

    def others(self):
        fields = [int(x) for x in read_text("/proc/stat").split("\n", 1)[0].split()[1:9]]
        busy = sum(fields) - fields[3] - fields[4]  # less idle and iowait
        return busy * (1000000000 // os.sysconf("SC_CLK_TCK")) - sum(map(process_cpu_ns, self.pids))

    def share(self):
        """Of one CPU, since this was made."""
        return max(self.others() - self.busy, 0) / (time.monotonic_ns() - self.begin)


def tracers_attached():
    """Whether anyone else has tracing programs in the kernel: they slow everything down."""
    out = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True)
    kinds = ("tracing", "tracepoint", "raw_tracepoint", "kprobe", "perf_event")
    return out.returncode == 0 and any(f'"type":"{k}"' in out.stdout for k in kinds)


def wait_for_quiet(seconds, *pids):
    """Waits until the neighbours are quiet, but no longer than that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        n = Neighbours(*pids)
        time.sleep(0.3)
        if n.share() < QUIET and not tracers_attached():
            return


def warm(folder):
    """In a virtual machine a page of memory costs microseconds when it is used for the first time
    (the host has to find one), and a file that grows takes new pages. This makes the host find
    them; a tracer that writes then reuses them."""
    path = os.path.join(folder, "warm")
    with open(path, "wb", buffering=0) as f:
        block = b"x" * (1 << 20)
        for _ in range(WARM_BYTES >> 20):
            f.write(block)
    os.unlink(path)


def prepare(cpus):
    """For what is measured and what measures it, between fork and exec."""
    os.sched_setaffinity(0, cpus)
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it


class Load:
    """bench/load, which does something COUNT times on request."""

    def __init__(self):
        self.proc = subprocess.Popen([LOAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                     bufsize=1, preexec_fn=lambda: prepare([LOAD_CPU]))
        self.pid = int(self.proc.stdout.readline().split()[1])

    def run(self, what, count):
        """Returns wall and CPU nanoseconds per operation."""
        try:
            self.proc.stdin.write(f"{what} {count}\n")
            self.proc.stdin.flush()
            wall, cpu = self.proc.stdout.readline().split()
        except (OSError, ValueError):
            sys.exit(f"bench/run: the load ended with {self.proc.wait()}")
        return int(wall) / count, int(cpu) / count

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.kill()
        self.proc.wait()


class Tracer:
    """
    A tracer in one way of using it. command(t) gives the arguments; t.pid is the traced process,
    t.dir a folder for its files. weight: how many times fewer operations it gets, since they take
    much longer. disk: the folder is on a disk and not on a tmpfs. pattern: every record it keeps
    is a line with this in its output (out).
    """

    def __init__(self, name, command, weight=1, disk=False, out=None, pattern=None, needs=None,
                 bystander=False, settle_s=0, program=None):
        self.program = program  # of inftrace's: the build
        self.settle_s = settle_s  # from then on it is as it will be
        self.name, self.command, self.weight, self.disk = name, command, weight, disk
        self.out, self.pattern, self.needs, self.bystander = out, pattern, needs, bystander
        self.cpus = TRACER_CPUS
        self.proc = self.dir = self.pid = None

    def path(self, name):
        return os.path.join(self.dir, name)

    def log(self):
        return read_text(self.path("log"))

    def is_ready(self):
        if self.proc.poll() is not None:
            raise Failed(f"{self.name}: ended: {self.log()[-300:]}")
        if os.path.basename(self.proc.args[0]) in ("perf", "bpftrace"):
            return self.events_open()
        return re.search(r"recording|attached|waiting|recorder on", self.log()) is not None

    def events_open(self):
        """For those that do not say when they are ready: they have opened their events."""
        try:
            fds = [os.readlink(e.path) for e in os.scandir(f"/proc/{self.proc.pid}/fd")]
        except OSError:
            return False
        return any("perf_event" in fd for fd in fds)

    def start(self, pid):
        self.pid = pid
        self.dir = tempfile.mkdtemp(prefix="inftrace-bench-", dir=BENCH if self.disk else TMPFS)
        args = [str(a) for a in self.command(self)]
        if self.out:
            warm(self.dir)
        begin = time.monotonic()
        with open(self.path("log"), "w") as log:
            self.proc = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                         preexec_fn=lambda: prepare(self.cpus))
        wait_until(self.is_ready, self.name)
        self.ready_s = time.monotonic() - begin
        self.ready_cpu_ns = self.own_cpu_ns()
        if os.path.basename(args[0]) in ("perf", "bpftrace"):
            time.sleep(1)  # all their events, not only the first
        time.sleep(self.settle_s)

    def own_cpu_ns(self):
        return process_cpu_ns(self.proc.pid)

    def peak_kib(self):
        m = re.search(r"VmHWM:\s+(\d+)", read_text(f"/proc/{self.proc.pid}/status"))
        return int(m.group(1)) if m else 0

    def stop(self):
        begin = time.monotonic()
        self.proc.send_signal(signal.SIGINT)
        try:
            self.proc.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            print(f"{self.name}: did not end in {STOP_S} s, killed", file=sys.stderr)
        self.stop_s = time.monotonic() - begin

    def kept(self):
        """How many records there are in its output, and how many bytes; None where it has none."""
        if not self.out:
            return None, None
        path = self.path(self.out)
        if self.pattern is None:
            return None, size_of(path)
        return count_lines(path, self.pattern), size_of(path)

    def records(self):
        """Of inftrace: how many records of each kind it counted."""
        m = re.search(r"^inftrace: [0-9.]+ s, (\d.*)$", self.log(), re.M)
        words = [w.split() for w in m.group(1).split(", ")] if m else []
        return {kind: int(n) for n, kind in words}

    def lost(self):
        m = re.search(r"lost (.*): a ", self.log())
        return m.group(1) if m else ""

    def clean(self):
        if self.proc and self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        if self.dir:
            shutil.rmtree(self.dir, ignore_errors=True)
        self.dir = self.proc = None


def inftrace(name, *args, out="t.json", **kw):
    """inftrace record; out None: no timeline, only what args say."""
    def command(t):
        where = ["-o", t.path(out)] if out else ["--profile", t.path("p.jsonl")]
        return [t.program, "record", *args, *where, "-p", t.pid]
    return Tracer(name, command, out=out, program=INFTRACE, **kw)


def with_other(variants, other):
    """Those of inftrace, each followed by the same of another build, and those that need no other tracer."""
    result = []
    for v in variants:
        if v.program or not v.needs:
            result.append(v)
        if v.program:
            result.append(copy.copy(v))
            result[-1].name += ", other build"
            result[-1].program = other
    return result


def floor(name, *programs, **kw):
    def command(_):
        return [os.path.join(BENCH, "floor"), os.path.join(BENCH, "floor.bpf.o"), *programs]
    return Tracer(name, command, **kw)


def bpftrace(name, program, **kw):
    """program may use PID and LOAD."""
    def command(t):
        text = program.replace("PID", str(t.pid)).replace("LOAD", LOAD)
        return ["bpftrace", "-o", t.path("out"), "-e", text]
    # without it bpftrace 0.17 sets a low limit on strings and on map keys, but none on events
    return Tracer(name, command, needs="bpftrace", out="out", **kw)


def untraced():
    return Tracer("untraced", lambda t: [], weight=0)


def symbol_offset(path, symbol):
    """Where a function is in the file; right for a position independent executable as ld makes it,
    whose text has the same offset as address."""
    out = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    return int(next(line.split()[0] for line in out.splitlines() if line.endswith(" " + symbol)), 16)
