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

background "$python" "$TOP/tests/engines/torch_model.py" "$TMP/go" "$TMP/counts" >"$TMP/out" 2>"$TMP/model.err"
model=$BG
wait_until 60 grep -q ready "$TMP/out" || sed 's/^/# /' "$TMP/model.err"
"$INFTRACE" engines -p "$model" >"$TMP/engines"
background "$INFTRACE" record --strict --ring-size 64MB -o "$TMP/t.json" -p "$model" 2>"$TMP/err"
wait_until 60 grep -q '^inftrace: recording' "$TMP/err"
touch "$TMP/go"
rc=0
wait "$BG" || rc=$?
same "recorded, nothing lost" "$rc" 0
check "the model ran" wait "$model"

python3 - "$TMP" <<'PY' || test_failed=1
import collections, json, sys

tmp = sys.argv[1]
with open(f"{tmp}/counts") as f:
    own = json.load(f)
with open(f"{tmp}/t.json") as f:
    trace = json.load(f)
start = next(int(e["args"]["boottime_ns"]) for e in trace if e["name"] == "inftrace_clock")
seen = collections.Counter()
times = collections.defaultdict(list)
for e in trace:
    if e.get("cat") == "op" and own["from"] <= start + round(e["ts"] * 1000) <= own["to"]:
        name = own["names"].get(e["name"], f"no operator {e['name']}")
        seen[name] += 1
        times[name].append(e.get("dur", 0))
counts = {k: v for k, v in own["counts"].items() if k.startswith("aten::")}
wrong = [f"{k}: {seen[k]} in the trace, {counts.get(k, 0)} in the profiler"
         for k in sorted(set(seen) | set(counts)) if seen[k] != counts.get(k, 0)]
for w in wrong[:10]:
    print("#", w)
print(f"# {sum(counts.values())} calls of {len(counts)} operators")
print(f"not ok calls of each operator - {len(wrong)} differ" if wrong or not counts
      else "ok calls of each operator")

# the profiler's part of a call lies within it; if that is so for each, it is so for them in the order of their lengths
short = [f"{k}: {a} us in the trace, {b} us in the profiler" for k in counts
         for a, b in zip(sorted(times[k]), sorted(own["times"][k])) if a + 1.1 < b]
longest = max((t for k in times for t in times[k]), default=0)
for w in short[:10]:
    print("#", w)
print("ok operators take as long as they do" if not short and 0 < longest <= (own["to"] - own["from"]) / 1000
      else f"not ok operators take as long as they do - {len(short)} are too short, the longest has {longest} us")

sites = collections.Counter()
with open(f"{tmp}/engines") as f:
    for line in f:
        words = line.split()
        if len(words) > 3 and words[1] == "op" and "at4_ops" in words[3]:
            sites[words[0]] += 1
# their number depends on the release: 2952 in 1.13.1
good = sites["cheap"] > 1000 and not sites["dear"]
print("ok entry points are cheap" if good else f"not ok entry points are cheap - {dict(sites)}")
sys.exit(bool(wrong) or not counts or not good or bool(short))
PY

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

# thousands of functions that were not called are not named one by one
same "the summary is short" "$(grep -c 'never hit' "$TMP/err")" 1
