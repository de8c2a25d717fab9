#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# inftrace export --prometheus and --otlp: what it says of profiles that are there, that grow, and of windows; to a real Prometheus, and
# of hostile labels; what it sends to a collector; and the queries of docs/fleet.md.

. "$(dirname "$0")/../lib.sh"

METRICS=$TOP/tests/tools/metrics.py

need python3
cd "$TMP" || exit
"$TOP/tests/tools/request_lines.py" --requests 200 --seed 3 >requests.jsonl
cp "$TOP"/tests/golden/family_{request,token,window}_prof_good.jsonl .

# exporter NAME ARG...: in the background, on any free port; URL, its pid in BG, its messages in NAME.err.
exporter() {
	serving "$1" "$INFTRACE" export --prometheus "${ADDRESS:-127.0.0.1:0}" "${@:2}"
	URL=$(cat "$1.url")
}

stopped() { # NAME PID
	interrupted "$1: Ctrl-C ends it" "$2"
}

test_refused() {
	local bad
	for bad in 9464 x: :x :65536 localhost:9464 ::1:80 1.2.3:80 '[::1:80'; do
		check_rc "--prometheus $bad" 2 "inftrace: --prometheus: .*give :PORT" "$INFTRACE" export --prometheus "$bad" requests.jsonl
	done
	echo '[' >trace.json
	check_rc "no profile" 2 'no FILE given' "$INFTRACE" export --prometheus :0
	check_rc "another format as well" 2 'have neither another format' "$INFTRACE" export --prometheus :0 --pprof requests.jsonl
	check_rc "missing" 1 'inftrace: none: cannot open: No such file' "$INFTRACE" export --prometheus :0 requests.jsonl none
	check_rc "a trace" 1 'inftrace: trace.json: is a trace, not a profile' "$INFTRACE" export --prometheus :0 trace.json
	exporter taken requests.jsonl
	check_rc "the port is taken" 1 "cannot listen on .*: Address already in use" \
		"$INFTRACE" export --prometheus "$(sed 's#.*//\(.*\)/metrics#\1#' taken.url)" requests.jsonl
	stopped taken "$BG"
}

test_files() {
	local own=$TMP/own.jsonl
	exporter files requests.jsonl family_*.jsonl
	check_shown "files: each histogram is that of the lines" "$METRICS" scrape "$URL" requests.jsonl family_*.jsonl
	same "files: lost records, by window_prof" "$("$METRICS" value "$URL" inftrace_lost_records_total)" \
		"$(json 'sum(v for l in p if l["event"] == "window_prof" for k, v in l["shape"].items() if k.startswith("lost_"))' \
			p=family_window_prof_good.jsonl)"
	check_rc "files: another path" 1 'HTTP Error 404' "$METRICS" value "${URL%metrics}" x
	check_rc "files: another name for this machine" 0 '^HTTP/1.1 403 ' "$TOP/tests/tools/serve_client.py" ask \
		"$(sed 's#.*:\([0-9]*\)/metrics#\1#' files.url)" "GET /metrics HTTP/1.1" "Host: evil.example"
	stopped files "$BG"
	# the same once more
	"$INFTRACE" report --json requests.jsonl >"$own"
	expect "files: the report's percentiles are those of the lines" '(lambda s, b: all(
		round(b[k] * 1000) == s[(len(s) * n + 99) // 100 - 1] for k, n in (("p50", 50), ("p90", 90), ("p99", 99))))(
		sorted(round(l["stage_us"]["ttft_client"] * 1000) for l in p if l["event"] == "request_prof" and "ttft_client" in l["stage_us"]),
		r[0]["processes"][0]["ttft_us"])' r="$own" p=requests.jsonl
}

lines_read() { # N
	[ "$("$METRICS" value "$URL" inftrace_export_lines_total)" = "$1" ]
}

# A line counts when its end is there; nothing counts twice.
test_growing() {
	local total half
	total=$(wc -l <requests.jsonl)
	half=$((total / 2))
	head -n "$half" requests.jsonl >growing.jsonl
	exporter growing growing.jsonl
	check "growing: the first half" "$METRICS" scrape "$URL" growing.jsonl
	sed -n "$((half + 1))p" requests.jsonl | head -c 100 >>growing.jsonl
	check "growing: a line that is not complete does not count" lines_read "$half"
	sed -n "$((half + 1))p" requests.jsonl | tail -c +101 >>growing.jsonl
	check "growing: now it does" lines_read $((half + 1))
	{
		tail -n +$((half + 2)) requests.jsonl
		echo 'no JSON'
		printf '{"event":"token_prof"}\n\n'
	} >>growing.jsonl
	check "growing: all lines" lines_read "$total"
	same "growing: bad lines are counted" "$("$METRICS" value "$URL" inftrace_export_bad_lines_total)" 2
	check "growing: and named" grep -q "growing.jsonl: line $((total + 1)): " growing.err
	sed -i '/^no JSON/,$d' growing.jsonl # a new file
	check "growing: each line counted once" "$METRICS" scrape "$URL" requests.jsonl requests.jsonl
	stopped growing "$BG"
}

