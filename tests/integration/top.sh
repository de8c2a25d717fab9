#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# inftrace top with real llama.cpp: what it counts against what the engine counts, as blocks of text;
# and on a terminal.

. "$(dirname "$0")/../lib.sh"
export LC_ALL=C
tools=$TOP/tests/tools

# Blocks as JSON; see top_blocks.py.
blocks() { # NAME
	"$tools/top_blocks.py" "$TMP/$1.txt" >"$TMP/$1.blocks"
}

# Each column of shares adds up to all of the time, except for the rounding of each row.
check_shares() { # NAME
	expect "$1: the shares of each column add up" 'all(
		sum(column) == 0 or abs(sum(column) - 100) < 0.1
		for block in b for column in zip(*block["states"].values()))' b="$TMP/$1.blocks"
}

# top_command NAME [OPTION ...] -- COMMAND ...: leaves NAME.txt, .blocks, .out
top_command() {
	local name=$1
	args_split "${@:2}"
	# the blocks go to one file, what the command prints to another
	check "$name: runs" "$INFTRACE" top "${BEFORE[@]}" -- sh -c '"$@" >"$0"' "$TMP/$name.out" "${BEHIND[@]}" \
		</dev/null
	cp "$TMP/check.out" "$TMP/$name.txt"
	blocks "$name"
}

# A pause before the first prompt: the probes are in place 10 ms after a library is mapped, and more than half a second on
# a machine that is busy with other tests.
delay=(-d 3000)

need python3
need_llama

# The whole run: the last block is about all of it.
test_command() {
	for threads in 1 2; do
		name=command-$threads
		top_command "$name" -d 0.2 -- "$DRIVER" -n $((threads == 1 ? 300 : 30)) -r 3 -t "$threads" -P 50 -q \
			"${delay[@]}" "${MODEL_ARGS[@]}"
		expect "$name: steps" 'b[-1]["facts"]["steps"] == c["steps"]' b="$TMP/$name.blocks" c=last:"$TMP/$name.out"
		expect "$name: tokens" 'b[-1]["facts"]["tokens"] == c["generated"]' \
			b="$TMP/$name.blocks" c=last:"$TMP/$name.out"
		expect "$name: the engine reads its usage twice a step" \
			'b[-1]["rows"]["getrusage"] == 2 * c["steps"]' b="$TMP/$name.blocks" c=last:"$TMP/$name.out"
		expect "$name: steps only ever grow" \
			'[x["facts"]["steps"] for x in b] == sorted(x["facts"]["steps"] for x in b)' b="$TMP/$name.blocks"
		# rounds to 0.0 % where steps take seconds, since their threads wait for a CPU
		expect "$name: what inftrace itself costs" \
			'b[-1]["facts"]["inftrace"] <= 100 and (b[-1]["facts"]["inftrace"] > 0 or sum(c["step_ns"]) > 2e9)' \
			b="$TMP/$name.blocks" c=last:"$TMP/$name.out"
		expect "$name: nothing is lost" 'all(x["facts"]["lost"] == 0 for x in b)' b="$TMP/$name.blocks"
		expect "$name: the engine is named" '"llama.cpp" in b[-1]["title"]' b="$TMP/$name.blocks"
		expect "$name: workers" 'b[-1]["facts"].get("workers", 0) == '$((threads - 1)) b="$TMP/$name.blocks"
		check_shares "$name"
	done
}

# Operators, as counted by the driver's log of each graph's nodes.
test_ops() {
	top_command ops -d 1 --ops -- "$DRIVER" -n 40 -t 1 -q -N "$TMP/nodes" "${delay[@]}" "${MODEL_ARGS[@]}"
	expect "ops: matrix multiplications are the engine's" \
		'b[-1]["rows"]["mul_mat"] == sum(node["op"] == "mul_mat" for node in nodes) > 0' \
		b="$TMP/ops.blocks" nodes="$TMP/nodes"
}

