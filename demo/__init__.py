"""A year of real flights through the broker into Spark, verified: ``make demo`` or ``python -m demo.flights``."""
