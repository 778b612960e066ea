# `make` lists the targets. Each of them does the set-up first.

PYTHON := $(CURDIR)/.venv/bin/python
# Arguments for the program that a target runs: make test ARGS="-k offsets"
ARGS :=

# Without PYSPARK_PYTHON, Spark's workers would run the system's python3. The Java home is known only after the set-up.
SPARK_ENV = JAVA_HOME="$$(cat .venv/java-home)" SPARK_CONF_DIR="$(CURDIR)/spark-conf" \
	PYSPARK_PYTHON="$(PYTHON)" PYSPARK_DRIVER_PYTHON="$(PYTHON)"

# An empty PYTHONDONTWRITEBYTECODE lets Python keep compiled modules; otherwise each of the many processes compiles them again.
# OpenBLAS starts a thread per core in every process that loads NumPy, and no code here needs them.
TEST_ENV = PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1

# One process per core, at least two and at most four: each has its own Spark session, which needs about 2 GB.
TEST_PROCESSES = $$(cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores < 2 ? 2 : cores > 4 ? 4 : cores)))

# Python with PySpark VERSION, which has an environment in the user's cache, or with that of .venv. Both use the rmqpull of this checkout.
VERSION :=
# The home of the Java that RUN_SPARK uses, if not that of the set-up.
SPARK_JAVA :=
RUN_SPARK = python=$(if $(VERSION),$$(scripts/spark-environment "$(VERSION)"),"$(PYTHON)") && \
	JAVA_HOME="$(or $(SPARK_JAVA),$$(cat .venv/java-home))" SPARK_CONF_DIR="$(CURDIR)/spark-conf" PYSPARK_PYTHON="$$python" PYSPARK_DRIVER_PYTHON="$$python" \
	PYTHONPATH="$(if $(VERSION),$(CURDIR)/connector:$(CURDIR)/broker_emulator:$(CURDIR)/proto)" "$$python"

.DEFAULT_GOAL := help
.PHONY: help demo demo-apache test test-fast test-apache test-releases test-clients test-large test-packages test-allowed-packages test-pinned-packages test-docker test-spark acceptance fuzz nightly check bench bench-apache bench-quick bench-spark bench-gate bench-costs bench-broker bench-remoting bench-grpc bench-planning bench-proxy bench-shell bench-hostile soak soak-commits proto readme wheel set-up clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: set-up ## stream real flights through the broker into Spark and verify the result (under 90 seconds)
	@$(SPARK_ENV) "$(PYTHON)" -m demo.flights $(ARGS)

# The first run fetches Apache RocketMQ with Maven into the user's cache.
demo-apache: set-up ## do the same with Apache's own broker and producer, which Maven fetches (under 2 minutes)
	@scripts/set-up maven
	@$(SPARK_ENV) "$(PYTHON)" -m demo.flights --server apache --output build/demo-apache $(ARGS)

# The processes take one file after the other, in the order of tests/conftest.py. ARGS="--numprocesses 0" uses one process, for a debugger.
test: set-up ## run the tests with real Spark and our own broker, except long ones (11 minutes on two cores)
	@$(TEST_ENV) $(SPARK_ENV) "$(PYTHON)" -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder $(ARGS)

# Hypothesis tries fewer examples than in `make test`. The processes share single tests, not whole files.
test-fast: set-up ## run the tests that start no Spark and no other process (two minutes on two cores)
	@$(TEST_ENV) "$(PYTHON)" -m pytest --numprocesses $(TEST_PROCESSES) --dist worksteal -m "not processes and not large and not nightly" --hypothesis-profile fast $(ARGS)

