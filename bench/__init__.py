"""Benchmarks. The programs are ``bench.suite``, ``bench.gate``, ``bench.read_costs`` and ``bench.broker_costs``."""
