"""Apache's gRPC client for Python, which a process of its own runs: its messages have the names of ours."""
