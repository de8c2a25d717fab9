#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# inftrace serve: what it serves, to whom, and while a recording is writing it. Its /run of its own hides other recordings.

[ -n "${SERVE_TEST_RUN:-}" ] || [ "${1:-}" = --list ] || SERVE_TEST_RUN=1 exec unshare --mount "$0" "$@"
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/robust/common.sh"

CLIENT=$TOP/tests/tools/serve_client.py
get="GET /a_b_c_d_20.json HTTP/1.1"
host="Host: 127.0.0.1:PORT"

# serve NAME ARG...: on a port of its own, which is in PORT; its pid is in BG, what it prints in NAME.url and NAME.err.
serve() {
	serving "$1" "$INFTRACE" serve -P 0 "${@:2}"
	PORT=$(sed -n 's#.*http://127.0.0.1:\([0-9]*\)/.*#\1#p' "$TMP/$1.url")
}

# answers NAME STATUS LINE HEADER...
answers() {
	check_rc "$1: $2" 0 "^HTTP/1.1 $2 " "$CLIENT" ask "$PORT" "${@:3}"
}

need cc node python3
mount -t tmpfs -o mode=755 tmpfs /run || skip_all "may not mount a tmpfs"
cd "$TMP" || exit
cp "$TOP/tests/golden/trace_good.json" t.json
echo secret >secret

# What cannot be served.
test_refused() {
	: >empty.json
	ln -s secret link.json
	mkdir directory.json
	mkfifo fifo.json
	check_rc "no file" 2 'no FILE given' "$INFTRACE" serve
	check_rc "two files" 2 'one FILE only' "$INFTRACE" serve t.json t.json
	check_rc "a file and --live" 2 'not both' "$INFTRACE" serve --live t.json
	check_rc "-p without --live" 2 'needs --live' "$INFTRACE" serve -p 1 t.json
	check_rc "a port too large" 2 'inftrace: --port: 65536 is not a port' "$INFTRACE" serve -P 65536 t.json
	check_rc "no port" 2 'inftrace: --port: x is not a port' "$INFTRACE" serve -P x t.json
	check_rc "missing" 1 'inftrace: cannot read x.json: No such file' "$INFTRACE" serve x.json
	check_rc "a directory" 1 'inftrace: cannot serve directory.json: it is a directory' "$INFTRACE" serve directory.json
	check_rc "a directory without a suffix" 1 'it is a directory' "$INFTRACE" serve /etc
	check_rc "a pipe" 1 'inftrace: cannot serve fifo.json: it is not a regular file' "$INFTRACE" serve fifo.json
	check_rc "empty" 1 'inftrace: cannot serve empty.json: it is empty' "$INFTRACE" serve empty.json
	check_rc "a profile" 2 'inftrace: p.jsonl: .*inftrace report' "$INFTRACE" serve p.jsonl
	check_rc "no trace behind the name" 1 'inftrace: cannot serve link.json: its content does not fit its name' "$INFTRACE" serve link.json
	check_rc "no recording of that process" 1 "inftrace: no recording of process $$ is running" \
		timeout 20 "$INFTRACE" serve --live -p $$
}