# Each test process starts the servers that its tests need: about 0.5 GB. Many tests wait, so there are more of these processes than cores. All releases speak the same protocol, so releases other than 5.5
# run only the tests of the client and the main ones of source and sink. With ARGS, all releases run the tests that ARGS name. .ci/nightly runs other releases.
APACHE_RELEASES ?= 5.5 4.9
APACHE_MAIN_TESTS := tests/proto tests/client tests/processes tests/differential/test_releases.py $(addprefix tests/integration/,test_rows.py test_group.py test_kills.py sink/test_writing.py)
TEST_APACHE = $(TEST_ENV) $(SPARK_ENV) "$(PYTHON)" -m pytest --numprocesses $$(( $(TEST_PROCESSES) * 3 / 2 )) --dist loadfile --no-loadscope-reorder \
	-m "apache and not large and not nightly and not packages"

test-apache: set-up ## run the tests that need a real Apache RocketMQ, which Maven fetches: with 5.5 all but the longest, the main ones with 4.9 (8 minutes on two cores for 5.5)
	@scripts/set-up maven
	@set -e; for release in $(APACHE_RELEASES); do \
		echo "test-apache: RocketMQ $$release"; \
		if [ "$$release" = 5.5 ]; then tests=; else tests="$(APACHE_MAIN_TESTS)"; fi; \
		$(TEST_APACHE) --apache-version "$$release" $(or $(ARGS),$$tests); \
	done

# Each test process has one name server and one broker at a time: 0.5 GB. Releases are fetched once: 0.7 GB in the user's cache.
test-releases: set-up ## start each release of Apache RocketMQ that Maven has in full; write, read and restart its broker (4 minutes on two cores)
	@scripts/set-up maven
	@$(TEST_ENV) $(SPARK_ENV) "$(PYTHON)" -m pytest --numprocesses $(TEST_PROCESSES) --dist load --maxschedchunk 1 -m releases tests/processes/apache/test_releases.py $(ARGS)

# Each test process starts emulators, with ARGS="-m clients" also two real RocketMQs, and a process per release and language of the clients: up to 2 GB.
# A process takes one test after the other: the longest take a minute, and come first. Most tests wait, so there are more of
# these processes than cores.
test-clients: set-up ## run Apache's clients of all languages on the emulator; ARGS="-m clients": also the longest, and on a real RocketMQ, which Maven fetches (4 minutes on two cores)
	@scripts/set-up maven jdk node rust
	@$(TEST_ENV) $(SPARK_ENV) "$(PYTHON)" -m pytest --numprocesses $$(( $(TEST_PROCESSES) * 3 / 2 )) --dist load --maxschedchunk 1 -m "clients and not nightly" --apache-version 5.5 tests/clients $(ARGS)

# Inputs that peers, users and disks may hand to rmqpull: calls, frames, Arrow streams, handles, filters, checkpoints, options, data directories.
# The same seed makes the same inputs; memory is limited, so that an input that makes Python allocate gigabytes fails its test.
fuzz: set-up ## try 10,000 generated inputs on each edge (7 minutes on two cores; ARGS="--hypothesis-seed 7")
	@seed=$$(( $$(date +%s) % 1000000 )); echo "fuzz: --hypothesis-seed $$seed"; ulimit -v 8000000; \
	$(TEST_ENV) "$(PYTHON)" -m pytest --numprocesses $(TEST_PROCESSES) --dist worksteal -m edge --hypothesis-profile fuzz --hypothesis-seed $$seed $(ARGS)

# Another release of PySpark has an environment in the user's cache, on Python 3.10 if there is one, with the oldest packages for 4.0 and 4.1.
# It uses the rmqpull of this checkout. tests/harness/spark_kinds.py says what a release cannot do. TESTS: all, main (what breaks first on a release
# between two tested ones), or first (a dozen tests that break first of all).
TESTS := all
SPARK_TESTS_all := tests/connector/spark_releases tests/connector/lag tests/integration
SPARK_TESTS_main := tests/connector/spark_releases $(addprefix tests/integration/,test_triggers.py test_rows.py test_progress.py test_lag.py sink/test_writing.py)
SPARK_TESTS_first := tests/connector/spark_releases tests/integration/test_triggers.py -k 'not self_join' \
	'tests/integration/test_rows.py::test_the_example_of_the_readme[columns]' \
	tests/integration/sink/test_restored_checkpoints.py::test_a_micro_batch_that_the_broker_has_committed_counts_as_written

