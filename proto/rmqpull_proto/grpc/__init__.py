"""Protocols of gRPC itself, by their protobuf package."""
