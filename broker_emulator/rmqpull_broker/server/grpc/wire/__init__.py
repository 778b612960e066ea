"""Converts protobuf messages to and from the core's types, and errors to status codes; limits of requests."""
