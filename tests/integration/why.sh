#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# inftrace why: engines that are stuck, and who is to blame.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/programs/programs.sh"

step_engine stuck

blamed() {
	grep -qE '^[0-9]+$' "$TMP/$1.out"
}

# stuck HOW: gets stuck while why looks at it. Its output is in TMP/HOW.why.
stuck() {
	waiting pid "$1" "$PROGRAMS/stuck" "$1"
	"$INFTRACE" why -d 60s --engine "$TMP/stuck.engine.json" -p "$pid" >"$TMP/$1.why" 2>"$TMP/$1.err" &
	why=$!
	wait_until 60 runs "$pid" || not_ok "$1: looks" "$(cat "$TMP/$1.err")"
	sleep 2
	say "$1" go
	wait_until 60 blamed "$1" || not_ok "$1: is stuck" "$(cat "$TMP/$1.out")"
	blame=$(grep -E '^[0-9]+$' "$TMP/$1.out")
	sleep 4
	kill -INT "$why"
	ended "$1: ends" "$why"
	sed 's/^/# /' "$TMP/$1.why"
	same "$1: ended before its time" "$(sed -n 's/^The last \(.*\):$/\1/p' "$TMP/$1.why" | grep -vxE '([4-9]|[1-5][0-9])\.[0-9]* s')" ""
	check "$1: one screen" test "$(wc -l <"$TMP/$1.why")" -le 60
}

runs() {
	"$INFTRACE" status -p "$why" | grep -q "$1" # others may be stopped
}

shows() { # HOW WHAT REGEX
	check "$1: $2" grep -qE "$3" "$TMP/$1.why"
}

test_lock() {
	stuck lock
	shows lock "no step since" '^  No step for [0-9.]+ s, since step [0-9]+ of process [0-9]+:$'
	shows lock "who holds the lock" "\`caller\` waits in futex for [0-9.]+ s, for a lock that thread $blame holds\$"
	shows lock "what it does" "^      thread $blame \`holder\` sleeps in clock_nanosleep for [0-9.]+ s\$"
	shows lock "where it waits" '^        in .*make_steps$'
	shows lock "where that one is" '^        in .*hold$'
	shows lock "where the time went before" '^Between steps: '
	# once more: now it was stuck before
	"$INFTRACE" why -d 500ms --engine "$TMP/stuck.engine.json" -p "$pid" >"$TMP/lock.why" 2>"$TMP/lock.err" || not_ok "lock: again" "$(cat "$TMP/lock.err")"
	shows lock "without steps" '^  Process [0-9]+ ran no step of an engine. Of its [0-9]+ threads'
	shows lock "who holds the lock, before" "\`caller\` waits in futex for more than [0-9.]+ (ms|s), for a lock that thread $blame holds\$"
	shows lock "what it does, before" "thread $blame \`holder\` sleeps in clock_nanosleep for more than"
}

test_within() {
	stuck within
	shows within "the step that has not ended" '^  Step [0-9]+ of process [0-9]+ has not ended for [0-9.]+ s:$'
	shows within "who holds the lock" "for a lock that thread $blame holds\$"
}

test_self() {
	stuck self
	shows self "itself" "\`caller\` waits in futex for [0-9.]+ s, for a lock that it holds itself\$"
}

test_child() {
	stuck child
	shows child "for which process" "\`caller\` waits in wait4 for [0-9.]+ s, for process $blame\$"
	shows child "what it does" "^      thread $blame \`child\` of process $blame sleeps in clock_nanosleep"
}

test_fork() {
	stuck fork
	shows fork "a lock that nobody releases" \
		"^      thread $blame \`child\` .* for a lock that thread [0-9]+ of process $pid held when it forked this process: nobody releases it here\$"
}

test_peer() {
	stuck peer
	shows peer "who woke it" "\`caller\` waits in read from socket:\[[0-9]+\] for [0-9.]+ s; until now thread $blame woke it"
	shows peer "what it does" "^      thread $blame \`answers\` sleeps in clock_nanosleep"
}

test_stop() {
	stuck stop
	shows stop "stopped" "thread $blame \`caller\` is stopped by a signal or a debugger for [0-9.]+ s\$"
	kill -CONT "$pid"
}

test_usage() {
	rc=0
	"$INFTRACE" why 2>"$TMP/err" || rc=$?
	same "without a process" "$rc" 2
	rc=0
	"$INFTRACE" why -d 1h -p 1 2>"$TMP/err" || rc=$?
	same "an hour" "$rc" 2
	check "says so" grep -q '1h is not from 100ms to 60s' "$TMP/err"
}

run_tests "$@"
