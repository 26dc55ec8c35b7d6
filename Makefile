# kcheck's own commands. `make demo` and `make test` work on a fresh machine that has Python 3.11 to 3.13, git and make.

# The first of these that runs and has a version that will do: a name on the PATH may be a stub that does neither.
FITS := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c '$(FITS)' >/dev/null 2>&1 && { echo "$$p"; break; }; done)
BIN := .venv/bin
# Not $(CURDIR): make splits words at blanks, and a checkout may lie in a folder with one.
RUN := $(BIN)/python -m kcheck

.DEFAULT_GOAL := help
.PHONY: help demo test test-gpu check bench ci-quick scale frameworks monitor-readme monitor-soak monitor-torch calibrate compare-trees compare-reports conformance conformance-triton triton-versions conformance-cuda conformance-programs ptx-table conformance-check conformance-widths conformance-sanitize evidence evidence-sizes evidence-soak minimize-corpus prove readme rules release-check report-check screenshots editor-check editor-end-to-end format format-check lint types layers figures soak site wheel clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1 /' | awk '{ \
		line = sprintf("  make %-21s", $$1); \
		for (n = 2; n <= NF; n++) { \
			if (length(line) + 1 + length($$n) > 80) { print line; line = sprintf("%28s", "") } \
			line = line " " $$n } \
		print line }'

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

bench: .venv/installed-dev  ## the cpu device against plain @njit and the simulator; writes docs/performance.md
	@$(BIN)/python benchmarks/bench.py --write
	@$(BIN)/python benchmarks/triton_bench.py --write

scale: .venv/installed-dev  ## growth with cases and elements, and on a cluster; writes docs/scale.md
	@$(BIN)/python -m benchmarks.scale --write

compare-trees: .venv/installed-dev  ## launches and first launches of this tree and of another one, interleaved (OTHER=path)
	@test -n "$(OTHER)" || { echo "Name the other checkout: make compare-trees OTHER=path" >&2; exit 2; }
	@$(BIN)/python benchmarks/compare_trees.py "$(OTHER)" --rounds 25

compare-reports: .venv/installed-dev  ## what this tree and another one report of its specs, bit by bit (OTHER=path)
	@test -n "$(OTHER)" || { echo "Name the other checkout: make compare-reports OTHER=path" >&2; exit 2; }
	@$(BIN)/python benchmarks/compare_reports.py "$(OTHER)"

calibrate: .venv/installed-dev  ## check the constant of the noise floor with every correct kernel; writes docs/oracle.md
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/corpus.py --write

# PyTorch for the CPU: the one for GPUs requires another version of Triton than the dev extra, and pip would download one
# version of it after another. Where its index cannot be reached: make frameworks CPU_TORCH=torch==2.13.0+cpu
CPU_TORCH ?= --index-url https://download.pytorch.org/whl/cpu torch
FRAMEWORKS_VENV ?= .venv-frameworks
FRAMEWORKS := $(FRAMEWORKS_VENV)/bin/python

$(FRAMEWORKS_VENV)/installed: pyproject.toml
	@echo "Installing torch, JAX and TensorFlow into $(FRAMEWORKS_VENV) (3 GB)"
	@test -x $(FRAMEWORKS) || "$(PYTHON)" -m venv $(FRAMEWORKS_VENV)
	@$(FRAMEWORKS) -m pip install --quiet --disable-pip-version-check $(CPU_TORCH)
	@$(FRAMEWORKS) -m pip install --quiet --disable-pip-version-check -e '.[cu13,nvcc,torch,jax,tensorflow,dev]' ninja
	@touch $@

.venv-triton/installed: pyproject.toml
	@echo "Installing Triton and torch into .venv-triton"
	@"$(PYTHON)" -m venv .venv-triton
	@.venv-triton/bin/python -m pip install --quiet --disable-pip-version-check $(CPU_TORCH)
	@.venv-triton/bin/python -m pip install --quiet --disable-pip-version-check -e '.[triton]' pytest scipy numpy
	@touch $@

conformance-programs: .venv/installed-dev  ## HeCBench's programs (SOURCES=path, EVERY=20: one in 20, LIMIT=60 s each); writes docs/conformance-programs.md
	@test -n "$(SOURCES)" || { echo "Name the folder of HeCBench: make conformance-programs SOURCES=path" >&2; exit 2; }
	@$(BIN)/python conformance/programs.py "$(SOURCES)" --every $(or $(EVERY),1) --limit $(or $(LIMIT),60) --title HeCBench --page docs/conformance-programs.md

