# SPDX-License-Identifier: BSD-2-Clause
#
#   make                 build/inftrace, and its agent for processes that use a GPU, build/inftrace-gpu.so
#   make check           unit tests (no root, no BPF); all tests: scripts/test
#   make man             man pages and the bash completion, in build/man/
#   make install PREFIX=/usr/local DESTDIR=
#   make deb             build/inftrace_VERSION_ARCH.deb, for the Debian that it is made on
#   make V=1             show the commands
#   make SAN=1 ...       with AddressSanitizer and UBSan, in build-san/
#   make O=build-races RACE_WINDOWS=1
#                        with BPF programs that interrupts hit more often, see docs/time-keeping.md
#
# Needs clang (14 or newer), bpftool, libbpf, libelf, libdw, libiberty, zlib, json-c, libcrypto, libcapstone,
# libmicrohttpd, libcurl, libzip, uthash: scripts/setup installs them on Debian. Nothing here touches the network.

CC ?= cc
CLANG ?= clang
BPFTOOL ?= $(shell command -v bpftool || echo /usr/sbin/bpftool)
PREFIX ?= /usr/local
SAN ?=
O ?= $(if $(SAN),build-san,build)
# the part for the kernel, which is the same
KERNEL_O := $(if $(SAN),build,$(O))

ARCH := $(shell $(CC) -dumpmachine | sed 's/-.*//; s/aarch64/arm64/')
BPF_ARCH := $(if $(filter x86_64,$(ARCH)),x86,$(ARCH))
MULTIARCH := $(shell $(CC) -print-multiarch)

PKGS := libbpf libelf libdw zlib json-c libcrypto capstone libmicrohttpd libcurl libzip
# with sanitizers: what their reports need, compiled in half of the time
CFLAGS ?= $(if $(SAN),-O1 -g1,-O2 -g)
WARN := -Wall -Wextra -Wno-unused-parameter -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes
INF_CFLAGS := -std=gnu11 $(WARN) -D_GNU_SOURCE -Isrc -I$(KERNEL_O) \
	-DENGINES_DIR='"$(PREFIX)/share/inftrace/engines"' -DAGENT_DIR='"$(PREFIX)/lib/inftrace"' $(shell pkg-config --cflags $(PKGS))
LDLIBS := $(shell pkg-config --libs $(PKGS)) -liberty -lpthread -lm
ifdef SAN
SAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
INF_CFLAGS += $(SAN_FLAGS)
LDFLAGS += -fsanitize=address,undefined
endif

# -mcpu=v3: 32-bit subregisters and the atomic operations (kernel 5.12) the time keeping is built on
BPF_CFLAGS := $(if $(RACE_WINDOWS),-DRACE_WINDOWS) -target bpf -mcpu=v3 -O2 -g -std=gnu11 -fms-extensions -Wno-microsoft-anon-tag -Wall -Wextra -Werror -Wno-unused-parameter -Wno-unused-function \
	-D__TARGET_ARCH_$(BPF_ARCH) -Ivmlinux/$(ARCH) -Isrc \
	-idirafter $(shell $(CC) -print-sysroot)/usr/include/$(MULTIARCH)

