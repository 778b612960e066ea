"""Connections to name servers and brokers, and requests over them."""