# Windows come as NAME.part, are renamed, and go; what they had stays counted.
test_windows() {
	mkdir windows
	ln -s "$TMP/requests.jsonl" windows/link.jsonl
	cp requests.jsonl windows/notes.txt
	exporter windows windows
	same "windows: none yet" "$("$METRICS" value "$URL" inftrace_export_lines_total)" 0
	head -n 300 requests.jsonl >windows/profile_pid1_1000.jsonl.part
	check "windows: an open one counts" lines_read 300
	tail -n +301 requests.jsonl >>windows/profile_pid1_1000.jsonl.part
	mv windows/profile_pid1_1000.jsonl.part windows/profile_pid1_1000.jsonl
	gzip -c family_token_prof_good.jsonl >windows/profile_pid2_1000.jsonl.gz
	check "windows: closed, and another one" "$METRICS" scrape "$URL" requests.jsonl family_token_prof_good.jsonl
	same "windows: their number" "$("$METRICS" value "$URL" inftrace_export_files)" 2
	rm windows/profile_pid1_1000.jsonl
	same "windows: one was removed" "$("$METRICS" value "$URL" inftrace_export_files)" 1
	check "windows: which has counted" "$METRICS" scrape "$URL" requests.jsonl family_token_prof_good.jsonl
	stopped windows "$BG"
}

# A program says what its model is called.
test_hostile() {
	python3 - family_token_prof_good.jsonl >hostile.jsonl <<-'PY'
		import json, sys
		line = json.loads(open(sys.argv[1]).readline())
		names = ['a"} 1\nevil_total{x="', "back\\slash", "\x1b[31mred", "\u202eright", "other", "x" * 5000, "tab\there"]
		for name in names + [f"model {i}" for i in range(500)]:
		    line["model"] = name
		    print(json.dumps(line))
		for i in range(100):
		    line["shape"]["phase"] = f'phase {i}"'
		    print(json.dumps(line))
		line["shape"]["phase"] = 7
		line["stage_us"] = {"total": -1, "cpu": "x", "barrier": 1e308}
		print(json.dumps(line))
		line["stage_us"] = {"total": 1e300, "cpu": 9e18}
		line["shape"]["n_tokens"] = -3
		print(json.dumps(line))
		line["shape"], line["stage_us"] = [], None
		print(json.dumps(line))
	PY
	ADDRESS='[::1]:0' exporter hostile hostile.jsonl
	case $URL in
	'http://[::1]:'*) ok "hostile: an IPv6 address" ;;
	*) not_ok "hostile: an IPv6 address" "$URL" ;;
	esac
	check "hostile: parsed" "$METRICS" value "$URL" inftrace_export_lines_total
	same "hostile: no more models and phases than there may be, and one for the others" "$(python '
models, phases = ({dict(l).get(k) for _, l in samples} - {None} for k in (metrics.MODEL, "phase"))
assert not any(n.startswith("evil") for n, _ in samples)
assert all(len(m.encode()) < 128 and m.isprintable() for m in models), models
print(len(models), len(phases), "other" in models, "other" in phases)')" "17 9 True True"
	stopped hostile "$BG"
}

# python CODE: with `samples`, {(NAME, {(LABEL, VALUE), ...}): VALUE} of the exporter, and total(NAME, LABEL=VALUE, ...), a sum of them
python() {
	python3 - "$URL" "$METRICS" 2>&1 <<-PY || true
		import os, sys
		sys.path.append(os.path.dirname(sys.argv[2]))
		import metrics
		samples = metrics.parse(metrics.fetch(sys.argv[1])[1], False)
		def total(name, **labels):
		    return sum(v for (n, l), v in samples.items() if n == name and labels.items() <= dict(l).items())
		$1
	PY
}

