"""Protocols of gRPC's health checks."""