test-spark: set-up ## run the tests of source and sink with another PySpark: VERSION=4.1 (4.0, 4.2), TESTS=main, TESTS=first
	@export $(TEST_ENV) && $(RUN_SPARK) -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder $(or $(ARGS),$(SPARK_TESTS_$(TESTS)))

acceptance: set-up ## run the tests of the acceptance cases with PySpark VERSION, or that of .venv, and update docs/acceptance.md
	@export $(TEST_ENV) && $(RUN_SPARK) -m scripts.run_acceptance

# Environments with other releases are made in the user's cache, the first time in a minute each. Both halves wait a lot, so they run side by side.
PACKAGES ?= oldest
test-packages: set-up ## run tests with the oldest packages that setup.py allows, and with those that a platform pins (2 minutes on two cores)
	@scripts/set-up maven
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target test-allowed-packages test-pinned-packages

test-allowed-packages:
	@$(TEST_ENV) "$(PYTHON)" -m scripts.test_packages $(PACKAGES) $(ARGS)

test-pinned-packages:
	@$(TEST_ENV) $(SPARK_ENV) "$(PYTHON)" -m pytest -m "packages and not nightly" --apache-version 5.5 tests/packages

test-large: set-up ## run the large tests, which need gigabytes of disk: 10 million rows to 1,000 topics, exactly once (5 to 10 minutes)
	@$(SPARK_ENV) "$(PYTHON)" -m pytest -m large $(ARGS)

test-docker: wheel ## test the image in a Docker engine, and install and start an engine if possible
	@scripts/test-docker $(ARGS)

nightly: set-up ## run what takes too long before each merge, in parts of less than an hour: ARGS="fuzz audit", ARGS=--list (hours)
	@bash .ci/nightly $(ARGS)

check: set-up ## check style, types, generated files, dependency rules and pages
	@echo "check: ruff check"
	@"$(PYTHON)" -m ruff check --quiet
	@echo "check: ruff format"
	@"$(PYTHON)" -m ruff format --quiet --check
	@echo "check: mypy --strict"
	@"$(PYTHON)" -m mypy --no-error-summary
	@echo "check: generated modules"
	@"$(PYTHON)" -m rmqpull_proto.generate --check
	@echo "check: tables of README and docs"
	@"$(PYTHON)" -m scripts.doc_tables --check
	@"$(PYTHON)" -m scripts.support_tables --check
	@"$(PYTHON)" -m scripts.acceptance_tables --check
	@"$(PYTHON)" -m scripts.performance_page --check
	@echo "check: dependency rules, pages"
	@"$(PYTHON)" -m pytest --quiet -m "not processes and not large and not nightly" tests/tidy tests/docs

bench: set-up ## run all comparisons, those of bench-apache too, and update docs/performance.md (about an hour)
	@$(SPARK_ENV) "$(PYTHON)" -m bench.suite $(ARGS)
	@"$(PYTHON)" -m scripts.performance_page
	@$(if $(ARGS),,$(MAKE) --no-print-directory bench-apache)

bench-apache: set-up ## compare rmqpull on a real Apache RocketMQ with Apache's Java clients, and update docs/performance.md (15 minutes)
	@scripts/set-up maven
	@$(SPARK_ENV) "$(PYTHON)" -m bench.suite --apache $(ARGS)
	@"$(PYTHON)" -m scripts.performance_page

bench-quick: set-up ## run the most important benchmarks with smaller sizes (under 5 minutes)
	@$(SPARK_ENV) "$(PYTHON)" -m bench.suite --quick $(ARGS)

bench-spark: set-up ## compare rmqpull on PySpark 4.0, 4.1 and the newest, beside Spark's Kafka source, and update docs/performance.md
	@$(SPARK_ENV) "$(PYTHON)" -m bench.spark_releases $(ARGS)
	@"$(PYTHON)" -m scripts.performance_page

