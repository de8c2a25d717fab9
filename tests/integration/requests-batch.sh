#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Requests that share their steps: each that a server with slots, a queue and kept prompts has answered is in the
# profile, with the tokens and times that the server's own log and clock say.

. "$(dirname "$0")/../lib.sh"

need python3
need_llama
driver=$(serve_driver)
model=$(llama_model mite)
libs=${MODEL_ARGS[0]}

# served NAME DRIVER-OPTION... [-- RECORD-OPTION...]: a run of the driver, recorded from before its first step on
served() {
	local name=$1 args
	args_split "${@:2}"
	args=("${BEFORE[@]}")
	engine_recorded "$name" --profile "$TMP/$name.jsonl" "${BEHIND[@]}" -- \
		"$driver" -w -l "$TMP/$name.log" "${args[@]}" "$libs" "$model"
}

# compared NAME [CHECK-OPTION...]: with the driver's log
compared() {
	check_shown "$1: requests, tokens, times and whom they waited for, by the driver's own log" \
		"$TOP/tests/programs/check_requests.py" "${@:2}" "$TMP/$1.log" "$TMP/$1.jsonl"
	check "$1: valid" "$INFTRACE" validate "$TMP/$1.jsonl" --require token_prof,request_prof
}

# run_served NAME DRIVER-OPTION... [-- RECORD-OPTION...]
run_served() {
	local name=$1
	if ! served "$@"; then
		sed 's/^/# /' "$TMP/$name.out" "$TMP/$name.err"
		not_ok "$name" "the run failed"
		return 1
	fi
}

# From 1 to 16 at once, prompts in parts, slots that are used again, cancellations.
test_served() {
	local seed
	for seed in $(often "${SEEDS:-1}" "1 2 3 4 5"); do
		run_served "served $seed" -r 1000 -s "$seed" -p 16 -a 0.8 -- --strict || continue
		compared "served $seed"
	done
}

# Mostly few at once, so that chats go on where they ended; guessed tokens.
test_chats() {
	run_served chats -r 300 -s 6 -p 6 -a 4 -d 30 -- --strict || return 0
	compared chats
}

# Two threads, and all events beside the profile.
test_traced() {
	run_served traced -r 40 -s 7 -p 4 -t 2 -u -- --strict -o "$TMP/traced.json" || return 0
	compared traced
	check "traced: the trace is valid" "$INFTRACE" validate "$TMP/traced.json"
}

# attach NAME RECORD-OPTION...: to a server that has been at work for a while, and goes on
attach() {
	local name=$1 engine
	shift
	spawn engine "$driver" -r 1000000 -s 8 -p 8 -a 1.2 -d 10 -l "$TMP/$name.log" "$libs" "$model"
	wait_until 60 [ -s "$TMP/$name.log" ]
	spawn BG "$INFTRACE" record --profile "$TMP/$name.jsonl" "$@" -p "$engine" 2>"$TMP/$name.err"
	if [ "${stop:-}" ]; then
		stopped "$name"
	fi
	wait "$BG"
	kill -TERM "$engine"
	wait "$engine"
}

# Some are begun when the recording begins, others when it ends: they say so, and the rest is exact.
test_edges() {
	attach edges --strict --max-steps 300
	compared edges --edges --least 50
}

