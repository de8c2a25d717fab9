#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares what inftrace export --prometheus says with the profiles, from which everything is computed here once more.

    metrics.py scrape URL PROFILE...           what the exporter answers, in both formats
    metrics.py prometheus URL PROFILE...       what a Prometheus that scraped it has, its percentiles and exemplars
    metrics.py value URL NAME                  the sum of a metric in what the exporter answers
"""
import json
import math
import os
import re
import sys
import urllib.parse
import urllib.request
from decimal import Decimal

MODEL = "gen_ai_response_model"
SECOND = Decimal(10) ** 9
# https://github.com/open-telemetry/semantic-conventions/blob/main/docs/gen-ai/gen-ai-metrics.md
BOUNDS = {
    "gen_ai_server_time_to_first_token": "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0",
    "gen_ai_server_time_per_output_token": "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1.0 2.5",
    "gen_ai_server_request_duration": "0.01 0.02 0.04 0.08 0.16 0.32 0.64 1.28 2.56 5.12 10.24 20.48 40.96 81.92",
    "inftrace_step_duration": "0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1.0 2.5 5.0 10.0",
    "inftrace_step_state": "0.00001 0.00003 0.0001 0.0003 0.001 0.003 0.01 0.03 0.1 0.3 1.0",
}
BOUNDS["inftrace_request_queue_time"] = BOUNDS["gen_ai_server_time_to_first_token"]
BOUNDS["inftrace_request_first_step_to_first_token"] = BOUNDS["gen_ai_server_time_to_first_token"]
BOUNDS["inftrace_foreign_duration"] = BOUNDS["inftrace_step_duration"]
BOUNDS = {name: [Decimal(le) for le in text.split()] for name, text in BOUNDS.items()}
STATES = ("cpu barrier gpu_wait gc syscall fault irq runnable blocked_futex blocked_gil blocked_io blocked_net blocked_ipc blocked_poll "
          "blocked_sleep blocked_fault blocked_gpu blocked_other stopped").split()
OWN = [name + "_prof" for name in "token op sample graph request syscall sched fault memory stack misfit window".split()]
PARTIAL = ("began_before", "unfinished", "end_not_seen", "lost_steps", "cancelled", "mixed")


def lines_of(paths):
    for path in paths:
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                if line.strip() and line.endswith("\n"):
                    yield os.path.basename(path), number, json.loads(line, parse_float=Decimal)


def ns(us):
    return int(Decimal(us) * 1000)


def observations(paths):
    """{(metric, labels): [(ns, file, line)]}; a label that is not known is missing."""
    found, steps = {}, {}

    def add(metric, labels, value, where):
        found.setdefault((metric, frozenset(labels.items())), []).append((value, *where))

    for file, number, line in lines_of(paths):
        shape, stages, where = line["shape"], line["stage_us"], (file, number)
        labels = {MODEL: line["model"]}
        if line["event"] == "token_prof" and not (shape.get("unfinished") or shape.get("began_before")):
            labels["phase"] = shape["phase"]
            add("inftrace_step_duration", labels, ns(stages["total"]), where)
            if "barriers" not in shape.get("left_out", ""):
                steps.setdefault(frozenset(labels.items()), []).append((where, stages))
        elif line["event"] not in OWN and "total" in stages:
            labels = {key: line[key] for key in ("event", "source") if line[key]}
            add("inftrace_foreign_duration", labels, ns(stages["total"]), where)
        elif line["event"] == "request_prof" and not shape.get("mixed") and not shape.get("cancelled"):
            labels["source_kind"] = shape["source_kind"]
            request = shape.get("request", "")
            if request.startswith("POST ") and request.endswith("completions"):
                labels["gen_ai_operation_name"] = "chat" if request.endswith("/chat/completions") else "text_completion"
            elif shape["source_kind"] == "socket":
                continue
            socket, unrelated = shape["source_kind"] == "socket", shape.get("joined_why") == "none fits"
            # where sockets are recorded, each request is told by that of the socket
            elsewhere = shape.get("joined") is False and unrelated == socket
            client = "ttft" if socket else "ttft_client"
            if client in stages and not elsewhere:
                add("gen_ai_server_time_to_first_token", labels, ns(stages[client]), where)
            first = ns(stages.get("ttft", 0)) + ns(stages.get("queued", 0))
            if "ttft" in stages and not socket:
                add("inftrace_request_first_step_to_first_token", labels, ns(stages["ttft"]), where)
            if "queued" in stages:
                add("inftrace_request_queue_time", labels, ns(stages["queued"]), where)
            if elsewhere or any(shape.get(key) for key in PARTIAL):
                continue
            add("gen_ai_server_request_duration", labels, ns(stages["total"]) + ns(stages.get("answered", 0)), where)
            if "output_tokens" not in shape and "tpot_mean" in stages:
                add("gen_ai_server_time_per_output_token", labels, ns(stages["tpot_mean"]), where)
            elif "ttft" in stages and shape.get("output_tokens", 0) > 1:
                rest = (ns(stages["total"]) - first) // (shape["output_tokens"] - 1)
                add("gen_ai_server_time_per_output_token", labels, rest, where)
    for labels, of_phase in steps.items():
        for state in STATES:
            if any(state in stages for _, stages in of_phase):
                for where, stages in of_phase:
                    add("inftrace_step_state", {**dict(labels), "state": state}, ns(stages.get(state, 0)), where)
    return found


def expected(found):
    """{(sample, labels with le): value} of all histograms."""
    samples = {}
    for (metric, labels), values in found.items():
        for le in [*BOUNDS[metric], None]:
            key = (metric + "_seconds_bucket", labels | {("le", "+Inf" if le is None else float(le))})
            samples[key] = Decimal(sum(le is None or v[0] <= le * SECOND for v in values))
        samples[metric + "_seconds_sum", labels] = sum(v[0] for v in values) / SECOND
        samples[metric + "_seconds_count", labels] = Decimal(len(values))
    return samples


def sample_key(name, labels):
    labels = {k: v for k, v in labels.items() if k not in ("__name__", "instance", "job")}
    if labels.get("le", "+Inf") != "+Inf":
        labels["le"] = float(labels["le"])
    return name, frozenset(labels.items())


def parse(text, openmetrics):
    """What the exposition formats require, as far as it is used here."""
    types, samples, family = {}, {}, None
    if openmetrics:
        assert text.endswith("\n# EOF\n"), "no end"
        text = text[:-len("# EOF\n")]
    for line in text.splitlines():
        if line.startswith("# "):
            word, name, rest = line[2:].split(" ", 2)
            assert word in ("HELP", "TYPE", "UNIT"), line
            if word == "HELP":
                assert name not in types, f"{name}: twice"
                family = name
            elif word == "TYPE":
                types[name] = rest
            assert name == family, line
            continue
        m = re.fullmatch(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\})? (\S+)( # \{.*\} \S+)?', line)
        assert m, f"not a sample: {line}"
        name, labels, value, exemplar = m.groups()
        base = family if openmetrics or types[family] != "counter" else family.removesuffix("_total")
        ends = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",), "gauge": ("",)}[types[family]]
        assert name in [base + end for end in ends], f"{name}: of {family}?"
        if exemplar:
            assert openmetrics and name.endswith(("_bucket", "_total")), line
            inside = re.fullmatch(r' # \{(.*)\} \S+', exemplar)[1]
            assert len(re.sub(r'[="\\,]', "", inside)) <= 128, f"exemplar too long: {inside}"
        labels = dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', labels or ""))
        labels = {k: re.sub(r'\\(.)', lambda c: "\n" if c[1] == "n" else c[1], v) for k, v in labels.items()}
        key = sample_key(name, labels)
        assert key not in samples, f"twice: {line}"
        samples[key] = Decimal(value)
    return samples


def fetch(url, accept=None):
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def compare(have, want):
    have = {k: v for k, v in have.items() if re.sub("_seconds_(bucket|sum|count)$", "", k[0]) in BOUNDS}
    for key in want.keys() | have.keys():
        a, b = have.get(key), want.get(key)
        assert a is not None, f"missing: {key}"
        assert b is not None, f"too much: {key}"
        assert math.isclose(a, b, rel_tol=1e-12), f"{key}: {a}, not {b}"
    assert want, "nothing to compare"
    return len(want)


def scrape(url, paths):
    want = expected(observations(paths))
    kind, text = fetch(url)
    assert kind.startswith("text/plain; version=0.0.4"), kind
    n = compare(parse(text, False), want)
    kind, text = fetch(url, "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
    assert kind.startswith("application/openmetrics-text; version=1.0.0"), kind
    compare(parse(text, True), want)
    print(f"{n} samples")


def api(url, path, **query):
    got = json.loads(fetch(f"{url}/api/v1/{path}?{urllib.parse.urlencode(query)}")[1])
    assert got["status"] == "success", got
    return got["data"]


def nearest_rank(values, percent):
    return sorted(values)[(len(values) * percent + 99) // 100 - 1]


def compare_percentiles(url, found):
    """Prometheus interpolates within the bucket that has the percentile of the profile; beyond all bounds it says the last."""
    n = 0
    for (metric, labels), values in found.items():
        match = ",".join(f"{k}={json.dumps(v)}" for k, v in labels)
        for percent in (50, 90, 99):
            query = f"histogram_quantile({percent / 100}, {metric}_seconds_bucket{{{match}}})"
            got = [r for r in api(url, "query", query=query)["result"] if sample_key("", r["metric"])[1] == labels]
            assert len(got) == 1, f"{query}: {got}"
            exact = nearest_rank([v[0] for v in values], percent) / SECOND
            bounds = [Decimal(0), *BOUNDS[metric]]
            at = sum(b < exact for b in bounds)
            low, high = (bounds[-1], bounds[-1]) if at == len(bounds) else (bounds[max(at - 1, 0)], bounds[at])
            # a step can have had nothing of a state: 0 is in the first bucket
            low, high = (low, bounds[1]) if exact == 0 else (low, high)
            value = float(got[0]["value"][1])
            assert float(low) * (1 - 1e-9) <= value <= float(high) * (1 + 1e-9), f"{query}: {value}, not in {low}..{high} ({exact})"
            n += 1
    return n


def compare_exemplars(url, found):
    """Each is a request of that length, at that line, and the slowest one is among them."""
    by_place = {(metric, v[1], v[2]): v[0] for (metric, _), values in found.items() for v in values}
    slowest = max((v for (metric, _), values in found.items() if metric == "gen_ai_server_request_duration" for v in values))
    seen = set()
    for series in api(url, "query_exemplars", query='{__name__=~"gen_ai_server_.*_bucket"}', start=0, end=1e11):
        metric = series["seriesLabels"]["__name__"].removesuffix("_seconds_bucket")
        for e in series["exemplars"]:
            place = (e["labels"]["file"], int(e["labels"]["line"]))
            exact = by_place.get((metric, *place))
            assert exact is not None, f"{metric}: nothing at {place}"
            assert math.isclose(float(e["value"]), exact / 1e9, rel_tol=1e-9), f"{metric} {place}: {e['value']}, not {exact} ns"
            seen.add((exact, *place))
    assert slowest in seen, f"the slowest request is not among {len(seen)} exemplars"
    return len(seen)


def prometheus(url, paths):
    found = observations(paths)
    have = {}
    for r in api(url, "query", query='{__name__=~"gen_ai_.+|inftrace_.+"}')["result"]:
        have[sample_key(r["metric"]["__name__"], r["metric"])] = Decimal(r["value"][1])
    n = compare(have, expected(found))
    print(f"{n} samples, {compare_percentiles(url, found)} percentiles, {compare_exemplars(url, found)} exemplars")


def main():
    command, url, *rest = sys.argv[1:]
    try:
        if command == "value":
            print(sum(v for (name, _), v in parse(fetch(url)[1], False).items() if name == rest[0]))
        else:
            {"scrape": scrape, "prometheus": prometheus}[command](url, rest)
    except (AssertionError, OSError) as e:
        sys.exit(f"metrics.py: {e}")


if __name__ == "__main__":
    main()
