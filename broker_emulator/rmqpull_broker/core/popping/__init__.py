"""Pop: messages that a group acknowledges one by one, and that are redelivered if it does not (rules 3.17)."""