test_file() {
	cp t.json "$TMP/a b&c#d%20.json"
	serve static -v "a b&c#d%20.json"
	server=$BG
	same "the URL" "$(cat static.url)" "https://ui.perfetto.dev/#!/?url=http://127.0.0.1:$PORT/a_b_c_d_20.json"
	check "another port than the UI's: says so" grep -q "ssh -L 9001:127.0.0.1:$PORT" static.err
	check_rc "the port is taken" 1 "port $PORT of 127.0.0.1 is taken" "$INFTRACE" serve -P "$PORT" t.json
	same "on the loopback address only" "$(python3 - "$PORT" <<'PY'
import sys
port = ":%04X" % int(sys.argv[1])
for table in ("tcp", "tcp6"):
    for line in open("/proc/net/" + table).read().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(port) and fields[3] == "0A":
            print(table, fields[1].split(":")[0])
PY
)" "tcp 0100007F"
	check "fetched" "$CLIENT" fetch "$PORT" a_b_c_d_20.json got
	check "as it is" cmp got t.json
	rm "a b&c#d%20.json"
	ln -s secret "a b&c#d%20.json"
	check "fetched, with another file of that name there" "$CLIENT" fetch "$PORT" a_b_c_d_20.json got
	check "the same as before" cmp got t.json

	answers "a path outside" 404 "GET /../../etc/passwd HTTP/1.1" "$host"
	answers "the directory" 404 "GET / HTTP/1.1" "$host"
	answers "another name for this machine" 403 "$get" "Host: evil.example:PORT"
	answers "a page of somebody" 403 "$get" "$host" "Origin: https://evil.example"
	answers "a page of the UI" 200 "$get" "$host" "Origin: https://ui.perfetto.dev"
	same "a page of the UI: is let read it" \
		"$(grep -c "^Access-Control-Allow-Origin: https://ui.perfetto.dev" check.out)" 1
	answers "the UI looks for a trace_processor" 405 "POST /status HTTP/1.1" "$host" "Origin: https://ui.perfetto.dev" \
		"Content-Length: 0"
	answers "a range" 206 "$get" "$host" "Range: bytes=5-9"
	same "a range: which" "$(grep -c "^Content-Range: bytes 5-9/$(stat -c %s t.json)" check.out)" 1
	check "a line for each request" grep -q 'inftrace: GET /a_b_c_d_20.json: 206, 5 bytes' static.err

	for seed in 1 2 3; do
		check "hostile $seed" timeout 120 "$CLIENT" hostile "$PORT" a_b_c_d_20.json t.json "$seed"
	done
	same "hostile: no line has control bytes" "$(LC_ALL=C tr -d '\n' <static.err | LC_ALL=C grep -c '[[:cntrl:]]')" 0
	if command -v openssl >/dev/null && [ -x "${CHROMIUM:-/usr/bin/chromium}" ]; then
		check_shown "pages in a browser: who may, and who may not" timeout 300 \
			"$TOP/tests/tools/serve_browser.py" "$PORT" a_b_c_d_20.json t.json
	else
		skip "pages in a browser" "chromium or openssl is not installed"
	fi
	interrupted "Ctrl-C" "$server" 0
}

test_once() {
	serve once --once t.json
	answers "--once: not the whole" 206 "GET /t.json HTTP/1.1" "$host" "Range: bytes=5-9"
	check "--once: the whole" "$CLIENT" fetch "$PORT" t.json got
	ended "--once: ends" "$BG" 0

	cp t.json w.json.part
	serve part --once w.json.part
	same "of a window that is open: the name it will have" "$(sed 's#.*/##' part.url)" w.json
	check "of a window that is open: fetched" "$CLIENT" fetch "$PORT" w.json got
	ended "of a window that is open: ends" "$BG" 0

	serve quiet -q --once t.json
	check "quiet: fetched" "$CLIENT" fetch "$PORT" t.json got
	ended "quiet: ends" "$BG" 0
	same "quiet: not a word but the URL" "$(cat quiet.err)" ""
	check_rc "the URL cannot be written" 1 'cannot write the URL' sh -c '"$0" serve -P 0 t.json >/dev/full' "$INFTRACE"
}

