# SPDX-License-Identifier: LGPL-2.1-or-later
# The front door. meson and ninja do the work, in build/; everything here can be done with them as well.

BUILD ?= build
PREFIX ?= /usr/local
# Where Debian's linker and pkg-config look under /usr/local; meson's own guess depends on what else is installed.
LIBDIR ?= lib
MESON_ARGS ?=

.PHONY: all demo check check-unit check-sim check-asan check-tsan check-e2e check-rdma tidy install clean
.NOTPARALLEL:

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@command -v meson >/dev/null || { echo "meson is missing: scripts/install-deps build" >&2; exit 1; }
	meson setup --prefix=$(PREFIX) --libdir=$(LIBDIR) $(MESON_ARGS) $(BUILD)

# Move a small Linux guest from one QEMU to another on this machine, and look at it.
demo:
	@scripts/install-deps demo
	@$(MAKE) --no-print-directory all
	@RAMFERRY_BUILD=$(abspath $(BUILD)) scripts/demo

check:
	@scripts/install-deps check
	@BUILD=$(BUILD) scripts/check

check-unit check-sim check-asan check-tsan check-e2e check-rdma:
	@BUILD=$(BUILD) scripts/check $(@:check-%=%)

# A second opinion on the code, as .clang-tidy has it.
tidy: all
	@git ls-files '*.c' | grep -v '^tests/support/guest/' | xargs -P 2 -n 8 clang-tidy -p $(BUILD) --quiet

# DESTDIR works. The linker's cache is ours to renew only where the library really goes into the system.
install: all
	@meson install -C $(BUILD) --no-rebuild
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

clean:
	rm -rf $(BUILD) build-asan build-tsan build-clang
