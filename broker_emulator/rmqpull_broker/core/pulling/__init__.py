"""Pulling: the checks and the results of a pull, parked pulls, and consumer offsets."""
