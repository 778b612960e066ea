"""gRPC itself: the table of RPCs, the wrapping of handlers, the options of connections, and gRPC's own services."""
