#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Where probes are placed, proved by running them: functions with every kind of beginning, called a
# million times by 8 threads, have every call recorded once with the right arguments and return the
# right values. Functions that are left other than by a return. With and without uprobe_multi links.

. "$(dirname "$0")/../lib.sh"

# traced PRELOAD PRESET COMMAND ARG...: the command's exit code, or 120 when inftrace failed; leaves
# t.json, t.err (of inftrace) and placed.out (of the command) in $TMP. PRELOAD: of inftrace, or "".
traced() {
	local RECORD_BY=(env LD_PRELOAD="$1") target rc=0
	waiting target placed "${@:3}"
	recording BG t --strict -e functions --ring-size 256MB -o "$TMP/t.json" --engine "$2" -p "$target"
	say placed
	wait "$target" || rc=$?
	wait "$BG" || {
		sed 's/^/# /' "$TMP/t.err"
		return 120
	}
	return "$rc"
}

# placed NAME PRELOAD MODE CALLS: every function of libplaced.so, CALLS by each of 8 threads
placed() {
	"$probed/call_placed" -l >"$TMP/list"
	"$TOP/tests/probed/check_placed.py" preset "$3" "$TMP/list" >"$TMP/placed.json"
	check "$1: functions return what they should, nothing is lost" \
		traced "$2" "$TMP/placed.json" "$probed/call_placed" 8 "$4"
	"$TOP/tests/probed/check_placed.py" check "$3" "$TMP/list" "$TMP/t.json" "$TMP/placed.out" |
		sed "s/^\(not ok\|ok\) /&$1: /" || test_failed=1
	same "$1: no frame was stale" "$(grep -c 'left without a return' "$TMP/t.err")" 0
	rm "$TMP/t.json"
}

# count NAME: spans of that name
count() {
	grep -c "\"name\":\"$1\"" "$TMP/t.json" || true
}

# left NAME PRELOAD COUNTS STALE DEEP ARG...: COUNTS: "name=count ..." that the trace must contain;
# STALE, DEEP: what inftrace must count, "" for nothing
left() {
	local name=$1 preload=$2 counts=$3 stale=$4 deep=$5 entry got=
	shift 5
	check "$name: the program runs" traced "$preload" "$TOP/tests/probed/leaving.json" "$probed/leaving" "$@"
	check "$name: spans nest" "$INFTRACE" validate "$TMP/t.json"
	for entry in $counts; do
		got+="${entry%=*}=$(count "${entry%=*}") "
	done
	same "$name: spans" "$got" "$counts "
	same "$name: calls left without a return" \
		"$(sed -n 's/^inftrace: \([0-9]*\) functions were left without.*/\1/p' "$TMP/t.err")" "$stale"
	same "$name: calls nested too deep" \
		"$(sed -n 's/^inftrace: \([0-9]*\) calls were nested too deep.*/\1/p' "$TMP/t.err")" "$deep"
}

# In each round every function but the outer ones is called within the call of the same round.
within() { # NAME OUTER INNER...
	expect "$1: the spans of each round lie in the outer span of that round" \
		'all(o["ts"] <= i["ts"] and i["ts"] + i["dur"] <= o["ts"] + o["dur"] + 1e-6
			for outers in [{e["args"]["n"]: e for e in sorted((e for e in t
				if e["name"] == "'"$2"'" and e["ph"] == "X"), key=lambda e: e["dur"])}]
			for i in t if i["name"] in "'"${*:3}"'".split()
			for o in [outers[i["args"]["n"]]])' t="$TMP/t.json"
}

# with_links KIND PRELOAD CALLS
with_links() {
	local links=$1 preload=$2 calls=$3
	if [ "$(uname -m)" = x86_64 ]; then
		placed "$links: spans" "$preload" spans "$calls"
		placed "$links: instants" "$preload" instants "$calls"
		placed "$links: stack" "$preload" stack 300
	else
		skip "$links: placed" "the functions are written for x86_64"
	fi
	left "$links: recursion" "$preload" "recurse=31000 plain=1000" "" "" recursion 31 1000
	within "$links: recursion" recurse recurse plain
	left "$links: deep recursion" "$preload" "recurse=32000 plain=0" "" 9000 recursion 40 1000
	left "$links: tail calls" "$preload" "first=1000 second=1000 third=1000 plain=1000" "" "" tail 1000
	within "$links: tail calls" first second third plain
	left "$links: mutual tail calls" "$preload" "even=5000 odd=5000" "" "" mutual 9 1000
	left "$links: longjmp" "$preload" "stays=1000 plain=1000 leaves=0 left=0" 2000 "" longjmp 1000
	within "$links: longjmp" stays plain
	left "$links: exceptions" "$preload" "catches=1000 plain=1000 throws=1000" "" "" exception 1000
	within "$links: exceptions" catches plain
}

build_probed

test_multi() {
	with_links multi '' "$(often 300 2300)"
}

test_single() {
	with_links single "$probed/no_uprobe_multi.so" "$(often 150 300)"
}

run_tests "$@"
