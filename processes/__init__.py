"""Starts, watches and ends processes, for demo, bench, soak and tests: brokers, Spark programs, JVMs. Not shipped."""
