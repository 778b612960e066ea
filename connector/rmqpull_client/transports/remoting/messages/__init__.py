"""Stored messages and batches as columns: what a client reads from a broker, and sends to it."""
