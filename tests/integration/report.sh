#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# inftrace report on recordings of real llama.cpp in which something was in the way: it names what,
# and for how long. Its page, in a headless Chromium.

. "$(dirname "$0")/../lib.sh"

# record NAME COMMAND...: records a second or two of generation on CPU 0; it begins when the command,
# which gets the pid of the engine and a file, writes a line to the file. Leaves $TMP/NAME.jsonl, .json, .out (of the engine), .log
# (of the command).
record() {
	local name=$1 target recorder rc=0
	shift
	waiting target "$name" chrt -f 1 taskset -c 0 "$DRIVER" -n 1500 -r 3 -t 1 -q -w "${MODEL_ARGS[@]}"
	recording recorder "$name" -p "$target" -o "$TMP/$name.json" --profile "$TMP/$name.jsonl"
	"$@" "$target" "$TMP/$name.go" >"$TMP/$name.log"
	wait "$target" || rc=$?
	wait "$recorder" || rc=$?
	same "$name: recorded" "$rc" 0
}

# report NAME: leaves $TMP/NAME.txt and .report.jsonl, of the profile; NAME-trace: of the trace
report() {
	check "$1: text" "$INFTRACE" report "$TMP/$1.jsonl"
	cp "$TMP/check.out" "$TMP/$1.txt"
	check "$1: JSON" "$INFTRACE" report --json --all-steps -n 1000 "$TMP/$1.jsonl"
	tr -d '\n' <"$TMP/check.out" >"$TMP/$1.report.jsonl"
	check "$1: JSON of the trace" "$INFTRACE" report --json --all-steps -n 1000 "$TMP/$1.json"
	tr -d '\n' <"$TMP/check.out" >"$TMP/$1-trace.report.jsonl"
}

# What every report must satisfy: all steps of the engine, with sums that equal those of the file to the nanosecond.
agrees() { # NAME
	expect "$1: every step of the engine has a verdict" '([s["step"] for s in r[0]["steps"]] ==
		list(range(c["steps"])) and sum(s["n_tokens"] for s in r[0]["steps"]) == c["n_tokens"])' \
		r="$TMP/$1.report.jsonl" c=last:"$TMP/$1.out"
	expect "$1: the breakdown is the sum of the steps" '(lambda ns:
		{(f["phase"], k): ns(v) for f in r[0]["processes"][0]["phases"] for k, v in f["breakdown_us"].items()} ==
		{(f, k): sum(ns(s["stage_us"].get(k, 0)) for s in p if s["event"] == "token_prof" and s["shape"]["phase"] == f)
		for f in ("prefill", "decode") for k in {k for s in p if s["event"] == "token_prof" and s["shape"]["phase"] == f
		for k in s["stage_us"] if not k.startswith("workers_")}})(lambda us: round(us * 1000))' \
		r="$TMP/$1.report.jsonl" p="$TMP/$1.jsonl"
	expect "$1: the report of the trace says the same of the steps" '(lambda f: f(r) == f(t))(lambda r:
		([{k: f[k] for k in ("phase", "steps", "step_us", "breakdown_us")} for f in r[0]["processes"][0]["phases"]],
		r[0]["processes"][0]["first_step_to_first_token_us"], r[0]["processes"][0]["time_per_output_token_us"],
		[(s["step"], s["state"], s["excess_us"]) for s in r[0]["steps"]]))' \
		r="$TMP/$1.report.jsonl" t="$TMP/$1-trace.report.jsonl"
}

# Five times 100 ms; prints start and end of each, and for how long at least it was seen to be stopped.
stop_often() { # PID GO
	python3 - "$@" <<-'PY'
		import os, signal, sys, time
		os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
		pid = int(sys.argv[1])
		def now():
		    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
		def state():
		    with open(f"/proc/{pid}/stat") as f:
		        return f.read().rsplit(")", 1)[1].split()[0]
		open(sys.argv[2], "w").write("\n")
		for i in range(5):
		    time.sleep(0.06 + i * 0.013)
		    start = now()
		    os.kill(pid, signal.SIGSTOP)
		    while state() != "T":
		        time.sleep(0.001)
		    seen = now()
		    time.sleep(0.1)
		    least = now() - seen
		    os.kill(pid, signal.SIGCONT)
		    print('{"from": %d, "to": %d, "least": %d}' % (start, now(), least))
	PY
}