SRCS := $(wildcard src/*.c src/*/*.c)
OBJS := $(SRCS:src/%.c=$(O)/%.o)
LIB_OBJS := $(filter-out $(O)/main.o,$(OBJS))
LIB := $(O)/inftrace.a
GUEST := $(wildcard src/agent/guest/*.c)
AGENT_SRCS := $(wildcard src/gpu/agent/*.c) $(GUEST)
BPF_SRCS := $(wildcard bpf/*.bpf.c)
BPF_OBJS := $(BPF_SRCS:bpf/%.c=$(KERNEL_O)/bpf/%.o)
SKEL := $(KERNEL_O)/inftrace.skel.h
UNIT_SRCS := $(wildcard tests/unit/test_*.c)
UNIT_BINS := $(UNIT_SRCS:tests/unit/%.c=$(O)/tests/%)

Q := $(if $(V),,@)
say = @$(if $(V),:,printf '  %-5s %s\n' $(1) $(2))

.DELETE_ON_ERROR:
.PHONY: all check lint lint-includes install uninstall clean format
# for the machines that it knows
HOOK_AGENT := $(if $(filter x86_64,$(ARCH)),$(O)/inftrace-hook.so)
all: $(O)/inftrace $(O)/inftrace-gpu.so $(HOOK_AGENT)
.SECONDARY:

$(KERNEL_O)/bpf/%.bpf.o: bpf/%.bpf.c $(wildcard bpf/*.h) src/record.h src/probe.h src/process_sums.h src/python_walk.h src/wait_log.h src/hook_slot.h $(wildcard vmlinux/*/*.h vmlinux/*.h) Makefile
	@mkdir -p $(@D)
	$(call say,BPF,$@)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@

$(KERNEL_O)/inftrace.bpf.o: $(BPF_OBJS)
	$(call say,LINK,$@)
	$(Q)$(BPFTOOL) gen object $@ $^

$(SKEL): $(KERNEL_O)/inftrace.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name inftrace_bpf > $@.tmp
	$(Q)mv $@.tmp $@

# numbers and names of system calls, from the kernel's headers of the compiler
SYSCALLS := $(KERNEL_O)/syscalls.h
$(SYSCALLS): scripts/gen-syscalls
	@mkdir -p $(@D)
	$(Q)CC="$(CC)" scripts/gen-syscalls $(ARCH) > $@

$(O)/%.o: src/%.c Makefile | $(SKEL) $(SYSCALLS)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS) $(INF_CFLAGS) -MMD -MP -c $< -o $@

# included by the assembler
$(O)/report/page.o: src/report/page.html src/report/flame.js

$(O)/inftrace: $(OBJS)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LDLIBS)

# Goes into traced processes: nothing but libc, and only what is meant to be called from outside is visible. With
# sanitizers only the test's program can load it, which has them, too.
AGENT_LDFLAGS := -shared -Wl,-soname,inftrace-gpu.so.2 -Wl,-z,nodelete -Wl,-z,now $(if $(SAN),,-Wl,-z,defs)
$(O)/inftrace-gpu.so: $(AGENT_SRCS) $(wildcard src/gpu/hand_over.h src/gpu/agent/*.h src/agent/guest/*.h) Makefile
	@mkdir -p $(@D)
	$(call say,AGENT,$@)
	$(Q)$(CC) $(CFLAGS) -std=gnu11 $(WARN) -D_GNU_SOURCE -Isrc -fPIC -fvisibility=hidden $(SAN_FLAGS) $(AGENT_SRCS) $(AGENT_LDFLAGS) \
		-o $@ -ldl -lpthread

# Likewise; without vector registers, in which the functions that it hooks have arguments and results
HOOK_LDFLAGS := -shared -Wl,-soname,inftrace-hook.so.2 -Wl,-z,nodelete -Wl,-z,now -Wl,-z,defs
$(O)/inftrace-hook.so: $(wildcard src/hook/agent/*.c) $(GUEST) $(wildcard src/hook/*.h src/hook/agent/*.h src/agent/guest/*.h src/gpu/hand_over.h src/hook_slot.h) Makefile
	@mkdir -p $(@D)
	$(call say,AGENT,$@)
	$(Q)$(CC) $(CFLAGS) -std=gnu11 $(WARN) -D_GNU_SOURCE -Isrc -fPIC -fvisibility=hidden -mgeneral-regs-only -fexceptions \
		$(wildcard src/hook/agent/*.c) $(GUEST) $(HOOK_LDFLAGS) -o $@ -ldl -lpthread

# The GPU that its tests use
$(O)/gpu/mock_driver: $(wildcard tests/gpu/*)
	$(call say,MOCK,$@)
	$(Q)$(MAKE) -s -C tests/gpu O=$(abspath $(@D)) CFLAGS="$(CFLAGS) $(SAN_FLAGS)"

$(O)/tests/test_gpu_agent $(O)/tests/test_gpu_inject: | $(O)/inftrace-gpu.so $(O)/gpu/mock_driver

# For the tests: each takes only what it uses of it, which links in a fraction of the time; so does gold. They themselves are
# not optimized, which would take most of the time. Compiled by itself, so that ccache knows it.
$(LIB): $(LIB_OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@
	$(Q)$(AR) rcsT $@ $^

TEST_LD := $(if $(findstring /,$(shell $(CC) -print-prog-name=ld.gold)),-fuse-ld=gold)

$(O)/tests/%.o: tests/unit/%.c Makefile | $(SKEL) $(SYSCALLS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -O0 $(INF_CFLAGS) -MMD -MP -c $< -o $@

$(O)/tests/%: $(O)/tests/%.o $(LIB)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(TEST_LD) $(filter %.o,$^) $(LIB) -o $@ $(LDLIBS) -lcmocka

# BPF programs that run in user space, in the hands of their test
$(O)/tests/test_time_keeping: $(O)/tests/bpf_programs.o
$(O)/tests/bpf_programs.o: $(wildcard tests/unit/bpf/* tests/unit/bpf/bpf/* bpf/*) Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -std=gnu11 -fms-extensions -w $(SAN_FLAGS) -D__bpf__ -D__TARGET_ARCH_$(BPF_ARCH) -Itests/unit/bpf -Ivmlinux/$(ARCH) -Ibpf -Isrc \
		-c tests/unit/bpf/programs.c -o $@

# Runs are tested without a kernel: these replace the functions of the session.
FAKED := session_start session_stop session_drain session_fill session_hits session_sample_ns session_drain_control session_lost session_counters session_requests session_over \
	session_wake session_idle session_watch session_sums session_sums_fd session_peek session_peek_waits session_engine_steps_fd \
	follow_scan follow_rescan follow_strangers follow_watches follow_turn follow_record
FAKED_LOOP := calibration_start features_probe features_require session_open session_free session_attach \
	session_control_fd attach_named_files follow_new follow_free confine_capabilities confine_recorder process_each control_new
$(O)/tests/test_run $(O)/tests/test_loop: LDFLAGS += $(FAKED:%=-Wl,--wrap=%)
$(O)/tests/test_loop: LDFLAGS += $(FAKED_LOOP:%=-Wl,--wrap=%)

# What sinks show of stacks is tested with stacks that were not unwound.
$(O)/tests/test_unwinder: LDFLAGS += -Wl,--wrap=stacks_take -Wl,--wrap=stacks_know_process -Wl,--wrap=stacks_remap_process \
	-Wl,--wrap=stacks_forget_process -Wl,--wrap=stacks_get -Wl,--wrap=stacks_frame
$(O)/tests/test_sink_stacks: LDFLAGS += -Wl,--wrap=stacks_get -Wl,--wrap=stacks_frame

check: $(O)/inftrace $(UNIT_BINS)
	@set -e; for t in $(UNIT_BINS); do $$t; done

# Each directory of src/ includes only those below it.
lint-includes:
	scripts/check-includes

lint:
	scripts/lint

$(O)/man/inftrace.1: $(O)/inftrace scripts/gen-man docs/environment.md
	$(call say,MAN,$(@D))
	$(Q)scripts/gen-man $< $(@D)

man: $(O)/man/inftrace.1

SHARE := $(DESTDIR)$(PREFIX)/share

install: $(O)/inftrace $(O)/inftrace-gpu.so $(HOOK_AGENT) man
	install -D -m 755 $(O)/inftrace $(DESTDIR)$(PREFIX)/bin/inftrace
	install -D -m 755 $(O)/inftrace-gpu.so $(DESTDIR)$(PREFIX)/lib/inftrace/inftrace-gpu.so
	$(if $(HOOK_AGENT),install -D -m 755 $(HOOK_AGENT) $(DESTDIR)$(PREFIX)/lib/inftrace/inftrace-hook.so)
	install -d $(SHARE)/inftrace/engines $(SHARE)/man/man1
	install -m 644 engines/*.json $(SHARE)/inftrace/engines
	install -m 644 $(O)/man/*.1 $(SHARE)/man/man1
	install -D -m 644 $(O)/man/inftrace.bash $(SHARE)/bash-completion/completions/inftrace

uninstall:
	rm -rf $(DESTDIR)$(PREFIX)/bin/inftrace $(DESTDIR)$(PREFIX)/lib/inftrace $(SHARE)/inftrace $(SHARE)/man/man1/inftrace.1 \
		$(SHARE)/man/man1/inftrace-*.1 $(SHARE)/bash-completion/completions/inftrace

# A build of its own, since the place of the presets is compiled in.
deb:
	$(Q)rm -rf build-deb/root
	$(Q)$(MAKE) --no-print-directory O=build-deb PREFIX=/usr DESTDIR=build-deb/root install
	$(Q)scripts/make-deb build-deb/root build

format:
	clang-format -i $(SRCS) $(AGENT_SRCS) $(wildcard src/*.h src/*/*.h src/*/*/*.h bpf/*.c bpf/*.h tests/unit/*.c)

clean:
	rm -rf build build-san build-deb

-include $(OBJS:.o=.d) $(UNIT_BINS:=.d)
