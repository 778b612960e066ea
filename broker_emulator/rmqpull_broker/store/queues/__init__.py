"""Consume queues: chunks of rows in columns, in memory and in queue files."""
