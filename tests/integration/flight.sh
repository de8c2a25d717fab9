#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The flight recorder: a dump has the newest records, all of them; memory is bounded; the recording
# continues whatever happens to a dump.

. "$(dirname "$0")/../lib.sh"

. "$TOP/tests/programs/programs.sh"
. "$TOP/tests/robust/common.sh"
FLIGHT=$TOP/tests/programs/check_flight.py
export INFTRACE
at_end umount -ql "$TMP/disk" "$TMP/full"
at_end fsfreeze -u "$TMP/disk"

# fly NAME OPTION...: a recording with a flight recorder; its pid is in RECORDER.
fly() {
	recording RECORDER "$1" --output-dir "$TMP/$1" "${@:2}"
}

# land NAME WANTED: ends the recording if it has not ended; its exit code is WANTED. landed: it ends by itself, as its
# target has ended. A signal then would mean not to wait for a dump that is still being written.
land() {
	kill -INT "$RECORDER" 2>/dev/null || true
	landed "$@"
}

landed() {
	local rc=0
	wait "$RECORDER" || rc=$?
	[ "$rc" = "$2" ] || sed 's/^/# /' "$TMP/$1.err"
	same "$1: exit code" "$rc" "$2"
}

dumped() { # NAME N: so many dumps are over
	[ "$(grep -cE '^inftrace: (dump [0-9]|.*the dump could not be written)' "$TMP/$1.err")" -ge "$2" ]
}

wait_dumped() { # NAME N
	wait_until 60 dumped "$1" "$2" || not_ok "$1: dump $2" "$(tail -n 3 "$TMP/$1.err")"
}

nth() { # NAME N [SUFFIX]: the file of the Nth dump, of a single process
	find "$TMP/$1" -name "trace_*.${3:-json}" | sort | sed -n "$2p"
}

calls() { # of both threads, which have returned
	od -An -td8 -w80 -N16 "$TMP/counts"
}

closes() { # ARG...: starts the program that numbers its calls
	spawn CLOSES "$PROGRAMS/closes" "$TMP/counts" "$@" >"$TMP/closes.out"
	wait_until 60 grep -q ready "$TMP/closes.out"
}

kill_closes() {
	kill -9 "$CLOSES"
	wait "$CLOSES" 2>/dev/null || true
}

# own_memory PID: the most memory that it had of its own, in kB. The pages of files are taken off: how many of its
# libraries' pages are in memory is the kernel's choice, and ring buffers, which are mapped twice, count twice.
own_memory() {
	awk '/^VmHWM:/ { most = $2 } /^RssFile:/ { files = $2 } END { print most - files }' "/proc/$1/status"
}

records_of() { # NAME N: as the message of the Nth dump says
	grep -E '^inftrace: dump [0-9]' "$TMP/$1.err" | sed -nE "$2s/.*, ([0-9]+) records.*/\1/p"
}

need python3 node

# The newest, and all of them.
test_newest() {
	closes 2 50
	fly exact --engine none -e syscalls --flight-recorder 8MB -p "$CLOSES"
	sleep 2
	before=("$(calls)")
	kill -USR1 "$RECORDER"
	before+=("$(calls)")
	wait_dumped exact 1
	kill -USR1 "$RECORDER"
	wait_dumped exact 2
	sleep 1
	before+=("$(calls)")
	kill -USR1 "$RECORDER"
	wait_dumped exact 3
	kill_closes
	land exact 0
	for i in 1 2 3; do
		check "exact: dump $i has the newest calls" "$FLIGHT" newest "$(nth exact $i)" "${before[i - 1]}"
	done
	check "exact: a dump right behind another is as long" test "$(records_of exact 2)" -gt $(($(records_of exact 1) * 3 / 4))
}

