# The only commands that a human types; `make` lists them.
# Needs make, git and Python >= 3.11. The rest comes on demand: Python packages from hash locks
# into .venv, Java and Kafka into .local. After the first time nothing needs a network.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(shell command -v $(p))))
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
SPARK := $(VENV)/.spark
PIP := $(PY) -m pip --quiet --disable-pip-version-check
LOCK := .local/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock"
COMPOSE := .local/compose/docker-compose
COMPOSE_VERSION := v2.40.3

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## the environment, from the hash lock; once

$(READY): requirements/dev.lock pyproject.toml
	@if [ -z "$(PYTHON)" ] || ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		echo "error: make setup needs Python >= 3.11; found: $${PYTHON:-$(PYTHON)}." \
			"Install it, or run: make setup PYTHON=/path/to/python3.11" >&2; exit 1; fi
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
		echo "error: $(PYTHON) cannot make $(VENV); on Debian it needs python3-venv." >&2; exit 1; }
	@echo "installing the locked packages into $(VENV)"
	@$(PIP) install --require-hashes --requirement requirements/dev.lock
	@$(PIP) install --no-deps --no-index --no-build-isolation --editable .
	@touch $(READY)

.PHONY: brokers
brokers: $(READY) ## Java and Kafka, which all that follows starts; once, not within a test's time
	@$(PY) -m services.install kafka > /dev/null
	@$(PY) -m services.install kafka 3.9.1 > /dev/null

.PHONY: demo
demo: $(SPARK) brokers ## two real regions, both fleets, live traffic, judged; says where to look
	@$(PY) -m tests.demo up

.PHONY: demo-down
demo-down: $(READY) ## stop all of it
	@$(PY) -m tests.demo down

ALONE := tests/faults/worker tests/integration/workers tests/integration/standby
QUICK := tests/unit tests/architecture
APART := $(QUICK) $(ALONE) tests/spark tests/integration/checkpoint tests/integration/security \
	tests/integration/pipe tests/integration/lag tests/integration/console tests/integration/telemetry \
	tests/integration/health tests/observability tests/integration/following tests/integration/loss \
	tests/versions tests/scenarios tests/faults/regions tests/faults/neighbours tests/faults/versions \
	tests/faults/far

CUT := tests/faults/worker/test_cuts.py
SHORT := tests/faults/regions tests/faults/versions/test_matrix.py
QUOTA := tests/integration/mirror/test_throttled.py

# what needs no brokers by two processes, while two fleets wait for long; other brokers have the machine
# to themselves: beside other tests some found a marker or a batch a moment too late

.PHONY: test
test: brokers ## the tests, on real brokers, and the short drills of workers and brokers under load
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target test-quick test-cut test-quota
	@time $(PY) -m pytest tests $(APART:%=--ignore=%) --ignore=$(QUOTA) --durations=10
	@time $(PY) -m pytest $(ALONE) $(SHORT) --ignore=$(CUT) -m 'not long and not apart' --durations=10

.PHONY: test-quick
test-quick: brokers ## what needs no brokers
	@time nice $(PY) -m pytest $(QUICK) -n 2 --no-loadscope-reorder

.PHONY: test-cut
test-cut: brokers ## a source that is cut off for two minutes
	@time $(PY) -m pytest $(CUT)

.PHONY: test-quota
test-quota: brokers ## a backlog under a low quota of the target
	@time $(PY) -m pytest $(QUOTA)

.PHONY: test-security
test-security: brokers ## every mechanism and every refusal, on regions of their own
	@time $(PY) -m pytest tests/integration/security --durations=10

.PHONY: test-offsets
test-offsets: brokers ## groups moved between regions, the offset map packed
	@time $(PY) -m pytest tests/integration/checkpoint --durations=10

.PHONY: test-following
test-following: brokers ## configs, ACLs and partitions followed, planned and applied, with few rights
	@time $(PY) -m pytest tests/integration/following -rA --durations=10

