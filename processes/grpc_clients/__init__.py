"""Apache's gRPC clients as processes: one program per language, and all of them understand the same calls."""
