# A newcomer needs only `make run` and `make test`: both install everything first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
CHECKS := $(VENV)/.checks
# Processes of pytest, and of the compiler: three for two cores, because some tests wait.
WORKERS ?= 3
# Of `make run`, for example make run FLAGS='--dialect kubernetes'.
FLAGS ?=
# Of `make conformance`: that requests go through.
TRANSPORT ?= http1

.PHONY: help setup installed man run cluster test test-others failed-again coverage hooks test-programs test-etcd faults-etcd browser-test clients check docs fix bench hops attacks release robustness conformance workloads e2e clean

help:
	@echo "make run          install, then serve on https://127.0.0.1:6443 (data in ./rewound-data)"
	@echo "make cluster      three members of etcd and three nodes on this machine, and what to try with them"
	@echo "make test         install, then run the tests"
	@echo "make failed-again run the tests that failed in the last run, one after the other"
	@echo "make coverage     run the tests of actors and the journal; fail if they run too little of them, or of the last changes"
	@echo "make test-others  run the other tests of make test"
	@echo "make test-programs run the tests of packages, benchmarks, the page, clients (make clients installs them), many processes and faults"
	@echo "make browser-test install Chromium if it is missing, then test the web page in it and take its pictures"
	@echo "make setup        create .venv with the command rewound, and everything for tests and checks"
	@echo "make clients      install kubectl, kopf and clients in Go, JavaScript and Python into .clients, for tests/clients"
	@echo "make check        ruff, mypy --strict, import-linter"
	@echo "make docs         build the site of the documentation into build/site; a warning fails it"
	@echo "make man          write the man pages of all commands into build/man, from their --help"
	@echo "make hooks        let git run ruff, mypy and import-linter before every commit"
	@echo "make fix          format with ruff and apply its fixes"
	@echo "make bench        run the benchmarks; writes JSON, tables and charts"
	@echo "make hops         count the files and functions that a request passes"
	@echo "make attacks      measure what other clients notice while one attacks the server, and how costs grow with what it writes"
	@echo "make release      wheel, source distribution, bill of materials and checksums in dist; the same bytes every time"
	@echo "make robustness   the long form of tests: 1,000 kills, 12,000 flipped bits, 3,000 power losses, and many random examples"
	@echo "make test-etcd    the tests of the API on a journal that etcd orders"
	@echo "make faults-etcd  200 rounds of random faults of three nodes and three members of etcd, or FAULTS=n"
	@echo "make workloads    play all recorded stories of workloads, with played and with simulated nodes"
	@echo "make e2e          run Kubernetes' own conformance tests on simulated nodes; E2E_TEST is the path of its e2e.test"
	@echo "make conformance  replay recorded conversations and cases from ../shared, TRANSPORT=http1, http2, asgi-http1, asgi-http2, asgi-http3, workers or etcd"

# A newer pip takes half the time: it compares names of files in the index with the platform faster. setuptools builds the
# package; pip would install it for every build again, if this environment had none.
PIP := install --quiet --disable-pip-version-check --no-compile
TOOLS := $(PIP) --upgrade pip 'setuptools>=77'
INSTALL := PYTHONWARNINGS=ignore $(BIN)/python -m pip $(PIP) --no-build-isolation --editable
# The pip of PYTHON installs a new one in half the time that venv takes for an old one. Not every Python has a pip that can.
CREATE := $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python $(TOOLS) 2> $(VENV)/.pip
CREATE_WITH_OLD_PIP := $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip $(TOOLS)
# pip compiles with one processor, and also what no test imports: a sixth of the installation. Packages may hold files
# that this Python cannot compile; nothing imports them.
COMPILED_ON_USE := /(mypyc?|pip|setuptools|pkg_resources|pygments/lexers)/
COMPILE := $(BIN)/python -m compileall -q -j $(WORKERS) -x '$(COMPILED_ON_USE)' $(VENV)/lib > $(VENV)/.compiled 2>&1 || true
$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Rewound needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python3.11"; exit 1; }
	$(CREATE) || { $(CREATE_WITH_OLD_PIP); }
	$(BIN)/python -m compileall -q rewound & $(INSTALL) '.[test]' && wait
	@$(COMPILE)
	@touch $@

# What `make check` needs and no test.
$(CHECKS): $(STAMP)
	$(INSTALL) '.[dev]'
	@$(COMPILE)
	@touch $@

# Compile the packages, as pip does for what it installs: with PYTHONDONTWRITEBYTECODE, every start would compile
# all modules again and take twice as long.
installed: $(STAMP)
	@$(BIN)/python -m compileall -q -j $(WORKERS) rewound

setup: installed $(CHECKS)

# The site of the documentation. The list of decisions is made from the files, so that a new one needs no other change.
SITE := $(VENV)/.site
$(SITE): $(STAMP)
	$(INSTALL) '.[docs]'
	@touch $@

docs: $(SITE)
	$(BIN)/python -m sphinx --builder html --conf-dir docs/site --doctree-dir $(VENV)/doctrees --jobs auto \
		--fail-on-warning --keep-going --quiet . build/site

man: installed
	$(BIN)/python -m rewound.cli.man build/man

run: installed
	$(BIN)/rewound serve $(FLAGS)

# Needs etcd (Debian: etcd-server); the server says how to install it.
cluster: installed
	$(BIN)/python -m tests.local_cluster

# pytest compiles the tests with their assertions rewritten; what it stores saves the next run some ten seconds. It knows
# the number of files, not of tests, and cannot print how much is done.
test: installed
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) -p tests.whole_files -o console_output_style=classic \
		-m "not slow" tests $(PROGRAMS:%=--ignore=%) $(LEFT_OUT:%=--ignore=%)