conformance-triton: .venv-triton/installed  ## Triton's own tests (TESTS=path, EVERY=20: one in 20); writes docs/conformance-triton.md
	@test -n "$(TESTS)" || { echo "Name the folder with the tests of Triton: make conformance-triton TESTS=path" >&2; exit 2; }
	@.venv-triton/bin/python conformance/triton_run.py "$(TESTS)" --every $(or $(EVERY),1)

# Without PyTorch. The newest release of each minor version.
TRITON_VERSIONS ?= 3.6.0 3.7.1 3.8.0
.venv-triton-%/installed: pyproject.toml
	@test -x $(@D)/bin/python || "$(PYTHON)" -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[cu13,dev]'
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check triton==$*
	@touch $@

triton-versions: $(TRITON_VERSIONS:%=.venv-triton-%/installed)  ## the tests of Triton kernels with each version of Triton; writes docs/triton.md
	@for version in $(TRITON_VERSIONS); do \
		.venv-triton-$$version/bin/python conformance/triton_versions.py || exit 1; done

conformance-cuda: .venv/installed-dev  ## kernels of cuda-samples, llm.c (SOURCES=path) compiled and lowered; writes docs/conformance-cuda.md
	@test -n "$(SOURCES)" || { echo "Name the folder with the checkouts: make conformance-cuda SOURCES=path" >&2; exit 2; }
	@PYTHONPATH=. $(BIN)/python conformance/cuda_run.py "$(SOURCES)"

ptx-table: .venv/installed-dev  ## which instructions of PTX run, and which are refused; writes docs/ptx-instructions.md
	@$(BIN)/python conformance/ptx_table.py --write

frameworks: $(FRAMEWORKS_VENV)/installed  ## one op in numba.cuda, NumPy, torch, JAX, TensorFlow; writes docs/frameworks.md
	@$(FRAMEWORKS) -m pytest tests/functions/test_frameworks_installed.py tests/oracle/test_torch_references.py tests/functions/test_torch_on_cuda.py tests/functions/test_program_functions_on_cuda.py tests/functions/test_generators_on_cuda.py tests/functions/test_extensions_on_cuda.py tests/functions/test_compiled_on_cuda.py tests/compat/test_gpuemu_frameworks.py tests/monitor/test_jax.py tests/grading/test_tensor_problems.py tests/grading/test_extension_candidates.py -q -n 0
	@$(FRAMEWORKS) tests/functions/same_verdicts.py --write

monitor-soak: .venv/installed-dev  ## outlier detector on 35 shapes, a million calls with a hundred wrong; writes docs/monitor.md
	@$(BIN)/python benchmarks/monitor_outliers.py --write
	@$(BIN)/python benchmarks/monitor_soak.py --write

monitor-torch: $(FRAMEWORKS_VENV)/installed  ## the monitor on torch: autograd, modules, compile, MNIST; writes docs/monitor.md
	@$(FRAMEWORKS) tests/monitor/torch_results.py --write

monitor-readme: $(FRAMEWORKS_VENV)/installed  ## cuda-kernel-verifier's README and example (SOURCE=path), imports changed; writes docs/monitor.md
	@test -n "$(SOURCE)" || { echo "Name the checkout: make monitor-readme SOURCE=path" >&2; exit 2; }
	@$(FRAMEWORKS) tests/monitor/verifier_readme.py "$(SOURCE)" --write

conformance: .venv/installed-dev  ## numba-cuda's own tests on the cpu device; writes docs/conformance.md
	@$(BIN)/python conformance/run.py

conformance-widths: .venv/installed-dev  ## the same tests, each launch compared with one lane per vector and with many
	@$(BIN)/python conformance/run.py --widths

conformance-sanitize: .venv/installed-dev  ## the same tests under racecheck and synccheck, with every finding judged
	@$(BIN)/python conformance/run.py --sanitize

ci-quick: .venv/installed-dev  ## kcheck ci --quick on this repository, in less than a minute
	@timeout --verbose 60 $(BIN)/kcheck ci --quick -o build/ci-quick

conformance-check: .venv/installed-dev  ## all but the slowest of them: no crash or hang, and as many passes as before
	@$(BIN)/python conformance/run.py --quick

evidence: .venv/installed-dev  ## recall and false alarms on the corpus, against other ways of testing; writes docs/evidence.md
	@$(BIN)/python -m benchmarks.evidence --write

readme: .venv/installed-dev  ## run the README's sample again and write what it prints
	@$(BIN)/python tests/docs/readme_sample.py

