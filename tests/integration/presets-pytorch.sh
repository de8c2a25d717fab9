#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The preset pytorch on the CPU: every operator that a small model calls is in the trace, and no
# more, as counted by PyTorch's own profiler, and takes at least as long as that says; also after exceptions.

. "$(dirname "$0")/../lib.sh"

python=$(python_with torch) || skip_all "python3-torch is not installed (apt-get install --no-install-recommends python3-torch)"

# operators NAME COMMAND...: what runs torch_model.py, with $TMP at /mnt or as it is, and its files in $TMP/NAME
operators() {
	local dir=$TMP/$1 model
	mkdir -p "$dir"
	spawn model "${@:2}" >"$dir/out" 2>"$dir/model.err"
	wait_until 60 grep -q ready "$dir/out" || sed 's/^/# /' "$dir/model.err"
	"$INFTRACE" engines -p "$model" >"$dir/engines"
	recording BG "$1" --strict --ring-size 64MB -o "$dir/t.json" -p "$model"
	touch "$dir/go"
	ended "$1: recorded, nothing lost" "$BG"
	check "$1: the model ran" wait "$model"

	python3 - "$dir" "$1" <<'PY' || test_failed=1
import collections, json, sys

tmp, who = sys.argv[1:]
with open(f"{tmp}/counts") as f:
    own = json.load(f)
with open(f"{tmp}/t.json") as f:
    trace = json.load(f, object_hook=lambda d: {"args": {}, **d} if "ph" in d else d)
start = next(int(e["args"]["boottime_ns"]) for e in trace if e["name"] == "inftrace_clock")
seen = collections.Counter()
times = collections.defaultdict(list)
for e in trace:
    if e.get("cat") == "op" and own["from"] <= start + round(e["ts"] * 1000) <= own["to"]:
        name = own["names"].get(e["name"], f"no operator {e['name']}")
        seen[name] += 1
        if e["ph"] == "X":
            times[name].append(e["dur"])
counts = {k: v for k, v in own["counts"].items() if k.startswith("aten::")}
wrong = [f"{k}: {seen[k]} in the trace, {counts.get(k, 0)} in the profiler"
         for k in sorted(set(seen) | set(counts)) if seen[k] != counts.get(k, 0)]
for w in wrong[:10]:
    print("#", w)
print(f"# {sum(counts.values())} calls of {len(counts)} operators")
print(f"not ok {who}: calls of each operator - {len(wrong)} differ" if wrong or not counts
      else f"ok {who}: calls of each operator")

# the profiler's part of a call lies within it; if that is so for each, it is so for them in the order of their lengths
# those whose end no cheap place shows (a jump to what they call last) are instants
instants = [k for k in counts if not times[k]]
print(f"# {sum(counts[k] for k in instants)} of them are instants: {' '.join(instants)}")
short = [f"{k}: {a} us in the trace, {b} us in the profiler" for k in counts if k not in instants
         for a, b in zip(sorted(times[k]), sorted(own["times"][k])) if a + 1.1 < b]
longest = max((t for k in times for t in times[k]), default=0)
for w in short[:10]:
    print("#", w)
print(f"ok {who}: operators take as long as they do" if not short and len(instants) < len(counts) / 10 and 0 < longest <= (own["to"] - own["from"]) / 1000
      else f"not ok {who}: operators take as long as they do - {len(short)} are too short, {len(instants)} are instants, the longest has {longest} us")

sites = collections.Counter()
with open(f"{tmp}/engines") as f:
    for line in f:
        words = line.split()
        if len(words) > 3 and words[1] == "op" and "at4_ops" in words[3]:
            sites[words[0]] += 1
# their number depends on the release: 2952 in 1.13.1
good = sites["cheap"] > 1000 and not sites["dear"]
print(f"ok {who}: entry points are cheap" if good else f"not ok {who}: entry points are cheap - {dict(sites)}")
sys.exit(bool(wrong) or not counts or not good or bool(short))
PY
}

