"""One coroutine per RPC, named after it; one folder per service. ``grpc.registry`` is the table of all RPCs."""
