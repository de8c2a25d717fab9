#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Where probes reach: libraries in other mount namespaces, deleted, replaced, mapped later, mapped
# twice; threads, children and their images; and that they leave other processes alone. Every call
# that the programs report is in the trace, once.

. "$(dirname "$0")/../lib.sh"

lib=$TMP/libcalled.so

# program NAME [WRAPPER...]: starts call.c; its process id is then in PID
program() {
	waiting PID "$1" "${@:2}" "$probed/call"
}

# record PRELOAD OPTION...
record() {
	local RECORD_BY=(env LD_PRELOAD="$1")
	recording RECORD t -v --strict -e functions --ring-size 64MB --engine none -u 'libcalled*:called(n=u64 arg1)@op' \
		-o "$TMP/t.json" "${@:2}"
}

# finish NAME PROGRAM...: the programs end, and with them the recording; all their calls are in the trace
finish() {
	local name=$1 program rc=0 wanted got
	shift
	for program; do
		say "$program" quit
	done
	wait "$RECORD" || rc=$?
	same "$name: recorded, nothing lost" "$rc" 0
	wanted=$(for program; do cat "$TMP/$program.out"; done |
		awk '$3 { n[$2] += $3 } END { for (pid in n) print pid, n[pid] }' | sort)
	got=$(grep '"name":"called"' "$TMP/t.json" | grep -o '"pid":[0-9]*' | cut -d: -f2 | sort | uniq -c |
		awk '{ print $2, $1 }' | sort)
	# a child that waits for its probes for as long as it lives, where others have the CPUs, is told
	if [ "$got" != "$wanted" ] && grep -q 'ended before they got function probes' "$TMP/t.err"; then
		skip "$name: all calls" "a child had ended before inftrace got a CPU"
	else
		same "$name: all calls" "$got" "$wanted"
	fi
	same "$name: no frame was stale" "$(grep -c 'left without a return' "$TMP/t.err")" 0
}

# breakpoint PID: "yes" when the code of called() differs from the file
breakpoint() {
	python3 - "$1" "$lib" "$(nm -D "$lib" | awk '$3 == "called" { print $1 }')" <<-'PY'
		import sys
		pid, lib, symbol = sys.argv[1], sys.argv[2], int(sys.argv[3], 16)
		for line in open(f"/proc/{pid}/maps"):
		    where, perms, offset = line.split()[:3]
		    if perms[2] == "x" and line.rstrip().endswith(lib):
		        at = int(where.split("-")[0], 16) - int(offset, 16) + symbol
		with open(lib, "rb") as f, open(f"/proc/{pid}/mem", "rb") as m:
		    f.seek(symbol)
		    m.seek(at)
		    print("yes" if f.read(4) != m.read(4) else "no")
	PY
}

has_breakpoint() { # PID yes|no
	[ "$(breakpoint "$1")" = "$2" ]
}

probes_are() { # COUNT: attached so far
	[ "$(grep -c '1 probes in' "$TMP/t.err")" = "$1" ]
}

build_probed
cp "$probed/libcalled1.so" "$lib"

test_namespaces() {
	if unshare -m true 2>/dev/null; then
		mkdir "$TMP/other"
		# the same path leads to another file there
		program inside unshare -m sh -c "mount -t tmpfs none $TMP/other &&
			cp $probed/libcalled2.so $TMP/other/libcalled.so && exec \"\$0\""
		wait_until 60 test -e "/proc/$PID/root$TMP/other/libcalled.so"
		tell inside load "$TMP/other/libcalled.so"
		inside=$PID
		cp "$probed/libcalled1.so" "$TMP/other/libcalled.so"
		program outside
		tell outside load "$TMP/other/libcalled.so"
		record "" -p "$inside,$PID"
		tell inside call 1000
		tell outside call 2000
		finish "the same path in two mount namespaces" inside outside

		root=$TMP/root
		mkdir -p "$root/proc"
		for file in "$probed/call" "$lib" $(ldd "$probed/call" | grep -o '/[^ ]*'); do
			mkdir -p "$root$(dirname "$file")"
			cp "$file" "$root$file"
		done
		mv "$root$lib" "$root/libcalled-inside.so"
		program inside unshare -m chroot "$root"
		tell inside load /libcalled-inside.so
		record "" -p "$PID"
		tell inside call 1000
		tell inside threads 4 100
		finish "another root" inside
	else
		skip "mount namespaces" "unshare -m is not allowed here"
	fi
}

test_deleted() {
	cp "$lib" "$TMP/libcalled-old.so"
	program old
	tell old load "$TMP/libcalled-old.so"
	old=$PID
	rm "$TMP/libcalled-old.so"
	record "" -p "$old"
	tell old call 1000
	finish "a deleted file" old
}

test_replaced() {
	cp "$lib" "$TMP/libcalled-old.so"
	program old
	tell old load "$TMP/libcalled-old.so"
	old=$PID
	cp "$probed/libcalled2.so" "$TMP/new.so"
	mv "$TMP/new.so" "$TMP/libcalled-old.so"
	program new
	tell new load "$TMP/libcalled-old.so"
	record "" -p "$old,$PID"
	tell old call 1000
	tell new call 2000
	finish "a replaced file, old and new" old new
}

