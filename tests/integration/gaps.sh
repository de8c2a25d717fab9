#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Who causes the time between steps: things of known lengths in their way, in other threads and processes.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/programs/programs.sh"
need python3 node
PLANTS=(none spin sleep lock upstream unix pipe client child stop faults)
cd "$TMP" || exit # for the file that is read cold

step_engine gaps

# Each plant 20 times. On a busy machine something else may be in the way, such as a wait for a CPU meanwhile: at a load of 15, of two
# of 20.
test_planted() {
	"$INFTRACE" record --engine "$TMP/gaps.engine.json" --profile "$TMP/planted.jsonl" -- \
		"$PROGRAMS/gaps" 20 "${PLANTS[@]}" >"$TMP/truth" 2>"$TMP/err" || not_ok "recorded" "$(cat "$TMP/err")"
	check "every gap has its cause" "$TOP/tests/programs/check_gaps.py" --most 0.8 "$TMP/planted.jsonl" "$TMP/truth"
	check "valid" "$INFTRACE" validate "$TMP/planted.jsonl"
	"$INFTRACE" report --json "$TMP/planted.jsonl" >"$TMP/report"
	# "other processes" if the rest, such as the faults on a machine where these are dear, takes a hundred times as long
	check "the report names other processes" grep -q 'upstream ([0-9a-z ]*): blocked_sleep in clock_nanosleep' "$TMP/report"
	check "and the one that read late" grep -q 'late reader ([0-9a-z ]*): blocked_sleep in clock_nanosleep' "$TMP/report"
	check "short processes are one cause" grep -q '"name":"gaps (other processes): cpu"' <("$INFTRACE" report --json "$TMP/planted.jsonl")
}

# The same in the steps themselves: who made their thread wait.
test_within() {
	local plants=(sleep lock upstream unix pipe client child stop)
	"$INFTRACE" record --engine "$TMP/gaps.engine.json" --profile "$TMP/within.jsonl" -o "$TMP/within.json" -- \
		"$PROGRAMS/gaps" 20 within "${plants[@]}" >"$TMP/truth" 2>"$TMP/err" || not_ok "recorded" "$(cat "$TMP/err")"
	check "every wait has its cause" "$TOP/tests/programs/check_gaps.py" --within --most 0.8 "$TMP/within.jsonl" "$TMP/truth"
	check "valid" "$INFTRACE" validate "$TMP/within.jsonl"
	"$INFTRACE" report "$TMP/within.jsonl" >"$TMP/report"
	check "all of them by cause" grep -q 'late reader ([0-9]*): blocked_sleep in clock_nanosleep' <(sed -n '/^Within steps:/,$p' "$TMP/report")
	check "on the track" node "$TOP/tests/tools/check_chrome_trace.mjs" "$TMP/within.json"
	"$INFTRACE" record --engine "$TMP/gaps.engine.json" --profile "$TMP/lock.jsonl" -- "$PROGRAMS/gaps" 20 within none none none lock >/dev/null 2>"$TMP/err" ||
		not_ok "recorded" "$(cat "$TMP/err")"
	check "a slow step's sentence names who was in the way" grep -qE 'waited [0-9.]+ ms for a lock, [0-9.]+ ms of it by .holder: ' <("$INFTRACE" report -n 100 "$TMP/lock.jsonl")
}

# What takes a disk, and a limit of the cgroup, each 20 times. Without a disk below TMPDIR the file is never cold.
test_kernel() {
	local plants=(none)
	if [ "$(stat -fc %T "$TMP")" = tmpfs ]; then
		skip "cold" "$TMP is in memory"
	else
		plants+=(cold)
	fi
	if limited=$(cpu_limit_make 2000 10000); then
		plants+=(limit)
	else
		skip "limit" "no cgroup with a CPU limit can be made"
	fi
	GAPS_LIMITED=$limited GAPS_FREE=$(dirname "$limited") "$INFTRACE" record --engine "$TMP/gaps.engine.json" \
		--profile "$TMP/kernel.jsonl" -- "$PROGRAMS/gaps" 20 "${plants[@]}" >"$TMP/truth" 2>"$TMP/err" || not_ok "recorded" "$(cat "$TMP/err")"
	[ -z "$limited" ] || rmdir "$limited"
	check "the disk and the limit" "$TOP/tests/programs/check_gaps.py" --most 0.8 "$TMP/kernel.jsonl" "$TMP/truth"
	"$INFTRACE" report "$TMP/kernel.jsonl" >"$TMP/report"
	if [[ " ${plants[*]} " == *" cold "* ]]; then
		check "and the file" grep -qE "gaps: blocked_io in read of $(basename "$TMP")/gaps-......\$" "$TMP/report"
		"$INFTRACE" record --no-names --engine "$TMP/gaps.engine.json" --profile "$TMP/none.jsonl" -- "$PROGRAMS/gaps" 2 cold >/dev/null 2>"$TMP/err" ||
			not_ok "--no-names: recorded" "$(cat "$TMP/err")"
		same "--no-names: no file" "$(grep -c _file "$TMP/none.jsonl")" 0
	fi
	# in the report it shares a row with the waits for a CPU, and on a busy machine these may be longer
	[ -z "$limited" ] || check "the limit is named" grep -q '_behind":"cpu.max"' "$TMP/kernel.jsonl"
}

