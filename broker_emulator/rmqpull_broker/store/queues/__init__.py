"""Consume queues: the messages of each queue in chunks, in memory and in queue files."""
