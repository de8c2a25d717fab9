#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The preset pytorch on the CPU: every operator that a small model calls is in the trace, and no
# more, as counted by PyTorch's own profiler.

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
for e in trace:
    if e.get("cat") == "op" and own["from"] <= start + round(e["ts"] * 1000) <= own["to"]:
        seen[own["names"].get(e["name"], f"no operator {e['name']}")] += 1
counts = {k: v for k, v in own["counts"].items() if k.startswith("aten::")}
wrong = [f"{k}: {seen[k]} in the trace, {counts.get(k, 0)} in the profiler"
         for k in sorted(set(seen) | set(counts)) if seen[k] != counts.get(k, 0)]
for w in wrong[:10]:
    print("#", w)
print(f"# {sum(counts.values())} calls of {len(counts)} operators")
print(f"not ok calls of each operator - {len(wrong)} differ" if wrong or not counts
      else "ok calls of each operator")

sites = collections.Counter()
with open(f"{tmp}/engines") as f:
    for line in f:
        words = line.split()
        if len(words) > 3 and words[1] == "op" and "at4_ops" in words[3]:
            sites[words[0]] += 1
# their number depends on the release: 2952 in 1.13.1
good = sites["cheap"] > 1000 and not sites["dear"]
print("ok entry points are cheap" if good else f"not ok entry points are cheap - {dict(sites)}")
sys.exit(bool(wrong) or not counts or not good)
PY

# thousands of functions that were not called are not named one by one
same "the summary is short" "$(grep -c 'never hit' "$TMP/err")" 1
