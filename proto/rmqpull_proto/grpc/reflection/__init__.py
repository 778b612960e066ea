"""Protocols of gRPC's reflection."""
