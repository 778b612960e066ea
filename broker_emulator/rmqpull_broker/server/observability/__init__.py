"""Metrics pages and log lines."""
