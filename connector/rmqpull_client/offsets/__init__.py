"""Consumer offsets: on the broker, or in a broadcasting group's local file."""
