#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The presets cuda, nccl and vllm, found by themselves, against libraries
# of the same names and functions that record what they were called with (engines/fake_cuda.c).

. "$(dirname "$0")/../lib.sh"
need cc python3

warn=(-std=gnu11 -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes)

# library FILE FAKE_LIB OPTION...
library() {
	cc -O2 -g "${warn[@]}" -fPIC -shared "-DFAKE_LIB=$2" "$TOP/tests/engines/fake_cuda.c" \
		-o "$TMP/$1" "-Wl,-soname,$1" "-Wl,-rpath,\$ORIGIN" "-L$TMP" "${@:3}"
}

# functions with and without endbr64, with and without a frame pointer
cet=
[ "$(uname -m)" != x86_64 ] || cet=-fcf-protection=branch
library libcuda.so.1 cuda
library libnccl.so.2 nccl -fno-omit-frame-pointer
# shellcheck disable=SC2086
library _C.abi3.so vllm $cet -fno-omit-frame-pointer
cc -O2 -g "${warn[@]}" "$TOP/tests/engines/fake_cuda_driver.c" -o "$TMP/fake_cuda_driver" -ldl -lpthread

start_driver() {
	rm -f "$TMP/go" "$TMP/calls"
	spawn driver "$TMP/fake_cuda_driver" "$TMP" 4 50 >"$TMP/steps"
	wait_until 60 grep -q ready "$TMP/steps"
}

# recorded NAME OPTION...: what the driver does until it ends
recorded() {
	recording BG t --strict --ring-size 64MB -u fake_cuda_driver:fake_step@step "${@:2}" -p "$driver"
	touch "$TMP/go"
	ended "$1" "$BG"
	wait "$driver" 2>/dev/null || true
}

export FAKE_CUDA_LOG=$TMP/calls
start_driver

"$INFTRACE" engines -p "$driver" >"$TMP/engines"
check "engines: what probes cost here" grep -qE '^on this machine reaching a probe takes: cheap [0-9.]+ us, dear [0-9.]+ us, and ' "$TMP/engines"
for file in libcuda.so.1 libnccl.so.2 _C.abi3.so; do
	check "engines: $file" grep -q "^$TMP/$file, build-id [0-9a-f]\{40\}\$" "$TMP/engines"
done

recorded "recorded, nothing lost" -v --op-detail -o "$TMP/t.json" --profile "$TMP/p.jsonl"

python3 - "$TMP" "$TOP/engines" <<'PY' || test_failed=1
import collections, json, os, sys

tmp, presets = sys.argv[1:]

def lines(name):
    with open(f"{tmp}/{name}") as f:
        return [json.loads(l) for l in f if l.startswith("{")]

def check(name, wrong):
    """wrong: what is wrong, one text each"""
    wrong = list(wrong)
    for w in wrong[:5]:
        print("#", w)
    print(f"not ok {name} - {len(wrong)} wrong" if wrong else f"ok {name}")
    return not wrong

# What the presets say: symbol -> role and names of arguments. Of globs: how they begin.
exact, globs = {}, {}
for preset in "cuda", "nccl", "vllm":
    with open(f"{presets}/{preset}.json") as f:
        for p in json.load(f)["probes"]:
            symbols = p.get("symbol", p.get("instant", []))
            for s in symbols if isinstance(symbols, list) else [symbols]:
                (globs if "*" in s else exact)[s.rstrip("*")] = p

def probe(symbol):
    return exact.get(symbol) or next((p for s, p in globs.items() if symbol.startswith(s)), None)

def shown(symbol):
    """the name of its spans"""
    rule = probe(symbol).get("name", symbol)
    if rule != "$part0":
        return rule
    digits = "".join(c for c in symbol[2:4] if c.isdigit())
    return symbol[2 + len(digits):][:int(digits)]

calls, waits = collections.defaultdict(list), collections.defaultdict(list)
for l in lines("calls"):
    if "wait" in l:
        waits[l["tid"]].append((l["start"], l["end"]))
    else:
        calls[l["tid"]].append(l)

