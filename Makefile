# `make` alone builds the release into build/; `make help` lists the rest.
# Every target works as root or not; only tools/install, when a package is missing, needs root.

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local

.PHONY: all help run test check install install-packages asan ubsan tsan debug oom fuzz bench bench-peers docs site golden gallery gpu clean
.DEFAULT_GOAL := all

all: ## release build into build/
	@tools/build release

help: ## this list
	@sed -n 's/^\([a-z][a-z -]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 20

install: all ## into PREFIX (/usr/local), below DESTDIR: program, its manual page, module, libraries, headers, flame.pc
	cmake --install build --prefix "$(PREFIX)"

install-packages: ## install what is missing (Debian packages, as root)
	@tools/install

run: install-packages all ## build, then train a small model on text for about a minute
	build/flame-lua examples/chargpt.lua

# Root installs the packages of the tests while the release is built; others are told at once.
test: ## all C tests and specs, some on the release too; ends in "N passed, N failed"
	@tools/install $(if $(filter 0,$(shell id -u)),build)
	@tools/install & packages=$$!; tools/build release; built=$$?; wait $$packages && exit $$built
	@tools/build test all specs
	@tools/test build-test

check: install-packages ## warnings as errors, tests, lint, layers, symbols, generated files
	@tools/check

debug: ## debug build into build-debug/
	@tools/build debug

asan ubsan tsan: install-packages ## all specs under that sanitizer, in build-asan/ …
	@tools/build $@ all specs
	@tools/test build-$@

oom: install-packages ## the specs that make allocations fail
	@tools/build release
	@tools/build test all specs
	@FLAME_OOM_STRIDE=1 tools/test build-test oom

fuzz: install-packages ## a minute of damaged files and kernels, and random ones, under ASan and UBSan
	@tools/fuzz

bench: all ## every benchmark in bench/
	@tools/bench build

bench-peers: all ## ours and each peer that is there in turn (bench/compare.py): table, JSON and picture in build/peers/
	@tools/bench peers

docs: all ## write the generated pages of docs/ and the pictures of all pages
	@tools/docs write
	@tools/pictures

site: ## docs/ as HTML in build/site, to be opened without a server
	@tools/site

golden: ## write spec/golden/ again; review the diff
	@tools/build test specs
	@tools/golden build-test

gallery: all ## the pictures of docs/gallery/ by the programs of examples/gallery; look at them
	@tools/gallery build

gpu: ## specs and benchmarks on this machine's GPU
	@tools/build release
	@tools/build test all specs
	@FLAME_DEVICE=cuda tools/gpu-run

clean: ## remove all build folders
	rm -rf build build-test build-debug build-asan build-ubsan build-tsan build-werror build-fuzz .carry