# Before each step a thread sleeps, and wakes the first of 10,000 that wake one another: each has its time, and the longest a name. The
# logs of a busy machine may not reach back that far, which is said then.
test_chain() {
	"$PROGRAMS/gaps" 1 chain >/dev/null 2>"$TMP/err" || { skip "chain" "not so many threads are allowed here: $(tail -n 1 "$TMP/err")"; return; }
	"$INFTRACE" record --engine "$TMP/gaps.engine.json" --profile "$TMP/chain.jsonl" -- "$PROGRAMS/gaps" 3 chain >"$TMP/truth" 2>"$TMP/err" ||
		not_ok "recorded" "$(cat "$TMP/err")"
	check "a chain: the parts are all of each gap" "$TOP/tests/programs/check_gaps.py" --sums "$TMP/chain.jsonl"
	expect "a chain: who slept at its begin" '(lambda long: len(long) == 3 and all("path_unknown_us" in s or any(
		(s.get(f"path{i}_state"), str(s.get(f"path{i}_tid"))) == ("blocked_sleep", t[0].split()[1]) and s[f"path{i}_us"] >= 300000 for i in range(1, 5)) for s in long))(
		[x["shape"] for x in p if x["event"] == "token_prof" and x["shape"].get("gap_us", 0) > 300000])' p="$TMP/chain.jsonl" t=<(sed 's/.*/"&"/' "$TMP/truth")
}

# Sockets whose peer does not answer, ten of each kind.
test_peers() {
	local peer
	"$INFTRACE" record --engine "$TMP/gaps.engine.json" -o "$TMP/peers.json" --profile "$TMP/peers.jsonl" -- \
		"$PROGRAMS/gaps" 40 silent >"$TMP/truth" 2>"$TMP/err" || not_ok "recorded" "$(cat "$TMP/err")"
	check "the peers" "$TOP/tests/programs/check_gaps.py" --most 0.8 "$TMP/peers.jsonl" "$TMP/truth"
	check "valid" "$INFTRACE" validate "$TMP/peers.jsonl" "$TMP/peers.json"
	check "in the track" grep -qF "\"peer\":\"$(grep -m1 -o '127\.0.*' "$TMP/truth")\"" "$TMP/peers.json"
	"$INFTRACE" report "$TMP/peers.jsonl" >"$TMP/report"
	for peer in 'silent ".*' '127\.0.*' '\[::1.*'; do
		if grep -q "$peer" "$TMP/truth"; then
			check "in the report: $peer" grep -qF "in recvfrom from $(grep -m1 -o "$peer" "$TMP/truth")" "$TMP/report"
		else
			skip "in the report: $peer" "no IPv6"
		fi
	done
	"$INFTRACE" record --no-names --engine "$TMP/gaps.engine.json" --profile "$TMP/none.jsonl" -- "$PROGRAMS/gaps" 8 silent >/dev/null 2>"$TMP/err" ||
		not_ok "--no-names: recorded" "$(cat "$TMP/err")"
	same "--no-names: no peer" "$(grep -c _peer "$TMP/none.jsonl")" 0
}

