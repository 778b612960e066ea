"""Protocols of Apache, by their protobuf package."""
