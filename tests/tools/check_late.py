#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Who was late, as the ranks themselves have it: check_late.py REPORT.json AHEAD... -- LOG... -- HOST:STEP:CAUSE=MS...

REPORT.json is what `inftrace report --json` says of the archive. The LOGs are those of tests/programs/ranks.c on the hosts, whose
clocks were planted AHEAD nanoseconds apart. The last arguments are the delays that were planted. From these the true time of each
call is known, so that who was last does not depend on what else the machine did.
"""
import json
import sys

# What is said of a delay; on a busy machine as the second of two causes.
WORDS = {
    "cpu": "computed ",
    "sleep": "slept for ",
    "fault": " on page faults",
    "hog": " for a CPU",
}
# Between the reading of its clock by the program and the probe of the function that it calls then there may be an interrupt, or another
# thread; what differs by more than that is not a matter of chance.
SLACK_NS = 20_000_000


def split(args):
    parts = [[]]
    for a in args:
        if a == "--":
            parts.append([])
        else:
            parts[-1].append(a)
    return parts


def read_log(path, ahead):
    calls = []
    with open(path, encoding="utf-8") as f:
        assert f.readline() == "ready\n", path
        for line in f:
            step, which, ns = map(int, line.split())
            assert (step, which) == divmod(len(calls), 2), (path, line)
            calls.append(ns - ahead)
    return calls


def judge():
    (report, *ahead), logs, planted = split(sys.argv[1:])
    with open(report, encoding="utf-8") as f:
        groups = json.load(f)["collectives"]
    assert len(groups) == 1, groups
    g = groups[0]
    logs = [read_log(path, int(ns)) for path, ns in zip(logs, ahead)]
    hosts = [r["host"] for r in sorted(g["ranks"], key=lambda r: r["rank"])]
    n = len(logs[0])
    assert g["by"] == "host" and g["ranks_of"] == len(logs) == len(hosts), g
    assert g["compared"] == n and not g["incomplete"] and not g["mismatched"] and not g["not_matched"], (n, g)
    residual = g["residual_us"] * 1000
    assert 0 < residual < SLACK_NS, residual

    # what is said of each, against what the programs have seen
    for e in g["latest"]:
        at = [log[e["collective"]] for log in logs]
        own = at[hosts.index(e["host"])]
        late = own - max(t for t, h in zip(at, hosts) if h != e["host"])
        assert late > -SLACK_NS and abs(late - e["late_us"] * 1000) <= residual + SLACK_NS, (late, e)
        assert e["late_us"] * 1000 > residual * 0.5, e
    lasts = {u["host"]: u["last"] for u in g["entered_last"]}
    assert sum(lasts.values()) + g["within_residual"] == n, (lasts, g["within_residual"], n)

    missing = 0
    for p in planted:
        host, step, what = p.split(":")
        cause, ms = what.split("=")
        collective = 2 * int(step)
        at = [log[collective] for log in logs]
        late = at[hosts.index(host)] - max(t for t, h in zip(at, hosts) if h != host)
        found = [e for e in g["latest"] if e["collective"] == collective]
        if late < int(ms) * 500_000:
            print(f"{p}: another host was held up as well, so that it was late by {late} ns only")
            assert not found or abs(late) <= residual + SLACK_NS or (found[0]["host"] == host) == (late > 0), (p, found)
            missing += 1
            continue
        assert found and found[0]["host"] == host, (p, late, found)
        if late > int(ms) * 1_500_000:
            print(f"{p}: it was held up by something else for longer: {found[0]['text']}")
            missing += 1
            continue
        assert WORDS[cause] in found[0]["text"] and found[0]["step"] == int(step), (p, found)
        print(f"{p}: {found[0]['text']}")
    assert missing < len(planted), "no planted delay can be judged"
    # nobody else was late by half of what was planted, unless the programs themselves say so
    told = {2 * int(p.split(":")[1]): p.split(":")[0] for p in planted}
    for e in g["latest"]:
        at = [log[e["collective"]] for log in logs]
        late = at[hosts.index(e["host"])] - max(t for t, h in zip(at, hosts) if h != e["host"])
        assert told.get(e["collective"]) == e["host"] or late > -residual - SLACK_NS, e
    other = sum(told.get(e["collective"]) != e["host"] for e in g["latest"])
    print(f"{len(g['latest'])} in all, {other} that were not planted; residual {residual:.0f} ns; last: {lasts}")


def main():
    try:
        judge()
    except AssertionError as e:
        sys.exit(f"check_late.py: line {e.__traceback__.tb_lineno}: {str(e)[:1500]}")


if __name__ == "__main__":
    main()