# shapes NAME TYPES COMMAND...: what runs torch_shapes.py, likewise, and how many types of tensors that has at least
shapes() {
	local dir=$TMP/$1.shapes model
	mkdir -p "$dir"
	cp "$TOP/tests/programs/torch_shapes.py" "$dir"
	spawn model "${@:3}" >"$dir/out" 2>"$dir/model.err"
	wait_until 60 grep -q ready "$dir/out" || sed 's/^/# /' "$dir/model.err"
	recording BG "$1.shapes" --strict --ring-size 64MB --engine pytorch --op-detail -o "$dir/t.json" -o "$dir/t.pftrace" \
		-o "$dir/t.kineto.json" -p "$model"
	touch "$dir/go"
	ended "$1: shapes: recorded, nothing lost" "$BG"
	check "$1: shapes: the program ran" wait "$model"
	check_shown "$1: shapes and types of tensors are PyTorch's" \
		python3 "$TOP/tests/programs/check_shapes.py" "$2" "$dir/trace.json" "$dir/t.kineto.json" "$dir/t.json"
	check "$1: shapes: the .pftrace as the JSON has it" "$TOP/tests/tools/pftrace.py" compare "$dir/t.pftrace" "$dir/t.json"
	check "$1: shapes: valid" "$INFTRACE" validate "$dir/t.json" "$dir/t.kineto.json"
}

operators "PyTorch" "$python" "$TOP/tests/engines/torch_model.py" "$TMP/PyTorch/go" "$TMP/PyTorch/counts"
if [ "$(uname -m)" = x86_64 ]; then
	shapes "PyTorch" 18 "$python" "$TOP/tests/programs/torch_shapes.py" "$TMP/PyTorch.shapes/go" "$TMP/PyTorch.shapes/trace.json"
fi
# Debian's next release has it on CPython 3.14
if [ ! -d "$ENGINES/next-torch" ] && [ ! "$(often '' all)" ]; then
	skip "next PyTorch" "300 MB of packages: with --all"
elif ! root=$(torch_next 2>&1); then
	skip "next PyTorch" "$root"
else
	mkdir "$TMP/next"
	cp "$TOP/tests/engines/torch_model.py" "$TMP/next"
	operators "next" "$TOP/tests/engines/in_root" "$root" "$TMP/next" python3 /mnt/torch_model.py /mnt/go /mnt/counts
	mkdir "$TMP/next.shapes"
	shapes "next" 47 "$TOP/tests/engines/in_root" "$root" "$TMP/next.shapes" python3 /mnt/torch_shapes.py /mnt/go /mnt/trace.json
fi

# in PyTorch's own form, with a Kineto trace of the same calls: what Chakra's trace linker takes, whole at any moment
cat >"$TMP/steps.py" <<'PY'
import sys, threading, torch

def step(a, layer):
    return layer(torch.relu(a).transpose(0, 1).reshape(4, 4)).sum().item()

def work(a, n):
    for _ in range(n):
        step(a, layer)

a, layer = torch.ones(4, 4), torch.nn.Linear(4, 4)
print("ready", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=work, args=(a, 200)) for _ in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("done", flush=True)
work(a, 10**9)
PY
said() { # EXPRESSION: of what kineto.py printed
	tail -n 1 "$TMP/check.out" | python3 -c "import json, sys; e = json.load(sys.stdin); print($1)"
}
coproc STEPS { exec "$python" "$TMP/steps.py" 2>&1; }
steps=$STEPS_PID
exec {from_steps}<&"${STEPS[0]}" {to_steps}>&"${STEPS[1]}"
read -r _ <&"$from_steps"
# pair_started NAME: in the background, as $BG
pair_started() {
	recording BG "$1" --ring-size 64MB --py-step step -o "$TMP/$1.et.json" -o "$TMP/$1.kineto.json" -o "$TMP/$1.kineto.json.gz" -p "$steps"
}
pair_started pair
echo >&"$to_steps"
read -r _ <&"$from_steps"
kill -INT "$BG"
check "pair: is recorded" wait "$BG"
check "pair: is valid" "$INFTRACE" validate "$TMP/pair.et.json" "$TMP/pair.kineto.json" "$TMP/pair.kineto.json.gz"
for f in kineto.json kineto.json.gz; do
	check_shown "pair: $f has the operators, with numbers, names and places" "$TOP/tests/tools/kineto.py" "$TMP/pair.et.json" "$TMP/pair.$f"
	same "pair: of three threads" "$(said 'e["threads"]')" 3
	same "pair: of the process" "$(said 'e["pid"]')" "$steps"
	nodes=$(said 'e["nodes"]')
	check_rc "pair: link finds each of them in $f" 0 "; $nodes of $nodes operators are in .* with their number and name" \
		"$INFTRACE" link --check "$TMP/pair.$f" --et "$TMP/pair.et.json"
