#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# --cgroup: what is in a cgroup and below is recorded, also what enters it later, and nothing else.

. "$(dirname "$0")/../lib.sh"

TOKENS=5

setup() {
	root=$(cgroup_root 2>&1) || skip_all "$root"
	CGROUP=$root/inftrace-test-$$
	mkdir "$CGROUP" 2>/dev/null || skip_all "cgroups cannot be made here"
	at_end cgroups_end
	mkdir "$CGROUP/below"
	cp -r "$(dirname "$(mini_engine)")" "$TMP/mini"
	MINI=$TMP/mini/grouped-$$
	mv "$TMP/mini/mini_engine" "$MINI"
	cat >"$TMP/mini.json" <<-JSON
		{"name": "mini", "version": 1, "match": {"mapped": ["grouped-$$"]},
		 "probes": [{"library": "libllama*.so*", "symbol": "llama_decode", "role": "step", "name": "decode"}]}
	JSON
	mkfifo "$TMP/go"
}

# All that is in these cgroups was started by the test.
empty() {
	! cat "$CGROUP/cgroup.procs" "$CGROUP"/*/cgroup.procs 2>/dev/null | grep -q .
}

cgroups_end() {
	# shellcheck disable=SC2046 # words
	kill -9 $(cat "$CGROUP/cgroup.procs" "$CGROUP"/*/cgroup.procs)
	wait_until 60 empty
	rmdir "$CGROUP"/*/ "$CGROUP"
}

# engine CGROUP: an engine that enters it ("": stays outside) before it runs, and then waits for a line; its number is in BG
engine() {
	# shellcheck disable=SC2016 # of the inner shell
	sh -c '[ -z "$1" ] || echo $$ >"$1/cgroup.procs"; shift; exec "$@"' sh "$1" "$MINI" -q -w -t 1 -n "$TOKENS" <"$TMP/go" >/dev/null 8>&- &
	BG=$!
	test_pids+=("$BG")
}

found() { # NAME PID
	check "$1" wait_until 60 grep -q "found process $2 " "$TMP/$LOG.log"
}

test_members() {
	LOG=members
	exec 8<>"$TMP/go"
	engine "$CGROUP" && first=$BG
	engine "$CGROUP/below" && below=$BG
	engine "" && outside=$BG
	engine "" && late=$BG
	wait_until 60 grep -qx "$first" "$CGROUP/cgroup.procs"
	wait_until 60 grep -qx "$below" "$CGROUP/below/cgroup.procs"
	recorder_started members --cgroup "$CGROUP" -o "$TMP/members/t.json" --profile "$TMP/members/p.jsonl"
	found "members: was in it" "$first"
	found "members: was below it" "$below"
	engine "$CGROUP" && started=$BG
	found "members: was started in it" "$started"
	echo "$late" >"$CGROUP/below/cgroup.procs"
	found "members: entered it" "$late"
	for ((i = 0; i < 5; i++)); do
		echo >&8
	done
	exec 8>&-
	wait "$first" "$below" "$outside" "$late" "$started"
	recorder_ended members
	check "members: counted" grep -q "^inftrace: 4 processes found, 4 of them have ended" "$TMP/members.log"
	check "members: a valid trace" "$INFTRACE" validate "$TMP/members/t.json"
	expect "members: the steps of each, of no other" \
		"(lambda c: c == dict.fromkeys([$first, $below, $late, $started], $((TOKENS + 1))))(__import__('collections').Counter(e['pid'] for e in t if e.get('cat') == 'step'))" \
		t="$TMP/members/t.json"
	check "members: what is outside is not recorded" sh -c "! grep -q '\"pid\":$outside,' $TMP/members/t.json"
}

# With --discover of those in it only what a preset matches; and one that is no engine counts without it.
test_both() {
	LOG=both
	# shellcheck disable=SC2016 # of the inner shell
	spawn sleeper sh -c 'echo $$ >"$1/cgroup.procs"; exec sleep 1000' sh "$CGROUP"
	wait_until 60 grep -qx "$sleeper" "$CGROUP/cgroup.procs"
	exec 8<>"$TMP/go"
	recorder_started both --discover --cgroup "${CGROUP#"$root"}" -o "$TMP/both/t.json"
	engine "$CGROUP" && inside=$BG
	engine "" && outside=$BG
	found "both: the engine in it" "$inside"
	echo >&8
	echo >&8
	exec 8>&-
	wait "$inside" "$outside"
	recorder_ended both
	check "both: no other" grep -q "^inftrace: 1 processes found, 1 of them have ended" "$TMP/both.log"
	LOG=sleeper
	recorder_started sleeper --cgroup "$CGROUP" -e sched -o "$TMP/sleeper/t.json"
	found "sleeper: anything in it" "$sleeper"
	recorder_ended sleeper
	kill "$sleeper"
	wait "$sleeper" || true
}

# A service that is restarted has a new cgroup of the same name.
test_removed() {
	LOG=removed
	mkdir "$CGROUP/service"
	recorder_started removed --cgroup "$CGROUP/service" -e sched -o "$TMP/removed/t.json"
	rmdir "$CGROUP/service"
	check "removed: said" wait_until 60 grep -q 'the cgroup has been removed' "$TMP/removed.log"
	mkdir "$CGROUP/service"
	# shellcheck disable=SC2016 # of the inner shell
	background sh -c 'echo $$ >"$1/cgroup.procs"; exec sleep 1000' sh "$CGROUP/service"
	found "removed: and made again" "$BG"
	recorder_ended removed
	kill "$BG"
	wait "$BG" || true
	same "removed: said once" "$(grep -c 'the cgroup has been removed' "$TMP/removed.log")" 1
	wait_until 60 rmdir "$CGROUP/service" || true
}

# As a container runtime names a cgroup; the process chose its HOSTNAME.
test_container() {
	local id pod=01234567-89ab-cdef-0123-456789abcdef inside
	id=$(printf '%064d' $$)
	inside=$CGROUP/kubepods-pod${pod//-/_}.slice
	mkdir "$inside" "$inside/cri-containerd-$id.scope"
	LOG=container
	exec 8<>"$TMP/go"
	recorder_started container --cgroup "$inside" -o "$TMP/container/t.json" -o "$TMP/container/t.pftrace" --profile "$TMP/container/p.jsonl"
	HOSTNAME='server-0' engine "$inside/cri-containerd-$id.scope"
	local first=$BG
	found "container: found" "$first"
	HOSTNAME=$'e\e[2J"}' engine "$inside/cri-containerd-$id.scope"
	local second=$BG
	found "container: found, with a bad name" "$second"
	echo >&8
	echo >&8
	exec 8>&-
	wait "$first" "$second"
	recorder_ended container
	rmdir "$inside/cri-containerd-$id.scope" "$inside"
	check "container: valid" "$INFTRACE" validate "$TMP/container/t.json" "$TMP/container/p.jsonl"
	expect "container: of each line" \
		"all(l.get('container') == ({'id': '$id', 'pod_uid': '$pod', 'host': 'server-0'} if l['shape']['pid'] == $first else {'id': '$id', 'pod_uid': '$pod'}) for l in p if 'pid' in l['shape']) and len(p) > 4" \
		p="$TMP/container/p.jsonl"
	expect "container: of each process" \
		"{e['pid']: e['args']['labels'] for e in t if e['name'] == 'process_labels'} == {$first: 'container ${id:0:12}, pod $pod, host server-0', $second: 'container ${id:0:12}, pod $pod'}" \
		t="$TMP/container/t.json"
	check "container: in the Perfetto trace" grep -qa "container ${id:0:12}, pod $pod, host server-0" "$TMP/container/t.pftrace"
	spawn BG "$INFTRACE" export --prometheus 127.0.0.1:0 "$TMP/container/p.jsonl" >"$TMP/export.log" 2>&1
	wait_until 30 grep -q 'http://127.0.0.1:' "$TMP/export.log"
	python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' \
		"$(grep -oE 'http://127.0.0.1:[0-9]+/metrics' "$TMP/export.log" | head -n 1)" >"$TMP/metrics"
	check "container: in the labels of metrics" grep -q "^inftrace_step_duration_seconds_count{.*container_id=\"$id\",k8s_pod_uid=\"$pod\".*} $((2 * (TOKENS + 1)))" "$TMP/metrics"
	kill "$BG"
	wait "$BG" || true
}

test_refused() {
	check_rc "none of this name" 2 '^inftrace: --cgroup /no/such: there is no such cgroup' "$INFTRACE" record --cgroup /no/such
	check_rc "no name" 2 '^inftrace: --cgroup : is empty; / is' timeout 60 "$INFTRACE" record --cgroup "" -d 1s -o "$TMP/none.json"
	check_rc "not a cgroup" 2 "^inftrace: --cgroup $TMP: this is not a cgroup of version 2" "$INFTRACE" record --cgroup "$TMP"
	check_rc "a file of one" 2 '^inftrace: --cgroup .*: Not a directory' "$INFTRACE" record --cgroup "$CGROUP/cgroup.procs"
	check_rc "with a process" 2 'give one of -p, -a, --cgroup and -- COMMAND' "$INFTRACE" record --cgroup "$CGROUP" -p $$
	check_rc "with --hold-libraries" 2 '--hold-libraries: not with --cgroup' "$INFTRACE" record --cgroup "$CGROUP" --hold-libraries
	mkdir "$CGROUP/threads"
	if echo threaded >"$CGROUP/threads/cgroup.type" 2>/dev/null; then
		check_rc "a threaded one" 2 '^inftrace: --cgroup .*: this cgroup is threaded' "$INFTRACE" record --cgroup "$CGROUP/threads"
	else
		skip "a threaded one" "none can be made here"
	fi
	rmdir "$CGROUP/threads"
}

run_tests "$@"