.PHONY: test-lag
test-lag: brokers ## lag against the truth, while the mirror lives, stops, crawls and refuses
	@time $(PY) -m pytest tests/integration/lag -rA --durations=10

.PHONY: test-pipe
test-pipe: $(SPARK) brokers ## three regions in a row, read by Kafka's own MirrorClient
	@time $(PY) -m pytest tests/integration/pipe --durations=10

.PHONY: test-console
test-console: brokers ## the console's pages in a real browser
	@$(PY) -m services.install browser > /dev/null
	@time $(PY) -m pytest tests/integration/console --durations=10

.PHONY: test-telemetry
test-telemetry: brokers ## one trace over three regions, and collectors that fail
	@time $(PY) -m pytest tests/integration/telemetry -rA --durations=10

.PHONY: test-health
test-health: brokers ## every service goes red for the fault that it names, and green again
	@time $(PY) -m pytest tests/integration/health --durations=10

.PHONY: test-observability
test-observability: $(READY) ## alert rules and dashboards, on a real Prometheus (Debian's)
	@command -v promtool >/dev/null || { apt-get -qq update \
		&& apt-get -qq install --no-install-recommends prometheus >/dev/null; } || { \
		echo "error: make test-observability needs Prometheus on PATH" >&2; exit 1; }
	@time $(PY) -m pytest tests/observability --durations=10

.PHONY: screenshots
screenshots: brokers ## the console's pages as pictures, from the regions of its tests
	@$(PY) -m services.install browser > /dev/null
	@mkdir -p .local/screenshots
	@MIRRORFLEET_SCREENSHOTS=.local/screenshots $(PY) -m pytest tests/integration/console -q
	@cd .local/screenshots && cp estate.png estate-dark.png link.png partition.png \
		partition-faulted.png group.png translate.png ../../docs/screenshots/

.PHONY: test-workers
test-workers: brokers ## workers and standbys that join, leave, die and oversleep under load
	@time $(PY) -m pytest $(ALONE) -m 'not long' -s --durations=10

.PHONY: test-versions
test-versions: brokers ## versions against each other, ends of epochs, two builds, replicas by rack
	@time $(PY) -m pytest tests/versions tests/faults/versions -m 'not long' -rA --durations=10

.PHONY: test-scenarios
test-scenarios: brokers ## situations that operators of MirrorMaker 2 meet, one by one
	@time $(PY) -m pytest tests/scenarios -rA --durations=0

ELECTIONS := tests/integration/loss/test_elections.py tests/integration/loss/test_positions_cut.py

# two halves, which may run beside each other: they have regions of their own
.PHONY: test-loss
test-loss: test-elections test-histories ## each loss of history on either side: exact range, every policy, every way out

.PHONY: test-elections
test-elections: brokers ## what unclean elections take, on regions of three brokers
	@time $(PY) -m pytest $(ELECTIONS) -rA --durations=10

.PHONY: test-histories
test-histories: brokers ## each other loss of history, beside busy neighbours
	@time $(PY) -m pytest tests/integration/loss $(ELECTIONS:%=--ignore=%) -rA --durations=10

.PHONY: spark
spark: $(SPARK) ## Spark and its Kafka connector, from the hash lock; once

$(SPARK): $(READY) requirements/spark.lock
	@echo "installing Spark into $(VENV) (434 MB, once)"
	@$(PIP) install --no-build-isolation --require-hashes --requirement requirements/spark.lock
	@$(PY) -m services.install spark > /dev/null
	@touch $(SPARK)

.PHONY: test-spark
test-spark: $(SPARK) brokers ## the tests of the Spark jobs
	@time $(PY) -m pytest tests/spark --durations=10

.PHONY: check
check: $(READY) ## format, lint, types, layers, sizes; changes nothing
	@$(PY) -m ruff format --check
	@$(PY) -m ruff check
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports --no-cache --no-logo
	@$(PY) -m pytest -q tests/architecture/test_sizes.py

.PHONY: fmt
fmt: $(READY) ## format and fix what can be fixed
	@$(PY) -m ruff format
	@$(PY) -m ruff check --fix

