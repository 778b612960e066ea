"""Benchmarks, which ``make bench`` and similar targets run. Each module with a function ``main`` is a program."""
