"""Stored messages and batches, to and from Arrow columns."""
