#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# inftrace print, as a command: its files and options. What the lines are is in tests/unit/test_print.c.

. "$(dirname "$0")/../lib.sh"

GOLDEN=$TOP/tests/golden

need python3
cd "$TMP" || exit

# starts FILE: the start of each event of a trace, as they are to be printed
starts() {
	python3 - "$1" <<-'PY'
		import gzip, json, sys
		data = open(sys.argv[1], "rb").read()
		text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode().strip().rstrip(",")
		events = json.loads(text if text.endswith(("]", "}")) and text[0] != "[" or text.endswith("]") else text + "]")
		events = events["traceEvents"] if isinstance(events, dict) else events
		for ts in sorted(round(e["ts"] * 1000) for e in events if e["ph"] != "M"):
		    print(f"{ts // 10**9}.{ts % 10**9:09d}")
	PY
}

test_files() {
	local file
	for file in trace_good.json trace_cut_comma.json trace_members.json.gz trace_object.json kineto.json.gz; do
		check "$file: printed" "$INFTRACE" print "$GOLDEN/$file"
		same "$file: all events, in their order" "$(awk '{ print $1 }' check.out)" "$(starts "$GOLDEN/$file")"
	done
	check_rc "standard input" 0 'worker A é/4243 +syscall futex  ret=ENOENT dur=20.000us$' sh -c "'$INFTRACE' print - <'$GOLDEN/trace_good.json'"
	check_rc "several files: their names" 0 "^==> $GOLDEN/profile_good.jsonl <==" "$INFTRACE" print "$GOLDEN"/{trace,profile}_good.json*
	same "several files: all lines" "$(wc -l <check.out)" \
		$(($("$INFTRACE" print "$GOLDEN/trace_good.json" | wc -l) + $("$INFTRACE" print "$GOLDEN/profile_good.jsonl" | wc -l) + 3))
}

# What is there is printed, and one line says what is not.
test_damaged() {
	local file
	for file in trace_cut_inside.json trace_cut_member.json.gz; do
		check_rc "$file: said" 1 "^inftrace: .*$file: line [0-9]+: .*; what can be read is printed" "$INFTRACE" print "$GOLDEN/$file"
		check_rc "$file: printed" 1 '^ +0\.[0-9]{9}  \[---\]  .*/4242 ' "$INFTRACE" print "$GOLDEN/$file"
	done
	printf '\n\x12\x08\x01' >x.pftrace
	check_rc "a .pftrace" 1 'x.pftrace: is not JSON .*traceconv json' "$INFTRACE" print x.pftrace
	check_rc "no such file" 1 'inftrace: none: cannot open: No such file' "$INFTRACE" print none "$GOLDEN/trace_good.json"
	check_rc "no such file: the other one is printed" 1 'step decode' "$INFTRACE" print none "$GOLDEN/trace_good.json"
	check_rc "a full disk" 1 'cannot write to the standard output' sh -c "'$INFTRACE' print '$GOLDEN/trace_good.json' >/dev/full"
}

test_last() {
	local last
	"$INFTRACE" print "$GOLDEN/trace_good.json" >all
	check "--last 3" "$INFTRACE" print --last 3 "$GOLDEN/trace_good.json"
	same "--last 3: those" "$(cat check.out)" "$(tail -n 3 all)"
	check "--last 21us" "$INFTRACE" print -n 21us "$GOLDEN/trace_good.json"
	same "--last 21us: what ended then, or later" "$(cat check.out)" "$(grep -vE 'inftrace_clock|mul_mat|ph=s' all)"
	for last in 0 x 2x 0s; do
		check_rc "--last $last" 2 "^inftrace: --last: '$last' is not a number or time; write 20 for so many, or 2s" "$INFTRACE" print --last "$last" all
	done
	check_rc "no file" 2 'no FILE given' "$INFTRACE" print
}

run_tests "$@"
