"""Sending: single messages, batches, delayed and transactional messages, and stages."""
