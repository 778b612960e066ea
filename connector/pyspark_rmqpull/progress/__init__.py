"""Consumer offsets set after each finished micro-batch."""
