"""Stores of consumer offsets: on the broker, or in the local file of a broadcasting group (rules 1.11)."""