# Attached: it prints the wanted number of blocks, and the target goes on.
test_attached() {
	spawn target "$DRIVER" -n 2000 -r 0 -t 1 -q "${MODEL_ARGS[@]}" >/dev/null
	wait_until 60 grep -q libllama "/proc/$target/maps"
	check "attached: -n 3 ends" "$INFTRACE" top -n 3 -d 0.5 -p "$target"
	cp "$TMP/check.out" "$TMP/attached.txt"
	blocks attached
	expect "attached: three blocks" 'len(b) == 3' b="$TMP/attached.blocks"
	expect "attached: steps in each" 'all(x["facts"]["steps/s"] > 0 for x in b)' b="$TMP/attached.blocks"
	check_shares attached
	check "attached: the target goes on" kill -0 "$target"

	# A known cause: stops of the whole process. One may fall between two steps, and on a busy
	# machine slower ones than it may have pushed it out of the list before it is printed, or the thread that calls the step
	# may have waited for a CPU for a part of it: then it is tried again, for longer.
	spawn top env --default-signal=INT "$INFTRACE" top -n 1000 -d 0.5 -p "$target" >"$TMP/stopped.txt" \
		2>"$TMP/stopped.err" </dev/null
	wait_until 60 grep -q "Time of steps" "$TMP/stopped.txt"
	is_stopped() {
		grep -q '^State:.T' "/proc/$target/status"
	}
	named='any(
		float(how_long) * {"s": 1000, "ms": 1}.get(unit, 0) > 490
		for x in b for s in x["slow"] if "was stopped for " in s and "by pid '$$' " in s
		for how_long, unit in [s.split("was stopped for ")[1].split()[:2]])'
	is_named() {
		blocks stopped
		[ "$(json "$named" b="$TMP/stopped.blocks" 2>&1)" = true ]
	}
	for seconds in 0.5 0.5 0.5 1 1 2 4 4; do
		kill -STOP "$target"
		wait_until 60 is_stopped
		sleep "$seconds"
		kill -CONT "$target"
		! wait_until 3 is_named || break
	done
	sleep 0.7 # that block to its end
	kill -INT "$top"
	wait "$top" || true
	is_named || grep -E "^  (before )?step |^    " "$TMP/stopped.txt" | sort | uniq -c | sort -rn | head -n 40 | sed 's/^/# /'
	expect "stops of half a second are named, and who ended them" "$named" b="$TMP/stopped.blocks"

	check "attached: a reader that leaves ends it" \
		bash -c "timeout 60 '$INFTRACE' top -d 0.2 -p $target | head -n 1 | grep -q driver"
	check_rc "SIGINT ends it with a block of the whole run" 0 "^steps/s" \
		timeout --preserve-status -s INT 4 "$INFTRACE" top -d 1 -p "$target"
	kill "$target"
}

test_options() {
	check_rc "-n 0" 2 "-n: 0 updates show nothing" "$INFTRACE" top -n 0 -p 1
	check_rc "-d 0" 2 "-d: 0 is not from 0.1 to 3600 seconds" "$INFTRACE" top -d 0 -p 1
	check_rc "-d text" 2 "-d: 'x'" "$INFTRACE" top -d x -p 1
	check_rc "nothing to look at" 2 "inftrace top --help" "$INFTRACE" top
	check_rc "no such process" 1 "no process" "$INFTRACE" top -p 4194303
	check_rc "exit code of the command" 7 "^steps/s" "$INFTRACE" top -- sh -c 'exit 7'
	check_rc "no engine: system calls all the same" 0 "^  clock_nanosleep +1 " "$INFTRACE" top -- sleep 0.3
	check_rc "--help has examples" 0 "EXAMPLES" "$INFTRACE" top --help
}

test_screen() {
	python3 "$tools/top_screen.py" "$INFTRACE" "$DRIVER" -n 2000 -r 0 -t 1 -i 20 -q "${MODEL_ARGS[@]}" ||
		test_failed=1
}

run_tests "$@"
