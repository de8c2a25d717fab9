#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The tracks of CPUs show the current names of threads that are not recorded: after a rename, after an exec,
# and of those that live for a moment.

. "$(dirname "$0")/../lib.sh"

cp /bin/sh "$TMP/inf-executed"
cat >"$TMP/stranger.sh" <<-'SH'
	printf inf-first >/proc/self/comm
	while [ ! -e "$1/go" ]; do sleep 0.01; done
	printf inf-second >/proc/self/comm
	while [ ! -e "$1/exec" ]; do sleep 0.01; done
	exec "$1/inf-executed" -c 'for i in $(seq 400); do ( printf inf-short$i >/proc/self/comm; : ); done; : >"$0/done"' "$1"
SH

seen() { # NAME
	grep -q "\"name\":\"$1\",\"cat\":\"cpu\"" "$TMP/t.json"
}

spawn target sleep 1000
background sh "$TMP/stranger.sh" "$TMP"
recording BG t -e cpu,sched --engine none -o "$TMP/t.json" -o "$TMP/t.pftrace" -p "$target"
check "the name that it had before" wait_until 60 seen inf-first
: >"$TMP/go"
check "a rename is followed" wait_until 60 seen inf-second
: >"$TMP/exec"
wait_until 60 test -e "$TMP/done"
check "an exec is followed" wait_until 60 seen inf-executed
short() {
	test "$(grep -o '"name":"inf-short[0-9]*","cat":"cpu"' "$TMP/t.json" | sort -u | wc -l)" = 400
}
check "so are those that live for a moment" wait_until 60 short
kill -INT "$BG"
wait "$BG" || true
expect "none of them is a thread of the trace" \
	'not any(e.get("cat") == "task" and str(e["args"]["comm"]).startswith("inf-") for e in t)' t="$TMP/t.json"
check "valid" "$INFTRACE" validate "$TMP/t.json"
for name in inf-second inf-executed inf-short; do
	check ".pftrace: $name" grep -qa "$name" "$TMP/t.pftrace"
done
