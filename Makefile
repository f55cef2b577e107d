# `make` alone shows what there is. Everything lives in .venv; nothing outside this directory is touched, but that
# `make test` run by root on a machine with apt-get installs Chromium for the tests of the HTML page.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
SETUP := .venv/.setup-done
DEV := .venv/.dev-done
# Where this is set, every process that a test starts would compile the library anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all bench gpu lint docs dist theorem clean browser coq

help: ## Show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(SETUP) ## The environment, in .venv

$(SETUP): pyproject.toml constraints.txt
	@if [ -z "$(PYTHON)" ]; then echo "Python 3.11 or newer is needed, and none was found." \
		"Install one, or name it: make setup PYTHON=/path/to/python3.12" >&2; exit 1; fi
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

demo: setup ## PARITY with five networks, trained to length 40, tested to 4,000: a page to look at
	$(BIN)/lengthwise reproduce demo parity --scale laptop --out runs/demo
	@echo "Open $(CURDIR)/runs/demo/index.html"

test: setup browser ## The tests, but the slow ones, two processes side by side
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-all: setup browser coq ## All tests, in an order drawn from a seed: SEED=7 repeats that of 7
	$(BIN)/python -m pytest -m alone  # first: after half an hour of the others a machine may be slower
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not gpu and not alone" --random-order-seed=$(or $(SEED),$(shell date +%s))

bench: setup ## Timings side by side, each checked for correctness first: RECORD=1 writes benchmarks/results.md
	$(BIN)/python -m benchmarks $(if $(RECORD),--record)

gpu: setup ## The tests that need a GPU, and how much faster replayed steps are on it
	$(BIN)/python -m pytest -m gpu
	$(BIN)/python -m benchmarks replay

$(DEV): $(SETUP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

lint: $(DEV) ## ruff, the formatter's opinion, pyright
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

docs: setup ## The site, in build/site, with every link inside the documents checked
	$(BIN)/python -m pytest tests/test_house.py -k documents
	$(BIN)/python site/build.py build/site

dist: setup ## Wheel and source archive in dist/, the wheel tried in a bare environment
	rm -rf dist build/tools
	$(PYTHON) -m venv build/tools
	build/tools/bin/python -m pip install --quiet --disable-pip-version-check build
	build/tools/bin/python -m build --outdir dist
	$(BIN)/python .ci/smoke.py dist/*.whl

theorem: setup coq ## Coq checks theorems about eleven networks of the zoo, of five kinds: minutes
	@theorem/all.sh $(BIN)/lengthwise build/theorem zoo/*-rnn zoo/parity-gru zoo/parity-lstm zoo/parity-automaton \
		zoo/parity-regular-gpt-compiled

clean: ## Remove caches and builds; .venv and runs stay
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

browser:
	@if [ -z "$$LENGTHWISE_CHROMIUM" ] && ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null \
		&& [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing Chromium for the tests of the page"; \
		{ apt-get install -y -qq chromium || { apt-get update -qq && apt-get install -y -qq chromium; }; } \
			>/dev/null 2>&1 || echo "No Chromium could be installed; those tests will be skipped."; fi

COQ = coq libcoq-flocq libcoq-interval ocaml-findlib libzarith-ocaml-dev

coq:
	@if ! { command -v coqc && ocamlfind query zarith; } >/dev/null 2>&1 \
		&& [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing Coq, Flocq, Interval and zarith for the theorems"; \
		{ apt-get install -y -qq $(COQ) || { apt-get update -qq && apt-get install -y -qq $(COQ); }; } \
			>/dev/null 2>&1 || echo "Coq could not be installed; those tests will be skipped."; fi