# Lines of other programs, and more kinds of them than there may be.
test_foreign() {
	local line='{"event":"%s","commit_sha":null,"env_hash":"sha256:x","model":"m","concurrency":1,"shape":{},"stage_us":{%s},"graph_enabled":false,"runtime_flags":{},"source":"%s"}\n'
	{
		# shellcheck disable=SC2059
		printf "$line" unified_prof '"total":100.5,"prep":20.25,"launch":80' cuda unified_prof '"total":3000,"launch":5' cuda \
			unified_prof '"prep":1' rocm bucket_prof '"total":7,"prep":-1,"x":"y","z":null' ''
		cat family_*.jsonl
	} >foreign.jsonl
	exporter foreign foreign.jsonl
	check "foreign: the histogram is that of the lines, and inftrace's own are none of them" "$METRICS" scrape "$URL" foreign.jsonl
	same "foreign: lines" "$(python 'print(*(total("inftrace_foreign_lines_total", **l) for l in (
		{}, {"source": "cuda"}, {"event": "unified_prof"}, {"event": "bucket_prof"})))')" "4 2 3 1"
	same "foreign: stages" "$(python 'print(*(total("inftrace_foreign_stage_seconds_total", **l) for l in (
		{}, {"stage": "launch", "source": "cuda"}, {"stage": "prep", "source": "cuda"}, {"stage": "prep", "source": "rocm"})))')" \
		"0.00010625 0.000085 0.00002025 0.000001"
	stopped foreign "$BG"
	python3 - >foreign.jsonl <<-'PY'
		import json
		names = ['a"} 1\nevil_total{x="', "\x1b[31m", "", "other"]
		for name in names + [f"event {i}" for i in range(96)]:
		    print(json.dumps({"event": name or " ", "commit_sha": None, "env_hash": "e", "model": "m", "concurrency": 1, "shape": {}, "graph_enabled": False,
		        "stage_us": {"total": 1, **{f"{name}/{i}" if i else name: 1000 for i in range(3)}}, "runtime_flags": {}, "source": name}))
	PY
	exporter foreign foreign.jsonl
	same "foreign: no more events and stages than there may be, the rest as others, and nothing is lost of the sums" "$(python '
events, stages = ({dict(l).get(k) for _, l in samples} - {None} for k in ("event", "stage"))
assert not any("evil" in n for n, _ in samples)
assert all(v.isprintable() for v in events | stages), events
print(len(events), len(stages), total("inftrace_foreign_lines_total"), total("inftrace_foreign_lines_total", event="other"),
    total("inftrace_foreign_stage_seconds_total"), total("inftrace_foreign_duration_seconds_count"),
    total("inftrace_export_other_labels_total"))')" "33 65 100 68 0.300 100 $((67 + 300 - 64 - 1))"
	stopped foreign "$BG"
}

prometheus_ready() {
	python3 -c 'import sys, urllib.request
urllib.request.urlopen(sys.argv[1] + "/-/ready", timeout=5)' "$1" 2>/dev/null
}

# Debian's Prometheus has the same as the profile, with its percentiles and exemplars.
test_prometheus() {
	local api
	if ! command -v prometheus >/dev/null; then
		skip "Prometheus" "it is not installed"
		return
	fi
	exporter scraped requests.jsonl family_*.jsonl
	cat >prometheus.yml <<-YML
		scrape_configs:
		  - job_name: inftrace
		    scrape_interval: 1s
		    static_configs: [{targets: ["$(sed 's#.*//\(.*\)/metrics#\1#' scraped.url)"]}]
	YML
	background prometheus --config.file=prometheus.yml --storage.tsdb.path="$TMP/tsdb" --web.listen-address=127.0.0.1:0 \
		--enable-feature=exemplar-storage >prometheus.log 2>&1
	wait_until 60 grep -q 'Listening on' prometheus.log # at a port that the kernel chooses
	api=http://$(sed -nE 's/.*Listening on.* address=([0-9.:]+).*/\1/p' prometheus.log)
	wait_until 60 prometheus_ready "$api"
	wait_until 60 "$METRICS" prometheus "$api" requests.jsonl family_*.jsonl >prometheus.out 2>&1 || true
	check_shown "Prometheus has all histograms as the profile, its percentiles, and the slowest request" \
		"$METRICS" prometheus "$api" requests.jsonl family_*.jsonl
	tail -n 2 prometheus.log | sed 's/^/# /'
}

# DuckDB answers the queries of docs/fleet.md as the lines do.
test_queries() {
	local node
	need node npm
	node=$(node_duckdb 2>&1) || {
		skip "queries" "$node"
		return
	}
	mkdir -p hosts/a hosts/b
	cp requests.jsonl hosts/a
	"$TOP/tests/tools/request_lines.py" --requests 100 --seed 4 --stall 50:30 >hosts/b/requests.jsonl
	cp family_window_prof_good.jsonl hosts/b
	python3 - family_token_prof_good.jsonl >hosts/b/steps.jsonl <<-'PY'
		import json, sys
		line = json.loads(open(sys.argv[1]).readline())
		for i in range(30):
		    line["shape"].update(step=1000 + i, behind1_by="backup", behind1_us=100 + i + .001, behind2_by="idle", behind2_us=3.5)
		    line["stage_us"] = {"total": 1000 + i, "cpu": 1000 + i}
		    if i % 10 == 9:
		        line["shape"].update(wait1_state="runnable", wait1_us=99000)
		        line["stage_us"] = {"total": 100000, "cpu": 1000, "runnable": 99000}
		    print(json.dumps(line))
	PY
	(cd hosts && NODE_DIR=$node node "$TOP/tests/tools/duckdb.mjs" "$TOP/docs/fleet.md") >answers.json 2>answers.err || sed 's/^/# /' answers.err
	check_shown "the ten queries of docs/fleet.md answer what is in the lines" "$TOP/tests/tools/fleet_queries.py" answers.json hosts
}

