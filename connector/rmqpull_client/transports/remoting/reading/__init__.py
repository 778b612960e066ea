"""Pulls: their plan, what is in flight, their rows, and waits for messages."""
