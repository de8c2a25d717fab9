#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Each kind of trigger fires at what it is for, each time, and at nothing else; the dump has it.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/programs/programs.sh"
. "$TOP/tests/robust/common.sh"
CHECK_DUMPS=$TOP/tests/programs/check_dumps.py

# fly NAME OPTION... -- ARG...: the engine with these arguments, and a flight recorder; the exit code is
# in rc.
fly() {
	local name=$1
	args_split "${@:2}"
	rc=0
	"$INFTRACE" record --engine "$TMP/stalls.engine.json" --flight-recorder 64MB --output-dir "$TMP/$name" \
		"${BEFORE[@]}" -- "$PROGRAMS/stalls" pause=500 "${BEHIND[@]}" </dev/null >"$TMP/$name.out" 2>"$TMP/$name.err" ||
		rc=$?
}

# each_time NAME EXPR PLANTED ARG...: it fires whenever EXPR is true, which is at least PLANTED times
# (more on a busy machine, on which anything can take long)
each_time() {
	local name=$1 expr=$2 planted=$3 refused
	shift 3
	fly "$name" --trigger-cooldown 0 --trigger "$expr" --trigger exit -- "$@"
	# where others use the CPUs and the disk, dumps may come faster than they are written
	refused=$(grep -cF "too many dumps are waiting already; no dump for $expr: " "$TMP/$name.err" || true)
	check "$name" "$CHECK_DUMPS" all "$TMP/$name" "$expr" "$planted" "$refused"
}

need python3
step_engine stalls

# Steps.
test_steps() {
	each_time step 'step>150ms' 50 repeat=50 prefill=5 decode=3 decode=3 stall=160 pause=20
	each_time decode 'decode>50ms' 3 repeat=3 prefill=100 decode=3 stall=60 pause=20
	each_time prefill 'prefill>50ms' 3 repeat=3 prefill=60 decode=3 stall=100 pause=20
	each_time state 'blocked_sleep>50ms' 3 repeat=3 prefill=100 decode=100 stall=60 pause=20
	each_time blocked 'blocked>50ms' 3 repeat=3 prefill=100 decode=100 stall=60 pause=20
	each_time cpu 'cpu>50ms' 3 repeat=3 stall=200 decode=80 pause=20
}

# Between steps: only the pause before the first step is not between two.
test_gaps() {
	fly gap --trigger-cooldown 0 --trigger 'gap>150ms' -- decode=5 decode=5 pause=200 decode=5 pause=20 decode=5 pause=200 decode=5 pause=1000
	dumps gap 2 'gap>150ms: step [24] of pid [0-9]+ began [0-9.]+ ms after the one before it, [0-9.]+ ms of that stalls \(blocked_sleep\)'
}

# Requests and rates.
test_requests() {
	# the parts of a prompt together, none of them alone
	each_time ttft 'ttft>200ms' 3 repeat=3 prefill=80 prefill=80 prefill=80 decode=5 decode=5 pause=20
	each_time ttft-fast 'ttft>200ms' 0 repeat=3 prefill=5 decode=5 stall=300 pause=20
	# 10 tokens a second; 200; and some between prompts
	each_time rate 'rate<20' 3 repeat=35 decode=5 pause=100
	each_time rate-fast 'rate<20' 0 repeat=400 decode=5
	each_time rate-idle 'rate<20' 0 repeat=10 prefill=10 decode=5 pause=300
}

# The end of a process.
test_ends() {
	for end in 'exit=0 0 exit ended with exit code 0' 'exit=3 3 exit ended with exit code 3' \
		'kill=9 137 crash was killed by SIGKILL' 'kill=15 143 crash was killed by SIGTERM' \
		'kill=11 139 crash was killed by SIGSEGV(, core dumped)?'; do
		read -r how code event text <<<"$end"
		name=${how/=/-}
		fly "$name" --trigger crash --trigger exit -- decode=1 "$how"
		dumps "$name" 1 "$event: process [0-9]+ \\(stalls\\) $text"
		same "$name: the exit code" "$rc" "$code"
	done
	fly crash-not --trigger crash -- exit=3
	dumps crash-not 0 ''
	fly exit-by-signal --trigger exit -- kill=9
	dumps exit-by-signal 1 'exit: process [0-9]+ \(stalls\) was killed by SIGKILL'
}

# The number of dumps.
test_limits() {
	fly cooldown --trigger 'step>50ms' --trigger-cooldown 1h -- repeat=5 stall=60
	dumps cooldown 1 'step>50ms: step [0-9]+ \(decode\) of pid [0-9]+ took [0-9.]+ ms'
	check "cooldown: said" grep -q -- '--trigger step>50ms: 1 hits, 4 more only counted' "$TMP/cooldown.err"
	fly max --trigger-cooldown 0 --max-dumps 2 --trigger 'step>50ms' --trigger exit -- repeat=5 stall=60
	dumps max 2 'step>50ms: step [0-9]+ \(decode\) of pid [0-9]+ took [0-9.]+ ms'
	check "max: said" grep -q -- '--trigger step>50ms: 2 hits, 3 more only counted' "$TMP/max.err"
	check "max: said of the other" grep -q -- '--trigger exit: 0 hits, 1 more only counted' "$TMP/max.err"
	fly never --trigger 'prefill>1h' --trigger 'decode>1h' --trigger 'lost>1000000' -- decode=5
	dumps never 0 ''
	check "never: said what was not seen" grep -q 'warning: --trigger prefill>1h: nothing was seen that it applies to' \
		"$TMP/never.err"
	same "never: and only that" "$(grep -c ': no hit' "$TMP/never.err")" 2
}

dumped() { # TIMES FILE
	[ "$(grep -c 'inftrace: dump ' "$2")" -ge "$1" ]
}

# Requests on sockets.
test_sockets() {
	mkfifo "$TMP/stop"
	server_started server "$TOP/tests/programs/sse_server.py" "$TMP/told" "$TMP/lines" 1 <>"$TMP/stop"
	recording BG socket --engine none -e +requests --flight-recorder 16MB --output-dir "$TMP/socket" \
		--trigger-cooldown 0 --trigger 'ttft>500ms' -p "$SERVER"
	for path in chunked/3/1 chunked/3/600 chunked/3/1 length/1/600; do
		"$TOP/tests/programs/sse_client.py" get "$PORT" "/$path" 1 >"$TMP/got"
	done
	# a request ends as its connection is closed, which the server does some time after the client
	wait_until 60 dumped 2 "$TMP/socket.err" || true
	echo >"$TMP/stop"
	wait "$SERVER"
	wait "$BG" || not_ok "socket: recorded" "$(tail -n 1 "$TMP/socket.err")"
	dumps socket 2 'ttft>500ms: a request on descriptor [0-9]+ of pid [0-9]+ had its first answer after [0-9.]+ ms'
}

# Loss.
test_loss() {
	build storm
	"$INFTRACE" record --engine none --ring-size 4KB --flight-recorder 16MB --output-dir "$TMP/lost" --trigger 'lost>0' \
		-- "$TMP/storm" -n 20000 -s 20 >"$TMP/lost.out" 2>"$TMP/lost.err"
	dumps lost 1 'lost>0: [0-9]+ records were lost'
}

run_tests "$@"