# Memory.
test_memory() {
	closes 2
	fly memory --engine none --flight-recorder 64MB -p "$CLOSES"
	for i in 1 2 3; do
		sleep 1.5
		kill -USR1 "$RECORDER"
		wait_dumped memory $i
	done
	check "storm: its own memory stays below 64 + 16 MB" test "$(own_memory "$RECORDER")" -lt $((80 * 1024))
	kill_closes
	land memory 0
}

storms_run() { # all eight, with both threads
	local shell pid n=0
	shell=$(pgrep -P "$RECORDER" -x sh) || return 1
	for pid in $(pgrep -P "$shell" -x storm); do
		[ "$(find "/proc/$pid/task" -mindepth 1 -maxdepth 1 | wc -l)" -ne 2 ] || n=$((n + 1))
	done
	[ "$n" -eq 8 ]
}

# Many processes that wake each other, and all formats at once.
test_many() {
	build storm
	fly many --engine none --flight-recorder 8MB --format json,json.gz,pftrace \
		-- sh -c "for i in 1 2 3 4 5 6 7 8; do '$TMP/storm' -t 2 -n 5 -s 0 -p 2000 -w & done; wait"
	wait_until 60 storms_run || not_ok "many: all run" "they have not started"
	sleep 3
	kill -USR1 "$RECORDER"
	wait_dumped many 1
	check "many: its own memory stays below 8 + 16 MB" test "$(own_memory "$RECORDER")" -lt $((24 * 1024))
	pkill -TERM -x storm -g 0 || true
	kill -INT "$RECORDER"
	land many 0
	same "many: a trace for each process" "$(find "$TMP/many" -name 'trace_*.json' | wc -l)" 9
	check "many: all records, at the same instant" "$FLIGHT" counts "$TMP/many" "$(records_of many 1)"
	check "many: all are valid" "$INFTRACE" validate "$TMP"/many/*.json "$TMP"/many/*.json.gz "$TMP"/many/*.jsonl
	importer "many: all traces open" "$TMP"/many/*.json "$TMP"/many/*.json.gz
	trace=$(nth many 2)
	check "many: Perfetto's trace has the same" "$TOP/tests/tools/pftrace.py" compare "${trace%.json}.pftrace" "$trace"
	expect "many: and the compressed one" 'a[:-1] == b[:-1]' a="$trace" b="$trace.gz" # the last has the time of the end
}

# The end of a process.
test_death() {
	for signal in KILL SEGV; do
		closes 2 50
		fly "$signal" --engine none -e syscalls --flight-recorder 8MB --trigger crash -p "$CLOSES"
		sleep 1
		kill -$signal "$CLOSES"
		wait "$CLOSES" 2>/dev/null || true
		landed "$signal" 0
		check "SIG$signal: all calls up to the death" \
			"$FLIGHT" newest "$(nth "$signal" 1)" "$(calls)"
	done
}

says() { # WORD
	grep -qx "$1" "$TMP/hung.out"
}

# Spans that are open.
test_open() {
	step_engine hung
	waiting hung hung "$PROGRAMS/hung"
	fly hung --engine "$TMP/hung.engine.json" -u hung:outer -u hung:inner -u hung:pass -u hung:spin \
		--flight-recorder 16MB -p "$hung"
	sleep 1
	echo >"$TMP/hung.go"
	wait_until 60 says hung
	sleep 1
	check "hung: dumped" "$INFTRACE" dump -p "$hung"
	echo >"$TMP/hung.go"
	wait_until 60 says free
	check "free: dumped" "$INFTRACE" dump -p "$hung"
	echo >"$TMP/hung.go"
	wait "$hung"
	land hung 0
	profile=$(nth hung 1 | sed -E 's/trace_(.*)\.json$/profile_\1.jsonl/')
	check "hung: report" "$INFTRACE" report "$profile"
	same "hung: the report tells why it was made, and first of the step that hangs, with what it waits for" \
		"$(grep -cE '^Trigger: |^Not ended: 1 step$|^  step [0-9]+ had not ended after .*: the calling thread waited .* for a lock' \
			"$TMP/check.out")" 3
	check "hung: JSON" "$INFTRACE" report --json "$profile"
	tr -d '\n' <"$TMP/check.out" >"$TMP/hung.report.jsonl"
	expect "hung: so does the JSON" '([s["state"] for s in r[0]["processes"][0]["open"]] == ["blocked_futex"] and
	bool(r[0]["loss"]["windows"][0]["trigger"]))' r="$TMP/hung.report.jsonl"
	check "hung: what hangs is there up to the dump" "$FLIGHT" hung "$(nth hung 1)"
	check "free: and is there once when it has ended" "$FLIGHT" free "$(nth hung 2)"
	check "hung: valid" "$INFTRACE" validate "$TMP"/hung/*
}

# A stall, and its cause.
test_cause() {
	step_engine planted
	while read -r planted times state who; do
		waiting target "$planted" "$PROGRAMS/planted" "$planted" "$times"
		fly "$planted" --engine "$TMP/planted.engine.json" --flight-recorder 8MB --trigger 'step>150ms' \
			--trigger-cooldown 0 -p "$target"
		echo >"$TMP/$planted.go"
		wait "$target" || true
		landed "$planted" 0
		check "$planted: each stall is caught, with its cause" "$FLIGHT" cause "$TMP/$planted" "$times" "$state" "$who"
	done <<-END
		lock 4 blocked_futex planted_holder
		hog 3 runnable planted_hog
		pipe 3 blocked_ipc planted_writer
	END
}

# Names.
test_names() {
	cat >"$TMP/names.py" <<-'PY'
		import ctypes, os, subprocess, sys, threading
		libc = ctypes.CDLL(None)
		def work(name):
		    libc.prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME
		    os.getppid()
		for i in range(5):
		    t = threading.Thread(target=work, args=(f"gone_{i}",))
		    t.start()
		    t.join()
		with open(sys.argv[1], "w") as f:
		    for i in range(20):
		        p = subprocess.Popen(["sh", "-c", "exec true"])
		        p.wait()
		        print(p.pid, file=f)
	PY
	fly names --engine none --flight-recorder 8MB \
		-- sh -c "python3 '$TMP/names.py' '$TMP/pids'; kill -USR1 \$PPID; sleep 2"
	wait_dumped names 1
	land names 0
	check "names: of processes that are gone" "$FLIGHT" names "$TMP/names" "$TMP/pids" true
	check "names: of threads that are gone" "$FLIGHT" threads "$(grep -l gone_0 "$TMP"/names/trace_*)" gone_{0,1,2,3,4}
	check "names: all records, at the same instant" "$FLIGHT" counts "$TMP/names" "$(records_of names 1)"
}

held() { # BYTES: it holds less
	test "$("$INFTRACE" status --json -p "$RECORDER" | python3 -c \
		'import json, sys; print(json.load(sys.stdin)["recorder"]["bytes"])')" -le "$1"
}

# The last seconds only.
test_seconds() {
	closes 2 20
	fly seconds --engine none -e syscalls --flight-recorder 1s -p "$CLOSES"
	sleep 3
	check "1s: dumped" "$INFTRACE" dump -p "$RECORDER"
	profile=$(find "$TMP/seconds" -name 'profile_*')
	check "1s: goes back so far" "$FLIGHT" within "$profile" 1 0.5
	check "1s: holds something" test "$(nth seconds 1)"
	kill -STOP "$CLOSES"
	wait_until 60 held 1000000 && ok "1s: gives memory back" || not_ok "1s: gives memory back" "it holds more"
	kill_closes
	land seconds 0
}

has_steps() { # N
	"$INFTRACE" status -p "$RECORDER" | grep -q " $1 steps,"
}

# The last steps only.
test_steps() {
	step_engine stalls
	# shellcheck disable=SC2046
	fly steps --engine "$TMP/stalls.engine.json" --flight-recorder 8MB -- "$PROGRAMS/stalls" $(printf 'decode=1 %.0s' {1..30}) pause=600000
	wait_until 60 has_steps 30 || not_ok "steps: 30 of them" "$("$INFTRACE" status -p "$RECORDER")"
	check "steps: dumped" "$INFTRACE" dump --last 5 -p "$RECORDER"
	expect "steps: the last five, whole" \
		'[(e["args"]["step"], "began_before" in e["args"]) for e in t if e.get("cat") == "step"] == [(n, False) for n in range(25, 30)]' \
		t="$(nth steps 1)"
	expect "steps: it begins with the first of them" '[e["ts"] for e in t if e.get("cat") == "step"][0] == 0' t="$(nth steps 1)"
	check "steps: print" "$INFTRACE" print --last 1h "$(nth steps 1)"
	same "steps: print has them, in their order" "$(grep -oE ' step decode .* step=[0-9]+' "$TMP/check.out" | grep -oE '[0-9]+$' | xargs)" "25 26 27 28 29"
	land steps 0
}

wait_part() { # a dump has begun to be written
	local end=$((SECONDS + 20)) part=
	until [ -s "$part" ] || [ "$SECONDS" -gt "$end" ]; do
		part=$(compgen -G "$TMP/disk/trace_*.json.part") || true
	done
}

# Disks.
test_full() {
	mkdir "$TMP/full"
	if mount -t tmpfs -o size=1m none "$TMP/full" 2>/dev/null; then
		closes 2 50
		fly full --engine none -e syscalls --flight-recorder 8MB -p "$CLOSES"
		sleep 1
		check_rc "full disk: said" 1 'dump: the dump could not be written: No space left on device' \
			"$INFTRACE" dump -p "$RECORDER"
		check "full disk: said where" grep -qE \
			"cannot write $TMP/full/trace_.*: (No space left on device|less than .* is free.*); the file is valid" \
			"$TMP/full.err"
		check "full disk: what there is is valid" "$INFTRACE" validate "$(find "$TMP/full" -name 'trace_*.part')"
		mount -o remount,size=64m "$TMP/full"
		sleep 1
		calls_before=$(calls)
		check "full disk: with room again, dumped" "$INFTRACE" dump -p "$RECORDER"
		kill_closes
		land full 1
		check "full disk: the newest calls" "$FLIGHT" newest "$(nth full 1)" "$calls_before"
	else
		skip "full disk" "tmpfs cannot be mounted here"
	fi
}

# A disk that stalls.
test_stalled() {
	mkdir "$TMP/disk"
	truncate -s 128M "$TMP/image"
	if mkfs.ext4 -q "$TMP/image" && mount -o loop "$TMP/image" "$TMP/disk" 2>/dev/null; then
		closes 2 50
		fly disk --engine none -e syscalls --flight-recorder 16MB --format json,json.gz,pftrace.gz \
			-p "$CLOSES"
		sleep 2
		kill -USR1 "$RECORDER"
		wait_part
		# a write waits in the kernel, as with a disk that does not respond
		fsfreeze -f "$TMP/disk"
		sleep 2
		calls_before=$(calls)
		kill -USR1 "$RECORDER"
		fsfreeze -u "$TMP/disk"
		wait_dumped disk 2
		check "stalled disk: what came meanwhile is there" "$FLIGHT" newest "$(nth disk 2)" "$calls_before"
		rm "$TMP"/disk/*json*
		kill -USR1 "$RECORDER"
		wait_part
		kill -9 "$RECORDER"
		wait "$RECORDER" 2>/dev/null || true
		kill_closes
		check "killed: what was written is valid" "$INFTRACE" validate "$TMP"/disk/trace_*.json.part
	else
		skip "stalled disk" "no loop device or no mkfs.ext4"
	fi
}

run_tests "$@"
