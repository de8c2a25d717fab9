# SPDX-License-Identifier: BSD-2-Clause
"""One recording of a real engine into which one cause is planted a number of times."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", os.path.join(TOP, "build"))
INFTRACE = os.path.join(BUILD, "inftrace")
PLANT = os.path.join(BUILD, "plant")
TIMEOUT_S = 90
STEERING = "/sys/class/net/lo/queues/rx-0/rps_cpus"
WEIGHT = {"cpu.shares": "262144", "cpu.weight": "10000"}


class Failed(Exception):
    """Says what went wrong, in one line."""


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


class Cgroup:
    """A group of the CPU controller for the planter and the engine, with one for each of them in it. It has a
    large share of the CPUs, so that the rest of the machine plants little of its own."""

    def __init__(self):
        self.path = None
        for line in open("/proc/mounts"):
            _, point, kind, options = line.split()[:4]
            if kind == "cgroup" and "cpu" in options.split(","):
                self.path = point
            elif kind == "cgroup2" and not self.path:
                with contextlib.suppress(OSError):
                    write(os.path.join(point, "cgroup.subtree_control"), "+cpu")
                    self.path = point
        if self.path:
            self.path = os.path.join(self.path, f"inftrace-plant-{os.getpid()}")
            try:
                self.make()
            except OSError:
                self.remove()
                self.path = None

    def make(self):
        os.mkdir(self.path)
        with contextlib.suppress(OSError):  # cgroup v1 has no such file
            write(os.path.join(self.path, "cgroup.subtree_control"), "+cpu")
        for name, weight in WEIGHT.items():
            if os.path.exists(os.path.join(self.path, name)):
                write(os.path.join(self.path, name), weight)
        for part in ("engine", "planter"):
            os.mkdir(self.part(part))

    def part(self, name):
        return os.path.join(self.path, name)

    def enter(self, name):
        """For preexec_fn."""
        if self.path:
            write(os.path.join(self.part(name), "cgroup.procs"), "0")

    def remove(self):
        if not self.path:
            return
        for path in (self.part("engine"), self.part("planter"), self.path):
            for _ in range(50):  # until the processes in it have exited
                with contextlib.suppress(OSError):
                    os.rmdir(path)
                if not os.path.exists(path):
                    break
                time.sleep(0.1)


class Processes(contextlib.ExitStack):
    """Children that do not outlive the recording."""

    def start(self, *args, **kwargs):
        p = subprocess.Popen(*args, text=True, **kwargs)
        self.callback(self.end, p)
        return p

    @staticmethod
    def end(p):
        if p.poll() is None:
            p.kill()
            p.wait()
        for f in (p.stdin, p.stdout, p.stderr):
            if f:
                f.close()


def line_from(process, what, wanted):
    for line in process.stdout:
        if line.strip() == wanted:
            return
    raise Failed(f"{what} has ended before it was {wanted}")


def pin(pid, cpus):
    """The threads of the engine in the order of their birth: the one that calls the step, then the workers."""
    for tid, cpu in zip(sorted(int(t) for t in os.listdir(f"/proc/{pid}/task")), cpus):
        os.sched_setaffinity(tid, {cpu})


def wait_recording(process, path):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with open(path) as f:
            if "recording" in f.read():
                return
        if process.poll() is not None:
            with open(path) as f:
                raise Failed(f"inftrace: {f.read().strip()}")
        time.sleep(0.02)
    raise Failed("inftrace does not begin to record")


def lines_of(path):
    with open(path) as f:
        return [json.loads(line) for line in f if line.strip()]


def record(cause, times, seed, threads, contended, model, driver, libs, cgroup, folder, events=()):
    """Plants the cause `times` times. contended: index of the thread whose CPU is contended. Leaves the profile
    in folder; returns its path, the plants and the steps, as planter.c and hook.c print them."""
    cpus = sorted(os.sched_getaffinity(0))
    own = [cpus[-1 - i % len(cpus)] for i in range(threads)]
    other = next((c for c in cpus if c not in own), own[contended - 1])
    shared = tempfile.mkdtemp(prefix="inftrace-plant-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    env = dict(os.environ, PLANT_DIR=shared, PLANT_DISK=folder)
    if cause == "softirq":
        with open(STEERING) as f:
            steering = f.read()
    profile, log = os.path.join(folder, "profile.jsonl"), os.path.join(folder, "inftrace.err")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(profile)
    args = ["-n", "2000", "-r", "0", "-q", "-w", "-t", str(threads), "-H", os.path.join(PLANT, "libplant_hook.so")]
    if threads > 1:
        args += ["-P", "50"]
    try:
        with Processes() as run, open(log, "w") as err:
            planter_args = [cause, times, seed, own[contended], other]
            if cgroup.path:
                planter_args.append(cgroup.part("engine"))
            planter = run.start([os.path.join(PLANT, "planter"), *map(str, planter_args)], env=env,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                preexec_fn=lambda: cgroup.enter("planter"))
            line_from(planter, "the planter", "ready")
            engine = run.start([driver, *args, libs, model], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               preexec_fn=lambda: cgroup.enter("engine"))
            line_from(engine, "the engine", "ready")
            pin(engine.pid, own)
            tracer = run.start([INFTRACE, "record", "--strict", "--profile", profile, *events, "-p", str(engine.pid)],
                               stderr=err)
            wait_recording(tracer, log)
            planter.stdin.write(f"{engine.pid}\n")
            planter.stdin.flush()
            engine.stdin.write("\n")
            engine.stdin.flush()
            plants, _ = planter.communicate(timeout=TIMEOUT_S)
            if planter.returncode:
                engine.send_signal(signal.SIGTERM)
                raise Failed(f"{cause}: the planter has failed")
            engine.communicate(timeout=TIMEOUT_S)
            if engine.returncode:
                raise Failed(f"{cause}: the engine has failed: {engine.returncode}")
            if tracer.wait(timeout=TIMEOUT_S):
                with open(log) as f:
                    raise Failed(f"{cause}: inftrace has failed: {f.read().strip()}")
        return profile, [json.loads(line) for line in plants.splitlines()], lines_of(os.path.join(shared, "steps"))
    except subprocess.TimeoutExpired as e:
        raise Failed(f"{cause}: {os.path.basename(e.cmd[0])} does not end") from e
    finally:
        shutil.rmtree(shared)
        if cause == "softirq":
            write(STEERING, steering)
