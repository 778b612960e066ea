"""Protobuf messages to and from the core's own types, and status codes."""
