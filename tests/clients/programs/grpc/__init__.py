"""Apache's gRPC clients, with one program for each language."""
