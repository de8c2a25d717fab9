#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Threads that work on a step for another one: where their time went, and who was late.

. "$(dirname "$0")/../lib.sh"
need python3 node
. "$TOP/tests/programs/programs.sh"

p=$PROGRAMS/crews
cat >"$TMP/crews-engine.json" <<END
{
  "name": "crews",
  "match": { "mapped": ["crews"] },
  "probes": [
    { "symbol": "work", "role": "step", "args": { "crew": "s32 arg2", "round": "s32 arg3" } },
    { "symbol": "meet", "role": "barrier", "group": "ptr arg1" }
  ]
}
END
# The same, seen once by each thread as it arrives: gcc makes a lock xadd, a comparison and a jne of it.
sed '/"meet"/s/}$/, "past_early_return": true }/' "$TMP/crews-engine.json" >"$TMP/crews-once.json"
engine=$TMP/crews-engine.json

# crews NAME CREWS WORKERS ROUNDS keep|renew
crews() {
	local name=$1
	crews_judged "$name" "$name: the latecomer of each round, why, for how long; sums of each crew apart" "$3" \
		record_attached "$name" --engine "$engine" -- "${AHEAD[@]}" "$p" "${@:2}" || return 0
	check "$name: the breakdown of each step, to the nanosecond, from its spans" \
		"$CHECK" breakdown "$TMP/$name.json" "$TMP/$name.jsonl"
	[ "$2-$3" != 1-1 ] || [ "$5" = renew ] ||
		check "$name: the worker's breakdown, to the nanosecond, from its spans" \
			"$CHECK" workers "$TMP/$name.json" "$TMP/$name.jsonl"
}

crews pair 1 1 40 keep
crews crew 1 3 40 keep
crews crews 3 2 40 keep
crews crew-renewed 1 3 40 renew
crews crews-renewed 3 2 40 renew

# seen_once NAME: one thread is the last at each of 200 meetings and does not wait; others may come as it does
seen_once() {
	expect "$1: each thread is at each meeting, and one of four does not wait there" \
		'[e["dur"] == 0 for e in t if e["name"] == "meet"].count(False) + 200 <= 800 == sum(e["name"] == "meet" for e in t)' \
		t="$TMP/$1.json"
}

if [ "$(uname -m)" = x86_64 ]; then
	engine=$TMP/crews-once.json
	crews pair-once 1 1 40 keep
	crews crew-once 1 3 40 keep
	seen_once crew-once
	crews crews-once-renewed 3 2 40 renew
else
	skip "crews seen once by each thread" "the place is looked for on x86_64"
fi

# Threads that share tracks are all there, each apart from the others; and the trace is the same as the one that has a
# track for each.
check_shared() { # NAME
	expect "$1: threads of a process whose threads do not last share tracks" \
		's["on_lanes"] == s["late"] and s["lanes"] <= 64 and 2 * s["elsewhere"] <= s["late"]' \
		s=last:<(python3 "$TOP/tests/tools/lanes.py" "$TMP/$1.json")
	check "$1: the same slices, calls and arrows of each thread as in the .pftrace" \
		python3 "$TOP/tests/tools/pftrace.py" compare "$TMP/$1.pftrace" "$TMP/$1.json"
}

# many short-lived ones, side by side
name=crews-shared
record "$name" --engine "$TMP/crews-engine.json" -o "$TMP/$name.pftrace" -- "$p" 3 2 40 renew && {
	check_shared "$name"
	expect "$name: fewer shared tracks than threads on them" '0 < s["lanes"] < s["on_lanes"]' \
		s=last:<(python3 "$TOP/tests/tools/lanes.py" "$TMP/$name.json")
}

# real ones, with and without a pool of threads
if (need_llama) >/dev/null 2>&1; then
	need_llama
	delay=(-d 3000) # the probes are in place 10 ms after a library is mapped
	for threads in 2 3; do
		name=llama-pool-$threads
		record "$name" -- "$DRIVER" -n 8 -t "$threads" -P 50 -q "${delay[@]}" "${MODEL_ARGS[@]}" || continue
		expect "$name: workers" \
			'{e["shape"]["workers"] for e in p if e["event"] == "token_prof"} == {'"$((threads - 1))"'}' \
			p="$TMP/$name.jsonl"
		[ "$threads" -ne 2 ] || check "$name: the worker's breakdown, to the nanosecond, from its spans" \
			"$CHECK" workers "$TMP/$name.json" "$TMP/$name.jsonl"
	done
	name=llama-anew
	record "$name" -- "$DRIVER" -n 8 -t 2 -q "${delay[@]}" "${MODEL_ARGS[@]}" &&
		expect "$name: a worker of each step, though it is a new thread" \
			'[e["shape"]["workers"] for e in p if e["event"] == "token_prof"] == [1] * 9' \
			p="$TMP/$name.jsonl"
	# of some twenty threads: each that is born after eight short-lived ones is on a shared track
	name=llama-shared
	record "$name" -o "$TMP/$name.pftrace" -- "$DRIVER" -n 20 -t 2 -q "${delay[@]}" "${MODEL_ARGS[@]}" &&
		check_shared "$name"
else
	skip "workers of llama.cpp" "no llama.cpp here"
fi

traces_check