# For .ci/run: the tests that `make coverage` does not run.
test-others: LEFT_OUT = $(COVERED)
test-others: test

# The tests that failed in the last run, one after the other. One that passes here needs an idle machine: mend it.
FAILED := $(BIN)/python -m pytest --last-failed --last-failed-no-failures none -m "not slow" tests
failed-again: installed
	$(FAILED)

# The tests of actors and the journal, some stories of workloads, and their code: .ci/covered.py says why. Tests that
# count calls would count those of slipcover, and run by themselves. A test that fails runs once more, without slipcover.
# BASE is the commit that changes are compared with.
COVERED := tests/actors tests/journal tests/stories
COUNTING := tests/actors/admission/webhooks/test_webhook_matching.py tests/actors/kinds/structural/test_hostile_schemas.py \
	tests/actors/kinds/test_all_rules_are_linear.py tests/actors/kinds/test_rules_are_linear.py \
	tests/actors/kinds/test_error_sizes.py
BASE ?=
coverage: setup
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m slipcover --source rewound --json --out $(VENV)/coverage.json -m pytest \
		-p slipcover.pytest_plugin -n $(WORKERS) -m "not slow" $(COVERED) $(COUNTING:%=--ignore=%) \
		|| $(FAILED)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) -m "not slow" $(COUNTING) \
		|| $(FAILED)
	$(BIN)/python .ci/covered.py $(VENV)/coverage.json $(BASE:%=--base %)

# What surrounds the server, and what kills it: packages, benchmarks, clients and examples in other languages, the page in
# a browser, the fixture and envtest with test runs of their own, servers, recorders and commands as processes, several
# machines, faults.
PROGRAMS := tests/api/server tests/benchmarks tests/browser tests/clients tests/cli/journal tests/cli/local tests/cluster \
	tests/recording/flight tests/recording/record tests/recording/replay tests/recording/rules tests/testing/envtest \
	tests/testing/explore tests/testing/fixture tests/workers tests/robustness tests/test_commands_of_pages.py \
	tests/test_deploy.py tests/test_distribution.py
test-programs: installed
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) -m "not slow" $(PROGRAMS)

# Every server of these tests has a journal that an etcd in memory orders.
test-etcd: installed
	REWOUND_TESTS_ETCD=memory $(BIN)/python -m pytest -n $(WORKERS) -m "not slow" tests/api

# Needs etcd (Debian: etcd-server).
FAULTS ?= 200
faults-etcd: installed
	REWOUND_ETCD_ROUNDS=$(FAULTS) $(BIN)/python -m pytest -q -s tests/robustness/test_etcd_faults.py

# Chromium of the distribution, if there is none, and certutil, which adds client certificates: apt-get needs root.
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
browser-test: installed
	@command -v chromium chromium-browser google-chrome-stable google-chrome > /dev/null \
		|| { $(SUDO) apt-get update -q && $(SUDO) apt-get install -y -q --no-install-recommends chromium; }
	@command -v certutil pk12util > /dev/null \
		|| { $(SUDO) apt-get update -q && $(SUDO) apt-get install -y -q --no-install-recommends libnss3-tools; }
	JOURNAL_PAGE_PICTURES=$(CURDIR)/docs/images $(BIN)/python -m pytest tests/browser

# All at once, each of which may fail by itself: the tests of a client that is missing are skipped.
clients: installed
	@$(MAKE) --no-print-directory -j4 -k -f tests/clients/install.mk

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

hooks: setup
	$(BIN)/pre-commit install

fix: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m tests.actors.versions.documented

# Our server, beside that of the last version in the same run; BEFORE= measures this one alone.
BEFORE ?= release
bench: installed
	$(BIN)/python -m benchmarks.run $(BEFORE:%=--before %) $(FLAGS)

# --show prints every function.
hops: installed
	$(BIN)/python -m benchmarks.hops $(FLAGS)

attacks: installed
	$(BIN)/python -m benchmarks.attacks
	$(BIN)/python -m benchmarks.attacks.growth

# .ci/release.py says what the bytes depend on.
release: installed
	$(BIN)/python .ci/release.py

robustness: installed
	$(BIN)/python -m pytest -m slow tests
	$(BIN)/python -m pytest -n $(WORKERS) -m hypothesis --hypothesis-profile thorough tests

workloads: installed
	$(BIN)/python -m pytest -n $(WORKERS) -m "" tests/stories \
		|| $(BIN)/python -m pytest --last-failed --last-failed-no-failures none -m "" tests/stories

# FLAGS may be --focus PATTERN, or --processes N.
E2E_TEST ?=
e2e: installed
	@test -n "$(E2E_TEST)" || { echo "make e2e E2E_TEST=.../kubernetes/test/bin/e2e.test: docs/nodes.md says where it is from"; exit 1; }
	$(BIN)/python -m tests.conformance.e2e $(E2E_TEST) $(FLAGS)

conformance: installed
	$(BIN)/python tests/conformance/hold.py ../shared/conformance --transport $(TRANSPORT)
	$(BIN)/python tests/conformance/hold.py ../shared/conformance --transport $(TRANSPORT) --kubernetes 1.30
	$(BIN)/python tests/conformance/hold.py ../shared/conformance --transport $(TRANSPORT) --kubernetes 1.36
	$(BIN)/python -m tests.conformance.pod_security ../shared/reference/podsecurity
	$(BIN)/python -m tests.conformance.cel ../shared/reference/cel
	$(BIN)/python -m tests.conformance.versions ../shared/reference/versions

clean:
	rm -rf $(VENV) .clients build *.egg-info .mypy_cache .ruff_cache .pytest_cache