with open(f"{tmp}/t.json") as f:
    trace = json.load(f, object_hook=lambda d: {"args": {}, **d} if "ph" in d else d)
roles = {p["role"] for p in list(exact.values()) + list(globs.values())}
spans = collections.defaultdict(list)
for e in trace:
    if e["ph"] in "Xi" and e.get("cat") in roles:
        spans[e["tid"]].append(e)
for s in spans.values():
    s.sort(key=lambda e: (e["ts"], -e.get("dur", 0)))

known = {tid: [c for c in cs if probe(c["name"])] for tid, cs in calls.items()}
ok = check("every function of the presets was called",
    set(exact) - {c["name"] for cs in known.values() for c in cs})
ok &= check("four threads, each with all its calls", [
    f"{tid}: {len(spans[tid])} spans of {len(cs)} calls" for tid, cs in known.items()
    if len(spans[tid]) != len(cs)] + [f"{len(known)} threads"] * (len(known) != 4))

# kernels are called what was registered for their pointers, which are small numbers here
kernels = collections.defaultdict(set)
for cs in calls.values():
    for c in cs:
        if c["name"] == "__cudaRegisterFunction":
            kernels[c["args"]["function"]].add(c["args"]["kernel"][:63])

def same(key, shown, called_with):
    if key == "function" and shown in kernels[called_with]:
        return True
    if isinstance(called_with, int):
        return int(shown) == called_with  # large ones are shown as text
    if key == "kernel":
        return shown == called_with[:63]
    return shown == called_with  # addresses, names of enums

enums = {}
for preset in "cuda", "nccl":
    with open(f"{presets}/{preset}.json") as f:
        enums |= json.load(f).get("enums", {})

def bytes_of(p, args):
    """What follows from the arguments, if the preset says how and the number is one that can be."""
    count, kind = p["bytes"].split(" * ") if "bytes" in p else (None, None)
    if count not in args or kind not in args:
        return {}
    table = enums[p["args"][kind].split()[0]]
    n = args[count] * table["bytes"][table["names"].index(args[kind])]
    return {"bytes": n} if n < 1 << 63 else {}

def is_unknown(p, key, v):
    """a number of an enum that has no name: it is not shown"""
    return p["args"][key].split()[0] in enums and isinstance(v, int)

order, names, values, cats = [], [], [], []
total = unknown = 0
for tid, cs in known.items():
    for c, e in zip(cs, spans[tid]):
        p = probe(c["name"])
        want = {k: c["args"][k] for k in p.get("args", {}) if k in c["args"]}
        unknown += sum(is_unknown(p, k, v) for k, v in want.items())
        want = {k: v for k, v in want.items() if not is_unknown(p, k, v)}
        want |= bytes_of(p, want)
        if shown(c["name"]) != e["name"]:
            order.append(f"{tid}: {c['name']} is shown as {e['name']}")
            break
        total += 1
        if e["cat"] != p["role"]:
            cats.append(f"{c['name']}: {e['cat']}, not {p['role']}")
        late = {k for k, v in p.get("args", {}).items() if v.endswith(" at return")}  # see presets-kernels.sh
        if set(e["args"]) - late != set(want) or not set(want) - {"bytes"} <= set(p.get("args", {})):
            names.append(f"{c['name']}: shows {list(e['args'])}, recorded {list(c['args'])}")
        for k, v in want.items():
            if not same(k, e["args"].get(k), v):
                values.append(f"{c['name']}: {k} is {e['args'].get(k)}, was called with {v}")
ok &= check("calls in their order", order)
ok &= check("roles", cats)
ok &= check("arguments of the presets", names)
print(f"# {total} calls")
ok &= check("values of all arguments", values)
with open(f"{tmp}/t.err") as f:
    said = sum(int(l.split()[2]) for l in f if "values left out" in l)