# collector NAME STATUS...: its directory is NAME, its port in COLLECTOR, its pid in BG
collector() {
	serving "collect-$1" "$TOP/tests/tools/otlp.py" collect "$@"
	COLLECTOR=http://127.0.0.1:$(cat "collect-$1.url")
}

arrived() {
	[ "$("$METRICS" value "$URL" inftrace_export_otlp_sent_total)" -gt 0 ]
}

# What a collector is sent is what the lines say, also one that fails at first; and nothing waits for one that is not there.
test_otlp() {
	local bad server
	need protoc
	for bad in x http:// 127.0.0.1:4318 http://a:0 http://a:b 'http://a b' 'http://[::1' http://u:p@a; do
		check_rc "otlp: $bad" 2 'inftrace: --otlp: .*: give http://HOST' "$INFTRACE" export --otlp "$bad" requests.jsonl
	done
	check_rc "otlp: no time" 2 "inftrace: --slow: 'x' is not a duration" "$INFTRACE" export --otlp http://a --slow x requests.jsonl
	collector sent 503 429
	server=$BG
	mkdir otlp
	cp family_token_prof_good.jsonl otlp/profile_pid1_1700000000000.jsonl
	exporter otlp --otlp "$COLLECTOR/" --slow 100ms --interval 20ms otlp
	cp requests.jsonl otlp/profile_pid2_1700000001000.jsonl
	check "otlp: lines are read meanwhile" wait_until 60 lines_read $(($(cat otlp/*.jsonl | wc -l)))
	check "otlp: it is tried again" wait_until 60 arrived
	stopped otlp "$BG"
	same "otlp: says that the collector failed, once" "$(grep -c 'answers with status 503; trying on' otlp.err)" 1
	check_shown "otlp: decoded by protoc, each histogram is that of the lines" "$TOP/tests/tools/otlp.py" metrics sent otlp/*.jsonl
	check_shown "otlp: each slow request has its spans, once" "$TOP/tests/tools/otlp.py" spans sent 100000 otlp/profile_pid2_*.jsonl
	kill "$server"
	exporter gone --otlp "$COLLECTOR" --interval 20ms otlp
	check "otlp: a collector that is gone" wait_until 60 grep -q 'cannot send to the collector at 127.0.0.1:[0-9]*: Connection refused; trying on' gone.err
	check "otlp: holds nobody up" "$METRICS" scrape "$URL" otlp/*.jsonl
	expect "otlp: is counted" "$("$METRICS" value "$URL" inftrace_export_otlp_failures_total) > 0"
	stopped gone "$BG"
}

# Nothing goes to a collector whose certificate does not fit.
test_https() {
	need openssl
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out certificate.pem -days 2 -subj /CN=collector \
		-addext subjectAltName=IP:127.0.0.1 2>/dev/null
	cat key.pem certificate.pem >tls.pem
	TLS=$TMP/tls.pem collector tls
	exporter unknown --otlp "${COLLECTOR/http/https}" --interval 20ms requests.jsonl
	check "https: an authority that nobody knows" wait_until 60 grep -q 'cannot send to the collector at 127.0.0.1:[0-9]*: .*certificate' unknown.err
	stopped unknown "$BG"
	same "https: nothing was sent" "$(find tls -type f | wc -l)" 0
	CURL_CA_BUNDLE=$TMP/certificate.pem exporter known --otlp "${COLLECTOR/http/https}" --interval 20ms requests.jsonl
	check "https: one of CURL_CA_BUNDLE" wait_until 60 arrived
	stopped known "$BG"
	check "https: what arrives is that of the lines" "$TOP/tests/tools/otlp.py" metrics tls requests.jsonl
	COLLECTOR=${COLLECTOR/127.0.0.1/localhost}
	CURL_CA_BUNDLE=$TMP/certificate.pem exporter other --otlp "${COLLECTOR/http/https}" --interval 20ms requests.jsonl
	check "https: another name" wait_until 60 grep -q 'cannot send to the collector at localhost:[0-9]*: .*SSL' other.err
	stopped other "$BG"
}

run_tests "$@"
