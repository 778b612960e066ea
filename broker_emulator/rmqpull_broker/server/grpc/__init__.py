"""The gRPC protocol: its ports, the table of RPCs, their handlers and the form of messages, and gRPC's own services."""
