"""Benchmarks. The programs are ``bench.suite``, ``bench.gate``, ``bench.stages`` and ``bench.broker_costs``."""
