"""Sends: queues of rows, requests, and what is sent again."""