planted() { # NAME: each disturbance is found, with its length
	check_shown "$1: each time is found, with its length" "$TOP/tests/tools/check_planted.py" "$1" \
		"$TMP/$1.report.jsonl" "$TMP/$1.json" "$TMP/$1.log"
}

need python3 taskset chrt
need_llama
# ahead of all other work of this machine: only what is planted here is in the way
chrt -f 1 true || skip_all "no real-time scheduling here"

# Stopped by a signal.
test_stopped() {
	record stopped stop_often
	report stopped
	agrees stopped
	planted stopped
	check "stopped: the sentence" grep -E \
		'^  step [0-9]+, [0-9]+ ms instead of [0-9.]+ .s: the calling thread was stopped for 1[0-9][0-9] ms by a signal or a debugger' \
		"$TMP/stopped.txt"
}

# Five times 60 ms; prints start and end of each, how much of that it had the CPU, and how long it can have been
# there, including its work before and after.
hog() { # PID GO
	"$TMP/cc1hog" - "$@" <<-'PY'
		import os, sys, time
		os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
		os.sched_setaffinity(0, {0})
		open(sys.argv[2], "w").write("\n")
		for i in range(5):
		    nap = 0.05 + i * 0.007
		    awake = time.monotonic_ns() + int(nap * 1e9)
		    time.sleep(nap)
		    cpu, start = time.thread_time_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
		    while time.thread_time_ns() - cpu < 60000000:
		        pass
		    cpu, end = time.thread_time_ns() - cpu, time.clock_gettime_ns(time.CLOCK_BOOTTIME)
		    print('{"from": %d, "to": %d, "cpu": %d, "most": %d}' % (start, end, cpu, time.monotonic_ns() - awake),
		        flush=True)
		os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0)) # its end is in nobody's way
	PY
}

# Another program on the same CPU.
test_hog() {
	ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$TMP/cc1hog"
	record hog hog
	report hog
	agrees hog
	planted hog
	check "hog: the sentence" grep -E \
		'^  step [0-9]+, [0-9]+\.?[0-9]* ms instead of [0-9.]+ .s: the calling thread waited [0-9.]+ ms for a CPU behind pid [0-9]+ `cc1hog`' "$TMP/hog.txt"
}

page() { # NAME OPTION...
	local name=$1
	shift
	check "page: $name ${*:-wide}" "$TOP/tests/tools/check_page.mjs" "$@" "$TMP/$name.html"
}

