"""Copies of messages from topic to topic."""