test_mapped_later() {
	cp "$lib" "$TMP/libcalled-copy.so"
	program twice
	record "" -p "$PID"
	same "mapped later: not there yet" "$(grep -c 'probes in' "$TMP/t.err")" 0
	tell twice load "$lib"
	wait_until 60 probes_are 1
	tell twice call 1000
	tell twice load "$TMP/libcalled-copy.so"
	wait_until 60 probes_are 2
	tell twice call 500
	tell twice unload
	cp "$probed/libcalled2.so" "$TMP/libcalled-copy.so"
	finish "mapped later, and a copy" twice
}

test_family() {
	for links in multi single; do
		preload=
		[ "$links" = multi ] || preload=$probed/no_uprobe_multi.so
		program target
		tell target load "$lib"
		record "$preload" -p "$PID"
		tell target call 1000
		tell target threads 8 1000
		for _ in 1 2 3 4 5 6 7 8; do
			tell target fork 0 50
		done
		tell target vfork 0 300 "$lib"
		tell target leave
		tell target threads 4 500
		tell target fork 0 50
		finish "$links: threads and children, from their first call on" target
		same "$links: none was late" "$(grep -c 'after they began' "$TMP/t.err")" 0
	done
}

# A process that is not recorded.
start_other() {
	program other
	tell other load "$lib"
	other=$PID
}

end_other() {
	tell other stop
	say other quit
	wait "$other" || true # else the next one, which reads the same pipe, might take it
}

# A process that is not recorded, and calls the function: after a moment it has no probe. No call of
# the target is missed, and of its children only those of the first milliseconds.
test_others() {
	program target
	tell target load "$lib"
	target=$PID
	start_other
	record "" -p "$target"
	same "others: a breakpoint is in both" "$(breakpoint "$target") $(breakpoint "$other")" "yes yes"
	tell target loop 2
	tell other call 500
	sleep 0.5
	same "others: few calls are left alone" "$(breakpoint "$other")" yes
	tell other loop 1
	check "others: none in the other one, once it calls often" wait_until 60 has_breakpoint "$other" no
	same "others: still one in the target" "$(breakpoint "$target")" yes
	grep -q 'probes are only in those recorded now (1)' "$TMP/t.err" || not_ok "others: -v says so" "$(cat "$TMP/t.err")"
	sleep 0.3
	tell target stop
	tell target threads 4 1000
	tell target fork 2000 200
	tell target vfork 2000 200 "$lib"
	cp "$lib" "$TMP/libcalled-later.so"
	tell target load "$TMP/libcalled-later.so"
	wait_until 60 probes_are 2
	tell target threads 2 300
	tell target load "$lib"
	tell target call 400
	same "others: none in the other one at the end" "$(breakpoint "$other")" no
	finish "others" target
	same "others: how late the children were is told" "$(awk '/child processes (got their function probes up to|ended before they got)/ {
		n += $2 } END { print n }' "$TMP/t.err")" 2
	end_other
}

# Another main thread.
test_exec_thread() {
	start_other
	program target
	tell target load "$lib"
	record "" -p "$PID"
	tell other loop 1
	check "exec: none in the other one" wait_until 60 has_breakpoint "$other" no
	tell target call 100
	say target execthread 500 300 "$lib"
	finish "an exec of another thread" target
	end_other
}

# More processes than can have links of their own.
test_large_family() {
	start_other
	program target
	tell target load "$lib"
	record "" -p "$PID"
	tell other loop 1
	check "a large family: none in the other one" wait_until 60 has_breakpoint "$other" no
	tell target call 100
	tell target family 1000 20 40
	check "a large family: everywhere again" grep -q 'all processes again: there are too many targets' "$TMP/t.err"
	same "a large family: in the other one, too" "$(breakpoint "$other")" yes
	finish "a large family" target
	end_other
}

# Another image.
test_exec() {
	start_other
	program target
	tell target load "$lib"
	record "" -p "$PID"
	tell other loop 1
	check "exec: none in the other one again" wait_until 60 has_breakpoint "$other" no
	say target exec 500 300 "$lib"
	finish "an exec" target
	same "an exec: it was not late" "$(grep -c 'after they began' "$TMP/t.err")" 0
	end_other
}

# The kernel knows a process by its main thread.
test_main_thread() {
	start_other
	program target
	tell target load "$lib"
	target=$PID
	record "" -p "$target"
	tell other loop 1
	check "without its main thread: none in the other one" wait_until 60 has_breakpoint "$other" no
	tell target loop 2
	sleep 0.2
	tell target stop
	tell target leave
	check "without its main thread: everywhere again" \
		wait_until 60 grep -q 'all processes again: the main thread' "$TMP/t.err"
	check "without its main thread: in the other one, too" wait_until 60 has_breakpoint "$other" yes
	tell target threads 2 300
	tell target fork 0 50
	finish "without its main thread" target
	end_other
}

# Before 6.6 nothing can be done about it.
test_single_links() {
	program target
	tell target load "$lib"
	target=$PID
	start_other
	record "$probed/no_uprobe_multi.so" -p "$target"
	tell target loop 2
	tell other loop 1
	sleep 1.5
	same "single links: the breakpoint stays in the other one" "$(breakpoint "$other")" yes
	tell target stop
	finish "single links, and another process" target
	end_other
}

run_tests "$@"