# A recording of ten minutes, with two steps that stand out.
test_page() {
	python3 - >"$TMP/long.jsonl" <<'PY'
import random
random.seed(7)
ts = 0
for i in range(200000):
    cpu, barrier = random.randint(2600000, 2800000), random.randint(100000, 200000)
    stopped = 250000000 if i in (70000, 150000) else 0
    total = cpu + barrier + stopped
    us = lambda ns: "%d.%03d" % divmod(ns, 1000)
    print('{"event":"token_prof","commit_sha":null,"env_hash":"sha256:1","model":"m","concurrency":1,"shape":'
          '{"step":%d,"pid":4711,"tid":4711,"phase":"decode","n_tokens":1,"ts_us":%s,"workers":1,"lost":0},"stage_us":'
          '{"total":%s,"cpu":%s,"barrier":%s%s,"workers_total":%s,"workers_cpu":%s},"graph_enabled":false,'
          '"runtime_flags":{},"source":"native"}' % (i, us(ts), us(total), us(cpu), us(barrier),
          ',"stopped":' + us(stopped) if stopped else '', us(total), us(total)))
    ts += total + 100000
PY
	cat >"$TMP/hostile.jsonl" <<'END'
{"event":"op_prof","commit_sha":null,"env_hash":"sha256:1","model":"<img src=x onerror=alert(1)>","concurrency":1,"shape":{"pid":1,"comm":"</script><script>alert(2)</script>"},"stage_us":{"total":1.000,"<b onclick=alert(3)>'\"\u2028&amp;":1.000},"graph_enabled":false,"runtime_flags":{},"source":"native"}
{"event":"stack_prof","commit_sha":null,"env_hash":"sha256:1","model":"m","concurrency":1,"shape":{"pid":1,"tid":1,"phase":"<i>","state":"cpu","kind":"sample","samples":3,"stack":1},"stage_us":{"total":3000.000},"frames":["<img src=x onerror=alert(4)> [</script>]","f (<b onclick=alert(5)>.py:7)","main [x]"],"graph_enabled":false,"runtime_flags":{},"source":"native"}
END

	[ -e "$TMP/stopped.jsonl" ] || record stopped stop_often
	for name in stopped long hostile; do
		check "page: $name: written" "$INFTRACE" report --html "$TMP/$name.html" "$TMP/$name.jsonl"
	done
	same "page: of a long recording it is small" "$(($(stat -c %s "$TMP/long.html") < 400000))" 1

	if command -v node >/dev/null && [ -x "${CHROMIUM:-/usr/bin/chromium}" ]; then
		page stopped
		page stopped --dark
		page stopped --size 390x844
		page hostile --size 390x844
		page hostile
		same "page: hostile names are shown as text" "$("$TOP/tests/tools/check_page.mjs" --eval \
			'[document.querySelectorAll("script").length, document.querySelectorAll("main img, main b[onclick]").length,
			document.body.textContent.includes("<b onclick=alert(3)>")]' "$TMP/hostile.html" | tail -n 1)" '[2,0,true]'
		same "page: a flame graph is zoomed and searched" "$("$TOP/tests/tools/check_page.mjs" --size 390x844 --eval \
			'(() => { const f = document.querySelector(".flame"), of = (c) => f.parentNode.querySelector(c);
			const boxes = () => [...f.firstChild.children], n = boxes().length, search = of("input");
			boxes().find((b) => b.textContent.startsWith("f (")).click();
			const above = f.querySelectorAll(".above").length, told = of(".told").textContent;
			search.value = "ONERROR"; search.dispatchEvent(new Event("input"));
			return [n, above, told, f.querySelectorAll(".hit").length]; })()' \
			"$TMP/hostile.html" | tail -n 1)" '[4,2,"f (<b onclick=alert(5)>.py): 3.00 ms, 100.00 %",1]'
		page long
		loaded() {
			sed -n 's/^loaded in \([0-9]*\) ms$/\1/p' "$TMP/check.out"
		}
		# the first start of a browser reads it from the disk
		page hostile --size 390x844
		small=$(loaded)
		page long --size 390x844
		ms=$(loaded)
		same "page: a long recording opens about as fast as a small one ($ms and $small ms)" "$((ms < 5 * small + 1000))" 1
		same "page: all that is slow stands in it" "$("$TOP/tests/tools/check_page.mjs" --eval \
			'["step 70000, 253 ms", "step 150000, 253 ms"].map((t) => document.body.textContent.includes(t))' \
			"$TMP/long.html" | tail -n 1)" '[true,true]'
	else
		skip "page" "chromium or node is not installed"
	fi
}

# Nothing that is read is replaced by a page, and no other file unless that is said.
test_page_name() {
	local good=$TOP/tests/golden/profile_good.jsonl
	mkdir "$TMP/names"
	cd "$TMP/names" || return
	cp "$good" a.jsonl
	ln -s a.jsonl link.html
	ln a.jsonl hard.html
	echo notes >notes.html
	for page in "--html=a.jsonl" "--html=link.html" "--html hard.html"; do
		# shellcheck disable=SC2086 # two words
		check_rc "page name: $page is read" 2 'is a file to report on' "$INFTRACE" report --force $page a.jsonl
		# shellcheck disable=SC2086
		check_rc "page name: $page is the standard input" 2 'is a file to report on' sh -c "'$INFTRACE' report $page - <a.jsonl"
	done
	check_rc "page name: another file" 2 'notes.html is there and is not a page of inftrace report.*--force' \
		"$INFTRACE" report --html notes.html a.jsonl
	same "page name: another file is as it was" "$(cat notes.html)" notes
	check "page name: another file, with --force" "$INFTRACE" report --force --html notes.html a.jsonl
	check "page name: the default" "$INFTRACE" report --html a.jsonl "$good"
	check "page name: a page is replaced" "$INFTRACE" report --html report.html a.jsonl
	check "page name: a page is where it should be" cmp report.html notes.html
	check "page name: the input is as it was" cmp a.jsonl "$good"
	cd "$TOP" || return
}

run_tests "$@"
