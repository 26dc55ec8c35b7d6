# kcheck's own commands. `make demo` and `make test` work on a fresh machine that has Python 3.11 to 3.13, git and make.

# The first of these that runs and has a version that will do: a name on the PATH may be a stub that does neither.
FITS := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c '$(FITS)' >/dev/null 2>&1 && { echo "$$p"; break; }; done)
BIN := .venv/bin
# Not $(CURDIR): make splits words at blanks, and a checkout may lie in a folder with one.
RUN := $(BIN)/python -m kcheck

.DEFAULT_GOAL := help
.PHONY: help help-benchmarks help-conformance demo test test-gpu check ci-quick readme rules changelog format format-check lint types layers figures soak site release-check wheel clean

help:  ## this list
	@$(call targets,Makefile)
	@echo
	@echo "More of them: make help-benchmarks, make help-conformance"

help-benchmarks:
	@$(call targets,benchmarks/Makefile)

help-conformance:
	@$(call targets,conformance/Makefile)

# What a Makefile says about its targets, in 80 columns.
define targets
grep -hE '^[a-z-]+:.*##' $(1) | sed -E 's/^([a-z-]+):.*## */\1 /' | awk '{ \
	line = sprintf("  make %-21s", $$1); \
	for (n = 2; n <= NF; n++) { \
		if (length(line) + 1 + length($$n) > 80) { print line; line = sprintf("%28s", "") } \
		line = line " " $$n } \
	print line }'
endef

include benchmarks/Makefile conformance/Makefile

# Two stamps, so that a newcomer's first minute does not install the developers' tools.
.venv/installed: pyproject.toml
	@test -n "$(PYTHON)" && "$(PYTHON)" -c '$(FITS)' || { \
		echo "kcheck needs Python 3.11 to 3.13. Name one: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "Installing kcheck into .venv (once; a minute or so)"
	@"$(PYTHON)" -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cu13]'
	@$(BIN)/python -m compileall -q kcheck  # which pip does for installed packages only
	@touch $@

.venv/installed-dev: .venv/installed
	@echo "Installing the developers' tools into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cu13,dev]'
	@touch $@

demo: .venv/installed  ## run kcheck on a correct kernel and on a buggy one
	@sh examples/demo.sh $(RUN)

test: .venv/installed-dev  ## the tests, on all cores
	@$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

test-gpu: .venv/installed-dev  ## the tests that need a CUDA device
	@$(BIN)/python -m pytest -m gpu

check: format-check lint types layers test conformance-check  ## everything that CI runs

ci-quick: .venv/installed-dev  ## kcheck ci --quick on this repository, in less than a minute
	@timeout --verbose 60 $(BIN)/kcheck ci --quick -o build/ci-quick

readme: .venv/installed-dev  ## run the README's sample again and write what it prints
	@$(BIN)/python tests/docs/readme_sample.py

rules: .venv/installed-dev  ## write docs/rules.md from kcheck/rules and what kcheck says about the examples
	@PYTHONPATH=. $(BIN)/python tests/docs/rule_examples.py

changelog: .venv/installed-dev
	@$(BIN)/towncrier build --draft --version next

format: .venv/installed-dev  ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

format-check: .venv/installed-dev
	@$(BIN)/ruff format --check .

lint: .venv/installed-dev
	@$(BIN)/ruff check .

types: .venv/installed-dev
	@$(BIN)/mypy

layers: .venv/installed-dev  ## check the layers of imports
	@$(BIN)/lint-imports

figures: .venv/installed-dev  ## print the largest files and functions
	@$(BIN)/python tests/packaging/figures.py

soak: .venv/installed-dev  ## slow tests, and 100,000 damaged PTX files through the reader; writes docs/soak.md
	@$(BIN)/python benchmarks/fuzz_ptx.py --write
	@$(BIN)/python tests/store/kills.py 1 500 --write
	@$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal -m soak

.venv/installed-docs: .venv/installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cu13,docs]'
	@touch $@

# Links to other servers are fine; scripts, styles, fonts and pictures from there are not.
site: .venv/installed-docs  ## the documentation as a site in build/site; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@if grep -rnE 'src(set)?="https?:|<link [^>]*href="https?:' build/site --include='*.html'; then \
		echo "The site loads the files above from other servers" >&2; exit 1; fi

# Not in .venv: cffconvert requires an old jsonschema.
.venv-release/installed: Makefile
	@"$(PYTHON)" -m venv .venv-release
	@.venv-release/bin/python -m pip install --quiet --disable-pip-version-check 'build>=1.2' 'twine>=6' 'cffconvert>=2'
	@touch $@

release-check: .venv-release/installed  ## build the sdist, and the wheel from it; twine and cffconvert check both and CITATION.cff
	@rm -rf dist
	@.venv-release/bin/python -m build --outdir dist .
	@.venv-release/bin/twine check --strict dist/*
	@.venv-release/bin/cffconvert --validate

wheel: .venv/installed-dev
	@$(BIN)/python -m build --wheel --outdir dist .

clean:  ## remove what make built
	rm -rf .venv .venv-release .conformance-triton .conformance-cuda build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
