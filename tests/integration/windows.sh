#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Windows: what is recorded between their edges is all there is, and nothing of it is in two; of many
# processes, each in files of its own.

. "$(dirname "$0")/../lib.sh"

at_end umount -ql "$TMP/full"
unset INFTRACE_OUTPUT_DIR INFTRACE_WINDOW_FLAG INFTRACE_MAX_STEPS
CHECK_WINDOWS=$TOP/tests/programs/check_windows.py
CHECK_EXPORTS=$TOP/tests/programs/check_exports.py

loads() { # NAME
	check "$1: every trace loads" node "$TOP/tests/tools/check_chrome_trace.mjs" "$TMP/$1"/trace_*.json
	check "$1: every profile is valid" all_valid "$TMP/$1"
}

all_valid() {
	local f
	for f in "$1"/profile_*.jsonl; do
		"$INFTRACE" validate "$f" --require window_prof
	done
}

# parts N NAME: waits until N traces are being written
parts() {
	wait_until 60 parts_are "$@" || not_ok "$2" "$(compgen -G "$TMP/$2/trace_*.part" | tr '\n' ' ')instead of $1 traces"
}

parts_are() {
	local found
	mapfile -t found < <(compgen -G "$TMP/$2/trace_*.part")
	[ ${#found[@]} -eq "$1" ]
}

start() {
	timeout 60 "$INFTRACE" start -p "$RECORDER" >/dev/null
}

stop() {
	timeout 60 "$INFTRACE" stop -p "$RECORDER" >/dev/null
}

# finish NAME WANTED_RC
finish() {
	kill -INT "$RECORDER" 2>/dev/null || true
	ended "$1: exit code" "$RECORDER" "$2"
}

# Closed for long enough that its programs are detached.
idle_now() {
	sleep 1.6
}

# ---- a server with workers ----

# ask WORDS...: ANSWER
ask() {
	echo "$*" >&"$to"
	read -r -t 60 -u "$from" ANSWER
}

a='' b='' c='' # pids
# worker HOW NAME: its pid is in the variable NAME
worker() {
	ask "$1" "$2"
	printf -v "$2" %s "$ANSWER"
	test_pids+=("$ANSWER")
}

# record NAME OPTION...: of the server
record() {
	NAME=$1
	mkdir -p "$TMP/$1"
	: >"$TMP/$1.wanted"
	recording RECORDER "$1" --engine none --output-dir "$TMP/$1" "${@:2}"
}

# wanted WINDOW PID THREAD CALLS [PAGES]
wanted() {
	echo "$*" >>"$TMP/$NAME.wanted"
}

need python3 node
mkfifo "$TMP/server.in" "$TMP/server.out"
exec {to}<>"$TMP/server.in" {from}<>"$TMP/server.out"
python3 "$TOP/tests/programs/server.py" <"$TMP/server.in" >"$TMP/server.out" {to}>&- {from}>&- &
test_pids+=($!)
read -r -t 60 -u "$from" server
worker fork a

# Also processes that are born and named while the window is closed.
test_processes() {
	for events in sched,syscalls,faults,memory sched,syscalls,faults,irq; do
		name=processes-${events##*,}
		record "$name" -e "$events" --window manual -p "$server,$a"
		ask server calls 1000
		idle_now
		start
		ask server calls 11
		ask a touch 1000
		ask a calls 7
		stop
		wanted 0 "$server" server 11
		wanted 0 "$a" a 7 1000
		# born and named while it is closed, with and without its programs
		worker fork b
		worker exec c
		ask b thread early
		ask c calls 1000
		[ "$name" != processes-memory ] || idle_now
		ask b thread late
		start
		ask server calls 12
		ask a calls 8
		ask b calls 9
		ask b early 5
		ask b late 6
		ask b touch 500
		ask c calls 10
		stop
		wanted 1 "$server" server 12
		wanted 1 "$a" a 8
		wanted 1 "$b" b 9 500
		wanted 1 "$b" early 5
		wanted 1 "$b" late 6
		wanted 1 "$c" c 10
		ask a touch 5000
		ask c end
		start
		stop
		wanted 2 "$server" server 0
		wanted 2 "$a" a 0
		wanted 2 "$b" b 0
		wanted 2 "$b" early 0
		wanted 2 "$b" late 0
		finish "$name" 0
		ask b end
		options=(--whole)
		[ "$name" != processes-memory ] || options+=(--faults)
		check "$name: each window has what was done in it, to the nanosecond" \
			"$CHECK_EXPORTS" "$TMP/$name" "$TMP/$name.err" "$TMP/$name.wanted" "${options[@]}"
		loads "$name"
	done
}

test_lives() {
	record lives -e sched,syscalls --window manual -p "$server,$a"
	start
	worker fork b
	ask b calls 20
	worker exec c
	ask c calls 30
	ask c thread late
	ask c late 40
	ask a fork brief 50
	brief=$ANSWER
	ask b end
	stop
	wanted 0 "$server" server 0
	wanted 0 "$a" a 0
	wanted 0 "$b" b 20
	wanted 0 "$c" c 30
	wanted 0 "$c" late 40
	wanted 0 "$brief" brief 50
	ask a fork unseen 100
	start
	ask c late 60
	ask a fork again 70
	again=$ANSWER
	stop
	wanted 1 "$server" server 0
	wanted 1 "$a" a 0
	wanted 1 "$c" late 60
	wanted 1 "$again" again 70
	ask c end
	finish lives 0
	check "born and gone within a window: files of their own, with both edges" \
		"$CHECK_EXPORTS" "$TMP/lives" "$TMP/lives.err" "$TMP/lives.wanted"
	loads lives
}

test_system() {
	record system -a -e syscalls --window manual
	start
	ask server calls 21
	ask a calls 22
	stop
	finish system 0
	same "-a: one pair of files for all" "$(find "$TMP/system" -name '*_system_*' | wc -l) $(find "$TMP/system" -type f | wc -l)" "2 2"
	expect "-a: the calls of all" "[sum(e['name'] == 'getppid' and e['pid'] == pid for e in t) for pid in ($server, $a)] == [21, 22]" \
		t="$(echo "$TMP"/system/trace_system_*.json)"
}

test_crowd() {
	"$INFTRACE" record --engine none -e syscalls --window every=60s,for=50s --output-dir "$TMP/crowd" -- \
		sh -c 'i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i + 1)); done' 2>"$TMP/crowd.err"
	same "300 short processes: 256 with files of their own, the rest with one pair" \
		"$(find "$TMP/crowd" -name '*_pid*' | wc -l) $(find "$TMP/crowd" -name '*_others_*' | wc -l)" "512 2"
	same "300 short processes: each call of exit_group once" \
		"$(cat "$TMP"/crowd/trace_* | grep -c '"name":"exit_group"')" 301
	expect "300 short processes: sums of all" \
		'len({e["shape"]["pid"] for e in p if e["event"] == "syscall_prof" and e["shape"]["n_exit_group"] == 1}) == 301' \
		p=<(cat "$TMP"/crowd/profile_*)
}

test_every() {
	record every -e syscalls --window every=700ms,for=200ms -p "$server"
	wait_until 60 grep -q 'window 3 ' "$TMP/every.err" || not_ok "every" "no window 3"
	finish every 0
	# the end may cut the last one; one that was opened late, for want of a CPU, ends when it would have all the same
	expect "every: as long as they should be, and none is longer than the time between two" \
		"max(w['stage_us']['total'] for w in p) > 100e3 and all(0 < w['stage_us']['total'] < 700e3 for w in p)" \
		p=<(cat "$TMP"/every/profile_*.jsonl | grep window_prof | head -n 4)
	check "every: says why" grep -q '^inftrace: window 0 (schedule to schedule): ' "$TMP/every.err"
}

test_limits() {
	record limits -e syscalls --window manual -d 2s -p "$server"
	check "start" start
	check "start twice is fine" start
	check "-d ends the window" wait_until 60 grep -q '^inftrace: window 0 (start to duration): ' "$TMP/limits.err"
	check_rc "stop without a window" 1 'no window is open' timeout 60 "$INFTRACE" stop -p "$RECORDER"
	start
	finish limits 0
	check "the end closes the window" grep -q '^inftrace: window 1 (start to end)' "$TMP/limits.err"
	same "two windows" "$(find "$TMP/limits" -name 'trace_*.json' | wc -l) $(find "$TMP/limits" -name '*.part' | wc -l)" "2 0"
}

test_no_window() {
	record none -e syscalls --window manual -p "$server"
	finish none 0
	same "no window, no file" "$(find "$TMP/none" -type f | wc -l)" 0
}

# Its command ends: with the window open, and closed.
test_command_ends() {
	mkfifo "$TMP/server.gate"
	for state in open closed; do
		record "$state" -e syscalls --window manual -- sh -c 'read -r _ <"$0"; exit 7' "$TMP/server.gate"
		start
		[ "$state" = open ] || stop
		echo >"$TMP/server.gate"
		ended "command ends while it is $state: its exit code" "$RECORDER" 7
		same "command ends while it is $state: files" "$(find "$TMP/$state" -type f ! -name '*.part' | wc -l)" 2
	done
}

# And others of the same process into the same directory at the same moments.
test_killed() {
	record killed -e sched,syscalls --window manual -p "$server"
	start
	ask server calls 500
	part=("$TMP"/killed/trace_*.json.part)
	# drained records are in the file within 0.1 s
	wait_until 60 grep -q '"name":"getppid"' "${part[0]}" || not_ok "killed: written" "nothing in ${part[0]}"
	kill -9 "$RECORDER"
	wait "$RECORDER" 2>/dev/null || true
	cp "${part[0]}" "$TMP/killed.json"
	check "kill -9: what there is loads" node "$TOP/tests/tools/check_chrome_trace.mjs" "$TMP/killed.json"
	check "kill -9: what there is is valid" "$INFTRACE" validate "$TMP/killed.json"

	flag=$TMP/several.on
	recorders=()
	for i in 1 2 3; do
		recording BG "several$i" --engine none -e sched,syscalls --window-flag "$flag" --output-dir "$TMP/killed" -p "$server"
		recorders+=("$BG")
	done
	before=$(find "$TMP/killed" -type f | wc -l)
	for i in 1 2 3 4 5; do
		touch "$flag"
		parts 4 killed
		ask server calls 10
		rm "$flag"
		parts 1 killed
	done
	rc=0
	kill -INT "${recorders[@]}"
	wait "${recorders[@]}" || rc=$?
	same "three recorders at once: exit code" "$rc" 0
	same "three recorders at once: all files" "$(find "$TMP/killed" -type f | wc -l)" $((before + 3 * 2 * 5))
	same "three recorders at once: all calls" \
		"$(cat "$TMP"/killed/trace_*.json | grep -c '"name":"getppid"')" $((3 * 10 * 5))
}

test_directory_gone() {
	record gone -e syscalls --window manual -p "$server"
	rm -r "$TMP/gone"
	check_rc "the directory is gone" 1 'window cannot be opened: No such file' timeout 60 "$INFTRACE" start -p "$RECORDER"
	finish gone 1
	check "the directory is gone: said" grep -q "^inftrace: cannot create $TMP/gone/trace_pid.*: No such file" "$TMP/gone.err"
	record vanishes -e syscalls --window manual -p "$server"
	start
	ask server calls 10
	rm -r "$TMP/vanishes"
	check_rc "the directory goes" 1 'files are not complete: No such file' timeout 60 "$INFTRACE" stop -p "$RECORDER"
	finish vanishes 1
}

test_full_disk() {
	mkdir "$TMP/full"
	if mount -t tmpfs -o size=200k tmpfs "$TMP/full" 2>/dev/null; then
		record full -e syscalls --window manual -p "$server"
		start
		ask server calls 20000
		ended "a full disk ends it" "$RECORDER" 1
		check "a full disk: said" grep -q "^inftrace: cannot write $TMP/full/trace_pid[^:]*.json.part: No space left" "$TMP/full.err"
		check "a full disk: the file is valid up to there" "$INFTRACE" validate "$TMP"/full/trace_*.part
	else
		skip "a full disk" "no tmpfs can be mounted here"
	fi
}

# Functions that another process calls so often that they get links of their own.
test_links() {
	build_probed
	cp "$probed/libcalled1.so" "$TMP/libcalled.so"
	for name in target other; do
		waiting "$name" "$name" "$probed/call"
		tell "$name" load "$TMP/libcalled.so"
	done
	record links -v -e functions -u 'libcalled*:called(n=u64 arg1)@op' --window manual -p "$target"
	calls() { # COUNT: these and no others are in a window; before it as many others
		tell target call 1000
		start
		tell target call "$1"
		stop
	}
	calls 11
	idle_now
	calls 12
	tell other loop 1
	start
	wait_until 60 grep -q 'probes are only in those recorded' "$TMP/links.err" || not_ok "links" "were not exchanged"
	tell target call 13
	stop
	calls 14
	idle_now
	calls 15
	cp "$TMP/libcalled.so" "$TMP/libcalled-later.so"
	tell target load "$TMP/libcalled-later.so"
	tell target call 100
	idle_now # a library that was loaded while all was detached
	calls 16
	tell target leave # from here on links are in all processes again
	wait_until 60 grep -q 'all processes again' "$TMP/links.err" || not_ok "links" "are not everywhere again"
	idle_now
	start
	tell target threads 4 25
	stop
	finish links 0
	same "links exchanged, detached and attached: all calls of each window" \
		"$(for f in $(find "$TMP/links" -name 'trace_*' | sort -t_ -k3); do grep -c '"name":"called"' "$f"; done | xargs)" \
		"11 12 13 14 15 16 100"
	check_rc "the other one lives" 0 '^ok' cat "$TMP/other.out"
	tell other stop
}

test_many() {
	flag=$TMP/many.on
	record many -e sched,syscalls,faults,memory,irq --window-flag "$flag" --format json,pftrace.gz -p "$server,$a"
	files_open() {
		find "/proc/$RECORDER/fd" | wc -l
	}
	mapped() {
		wc -l <"/proc/$RECORDER/maps"
	}
	no_more_files() { # it may be reading one of /proc just now
		[ "$(files_open)" -le "$files" ]
	}
	memory() {
		awk '/^VmRSS/ { print $2 }' "/proc/$RECORDER/status"
	}
	n=$(often 25 50) kb=() # after so many windows, and as many more, ...
	for ((i = 1; i <= 4 * n; i++)); do
		touch "$flag"
		parts 4 many
		rm "$flag"
		parts 0 many
		[ "$i" -ne "$n" ] || files=$(files_open) early=$(mapped)
		((i % n)) || kb+=("$(memory)")
	done
	check "$((4 * n)) windows: no more files open than after $n" wait_until 60 no_more_files
	# a leak grows with each window; malloc maps some memory now and then
	check "$((4 * n)) windows: no more memory mapped than after $n ($early)" test "$(mapped)" -lt $((early + n))
	finish many 0
	same "$((4 * n)) windows: all files" "$(find "$TMP/many" -type f ! -name '*.part' | wc -l)" $((4 * n * 2 * 3))
	# a leak grows each time; what waited to be written on a busy machine, and malloc then keeps, once or twice
	least=$(printf '%s\n' $((kb[1] - kb[0])) $((kb[2] - kb[1])) $((kb[3] - kb[2])) | sort -n | head -n 1)
	echo "# ${kb[*]} kB after $n, $((2 * n)), $((3 * n)) and $((4 * n)) windows"
	check "$((4 * n)) windows: $n of them take no more than 60 kB each" test "$least" -le $((60 * n))
	rm -r "$TMP/many"
}

# ---- steps of an engine ----

llama_here() { # WHAT
	(need_llama) >/dev/null 2>&1 || {
		skip "$1" "no llama.cpp here"
		return 1
	}
	need_llama
}

# record_windows NAME TOKENS OPTION...: a recording of the driver, which begins when its probes are in place: closed, libraries
# are looked for once a second. The recorder's pid is in RECORDER.
record_windows() {
	mkdir "$TMP/$1"
	fed RECORDER "$INFTRACE" record -v --output-dir "$TMP/$1" "${@:3}" -- "$DRIVER" -q -w -n "$2" -r 0 -t 2 \
		-S "$TMP/$1.stages" "${MODEL_ARGS[@]}" >"$TMP/$1.out" 2>"$TMP/$1.err"
	await "$1: started" grep -q 'probes in .*/libllama' "$TMP/$1.err"
	echo >&9
}

# The engine ends as on Ctrl-C, and the recording with it.
end_windows() { # NAME
	pkill -INT -P "$RECORDER" -x llama_driver || true
	wait "$RECORDER" && ok "$1: recorded" || not_ok "$1: recorded" "$(tail -n 1 "$TMP/$1.err")"
}

# steps PROFILE: those of each window, without one that began before it
steps() {
	json '[[e["shape"].get("unfinished", False) for e in w if e["event"] == "token_prof" and
		not e["shape"].get("began_before")] for w in [p]][0]' p="$1"
}

test_max_steps() {
	llama_here --max-steps || return 0
	record_windows steps 64 --window manual --max-steps 5
	for i in 0 1 2; do
		start
		wait_until 150 grep -q "window $i (start to max_steps): .* 5 steps" "$TMP/steps.err" ||
			not_ok "--max-steps: window $i ends" "$(tail -n 1 "$TMP/steps.err")"
		[ "$i" -ne 1 ] || idle_now
	done
	end_windows steps
	check "--max-steps: each step in the right window" "$CHECK_WINDOWS" "$TMP/steps" "$TMP/steps.stages" --windows 3
	for f in "$TMP"/steps/profile_*.jsonl; do
		same "--max-steps: whole steps" "$(steps "$f")" "[false, false, false, false, false]"
	done
	"$INFTRACE" record --max-steps 5 -o "$TMP/five.json" --profile "$TMP/five.jsonl" -- \
		"$DRIVER" -q -d 500 -n 64 -r 0 -t 2 "${MODEL_ARGS[@]}" >"$TMP/five.out" 2>"$TMP/five.err" || true
	same "--max-steps ends a run without windows" "$(steps "$TMP/five.jsonl")" "[false, false, false, false, false]"
}

test_flag_toggle() {
	llama_here flag || return 0
	flag=$TMP/window.on
	record_windows flag 64 --window-flag "$flag" -e sched,syscalls,faults,functions
	for i in {1..100}; do
		touch "$flag"
		parts 1 flag
		sleep "0.0$((i % 8))"
		rm "$flag"
		parts 0 flag
		sleep "0.0$((i % 5))"
	done
	# where the engine hardly gets a CPU, all of these may be shorter than a step
	for ((n = 100; n < 110; n++)); do
		! grep -qE '^inftrace: window .* ([3-9]|[0-9]{2,}) steps' "$TMP/flag.err" || break
		touch "$flag"
		parts 1 flag
		sleep "$((n - 98))"
		rm "$flag"
		parts 0 flag
	done
	end_windows flag
	check "flag: a hundred windows, each step in the right ones" \
		"$CHECK_WINDOWS" "$TMP/flag" "$TMP/flag.stages" --windows "$n"
	loads flag
}

run_tests "$@"
