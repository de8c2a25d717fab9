#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# record -e messages and inftrace link: recordings of two hosts, which are two network and two time namespaces here. How far
# their clocks are apart is planted by the namespace, and found by the messages between them. Recordings tell what a namespace adds, and on which
# machine they were made: tests/tools/another_boot.py makes another machine of it. A clock that runs faster cannot be had from a namespace:
# tests/tools/link_hosts.py changes the times of a recording for that.

. "$(dirname "$0")/../lib.sh"
need python3 ip nsenter
HOSTS=$TOP/tests/tools/link_hosts.py
BOOT=$TOP/tests/tools/another_boot.py
EXCHANGES=400
a_pid='' b_pid=''

unshare --net --time --fork true 2>"$TMP/unshare" || skip_all "no namespaces of networks and time here: $(cat "$TMP/unshare")"

# host NAME SECONDS NANOSECONDS: a host whose CLOCK_BOOTTIME is ahead by that; NAME_pid is a process on it.
host() {
	local -n pid=$1_pid
	: >"$TMP/$1.pid"
	background "$TOP/tests/programs/host.py" "$2" "$3" >"$TMP/$1.pid"
	wait_until 30 test -s "$TMP/$1.pid"
	pid=$(cat "$TMP/$1.pid")
}

# ENTER, what is to be put before a command that is to run there
enter() { # NAME
	local -n pid=$1_pid
	ENTER=(nsenter --net --time --no-fork -t "$pid")
}

in_host() { # NAME COMMAND...
	enter "$1"
	"${ENTER[@]}" "${@:2}"
}

# hosts SECONDS NANOSECONDS: two, a and b; b's clock is ahead by that.
hosts() {
	host a 0 0
	host b "$1" "$2"
	ip link add to_b netns "$a_pid" type veth peer name to_a netns "$b_pid"
	in_host a ip address add 10.77.0.1/24 dev to_b
	in_host b ip address add 10.77.0.2/24 dev to_a
	in_host a ip address add fd77::1/64 dev to_b nodad
	in_host b ip address add fd77::2/64 dev to_a nodad
	in_host a ip link set to_b up
	in_host b ip link set to_a up
	# the routes of IPv6 come a moment after that
	wait_until 30 in_host a ip route get fd77::2 >>"$TMP/routes" 2>&1
	wait_until 30 in_host b ip route get fd77::1 >>"$TMP/routes" 2>&1
}

hosts_end() {
	kill "$a_pid" "$b_pid"
	wait
}

# recorded ADDRESS-OF-B PAUSE: their messages, in $TMP/a.json, a.pftrace, b.json, b.pftrace; as they were, in $TMP/real. Both begin when both are
# recorded.
recorded() {
	local name program pids=() failed=0
	rm -f "$TMP"/[ab].err # what the last ones have said is not what these say
	for name in b a; do
		enter "$name"
		waiting program "$name" "${ENTER[@]}" "$TOP/tests/programs/messenger.py" "$([ "$name" = b ] && echo listen || echo connect)" "$1" 8000 \
			"$EXCHANGES" "$2"
		RECORD_BY=("${ENTER[@]}")
		recording BG "$name" --engine none -e messages -o "$TMP/$name.pftrace" -o "$TMP/$name.json" -p "$program"
		pids+=("$program" "$BG")
	done
	say b
	say a
	for name in "${pids[@]}"; do
		wait "$name" || failed=1
	done
	if [ "$failed" != 0 ]; then
		tail -n 3 "$TMP"/[ab].{out,log,err}
		return 1
	fi
	rm -rf "$TMP/real"
	mkdir "$TMP/real"
	cp "$TMP"/[ab].json "$TMP"/[ab].pftrace "$TMP/real"
	for name in a b; do
		"$BOOT" "$name" "$TMP/$name.json" "$TMP/$name.pftrace"
	done
}

# found NAME NS: that, in either format, and with a clock that gains 50 ppm besides
found() {
	local kind
	for kind in pftrace json; do
		check "$1: linked ($kind)" "$INFTRACE" link -o "$TMP/all.zip" "a=$TMP/a.$kind" "b=$TMP/b.$kind"
		cp "$TMP/check.out" "$TMP/told"
		check_shown "$1: found within the residual ($kind)" "$HOSTS" check "$TMP/all.zip" "b/b.$kind" "$2"
	done
	check "$1: a clock that gains 50 ppm" "$HOSTS" plant "$TMP/b.json" "$TMP/drift.json" --ppm 50
	check "$1: linked with that" "$INFTRACE" link -o "$TMP/all.zip" "a=$TMP/a.json" "b=$TMP/drift.json"
	check_shown "$1: found within the residual, at both ends" "$HOSTS" check "$TMP/all.zip" b/drift.json "$2" --ppm 50 --since "$TMP/b.json"
}

