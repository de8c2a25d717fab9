#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# inftrace report of an archive: who is late for collectives over hosts, and why. Three hosts, which are network and time namespaces
# here and other machines by their boot ids (tests/tools/another_boot.py), with a rank each; the delays are planted.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/programs/programs.sh"
need python3 ip nsenter
AHEAD=(0 3000000 -2000000000)
HOSTS=(a b c)
# HOST:STEP:CAUSE=MS
PLANTED=(b:40:cpu=200 a:60:sleep=200 c:80:fault=200 b:100:hog=200 c:120:sleep=200 a:140:cpu=200)
STEPS=160
pids=()

unshare --net --time --fork true 2>"$TMP/unshare" || skip_all "no namespaces of networks and time here: $(cat "$TMP/unshare")"

in_host() { # NUMBER COMMAND...
	nsenter --net --time --no-fork -t "${pids[$1]}" "${@:2}"
}

# The second and the third are connected with the first.
hosts_begin() {
	local i name ns
	for i in 0 1 2; do
		name=${HOSTS[i]} ns=${AHEAD[i]}
		: >"$TMP/$name.pid"
		background "$TOP/tests/programs/host.py" $((ns / 1000000000)) $((ns % 1000000000)) >"$TMP/$name.pid"
		wait_until 30 test -s "$TMP/$name.pid"
		pids[i]=$(cat "$TMP/$name.pid")
	done
	for i in 1 2; do
		ip link add "to_$i" netns "${pids[0]}" type veth peer name to_0 netns "${pids[i]}"
		in_host 0 ip address add "10.77.$i.1/24" dev "to_$i"
		in_host "$i" ip address add "10.77.$i.2/24" dev to_0
		in_host 0 ip link set "to_$i" up
		in_host "$i" ip link set to_0 up
	done
}

hosts_end() {
	kill "${pids[@]}"
	wait
}

# The ranks begin when all are recorded.
recorded() {
	local i p name delays tracers=() programs=() failed=0
	rm -f "$TMP"/[abc].{jsonl,out,err}
	for i in 0 1 2; do
		name=${HOSTS[i]} delays=()
		for p in "${PLANTED[@]}"; do
			[ "${p%%:*}" != "$name" ] || delays+=("${p#*:}")
		done
		# it is ready when it is connected with the others
		[ -p "$TMP/$name.go" ] || mkfifo "$TMP/$name.go"
		nsenter --net --time --no-fork -t "${pids[i]}" "$PROGRAMS/ranks" "$PROGRAMS/libnccl.so.2" "$i" 3 "10.77.$((i ? i : 1)).1" 7000 \
			"$STEPS" "${delays[@]}" <>"$TMP/$name.go" >"$TMP/$name.out" 2>&1 &
		programs+=($!)
		test_pids+=($!)
	done
	for i in 0 1 2; do
		name=${HOSTS[i]}
		wait_until 60 grep -qx ready "$TMP/$name.out"
		RECORD_BY=(in_host "$i")
		recording BG "$name" "$@" -e +messages -u "$PROGRAMS/ranks:rank_step(n_tokens=s32 arg1)@step" \
			-o "$TMP/$name.pftrace" -o "$TMP/$name.json" --profile "$TMP/$name.jsonl" -p "${programs[i]}"
		tracers+=("$BG")
	done
	for name in "${HOSTS[@]}"; do
		say "$name"
	done
	for i in "${programs[@]}" "${tracers[@]}"; do
		wait "$i" || failed=1
	done
	if [ "$failed" != 0 ]; then
		tail -n 3 "$TMP"/[abc].{out,err}
		return 1
	fi
	for name in "${HOSTS[@]}"; do
		"$TOP/tests/tools/another_boot.py" "$name" "$TMP/$name".{pftrace,json,jsonl}
	done
}

linked() { # KIND [PREFIX]: of the traces; before the names of profiles, in place of HOST=
	local name args=()
	for name in "${HOSTS[@]}"; do
		args+=("$name=$TMP/$name.$1" "${2-$name=}$TMP/$name.jsonl")
	done
	"$INFTRACE" link -o "$TMP/$1.zip" "${args[@]}"
}

judged() { # KIND
	"$INFTRACE" report --json --slowest 1000 "$TMP/$1.zip" >"$TMP/$1.report" 2>"$TMP/$1.notes" &&
		"$TOP/tests/tools/check_late.py" "$TMP/$1.report" "${AHEAD[@]}" -- "$TMP"/[abc].out -- "${PLANTED[@]}"
}

test_planted() {
	local i kind
	for i in $(seq "$(often 1 10)"); do
		hosts_begin
		check "$i: recorded" recorded
		hosts_end
		for kind in pftrace json; do
			check "$i: linked ($kind)" linked "$kind"
			check_shown "$i: each planted delay has its host and its cause ($kind)" judged "$kind"
		done
		# the clocks of a and b are as far from the wall clock, to within a second
		check "$i: linked (profiles without names)" linked json ""
		check "$i: each profile is that of its host, by the boot id" judged json
		schema_fits "$i: the report fits its schema" report "$TMP"/{pftrace,json}.report
		schema_fits "$i: the profiles fit theirs" profile "$TMP"/[abc].jsonl
		check "$i: in words" "$INFTRACE" report "$TMP/pftrace.zip"
		cp "$TMP/check.out" "$TMP/told"
		check "$i: who, and why" grep -qE "^  [abc], pid [0-9]+: [0-9.]+ m?s after [abc] at ncclAllReduce of 8192 bytes: step [0-9]+, " \
			"$TMP/told"
		check "$i: a page" "$INFTRACE" report --slowest 6 --html "$TMP/all.html" "$TMP/pftrace.zip"
		if command -v node >/dev/null && [ -x "${CHROMIUM:-/usr/bin/chromium}" ]; then
			same "$i: it shows the same" "$("$TOP/tests/tools/check_page.mjs" --eval \
				'[...document.querySelectorAll("section")].filter(s => s.textContent.startsWith("Collectives of 3 ranks: ")).map(s => s.querySelectorAll("li").length)' \
				"$TMP/all.html" | tail -n 1)" "[6]"
		fi
	done
}

run_tests "$@"
