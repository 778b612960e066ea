"""gRPC itself: which handler serves which RPC, and how every call enters and leaves."""