test_offsets() {
	local ns i
	for i in $(seq "$(often 1 20)"); do
		for ns in 0 3000000 -2000000000; do
			hosts $((ns / 1000000000)) $((ns % 1000000000))
			check "$ns ns ($i): recorded" recorded "$([ "$ns" = 3000000 ] && echo fd77::2 || echo 10.77.0.2)" 0
			hosts_end
			found "$ns ns ($i)" "$ns"
			[ "$ns" != -2000000000 ] || check_rc "$ns ns ($i): two boots by one name" 1 'are said to be of a, but are of two boots (.*), whose clocks are [12][.]' \
				"$INFTRACE" link --check a="$TMP/a.json" a="$TMP/b.json"
		done
	done
}

# Several seconds, in which a drift makes more than the residual usually is.
test_said() {
	hosts 0 3000000
	check "recorded" recorded 10.77.0.2 0.005
	hosts_end
	"$INFTRACE" link --check "a=$TMP/a.pftrace" "b=$TMP/b.pftrace" >"$TMP/told"
	check "it says by how much" grep -qE 'b\.pftrace: b, .*, by messages: its CLOCK_BOOTTIME is (2\.9|3\.0)[0-9]* ms ahead of that of .*/a\.pftrace, residual ' "$TMP/told"
	# each exchange is two messages, one from either side, which may be received in parts
	check "and from how many messages" python3 - "$TMP/told" "$EXCHANGES" <<-'PY'
		import re, sys
		to, back = map(int, re.search(r"compared with a: (\d+) messages to it, (\d+) from it", open(sys.argv[1]).read()).groups())
		n = int(sys.argv[2])
		assert to >= n and back >= n, (to, back)
	PY
	expect "each program sent what the other one received" \
		'all(sum(e["args"]["bytes"] for e in x if e["name"] == "message sent") == sum(e["args"]["bytes"] for e in y if e["name"] == "message received") > 100 * 400 for x, y in ((a, b), (b, a)))' \
		a="$TMP/a.json" b="$TMP/b.json"
	unnamed
	found "a longer recording" 3000000
	check "every second message lost" "$HOSTS" plant "$TMP/b.json" "$TMP/lossy.json" --drop 2
	check "is linked" "$INFTRACE" link -o "$TMP/all.zip" "a=$TMP/a.json" "b=$TMP/lossy.json"
	check "found within the residual" "$HOSTS" check "$TMP/all.zip" b/lossy.json 3000000
	check "a clock that was set by a second" "$HOSTS" plant "$TMP/b.json" "$TMP/set.json" --step 1000000000
	check_rc "is refused, and how far the messages are apart" 1 \
		'set.json.* contradict each other: .* by [0-9.]+ m?s in all: 10\.77\.0\.[12]:[0-9]+>10\.77\.0\.[12]:[0-9]+, byte [0-9]+, received at .*; 10\.77' \
		"$INFTRACE" link --check "a=$TMP/a.json" "b=$TMP/set.json"
}

# Hosts whose names are not given: by their boot ids, though they were booted 3 ms apart.
unnamed() {
	local host older=$TMP/older
	host=$(cat /proc/sys/kernel/hostname)
	check "no names: linked" "$INFTRACE" link --check "$TMP/a.pftrace" "$TMP/b.pftrace"
	cp "$TMP/check.out" "$TMP/unnamed"
	# they have the same name, too
	check "no names: two hosts" test "$(grep -cE "^$TMP/(a.pftrace: $host|b.pftrace: host 1), .*" "$TMP/unnamed")" = 2
	sed -E 's/: (host 1|a|b|'"$host"')(,| )/: HOST\2/; s/compared with [^:]*/compared with HOST/' "$TMP/unnamed" >"$TMP/no_names"
	sed -E 's/: (a|b), /: HOST, /; s/compared with [^:]*/compared with HOST/' "$TMP/told" >"$TMP/names"
	check "no names: the same as with names" diff "$TMP/names" "$TMP/no_names"
	mkdir "$older"
	cp "$TMP"/[ab].pftrace "$older"
	cp "$TMP"/real/[ab].pftrace "$older"
	"$BOOT" - "$older"/[ab].pftrace
	check_rc "no names, and of an older version" 1 'received .* before it was sent: name the machines' \
		"$INFTRACE" link --check "$older/a.pftrace" "$older/b.pftrace"
	# what they are: containers of one machine, one of which has a clock of its own
	check "containers: linked" "$INFTRACE" link -o "$TMP/real.zip" "$TMP"/real/{a,b}.pftrace "$TMP"/real/{a,b}.json
	check "containers: one host, of one clock" test "$(grep -cE ": $host, .*(of the same clock|whose clock is the timeline's)$" "$TMP/check.out")" = 4
	check "containers: placed by what the namespace adds" python3 - "$TMP/real.zip" 3000000 <<-'PY'
		import json, sys, zipfile
		with zipfile.ZipFile(sys.argv[1]) as z:
		    files = {f["path"]: f for f in json.loads(z.read("perfetto_manifest.json"))["perfetto_manifest"]["files"]}
		    zero = int(next(e["args"]["boottime_ns"] for e in json.loads(z.read("b.json")) if e["name"] == "inftrace_clock"))
		assert "clocks" not in files["a.pftrace"]
		assert files["b.pftrace"]["clocks"]["offset_ns"] == -int(sys.argv[2]), files
		assert files["b.json"]["clocks"]["offset_ns"] == zero - int(sys.argv[2]), files
	PY
}

run_tests "$@"
