"""Programs that use Apache's clients: classic ones in Java and Go, gRPC ones in four languages."""
