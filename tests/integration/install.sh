#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What is installed: the program, presets, a man page for each command, the completion; and the package.

. "$(dirname "$0")/../lib.sh"

root=$TMP/root share=$TMP/root/usr/share
# long_options COMMAND: as its --help lists them
long_options() {
	ARGP_HELP_FMT=rmargin=2000,opt-doc-col=50 "$INFTRACE" "$1" --help | grep -E '^  -|^      --' | cut -c1-50 |
		grep -oE -- '--[a-z-]+' | sort -u
}

check "make install" make -s -C "$TOP" O="$BUILD" PREFIX=/usr DESTDIR="$root" install
mapfile -t commands < <("$INFTRACE" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')

test_installed() {
	same "there are commands" "$((${#commands[@]} > 8))" 1
	check "the installed program runs" "$root/usr/bin/inftrace" --version
	same "all presets" "$(ls "$share/inftrace/engines")" "$(basename -a "$TOP"/engines/*.json)"
}

test_man() {
	for command in "${commands[@]}"; do
		page=$share/man/man1/inftrace-$command.1
		missing=$(long_options "$command" | while read -r option; do
			grep -q -- "${option//-/\\\\-}\\b" "$page" || echo "$option"
		done)
		same "man page of $command: all options" "$missing" ""
		check "man page of $command: has what a page has" awk '
			/^\.SH (NAME|SYNOPSIS|DESCRIPTION|OPTIONS|SEE ALSO)/ { n++ } END { exit n != 5 }' "$page"
		check "man page of inftrace: names $command" grep -q "inftrace.-$command" "$share/man/man1/inftrace.1"
	done
	if command -v mandoc >/dev/null; then
		same "man pages: no warnings" "$(mandoc -T lint -W warning "$share"/man/man1/*.1)" ""
	else
		skip "man pages: no warnings" "mandoc is not installed"
	fi
}

variables() {
	grep -rhoE '(getenv|environment_ours)\("[A-Z_]+"|"(INFTRACE|FERRUM_PROFILE|SUDO|VLLM_CHAKRA)_[A-Z_]+[A-Z]"' "$TOP"/src --include='*.c' |
		grep -oE '[A-Z_]{4,}' | sort -u
}

# The table lists exactly the variables that the sources read.
test_variables() {
	same "all environment variables are in the table" "$(grep '^| `' "$TOP/docs/environment.md" | cut -d'|' -f2 |
		grep -oE '[A-Z_]{4,}' | sort -u)" "$(variables)"
}

# completes NAME WANTED WORD...
completes() {
	same "completion: $1" "$(bash "$TMP/complete.sh" "$share/bash-completion/completions/inftrace" "${@:3}")" "$2"
}

test_completion() {
	cat >"$TMP/complete.sh" <<'EOF'
_init_completion() { words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}; }
_filedir() { mapfile -t COMPREPLY < <(compgen -f -- "$cur"); }
. "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_inftrace 2>/dev/null
echo "${COMPREPLY[*]}"
EOF
	completes "a command" "record report" inftrace re
	completes "an option" "--flight-recorder=" inftrace record --fl
	completes "an option without a command" "--flight-recorder=" inftrace --fl
	completes "a user" "root" inftrace record --user roo
	touch "$TMP/trace.json"
	completes "a file" "$TMP/trace.json" inftrace validate "$TMP/tra"
}

test_uninstall() {
	cp -a "$root" "$TMP/copy"
	check "make uninstall" make -s -C "$TOP" O="$BUILD" PREFIX=/usr DESTDIR="$TMP/copy" uninstall
	same "make uninstall: leaves nothing of ours" "$(find "$TMP/copy" -name 'inftrace*')" ""
}

test_package() {
	if command -v dpkg-shlibdeps >/dev/null; then
		check "the package" env -C "$TOP" scripts/make-deb "$root" "$TMP"
		deb=$(ls "$TMP"/*.deb)
		check "the package: depends on the libraries" sh -c "dpkg-deb -f '$deb' Depends | grep -q 'libbpf1.*libelf1.*libjson-c5'"
		check "the package: what is in it" dpkg-deb -x "$deb" "$TMP/unpacked"
		check "the package: the program runs" "$TMP/unpacked/usr/bin/inftrace" --version
		same "the package: a man page for each command" "$(find "$TMP/unpacked/usr/share/man" -name '*.1.gz' | wc -l)" \
			"$((${#commands[@]} + 1))"
	else
		skip "the package" "dpkg-dev is not installed"
	fi
}

run_tests "$@"