.PHONY: clocks
clocks: ## what moves the clocks of brokers (Debian's libfaketime); once
	@ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || { apt-get -qq update \
		&& apt-get -qq install --no-install-recommends libfaketime >/dev/null; } || { \
		echo "error: drills of clocks need libfaketime: apt-get install libfaketime" >&2; exit 1; }

.PHONY: test-faults
test-faults: brokers clocks ## brokers and networks that fail under load, mostly three brokers a side; short
	@time $(PY) -m pytest tests/faults/regions tests/faults/neighbours -m 'not long' -s --durations=10

.PHONY: test-far
test-far: brokers ## backlog from a source far away, over many connections
	@time $(PY) -m pytest tests/faults/far -m 'not long' -s --durations=10

.PHONY: faults
faults: brokers clocks ## all failure drills in the long form: a minute a fault, promised times; hours
	@MIRRORFLEET_FAULT_SECONDS=60 $(PY) -m pytest tests/faults tests/integration/workers \
		tests/integration/standby tests/integration/loss tests/integration/sync \
		tests/integration/following tests/versions tests/scenarios \
		--durations=0 -rA

.PHONY: soak
soak: brokers ## two hours of load, a random fault every 15 s; SOAK="--seed 7 --rate 1000" repeats one
	@$(PY) -m tests.faults.soak --rate $${MIRRORFLEET_FAULT_RATE:-20000} $(SOAK)

.PHONY: bench
bench: brokers ## the fleet and real MirrorMaker 2 in one run; BENCH=--quick takes five minutes
	@$(PY) -m tests.bench $(BENCH)

.PHONY: local
local: $(READY) ## the two regions only; stop them with `make local-down`
	@$(PY) -m services.local up

.PHONY: local-down
local-down: $(READY) ## stop the two regions
	@$(PY) -m services.local down

.PHONY: broker-env
broker-env: $(READY) ## write the containers' broker settings from the table of the local pair
	@$(PY) -m services.local environment > deploy/config/broker.env

.PHONY: compose-check
compose-check: $(COMPOSE) broker-env ## docker-compose.yml, by Compose itself (built with Go once)
	@$(COMPOSE) -f docker-compose.yml config --quiet && echo "docker-compose.yml: valid"

$(COMPOSE):
	@command -v go >/dev/null || { echo "error: building Compose needs Go on PATH" >&2; exit 1; }
	@mkdir -p $(@D)/module
	@cd $(@D)/module && { [ -f go.mod ] || go mod init compose; } \
		&& go get -tool github.com/docker/compose/v2/cmd@$(COMPOSE_VERSION) \
		&& go build -o ../docker-compose github.com/docker/compose/v2/cmd

.PHONY: lock
lock: $(READY) ## resolve the hash locks again
	@[ -x .local/uv/bin/uv ] || $(PIP) install --target .local/uv uv
	@$(LOCK) --group dev pyproject.toml --output-file requirements/dev.lock
	@$(LOCK) pyproject.toml --constraints requirements/dev.lock --output-file requirements/base.lock
	@$(LOCK) --extra spark pyproject.toml --constraints requirements/dev.lock \
		--output-file requirements/spark.lock
	@$(LOCK) requirements/jre.in --output-file requirements/jre.lock
	@$(LOCK) --no-deps requirements/ivy.in --output-file requirements/ivy.lock

.PHONY: clean
clean: ## remove everything that was made: brokers, environment, downloads, caches
	@if [ ! -e $(READY) ]; then for found in .local/*/*/region.json .local/demo/processes.json; do \
		[ ! -e "$$found" ] || { echo "error: what $$found tells of may run: first make demo-down local-down" >&2; exit 1; }; done; fi
	@if [ -e $(READY) ]; then $(PY) -m tests.demo down; for found in .local/*/*/region.json; do \
		[ ! -e "$$found" ] || $(PY) -m services.local down --name "$$(basename "$${found%/*/*}")"; done; fi
	@rm -rf $(VENV) .local .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