bench-gate: set-up ## fail if reads have become slower, relative to a bare transfer (about 3 minutes)
	@$(SPARK_ENV) "$(PYTHON)" -m bench.gate $(ARGS)

bench-costs: set-up ## show the processor time of each process during a read
	@$(SPARK_ENV) "$(PYTHON)" -m bench.read_costs $(ARGS)

bench-broker: set-up ## measure the broker alone: start, sends, pulls, parked pulls, stop, large topics, recovery (about 5 minutes); then bench-remoting and bench-grpc
	@"$(PYTHON)" -m bench.broker_costs $(ARGS)
	@$(if $(ARGS),,$(MAKE) --no-print-directory bench-remoting bench-grpc)

bench-remoting: set-up ## compare the broker with Apache's, both under Apache's Java clients, and update docs/performance.md (under 8 minutes)
	@scripts/set-up maven
	@"$(PYTHON)" -m bench.remoting $(ARGS)
	@"$(PYTHON)" -m scripts.performance_page

bench-grpc: set-up ## compare the broker with Apache's proxy, both under Apache's Java client for gRPC, and update docs/performance.md (about 5 minutes)
	@scripts/set-up maven jdk
	@"$(PYTHON)" -m bench.grpc_clients $(ARGS)
	@"$(PYTHON)" -m scripts.performance_page

bench-proxy: set-up ## compare reads through Apache's proxy with Java's consumer there and with the broker itself, and update docs/performance.md (not timed)
	@scripts/set-up maven
	@"$(PYTHON)" -m bench.proxy $(ARGS)
	@"$(PYTHON)" -m scripts.performance_page

bench-shell: set-up ## compare the commands of rmqpull with mqadmin's, measure exports of a real Apache RocketMQ, and update docs/performance.md (about 6 minutes)
	@scripts/set-up maven
	@"$(PYTHON)" -m bench.shell $(ARGS)
	@"$(PYTHON)" -m scripts.performance_page

bench-planning: set-up ## show what witnesses cost when micro-batches are planned, on our broker and on Apache's, and update docs/performance.md (under 4 minutes)
	@scripts/set-up maven
	@"$(PYTHON)" -m bench.planning $(ARGS)
	@"$(PYTHON)" -m scripts.performance_page

bench-hostile: set-up ## attack the broker beside a healthy Java client, kill it meanwhile, and update docs/hostile.md (about 30 minutes; ARGS="--attacks churn,pulls --seconds 3")
	@scripts/set-up maven
	@"$(PYTHON)" -m bench.hostile $(ARGS)
	@"$(PYTHON)" -m scripts.performance_page

soak: set-up ## kill processes while queries read and write, check the output, and update docs/soak.md (ARGS="--seed 2 --minutes 30"; on Apache RocketMQ: ARGS="--server apache"; through its proxies: ARGS="--server proxy"; with another PySpark: VERSION=4.1)
	@$(RUN_SPARK) -m soak --what source --docs $(ARGS)
	@$(RUN_SPARK) -m soak --what sink --docs $(ARGS)

soak-commits: set-up ## kill a broker 500 times during commits, retention and reads, and check what it has each time (about 25 minutes; ARGS="--seed 2 --kills 50")
	@"$(PYTHON)" -m soak.commits $(ARGS)

proto: set-up ## generate the modules from the .proto files
	@"$(PYTHON)" -m rmqpull_proto.generate

readme: set-up ## generate the tables of README and docs from the code
	@"$(PYTHON)" -m scripts.doc_tables
	@"$(PYTHON)" -m scripts.support_tables
	@"$(PYTHON)" -m scripts.acceptance_tables
	@"$(PYTHON)" -m scripts.performance_page

wheel: set-up ## build a wheel in dist/
	@"$(PYTHON)" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@echo "wheel: $$(ls -t dist/*.whl | head -n 1)"

set-up: ## create the environment; the other targets call it
	@scripts/set-up

clean: ## remove the environment and everything that is generated
	@rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