# An asynchronous server in Python, each 20 times: a callback that blocks the loop, a timer, a garbage collection.
test_asyncio() {
	"$INFTRACE" record --py-step "$TOP/tests/programs/asyncio_gaps.py:step" -e +stacks --profile "$TMP/asyncio.jsonl" -- \
		/usr/bin/python3 "$TOP/tests/programs/asyncio_gaps.py" 20 none sleep timer collection >"$TMP/truth" 2>"$TMP/err" ||
		not_ok "recorded" "$(cat "$TMP/err")"
	check "the loop of an asynchronous server" "$TOP/tests/programs/check_gaps.py" --most 0.8 "$TMP/asyncio.jsonl" "$TMP/truth"
	expect "the callback that blocks it is named, with its task" \
		'len([s for s in p if s["event"] == "token_prof" and s["shape"].get("path1_in", "").find(" from sleep (asyncio_gaps.py:") > 0 and
			s["shape"]["path1_in"].endswith(" in [task orders]")]) >= 16' p="$TMP/asyncio.jsonl"
}

# ordered NAME COMMAND...: an engine whose steps that server orders, each plant 20 times; only the engine is recorded. Tried again if other
# work was in the way: in a whole run of the tests, three of 20.
ordered() {
	local server tracer try
	for try in 1 2 3; do
		rm -f "$TMP/$1.jsonl"
		waiting server "$@"
		recording tracer "$1" --engine "$TMP/gaps.engine.json" --profile "$TMP/$1.jsonl" -p "$(head -n 1 "$TMP/$1.out")" || return 0
		say "$1" go
		wait "$server" && wait "$tracer" || not_ok "$1: recorded" "$(tail -n 3 "$TMP/$1.log" "$TMP/$1.err")"
		sed '1,/^ready/d' "$TMP/$1.out" >"$TMP/truth"
		! "$TOP/tests/programs/check_gaps.py" --most 0.9 "$TMP/$1.jsonl" "$TMP/truth" >"$TMP/$1.gaps" || break
		echo "# $1: try $try: $(tail -n 1 "$TMP/$1.gaps")"
	done
	check "$1" "$TOP/tests/programs/check_gaps.py" --most 0.9 "$TMP/$1.jsonl" "$TMP/truth"
}

tid() { # PLANT
	awk -v p="$1" '$1 == p { print $2; exit }' "$TMP/truth"
}

# A garbage collection in node.
test_node() {
	command -v node >/dev/null || { skip "node" "node is not installed" && return; }
	ordered node node --expose-gc --single-threaded-gc "$TOP/tests/programs/node_gaps.mjs" "$PROGRAMS/gaps" 20 none collection
}

# A server of two processes, as vLLM is, and one that they ask: who of them was in the way.
test_processes() {
	ordered processes /usr/bin/python3 "$TOP/tests/programs/api_gaps.py" "$PROGRAMS/gaps" 20 none spin sleep tokenizer
	"$INFTRACE" report "$TMP/processes.jsonl" >"$TMP/report"
	check "the report names the process that ordered the steps" grep -q "python3 ($(tid sleep)): blocked_sleep in clock_nanosleep" "$TMP/report"
	check "and the one that was asked" grep -q "python3 ($(tid tokenizer)): cpu" "$TMP/report"
}

# The tracks have the same gaps: see check_gaps.py --track.
test_tracks() {
	"$INFTRACE" record --engine "$TMP/gaps.engine.json" -o "$TMP/tracks.json" -o "$TMP/tracks.pftrace" --profile "$TMP/tracks.jsonl" -- \
		"$PROGRAMS/gaps" 5 "${PLANTS[@]}" >"$TMP/out" 2>"$TMP/err" || not_ok "recorded" "$(cat "$TMP/err")"
	check "the track has the gaps and causes of the profile" "$TOP/tests/programs/check_gaps.py" --track "$TMP/tracks.json" "$TMP/tracks.jsonl"
	check "the .pftrace as the JSON has it" "$TOP/tests/tools/pftrace.py" compare "$TMP/tracks.pftrace" "$TMP/tracks.json"
	check "valid" "$INFTRACE" validate "$TMP/tracks.json"
}

# In windows, the first step of each has no gap.
test_windows() {
	"$INFTRACE" record --engine "$TMP/gaps.engine.json" --window every=300ms,for=150ms --output-dir "$TMP/windows" -- \
		"$PROGRAMS/gaps" 60 spin sleep lock >"$TMP/out" 2>"$TMP/err" || not_ok "recorded" "$(cat "$TMP/err")"
	check "gaps are between the steps of a window" "$TOP/tests/programs/check_gaps.py" --sums "$TMP"/windows/profile_*.jsonl
}

run_tests "$@"