evidence-sizes: .venv/installed-dev  ## offsets in 32 bits, on sizes beyond memory; writes docs/evidence.md
	@$(BIN)/python -m benchmarks.beyond_memory --write

prove: .venv/installed-dev  ## what kcheck prove decides about each correct kernel, and no twin is proved; writes docs/proofs.md
	@$(BIN)/python -m benchmarks.proofs --write
	@$(BIN)/python -m pytest -n 0 -q -m "" tests/prove

evidence-soak: .venv/installed-dev  ## 2,000 cases of every correct kernel: no false alarm; writes docs/evidence.md
	@$(BIN)/python -m benchmarks.evidence --soak --write

evidence-gpu: .venv/installed-dev  ## the corpus on a CUDA device: what it shows without kcheck's sanitizers; writes docs/evidence.md
	@$(BIN)/python -m benchmarks.evidence.on_gpu --write

minimize-corpus: .venv/installed-dev  ## compare every buggy kernel's smallest failing case with the true one; writes docs/minimize.md
	@$(BIN)/python -W ignore -m benchmarks.minimize --write

rules: .venv/installed-dev  ## write docs/rules.md from kcheck/rules and what kcheck says about the examples
	@PYTHONPATH=. $(BIN)/python tests/docs/rule_examples.py

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

# Needs Chromium with its driver, genhtml (Debian: chromium, chromium-driver, lcov) and npm.
.venv/report-check: .venv/installed-dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'selenium>=4.20'
	@mkdir -p $@/axe-core $@/sarif-multitool
	@cd $@ && npm pack --silent axe-core@4 @microsoft/sarif-multitool-linux@5 >/dev/null
	@tar -xzf $@/axe-core-*.tgz -C $@/axe-core
	@tar -xzf $@/microsoft-sarif-multitool-linux-*.tgz -C $@/sarif-multitool

report-check: .venv/report-check  ## HTML reports in Chromium, SARIF by its validator; writes docs/report_check.md
	@$(BIN)/python -m benchmarks.report_check .venv/report-check --write

screenshots: .venv/report-check  ## pictures of the terminal and of the HTML report, by Chromium; writes docs/images
	@$(BIN)/python -m benchmarks.screenshots

# Needs Node.js 20 or newer and npm.
editor-check: .venv/installed-dev  ## the extension for VS Code: built, linted, tested, packaged; writes docs/editor_check.md
	@cd editors/vscode && npm ci --ignore-scripts --silent && node scripts/check.mjs --write

# The newest code-server that runs on Node.js 20. Without install scripts, as one downloads ripgrep from GitHub (npm has
# it, too): the modules that it needs are compiled; what node-pty does after that fails, and is not needed. Needs a C++
# compiler, and Chromium with its driver.
.venv/code-server/installed: Makefile
	@echo "Installing code-server into .venv/code-server"
	@rm -rf .venv/code-server && mkdir -p .venv/code-server
	@cd .venv/code-server && npm init -y >/dev/null 2>&1 && npm install code-server@4.99.4 --ignore-scripts --silent && npm rebuild argon2 --silent
	@cd .venv/code-server/node_modules/code-server/lib/vscode && npm install --omit=dev --ignore-scripts --silent && \
		npm rebuild @vscode/spdlog native-watchdog @parcel/watcher --silent && \
		{ npm rebuild node-pty --silent 2>/dev/null || test -f node_modules/node-pty/build/Release/pty.node; }
	@cd .venv/code-server && npm install --no-save --ignore-scripts --silent @vscode/ripgrep-linux-x64@1.18.0 && \
		mkdir -p node_modules/code-server/lib/vscode/node_modules/@vscode/ripgrep/bin && \
		cp node_modules/@vscode/ripgrep-linux-x64/bin/rg node_modules/code-server/lib/vscode/node_modules/@vscode/ripgrep/bin
	@cd .venv/code-server/node_modules/code-server/lib/vscode/extensions && npm install --omit=dev --ignore-scripts --silent
	@touch $@

editor-end-to-end: editor-check .venv/code-server/installed  ## the extension in code-server, driven by Chromium; writes docs/editor_end_to_end.md
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'selenium>=4.20' 'pygls>=2.0,<3'
	@$(BIN)/python -m benchmarks.editor_end_to_end .venv/code-server --write

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

wheel: .venv/installed-dev  ## dist/kcheck-*.whl
	@$(BIN)/python -m build --wheel --outdir dist .

clean:  ## remove what make built
	rm -rf .venv .venv-release .conformance-triton .conformance-cuda build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