# prefixes FILE: each fetched part is the beginning of the file, and longer than the one before; writes each again
prefixes() {
	python3 - "$1" <<-'PY'
		import hashlib, os, sys
		name = sys.argv[1]
		content = open(name, "rb").read()
		sizes = []
		os.mkdir("prefixes")
		for i, line in enumerate(open(name + ".seen")):
		    size, digest = line.split()
		    prefix = content[: int(size)]
		    assert hashlib.sha256(prefix).hexdigest() == digest, line
		    open("prefixes/%d.%s" % (i, name.split(".", 1)[1]), "wb").write(prefix)
		    sizes.append(int(size))
		assert sizes == sorted(sizes) and len(set(sizes)) >= 20, sizes
	PY
}
# packets FILE...: nothing but packets, except for a torn one at the end
packets() {
	python3 - "$@" <<-'PY'
		import sys
		for path in sys.argv[1:]:
		    data, i, n = open(path, "rb").read(), 0, 0
		    while i < len(data):
		        assert data[i] == 0x0A, "%s: byte %d begins no packet" % (path, i)
		        size = shift = 0
		        i += 1
		        while i < len(data):
		            byte = data[i]
		            i += 1
		            size |= (byte & 0x7F) << shift
		            shift += 7
		            if not byte & 0x80:
		                break
		        i += size
		        n += i <= len(data)
		    assert n > 3, path
	PY
}

# While it is recorded.
test_recorded() {
	build storm
	spawn target ./storm -t 2 -n 20 -s 0 -p 10000
	files=(g.json g.json.gz g.pftrace)
	spawn recorder "$INFTRACE" record -q --engine none -u "$TMP/storm:storm_step@step" -p "$target" \
		-o g.json -o g.json.gz -o g.pftrace
	all_begun() {
		[ -s g.json ] && [ -s g.json.gz ] && [ -s g.pftrace ]
	}
	wait_until 60 all_begun
	servers=() followers=() ports=()
	for file in "${files[@]}"; do
		serve "$file" "$file"
		servers+=("$BG")
		ports+=("$PORT")
		check "$file: is being recorded" grep -q 'so far) until the recording ends' "$file.err"
		"$CLIENT" follow "$PORT" "$file" 50 10 >"$file.seen" &
		followers+=($!)
		test_pids+=($!)
	done
	serve live --live -p "$target"
	live=$BG live_port=$PORT
	same "--live: the first trace of the recording" "$(cat live.url)" \
		"https://ui.perfetto.dev/#!/?url=http://127.0.0.1:$PORT/g.json"
	check "--live: fetched" "$CLIENT" fetch "$PORT" g.json got
	serve by-recorder --live -p "$recorder" --once
	check "--live: by the pid of the recorder" "$CLIENT" fetch "$PORT" g.json got
	ended "--live --once: ends when it was fetched" "$BG" 0
	for i in 0 1 2; do
		rc=0
		wait "${followers[i]}" || rc=$?
		same "${files[i]}: fetched 50 times" "$rc $(wc -l <"${files[i]}.seen")" "0 50"
	done
	interrupted "recorded" "$recorder"
	kill "$target"
	for i in 0 1; do
		file=${files[i]}
		wait_until 60 grep -q 'the recording has ended' "$file.err" || true
		check "$file: fetched at the end" "$CLIENT" fetch "${ports[i]}" "$file" got
		check "$file: complete" cmp got "$file"
		ended "$file: ends when it was fetched" "${servers[i]}" 0
	done
	check "--live: fetched at the end" "$CLIENT" fetch "$live_port" g.json got
	check "--live: complete" cmp got g.json
	ended "--live: ends when it was fetched" "$live" 0

	for file in "${files[@]}"; do
		rm -rf prefixes
		check "$file: what was fetched is how it begins" prefixes "$file"
		if [ "$file" = g.pftrace ]; then
			check "$file: each of the 50 can be read" packets prefixes/*
			continue
		fi
		check "$file: each of the 50 is valid" "$INFTRACE" validate -q prefixes/*
		check "$file: they open" "$TOP/tests/tools/check_chrome_trace.mjs" --brief prefixes/{0,1,2,3,10,20,49}."${file#g.}"
	done

	# nobody fetches the last one
	ended "ends when nobody comes" "${servers[2]}" 0
	check "ends when nobody comes: says so" grep -q 'nobody fetched all of the trace; it is in g.pftrace' g.pftrace.err
}

run_tests "$@"
