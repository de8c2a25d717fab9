#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The preset pytorch on the CPU: every operator that a small model calls is in the trace, and no
# more, as counted by PyTorch's own profiler, and takes at least as long as that says; also after exceptions.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
need_root

# an interpreter of another origin may be first in PATH
python=
for p in python3 /usr/bin/python3; do
	if "$p" -c 'import torch' 2>/dev/null; then
		python=$p
		break
	fi
done
[ "$python" ] || skip_all "python3-torch is not installed (apt-get install --no-install-recommends python3-torch)"

# operators NAME COMMAND...: what runs torch_model.py, with $TMP at /mnt or as it is, and its files in $TMP/NAME
operators() {
	local dir=$TMP/$1 model rc=0
	mkdir -p "$dir"
	background "${@:2}" >"$dir/out" 2>"$dir/model.err"
	model=$BG
	wait_until 60 grep -q ready "$dir/out" || sed 's/^/# /' "$dir/model.err"
	"$INFTRACE" engines -p "$model" >"$dir/engines"
	background "$INFTRACE" record --strict --ring-size 64MB -o "$dir/t.json" -p "$model" 2>"$dir/err"
	wait_until 60 grep -q '^inftrace: recording' "$dir/err"
	touch "$dir/go"
	wait "$BG" || rc=$?
	same "$1: recorded, nothing lost" "$rc" 0
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

operators "PyTorch" "$python" "$TOP/tests/engines/torch_model.py" "$TMP/PyTorch/go" "$TMP/PyTorch/counts"
# Debian's next release has it on CPython 3.14
if [ ! -d "$ENGINES/next-torch" ] && [ ! "$(often '' all)" ]; then
	skip "next PyTorch" "300 MB of packages: with --all"
elif ! root=$(torch_next 2>&1); then
	skip "next PyTorch" "$root"
else
	mkdir "$TMP/next"
	cp "$TOP/tests/engines/torch_model.py" "$TMP/next"
	operators "next" "$TOP/tests/engines/in_root" "$root" "$TMP/next" python3 /mnt/torch_model.py /mnt/go /mnt/counts
fi

# As an execution trace: the same calls, within each other and in the same order, as in PyTorch's own.
if command -v protoc >/dev/null; then
	background "$python" "$TOP/tests/engines/torch_model.py" "$TMP/go" "$TMP/et.counts" "$TMP/graph.json" >"$TMP/et.out"
	model=$BG
	wait_until 60 grep -q ready "$TMP/et.out"
	background "$INFTRACE" record --strict --ring-size 64MB --py-step Model.forward -o "$TMP/et.et" -p "$model" 2>"$TMP/et.err"
	wait_until 60 grep -q '^inftrace: recording' "$TMP/et.err"
	touch "$TMP/go"
	check "execution trace: is recorded" wait "$BG"
	check "execution trace: the model ran" wait "$model"
	check "execution trace: operators as PyTorch nests them" "$TOP/tests/tools/et.py" --calls "$TMP/et.et" "$TMP/graph.json"
	sed 's/^/# /' "$TMP/check.out"
	check "execution trace: is valid" "$INFTRACE" validate "$TMP/et.et"
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
same "the summary is short" "$(grep -c 'never hit' "$TMP/PyTorch/err")" 0