done
pair_started killed
wait_until 60 grep -q 'aten::sum' "$TMP/killed.et.json"
wait_until 60 grep -q 'aten::sum' "$TMP/killed.kineto.json"
# reads and kills while a write is under way may see it torn: there are none any more once the program stands still
check "pair: opens while it is recorded, and is valid" wait_until 60 "$INFTRACE" validate "$TMP/killed.et.json" "$TMP/killed.kineto.json" "$TMP/killed.kineto.json.gz"
kill -STOP "$steps"
sizes() {
	stat -c %s "$TMP"/killed.*.json*
}
is_quiet() {
	local before
	before=$(sizes)
	sleep 2
	[ "$(sizes)" = "$before" ]
}
check "pair: nothing more is written" wait_until 60 is_quiet
kill -KILL "$BG"
wait "$BG" 2>/dev/null || true
kill -KILL "$steps"
wait "$steps" 2>/dev/null || true
check "pair: what is left of a killed recording is whole" python3 -c '
import gzip, json, sys
host, kineto, packed = (json.load((gzip.open if name[-1] == "z" else open)(name)) for name in sys.argv[1:])
assert len(host["nodes"]) > 2 and host["pid"] > 0 and any(e["name"] == "aten::sum" for e in kineto["traceEvents"]) and packed["traceEvents"]' \
	"$TMP/killed.et.json" "$TMP/killed.kineto.json" "$TMP/killed.kineto.json.gz"

# As an execution trace: the same calls, within each other and in the same order, as in PyTorch's own.
if command -v protoc >/dev/null; then
	spawn model "$python" "$TOP/tests/engines/torch_model.py" "$TMP/go" "$TMP/et.counts" "$TMP/graph.json" >"$TMP/et.out"
	wait_until 60 grep -q ready "$TMP/et.out"
	recording BG et --strict --ring-size 64MB --py-step Model.forward -o "$TMP/et.et" -o "$TMP/et.et.json" -o "$TMP/et.kineto.json" -p "$model"
	touch "$TMP/go"
	check "execution trace: is recorded" wait "$BG"
	check "execution trace: the model ran" wait "$model"
	check_shown "execution trace: operators as PyTorch nests them, and what they read" "$TOP/tests/tools/et.py" --calls "$TMP/et.et" "$TMP/et.et.json" "$TMP/graph.json"
	check "execution trace: is valid" "$INFTRACE" validate "$TMP/et.et" "$TMP/et.et.json" "$TMP/et.kineto.json"
	nodes=$(sed -n 's/.*et.et: execution trace, \([0-9]*\) nodes.*/\1/p' "$TMP/check.out")
	check "execution trace: in PyTorch's form with a Kineto trace" "$TOP/tests/tools/kineto.py" "$TMP/et.et.json" "$TMP/et.kineto.json"
	same "execution trace: as many operators" "$(said 'e["nodes"]')" "$nodes"
else
	skip "execution trace" "protoc is not installed (apt-get install protobuf-compiler)"
fi

# C++ exceptions that leave operators: the process lives, and the operators after them are as they were
cat >"$TMP/raises.py" <<'PY'
import sys, torch

a, b = torch.zeros(8, 8), torch.zeros(3, 3)
torch.relu(a)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(50):
    try:
        torch.mm(a, b)
    except RuntimeError:
        torch.relu(a)
PY
check "exceptions: the process lives" engine_recorded raises --strict --engine pytorch -e functions -o "$TMP/raises.json" -- \
	"$python" "$TMP/raises.py"
expect "exceptions: operators after them have their times" \
	'[e["dur"] > 0 for e in doc if e["name"] == "relu"] == 50 * [True]' doc="$TMP/raises.json"
check "exceptions: what they left is counted" grep -q '50 functions were left without a return' "$TMP/raises.err"

# thousands of functions that were not called are not named
same "the summary is short" "$(grep -c 'never hit' "$TMP/PyTorch.err")" 0
