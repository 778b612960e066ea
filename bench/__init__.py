"""Benchmarks: programs that ``make bench`` and its like run. Each module with a function ``main`` is one."""