# A request over the edge of a window is in the files of both, and both say so.
test_windows() {
	local i profile
	mkdir "$TMP/windows"
	engine_started windows --strict --window manual --max-steps 100 --output-dir "$TMP/windows" --format json -- \
		"$driver" -w -r 1000000 -s 9 -p 8 -a 1.2 -d 10 -n 400 -c 500 -l "$TMP/windows.log" "$libs" "$model"
	for i in 0 1 2; do
		timeout 60 "$INFTRACE" start --pid "$TRACER" >"$TMP/windows.told"
		wait_until 60 grep -q "window $i (start to max_steps)" "$TMP/windows.err"
	done
	kill -INT "$TRACER"
	wait "$TRACER" || sed 's/^/# /' "$TMP/windows.err"
	kill -TERM "$ENGINE"
	wait "$ENGINE"
	check_shown "windows: requests over their edges, by the driver's own log" \
		"$TOP/tests/programs/check_requests.py" --edges --least 0 "$TMP/windows.log" "$TMP"/windows/profile_*.jsonl
	check "windows: valid" "$INFTRACE" validate "$TMP"/windows/*.json "$TMP"/windows/*.jsonl
	for profile in "$TMP"/windows/profile_*.jsonl; do
		grep -q '"request_prof"' "$profile" || continue
		check "windows: the trace has what the profile has" "$TOP/tests/programs/check_request_tracks.py" --some \
			--profile "$profile" "$(sed 's#/profile_#/trace_#; s#jsonl$#json#' <<<"$profile")"
	done
}

# inftrace does not run for a while, so that steps are lost.
stopped() {
	wait_until 60 grep -sq token_prof "$TMP/$1.jsonl"
	kill -STOP "$BG"
	n=$(grep -c '"parts"' "$TMP/$1.log")
	wait_until 60 more_steps "$TMP/$1.log" $((n + 2000))
	kill -CONT "$BG"
	kill -INT "$BG"
}

more_steps() {
	[ "$(grep -c '"parts"' "$1")" -gt "$2" ]
}

test_loss() {
	stop=1 attach loss --ring-size 4KB
	compared loss --loss --least 50
	expect "loss: steps were lost" 'p[-1]["shape"]["lost_step"] > 0' p="$TMP/loss.jsonl"
}

# attach_requests NAME RECORD-OPTION...: to SERVER, with the requests on its sockets
attach_requests() {
	recording BG "$1" --strict -e +requests --profile "$TMP/$1.jsonl" "${@:2}" -p "$SERVER"
}

# by_node NAME SEQUENCES CLIENT...: a server in node, whose binding puts the requests of its clients into the same batches
by_node() {
	local name=$1 sequences=$2 node folder
	if ! node=$(node_20 2>/dev/null) || ! folder=$(node_llama 2>/dev/null); then
		skip "$name" "no node 20 or no node-llama-cpp"
		return 1
	fi
	mkfifo "$TMP/$name.stop"
	server_started "$name" env -C "$folder" "$node" "$TOP/tests/engines/node_llama_gen.mjs" -s "$model" 12 1 "$sequences" <>"$TMP/$name.stop"
	attach_requests "$name"
	check "$name: clients" timeout 120 "${@:3}" "$PORT"
	cp "$TMP/check.out" "$TMP/$name.clients"
	echo >"$TMP/$name.stop"
	wait "$SERVER" && wait "$BG" || sed 's/^/# /' "$TMP/$name.log" "$TMP/$name.err"
}

test_node() {
	by_node node 4 "$TOP/tests/programs/check_node_requests.py" ask 6 6 || return 0
	check_shown "node: requests and their tokens, as the server has them" \
		"$TOP/tests/programs/check_node_requests.py" "$TMP/node.out" "$TMP/node.jsonl"
	check "node: valid" "$INFTRACE" validate "$TMP/node.jsonl" --require token_prof,request_prof
}

# What the report says first is what its clients saw, whether requests are joined or not: equally long answers are hard to join, others are
# joined almost all. On a machine with a queue of threads several requests fit more often.
test_headline() {
	local name options least
	run_logged "$BUILD/programs/make.log" "cannot build the test programs" make -C "$TOP/tests/programs" O="$BUILD/programs"
	for name in "8 users" "32 users" "8 users, equal"; do
		options=(-u 8 -n 20 -w 100) least=95
		[ "$name" != "32 users" ] || options=(-u 32 -n "$(often 3 10)" -w 100)
		[ "$name" != "8 users, equal" ] || options+=(-f) least=0
		by_node "$name" $((${options[1]} / 4 > 4 ? 8 : 4)) "$BUILD/programs/llama_clients" "${options[@]}" || return 0
		check_shown "headline: $name: time to first token and goodput are those of all clients" \
			"$TOP/tests/programs/check_headline.py" "$INFTRACE" "$TMP/$name.clients" "$TMP/$name.jsonl" "$least"
	done
}

# by_http NAME DRIVER-OPTION... [-- RECORD-OPTION...]: a server with a thread for each connection, and 100 requests, of which each
# seventh is closed by its client; its requests as they are on sockets, and in the batches. PROXY: options of an nginx before it.
by_http() {
	local name=$1
	args_split "${@:2}"
	server_started "$name" "$driver" "${BEFORE[@]}" -p 4 -l "$TMP/$name.served" "$libs" "$model"
	[ -z "${PROXY:-}" ] || proxy_started
	attach_requests "$name" "${BEHIND[@]}"
	check "$name: clients" timeout 120 "$TOP/tests/programs/serve_client.py" "$PORT" ${ASK:-100 5 20 0 7}
	cp "$TMP/check.out" "$TMP/$name.asked"
	kill -TERM "$SERVER"
	wait "$SERVER" && wait "$BG" || sed 's/^/# /' "$TMP/$name.err"
	mv "$TMP/$name.served" "$TMP/$name.log"
	compared "$name"
	check_shown "$name: each on its socket and in its sequence" "$TOP/tests/programs/check_http_requests.py" \
		"$TMP/$name.log" "$TMP/$name.asked" "$TMP/$name.jsonl"
}

# An nginx before the server; PORT is its port then.
proxy_started() {
	local port proxy
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	cat >"$TMP/nginx.conf" <<-END
		user root; daemon off; pid $TMP/nginx.pid; error_log stderr;
		events { }
		http {
			access_log off; proxy_temp_path $TMP/proxied; client_body_temp_path $TMP/bodies;
			fastcgi_temp_path $TMP/f; uwsgi_temp_path $TMP/u; scgi_temp_path $TMP/s;
			server {
				listen 127.0.0.1:$port sndbuf=8k;
				location / { proxy_http_version 1.1; $PROXY proxy_pass http://127.0.0.1:$PORT; }
			}
		}
	END
	spawn proxy nginx -c "$TMP/nginx.conf" 2>"$TMP/nginx.err"
	PORT=$port
	wait_until 60 python3 -c "import socket; socket.create_connection(('127.0.0.1', $PORT))" || sed 's/^/# /' "$TMP/nginx.err"
}

# slots NAME LEAST: what the report says of those that waited for a slot, of whom so many at least were overtaken
slots() {
	"$INFTRACE" report --json -n 10000 "$TMP/$1.jsonl" >"$TMP/$1.report"
	check_shown "$1: who had the slots, and how many later ones were taken first" "$TOP/tests/programs/check_slots.py" \
		"$TMP/$1.log" "$TMP/$1.asked" "$TMP/$1.jsonl" "$TMP/$1.report" "$2"
}

test_http() {
	by_http http -H -- -o "$TMP/http.json" -o "$TMP/http.pftrace"
	check_shown "http: both traces have them, and their time in the queue" "$TOP/tests/programs/check_request_tracks.py" --some \
		--profile "$TMP/http.jsonl" "$TMP/http.json" "$TMP/http.pftrace"
	slots http 0
}

# Many at once, and who came last is taken first: whom that held up, and by how many, is in the report.
test_unfair() {
	ASK="100 0 20" by_http unfair -H -U
	slots unfair 1
}

# Behind a proxy: what its buffers take from a client that reads slowly, the server does not wait for.
test_proxy() {
	command -v nginx >/dev/null || { skip proxy "nginx is not installed"; return; }
	ASK="60 20 20 6 7" PROXY="proxy_buffering on;" by_http buffered -H
	ASK="60 20 20 6 7" PROXY="proxy_buffering off;" by_http unbuffered -H
	for name in buffered unbuffered; do
		expect "$name: whether the server waits for slow clients" "(lambda pairs: len(pairs) > 3 and (sum(w for w, _ in pairs) > sum(t for _, t in pairs) / 2) ==
			('$name' == 'unbuffered'))"'([(r["shape"]["write_blocked_us"] * 1e3, c["last"] - c["first"]) for r in p if r["event"] == "request_prof" for c in a
			if r["shape"].get("request") == "GET /%d" % c["name"] and c["slow"] and c["whole"]])' p="$TMP/$name.jsonl" a="$TMP/$name.asked"
	done
}

# Reading no bytes returns what reading behind the end does: nobody has closed anything.
test_empty_reads() {
	by_http empty -E
}

# Who or what requests waited for, planted: the short version of tests/plant/requests.py, with targets that hold where others
# use the CPUs.
planted() { # TARGET ARGUMENT...
	check_shown "planted: who or what requests waited for is named: ${*:2}" \
		env PLANT_TARGET="$1" PLANT_EACH=0.4 ENGINES="$ENGINES" BUILD="$BUILD" "$TOP/tests/plant/requests.py" -v "${@:2}"
}

test_plant() {
	planted 0.8 -n 8 prompt sleep cpu pipe
	planted 0.8 -n 10 client queue
}

run_tests "$@"
