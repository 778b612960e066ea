"""One module per RPC, each with one ``answer`` coroutine; ``server.registry`` says which service it belongs to."""
