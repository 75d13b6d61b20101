# The few commands a person needs. CMake does the work; the presets are in CMakePresets.json.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# Tests that run a second time under the sanitizers: a ctest label and the build target that holds what they need.
ASAN_LABEL ?= asan
ASAN_TARGETS ?= asan_tests

.DEFAULT_GOAL := help
.PHONY: help bootstrap build test check demo asan fuzz format clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

bootstrap:  ## install what the build needs (Debian; silent when all is there)
	@scripts/bootstrap

build: bootstrap  ## the tool: build/release/isomer
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS) --target isomer

test: bootstrap  ## everything: checks, all tests, and the mutation tests under the sanitizers
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS)
	@scripts/check
	@ctest --preset release -j $(JOBS)
	@cmake --preset asan
	@cmake --build --preset asan -j $(JOBS) --target $(ASAN_TARGETS)
	@ctest --preset asan -j $(JOBS) -L '^$(ASAN_LABEL)$$' --no-tests=error

check:  ## the checks of the sources alone: layers, names, diagnostics, format
	@scripts/check

demo: build  ## a short tour on built-in networks
	@scripts/demo

asan: bootstrap  ## all tests under the address and undefined-behaviour sanitizers
	@cmake --preset asan
	@cmake --build --preset asan -j $(JOBS)
	@ctest --preset asan -j $(JOBS)

fuzz: bootstrap  ## a short run of every libFuzzer target
	@cmake --preset fuzz
	@cmake --build --preset fuzz -j $(JOBS) --target fuzz_tests
	@ctest --preset fuzz -j $(JOBS) -L '^fuzz$$' --no-tests=error

format:  ## rewrite the C++ sources with clang-format 19
	@scripts/check_format --fix

clean:  ## remove all build folders
	@rm -rf build
