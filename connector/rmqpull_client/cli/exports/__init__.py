"""Exports of topics to files: their plan, and how a piece of a queue becomes a file."""
