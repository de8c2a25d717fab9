#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Behind which threads a thread waited for a CPU: each has its share, in the profile and in the report; threads of one
# step that are in each other's way. Compared with what ran on the CPU, by the trace of the same recording.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/programs/programs.sh"
. "$TOP/tests/robust/common.sh"

cpu=$(python3 -c 'import os; print(max(os.sched_getaffinity(0)))')
tries=6

setup() {
	need python3 node chrt
	# ahead of everything else on this machine, as far as possible
	chrt -r 1 true || skip_all "no real-time scheduling here"
	cat >"$TMP/rivals-engine.json" <<END
{
  "name": "rivals",
  "match": { "mapped": ["rivals"] },
  "probes": [
    { "symbol": "work", "role": "step", "args": { "n_tokens": "s32 arg1" } },
    { "symbol": "meet", "role": "barrier", "group": "ptr arg1" }
  ]
}
END
}

# rivals NAME WHAT CHECK...: repeated until nothing disturbed it
rivals() {
	local name=$1 what=$2 try rc=0
	for ((try = 0; try < tries; try++)); do
		record_attached "$name-$try" -e +cpu,-syscalls,-ipc --engine "$TMP/rivals-engine.json" -- \
			chrt -r 1 "$PROGRAMS/rivals" "$what" "$cpu" 4 150 >"$TMP/recorded" || {
			cat "$TMP/recorded"
			return 0
		}
		rc=0
		"$TOP/tests/programs/check_behind.py" "$3" "$TMP/$name-$try.json" "$TMP/$name-$try.jsonl" \
			"$TMP/$name-$try.out" "${@:4}" >"$TMP/differences" 2>&1 || rc=$?
		[ "$rc" -eq 3 ] || break
	done
	cp "$TMP/$name-$try.jsonl" "$TMP/$name.jsonl" 2>/dev/null
	case $rc in
	0) ok "$name: each has its share, the others have the rest" ;;
	3) skip "$name" "something else ran on the CPU, $tries times" ;;
	*)
		sed 's/^/# /' "$TMP/differences"
		not_ok "$name: each has its share, the others have the rest" "see above"
		;;
	esac
	return "$rc"
}

test_hogs_leader() {
	rivals hogs-leader hogs-leader hogs own && {
		check "hogs-leader: report" "$INFTRACE" report --json "$TMP/hogs-leader.jsonl"
		tr -d '\n' <"$TMP/check.out" >"$TMP/report.jsonl"
		expect "hogs-leader: each hog is in the totals" \
			'{"hoga", "hogb", "hogc"} <= {c.get("by") for c in r[0]["processes"][0]["causes"]}' r="$TMP/report.jsonl"
		expect "hogs-leader: the totals are the excess of the steps" '(lambda p: abs(sum(c["excess_us"] for c in p["causes"]) -
			sum(s["excess_us"] for s in p["slowest"])) < 1)(r[0]["processes"][0])' r="$TMP/report.jsonl"
		expect "hogs-leader: the parts of a step are its wait" 'all(abs(sum(b["us"] for b in s["behind"]) - s["state_us"]) < 1
			for s in r[0]["processes"][0]["slowest"] if "behind" in s)' r="$TMP/report.jsonl"
		check "hogs-leader: text" "$INFTRACE" report "$TMP/hogs-leader.jsonl"
		same "hogs-leader: nothing to compare with is not slower than others" \
			"$(grep -c '^Slow steps: 0 of 4 took longer than those around them; 4 waited, with nothing to compare with$' \
				"$TMP/check.out")" 1
	} || true
}

test_hogs_worker() {
	if [ "$(nproc)" -gt 1 ]; then
		rivals hogs-worker hogs-worker hogs workers || true
	else
		skip "hogs-worker" "one CPU only"
	fi
}

test_share() {
	rivals share share share && {
		check "share: report" "$INFTRACE" report "$TMP/share.jsonl"
		same "share: what is wrong" "$(grep -c '^2 spinning threads share 1 allowed CPU: they waited ' "$TMP/check.out")" 1
		# in the first step the barrier may have as much
		expect "share: of each step that waited for a CPU more than for anything else" \
			'(lambda said, want: want and said == want)(
				{int(n) for n in re.findall(r"step (\d), .*: 2 spinning threads share 1 allowed CPU: the calling thread waited",
					open("'"$TMP/check.out"'").read())},
				{x["shape"]["step"] for x in p if x["event"] == "token_prof" and x["stage_us"]["runnable"] ==
					max(us for state, us in x["stage_us"].items() if state != "total" and not state.startswith("workers_"))})' \
			p="$TMP/share.jsonl"
	} || true
}

# A CPU limit of the cgroup.
test_limited() {
	if limited=$(cpu_limit_make 6250 50000); then
		export limited
		# shellcheck disable=SC2016
		record_attached limited -e -syscalls,-ipc --engine "$TMP/rivals-engine.json" -- \
			sh -c 'echo $$ >"$limited/cgroup.procs" && exec "$@"' - "$PROGRAMS/rivals" pair "$cpu" 3 20 || true
		rmdir "$limited"
		check "limited: report" "$INFTRACE" report "$TMP/limited.jsonl"
		same "limited: what is wrong" \
			"$(grep -cE '^2 (spinning )?threads share 0.125 CPUs \(cgroup cpu.max\): held back for ' "$TMP/check.out")" 1
	else
		skip "limited" "no cgroup with a CPU limit can be made here"
	fi
}

# Two threads that wake each other: a wait lasts for thousands of switches, and still has names, of these and of what else runs on
# that CPU. The steps are long enough to be preempted at that priority.
# The waits are shorter than 65,536 switches, which is what the log of a CPU keeps.
test_many_switches() {
	build storm
	background taskset -c "$cpu" "$TMP/storm" -t 2 -s 0 -n 1 -w >"$TMP/others.out"
	check "many switches: recorded" "$INFTRACE" record -q --engine none -u "$TMP/storm:storm_step@step" \
		--profile "$TMP/many.jsonl" -- taskset -c "$cpu" nice -n 5 "$TMP/storm" -s 20 -n 4000
	kill "$BG"
	expect "many switches: both are named, and who ran for nearly all of the wait" \
		'(lambda waits: any([s.get(f"behind{i}_by") for i in range(1, 9)].count("storm") >= 2 for s, _ in waits) and
			sum(s.get("behind_others_us", 0) for s, _ in waits) < 0.2 * sum(us for _, us in waits))([(x["shape"], x["stage_us"]["runnable"]) for x in p if x["event"] == "token_prof" and x["stage_us"].get("runnable", 0) > 1000])' \
		p="$TMP/many.jsonl"
}

teardown() {
	traces_check
}

run_tests "$@"
