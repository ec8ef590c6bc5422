# `make demo` and `make test` need python3 >= 3.11 with venv, and nothing else.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
# An environment, by a Python that is new enough. One without pip is a leftover: venv failed half way.
OLD := "PACE needs Python 3.11 or later, $(PYTHON) is " + sys.version.split()[0] + ": name another, make PYTHON=python3.11"
VENV = @test -x $(@D)/bin/pip || { \
  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and $(OLD))' && $(PYTHON) -m venv $(@D); }

.PHONY: demo notebook docs dependencies bench test test-slow test-flower test-nvflare test-lowest test-latest faults attacks privacy load fuzz dist lint format clean

demo: .venv/core
	$(BIN)/pace run --out demo --replace

# One federation with pictures, in the browser: docs/walkthrough.md.
notebook: .venv/dev
	$(BIN)/marimo edit examples/walkthrough.py

# The documentation as pages: site/index.html. The variable only silences an advertisement.
docs: .venv/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo "made: site/index.html"

# The picture in docs/architecture.md, from the imports.
dependencies: .venv/dev
	$(BIN)/python -m tests.dependencies

bench: .venv/dev
	$(BIN)/python -m benchmarks

test: .venv/dev lint
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: .venv/dev
	$(BIN)/python -m pytest -m slow

# In an environment of its own: flwr holds typer and rich back, and both old and new must work.
test-flower: .venv-flower/dev
	.venv-flower/bin/python -m pytest -m "not slow" tests/runtimes/flower tests/cli tests/runtimes/test_runtimes.py \
	  tests/runtimes/network/test_conformance.py tests/runtimes/network/test_editions.py

# NVFlare's simulator, and a provisioned federation with TLS.
test-nvflare: .venv-nvflare/dev
	.venv-nvflare/bin/python -m pytest tests/runtimes/nvflare tests/runtimes/network/test_conformance.py

# The oldest and the newest of every dependency, each in an environment of its own: CONTRIBUTING.md
# says with which Pythons. Both install gigabytes: torch there is the package index's, with its GPU libraries.
test-lowest: .venv-lowest/dev
	.venv-lowest/bin/python -m pytest -n 2 -m "not slow"

test-latest: .venv-latest/dev
	.venv-latest/bin/python -m pytest -n 2 -m "not slow"

# The table of faults, from a run of the tests that show them.
faults: .venv/dev
	$(BIN)/python -m pytest -n 2 -m "fault and not slow" --faults=results/tables/faults.md

# Liars against rules of consensus on Cora, backdoors, and the file server under ten thousand uploads.
attacks: .venv/dev
	$(BIN)/python -m benchmarks.attacks

# What a server learns from an upload, and from sums alone: docs/privacy.md.
privacy: .venv/dev
	$(BIN)/python -m benchmarks.privacy

load: .venv/dev
	$(BIN)/python -m benchmarks.load

# A million inputs to every reader of bytes from outside, in eight minutes at most; then a million hostile
# receivers against every gate, in about half an hour.
fuzz: .venv/dev
	$(PIP) --editable '.[fuzz]'
	nice $(BIN)/python fuzz/run.py --runs 1050000 --seconds 480
	nice $(BIN)/python fuzz/gates.py --draws 1000000

# The sdist and the wheel, in dist/.
dist: .venv/dev
	$(BIN)/python -m hatchling build

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/core: pyproject.toml constraints.txt $(wildcard study/pyproject.toml network/pyproject.toml gpu/pyproject.toml)
	$(VENV)
	$(PIP) --editable '.[research,report]' --editable ./study --editable ./network --editable ./gpu
	touch $@

.venv/dev: .venv/core
	$(PIP) --editable '.[dev,docs,research,report,notebook]' --editable './study[tracking]' --editable ./network --editable ./gpu
	touch $@

.venv-flower/dev: pyproject.toml constraints.txt $(wildcard study/pyproject.toml network/pyproject.toml gpu/pyproject.toml)
	$(VENV)
	.venv-flower/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt \
	  --editable '.[dev,research,report]' --editable ./study --editable './network[flower]' --editable ./gpu
	touch $@

.venv-nvflare/dev: pyproject.toml constraints.txt $(wildcard study/pyproject.toml network/pyproject.toml gpu/pyproject.toml)
	$(VENV)
	.venv-nvflare/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt \
	  --editable '.[dev,research,report]' --editable ./study --editable './network[nvflare]' --editable ./gpu
	touch $@

.venv-lowest/dev: pyproject.toml constraints-lowest.txt
	$(VENV)
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet -c constraints-lowest.txt \
	  --only-binary :all: --editable '.[dev,research,report,notebook]' --editable './study[tracking]' --editable ./network --editable ./gpu
	touch $@

.venv-latest/dev: pyproject.toml
	$(VENV)
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet --upgrade --upgrade-strategy eager \
	  --editable '.[dev,research,report,notebook]' --editable './study[tracking]' --editable ./network --editable ./gpu
	touch $@

clean:
	rm -rf .venv .venv-flower .venv-nvflare .venv-lowest .venv-latest demo bench dist site
