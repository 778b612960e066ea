# `make` lists what there is to make. Every target brings its own set-up.

PYTHON := $(CURDIR)/.venv/bin/python
# A further argument for the demo or for pytest: make test ARGS="-k offsets"
ARGS :=

# Spark's workers run in this environment too, and not in the system's python3. The Java home is known only after the set-up.
SPARK_ENV = JAVA_HOME="$$(cat .venv/java-home)" SPARK_CONF_DIR="$(CURDIR)/spark-conf" \
	PYSPARK_PYTHON="$(PYTHON)" PYSPARK_DRIVER_PYTHON="$(PYTHON)"

# Each of the many processes of the tests would compile its modules anew, and pytest all tests, for who forbids to keep what was compiled.
# OpenBLAS starts a thread for each core in every process that loads NumPy, and none of ours multiplies matrices.
TEST_ENV = PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1

# As many as there are cores, but two at least and four at most: each has a Spark session of its own, which takes about 2 GB.
TEST_PROCESSES = $$(cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores < 2 ? 2 : cores > 4 ? 4 : cores)))

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-large test-docker check bench bench-quick bench-gate bench-stages bench-broker soak proto readme wheel set-up clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: set-up ## real flights through the broker into Spark, verified (under 90 seconds)
	@$(SPARK_ENV) "$(PYTHON)" -m demo.flights $(ARGS)

# That many processes take file after file, in the order of tests/conftest.py; ARGS="--numprocesses 0" for one, as a debugger needs it.
test: set-up ## all tests but the large ones
	@$(TEST_ENV) $(SPARK_ENV) "$(PYTHON)" -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder $(ARGS)

# Fewer examples of each property than in `make test`. No file waits for another one here, so single tests are shared out.
test-fast: set-up ## the tests that start no process: no Spark, no broker beside the tests (about a minute)
	@$(TEST_ENV) "$(PYTHON)" -m pytest --numprocesses $(TEST_PROCESSES) --dist worksteal -m "not processes and not large" --hypothesis-profile fast $(ARGS)

test-large: set-up ## what takes minutes and gigabytes of disk: 10 million rows to 1,000 topics, exactly once (5 to 10 minutes)
	@$(SPARK_ENV) "$(PYTHON)" -m pytest -m large $(ARGS)

test-docker: wheel ## the image in a Docker engine, which is installed and started where that is possible
	@scripts/test-docker $(ARGS)

check: set-up ## ruff, mypy --strict, generated modules, dependency rules
	@echo "check: ruff check"
	@"$(PYTHON)" -m ruff check --quiet
	@echo "check: ruff format"
	@"$(PYTHON)" -m ruff format --quiet --check
	@echo "check: mypy --strict"
	@"$(PYTHON)" -m mypy --no-error-summary
	@echo "check: generated modules"
	@"$(PYTHON)" -m rmqpull_proto.generate --check
	@echo "check: tables of README and docs"
	@"$(PYTHON)" -m scripts.readme_tables --check
	@"$(PYTHON)" -m scripts.support_tables --check
	@"$(PYTHON)" -m scripts.acceptance_tables --check
	@"$(PYTHON)" -m scripts.performance_page --check
	@echo "check: dependency rules"
	@"$(PYTHON)" -m pytest --quiet tests/tidy

bench: set-up ## rmqpull beside Kafka, the engine's ceiling and Arrow Flight, into docs/performance.md (about half an hour)
	@$(SPARK_ENV) "$(PYTHON)" -m bench.suite $(ARGS)
	@"$(PYTHON)" -m scripts.performance_page

bench-quick: set-up ## the most telling of it with smaller sizes (under 5 minutes)
	@$(SPARK_ENV) "$(PYTHON)" -m bench.suite --quick $(ARGS)

bench-gate: set-up ## whether reads have become slower, by their ratio to the engine's ceiling (about 2 minutes)
	@$(SPARK_ENV) "$(PYTHON)" -m bench.gate $(ARGS)

bench-stages: set-up ## where the time of a read goes: processor time of each process
	@$(SPARK_ENV) "$(PYTHON)" -m bench.stages $(ARGS)

bench-broker: set-up ## the broker by itself: start, sends, pulls, parked pulls, stop, large topics, recovery (about 5 minutes)
	@"$(PYTHON)" -m bench.broker_costs $(ARGS)

soak: set-up ## hundreds of kills while a query reads, and hundreds while one writes; is the output exactly once? Adds to docs/soak.md (ARGS="--seed 2 --minutes 30")
	@$(SPARK_ENV) "$(PYTHON)" -m soak --what source --docs $(ARGS)
	@$(SPARK_ENV) "$(PYTHON)" -m soak --what sink --docs $(ARGS)

proto: set-up ## the generated modules anew, from the .proto files
	@"$(PYTHON)" -m rmqpull_proto.generate

readme: set-up ## the tables of README and docs anew, from the declarations of options, flags, handlers and limits
	@"$(PYTHON)" -m scripts.readme_tables
	@"$(PYTHON)" -m scripts.support_tables
	@"$(PYTHON)" -m scripts.acceptance_tables
	@"$(PYTHON)" -m scripts.performance_page

# Not `rm -rf build`: it also holds the links of the editable install. A stale build/lib would ship modules that were deleted.
wheel: set-up ## a wheel under dist/
	@rm -rf build/lib build/bdist*
	@"$(PYTHON)" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@echo "wheel: $$(ls -t dist/*.whl | head -n 1)"

set-up: ## the environment, once; the other targets call it
	@scripts/set-up

clean: ## back to a fresh clone, without the environment
	@rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