print(f"# {unknown} values without a name")
ok &= check("values without a name are counted", [f"{said}"] * (said != unknown or not unknown))
ok &= check("functions that only look alike are left alone", [
    e["name"] for s in spans.values() for e in s if e["name"] == "rms_norm_helper"])

# Time in the functions that wait is gpu_wait: at least what they measured inside, at most what
# their callers measured outside.
steps, wrong, n = collections.defaultdict(list), [], 0
for s in lines("steps"):
    steps[s["tid"]].append(s["waited"])
profile = [p for p in lines("p.jsonl") if p["event"] == "token_prof"]
at = {e["args"]["step"]: e for e in trace if e.get("cat") == "step" and e["ph"] == "X"}
start = next(int(e["args"]["boottime_ns"]) for e in trace if e["name"] == "inftrace_clock")
for tid, waited in steps.items():
    mine = sorted((p for p in profile if p["shape"]["tid"] == tid), key=lambda p: p["shape"]["ts_us"])
    if len(mine) != len(waited):
        wrong.append(f"{tid}: {len(mine)} steps of {len(waited)}")
    for p, outside in zip(mine, waited):
        e = at[p["shape"]["step"]]
        begin = start + round(e["ts"] * 1000)
        end = begin + round(e["dur"] * 1000)
        inside = sum(b - a for a, b in waits[tid] if begin <= a and b <= end)
        got = round(p["stage_us"].get("gpu_wait", 0) * 1000)
        n += 1
        if not inside <= got <= outside:
            wrong.append(f"{tid}: gpu_wait {got} ns, inside {inside}, outside {outside}")
print(f"# {n} steps")
ok &= check("gpu_wait of each step", wrong + ["no steps"] * (not n))
sys.exit(not ok)
PY

same_graphs() { # NAME PROFILE: the steps that launched a CUDA graph, by thread and in their order
	same "$1" "$(json '(lambda p: [[s["graph_enabled"] for s in sorted(p, key=lambda s: s["shape"]["ts_us"])
			if s["shape"]["tid"] == tid] for tid in sorted({s["shape"]["tid"] for s in p})])(
			[s for s in p if s["event"] == "token_prof"])' p="$2")" \
		"$(json '[[s["graphs"] > 0 for s in p if s["tid"] == tid] for tid in sorted({s["tid"] for s in p})]' \
			p=<(grep '^{' "$TMP/steps"))"
}

check "no function of the presets was missed" bash -c "! grep 'never hit' '$TMP/t.err'"

same_graphs "graph_enabled of each step" "$TMP/p.jsonl"
start_driver
recorded "recorded without a trace" --profile "$TMP/only.jsonl"
same_graphs "graph_enabled of each step without a trace" "$TMP/only.jsonl"
expect "graph_enabled: some steps of many, and the window" \
	'{s["graph_enabled"] for s in p if s["event"] == "token_prof"} == {True, False} and p[-1]["graph_enabled"]' \
	p="$TMP/only.jsonl"

# Cut by the end of the recording, a step that waits for the GPU was waiting for the GPU until then.
cat >"$TMP/cut.c" <<'C'
#include <unistd.h>

int cut_wait(void);
int cut_step(void);

int __attribute__((noinline)) cut_wait(void)
{
	return pause();
}

int __attribute__((noinline)) cut_step(void)
{
	return cut_wait() + 1;
}

int main(void)
{
	return cut_step();
}
C
cc -O1 "${warn[@]}" "$TMP/cut.c" -o "$TMP/cut"
"$INFTRACE" record -q -d 1s --engine none -u "$TMP/cut:cut_step@step" -u "$TMP/cut:cut_wait@gpu_wait" \
	--profile "$TMP/cut.jsonl" -- "$TMP/cut" || true
expect "gpu_wait of a step that is cut" \
	'[s["shape"]["unfinished"] and not [k for k in s["stage_us"] if k.startswith("blocked")]
	  and s["stage_us"]["gpu_wait"] > 0 for s in p if s["event"] == "token_prof"] == [True]' p="$TMP/cut.jsonl"
