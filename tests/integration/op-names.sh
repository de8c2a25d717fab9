#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The names of operators in a file of an engine apply only to processes that have mapped that file:
# with -a anybody can be the first to map one that claims to be the engine's.

. "$(dirname "$0")/../lib.sh"
need cc
cd "$TMP" || exit

cat >lib.c <<-'C'
	const char *const OP_NAME[] = { "none", FIRST, SECOND };
	__attribute__((noinline)) int run_op(int op)
	{
		__asm__ volatile("");
		return op;
	}
C
cat >main.c <<-'C'
	#include <signal.h>
	#include <sys/prctl.h>
	#include <unistd.h>
	int run_op(int op);
	int main(void)
	{
		if (FORKS && fork())
			return pause();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			run_op(1);
			run_op(2);
			usleep(1000);
		}
	}
C
cat >preset.json <<-'JSON'
	{ "name": "names", "version": 1, "match": { "mapped": ["libnames.so"] },
	  "enums": { "op": { "table_symbol": "OP_NAME", "names": ["none", "preset1", "preset2"] } },
	  "probes": [ { "library": "libnames.so", "symbol": "run_op", "role": "op", "args": { "op": "op arg1" }, "name": "$op" } ] }
JSON
# runs NAME FIRST SECOND FORKS: its pid is in BG
runs() {
	mkdir "$1"
	cc -O1 -shared -fPIC -DFIRST="\"$2\"" -DSECOND="\"$3\"" -o "$1/libnames.so" lib.c
	cc -O1 -DFORKS="$4" -o "$1/main" main.c -L"$1" -lnames -Wl,-rpath,"$TMP/$1"
	background "$1/main"
}
runs hostile mul_mat nothing 0
hostile=$BG
runs engine add mul_mat 0
engine=$BG

# ops PID FILE: the names of its slices
ops() {
	json 'sorted({e["name"] for e in t if e.get("ph") == "X" and e["pid"] == '"$1"' and e["name"] not in ("run_op",)})' \
		t="$2"
}
seen() { # FILE: both have called
	"$INFTRACE" record -q --engine "$TMP/preset.json" -e functions -o "$1" "${@:2}"
}
seen all.json -a -d 1s
same "-a: the one that was there first" "$(ops "$hostile" all.json)" '["mul_mat", "nothing"]'
same "-a: the other one" "$(ops "$engine" all.json)" '["add", "mul_mat"]'
seen two.json -p "$hostile,$engine" -d 1s
same "-p: the one that was there first" "$(ops "$hostile" two.json)" '["mul_mat", "nothing"]'
same "-p: the other one" "$(ops "$engine" two.json)" '["add", "mul_mat"]'

runs forks sub div 1
wait_until 60 pgrep -P "$BG" >child || not_ok "a child" "none"
runs late scale cpy 0
seen child.json -a -d 1s
same "a child has what its parent had" "$(ops "$(cat child)" child.json)" '["div", "sub"]'
mkdir dumps
background "$INFTRACE" record --engine "$TMP/preset.json" -e functions -p "$hostile,$engine" \
	--flight-recorder 8MB --output-dir dumps 2>flight.log
wait_until 60 grep -q 'flight recorder on' flight.log || not_ok "flight recorder" "$(tail -n 1 flight.log)"
sleep_calls() { # until it has some
	"$INFTRACE" status -p "$BG" --json | grep -qE '"records":[0-9]{3}'
}
wait_until 60 sleep_calls || not_ok "flight recorder: has records" "none"
kill -USR1 "$BG"
wait_until 60 grep -q 'written in' flight.log || not_ok "flight recorder: dumps" "$(tail -n 1 flight.log)"
same "flight recorder: the one" "$(ops "$hostile" dumps/trace_pid"$hostile"_*.json)" '["mul_mat", "nothing"]'
same "flight recorder: the other one" "$(ops "$engine" dumps/trace_pid"$engine"_*.json)" '["add", "mul_mat"]'
